# SPDX-License-Identifier: Apache-2.0
"""scripts/docs_tables.py finds a table of numbers without rows, a line that is needed no more, and a page that does not say so."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/docs_tables.py"
TABLE = "| h | ms |\n|---|---|\n| 64 | 1.5 |\n"
LINE = "run\tdocs/page.md\t| h | ms |\n"


class DocsTables(unittest.TestCase):
    def run_on(self, page, lines=""):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / "docs").mkdir()
            (top / "README.md").write_text("# Top\n", encoding="utf-8")
            (top / "docs/page.md").write_text(page, encoding="utf-8")
            (top / "list.txt").write_text(lines, encoding="utf-8")
            done = subprocess.run([sys.executable, SCRIPT, "--top", top, "--list", top / "list.txt"], capture_output=True, text=True)
            return done.returncode, done.stdout

    def test_a_table_of_numbers_needs_rows_a_check_or_a_line(self):
        code, printed = self.run_on(TABLE)
        self.assertEqual(code, 1)
        self.assertIn("docs/page.md:1: a table of numbers without", printed)
        self.assertEqual(self.run_on(f"<!-- made: x -->\n{TABLE}<!-- end -->\n")[0], 0)
        self.assertEqual(self.run_on(f"{TABLE}<!-- check: x -->\n")[0], 0)
        self.assertEqual(self.run_on("| a | b |\n|---|---|\n| words | more |\n")[0], 0)

    def test_a_listed_run_must_be_said_in_its_page_and_counts_once(self):
        said = "This is not made from stored rows.\n\n"
        self.assertEqual(self.run_on(said + TABLE, LINE)[0], 0)
        self.assertIn("does not say", self.run_on(TABLE, LINE)[1])
        self.assertEqual(self.run_on(said + TABLE + "\n" + TABLE, LINE)[0], 1)
        self.assertIn("does not say", self.run_on(TABLE, LINE.replace("run", "log"))[1])

    def test_a_line_without_a_table_is_a_fault(self):
        code, printed = self.run_on("This is not made from stored rows.\n", LINE)
        self.assertEqual(code, 1)
        self.assertIn("needs this line no more", printed)


if __name__ == "__main__":
    unittest.main()
