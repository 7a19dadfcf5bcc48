#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of a report in docs/figures with a headless Chromium: report.png and report-findings.png.

    scripts/docs_screenshots.py build/debug/headroom

The rows are those of data/results/h200. Look at the pictures before committing them.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/page"))
import chromium  # noqa: E402

RESULTS = TOP / "data/results/h200"
FIGURES = TOP / "docs/figures"
HEADING = "[...document.querySelectorAll('h2, h3, h4')].find((h) => h.textContent.includes({!r}))"
# A point of the first line, as the mouse shows it.
HOVER = """(() => {{ const canvas = {}.closest('section').querySelector('canvas'), chart = Chart.getChart(canvas);
const at = {{datasetIndex: 0, index: {}}}; chart.setActiveElements([at]);
const point = chart.getDatasetMeta(0).data[{}]; chart.tooltip.setActiveElements([at], {{x: point.x, y: point.y}});
chart.update('none'); }})()"""
SCROLL = "{}.scrollIntoView({{block: 'start'}})"


def shot(browser, heading, size, dark, point=None):
    browser.theme(dark)
    browser.size(*size)
    place = HEADING.format(heading)
    browser.wait(place)
    browser.run(SCROLL.format(place))
    if point is not None:
        browser.wait(f"Chart.getChart({place}.closest('section').querySelector('canvas'))")
        browser.run("new Promise((then) => setTimeout(then, 1500))")  # until the line has been drawn
        browser.run(HOVER.format(place, point, point))
    return browser.picture()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=pathlib.Path)
    command = parser.parse_args().command.resolve()
    if not chromium.program():
        sys.exit("docs_screenshots.py: there is no chromium (Debian: chromium)")
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "report.html"
        subprocess.run([command, "report", RESULTS / "figures-1-to-19.csv", "--models", "gpt2,llama-3-8b", "-d", "h200", "-o", page],
                       check=True)
        browser = chromium.Browser()
        try:
            browser.open(page)
            (FIGURES / "report.png").write_bytes(shot(browser, "(m, 4096)", (900, 640), False, 12))
            (FIGURES / "report-findings.png").write_bytes(shot(browser, "vocabulary_alignment", (900, 560), True))
        finally:
            browser.close()


main()
