# SPDX-License-Identifier: Apache-2.0
"""The words of the expressions in docs/*.md (docs_numbers.py): rows of data/results, their statistics, and tables.

A value of a row is a number where its text is one; `row.h` is a column, or else an axis or a member of the problem.
"""
import csv
import functools
import math
import pathlib
import statistics

TOP = pathlib.Path(__file__).resolve().parent.parent
RESULTS = TOP / "data/results"


@functools.lru_cache(maxsize=None)
def number(text):
    """A number if the text is one, else the text."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


class Row(dict):
    """A row of a CSV file. tflops, gflops and ms are computed; what is neither column, axis nor problem is an error."""

    def __getattr__(self, name):
        self.__dict__[name] = value = self._find(name)  # found at once the next time
        return value

    def _find(self, name):
        if self.get(name, "") != "":
            return number(self[name])
        if name in ("tflops", "gflops"):
            return float(self["flops_per_s"]) / {"tflops": 1e12, "gflops": 1e9}[name]
        if name == "ms":
            return float(self["median_ns"]) / 1e6
        words = f"{self.get('axes', '')} {self.get('problem', '')}".split()
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        if name not in pairs and name not in self:
            raise AttributeError(f"a row has no {name}")
        return number(pairs.get(name, ""))


@functools.lru_cache(maxsize=None)
def read(name):
    """The rows of all files of data/results whose path matches, which must exist."""
    paths = sorted(RESULTS.glob(name))
    if not paths:
        raise ValueError(f"no file data/results/{name}")
    found = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            found += [Row(row) for row in csv.DictReader(line for line in file if not line.startswith("#"))]
    return found


def matches(row, wanted):
    for name, value in wanted.items():
        has = getattr(row, name)
        if callable(value):
            if has == "" or not value(has):
                return False
        elif has not in value if isinstance(value, (tuple, list, set, range)) else has != value:
            return False
    return True


@functools.lru_cache(maxsize=None)
def by_sweep(name):
    found = {}
    for row in read(name):
        found.setdefault(row.get("sweep", ""), []).append(row)
    return found


def rows(name, /, **wanted):
    """Rows with these values, one of these values, or values of which the function is true; none is an error."""
    among = by_sweep(name).get(wanted["sweep"], []) if isinstance(wanted.get("sweep"), str) else read(name)
    found = [row for row in among if matches(row, wanted)]
    if not found:
        raise ValueError(f"no row of data/results/{name} with {wanted}")
    return found


def one(name, /, **wanted):
    found = rows(name, **wanted)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows of data/results/{name} with {wanted}, expected one")
    return found[0]


def h200(sweep, /, **wanted):
    """Rows of the co-design paper's figures on the H200 that were measured well, bf16 unless said."""
    return rows("h200/figure*[0-9].csv", **{"sweep": sweep, "status": "ok", "dtype": "bf16", **wanted})


def rates(found):
    return [row.tflops for row in found]


def median(values):
    return statistics.median(list(values))


def mean(values):
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def power(value, most=64):
    """The largest power of two up to `most` that divides the value."""
    return math.gcd(int(value), most)


def percent(ratio, digits=0):
    """A change as text: 1.03 is +3%."""
    return f"{100 * (ratio - 1):+.{digits}f}%"


def extremes(values, digits=0):
    values = list(values)
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def dashed(values, digits=0):
    """2.66–2.79, or one number where both round to it."""
    least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return least if least == most else f"{least}–{most}"


def cell(value):
    """A value in a table: None is empty, a float has three digits or more."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return "" if value is None else str(value)


def table(head, lines):
    """Markdown."""
    if any(len(line) != len(head) for line in lines):
        raise ValueError("a line of the table has not the cells of its head")
    texts = [" | ".join(map(cell, line)) for line in (head, *lines)]
    return "\n".join([f"| {texts[0]} |", "|---" * len(head) + "|", *(f"| {text} |" for text in texts[1:])])
