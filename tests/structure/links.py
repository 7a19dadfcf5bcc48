#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a link of a page, or a pointer of code to a page, whose file or heading is not there, and on a path in
backquotes that does not exist. Paths that a reader creates contain NAME or are listed in TO_BE_MADE."""
import collections
import functools
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
TO_BE_MADE = {"src/model/config/families/orion.c"}
PAGES = ("*.md", "docs/*.md", "docs/notes/*.md")
CODE = ("src", "cli", "include", "bench", "scripts", "cmake", "data/hardware", "data/architectures", "tests/unit", "tests/kernels", "tests/cli", "tests/emulation")
TEXT = {".c", ".cpp", ".h", ".inc", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".json"}
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
PATH = re.compile(r"`((?:src|include|cli|tests|docs|data|scripts|cmake|bench|completions)/[\w./-]*)`", re.ASCII)
POINTER = re.compile(r"(?<![\w/.-])((?:docs/[\w/-]+|README|ARCHITECTURE|CONTRIBUTING)\.md(?:#[\w-]+)?)")
POINTER_BY_WORDS = re.compile(r"\.md, \"")  # docs/PAGE.md, "Heading": nobody would notice that the heading is gone


@functools.cache
def anchors(page):
    """The anchors of a page's headings, as GitHub makes them: a heading that repeats gets a number."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen = collections.Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def is_there(target, folder, page=None):
    """Whether a target such as `gpu.md#ceilings`, seen from a folder, or `#ceilings`, seen from a page, is there."""
    name, _, anchor = target.partition("#")
    path = folder / name if name else page
    return path.exists() and (not anchor or path.suffix != ".md" or anchor in anchors(path))


def faults_of_page(page):
    """The links and paths of a page, each with what is wrong with it, or None."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if not re.match(r"(https?|mailto):", target):
            yield None if is_there(target, page.parent, page) else f"links to {target}, which is not there"
    for path in set(PATH.findall(text)) - TO_BE_MADE:
        if "NAME" not in path:
            yield None if (TOP / path).exists() else f"speaks of {path}, which is not there"


def faults_of_code(source):
    """The pointers of a source file to pages, each with what is wrong with it, or None."""
    text = source.read_text(encoding="utf-8", errors="replace")
    for target in POINTER.findall(text):
        if "PAGE" not in target:
            yield None if is_there(target, TOP) else f"points to {target}, which is not there"
    if POINTER_BY_WORDS.search(text):
        yield "points to a heading by its words; write docs/PAGE.md#heading"


def main():
    """Prints what is wrong in all pages and sources."""
    pages = sorted(page for pattern in PAGES for page in TOP.glob(pattern))
    sources = sorted(path for folder in CODE for path in (TOP / folder).rglob("*")
                     if path.is_file() and path.suffix in TEXT)
    checked = 0
    failed = False
    for path, find in [(page, faults_of_page) for page in pages] + [(source, faults_of_code) for source in sources]:
        for fault in find(path):
            checked += 1
            if fault:
                print(f"{path.relative_to(TOP)}: {fault}")
                failed = True
    print(f"{checked} links, paths and pointers")
    return failed


if __name__ == "__main__":
    sys.exit(main())
