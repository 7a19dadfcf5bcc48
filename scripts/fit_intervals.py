#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the intervals of predictions in device files: where nine of ten measured times lie.

    scripts/fit_intervals.py HEADROOM [--write] [DEVICE=FILE.csv … | --cache-writes DEVICE=FILE.csv …]
    scripts/fit_intervals.py HEADROOM --formats [--write]    the intervals of fp32 and tf32 alone

Compares rows of a file with the predictions for a device (`headroom validate`) and takes, for each kind and size class of
predicted time, the 4th and 96th percentile of measured over predicted (2nd and 98th of a kind with
fewer than 100 rows). Even rows are fitted, odd ones held out. Without
arguments: data/results/published/attention.csv (whose prefill rows include cache writes), gemms.csv, latent.csv, experts.csv and
gemms_fp8.csv, and of the H200 published/h200.csv, h200/products.csv,
h200/choices-seed-102*.csv, h200/choices-seed-203*.csv, h200/random-seed-15.csv and the misaligned
GEMMs of h200/figures-*.csv, whose aligned ones are of few forms; of the H100 h100/calibration.csv and h100/choices-*.csv. A class has at least 40 fitted rows (LEAST_OF: less); fewer are joined with the next one,
and a kind with fewer than 20 has no interval. GEMMs of fp32 and tf32 have intervals of their own, of all rows of published/gemms.csv,
h100/random-seed-21-*.csv (of fp32 those held out of the fit) and h200/random-seed-301-tf32.csv, in classes of 25; fewer than 20 misaligned ones take those
of both together. Their coverage is cross-validated: each matrix B by the intervals of the others.
Run it again after a change of what predictions are made of.
"""
import argparse
import csv
import io
import json
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "data/results"
KINDS = ("gemm", "gemm_misaligned", "bmm", "attention", "decode", "latent", "latent_prefill", "experts", "gemm_8bit",
         "bmm_misaligned", "own_attention", "own_decode", "scan")
ENDS_NS = (1e4, 3e4, 1e5, 3e5, 1e6, 3e6, math.inf)
LEAST_ROWS, LEAST_KIND = 40, 20
LEAST_OF = {"gemm_misaligned": 25, "bmm": 30, "bmm_misaligned": 20}  # few of these are short, and their error falls with size
TAIL = 0.04  # a little less than 0.05, as percentiles of few rows vary
FEW_ROWS, FEW_TAIL = 100, 0.02  # of a kind: its percentiles vary more
BEYOND_ALL = 1e18
DEVICES = ("a100-sxm4-80gb", "h100-sxm", "h200", "l40s", "b200", "v100-sxm2-32gb", "mi300x")
FORMATS = ("fp32", "tf32")  # other kernels, and fewer rows, than GEMMs of 16 bits
FORMAT_DEVICES = ("a100-pcie-40gb", "a100-pcie-80gb", "h100-sxm", "l4", "mi210", "mi250", "v100-pcie-32gb", "v100-sxm2-32gb")
FORMAT_LEAST = 25
ALIGNED = {"gemm_misaligned": "gemm", "bmm_misaligned": "bmm"}
SAME = {"h200": "h100-sxm"}  # the same multiprocessors: one fit
SAME_FILES = {"h200": [RESULTS / "h200/random-seed-301-tf32.csv"]}


def lines_of_figures(lines):
    """GEMMs of exported results."""
    sizes = ("m", "n", "k", "batch", "transpose_a", "transpose_b", "dtype", "median_ns")
    found = [row for row in csv.DictReader(line for line in lines if not line.startswith("#"))
             if row["operation"] == "gemm" and row["status"] == "ok" and row["dtype"] == "bf16"]
    return [",".join(("kind",) + sizes) + "\n"] + [
        ",".join([("bmm" if row["batch"] != "1" else "gemm")] + [{"true": "1", "false": "0"}.get(row[name], row[name]) for name in sizes]) + "\n" for row in found]


def rows_of(headroom, device, path, cache_writes):
    command = [headroom, "validate", "--device", device, "--from", "-", "--format", "csv", "-q"]
    if path.name == "gemms.csv":
        command += ["--clock", "burst"]  # as its first lines say
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if path.name.startswith("figures-"):
        lines = lines_of_figures(lines)
    if not any("q_heads" in line for line in lines if line.startswith(("kind,", "device,"))):
        lines = [line for line in lines if not line.startswith("attention")]  # products.csv does not say the heads
    if path.name == "experts.csv":
        lines = [line for line in lines if ",other," not in line]  # of other kernels than those that are predicted
    done = subprocess.run(command + ["--cache-writes"] * cache_writes, text=True, capture_output=True, check=False,
                          input="".join(lines))
    if "no row of" in done.stderr:
        return []
    if done.returncode:
        sys.exit(f"fit_intervals.py: {done.stderr.strip()}")
    return [("own_" * (row["framework"] == "headroom") + row["kind"], float(row["predicted_ns"]), float(row["measured_ns"]), row["dtype"],
             f"{row['n']},{row['k']}") for row in csv.DictReader(io.StringIO(done.stdout))
            if not path.name.startswith("figures-") or row["kind"].endswith("_narrow")]


def usual_files(device):
    files = [(RESULTS / "published/attention.csv", True), (RESULTS / "published/gemms.csv", False)]
    files += [(RESULTS / f"published/{name}.csv", True) for name in ("latent", "experts", "gemms_fp8")]
    if device == "h200":  # whose own GEMMs have aligned sizes for the most part, so that they do not suffice alone
        files += [(RESULTS / "published/h200.csv", False), (RESULTS / "h200/products.csv", False),
                  (RESULTS / "h200/attention-points.csv", False)]
        files += [(RESULTS / f"h200/{name}.csv", False) for name in
                  ("choices-seed-102", "choices-seed-102-held", "choices-seed-203", "choices-seed-203-held", "random-seed-15")]
        files += [(path, False) for path in sorted((RESULTS / "h200").glob("figures-*.csv"))]
    if device == "h100-sxm":
        files += [(RESULTS / f"h100/{name}.csv", False) for name in
                  ("calibration", "choices-seed-201", "choices-seed-201-held", "choices-seed-202-odd", "choices-seed-202-odd-held")]
    return [(path, writes) for path, writes in files if path.exists()]


def classes(rows, least):
    """[(end, rows)] of one kind, by predicted time."""
    found, open_rows = [], []
    for start, end in zip((0,) + ENDS_NS, ENDS_NS):
        open_rows += [row for row in rows if start <= row[1] < end]
        if len(open_rows) >= least:
            found.append((end, open_rows))
            open_rows = []
    if open_rows and found:
        found[-1] = (math.inf, found[-1][1] + open_rows)
    elif open_rows:
        found = [(math.inf, open_rows)]
    if found:
        found[-1] = (math.inf, found[-1][1])
    return found


def percentile(values, share):
    """Between the order statistics at (n + 1)·share, which in the mean leave that share outside."""
    values = sorted(values)
    at = min(max((len(values) + 1) * share - 1, 0), len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def of_classes(head, found, tail):
    """An interval for each class; head: its first members."""
    intervals = []
    for end, members in found:
        ratios = [row[2] / row[1] for row in members]
        intervals.append({**head, "below_ns": BEYOND_ALL if end == math.inf else end, "low": min(1, round(percentile(ratios, tail), 3)),
                          "high": max(1, round(percentile(ratios, 1 - tail), 3))})
    return intervals


def fit(rows):
    intervals = []
    for kind in KINDS:
        of_kind = [row for row in rows if row[0] == kind and row[3] not in FORMATS]
        if len(of_kind) < LEAST_KIND:
            continue
        tail = FEW_TAIL if len(of_kind) < FEW_ROWS else TAIL
        intervals += of_classes({"kind": kind}, classes(of_kind, LEAST_OF.get(kind, LEAST_ROWS)), tail)
    return intervals


# ---- formats with kernels of their own ----


def format_files(device):
    files = [RESULTS / "published/gemms.csv"]
    if device == "h100-sxm":
        files += [RESULTS / "h100/random-seed-21-fp32-held.csv", RESULTS / "h100/random-seed-21-tf32.csv"]
    return files


def rows_of_format(rows, kind, dtype):
    """Those of a kind; few misaligned ones with the aligned, whose kernels differ little."""
    found = [row for row in rows if row[0] == kind and row[3] == dtype]
    if len(found) < LEAST_KIND and kind in ALIGNED:
        found = [row for row in rows if row[0] in (kind, ALIGNED[kind]) and row[3] == dtype]
    return found if len(found) >= LEAST_KIND else []


def fit_formats(rows, without=None):
    """The intervals of FORMATS; without the rows of one matrix, if given, in the same classes."""
    intervals = []
    for kind in ("gemm", "gemm_misaligned", "bmm", "bmm_misaligned"):
        for dtype in FORMATS:
            found = classes(rows_of_format(rows, kind, dtype), FORMAT_LEAST)
            kept = [(end, [row for row in members if row[4] != without]) for end, members in found]
            intervals += of_classes({"kind": kind, "dtype": dtype}, kept, TAIL)
    return intervals


def coverage_of_formats(rows):
    """(interval, least time, rows inside of the intervals of the other matrices, rows)"""
    folds = {matrix: fit_formats(rows, matrix) for matrix in {row[4] for row in rows}}
    start = {}
    for i, interval in enumerate(fit_formats(rows)):
        key = interval["kind"], interval["dtype"]
        members = [row for row in rows if (row[0], row[3]) == key and start.get(key, 0) <= row[1] < interval["below_ns"]]
        inside = sum(covered(folds[row[4]][i], row[1], row[2]) for row in members)
        yield interval, start.get(key, 0), inside, len(members)
        start[key] = interval["below_ns"]


def report_formats(device, rows):
    print(device)
    for interval, start, inside, count in coverage_of_formats(rows):
        share = f"{100 * inside / count:5.1f}% of {count}" if count else "no rows"
        print(f"  {interval['dtype']} {interval['kind']:12} from {start:8.0f} ns: {interval['low']:.3f} … {interval['high']:.3f}, "
              f"cross-validated {share}")


def format_rows(headroom, device):
    """Rows of the device, and those of devices that have its intervals."""
    files = [(device, path) for path in format_files(device)]
    files += [(other, path) for other, model in SAME.items() if model == device for path in SAME_FILES[other]]
    return [row for name, path in files for row in rows_of(headroom, name, path, False) if row[3] in FORMATS]


def covered(interval, predicted, measured):
    return interval["low"] * predicted <= measured <= interval["high"] * predicted


def report(device, intervals, held):
    print(device)
    before = {}
    for interval in intervals:
        kind, start = interval["kind"], before.get(interval["kind"], 0)
        before[kind] = interval["below_ns"]
        inside = [covered(interval, p, m) for k, p, m, dtype, _ in held
                  if k == kind and dtype not in FORMATS and start <= p < interval["below_ns"]]
        share = f"{100 * sum(inside) / len(inside):5.1f}% of {len(inside)}" if inside else "no rows"
        print(f"  {kind:12} from {start:8.0f} ns: {interval['low']:.3f} … {interval['high']:.3f}, held out {share}")


def in_order(intervals):
    """By kind, then format, those of all formats last, as hr_hardware_check() wants them."""
    return sorted(intervals, key=lambda one: (KINDS.index(one["kind"]), (*FORMATS, None).index(one.get("dtype"))))


def put_intervals(path, intervals, source):
    """Replaces the intervals of a device file and their source."""
    text = re.sub(r'  "intervals": \[.*?\n  \],\n', "", path.read_text(encoding="utf-8"), flags=re.S)
    rows = ",\n".join("    " + json.dumps({k: v for k, v in row.items() if v != BEYOND_ALL}) for row in in_order(intervals))
    text = text.replace('  "sources": {\n', f'  "intervals": [\n{rows}\n  ],\n  "sources": {{\n', 1)
    text = re.sub(r',\n    "intervals": "[^\n]*(?=\n  })|^    "intervals": "[^\n]*\n', "", text, flags=re.M)
    text = text.replace('  "sources": {\n', f'  "sources": {{\n    "intervals": {json.dumps(source)},\n', 1)
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def write(device, intervals, formats):
    """Replaces the intervals of FORMATS, or those of all others."""
    path = ROOT / f"data/hardware/{device}.json"
    before = json.loads(path.read_text(encoding="utf-8")).get("intervals", [])
    intervals += [one for one in before if ("dtype" in one) != formats]
    parts = ["every second row of data/results"] * any("dtype" not in one for one in intervals)
    if any("dtype" in one for one in intervals):
        parts.append("of fp32 and tf32 " + (f"as {SAME[device]}.json" if device in SAME else "all rows"))
    put_intervals(path, intervals, f'scripts/fit_intervals.py, {"; ".join(parts)}, docs/notes/prediction.md')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headroom")
    parser.add_argument("files", nargs="*", metavar="DEVICE=FILE.csv")
    parser.add_argument("--cache-writes", action="store_true")
    parser.add_argument("--formats", action="store_true", help="of GEMMs of fp32 and tf32 alone")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.formats:
        for device in FORMAT_DEVICES:
            rows = format_rows(arguments.headroom, device)
            report_formats(device, rows)
            intervals = fit_formats(rows)
            for name in [device] + [other for other, model in SAME.items() if model == device]:
                if arguments.write and intervals:
                    write(name, intervals, True)
        return
    files = {}
    for pair in arguments.files:
        device, _, path = pair.partition("=")
        files.setdefault(device, []).append((pathlib.Path(path), arguments.cache_writes))
    for device in files or DEVICES:
        fitted, held = [], []
        for path, writes in files.get(device) or usual_files(device):
            rows = rows_of(arguments.headroom, device, path, writes)
            if path.name == "attention-points.csv":  # whose kinds alternate
                rows.sort(key=lambda row: row[0])
            fitted += rows[0::2]
            held += rows[1::2]
        intervals = fit(fitted)
        if not intervals:
            continue
        report(device, intervals, held)
        if arguments.write:
            write(device, intervals, False)


if __name__ == "__main__":
    main()
