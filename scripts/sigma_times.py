#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of the sweep sigma-ket beside table 8 of SIGMA (arXiv 2501.13629), as Markdown.

    headroom sweep sigma-ket -d cuda:0 -f csv | scripts/sigma_times.py

Reads standard input, or the files that are named. The paper's times are those of 10 tokens by 26 layers, split and combine
kernel together, on a GPU and for a batch that it does not name; they are divided by 260 and stand beside batch 1. Changes
are from the standard model (STD) at the same prefix and batch; that of the bytes is the least that a kernel must move.
"""
import csv
import fileinput
import pathlib
import sys

PUBLISHED = pathlib.Path(__file__).resolve().parent.parent / "data/results/published/sigma-kernel-times.csv"
CALLS = 10 * 26  # tokens · layers
MODELS = {"standard": "STD", "sigma": "SIGMA"}
COLUMNS = {"series", "x", "status", "median_ns", "change", "bytes_change"}


def fail(message):
    sys.exit(f"sigma_times.py: {message}")


def published_times():
    """(model, prefix) -> ns of one call."""
    with open(PUBLISHED, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {(MODELS[row["model"]], 1024 * int(row["prefix"].removesuffix("k"))): float(row["time_ns"]) / CALLS
                for row in rows if row["kernel"] == "total"}


def read_rows(files):
    reader = csv.DictReader(fileinput.input(files, encoding="utf-8"))
    missing = COLUMNS - set(reader.fieldnames or [])
    if missing:
        fail(f"expected the CSV of `headroom sweep sigma-ket`, which has the column {sorted(missing)[0]}")
    for row in reader:
        model, comma, batch = row["series"].partition(", batch ")
        if not comma:
            fail(f"line {reader.line_num}: series: expected \"MODEL, batch N\", found \"{row['series']}\"")
        yield model, int(batch), int(row["x"]), row


def microseconds(ns):
    return f"{float(ns) / 1e3:.1f}" if ns else ""


def percent(share):
    return f"{100 * float(share):+.1f}%" if share != "" else ""


def main():
    published, rows = published_times(), sorted(read_rows(sys.argv[1:]), key=lambda line: line[1:3])
    print("| batch | prefix | model | µs a call | change | of bytes | paper, µs a call | change |")
    print("|---|---|---|---|---|---|---|---|")
    for model, batch, prefix, row in rows:
        theirs = published.get((model, prefix)) if batch == 1 else None
        change = theirs / published["STD", prefix] - 1 if theirs and model != "STD" else ""
        cells = [batch, prefix, model, microseconds(row["median_ns"]) or row["status"], percent(row["change"]),
                 percent(row["bytes_change"]), microseconds(theirs), percent(change)]
        print("|", " | ".join(str(cell) for cell in cells), "|")


main()
