#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of the sweep sigma-ket beside table 8 of SIGMA (arXiv 2501.13629), as Markdown.

    headroom sweep sigma-ket -d cuda:0 -f csv | scripts/sigma_times.py [--bandwidth 4.43e12]

Reads standard input, or the files that are named; also rows of `headroom results export`. A call is one token of one layer; the paper's times are those of 10 tokens
by 26 layers, on a GPU and for a batch that it does not name; they are divided by 260 and stand beside batch 1. Split and
combine are the two kernels of decode_apart_sm80, each timed alone; both: one after the other; best: the kernel that is
otherwise taken, which may combine the splits itself. The bound is the time of the bytes at --bandwidth, in bytes per second
(the rate at which an H200 reads). Changes are from the standard model (STD) at the same prefix and batch; those of the
bytes are the least that a kernel must move.
"""
import argparse
import csv
import fileinput
import pathlib
import sys

PUBLISHED = pathlib.Path(__file__).resolve().parent.parent / "data/results/published/sigma-kernel-times.csv"
CALLS = 10 * 26  # tokens · layers
MODELS = {"standard": "STD", "sigma": "SIGMA"}
PARTS = ("best", "both", "split", "combine")
THEIRS = ("split", "combine", "total")
COLUMNS = {"series", "axes", "status", "median_ns", "problem"}


def fail(message):
    sys.exit(f"sigma_times.py: {message}")


def published_times():
    """(model, prefix, kernel) -> ns of one call."""
    with open(PUBLISHED, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {(MODELS[row["model"]], 1024 * int(row["prefix"].removesuffix("k")), row["kernel"]):
                float(row["time_ns"]) / CALLS for row in rows}


def read_rows(files):
    """(batch, prefix, model) -> part -> row."""
    reader = csv.DictReader(fileinput.input(files, encoding="utf-8"))
    missing = COLUMNS - set(reader.fieldnames or [])
    calls = {}
    if missing:
        fail(f"expected the CSV of `headroom sweep sigma-ket`, which has the column {sorted(missing)[0]}")
    for row in reader:
        names = row["series"].split(", ")
        if len(names) != 3 or not names[1].startswith("batch ") or not names[2].startswith("part "):
            fail(f"line {reader.line_num}: series: expected \"MODEL, batch N, part N\", found \"{row['series']}\"")
        prefix = dict(word.split("=") for word in row["axes"].split())["prefix"]
        key = int(names[1].removeprefix("batch ")), int(prefix), names[0]
        calls.setdefault(key, {})[PARTS[int(names[2].removeprefix("part "))]] = row
    return calls


def least_bytes(parts):
    """Q, K, V and O of a decode call in a format of 16 bits."""
    problem = next(iter(parts.values()))["problem"]
    n = {name: int(value) for name, value in (word.split("=") for word in problem.split()[1:]) if value.isdigit()}
    token = n["k_heads"] * n["qk_dim"] + n["v_heads"] * n["v_dim"]
    return 2 * n["batch"] * (n["kv_len"] * token + n["q_heads"] * (n["qk_dim"] + n["v_dim"]))


def microseconds(ns):
    return f"{float(ns) / 1e3:.1f}" if ns else ""


def percent(share):
    return f"{100 * float(share):+.1f}%" if share != "" else ""


def time_of(parts, part):
    row = parts.get(part)
    return row["median_ns"] or row["status"] if row else ""


def change_of(parts, standard, part):
    ours, theirs = (one.get(part, {}).get("median_ns") for one in (parts, standard))
    return float(ours) / float(theirs) - 1 if ours and theirs else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--bandwidth", type=float, default=4.43e12)
    arguments = parser.parse_args()
    published, calls = published_times(), read_rows(arguments.files)
    print("| batch | prefix | model | bound, µs | " + " | ".join(PARTS) + " | best: change | split: change | of bytes "
          "| paper: " + " | ".join(THEIRS) + " | change |")
    print("|---" * (4 + len(PARTS) + 3 + len(THEIRS) + 1) + "|")
    for batch, prefix, model in sorted(calls, key=lambda key: (key[0], key[1], key[2] != "STD", key[2])):
        parts = calls[batch, prefix, model]
        bound, standard = least_bytes(parts), calls.get((batch, prefix, "STD"), {})
        saved = bound / least_bytes(standard) - 1 if standard and model != "STD" else ""
        theirs = {kernel: published.get((model, prefix, kernel)) if batch == 1 else None for kernel in THEIRS}
        changes = [change_of(parts, standard, part) if model != "STD" else "" for part in ("best", "split")]
        paper = theirs["total"] / published["STD", prefix, "total"] - 1 if theirs["total"] and model != "STD" else ""
        times = [time_of(parts, part) for part in PARTS]
        cells = [batch, prefix, model, microseconds(bound / arguments.bandwidth * 1e9),
                 *(time if time and not time[0].isdigit() else microseconds(time) for time in times),
                 *(percent(change) for change in changes), percent(saved),
                 *(microseconds(theirs[kernel]) for kernel in THEIRS), percent(paper)]
        print("|", " | ".join(str(cell) for cell in cells), "|")


main()
