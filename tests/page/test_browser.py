# SPDX-License-Identifier: Apache-2.0
"""HTML reports in a headless Chromium: test_browser.py COMMAND. Exit code 77 (skipped) unless HEADROOM_TEST is set, as
starting a browser takes seconds, or without Chromium."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

import chromium
import rows

if not os.environ.get("HEADROOM_TEST") or not chromium.program():
    print("left out: " + ("there is no chromium" if os.environ.get("HEADROOM_TEST") else "HEADROOM_TEST is not set"))
    sys.exit(77)
COMMAND = os.path.abspath(sys.argv.pop(1))

FIGURE_20 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/results/h200/figures-20.csv")
FIGURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/results/h200/figures-1-to-19.csv")
FORWARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/results/h200/attention-forward.csv")
SHARES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/results/h200/layer-shares.csv")
ON_CPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../data/results/epyc-zen5/attention-forward.csv")

CHART = "document.querySelectorAll('figure.chart')[%d]"
DRAWN = CHART + ".querySelector('canvas').dataset.drawn === 'true'"
BITS = CHART + ".querySelector('canvas').toDataURL()"
INK = """(() => { const c = %s.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const colours = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) colours.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
  return colours.size; })()""" % CHART


class InTheBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        for name, made in (("hostile", rows.hostile()), ("devices", rows.two_devices()), ("many", rows.many(20000)),
                           ("large", rows.one_sweep(20000, 4)), ("lines", rows.one_sweep(200, 100))):
            rows.write(name + ".jsonl", made)
            subprocess.run([COMMAND, "report", name + ".jsonl", "-o", name + ".html", "--models", "gpt2", "-d", "h200"],
                           check=True)
        cls.browser = chromium.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.size(1000, 800)
        self.browser.theme(dark=False)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def show(self, chart):
        self.browser.run(CHART % chart + ".scrollIntoView()")
        self.browser.wait(DRAWN % chart)

    def test_charts_are_drawn_when_they_are_seen(self):
        self.browser.open("devices.html")
        count = self.browser.run("document.querySelectorAll('figure.chart').length")
        self.assertEqual(count, 5)
        self.assertFalse(self.browser.run(DRAWN % 3))
        for chart in range(count):
            self.show(chart)
            self.assertGreater(self.browser.run(INK % chart), 8)  # a blank canvas has none

    def test_a_click_in_the_legend_changes_the_picture_and_a_second_one_changes_it_back(self):
        self.browser.open("devices.html")
        self.show(1)
        button = CHART % 1 + ".querySelector('.legend button')"
        before = self.browser.run(BITS % 1)
        self.browser.run(button + ".click()")
        self.assertEqual(self.browser.run(button + ".getAttribute('aria-pressed')"), "false")
        self.assertNotEqual(self.browser.run(BITS % 1), before)
        self.browser.run(button + ".click()")
        self.assertEqual(self.browser.run(BITS % 1), before)

    def test_the_keyboard_reaches_legends_tables_and_sorting(self):
        self.browser.open("devices.html")
        self.show(1)
        before = self.browser.run(BITS % 1)
        self.browser.run(CHART % 1 + ".querySelector('.legend button').focus()")
        for kind in ("rawKeyDown", "char", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r" if kind == "char" else "",
                              windowsVirtualKeyCode=13)
        self.assertNotEqual(self.browser.run(BITS % 1), before)
        reached = self.browser.run("""[...document.querySelectorAll('summary, th button, .legend button, a')].every(
            (e) => e.tabIndex === 0)""")
        self.assertTrue(reached)

    def test_hovering_shows_the_value_and_its_spread(self):
        self.browser.open("devices.html")
        self.show(1)
        text = self.browser.run("""(() => { const chart = Chart.getChart(%s.querySelector('canvas'));
            chart.tooltip.setActiveElements([{datasetIndex: 0, index: 2}], {x: 0, y: 0}); chart.update();
            return chart.tooltip.title.join() + '|' + chart.tooltip.body.map((b) => b.lines.join()).join(); })()""" % (CHART % 1))
        self.assertRegex(text, r"h: 384\|a = 8, NVIDIA H100: [0-9.]+ \([0-9.]+ … [0-9.]+\)")

    def test_each_chart_has_its_table_which_sorts(self):
        self.browser.open("devices.html")
        details = CHART % 1 + ".querySelector('details')"
        self.browser.run(details + ".open = true")
        self.browser.wait(details + ".querySelector('tbody tr')")
        self.assertEqual(self.browser.run(details + ".querySelectorAll('tbody tr').length"), 48)
        column = "[...%s.querySelectorAll('tbody tr')].map((r) => Number(r.cells[2].dataset.v))" % details
        click = details + ".querySelectorAll('th button')[2].click()"
        unsorted = self.browser.run(column)
        self.browser.run(click)
        self.assertEqual(self.browser.run(column), sorted(unsorted))
        self.browser.run(click)
        self.assertEqual(self.browser.run(column), sorted(unsorted, reverse=True))
        self.assertEqual(self.browser.run(details + ".querySelectorAll('th')[2].getAttribute('aria-sort')"), "descending")

    def test_a_dark_theme_repaints_and_a_narrow_window_does_not_overflow(self):
        self.browser.open("devices.html")
        self.show(1)
        self.browser.run("window.before = " + BITS % 1)
        self.browser.theme(dark=True)
        self.browser.wait("window.before !== " + BITS % 1)
        self.browser.size(360, 700)
        self.browser.wait("document.documentElement.scrollWidth <= 360")

    def test_a_heatmap_is_a_table_of_coloured_cells(self):
        subprocess.run([COMMAND, "report", FORWARD, "-o", "heat.html"], check=True)
        for dark in (False, True):
            self.browser.theme(dark=dark)
            self.browser.open("heat.html")
            heat = "document.querySelector('table.heat')"
            self.assertTrue(self.browser.run(heat + ".caption.textContent.includes('logarithmic')"))
            cells = self.browser.run("[...%s.querySelectorAll('tbody td')].map((td) => [td.style.backgroundColor, td.style.color, "
                                     "Number(td.dataset.v), td.textContent])" % heat)
            measured = sorted((cell for cell in cells if cell[0]), key=lambda cell: cell[2])
            self.assertGreater(len({cell[0] for cell in measured}), 8)
            self.assertEqual((measured[0][0], measured[0][1]), ("rgb(255, 234, 70)", "rgb(0, 0, 0)"))
            self.assertEqual((measured[-1][0], measured[-1][1]), ("rgb(0, 32, 76)", "rgb(255, 255, 255)"))
            self.assertTrue(all(cell[3] for cell in cells))
            self.assertTrue(self.browser.run(heat + ".querySelectorAll('tbody th[scope=row]').length > 2"))

    def test_noisy_cells_and_parts_of_bars_are_marked_and_the_mark_is_named(self):
        with open(SHARES, encoding="utf-8") as file:
            shares = list(csv.DictReader(file))
        with open("noisy.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, shares[0].keys())
            writer.writeheader()
            writer.writerows({**row, "status": "noisy" if row["axes"] == shares[0]["axes"] else "ok"} for row in shares)
        subprocess.run([COMMAND, "report", "noisy.csv", ON_CPU, "-o", "noisy.html"], check=True)
        self.browser.open("noisy.html")
        heat = "document.querySelector('table.heat')"
        self.assertTrue(self.browser.run(heat + ".caption.textContent.endsWith('; ~: noisy')"))
        row = "[...%s.querySelectorAll('tr')].find((tr) => tr.cells[0].textContent === 'materialized d128')" % heat
        self.assertEqual(self.browser.run("[...%s.cells].slice(1, 4).map((td) => td.textContent)" % row), ["~5.88", "~25.1", "~86.7"])
        stack = "[...document.querySelectorAll('figure.chart')].find((f) => f.textContent.includes('GEMMs'))"
        self.browser.run(stack + ".scrollIntoView()")
        self.browser.wait(stack + ".querySelector('canvas').dataset.drawn === 'true'")
        filled = self.browser.run("Chart.getChart(%s.querySelector('canvas')).data.datasets[0].backgroundColor" % stack)
        self.assertEqual([colour == "transparent" for colour in filled], [True] + (len(filled) - 1) * [False])
        self.assertTrue(self.browser.run(stack + ".querySelector('.legend').textContent.includes('Hollow')"))

    def test_a_bar_without_a_value_is_a_dash_that_the_legend_explains(self):
        with open(FIGURES, encoding="utf-8") as file:
            bars = [row for row in csv.DictReader(file) if row["sweep"] == "fig1"]
        bars[0].update({name: "" for name in bars[0] if name.endswith(("_ns", "_per_s"))}, status="out_of_memory", samples="0")
        with open("absent.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, bars[0].keys())
            writer.writeheader()
            writer.writerows(bars)
        subprocess.run([COMMAND, "report", "absent.csv", "-o", "absent.html"], check=True)
        self.browser.open("absent.html")
        self.show(0)
        self.assertTrue(self.browser.run((CHART % 0) + ".querySelector('.legend').textContent.endsWith('–: no value (out of memory)')"))

    def test_rules_are_named_in_the_legend_and_within_the_axis(self):
        subprocess.run([COMMAND, "report", FIGURE_20, "-o", "figure-20.html"], check=True)
        self.browser.open("figure-20.html")
        chart = "[...document.querySelectorAll('figure.chart')].find((f) => f.textContent.includes('vocabularies at the peaks'))"
        self.browser.run(chart + ".scrollIntoView()")
        self.browser.wait(chart + ".querySelector('canvas').dataset.drawn === 'true'")
        names = self.browser.run("[...%s.querySelectorAll('.legend .rule')].map((item) => item.textContent)" % chart)
        self.assertEqual(names, ["A100, vocabularies at the peaks: 250, read off", "A100, vocabularies between them: 100, read off"])
        dashes = self.browser.run("[...%s.querySelectorAll('.legend .rule line')].map((l) => l.getAttribute('stroke-dasharray'))" % chart)
        self.assertEqual(len(set(dashes)), 2)
        self.assertGreaterEqual(self.browser.run("Chart.getChart(%s.querySelector('canvas')).scales.y.max" % chart), 250)

    def test_lines_of_one_name_share_a_button_where_there_are_many(self):
        lines = [rows.row(7 * k + i, "own", f"h/a = {2 ** k}, {kind}", f"h={128 * (i + 1)}", 1e4 + i)
                 for k in range(7) for kind in ("bf16", "fp32") for i in range(3)]
        rows.write("pairs.jsonl", [{**line, "id": f"{i + 1:032x}"} for i, line in enumerate(lines)])
        subprocess.run([COMMAND, "report", "pairs.jsonl", "-o", "pairs.html"], check=True)
        self.browser.open("pairs.html")
        self.show(0)
        buttons = "[...%s.querySelectorAll('.legend button')]" % (CHART % 0)
        self.assertEqual(self.browser.run(buttons + ".length"), 7)
        self.assertEqual(self.browser.run(buttons + "[0].textContent"), "h/a = 1: bf16  fp32")
        self.browser.run(buttons + "[1].click()")
        self.assertEqual(self.browser.run("Chart.getChart(%s.querySelector('canvas')).getVisibleDatasetCount()" % (CHART % 0)), 12)

    def test_it_prints(self):
        self.browser.open("devices.html")
        self.assertTrue(self.browser.printed().startswith(b"%PDF"))

    def test_nothing_from_outside_runs(self):
        self.browser.open("hostile.html")
        count = self.browser.run("document.querySelectorAll('figure.chart').length")
        self.assertGreater(count, 10)
        for chart in range(count):
            self.show(chart)
        self.browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        self.browser.wait("[...document.querySelectorAll('figure.chart details')].every((d) => d.querySelector('tbody tr'))")
        self.assertEqual(self.browser.run("typeof window.attacked"), "undefined")
        self.assertEqual(self.browser.run("document.querySelectorAll('img, iframe, svg:not(.legend svg)').length"), 0)

    def test_twenty_thousand_points_open(self):
        seconds = self.browser.open("many.html")
        self.browser.wait("document.querySelector('canvas').dataset.drawn === 'true'")
        load = self.browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
        print(f"20,000 points: loaded after {load:.0f} ms, open after {1000 * seconds:.0f} ms")
        points = self.browser.run("""[...document.querySelectorAll('script[type="application/json"]')].flatMap(
            (s) => JSON.parse(s.textContent).series).reduce((n, s) => n + s.points.length, 0)""")
        self.assertGreaterEqual(points, 20000)

    def test_one_chart_of_twenty_thousand_points_is_drawn_and_its_table_has_all(self):
        self.browser.open("large.html")
        self.browser.wait(DRAWN % 0)
        self.assertGreater(self.browser.run(INK % 0), 8)
        self.browser.run(CHART % 0 + ".querySelector('details').open = true")
        self.browser.wait(CHART % 0 + ".querySelector('tbody tr')")
        self.browser.run(CHART % 0 + ".querySelector('details > button').click()")
        self.assertEqual(self.browser.run(CHART % 0 + ".querySelectorAll('tbody tr').length"), 20000)

    def test_more_lines_than_a_chart_can_show_are_in_its_table(self):
        self.browser.open("lines.html")
        self.show(0)
        self.assertEqual(self.browser.run(CHART % 0 + ".querySelectorAll('.legend button').length"), 60)
        self.assertIn("40 more series", self.browser.run(CHART % 0 + ".querySelector('.legend').textContent"))
        self.browser.run(CHART % 0 + ".querySelector('details').open = true")
        self.browser.wait(CHART % 0 + ".querySelectorAll('tbody tr').length === 200")


if __name__ == "__main__":
    unittest.main()
