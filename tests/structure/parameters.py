#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a public function of more than six parameters: a caller cannot read them. Options and what belongs together
are structs."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
MOST = 6
DECLARATION = re.compile(r"\bHR_API\b[^;()]*?\b(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*;")


def declarations(text):
    """Names and numbers of parameters."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, parameters in DECLARATION.findall(text):
        commas = re.sub(r"\([^()]*\)", "", parameters).count(",")
        yield name, 0 if parameters.strip() == "void" else commas + 1


found = [(path, *each) for path in sorted(TOP.glob("include/headroom/**/*.h")) for each in declarations(path.read_text())]
faults = [each for each in found if each[2] > MOST]
for path, name, count in faults:
    print(f"{path.relative_to(TOP)}: {name}() has {count} parameters, at most {MOST}")
if len(found) < 300:
    print(f"only {len(found)} public functions found")
print(f"{len(found)} public functions")
sys.exit(bool(faults) or len(found) < 300)
