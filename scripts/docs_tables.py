#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds tables of numbers in docs/*.md and README.md that are neither made from rows nor in the list of exceptions.

    scripts/docs_tables.py         exit code 1 and a line for each table without rows that scripts/docs_tables.txt does not list,
                                   and for each line of that list which is no longer needed

A table of numbers has a digit in a third of its cells or more. It passes between the markers of docs_numbers.py
("made"), or with a "check" right after it. A line of the list has three fields with a tab between them:

    KIND  PAGE  HEAD      KIND: facts     definitions, sizes, names: nothing in it was measured
                                program   a program or the command makes it from stored or published numbers; no test compares it
                                log       what one change of the code gained or lost, or one profile of it, when it was tried: most of
                                          that code is gone, so that nobody can measure the rows again
                                run       printed by a run whose rows are not stored
                          HEAD: the first line of the table

A page with a table of the kind "log" or "run" must say so (WORDS), so that its reader knows.
"""
import argparse
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
LIST = pathlib.Path(__file__).resolve().with_suffix(".txt")
KINDS = ("facts", "program", "log", "run")
WORDS = "not made from stored rows"
RULE = re.compile(r"\s*\|(\s*:?-+:?\s*\|)+\s*$")


def cells(line):
    return line.strip().strip("|").split("|")


def numbers(body):
    """Whether a third of the cells or more have a digit."""
    among = [cell for line in body for cell in cells(line)]
    return 3 * sum(bool(re.search(r"\d", cell)) for cell in among) >= len(among) > 0


def checked(lines, after):
    """Whether a check follows a table that ends before this line, without an empty line between them."""
    return after < len(lines) and lines[after].lstrip().startswith("<!-- check:")


def tables_of(lines):
    """Line and head of each table of numbers that has no marker."""
    made = fenced = False
    for at, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        made = (made or "<!-- made:" in line) and "<!-- end -->" not in line
        if made or fenced or at == 0 or not RULE.match(line):
            continue
        after = at + 1
        while after < len(lines) and lines[after].lstrip().startswith("|"):
            after += 1
        if numbers(lines[at + 1:after]) and not checked(lines, after):
            yield at, " ".join(lines[at - 1].split())


def listed(path):
    """(kind, page, head) of each line; a head that a page has twice stands in two lines."""
    found = []
    for count, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or fields[0] not in KINDS:
            sys.exit(f"{path.name}:{count + 1}: expected one of {', '.join(KINDS)}, a page and the head of a table")
        found.append(tuple(fields))
    return found


def faults(pages, exceptions, top):
    found, left = [], [(page, head) for _, page, head in exceptions]
    for page in pages:
        name, text = str(page.relative_to(top)), page.read_text(encoding="utf-8")
        for at, head in tables_of(text.split("\n")):
            if (name, head) in left:
                left.remove((name, head))
            else:
                found.append(f"{name}:{at}: a table of numbers without \"made\", \"check\" or a line in {LIST.name}: {head}")
        if any(kind in ("log", "run") and of == name for kind, of, _ in exceptions) and WORDS not in " ".join(text.split()):
            found.append(f"{name}: has tables of unstored runs and does not say \"{WORDS}\"")
    return found + [f"{LIST.name}: {name} needs this line no more: {head}" for name, head in left]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=pathlib.Path, default=TOP)
    parser.add_argument("--list", type=pathlib.Path, default=LIST)
    arguments = parser.parse_args()
    top = arguments.top.resolve()
    found = faults([top / "README.md", *sorted((top / "docs").glob("*.md"))], listed(arguments.list), top)
    print("\n".join(found + [f"{len(listed(arguments.list))} tables without rows, {len(found)} faults"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
