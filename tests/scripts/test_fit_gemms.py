# SPDX-License-Identifier: Apache-2.0
"""scripts/fit_gemms.py finds a device whose times the model made, and fits to no row that is held out."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts/fit_gemms.py"
PROGRAM = os.environ["HEADROOM_GEMM_TIMES"]
SPEC = importlib.util.spec_from_file_location("fit_gemms", SCRIPT)
fit_gemms = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fit_gemms)
HEAD = "device,kind,dtype,m,n,k,batch,transpose_a,transpose_b,time_ns,l2,part,source\n"
SIZES = [(m, n, k) for m in (16, 512, 8192) for n in (1024, 4096, 28672) for k in (1024, 8192)]


def made_times(device):
    """The times that the model gives a device, cold and in a burst."""
    rows = [{"dtype": "bf16", "m": m, "n": n, "k": k, "batch": 1, "transpose_a": 0, "transpose_b": 1, "clock": 1, "cache": 0}
            for m, n, k in SIZES]
    model = fit_gemms.Model(PROGRAM, rows)
    times = model.times(device)
    model.close()
    return times


def table(times, part):
    lines = [f"mi300x,gemm,bf16,{m},{n},{k},1,0,1,{time:.0f},cold,{part(n, k)},made\n" for (m, n, k), time in zip(SIZES, times)]
    return HEAD + "".join(lines)


def run(text, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "times.csv"
        path.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, "--program", PROGRAM, "--csv", path, *arguments], text=True, capture_output=True)


class FitGemms(unittest.TestCase):
    def test_the_device_that_made_the_times_is_found(self):
        device = fit_gemms.load("mi300x")
        device["library_share"]["bf16"] *= 0.7
        printed = run(table(made_times(device), fit_gemms.part_of), "mi300x")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        errors = [float(row.split("|")[5].strip(" %")) for row in printed.stdout.splitlines() if "held out" in row]
        self.assertTrue(errors)
        self.assertLess(max(errors), 2)

    def test_held_out_rows_change_nothing(self):
        times = made_times(fit_gemms.load("mi300x"))
        twice = [time if fit_gemms.part_of(n, k) == "fit" else 2 * time for (_, n, k), time in zip(SIZES, times)]
        fitted = [[row for row in run(table(made, fit_gemms.part_of), "mi300x").stdout.splitlines() if "| fit |" in row]
                  for made in (times, twice)]
        self.assertTrue(fitted[0])
        self.assertEqual(fitted[0], fitted[1])

    def test_a_device_without_rows_is_named(self):
        printed = run(HEAD, "mi300x")
        self.assertNotEqual(printed.returncode, 0)
        self.assertIn("no rows of mi300x", printed.stderr)

    def test_a_field_is_replaced_or_added_with_its_source(self):
        text = '{\n  "launch_ns": 5,\n  "tiles": [\n    {"m": 1}\n  ],\n  "sources": {\n    "launch_ns": "a, b"\n  }\n}\n'
        text = fit_gemms.set_field(text, "tiles", "[\n    {\"m\": 2}\n  ]")
        text = fit_gemms.set_source(fit_gemms.set_field(text, "reach", "3"), "reach", "fitted")
        device = json.loads(fit_gemms.set_source(text, "launch_ns", "c"))
        self.assertEqual(device, {"launch_ns": 5, "reach": 3, "tiles": [{"m": 2}], "sources": {"reach": "fitted", "launch_ns": "c"}})


if __name__ == "__main__":
    unittest.main()
