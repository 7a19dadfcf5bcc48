# SPDX-License-Identifier: Apache-2.0
"""scripts/fit_collectives.py finds the rates that made times, and leaves out rows that it says it does not use."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/fit_collectives.py"
HEAD = "# made\ndevice,kind,dtype,gpus,nodes,bytes,time_ns,source\n"


def rows(kind, devices, share, latency, rate, ramp, nodes=1, dtype="fp16", source="nccl-2"):
    """Times of α + τ + γ·√(α·τ) with τ = bytes · share / rate, in bytes per ns."""
    lines = ""
    for power in range(10, 30):
        size = 2**power
        transfer = size * share / rate
        time = latency + transfer + ramp * math.sqrt(latency * transfer)
        lines += f"h200,{kind},{dtype},{devices},{nodes},{size},{time:.0f},{source}\n"
    return lines


def run(text, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "times.csv"
        path.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, "--csv", path, *arguments], text=True, capture_output=True)


class FitCollectives(unittest.TestCase):
    def test_the_rates_that_made_the_times_are_found(self):
        printed = run(HEAD + rows("all_reduce", 8, 1.75, 3000, 500, 2, source="vllm-1") +
                      rows("all_gather", 4, 0.75, 8000, 300, 0))
        self.assertEqual(printed.returncode, 0, printed.stderr)
        name, text = printed.stdout.split("\n", 1)
        self.assertEqual(name, "h200")
        found = json.loads("{" + text.rstrip().rstrip(",") + "}")["collectives"]
        self.assertEqual([(row["kind"], row["devices"]) for row in found], [("all_reduce", 8), ("all_gather", 4)])
        for row, latency, rate, ramp in zip(found, (3000, 8000), (500e9, 300e9), (2, 0)):
            self.assertLess(abs(row["latency_ns"] / latency - 1), 0.02)
            self.assertLess(abs(row["bus_bytes_per_s"] / rate - 1), 0.02)
            self.assertLess(abs(row["ramp"] - ramp), 0.1)
            self.assertEqual(row["error_band"], 0.15)

    def test_rows_of_several_nodes_of_int8_and_of_nccls_all_reduce_are_not_used(self):
        used = rows("all_gather", 2, 0.5, 5000, 300, 1)
        unused = (rows("all_gather", 2, 0.5, 90000, 10, 0, nodes=2) + rows("all_gather", 2, 0.5, 90000, 10, 0, dtype="int8") +
                  rows("all_reduce", 2, 1, 90000, 10, 0))
        self.assertEqual(run(HEAD + used).stdout, run(HEAD + used + unused).stdout)

    def test_a_device_without_rows_is_named(self):
        printed = run(HEAD + rows("all_gather", 2, 0.5, 5000, 300, 1), "a100")
        self.assertEqual(printed.returncode, 1)
        self.assertIn("has no rows of a100", printed.stderr)


if __name__ == "__main__":
    unittest.main()
