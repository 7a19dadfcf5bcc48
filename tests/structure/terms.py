#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a heading of a table (a column's title in src/report) that cli/terms.inc does not explain, on a word that it explains
twice, and on a page or an anchor that is not there."""
import pathlib
import re
import sys

from links import is_there

TOP = pathlib.Path(__file__).resolve().parents[2]
COLUMN = re.compile(r'\{\s*(?:"[^"]*"|NULL),\s*"([^"]+)",\s*HR_[A-Z_]+,')
PARTS = {"eager", "measured", "step gain"}  # of headings with a comma, and words of their own
TERM = re.compile(r'^CLI_TERM\("(.*?)", "(.*?)", "(.*?)"\)$', re.MULTILINE)


def faults():
    rows = TERM.findall((TOP / "cli/terms.inc").read_text(encoding="utf-8"))
    words, seen = set(), []
    for terms, _, _ in rows:
        parts = terms.split(", ")
        words.update(parts, map(", ".join, zip(parts, parts[1:])))  # "gain, eager" is one heading
        seen += set(parts)
    for word in sorted({word for word in seen if seen.count(word) > 1} - PARTS):
        yield f"{word} is explained twice"
    for _, _, target in rows:
        if not is_there(target, TOP / "docs"):
            yield f"docs/{target} is not there"
    titles = {title: source.name for source in sorted((TOP / "src/report").glob("*.c"))
              for title in COLUMN.findall(source.read_text(encoding="utf-8"))}
    if len(titles) < 100:
        yield f"only {len(titles)} headings were found in src/report"
    for title, source in titles.items():
        if title not in words:
            yield f"src/report/{source}: the heading \"{title}\" is not in cli/terms.inc"


found = list(faults())
print("\n".join(found) or "every heading is explained")
sys.exit(1 if found else 0)
