# SPDX-License-Identifier: Apache-2.0
"""The examples of Python, run with small sizes: they end well, and what they print is of the right kind."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

from test_transformers_sigma import SIZES

import headroom

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
PACKAGE = pathlib.Path(headroom.__file__).resolve().parents[1]


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments):
        told = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout

    def test_a_model_runs_with_sdpa_and_with_headroom_to_the_same_logits(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "config.json")
            config.write_text(json.dumps({"model_type": "sigma", **SIZES}), encoding="utf-8")
            told = self.run_example("transformers_headroom.py", config, "--tokens", "16", "--new", "2", "--rounds", "1")
        self.assertRegex(told, r"sdpa +prompt +[\d.]+ ms +token +-?[\d.]+ ms\nheadroom +prompt")
        self.assertLess(float(re.search(r"logits differ by (\S+) at most", told)[1]), 2e-4)

    def test_diffqkv_saves_the_bytes_of_the_missing_heads_and_changes_no_result(self):
        told = self.run_example("diffqkv.py", *"--heads 4 --k-heads 1 --v-heads 2 --dim 16 --prompt 32 --steps 3".split())
        self.assertIn("saved: 25.0% of the bytes", told)  # 1 + 2 heads instead of 2 + 2
        differences = re.findall(r"(\S+) from attention of the whole", told)
        self.assertEqual(len(differences), 2)
        self.assertLess(max(map(float, differences)), 2**-6 if torch.cuda.is_available() else 1e-5)  # bf16 there


if __name__ == "__main__":
    unittest.main()
