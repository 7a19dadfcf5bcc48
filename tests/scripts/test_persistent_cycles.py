# SPDX-License-Identifier: Apache-2.0
"""bench/persistent_cycles.py prints medians of a step's cycles, and ends quietly where nobody reads them."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "bench/persistent_cycles.py"
ROWS = "instruction,operator,warp,block,phase,cycles\n" + "".join(
    f"{number},{operator},{warp},0,{phase},{cycles}\n"
    for number, operator in enumerate(("qkv", "mlp", "qkv", "mlp", "logit"))
    for warp in ("computes", "copies")
    for phase, cycles in (("waits", 100), ("works", 300 + 100 * number)))


class PersistentCycles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "cycles.csv"
        self.path.write_text(ROWS, encoding="utf-8")

    def run_script(self, output):
        return subprocess.run([sys.executable, SCRIPT, self.path], text=True, stdout=output, stderr=subprocess.PIPE)

    def test_medians_of_layers_and_operators(self):
        printed = self.run_script(subprocess.PIPE)
        self.assertEqual(printed.stderr, "")
        lines = printed.stdout.splitlines()
        # Layers take 400 + 500 and 600 + 700 cycles, the logits 800: 900, 1300, and 3000 in all.
        self.assertEqual(lines[0], "1 blocks, 2 layers of 1,100 cycles, 3,000 cycles in all")
        self.assertEqual(lines[3].split(), ["qkv", "2", "100", "400", "500", "45%"])

    def test_a_closed_pipe_ends_it_quietly(self):
        read, write = os.pipe()
        os.close(read)
        ended = self.run_script(write)
        os.close(write)
        self.assertEqual(ended.stderr, "")
        self.assertEqual(ended.returncode, -signal.SIGPIPE)


if __name__ == "__main__":
    unittest.main()
