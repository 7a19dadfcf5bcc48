# SPDX-License-Identifier: Apache-2.0
"""tests/structure/links.py finds headings that are not there, in pages and in pointers of code."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "structure"))
import links

PAGE = "# Top\n\n## Row-wise: `a_b` (new)\n\n## Twice\n\n## [Twice](https://x)\n\n```\n# not a heading\n```\n"


class Links(unittest.TestCase):
    def faults_of(self, text, name="page.md", find=links.faults_of_page):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / name
            page.write_text(text, encoding="utf-8")
            return list(find(page))

    def test_an_anchor_is_that_of_a_heading_as_github_makes_it(self):
        for anchor in ("top", "row-wise-a_b-new", "twice", "twice-1"):
            self.assertEqual(self.faults_of(f"{PAGE}[x](#{anchor}) [y](page.md#{anchor})\n"), [None, None], anchor)

    def test_a_link_to_a_heading_that_is_not_there_is_a_fault(self):
        for anchor in ("twice-2", "not-a-heading", "Top"):
            self.assertIn("is not there", self.faults_of(f"{PAGE}[x](#{anchor})\n")[0], anchor)

    def test_a_pointer_of_code_to_a_heading_that_is_not_there_is_a_fault(self):
        faults = self.faults_of("/* docs/gpu.md, docs/gpu.md#ceilings, docs/gpu.md#floors, docs/gpus.md */", "a.c", links.faults_of_code)
        self.assertEqual(faults, [None, None, "points to docs/gpu.md#floors, which is not there",
                                  "points to docs/gpus.md, which is not there"])

    def test_a_pointer_of_code_by_the_words_of_a_heading_is_a_fault(self):
        self.assertIn("by its words", self.faults_of("/* docs/gpu.md, \"Ceilings\" */", "a.c", links.faults_of_code)[-1])


if __name__ == "__main__":
    unittest.main()
