#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a page that is too long to be read, in words as `wc -w` counts them. Notes in docs/notes are not pages."""
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = 3000
REFERENCES = {"docs/cli.md": 6300, "docs/json.md": 6150}  # each key and option; these may only become shorter
OTHERS = {"README.md": 900, "ARCHITECTURE.md": 1200, "CONTRIBUTING.md": 1600}
ALL_PAGES = 56800  # of docs/*.md together; grows with a command only

words = {str(path.relative_to(TOP)): len(path.read_text().split()) for path in sorted(TOP.glob("docs/*.md"))}
faults = [(name, count, REFERENCES.get(name, PAGE)) for name, count in words.items() if count > REFERENCES.get(name, PAGE)]
faults += [(name, count, most) for name, most in OTHERS.items() if (count := len((TOP / name).read_text().split())) > most]
if sum(words.values()) > ALL_PAGES:
    faults.append(("docs/*.md", sum(words.values()), ALL_PAGES))
for name, count, most in faults:
    print(f"{name}: {count:,} words, at most {most:,}; what is not the answer belongs into docs/notes")
print(f"{len(words)} pages, {sum(words.values()):,} words")
sys.exit(bool(faults))
