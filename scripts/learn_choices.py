#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learns which kernel cuBLASLt's heuristic chooses on Hopper, from answers of `bench/gemm_choices ask`.

    scripts/learn_choices.py FILE.csv…            prints how often the trees name the library's tile for rows that were held out
    scripts/learn_choices.py --write FILE.csv…    also writes src/analysis/predict/narrow_choices.inc
    scripts/learn_choices.py --aligned [--write] FILE.csv…    the aligned kernels alone: src/analysis/predict/wide_kernels.inc

FILE may also be one of data/results/*/choices-*.csv, whose points were timed.

Needs scikit-learn. A quarter of the rows is held out; what is written is learned from the others. docs/prediction.md says how the
predictions use them.
"""
import argparse
import collections
import csv
import pathlib
import re
import sys

import numpy
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREDICT = ROOT / "src/analysis/predict"
ALIGNED = 66  # the algorithm of aligned GEMMs
KERNELS = 250  # of these that are written, each a tile with a cluster
LEAVES = {"narrow": (1000, 600), "odd": (2000, 1200)}  # of the trees for the tile and for the splits
LEAST_ROWS = 8  # of a leaf
# As in src/analysis/predict/narrow_choice.c.
FEATURES = ["m", "n", "k", "batch", "transpose_a", "transpose_b", "shorter", "tiles_64", "tiles_128", "tiles_256", "work", "covered_128",
            "covered_256", "covered_256_high", "filled_128", "filled_256"]


def pairs(path, start):
    text = path.read_text(encoding="utf-8")
    text = text[text.index(start):] if start else text
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+), +(\d+)\}", text)]


TILES = pairs(ROOT / "src/runtime/cuda/gemm/cublaslt_tile_names.inc", "")
CLUSTERS = pairs(ROOT / "src/runtime/cuda/gemm/algorithm.c", "clusters[][2]")


def read(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                if row["algorithm"] == "none" or row.get("choice", "0") != "0":
                    continue
                transposes = row.get("transposes") or row["transpose_a"] + row["transpose_b"]
                number, tile, _, splits, _, _, _, _, cluster = map(int, row["algorithm"].split(":"))
                (n, m), (cn, cm) = TILES[tile], CLUSTERS[cluster - 2] if cluster >= 2 else (1, 1)
                if m > 0:
                    yield {"algorithm": number, "tile": (m, n), "cluster": (cm, cn), "splits": max(1, splits),
                           "m": int(row["m"]), "n": int(row["n"]), "k": int(row["k"]), "batch": int(row["batch"]),
                           "ta": int(transposes[0]), "tb": int(transposes[1])}


def alignment_of(row):
    contiguous = (row["m"] if row["ta"] else row["k"], row["k"] if row["tb"] else row["n"], row["n"])
    return min(2 * (size & -size) for size in contiguous)


def features_of(row):
    m, n, k, batch = row["m"], row["n"], row["k"], row["batch"]

    def tiles(a, b):
        return -(-m // a) * -(-n // b) * batch

    def covered(a, b):
        return m * n * batch / (tiles(a, b) * a * b)

    def filled(waves):
        return waves / numpy.ceil(waves)

    return [m, n, k, batch, row["ta"], row["tb"], min(m, n), tiles(64, 64), tiles(128, 128), tiles(128, 256), m * n * k * batch,
            covered(128, 128), covered(128, 256), covered(256, 128), filled(tiles(128, 128) / 264), filled(tiles(128, 256) / 132)]


def write_tree(out, name, tree, leaf_of):
    """Nodes in preorder: a feature, its threshold, the node of larger values; of leaves feature -1 and two numbers."""
    nodes, t = [], tree.tree_

    def leaves(i):
        if t.children_left[i] < 0:
            return {leaf_of(t.value[i][0])}
        return leaves(t.children_left[i]) | leaves(t.children_right[i])

    def visit(i):
        at, below = len(nodes), leaves(i)
        nodes.append(None)
        if len(below) == 1:
            nodes[at] = "{-1, 0, %d, %d}" % below.pop()
            return
        visit(t.children_left[i])
        right = len(nodes)
        visit(t.children_right[i])
        nodes[at] = "{%d, %.9g, %d, 0}" % (t.feature[i], t.threshold[i], right)

    visit(0)
    out.append("static const node %s[] = {" % name)
    line = " "
    for node in nodes:
        if len(line) + len(node) > 116:
            out.append(line)
            line = " "
        line += " " + node + ","
    out.extend([line, "};", ""])


def learn(name, rows, out):
    """Trees for the tile and, of plain GEMMs, for the binary logarithm of the splits."""
    tile_leaves, split_leaves = LEAVES[name]
    tiles = [tile for tile, count in collections.Counter(row["tile"] for row in rows).most_common() if count >= 20]
    rows = [row for row in rows if row["tile"] in tiles]
    x = numpy.array([features_of(row) for row in rows], float)
    y = numpy.array([tiles.index(row["tile"]) for row in rows])
    cut = len(rows) * 3 // 4
    tree = DecisionTreeClassifier(max_leaf_nodes=tile_leaves, min_samples_leaf=LEAST_ROWS, random_state=0).fit(x[:cut], y[:cut])
    print("%s: %d rows, tile of %.1f%% of the held-out rows" % (name, len(rows), 100 * tree.score(x[cut:], y[cut:])))
    write_tree(out, name + "_tiles", tree, lambda value: tiles[int(tree.classes_[numpy.argmax(value)])])
    plain = numpy.array([row["batch"] == 1 for row in rows])
    area = numpy.array([[row["tile"][0] * row["tile"][1],
                         -(-row["m"] // row["tile"][0]) * -(-row["n"] // row["tile"][1]) * row["batch"]] for row in rows], float)
    xs, ys = numpy.hstack([x, area])[plain], numpy.log2([row["splits"] for row in rows])[plain]
    cut = len(xs) * 3 // 4
    tree = DecisionTreeRegressor(max_leaf_nodes=split_leaves, min_samples_leaf=LEAST_ROWS, random_state=0).fit(xs[:cut], ys[:cut])
    off = numpy.abs(tree.predict(xs[cut:]) - ys[cut:])
    print("%s: splits off by a factor of %.2f in the mean, within a factor of 1.5 in %.1f%%" %
          (name, 2 ** off.mean(), 100 * (off < numpy.log2(1.5)).mean()))
    write_tree(out, name + "_splits", tree, lambda value: (max(1, round(2 ** float(value[0]))), 0))


def kernels(rows, out):
    """The most frequent tiles of the aligned kernels with their clusters."""
    count = collections.Counter(row["tile"] + row["cluster"] for row in rows)
    chosen = sorted(count.items(), key=lambda item: (-item[1], item[0]))[:KERNELS]
    print("aligned: %d tiles with a cluster, these %d are %.1f%% of %d choices" %
          (len(count), len(chosen), 100 * sum(n for _, n in chosen) / len(rows), len(rows)))
    out.extend("WIDE(%d, %d, %d, %d)" % kernel for kernel, _ in chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--aligned", action="store_true", help="the aligned kernels alone")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    rows = list(read(options.files))
    with open(options.files[0], encoding="utf-8") as file:
        source = file.readline().strip("# \n").split(", seed")[0]
    numpy.random.default_rng(0).shuffle(rows)
    if options.aligned:
        rows = [row for row in rows if row["algorithm"] == ALIGNED]
        source = ", ".join(pathlib.Path(name).name for name in options.files)
    head = ["/* SPDX-License-Identifier: Apache-2.0 */",
            "/* Written by scripts/learn_choices.py from %d answers of cuBLASLt's heuristic:" % len(rows), " * %s. */" % source]
    if options.aligned:
        kernels(rows, head)
        if options.write:
            (PREDICT / "wide_kernels.inc").write_text("\n".join(head) + "\n", encoding="utf-8")
        return 0
    trees = list(head)
    for name, least, most in (("narrow", 4, 8), ("odd", 2, 2)):
        learn(name, [row for row in rows if least <= alignment_of(row) <= most and row["algorithm"] in (23, 24)], trees)
    if options.write:
        (PREDICT / "narrow_choices.inc").write_text("\n".join(trees), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
