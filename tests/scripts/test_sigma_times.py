# SPDX-License-Identifier: Apache-2.0
"""scripts/sigma_times.py puts the paper's times beside the rows of the sweep, and says what other input lacks."""
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/sigma_times.py"
ROWS = """series,x,status,median_ns,change,bytes_change
"STD, batch 1",32768,ok,30000,,
"STD, batch 16",32768,ok,400000,,
"SIGMA, batch 1",32768,ok,24000,-0.2,-0.375
"SIGMA, batch 16",32768,out_of_memory,,,-0.375
"SIGMA half K, batch 1",32768,ok,21000,-0.3,-0.4375
"""


def run(text):
    return subprocess.run([sys.executable, SCRIPT], input=text, text=True, capture_output=True)


class SigmaTimes(unittest.TestCase):
    def test_rows_of_batch_1_stand_beside_the_paper(self):
        printed = run(ROWS)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        # 29.5 and 22.1 ms over 260 calls
        self.assertEqual(printed.stdout.splitlines()[2:], [
            "| 1 | 32768 | STD | 30.0 |  |  | 113.5 |  |",
            "| 1 | 32768 | SIGMA | 24.0 | -20.0% | -37.5% | 85.0 | -25.1% |",
            "| 1 | 32768 | SIGMA half K | 21.0 | -30.0% | -43.8% |  |  |",
            "| 16 | 32768 | STD | 400.0 |  |  |  |  |",
            "| 16 | 32768 | SIGMA | out_of_memory |  | -37.5% |  |  |",
        ])

    def test_other_input_is_refused_in_one_line(self):
        for text, words in (("", "has the column bytes_change"), ("a,b\n1,2\n", "has the column"),
                            (ROWS + "fig24,1,ok,1,,\n", "line 7: series: expected")):
            refused = run(text)
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(refused.stderr.count("\n"), 1)
            self.assertIn(words, refused.stderr)


if __name__ == "__main__":
    unittest.main()
