#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the figures of GEMMs in device files to measured times, with bench/gemm_times as the model.

    scripts/fit_gemms.py [--program FILE] [--csv FILE] [--write] [DEVICE …]     fit, and print errors; --write: into data/hardware
    scripts/fit_gemms.py --family tma|aligned_4|aligned_2|simt [--write]        fit the cost of a family to an H200 and an H100 together
    scripts/fit_gemms.py --errors [DEVICE …]                                    errors of the device files as they are
    scripts/fit_gemms.py --terms [DEVICE …]                                     held-out errors of fits without one term

FILE has the columns of data/results/published/gemms.csv; only rows whose part is "fit" are fitted to. Those of the H200 are joined
by data/results/h200: products.csv (even rows), the GEMMs of the figures (the same hash), and random ones. Public rows are short bursts, the
H200's own settled; the cost of a family is not fitted to rows in which the launch shows (shows_launch()). The mean of
|log(predicted / measured)|, rounded off below EDGE, is minimized by pattern search along the axes; GEMMs below 30 us that are not random
weigh half.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import textwrap
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "data/results/published/gemms.csv"
SMALL_NS = 30000
SMALL_WEIGHT = 0.5
ALONE_NS = (20000, 200000)  # until 2026-11-26 this project timed such runs one by one, shorter ones in a graph
SOURCE_WEIGHTS = {"figures": 0.25, "random": 4}
EDGE = 0.04  # logarithms below this count by their square: large errors are to be few
BOUNDS = {
    "library_share": (0.1, 1), "load_share": (0.5, 1), "store_share": (0.5, 1), "store_exposed": (0, 1),
    "gemm_launch_ns": (1500, 20000), "gemm_busy_ns": (1, 5000),
    "boost": (1, 1.6), "cache_bytes_per_s": (1e11, 3e13), "reach": (1, 64),
    "split_ns": (1, 5000), "split_k_bytes": (128, 16384), "row_share": (0.1, 1), "small_tile_share": (0.1, 1), "burst": (1, 1.4), "tiles": (0.05, 1), "simt_tiles": (0.05, 1),
    "gemm_share": (0.01, 1), "bmm_share": (0.01, 1), "result_share": (0.01, 1),
}
# Bounds of the figures of a family; those of every device, and those that each has of its own.
FAMILY_BOUNDS = {"launch_ns": (1200, 4000), "busy_ns": (1, 2000), "matrix_share": (0.5, 2), "row_ns": (0.01, 50), "column_ns": (0.01, 50),
                 "short_k": (1, 1000), "load_16": (0.25, 4), "latency_ns": (1, 3000), "row_latency_ns": (0.01, 20),
                 "step_ns": (0.1, 500), "store_bytes_per_ns": (1, 500), "wave_ns": (1, 3000), "refill_ns": (1, 8000), "split_ns": (100, 6000),
                 "part_ns": (0.1, 300), "sector_bytes_per_ns": (100, 10000)}
FAMILIES = ("tma", "aligned_4", "aligned_2", "simt")
FAMILY_DEVICES = ("h200", "h100-sxm")  # their architecture's file has the cost, with the first's own; the second what is its own
ARCHITECTURE = ROOT / "data/architectures/hopper.json"
OWN = ("matrix_share",)
START = {"gemm_busy_ns": 200, "boost": 1.1, "reach": 6.0, "split_ns": 500, "split_k_bytes": 512, "row_share": 0.8, "small_tile_share": 0.8, "burst": 1.08}
NEW = ["gemm_busy_ns", "cache_bytes_per_s", "reach", "split_ns", "split_k_bytes", "burst"]
OLD = ["load_share", "store_share", "store_exposed", "gemm_launch_ns", "boost"]
# The figures that are fitted for each device; ("library_share", FORMAT); ("tiles",) stands for all but the first.
ALL = [("library_share", "bf16")] + [(name,) for name in OLD + NEW] + [("tiles",)]
FITTED = {
    "a100-sxm4-80gb": ALL,
    "b200": ALL,
    "l40s": ALL,
    "h100-sxm": [("library_share", "bf16"), ("load_share",), ("cache_bytes_per_s",), ("burst",)],
    # Settled, its rates are those of its own measurements; these alone have misaligned sizes. Its families: --family.
    "h200": [("burst",)],
    "v100-sxm2-32gb": [("library_share", "fp16"), ("library_share", "fp32"), ("load_share",), ("store_share",), ("store_exposed",),
                       ("gemm_launch_ns",), ("cache_bytes_per_s",), ("reach",), ("split_ns",), ("split_k_bytes",), ("row_share",), ("tiles",)],
    # NeuSight's rows, which are fp32 alone.
    **{name: [("library_share", "fp32")] for name in ("a100-pcie-40gb", "l4", "v100-pcie-32gb", "mi250")},
    "mi210": [("library_share", "fp32"), ("small_tile_share",)],
    "mi300x": [("library_share", "bf16"), ("gemm_launch_ns",), ("split_ns",), ("split_k_bytes",), ("cache_bytes_per_s",)],
}

# Devices that nobody has measured, with the multiprocessors of one that was; power-bound figures (library_share, boost, burst) are
# taken over only where the power limit is the same.
SAME_POWER = {"a100-sxm4-40gb": "a100-sxm4-80gb", "v100-sxm2-16gb": "v100-sxm2-32gb", "v100-summit": "v100-sxm2-32gb",
              "v100-expanse": "v100-sxm2-32gb"}
SAME = {**SAME_POWER, "a100-pcie-40gb": "a100-sxm4-80gb", "a100-pcie-80gb": "a100-sxm4-80gb", "v100-pcie-32gb": "v100-sxm2-32gb",
        "gh200": "h200", "h100-pcie": "h100-sxm",
        "l4": "l40s", "rtx-4090": "l40s"}
POWER = ("library_share", "boost", "burst")


# ---- rows ----


def part_of(n, k):
    return "held_out" if zlib.crc32(f"{n},{k}".encode()) % 2 else "fit"


def read_csv(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def a_row(row, time, part, cache, clock, source):
    sizes = {name: int(row[name]) for name in ("m", "n", "k", "batch")}
    transposes = {name: int(row[name] in ("1", "true")) for name in ("transpose_a", "transpose_b")}
    kind = "bmm" if sizes["batch"] > 1 else "gemm"
    return {**sizes, **transposes, "kind": kind, "dtype": row["dtype"], "time_ns": float(time), "part": part, "cache": cache,
            "clock": clock, "source": source}


def published_rows(path, device):
    return [a_row(row, row["time_ns"], row["part"], int(row["l2"] == "warm"), 1, "public")
            for row in read_csv(path) if row["device"] == device]


def own_rows():
    """Measured by this project: settled clock, cold cache. Odd rows of products.csv are held out, as its page says."""
    folder = ROOT / "data/results/h200"
    rows = [a_row(row, row["median_ns"], "held_out" if i % 2 else "fit", 0, 0, "own")
            for i, row in enumerate(read_csv(folder / "products.csv")) if row["kind"] in ("gemm", "bmm")]
    seen = set()
    for name in ("figures-1-to-19", "figures-20", "figures-21-to-34", "figures-35-to-47"):
        for row in read_csv(folder / f"{name}.csv"):
            plain = row["operation"] == "gemm" and row["status"] == "ok" and row["lda"] in ("", "0")
            key = tuple(row[name] for name in ("m", "n", "k", "batch", "transpose_a", "transpose_b", "dtype"))
            if plain and row["kernel"] == "gemm_cublaslt" and row["dtype"] == "bf16" and key not in seen:
                seen.add(key)
                rows.append(a_row(row, row["median_ns"], part_of(row["n"], row["k"]), 0, 0, "figures"))
    return rows


RANDOM = {"h200": ["h200/choices-seed-102", "h200/choices-seed-203", "h200/choices-seed-204-even"],
          "h100-sxm": ["h100/choices-seed-201", "h100/choices-seed-202-odd"]}


def random_rows(device):
    """To fit to: random ones whose algorithm is known."""
    rows = []
    for name in RANDOM.get(device, []):
        for row in read_csv(ROOT / f"data/results/{name}.csv"):
            if row["kind"] in ("gemm", "bmm") and row["dtype"] == "bf16" and row.get("choice", "0") == "0":
                rows.append(a_row({**row, "batch": row["batch"] or "1"}, row.get("measured_ns") or row["time_ns"], "fit", 0, 0, "random"))
    return rows


def rows_of(path, device, fitting=False):
    """Rows of a device; for a fit also those of which none is held out."""
    if device != "h200" or path != ROWS:
        return published_rows(path, device)
    return published_rows(path, device) + own_rows() + (random_rows(device) if fitting else [])


def family_of(row):
    alignment = alignment_of(row)
    return "simt" if row["dtype"] == "fp32" else "tma" if alignment >= 16 else "aligned_4" if alignment >= 4 else "aligned_2"


def family_rows(family, device):
    """To fit to, of bf16 and fp32."""
    if family == "simt":
        return [a_row(row, row["measured_ns"], "fit", 0, 0, "random") for row in read_csv(ROOT / "data/results/h100/random-seed-21-fp32.csv")
                if device == "h100-sxm"]
    rows = rows_of(ROWS, device, True) if device == "h200" else published_rows(ROWS, device) + random_rows(device)
    return [row for row in rows if row["part"] == "fit" and family_of(row) == family and row["dtype"] == "bf16" and not shows_launch(row)]


def shows_launch(row):
    """Whether the row was timed between two events of a stream, and is so short that the launch is a part of its time."""
    if row["source"] == "public":
        return row["time_ns"] < SMALL_NS
    return row["source"] != "random" and ALONE_NS[0] <= row["time_ns"] < ALONE_NS[1]


def alignment_of(row):
    """In bytes, of 2-byte elements, at most 128."""
    contiguous = (row["m"] if row["transpose_a"] else row["k"], row["k"] if row["transpose_b"] else row["n"], row["n"])
    return min(min(2 * (size & -size) for size in contiguous), 128)


def group_of(row):
    size = "< 30 us" if row["time_ns"] < SMALL_NS else ">= 30 us"
    if row["source"] == "public":
        return f"{row['kind']} {row['dtype']} {size}"
    if alignment_of(row) < 16:
        return f"{row['kind']}, misaligned, {row['source']}"
    return f"{row['kind']} {size}, {row['source']}"


# ---- the model ----


class Model:
    def __init__(self, program, rows):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        names = ("dtype", "m", "n", "k", "batch", "transpose_a", "transpose_b", "clock", "cache")
        self.process.stdin.write("".join(" ".join(str(row[name]) for name in names) + "\n" for row in rows) + "\n")

    def times(self, device):
        self.process.stdin.write(json.dumps(device) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("fit_gemms.py: gemm_times ended")
        return [float(time) for time in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def expand(figures, device):
    """("tiles",) and ("alignments",) as one figure for each of their numbers; the first tile and the last class are 1."""
    for figure in figures:
        if figure[0] in ("tiles", "simt_tiles"):
            yield from ((figure[0], i, "share") for i in range(1, len(device[figure[0]])))
        elif figure[0] == "alignments":
            count = len(device["alignments"]) - 1
            yield from (("alignments", i, name) for name in ("gemm_share", "bmm_share", "result_share") for i in range(count))
        else:
            yield figure


def get(device, figure):
    value = device
    for key in figure:
        value = value[key]
    return value


def put(device, figure, value):
    low, high = FAMILY_BOUNDS[figure[-1]] if figure[0] in FAMILIES else BOUNDS[figure[-1] if figure[0] not in BOUNDS else figure[0]]
    if figure[0] == "alignments":  # shares never fall as bytes grow
        classes, i, name = device["alignments"], figure[1], figure[2]
        low, high = (classes[i - 1][name] if i else low), classes[i + 1][name]
    if figure[0] == "cache_bytes_per_s":  # no slower than main memory
        low = device["bandwidth_bytes_per_s"] * device["load_share"]
    value = min(max(value, low), high)
    place = device
    for key in figure[:-1]:
        place = place[key]
    place[figure[-1]] = int(value) if figure[-1] in ("split_k_bytes", "split_ns", "gemm_launch_ns") else round(value, 4)
    if figure[0] == "gemm_launch_ns":  # a GEMM is a kernel: the shortest kernel takes no longer
        device["launch_ns"] = min(device["_launch_ns"], device["gemm_launch_ns"])


def tries(figure, value, step):
    if figure[0] == "store_exposed":
        return (value + step, value - step)
    if figure[0] in ("burst", "boost"):
        excess = max(value - 1, 0.01)
        return (1 + excess * (1 + 4 * step), 1 + excess / (1 + 4 * step))
    return (value * (1 + step), value / (1 + step))


def mean_log(times, rows, weights):
    logs = (math.log(t / row["time_ns"]) for t, row in zip(times, rows))
    return sum(w * (math.sqrt(EDGE * EDGE + log * log) - EDGE) for log, w in zip(logs, weights)) / sum(weights)


def weights_of(rows):
    """Each group counts by the root of its size, so that a few hundred rows of one figure do not outweigh a device's others; figures
    count a quarter, as each varies one size."""
    counts = collections.Counter(group_of(row) for row in rows)
    return [(SMALL_WEIGHT if row["time_ns"] < SMALL_NS and row["source"] != "random" else 1) * SOURCE_WEIGHTS.get(row["source"], 1)
            / math.sqrt(counts[group_of(row)]) for row in rows]


def descend(devices, figures, rows, program):
    """Moves figures that all `devices` share; rows: a list for each of them."""
    models, weights = [Model(program, some) for some in rows], [weights_of(some) for some in rows]

    def loss():
        return sum(mean_log(model.times(device), some, weight) for model, device, some, weight in zip(models, devices, rows, weights))

    def put_all(figure, value):
        for device in devices:
            put(device, figure, value)
    best = loss()
    steps = {figure: 0.1 for figure in figures}
    while max(steps.values()) > 3e-3:
        for figure in figures:
            if steps[figure] <= 3e-3:
                continue
            before, better = get(devices[0], figure), False
            for value in tries(figure, before, steps[figure]):
                put_all(figure, value)
                found = loss() if get(devices[0], figure) != before else best
                if found < best - 1e-6:
                    best, better = found, True
                    break
                put_all(figure, before)
            steps[figure] *= 1.4 if better else 0.5
    for model in models:
        model.close()


def fit_family(family, program):
    """The cost of a family for each of its devices."""
    devices = [load(name) for name in FAMILY_DEVICES]
    known = json.loads(ARCHITECTURE.read_text(encoding="utf-8"))[family]
    for device in devices:
        device[family] = {**known, **device.get(family, {})}
    used = [(device, rows) for device, rows in zip(devices, (family_rows(family, name) for name in FAMILY_DEVICES)) if rows]
    shared = [(family, name) for name in devices[0][family] if name not in OWN]
    for _ in range(2):
        for device, rows in used:
            if OWN[0] in device[family]:
                descend([device], [(family, OWN[0])], [rows], program)
        descend([device for device, _ in used], shared, [rows for _, rows in used], program)
    for device in devices:
        device[family].update({name: get(used[0][0], (family, name)) for _, name in shared})
    return devices


def write_family(family, devices):
    paths = [ARCHITECTURE] + [ROOT / f"data/hardware/{name}.json" for name in FAMILY_DEVICES[1:]]
    for path, device in zip(paths, devices):
        text = path.read_text(encoding="utf-8")
        had = json.loads(text).get(family)
        if had:
            path.write_text(set_field(text, family, as_text(family, {family: {key: device[family][key] for key in had}})), encoding="utf-8")


def load(name):
    return json.loads((ROOT / f"data/hardware/{name}.json").read_text(encoding="utf-8"))


def fit(name, rows, program, without=()):
    device = load(name)
    device["_launch_ns"] = device["launch_ns"]
    figures = [figure for figure in FITTED[name] if figure[0] not in without]
    memory = device["bandwidth_bytes_per_s"] * device["bandwidth_share"]
    for field, value in {**START, "cache_bytes_per_s": 2 * memory}.items():
        if any(figure[0] == field for figure in figures):
            device.setdefault(field, value)
    for field in without:
        device.pop(field, None)
    figures = list(expand(figures, device))
    descend([device], figures, [[row for row in rows if row["part"] == "fit"]], program)
    return device


# ---- output ----


def errors_of(device, rows, program):
    """group → part → signed logarithms"""
    model = Model(program, rows)
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for row, time in zip(rows, model.times(device)):
        groups[group_of(row)][row["part"]].append(math.log(time / row["time_ns"]))
    model.close()
    return groups


def mean_of(logs):
    return math.exp(sum(abs(log) for log in logs) / len(logs)) - 1


def print_errors(name, groups, band):
    for group in sorted(groups):
        for part, logs in sorted(groups[group].items()):
            ordered, bias = sorted(abs(log) for log in logs), math.exp(sum(logs) / len(logs)) - 1
            within = math.exp(ordered[math.ceil(0.9 * len(ordered)) - 1]) - 1
            inside = sum(log <= math.log(1 + band) for log in ordered) / len(ordered)
            print(f"| {name} | {group} | {part.replace('_', ' ')} | {len(logs)} | {mean_of(logs):.1%} | {bias:+.1%} | "
                  f"{math.exp(ordered[len(ordered) // 2]) - 1:.1%} | {within:.1%} | {inside:.0%} |")


def number(value):
    if isinstance(value, float) and value >= 1e9:
        return f"{value / 1e9:.0f}e9"
    return json.dumps(round(value, 3) if isinstance(value, float) else value)


def as_text(field, device):
    value = device[field]
    if isinstance(value, dict):
        items = " ".join(f'"{key}":\0{number(one)},' for key, one in value.items()).rstrip(",")
        return "{\n" + textwrap.fill(items, 112, initial_indent="    ", subsequent_indent="    ").replace("\0", " ") + "\n  }"
    if isinstance(value, list):
        lines = ["{" + ", ".join(f'"{key}": {number(one)}' for key, one in row.items()) + "}" for row in value]
        return "[\n    " + ",\n    ".join(lines) + "\n  ]"
    return number(value)


def set_field(text, field, value):
    pattern = rf'^  "{field}": (\[.*?^  \]|\{{.*?\}}|[^,\n]*)(,?)$'
    if re.search(pattern, text, flags=re.S | re.M):
        return re.sub(pattern, lambda match: f'  "{field}": {value}{match.group(2)}', text, count=1, flags=re.S | re.M)
    return re.sub(r'^  "launch_ns":', lambda match: f'  "{field}": {value},\n{match.group(0)}', text, count=1, flags=re.M)


def set_source(text, field, source):
    line = f'    "{field}": {json.dumps(source, ensure_ascii=False)}'
    if re.search(rf'^    "{field}": "', text, flags=re.M):
        return re.sub(rf'^    "{field}": ".*?"(,?)$', lambda match: line + match.group(1), text, count=1, flags=re.M)
    return text.replace('  "sources": {\n', f'  "sources": {{\n{line},\n', 1)


def write(name, device):
    path = ROOT / f"data/hardware/{name}.json"
    text = path.read_text(encoding="utf-8")
    source = "fitted by scripts/fit_gemms.py to half of the rows of data/results/published/gemms.csv"
    if name == "h200":
        source += " and of data/results/h200"
    fields = list(dict.fromkeys(figure[0] for figure in FITTED[name]))
    fields += ["launch_ns"] if device["launch_ns"] != device["_launch_ns"] else []
    for field in fields:
        text = set_field(text, field, as_text(field, device))
        if field == "launch_ns":
            text = set_source(text, field, "no longer than gemm_launch_ns, as a GEMM is a kernel")
        elif field == "library_share":
            formats = ", ".join(figure[1] for figure in FITTED[name] if figure[0] == field)
            old = json.loads(path.read_text(encoding="utf-8"))["sources"][field]
            text = set_source(text, field, old if source in old else f"{formats}: {source}; others: {old}")
        else:
            text = set_source(text, field, source)
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def write_same(name, other):
    path = ROOT / f"data/hardware/{name}.json"
    text, device, model = path.read_text(encoding="utf-8"), load(name), load(other)
    rate = [one["multiprocessors"] * one["clock_hz"] for one in (device, model)]
    if model.get("cache_bytes_per_s"):
        model["cache_bytes_per_s"] *= rate[0] / rate[1]
    fields = dict.fromkeys([figure[0] for figure in FITTED[other]] + ["launch_ns"])
    for field in fields:
        if (field in POWER and name not in SAME_POWER) or device.get(field) == model[field]:
            continue
        text = set_field(text, field, as_text(field, model))
        how = ", scaled by multiprocessors and clock" if field == "cache_bytes_per_s" else ""
        text = set_source(text, field, f"as {other}.json, the same multiprocessors{how}: {model['sources'][field].split(';')[0]}")
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def print_terms(name, rows, program):
    for without in [()] + [(term,) for term in NEW + ["boost"] if any(term == figure[0] for figure in FITTED[name])]:
        groups = errors_of(fit(name, rows, program, without), rows, program)
        held = [f"{group} {mean_of(parts['held_out']):.1%}" for group, parts in sorted(groups.items()) if parts["held_out"]]
        print(f"{name}, without {without[0] if without else 'nothing'}: " + ", ".join(held), flush=True)


def find_program():
    for folder in ("release", "debug", "clang", "asan"):
        path = ROOT / "build" / folder / "bench/gemm_times"
        if path.exists():
            return path
    sys.exit("fit_gemms.py: build the target gemm_times first, or pass --program")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", help="gemm_times; default build/*/bench/gemm_times")
    parser.add_argument("--csv", type=pathlib.Path, default=ROWS)
    parser.add_argument("--write", action="store_true", help="put the figures into data/hardware")
    parser.add_argument("--family", choices=FAMILIES, help="fit the cost of a family of kernels, to an H200 and an H100 together")
    parser.add_argument("--errors", action="store_true", help="do not fit")
    parser.add_argument("--terms", action="store_true", help="fit without one term at a time")
    parser.add_argument("devices", nargs="*", metavar="DEVICE")
    options = parser.parse_args()
    program = options.program or find_program()
    if options.family:
        devices = fit_family(options.family, program)
        for name, device in zip(FAMILY_DEVICES, devices):
            print(name, json.dumps(device[options.family]))
        if options.write:
            write_family(options.family, devices)
        return
    print("| device | GEMMs | part | rows | mean error | bias | median | 90% within | in the band |\n|---|---|---|---|---|---|---|---|---|")
    for name in options.devices or list(FITTED) + (["a100-pcie-80gb"] if options.errors else []):
        rows = rows_of(options.csv, name, not options.errors)
        if not rows or (name not in FITTED and not options.errors):
            sys.exit(f"fit_gemms.py: {options.csv} has no rows of {name} to fit to")
        if options.terms:
            print_terms(name, rows, program)
            continue
        device = load(name) if options.errors else fit(name, rows, program)
        print_errors(name, errors_of(device, rows, program), device["error_band"])
        if options.write:
            write(name, device)
            for other in (other for other in SAME if SAME[other] == name):
                write_same(other, name)


if __name__ == "__main__":
    main()
