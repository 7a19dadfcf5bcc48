# SPDX-License-Identifier: Apache-2.0
"""scripts/sigma_times.py puts the paper's times beside the rows of the sweep, and says what other input lacks."""
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/sigma_times.py"
STD = "decode batch=1 q_len=1 kv_len=32774 q_heads=32 k_heads=16 v_heads=16 qk_dim=64 v_dim=64 dtype=bf16 page_size=16"
SIGMA = STD.replace("k_heads=16", "k_heads=4")
HEAD = "series,axes,status,median_ns,problem\n"
ROWS = HEAD + f""""STD, batch 1, part 0",b=1 prefix=32768,ok,30000,{STD}
"STD, batch 1, part 1",b=1 prefix=32768,ok,34000,{STD}
"STD, batch 1, part 2",b=1 prefix=32768,ok,31000,{STD}
"STD, batch 1, part 3",b=1 prefix=32768,ok,4000,{STD}
"STD, batch 16, part 0",b=1 prefix=32768,ok,400000,{STD.replace("batch=1 ", "batch=16 ")}
"SIGMA, batch 1, part 0",b=1 prefix=32768,ok,24000,{SIGMA}
"SIGMA, batch 1, part 2",b=1 prefix=32768,ok,21700,{SIGMA}
"SIGMA, batch 16, part 0",b=1 prefix=32768,out_of_memory,,{SIGMA.replace("batch=1 ", "batch=16 ")}
"""


def run(text, *arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], input=text, text=True, capture_output=True)


class SigmaTimes(unittest.TestCase):
    def test_parts_of_batch_1_stand_beside_the_paper(self):
        printed = run(ROWS, "--bandwidth", "4e12")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        # Bytes of STD: 2·(32774·32·64 + 32·128) = 134,250,496, at 4 TB/s 33.6 us; of SIGMA 2·(32774·20·64 + 32·128) =
        # 83,909,632. The paper's 27.5, 1.99 and 29.5 ms, and 20, 2.01 and 22.1 ms, are over 260 calls.
        self.assertEqual(printed.stdout.splitlines()[2:], [
            "| 1 | 32768 | STD | 33.6 | 30.0 | 34.0 | 31.0 | 4.0 |  |  |  | 105.8 | 7.7 | 113.5 |  |",
            "| 1 | 32768 | SIGMA | 21.0 | 24.0 |  | 21.7 |  | -20.0% | -30.0% | -37.5% | 76.9 | 7.7 | 85.0 | -25.1% |",
            "| 16 | 32768 | STD | 537.0 | 400.0 |  |  |  |  |  |  |  |  |  |  |",
            "| 16 | 32768 | SIGMA | 335.6 | out_of_memory |  |  |  |  |  | -37.5% |  |  |  |  |",
        ])

    def test_other_input_is_refused_in_one_line(self):
        for text, words in (("", "has the column axes"), ("a,b\n1,2\n", "has the column"),
                            (HEAD + "fig24,a=1,ok,1,x\n", "line 2: series: expected")):
            refused = run(text)
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(refused.stderr.count("\n"), 1)
            self.assertIn(words, refused.stderr)


if __name__ == "__main__":
    unittest.main()
