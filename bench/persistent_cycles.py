#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the cycles of a decode step in one kernel go, medians over blocks and layers.

    HEADROOM_CYCLES=cycles.csv headroom step llama-3.1-8b -d cuda:0 --phase decode --batch 1 --context 2048
    bench/persistent_cycles.py cycles.csv

A row is an operator, a column a phase, which ends where src/runtime/cuda/kernels/persistent_cycles_layout.h says. A
layer is the time of one block from the first of its instructions to the next layer's; the last column is the operator's
share of it.
"""
import argparse
import collections
import csv
import signal
import statistics
import sys


class Instruction:
    def __init__(self, operator):
        self.operator = operator
        self.blocks = collections.defaultdict(lambda: collections.defaultdict(dict))  # [warp][block][phase]

    def total(self, block):
        return sum(self.blocks["computes"][block].values())


def read(path):
    """The instructions in their order."""
    instructions = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            one = instructions.setdefault(int(row["instruction"]), Instruction(row["operator"]))
            one.blocks[row["warp"]][int(row["block"])][row["phase"]] = int(row["cycles"])
    if not instructions:
        sys.exit(f"{path}: no cycles: no step was run as one kernel")
    return [instructions[number] for number in sorted(instructions)]


def layers_of(instructions):
    """Lists of instructions; what a step has once is of no layer."""
    counts = collections.Counter(one.operator for one in instructions)
    repeated = [one for one in instructions if counts[one.operator] > 1]
    layers = []
    for one in repeated:
        if one.operator == repeated[0].operator:
            layers.append([])
        layers[-1].append(one)
    return layers


def median(values):
    return round(statistics.median(values))


def print_table(warp, instructions, layer):
    operators = collections.defaultdict(list)
    for one in instructions:
        operators[one.operator].append(one)
    header = None
    for name, same in operators.items():
        runs = [run for one in same for run in one.blocks[warp].values()]
        phases = list(runs[0])
        if phases != header:
            header = phases
            names = "".join(f"{phase:>10}" for phase in phases + ["total", "layer"])
            print(f"\n{'the warp that ' + warp:24}{'times':>6}{names}")
        total = median(sum(run.values()) for run in runs)
        share = f"{100 * total / layer:9.0f}%" if layer and len(same) > 1 else f"{'':10}"
        cells = [median(run[phase] for run in runs) for phase in phases] + [total]
        print((f"{name:24}{len(same):6}" + "".join(f"{cell:10,}" for cell in cells) + share).rstrip())


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly as the reader of the output does
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="what HEADROOM_CYCLES named")
    instructions = read(parser.parse_args().file)
    blocks, layers = list(instructions[0].blocks["computes"]), layers_of(instructions)
    layer = median(sum(one.total(block) for one in each) for each in layers for block in blocks) if layers else 0
    step = median(sum(one.total(block) for one in instructions) for block in blocks)
    print(f"{len(blocks)} blocks, {len(layers)} layers of {layer:,} cycles, {step:,} cycles in all")
    for warp in ("computes", "copies"):
        print_table(warp, instructions, layer)


if __name__ == "__main__":
    main()
