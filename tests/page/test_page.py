# SPDX-License-Identifier: Apache-2.0
"""HTML and Markdown of reports without a browser: test_page.py COMMAND"""
import os
import subprocess
import sys
import tempfile
import unittest

import page
import rows

COMMAND = os.path.abspath(sys.argv.pop(1))
SHOWN = [text for text in rows.HOSTILE if text.isprintable()]  # control characters become '?'


def run(*arguments, code=0):
    done = subprocess.run([COMMAND, *arguments], capture_output=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stdout


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        rows.write("hostile.jsonl", rows.hostile())
        rows.write("devices.jsonl", rows.two_devices())
        run("results", "import", "--db", "devices.db", "devices.jsonl")

    def page_of(self, *arguments, code=0):
        read = page.Page(run(*arguments, code=code).decode())
        self.assertEqual(page.problems_of(read), [])
        return read

    def test_every_text_from_outside_is_only_text(self):
        read = self.page_of("report", "hostile.jsonl", "--title", rows.HOSTILE[0])
        words, figures = read.words(), page.figures_of(read)
        for text in SHOWN:
            self.assertIn(text, words)
            self.assertTrue(any(text in series["name"] for f in figures for series in f["series"]), text)
            self.assertTrue(any(text in f["x"]["names"] for f in figures) or " " in text, text)
        for character in "\x1b\x07\u2028\u202e":
            self.assertNotIn(character, words)

    def test_a_model_s_name_is_only_text(self):
        name = "<img src=x onerror=alert(1)>.json"
        with open(name, "w", encoding="utf-8") as out:
            out.write('{"h":768,"a":12,"L":2,"v":50257}')
        for arguments in (["advise", name], ["search", name, "--limit", "2"]):
            read = self.page_of(*arguments, "-d", "h200", "-f", "html", "-q")
            self.assertIn("<img src=x onerror=alert(1)>", read.words())
            self.assertNotIn(b"<img", run(*arguments, "-d", "h200", "-f", "markdown", "-q").replace(b"\\<", b""))
        read = self.page_of("report", "devices.jsonl", "--models", name, "-d", "h200")
        self.assertIn("<img src=x onerror=alert(1)>", read.words())

    def test_a_figure_has_every_point_with_its_interval(self):
        figures = {f["title"]: f for f in page.figures_of(self.page_of("report", "devices.jsonl"))}
        own = figures["own"]
        self.assertEqual(own["x"]["label"], "h")
        self.assertEqual(sorted(s["name"] for s in own["series"]),
                         ["a = 16, NVIDIA H100", "a = 16, NVIDIA H200", "a = 8, NVIDIA H100", "a = 8, NVIDIA H200"])
        for series in own["series"]:
            self.assertEqual([p[0] for p in series["points"]], [128 * (i + 1) for i in range(12)])
            self.assertTrue(all(p[2] < p[1] < p[3] for p in series["points"]))
        line = next(s for s in own["series"] if s["name"] == "a = 8, NVIDIA H200")
        self.assertAlmostEqual(line["points"][0][1], 2 * 4096 * 1024 * 1024 / 20e3 * 1e9 / 1e12, 3)  # 20 µs

    def test_a_sweep_of_the_catalogue_is_drawn_as_the_original(self):
        rows.write("fig.jsonl", [rows.row(i, "fig20b", "", f"b=4 s=2048 h={64 * (i + 1)} v=51200", 1e5) for i in range(9)]
                   + [rows.row(99, "fig2", "", "case=1 h=16384 a=128 fused=0 b=4 s=2048", 1e9),
                      rows.row(100, "fig11", "", "own=5", 1e9)])
        figures = {f["title"]: f for f in page.figures_of(self.page_of("report", "fig.jsonl"))}
        self.assertEqual(figures["Figure 20b: Vocabulary embedding over the hidden size"]["x"]["label"], "h")
        shares = next(f for title, f in figures.items() if title.startswith("Figure 2: Share of latency"))
        self.assertEqual(shares["form"], "stacks")
        whole = figures["Throughput of the whole layer"]
        self.assertEqual(whole["x"]["names"], ["Large (h=16384, a=128)"])
        self.assertEqual([len(s["points"]) for s in whole["series"]], [1])
        strange = next(f for title, f in figures.items() if title.startswith("fig11: "))  # not the axes of the sweep
        self.assertEqual(strange["series"][0]["points"][0][0], 5)

    def test_devices_are_compared(self):
        read = self.page_of("report", "devices.jsonl")
        figure = next(f for f in page.figures_of(read) if f["title"].startswith("Devices compared"))
        self.assertEqual(figure["x"]["names"], ["own"])
        self.assertAlmostEqual(figure["series"][0]["points"][0][1], 1.5, 5)  # the H200 against the H100

    def test_findings_have_words_and_pictures(self):
        read = self.page_of("report", "devices.jsonl", "--models", "gpt2", "-d", "h200")
        self.assertIn("vocabulary 50257 → vocabulary 50304", read.words())
        titles = [f["title"] for f in page.figures_of(read)]
        self.assertIn("Gain of each finding: gpt2", titles)
        self.assertIn("Predicted time by operator: gpt2", titles)

    def figures_of_advice(self, *arguments):
        read = self.page_of("advise", *arguments, "-f", "html")
        return {f["title"].split(":")[0]: f for f in page.figures_of(read)}, read.words()

    def test_bars_of_operators_are_what_the_step_waits_for(self):
        figures, words = self.figures_of_advice("mixtral-8x7b-v0.1", "-d", "h200", "--phase", "train", "-t", "4", "--data-parallel", "8")
        names = figures["Predicted time by operator"]["x"]["names"]
        self.assertIn("expert_up_wgrad", names)
        self.assertEqual([name for name in names if "gradient_all_reduce" in name], [])
        self.assertIn("communication between replicas", words)

    def test_passes_of_an_operator_share_an_entry_of_the_roofline(self):
        figures, _ = self.figures_of_advice("gpt2", "-d", "h200", "--phase", "train")
        roofline = next(f for title, f in figures.items() if title.startswith("Roofline"))
        up = [s for s in roofline["series"] if s["name"].startswith("mlp_up")]
        self.assertEqual(len(up), 1)
        self.assertEqual(sorted((p + [""] * 6)[5] for p in up[0]["points"]), ["", "dgrad", "wgrad"])

    def test_a_gain_per_device_is_no_bar_among_gains_of_a_step(self):
        figures, words = self.figures_of_advice("gpt3-2.7b", "-d", "h200", "--phase", "train", "-t", "8")
        gains = figures["Gain of each finding"]
        self.assertIn("microbatch", gains["x"]["names"])
        self.assertNotIn("tensor_parallel_small", gains["x"]["names"])
        self.assertRegex(words, r"tensor_parallel_small: \+[\d.]+% tokens/s per device, not of a step")

    def test_a_comparison_is_a_page_too(self):
        read = self.page_of("compare", "devices.db#device=h100", "devices.db#device=h200", "-f", "html")
        self.assertIn("NVIDIA H200", read.words())

    def test_a_store_and_an_export_give_the_same_page(self):
        both = [run("report", name, "--title", "x").replace(name.encode(), b"") for name in ("devices.db", "devices.jsonl")]
        self.assertEqual(both[0], both[1])

    def test_an_export_of_hostile_rows_is_exact(self):
        run("results", "import", "--db", "one.db", "hostile.jsonl")
        exported = run("results", "export", "--db", "one.db", "-o", "one.csv")
        run("results", "import", "--db", "two.db", "one.csv")
        self.assertEqual(run("results", "export", "--db", "one.db"), run("results", "export", "--db", "two.db"))
        self.assertIn(rows.HOSTILE[5].encode(), run("results", "export", "--db", "one.db"))
        self.assertNotIn(b"\x1b", run("results", "list", "--db", "one.db"))
        self.assertEqual(exported, b"")

    def test_markdown_suits_a_comment(self):
        text = run("advise", "gpt2", "-d", "h200", "-f", "markdown").decode()
        self.assertTrue(text.startswith("## headroom advise: gpt2 on h200\n"))
        self.assertLess(text.index("| severity |"), text.index("<details>"))
        self.assertEqual(text.count("<details>"), text.count("</details>"))

    def test_other_commands_refuse_html(self):
        for arguments in (["describe", "gpt2"], ["kernels"], ["gemm", "64", "64", "64"]):
            self.assertEqual(run(*arguments, "-f", "html", code=2), b"")
        run("report", "devices.jsonl", "-f", "csv", code=2)
        run("report", "none.db", code=3)


if __name__ == "__main__":
    unittest.main()
