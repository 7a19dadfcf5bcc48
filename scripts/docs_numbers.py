#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/*.md and README.md from measured rows and predictions, and checks the numbers of sentences.

    scripts/docs_numbers.py --headroom build/debug/headroom           exit code 1 and a line for each number that differs
    scripts/docs_numbers.py --headroom build/debug/headroom --write   also writes the tables anew
    scripts/docs_numbers.py docs/findings.md                          only this page

A page has comments with Python expressions of docs_rows.py (rows of data/results), docs_command.py (what the command
predicts), docs_findings.py and docs_papers.py (what these pages show):

    <!-- made: EXPRESSION -->       the lines up to the next "<!-- end -->" are its text
    <!-- check: EXPRESSION -->      its text stands in the paragraph, list item or table before the comment
    <!-- drawn: PATH = EXPRESSION -->  its text is that file, from the top of the repository

An expression of a check gives one text or several. White space of the paragraph counts as one space.
"""
import argparse
import pathlib
import re
import sys

import docs_accuracy
import docs_advice
import docs_buying
import docs_command
import docs_findings
import docs_gpu
import docs_kernels
import docs_kernels_cpu
import docs_papers
import docs_picture
import docs_python
import docs_readme
import docs_rows
import docs_rowwise
import docs_serving
import docs_sigma
import docs_training

TOP = docs_rows.TOP
BEGIN = re.compile(r"[ ]*<!-- (made|check|drawn): (.*)", re.DOTALL)
END = "<!-- end -->"
MODULES = (docs_rows, docs_command, docs_accuracy, docs_advice, docs_buying, docs_findings, docs_gpu, docs_kernels, docs_kernels_cpu,
           docs_papers, docs_picture, docs_python, docs_readme, docs_rowwise, docs_serving, docs_sigma, docs_training)


class Page:
    def __init__(self, path, words):
        self.path, self.words, self.faults, self.checks = path, words, [], 0
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.written = []

    def fault(self, line, message):
        path = self.path.relative_to(TOP) if self.path.is_relative_to(TOP) else self.path
        self.faults.append(f"{path}:{line + 1}: {message}")

    def comment(self, at):
        """The kind and expression of a comment that begins at a line, and the line after it; None if there is none."""
        found = BEGIN.match(self.lines[at])
        if not found:
            return None
        text, after = found[2], at + 1
        while "-->" not in text and after < len(self.lines):
            text, after = f"{text}\n{self.lines[after]}", after + 1
        return found[1], " ".join(text.partition("-->")[0].split()), after

    def value(self, line, expression):
        try:
            return eval(expression, dict(self.words))  # our own pages
        except Exception as error:  # whatever an expression does wrong is a fault of the page
            self.fault(line, f"{type(error).__name__}: {error}: {expression}")
            return None

    def paragraph(self):
        """The text since the last empty line, without comments."""
        text = []
        for line in reversed(self.written):
            if not line.strip():
                break
            text.insert(0, line)
        return " ".join(re.sub(r"<!--.*?-->", " ", "\n".join(text), flags=re.DOTALL).split())

    def check(self, line, expression):
        value = self.value(line, expression)
        for text in [value] if isinstance(value, str) else value or []:
            self.checks += 1
            if " ".join(text.split()) not in self.paragraph():
                self.fault(line, f"the rows say \"{text}\", which the text before the comment does not")

    def draw(self, line, expression, write):
        path, _, drawing = expression.partition(" = ")
        value = self.value(line, drawing)
        self.checks += 1
        if value is not None and write:
            (TOP / path).write_text(value, encoding="utf-8")
        if value is not None and not ((TOP / path).exists() and (TOP / path).read_text(encoding="utf-8") == value):
            self.fault(line, f"{path} is not what the rows draw: scripts/docs_numbers.py --headroom … --write")

    def make(self, line, expression, after):
        """Puts the lines of a table or sentence into the page; gives the line of its end."""
        end = next((i for i in range(after, len(self.lines)) if self.lines[i].strip() == END), None)
        value = self.value(line, expression)
        if end is None:
            self.fault(line, f"no \"{END}\" follows")
            return after
        if value is None:
            self.written += self.lines[after:end]
            return end
        self.checks += 1
        if value.split("\n") != self.lines[after:end]:
            self.fault(line, "the lines up to the next end are not those of the rows: scripts/docs_numbers.py "
                       "--headroom … --write")
        self.written += value.split("\n")
        return end

    def read(self, write=False):
        at = 0
        while at < len(self.lines):
            comment = self.comment(at)
            if not comment:
                self.written.append(self.lines[at])
                at += 1
                continue
            kind, expression, after = comment
            if kind == "check":
                self.check(at, expression)
            elif kind == "drawn":
                self.draw(at, expression, write)
            self.written += self.lines[at:after]
            at = self.make(at, expression, after) if kind == "made" else after
        return "\n".join(self.written)


def vocabulary(headroom):
    words = {name: getattr(module, name) for module in MODULES for name in dir(module) if not name.startswith("_")}
    docs_command.use(headroom)
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--headroom", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    words = vocabulary(arguments.headroom)
    faults, checks = [], 0
    for path in arguments.pages or [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]:
        page = Page(path.resolve(), words)
        text = page.read(arguments.write)
        if arguments.write and text != "\n".join(page.lines):
            path.write_text(text, encoding="utf-8")
            page = Page(path.resolve(), words)
            page.read()
        faults += page.faults
        checks += page.checks
    print("\n".join(faults + [f"{checks} numbers and tables, {len(faults)} differ"]))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
