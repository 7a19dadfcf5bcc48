# SPDX-License-Identifier: Apache-2.0
"""scripts/draw_sweeps.py draws what sweeps.csv has, and says of what cannot be drawn where it stands."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent.parent / "scripts/draw_sweeps.py"
ROWS = HERE / "sweeps.csv"
LINES = ROWS.read_text(encoding="utf-8").splitlines()


def texts(path):
    """All text of a picture, which has to be XML."""
    return {"".join(element.itertext()).strip() for element in xml.etree.ElementTree.parse(path).iter()
            if element.tag.endswith("}text")}


class DrawSweeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pictures = self.folder / "pictures"

    def draw(self, *arguments, rows=ROWS):
        return subprocess.run([sys.executable, SCRIPT, rows, "-o", self.pictures, *arguments], text=True,
                              capture_output=True)

    def files(self):
        return sorted(path.name for path in self.pictures.glob("*"))

    def assert_refused(self, run, *words):
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(self.files(), [])

    def refuse_text(self, text, *words):
        path = self.folder / "bad.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.assert_refused(self.draw(rows=path), "draw_sweeps.py: ", str(path), *words)

    def test_each_sweep_of_the_rows_becomes_a_picture_with_its_lines(self):
        run = self.draw()
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(self.files(), ["fig1.svg", "fig7a.svg"])
        self.assertIn("fig17: nothing to draw: of 1 rows none has the status ok", run.stdout)
        lines = texts(self.pictures / "fig7a.svg")
        self.assertLessEqual({"h/a = 2", "h/a = 16", "h/a = 64: out of memory", "TFLOP/s"}, lines)
        self.assertTrue(any(text.startswith("Figure 7") for text in lines), lines)
        below = "a device · driver 1.0 · first 1 · 2026-01-01 · left out, as not ok: 1"
        self.assertIn(below, lines)
        bars = texts(self.pictures / "fig1.svg")
        self.assertLessEqual({"bf16", "fp16", "paper", "5", "6"}, bars)

    def test_the_same_rows_give_the_same_file(self):
        self.draw("--sweep", "fig7a")
        first = (self.pictures / "fig7a.svg").read_bytes()
        self.draw("--sweep", "fig7a")
        self.assertEqual((self.pictures / "fig7a.svg").read_bytes(), first)

    def test_options_choose_sweeps_formats_and_lines(self):
        self.draw("--sweep", "fig1", "--dtype", "fp16")
        self.assertEqual(self.files(), ["fig1.svg"])
        self.assertNotIn("bf16", texts(self.pictures / "fig1.svg"))
        self.draw("--sweep", "fig7a", "--series", "= 16")
        self.assertNotIn("h/a = 2", texts(self.pictures / "fig7a.svg"))
        self.assertIn("h/a = 16", texts(self.pictures / "fig7a.svg"))

    def test_what_is_no_csv_of_rows_is_one_line(self):
        self.assert_refused(self.draw(rows=self.folder / "missing.csv"), "missing.csv: No such file or directory")
        self.refuse_text(b"\xff\xfe\x00", "is no text")
        self.refuse_text("", "has no column date")
        self.refuse_text("\n".join(LINES).replace("axes", "axis", 1), "has no column axes")
        self.refuse_text("\n".join(LINES[:3] + ["only,three,fields"]), "line 4: has not the 11 fields of the head")
        self.refuse_text("\n".join(LINES[:3] + [LINES[3] + ",more"]), "line 4: has not the 11 fields of the head")
        self.refuse_text("\n".join(LINES[:3] + ['"quoted" and not']), "line 4: ")

    def test_a_value_that_cannot_be_drawn_is_one_line(self):
        for value in ("fast", "-1", "nan", "inf"):
            self.refuse_text("\n".join(LINES).replace("3e12", value), "line 4: flops_per_s: ", f'found "{value}"')
        self.refuse_text("\n".join(LINES).replace("h=2112", "x=2112"), "line 4: axes: h: ", 'found ""')
        self.refuse_text("\n".join(LINES).replace("h=2112", "h=wide"), "line 4: axes: h: ", 'found "wide"')
        self.refuse_text("\n".join(LINES).replace("case=3", "case=30"), "line 9: axes: there is no case 30")

    def test_an_unknown_sweep_and_a_folder_that_cannot_be_are_one_line(self):
        self.assert_refused(self.draw("--sweep", "fig99"), "there is no sweep fig99 in data/sweeps")
        file = self.folder / "file"
        file.write_text("")
        self.pictures = file / "pictures"
        self.assert_refused(self.draw(), "Not a directory")


if __name__ == "__main__":
    unittest.main()
