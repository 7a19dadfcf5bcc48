# SPDX-License-Identifier: Apache-2.0
"""The advisor with pandas, and examples/advice.ipynb from its first cell to its last."""
import csv
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import nbclient
import nbformat
import pandas

import headroom

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = os.path.join(os.environ.get("HEADROOM_LIBRARY_FOLDER", os.path.dirname(sys.executable)), "headroom")
PACKAGE = str(pathlib.Path(headroom.__file__).parent.parent)


class Pandas(unittest.TestCase):
    def test_a_table_has_the_columns_and_rows_of_the_csv(self):
        for found, arguments in ((headroom.describe("gpt2"), "describe gpt2"),
                                 (headroom.advise("gpt2", device="h200", verbose=True), "advise gpt2 -d h200 -v"),
                                 (headroom.search("gpt2", device="h200"), "search gpt2 -d h200"),
                                 (headroom.serve_plan("gpt2", device="h200"), "serve-plan gpt2 -d h200")):
            with self.subTest(arguments):
                written = subprocess.run([COMMAND, *arguments.split(), "--format", "csv"], capture_output=True,
                                         text=True, check=False).stdout
                head, *rows = csv.reader(io.StringIO(written))
                table = found.to_pandas()
                self.assertLessEqual(set(head), set(table.columns))
                self.assertEqual(len(table), len(rows))

    def test_rows_of_the_store_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "results.db")
            for m in (8, 16):
                headroom.measure("gemm", m=m, n=8, k=8, dtype="fp32", db=store, probe=False, budget=0.02)
            table = headroom.results(db=store).to_pandas()
        self.assertEqual(list(table.m), [8, 16])
        self.assertTrue(pandas.api.types.is_numeric_dtype(table.median_ns))

    def test_a_table_without_rows_has_its_columns(self):
        table = headroom.predict("gpt2", device="h200").to_pandas("findings")
        self.assertEqual(len(table), 0)
        self.assertIn("predicted_gain", table.columns)


class Notebook(unittest.TestCase):
    def test_it_runs_to_its_end_with_pages_and_measured_gains(self):
        notebook = nbformat.read(TOP / "examples" / "advice.ipynb", as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertLess(sum(len(cell.source.splitlines()) for cell in code), 60)
        self.assertFalse(any(cell.outputs for cell in code))
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=PACKAGE):
            nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
        pages = [output.data["text/html"] for cell in code for output in cell.outputs if "data" in output]
        self.assertEqual(sum(page.startswith("<iframe srcdoc=") for page in pages), 2)
        self.assertEqual(sum("<table" in page for page in pages), 2)
        said = "".join(output.text for cell in code for output in cell.outputs if output.output_type == "stream")
        self.assertRegex(said, r"vocabulary_alignment: .*% predicted\n")
        self.assertRegex(said, r": [+-][\d.]+% predicted, [+-][\d.]+% measured")
