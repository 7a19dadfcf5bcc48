# SPDX-License-Identifier: Apache-2.0
"""scripts/docs_numbers.py finds each number of a page that is not that of the rows, and writes tables anew."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/docs_numbers.py"
FIRST = "published('fig1', 'C1')"  # 83.392 in data/results/published/codesign-figures.csv, as the paper prints it
PAGE = f"""# Page

C1 does 83.4
TFLOP/s here.
<!-- check: f"does {{{FIRST}:.1f}} TFLOP/s" -->

<!-- made: table(["C1", "empty"], [[{FIRST}, None]]) -->
| C1 | empty |
|---|---|
| 83.4 |  |
<!-- end -->
"""


class DocsNumbers(unittest.TestCase):
    def run_on(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, SCRIPT, *options, page], capture_output=True, text=True)
            return done.returncode, done.stdout, page.read_text(encoding="utf-8")

    def test_a_page_of_the_rows_passes(self):
        self.assertEqual(self.run_on(PAGE), (0, "2 numbers and tables, 0 differ\n", PAGE))

    def test_a_wrong_number_of_a_sentence_is_named_with_its_line_and_stays(self):
        wrong = PAGE.replace("does 83.4", "does 83.5")
        code, printed, after = self.run_on(wrong, "--write")
        self.assertEqual((code, after), (1, wrong))
        self.assertIn('page.md:5: the rows say "does 83.4 TFLOP/s"', printed)

    def test_a_wrong_table_is_found_and_written_anew(self):
        wrong = PAGE.replace("| 83.4 |", "| 83.5 |\n| 1 | 2 |")
        code, printed, _ = self.run_on(wrong)
        self.assertEqual(code, 1)
        self.assertIn("page.md:7: the lines up to the next end are not those of the rows", printed)
        self.assertEqual(self.run_on(wrong, "--write"), (0, "2 numbers and tables, 0 differ\n", PAGE))

    def test_a_number_of_another_paragraph_does_not_count(self):
        self.assertEqual(self.run_on(PAGE.replace("TFLOP/s here.\n", "TFLOP/s here.\n\nNothing.\n"))[0], 1)

    def test_what_has_no_row_no_name_or_no_end_is_a_fault(self):
        for expression, words in (("one('published/codesign-figures.csv', sweep='fig0')", "no row of data/results"),
                                  ("read('nothing.csv')", "no file data/results/nothing.csv"),
                                  ("rows('published/codesign-figures.csv', colour=1)", "a row has no colour"),
                                  ("unheard_of", "NameError"), ("document('gemm 1 1 1')", "needs --headroom")):
            code, printed, _ = self.run_on(f"Text.\n<!-- check: {expression} -->\n")
            self.assertEqual(code, 1)
            self.assertIn("page.md:2: ", printed)
            self.assertIn(words, printed)
        self.assertIn("docs/none.svg is not what the rows draw", self.run_on("<!-- drawn: docs/none.svg = 'a' -->\n")[1])
        self.assertIn('no "<!-- end -->" follows', self.run_on("<!-- made: 'a' -->\na\n")[1])


if __name__ == "__main__":
    unittest.main()
