#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learns which kernel cuBLASLt's heuristic chooses on Hopper, from answers of `bench/gemm_choices ask`.

    scripts/learn_choices.py [--write] TREE FILE.csv…

TREE is aligned_2_plain_tiles, aligned_2_batched_tiles, aligned_4_plain_tiles or aligned_4_batched_tiles (tiles of misaligned GEMMs), aligned_2_splits or
aligned_4_splits (how often k is split), or tma_kernels (the most frequent kernels of aligned GEMMs). Prints how often the tree is right for
rows that were held out; --write: into src/analysis/predict. odd: of an operand or result that is aligned to 2 bytes; narrow: to 4 or 8.

FILE may also be one of data/results/*/choices-*.csv, whose points were timed.

Needs scikit-learn. A tenth of the rows is held out; what is written is learned from the others. docs/notes/prediction.md says how the
predictions use them.
"""
import argparse
import csv
import pathlib
import re
import sys

import numpy
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREDICT = ROOT / "src/analysis/predict"
ALIGNED = 66  # the algorithm of aligned GEMMs
MISALIGNED = (23, 24)
KERNELS = 250  # of the aligned ones that are written, each a tile with a cluster
LEAVES = {"aligned_2_plain_tiles": 2000, "aligned_2_batched_tiles": 5000, "aligned_4_plain_tiles": 2500, "aligned_4_batched_tiles": 2000,
          "aligned_2_splits": 1200, "aligned_4_splits": 600}
LEAST_ROWS = 8  # of a leaf
LEAST_TILES = 20  # answers with a tile, for which it is learned


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


def alignment_of(answers):
    contiguous = numpy.stack([numpy.where(answers["ta"], answers["m"], answers["k"]), numpy.where(answers["tb"], answers["k"], answers["n"]),
                              answers["n"]])
    return numpy.min(2 * (contiguous & -contiguous), axis=0)


def tiles_of(answers, m, n):
    return -(-answers["m"] // m) * -(-answers["n"] // n) * answers["batch"]


def features_of(answers):
    """As in src/analysis/predict/misaligned_choice.c."""
    m, n, k, batch = (answers[name].astype(float) for name in ("m", "n", "k", "batch"))

    def covered(a, b):
        return m * n * batch / (tiles_of(answers, a, b) * a * b)

    def filled(waves):
        return waves / numpy.ceil(waves)

    return numpy.stack([m, n, k, batch, answers["ta"], answers["tb"], numpy.minimum(m, n), tiles_of(answers, 64, 64),
                        tiles_of(answers, 128, 128), tiles_of(answers, 128, 256), m * n * k * batch, covered(128, 128), covered(128, 256),
                        covered(256, 128), filled(tiles_of(answers, 128, 128) / 264), filled(tiles_of(answers, 128, 256) / 132)], axis=1)


def nodes_of(tree, leaf_of):
    """Nodes in preorder: a threshold, its feature, the node of larger values; of leaves feature -1 and two numbers."""
    nodes, t = [], tree.tree_

    def leaves(i):
        if t.children_left[i] < 0:
            return {leaf_of(t.value[i][0])}
        return leaves(t.children_left[i]) | leaves(t.children_right[i])

    def visit(i):
        at, below = len(nodes), leaves(i)
        nodes.append(None)
        if len(below) == 1:
            nodes[at] = "{0, -1, %d, %d}" % below.pop()
            return
        visit(t.children_left[i])
        right = len(nodes)
        visit(t.children_right[i])
        nodes[at] = "{%.9g, %d, %d, 0}" % (t.threshold[i], t.feature[i], right)

    visit(0)
    return nodes


def lines_of(name, nodes):
    lines, line = ["static const node %s[] = {" % name], " "
    for node in nodes:
        if len(line) + len(node) > 116:
            lines.append(line)
            line = " "
        line += " " + node + ","
    return lines + [line, "};"]


def learn_tiles(name, answers):
    answers = select(answers, (answers["batch"] > 1) == ("batched" in name))
    names = answers["tile"][:, 0] * 1000 + answers["tile"][:, 1]
    found, count = numpy.unique(names, return_counts=True)
    often = numpy.isin(names, found[count >= LEAST_TILES])
    x, y = features_of(answers)[often], names[often]
    cut = len(x) * 9 // 10
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES[name], min_samples_leaf=LEAST_ROWS, random_state=0).fit(x[:cut], y[:cut])
    print("%s: %d answers, tile of %.1f%% of the held-out ones" % (name, len(x), 100 * tree.score(x[cut:], y[cut:])))
    return lines_of(name, nodes_of(tree, lambda value: divmod(int(tree.classes_[numpy.argmax(value)]), 1000))), len(x)


def learn_splits(name, answers):
    """The binary logarithm of the splits, of plain GEMMs."""
    answers = select(answers, answers["batch"] == 1)
    tile = answers["tile"]
    x = numpy.column_stack([features_of(answers), tile[:, 0] * tile[:, 1], tiles_of(answers, tile[:, 0], tile[:, 1])])
    y = numpy.log2(answers["splits"])
    cut = len(x) * 9 // 10
    tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES[name], min_samples_leaf=LEAST_ROWS, random_state=0).fit(x[:cut], y[:cut])
    off = numpy.abs(tree.predict(x[cut:]) - y[cut:])
    print("%s: %d answers, off by a factor of %.2f in the mean, within a factor of 1.5 in %.1f%%" %
          (name, len(x), 2 ** off.mean(), 100 * (off < numpy.log2(1.5)).mean()))
    return lines_of(name, nodes_of(tree, lambda value: (max(1, round(2 ** float(value[0]))), 0))), len(x)


def learn_kernels(answers):
    """The most frequent tiles of the aligned kernels with their clusters."""
    answers = select(answers, answers["algorithm"] == ALIGNED)
    kernels, count = numpy.unique(numpy.hstack([answers["tile"], answers["cluster"]]), axis=0, return_counts=True)
    chosen = numpy.argsort(-count, kind="stable")[:KERNELS]
    print("aligned: %d tiles with a cluster, these %d are %.1f%% of %d choices" %
          (len(count), len(chosen), 100 * count[chosen].sum() / count.sum(), count.sum()))
    return ["WIDE(%d, %d, %d, %d)" % tuple(kernels[i]) for i in chosen], count.sum()


def learn(tree, answers):
    if tree == "tma_kernels":
        return learn_kernels(answers)
    alignment = alignment_of(answers)
    wanted = (alignment == 2) if tree.startswith("odd") else (alignment > 2) & (alignment < 16)
    answers = select(answers, wanted & numpy.isin(answers["algorithm"], MISALIGNED))
    return learn_splits(tree, answers) if tree.endswith("splits") else learn_tiles(tree, answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("tree", choices=[*LEAVES, "tma_kernels"])
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    lines, count = learn(options.tree, read(options.files))
    with open(options.files[0], encoding="utf-8") as file:
        source = file.readline().strip("# \n").split(", seed")[0]
    head = ["/* SPDX-License-Identifier: Apache-2.0 */",
            "/* Written by scripts/learn_choices.py from %d answers of cuBLASLt's heuristic:" % count, " * %s. */" % source]
    if options.write:
        folder = PREDICT if options.tree == "tma_kernels" else PREDICT / "misaligned_choices"
        (folder / f"{options.tree}.inc").write_text("\n".join(head + lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
