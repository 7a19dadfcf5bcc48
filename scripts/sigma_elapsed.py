#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Elapsed times of figures 3 to 6 of SIGMA (arXiv 2501.13629) from measured calls, as Markdown and as rows to draw.

    headroom sweep sigma-ceet sigma-ceet-q -d cuda:0 --db rows.db && headroom results export --db rows.db -o rows.csv
    build/release/bench/sigma_elapsed cuda:0 1 16384 2048 > cache.csv
    scripts/sigma_elapsed.py rows.csv cache.csv [--batch 1] [--rows outputs.csv]
    headroom plot bench/sigma_outputs.json#sigma-output-total outputs.csv --view gain -o figure-6.svg

An output of n tokens behind a prefix is n steps, each of 26 layers that make Q, append to the KV cache and attend to one
token more. Attention is interpolated between the contexts that were measured; Q and the cache cost the same at every
context. Improvements are of SIGMA (32/4/16 heads, augmented Q) from the standard model (STD, 32/16/16), positive where SIGMA
takes less. Break-even is the context from which on a step of SIGMA takes less, and the prefix from which on an output does,
with the augmented Q and with a Q of one layer as STD's. Rows "run" of cache.csv are whole outputs: the sum's error is
printed. --rows writes the sums as rows of the sweeps of bench/sigma_outputs.json, which `headroom plot` draws: sigma-output-q,
-cache, -attention and -total are figures 3 to 6, as elapsed time or, with --view gain, as time of STD over that of SIGMA.
"""
import argparse
import bisect
import csv
import sys

LAYERS = 26
OUTPUTS = [1024 * k for k in (2, 4, 8, 16, 32, 64)]
PREFIXES = [1024 * k for k in (0, 2, 4, 8, 16, 32, 64)]
# Prefixes of the rows: a picture's break-evens, on straight lines between them, are within 2% of those of the sums.
DRAWN = range(0, 65537, 2048)
Q_PARTS = {"STD": ["STD"], "SIGMA": ["SIGMA up", "SIGMA to heads"]}
PARTS = {"q": "augmented Q", "cache": "KV cache", "attention": "attention", "total": "total"}  # figures 3 to 6
PROVENANCE = ("date", "device", "product", "driver", "libraries", "host", "program")


def fail(message):
    sys.exit(f"sigma_elapsed.py: {message}")


class Curve:
    """Time of a call over the context, linear between the points; steps() is its sum over consecutive contexts."""

    def __init__(self, points):
        self.x, self.y = zip(*sorted(points))

    def at(self, context):
        i = bisect.bisect_left(self.x, context)
        if i == 0:
            return self.y[0]
        if i == len(self.x):
            fail(f"no time of attention at {context} tokens or more; measured up to {self.x[-1]}")
        share = (context - self.x[i - 1]) / (self.x[i] - self.x[i - 1])
        return self.y[i - 1] + share * (self.y[i] - self.y[i - 1])

    def steps(self, first, last):
        """Sum over the contexts first … last."""
        cuts = [first] + [x for x in self.x if first < x < last] + [last]
        total = self.at(first)
        for a, b in zip(cuts, cuts[1:]):  # a + 1 … b, on one straight line
            total += (b - a) * (self.at(a) + self.at(b)) / 2 + (self.at(b) - self.at(a)) / 2
        return total


class Times:
    """Measured calls of one batch, in ns."""

    def __init__(self):
        self.attention, self.q, self.cache, self.runs = {"STD": [], "SIGMA": []}, {}, {}, []
        self.provenance = {name: "" for name in PROVENANCE}  # of the latest call
        self.dtype = ""
        self.samples = None  # the fewest of a call

    def close(self, batch):
        for model, points in self.attention.items():
            if not points:
                fail(f"no row of attention of {model} at batch {batch}")
        self.attention = {model: Curve(points) for model, points in self.attention.items()}
        for name in sum(Q_PARTS.values(), []):
            if name not in self.q:
                fail(f"no row of Q of {name} at batch {batch}")
        for model in Q_PARTS:
            if model not in self.cache:
                fail(f"no row of the cache of {model} at batch {batch}")

    def take_provenance(self, row):
        self.dtype = row.get("dtype", "")
        if row.get("date", "") >= self.provenance["date"]:
            self.provenance = {name: row.get(name, "") for name in PROVENANCE}
        samples = int(row.get("samples") or 1)
        self.samples = min(self.samples or samples, samples)

    def q_of(self, model, augmented=True):
        return sum(self.q[name] for name in Q_PARTS[model if augmented else "STD"])

    def elapsed(self, part, model, prefix, output, augmented=True):
        """Time of a part for `output` tokens behind `prefix`, all layers."""
        if part == "total":
            return sum(self.elapsed(one, model, prefix, output, augmented) for one in ("q", "cache", "attention"))
        if part == "attention":
            return LAYERS * self.attention[model].steps(prefix + 1, prefix + output)
        return LAYERS * output * (self.q_of(model, augmented) if part == "q" else self.cache[model])

    def saved(self, part, prefix, output, augmented=True):
        return self.elapsed(part, "STD", prefix, output) - self.elapsed(part, "SIGMA", prefix, output, augmented)

    def saved_in_step(self, context, augmented=True):
        other = self.q_of("STD") + self.cache["STD"] - self.q_of("SIGMA", augmented) - self.cache["SIGMA"]
        return other + self.attention["STD"].at(context) - self.attention["SIGMA"].at(context)


def read(paths, batch):
    times = Times()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            names = set(rows.fieldnames or [])
            if {"what", "model", "batch", "prefix", "output", "ns"} <= names:
                read_program(rows, batch, times)
            elif {"series", "axes", "status", "median_ns"} <= names:
                read_sweeps(rows, batch, times)
            else:
                fail(f"{path}: expected rows of the sweeps, or of bench/sigma_elapsed")
    times.close(batch)
    return times


def read_program(rows, batch, times):
    for row in rows:
        if int(row["batch"]) != batch:
            continue
        if row["what"] == "cache":
            times.cache[row["model"]] = float(row["ns"])
        elif row["what"] == "run":
            times.runs.append((row["model"], int(row["prefix"]), int(row["output"]), float(row["ns"])))


def read_sweeps(rows, batch, times):
    for row in rows:
        axes = dict(pair.split("=", 1) for pair in row["axes"].split() if "=" in pair)
        if int(axes.get("b", 0)) != batch or not row["median_ns"]:
            continue
        times.take_provenance(row)
        if "context" in axes:
            model = row["series"].partition(",")[0]
            if model in times.attention:
                times.attention[model].append((int(axes["context"]), float(row["median_ns"])))
        elif "in" in axes:
            times.q[row["series"]] = float(row["median_ns"])


# ---- tables ----


def thousands(tokens):
    return f"{tokens // 1024}k"


def zero_of(saved, least, most):
    """Where an ascending function passes 0, to the token; None if it does not up to `most`."""
    if saved(least) > 0:
        return least
    if saved(most) <= 0:
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if saved(middle) > 0 else (middle, most)
    return most


def print_elapsed(times):
    print("| output | prefix |" + "".join(f" {PARTS[p]} STD, ms | SIGMA |" for p in PARTS) + " saved, ms | saved |")
    print("|---|---|" + "---|---|" * len(PARTS) + "---|---|")
    for output in OUTPUTS:
        for prefix in PREFIXES:
            cells = [thousands(output), thousands(prefix)]
            for part in PARTS:
                cells += [f"{times.elapsed(part, model, prefix, output) / 1e6:.0f}" for model in ("STD", "SIGMA")]
            saved = times.saved("total", prefix, output)
            cells += [f"{saved / 1e6:+.0f}", f"{100 * saved / times.elapsed('total', 'STD', prefix, output):+.1f}%"]
            print("|", " | ".join(cells), "|")


def print_break_even(times):
    most = min(curve.x[-1] for curve in times.attention.values())
    print("\n| a step of SIGMA takes less from a context of | with its augmented Q | with a Q of one layer |")
    print("|---|---|---|")
    cells = [zero_of(lambda c, a=augmented: times.saved_in_step(c, a), 1, most) for augmented in (True, False)]
    print("| tokens |", " | ".join("never" if cell is None else str(cell) for cell in cells), "|")
    print("\n| an output of | from a prefix of, with its augmented Q | with a Q of one layer |")
    print("|---|---|---|")
    for output in OUTPUTS:
        cells = [zero_of(lambda p, a=augmented: times.saved("total", p, output, a), 0, most - output)
                 for augmented in (True, False)]
        print(f"| {thousands(output)} |", " | ".join("never" if cell is None else str(cell) for cell in cells), "|")


def print_runs(times):
    if times.runs:
        print("\n| model | prefix | output | measured, ms | sum, ms | error of the sum |\n|---|---|---|---|---|---|")
    for model, prefix, output, measured in times.runs:
        total = times.elapsed("total", model, prefix, output)
        print(f"| {model} | {prefix} | {output} | {measured / 1e6:.1f} | {total / 1e6:.1f} | {total / measured - 1:+.1%} |")


# ---- rows, from which headroom plot draws bench/sigma_outputs.json ----


def series_of(part, model, k, batch):
    """Q and the cache take the same behind every prefix: bench/sigma_outputs.json draws them over the output."""
    return f"{model}, batch {batch}" if part in ("q", "cache") else f"{model}, {k}k tokens, batch {batch}"


def rows_of(times, batch):
    """A row for each part, model, output and prefix. The sums have no interval, since the cache has none."""
    shared = {**times.provenance, "operation": "other", "status": "ok", "samples": times.samples}
    for part in PARTS:
        for model, k_heads in (("STD", 16), ("SIGMA", 4)):
            for output in OUTPUTS:
                for prefix in DRAWN:
                    k = output // 1024
                    yield {**shared, "sweep": f"sigma-output-{part}", "series": series_of(part, model, k, batch),
                           "axes": f"case={int(model != 'STD')} a_k={k_heads} b={batch} k={k} prefix={prefix}",
                           "problem": f"{LAYERS} layers, {output} tokens behind {prefix}, {model} dtype={times.dtype}",
                           "median_ns": times.elapsed(part, model, prefix, output)}


def write_rows(times, batch, path):
    rows = list(rows_of(times, batch))
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rows", metavar="FILE", help="CSV of the sums, for headroom plot")
    arguments = parser.parse_args()
    times = read(arguments.files, arguments.batch)
    print_elapsed(times)
    print_break_even(times)
    print_runs(times)
    if arguments.rows:
        write_rows(times, arguments.batch, arguments.rows)


main()
