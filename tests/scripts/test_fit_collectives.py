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


def found_rates(printed):
    return json.loads("{" + printed.stdout.split("\n", 1)[1].rstrip().rstrip(",") + "}")["collectives"]


class FitCollectives(unittest.TestCase):
    def test_the_rates_that_made_the_times_are_found(self):
        printed = run(HEAD + rows("all_reduce", 8, 1.75, 3000, 500, 2, source="vllm-1") +
                      rows("all_gather", 4, 0.75, 8000, 300, 0), "--own", "/dev/null")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertEqual(printed.stdout.split("\n", 1)[0], "h200")
        found = found_rates(printed)
        self.assertEqual([(row["library"], row["kind"], row["devices"]) for row in found],
                         [("nccl", "all_gather", 4), ("servers", "all_reduce", 8), ("vllm", "all_reduce", 8)])
        for row, latency, rate, ramp in zip(found, (8000, 3000, 3000), (300e9, 500e9, 500e9), (0, 2, 2)):
            self.assertLess(abs(row["latency_ns"] / latency - 1), 0.02)
            self.assertLess(abs(row["bus_bytes_per_s"] / rate - 1), 0.02)
            self.assertLess(abs(row["ramp"] - ramp), 0.1)
            self.assertEqual(row["error_band"], 0.15)

    def test_sizes_that_are_held_out_do_not_matter(self):
        """Every other size: a time there may be anything."""
        used = rows("all_gather", 2, 0.5, 5000, 300, 1)
        lines = used.splitlines(keepends=True)
        wrong = "".join(line if i % 2 == 0 else line.replace(line.split(",")[6], "1") for i, line in enumerate(lines))
        self.assertNotEqual(wrong, used)
        first, second = (found_rates(run(HEAD + text, "--own", "/dev/null"))[0] for text in (used, wrong))
        self.assertEqual(first["latency_ns"], second["latency_ns"])
        self.assertLess(first["error_band"], second["error_band"])

    def test_a_server_has_its_newest_version_and_those_with_the_same_times(self):
        newest = rows("all_reduce", 2, 1, 3000, 300, 0, source="aic-vllm-0.24.0")
        same = "".join(rows("all_reduce", 2, 1, 3100, 300, 0, source=f"aic-vllm-0.{minor}.0") for minor in (18, 19))
        other = rows("all_reduce", 2, 1, 9000, 100, 0, source="aic-vllm-0.9.0")
        alone, both, three = (found_rates(run(HEAD + text, "--own", "/dev/null")) for text in (newest, newest + other, newest + same))
        self.assertEqual([row["latency_ns"] for row in (alone[1], both[1])], [3000, 3000])
        self.assertGreater(both[1]["error_band"], alone[1]["error_band"])
        self.assertEqual(three[1]["latency_ns"], 3100)
        self.assertGreater(both[0]["ramp"], 0)  # of all servers and versions together

    def test_a_server_has_nccls_time_where_that_is_less(self):
        """So its own kernels' rate follows from sizes where they are faster: 100 bytes a ns, and 300 by NCCL from 10 us on."""
        nccl = rows("all_reduce", 2, 1, 10000, 300, 0)
        lines = ""
        for power in range(10, 30):
            time = min(3000 + 2**power / 100, 10000 + 2**power / 300)
            lines += f"h200,all_reduce,fp16,2,1,{2**power},{time:.0f},trtllm-1\n"
        found = {row["library"]: row for row in found_rates(run(HEAD + nccl + lines, "--own", "/dev/null"))}
        self.assertLess(abs(found["trtllm"]["bus_bytes_per_s"] / 100e9 - 1), 0.03)
        self.assertLess(abs(found["trtllm"]["latency_ns"] / 3000 - 1), 0.03)

    def test_deepep_sends_a_token_once_to_each_device(self):
        """4 devices, 2 experts of a token: 1.75 devices · 3/4 · 2 bytes · hidden, at 50 bytes a ns behind 9000 ns."""
        head = "device,source,nodes,gpus,tokens_per_gpu,top_k,hidden,experts,measured_ns\n"
        lines = "".join(f"h200,sglang deepep normal 0.5,1,4,{2**p},2,4096,64,{9000 + 2**p * 8192 * 1.75 * 0.75 / 50:.0f}\n"
                        for p in range(14))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "experts.csv"
            path.write_text(head + lines, encoding="utf-8")
            printed = run(HEAD + rows("all_gather", 2, 0.5, 5000, 300, 1), "--own", "/dev/null", "--experts", path)
        found = found_rates(printed)[-1]
        self.assertEqual((found["library"], found["kind"], found["devices"]), ("deepep_sglang", "all_to_all", 4))
        self.assertLess(abs(found["bus_bytes_per_s"] / 50e9 - 1), 0.02)
        self.assertLess(abs(found["latency_ns"] / 9000 - 1), 0.02)

    def test_rows_of_several_nodes_of_int8_and_of_old_nccl_are_not_used(self):
        used = rows("all_gather", 2, 0.5, 5000, 300, 1)
        unused = (rows("all_gather", 2, 0.5, 90000, 10, 0, nodes=2) + rows("all_gather", 2, 0.5, 90000, 10, 0, dtype="int8") +
                  rows("all_gather", 2, 0.5, 90000, 10, 0, source="aic-nccl-2.23"))
        self.assertEqual(run(HEAD + used).stdout, run(HEAD + used + unused).stdout)

    def test_a_device_without_rows_is_named(self):
        printed = run(HEAD + rows("all_gather", 2, 0.5, 5000, 300, 1), "a100")
        self.assertEqual(printed.returncode, 1)
        self.assertIn("has no rows of a100", printed.stderr)


if __name__ == "__main__":
    unittest.main()
