# SPDX-License-Identifier: Apache-2.0
"""scripts/sigma_elapsed.py sums calls to outputs, finds the break-even, and says what its input lacks."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/sigma_elapsed.py"
# Attention: STD 10 us + 2 ns a token, SIGMA 10 us + 1 ns; Q: 3 and 5 us; the cache: 1 us.
SWEEPS = "sweep,series,axes,status,median_ns\n" + "".join(
    f'sigma-ceet,"{model}, batch 1",case=0 a_k=4 b=1 context={context},ok,{10000 + slope * context}\n'
    for model, slope in (("STD", 2), ("SIGMA", 1)) for context in (1, 100, 40000, 131072)) + (
    "sigma-ceet-q,STD,case=0 in=2048 out=2048 b=1,ok,3000\n"
    "sigma-ceet-q,SIGMA up,case=1 in=2048 out=3072 b=1,ok,2500\n"
    "sigma-ceet-q,SIGMA to heads,case=2 in=3072 out=2048 b=1,ok,2500\n")
PROGRAM = "what,model,batch,prefix,output,ns\ncache,STD,1,9,1,1000\ncache,SIGMA,1,9,1,1000\n"


def run(*texts):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, text in enumerate(texts):
            paths.append(pathlib.Path(folder) / f"{i}.csv")
            paths[-1].write_text(text)
        return subprocess.run([sys.executable, SCRIPT, *paths], text=True, capture_output=True)


class SigmaElapsed(unittest.TestCase):
    def test_outputs_are_sums_over_their_steps(self):
        # 2048 tokens behind 4096, contexts 4097 … 6144, mean 5120.5:
        # STD 26 · 2048 · (3 + 1 + 10 + 10.241 us) = 1290.8 ms; SIGMA 26 · 2048 · (5 + 1 + 10 + 5.1205 us) = 1124.6 ms
        measured = 26 * 2048 * (3000 + 1000 + 10000 + 2 * 5120.5)
        printed = run(SWEEPS, PROGRAM + f"run,STD,1,4096,2048,{measured}\nwaiting,STD,1,4096,2048,5\n")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn("| 2k | 4k | 160 | 266 | 53 | 53 | 1078 | 805 | 1291 | 1125 | +166 | +12.9% |", printed.stdout)
        self.assertIn("| STD | 4096 | 2048 | 1290.8 | 1290.8 | +0.0% |", printed.stdout)

    def test_the_break_even_moves_with_augmented_q(self):
        printed = run(SWEEPS, PROGRAM)
        # The step: 1 ns a token has to pay for 2 us of Q. The output of 2048: contexts above 2000 in the mean, that is
        # prefix + 1024.5 > 2000.
        self.assertIn("| tokens | 2001 | 1 |", printed.stdout)
        self.assertIn("| 2k | 976 | 0 |", printed.stdout)
        self.assertIn("| 4k | 0 | 0 |", printed.stdout)

    def test_other_input_is_refused_in_one_line(self):
        for texts, words in ((["a,b\n1,2\n"], "expected rows of the sweeps"), ([PROGRAM], "no row of attention of STD"),
                             ([SWEEPS], "no row of the cache of STD"), ([SWEEPS.replace("131072", "50000"), PROGRAM],
                                                                        "measured up to 50000")):
            refused = run(*texts)
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(refused.stderr.count("\n"), 1)
            self.assertIn(words, refused.stderr)


if __name__ == "__main__":
    unittest.main()
