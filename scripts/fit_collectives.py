#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the rates of collectives in device files to measured times.

    scripts/fit_collectives.py [--csv FILE] [--write] [--forms] [DEVICE …]

FILE has the columns device, kind, dtype, gpus, nodes, bytes, time_ns, source (default data/results/published/collectives.csv);
a name of a device is that of its file in data/hardware. Prints the list "collectives" of each device, or with --write
puts it into the file. --forms compares forms of the time instead, fitted and held out.

With x = bytes · share / β (share: bus over algorithm bandwidth, as nccl-tests has it) the time is α + x + γ·√(α·x). The
mean of |log(predicted / measured)| is minimized. Sizes are held out in eight parts: every eighth size, all of its rows.
error_band is that of nine in ten held-out rows. Rows of several nodes are not used.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")
FOLDS = 8
LEAST_BAND = 0.15
# Devices whose links are those of another one, which alone was measured.
SAME_LINKS = {"a100-sxm4-40gb": "a100-sxm4-80gb"}
SAME_POINT_TO_POINT = {"h200": "h100-sxm"}
# The host of the L40S rows has no direct path between most of its GPUs: 20 GB/s for 2, 5 for 4, 1 to 2 for 8.
MOST_DEVICES = {"l40s": 2, "gb300": 8}  # of 16 GB300 kernels differ by up to eight times
FRAMEWORKS = ("sglang", "trtllm", "vllm")


def share(kind, devices):
    if kind == "point_to_point":
        return 1
    return (devices - 1) / devices * (2 if kind == "all_reduce" else 1)


def wanted(kind, row):
    """All-reduces are the inference frameworks', others NCCL's in 2 bytes: it reduces int8 without the switch."""
    if kind == "all_reduce":
        return any(name in row["source"] for name in FRAMEWORKS)
    return row["dtype"] != "int8"


def read_groups(path):
    """(device, kind, devices) → [(bus bytes, time in ns)]"""
    groups = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            kind = {"p2p": "point_to_point"}.get(row["kind"], row["kind"])
            devices = int(row["gpus"])
            if kind not in KINDS:
                sys.exit(f"fit_collectives.py: {path}: kind \"{kind}\" is not a collective")
            if row["nodes"] == "1" and wanted(kind, row) and devices <= MOST_DEVICES.get(row["device"], devices):
                groups[row["device"], kind, devices].append((int(row["bytes"]) * share(kind, devices), int(row["time_ns"])))
    return groups


# ---- forms: parameters → time of so many bus bytes ----


def line(p, x):
    return math.exp(p[0]) + x / math.exp(p[1])


def larger(p, x):
    return max(math.exp(p[0]), x / math.exp(p[1]))


def two_lines(p, x):
    return min(line(p, x), line(p[2:], x))


def three_lines(p, x):
    return min(line(p, x), line(p[2:], x), line(p[4:], x))


def power(p, x):
    return math.exp(p[0]) + math.exp(-p[1]) * x ** p[2]


def ramp(p, x):
    latency, transfer = math.exp(p[0]), x / math.exp(p[1])
    return latency + transfer + max(p[2], 0) * math.sqrt(latency * transfer)


def full_ramp(p, x):
    return ramp((p[0], p[1], 2), x)


def unit_ramp(p, x):
    return ramp((p[0], p[1], 1), x)


def starts(form, least, rate):
    a, b = math.log(least), math.log(rate)
    if form is two_lines:
        return [(a, b - 1, a + 1.5, b), (a, b - 2, a + 2.5, b)]
    if form is three_lines:
        return [(a, b - 2, a + 1, b - 1, a + 2.5, b), (a, b - 3, a + 1.5, b - 1.5, a + 3, b)]
    if form in (power, ramp):
        return [(a, b, 1.0)]
    return [(a, b)]


FORMS = {
    "latency + transfer": line,
    "the larger of both": larger,
    "fastest of 2 lines": two_lines,
    "fastest of 3 lines": three_lines,
    "latency + power of bytes": power,
    "with a ramp of 1": unit_ramp,
    "with a ramp of 2": full_ramp,
    "with a fitted ramp (taken)": ramp,
}


def loss(form, points, p):
    return sum(abs(math.log(max(form(p, x), 1e-9) / t)) for x, t in points) / len(points)


def descend(form, points, p):
    """Pattern search along the axes; the parameters are few and the loss has kinks."""
    best, p = loss(form, points, p), list(p)
    steps = [0.5] * len(p)
    while max(steps) > 1e-4:
        for i, step in enumerate(steps):
            tried = [(loss(form, points, p[:i] + [p[i] + d] + p[i + 1 :]), p[i] + d) for d in (step, -step)]
            least = min(tried)
            if least[0] < best - 1e-12:
                best, p[i] = least
                steps[i] *= 1.3
            else:
                steps[i] *= 0.6
    return best, p


def fit(form, points):
    least, rate = min(t for _, t in points), max(x / t for x, t in points)
    return min(descend(form, points, p) for p in starts(form, least, rate))[1]


def held_out(form, points):
    """|log(predicted / measured)| of every point, predicted without the sizes of its part."""
    sizes = sorted({x for x, _ in points})
    errors = []
    for part in range(min(FOLDS, len(sizes))):
        away = set(sizes[part::FOLDS])
        p = fit(form, [point for point in points if point[0] not in away])
        errors += [abs(math.log(form(p, x) / t)) for x, t in points if x in away]
    return errors


# ---- output ----


def rates(groups, device):
    rows = []
    for kind in KINDS:
        source = SAME_LINKS.get(device, device)
        if kind == "point_to_point":
            source = SAME_POINT_TO_POINT.get(source, source)
        for devices in sorted(n for d, k, n in groups if (d, k) == (source, kind)):
            points = groups[source, kind, devices]
            p = fit(ramp, points)
            errors = sorted(held_out(ramp, points))
            band = max(math.exp(errors[math.ceil(0.9 * len(errors)) - 1]) - 1, LEAST_BAND)
            rows.append({"kind": kind, "devices": devices, "latency_ns": 10 * round(math.exp(p[0]) / 10),
                         "bus_bytes_per_s": f"{math.exp(p[1]):.1f}e9", "ramp": round(max(p[2], 0), 2), "error_band": round(band, 2)})
    return rows


def as_text(rows):
    """As the device files have it: a row a line, 450e9 instead of 450000000000.0."""
    lines = [json.dumps(row).replace(f'"{row["bus_bytes_per_s"]}"', row["bus_bytes_per_s"]) for row in rows]
    return '  "collectives": [\n    ' + ",\n    ".join(lines) + "\n  ],\n"


def write(device, text):
    path = ROOT / "data/hardware" / f"{device}.json"
    old = path.read_text(encoding="utf-8")
    new, count = re.subn(r'  "collectives": \[.*?\n  \],\n', lambda _: text, old, flags=re.S)
    if count == 0:
        new, count = re.subn(r'(?=  "sources": \{)', lambda _: text, old)
    if count != 1:
        sys.exit(f"fit_collectives.py: {path}: found no place for \"collectives\"")
    path.write_text(new, encoding="utf-8")


def compare_forms(groups):
    print("| time | parameters | fitted | held out | all-reduce of 8, held out |\n|---|---|---|---|---|")
    for name, form in FORMS.items():
        fitted, tested, eight = [], [], []
        for (_, kind, devices), points in groups.items():
            fitted.append(loss(form, points, fit(form, points)))
            errors = held_out(form, points)
            tested.append(sum(errors) / len(errors))
            if (kind, devices) == ("all_reduce", 8):
                eight.append(tested[-1])
        count = len(starts(form, 1, 1)[0])
        means = [math.exp(sum(values) / len(values)) - 1 for values in (fitted, tested, eight)]
        print(f"| {name} | {count} | " + " | ".join(f"{mean:.1%}" for mean in means) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--csv", default=ROOT / "data/results/published/collectives.csv")
    parser.add_argument("--write", action="store_true", help="put the rates into data/hardware")
    parser.add_argument("--forms", action="store_true", help="compare forms of the time")
    parser.add_argument("devices", nargs="*")
    options = parser.parse_args()
    groups = read_groups(options.csv)
    measured = {device for device, _, _ in groups}
    devices = options.devices or sorted(measured | {d for d, of in SAME_LINKS.items() if of in measured})
    for device in devices:
        if SAME_LINKS.get(device, device) not in measured:
            sys.exit(f"fit_collectives.py: {options.csv} has no rows of {device}")
    if options.forms:
        compare_forms(groups)
        return
    for device in devices:
        text = as_text(rates(groups, device))
        if options.write:
            write(device, text)
        else:
            print(f"{device}\n{text}", end="")


if __name__ == "__main__":
    main()
