#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts which kernels cuBLASLt's heuristic chooses for aligned GEMMs on Hopper, from answers of `bench/gemm_choices ask`.

    scripts/learn_choices.py [--write] FILE.csv…

Prints how much of the answers the most frequent kernels cover; --write: into src/analysis/predict/tma_kernels.inc. FILE may also be one
of data/results/*/choices-*.csv, whose points were timed. docs/notes/prediction.md says how the predictions use them.
"""
import argparse
import csv
import pathlib
import re
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREDICT = ROOT / "src/analysis/predict"
ALIGNED = 66  # the algorithm of aligned GEMMs
KERNELS = 250  # of the aligned ones that are written, each a tile with a cluster


def pairs(path, start):
    text = path.read_text(encoding="utf-8")
    text = text[text.index(start):] if start else text
    return numpy.array([(int(a), int(b)) for a, b in re.findall(r"\{(\d+), +(\d+)\}", text)])


TILES = pairs(ROOT / "src/runtime/cuda/gemm/cublaslt_tile_names.inc", "")[:, ::-1]
CLUSTERS = numpy.concatenate([[(1, 1), (1, 1)], pairs(ROOT / "src/runtime/cuda/gemm/algorithm.c", "clusters[][2]")[:, ::-1]])


def read(paths):
    """Columns of all answers that name a tile, in a random order."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                if row["algorithm"] == "none" or row.get("choice", "0") != "0":
                    continue
                transposes = row.get("transposes") or row["transpose_a"] + row["transpose_b"]
                number, tile, _, splits, _, _, _, _, cluster = map(int, row["algorithm"].split(":"))
                rows.append((int(row["m"]), int(row["n"]), int(row["k"]), int(row["batch"]), int(transposes[0]), int(transposes[1]),
                             number, tile, max(1, splits), cluster))
    table = numpy.array(rows)
    numpy.random.default_rng(0).shuffle(table)
    names = ("m", "n", "k", "batch", "ta", "tb", "algorithm", "tile", "splits", "cluster")
    answers = {name: table[:, i] for i, name in enumerate(names)}
    answers["cluster"], answers["tile"] = CLUSTERS[answers["cluster"]], TILES[answers["tile"]]
    return select(answers, answers["tile"][:, 0] > 0)


def select(answers, wanted):
    return {name: column[wanted] for name, column in answers.items()}


def learn_kernels(answers):
    """The most frequent tiles of the aligned kernels with their clusters."""
    answers = select(answers, answers["algorithm"] == ALIGNED)
    kernels, count = numpy.unique(numpy.hstack([answers["tile"], answers["cluster"]]), axis=0, return_counts=True)
    chosen = numpy.argsort(-count, kind="stable")[:KERNELS]
    print("aligned: %d tiles with a cluster, these %d are %.1f%% of %d choices" %
          (len(count), len(chosen), 100 * count[chosen].sum() / count.sum(), count.sum()))
    return ["TILE(%d, %d, %d, %d)" % tuple(kernels[i]) for i in chosen], count.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    lines, count = learn_kernels(read(options.files))
    with open(options.files[0], encoding="utf-8") as file:
        source = file.readline().strip("# \n").split(", seed")[0]
    head = ["/* SPDX-License-Identifier: Apache-2.0 */",
            "/* Written by scripts/learn_choices.py from %d answers of cuBLASLt's heuristic:" % count, " * %s. */" % source]
    if options.write:
        (PREDICT / "tma_kernels.inc").write_text("\n".join(head + lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
