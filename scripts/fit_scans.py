#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the costs of scans (scan_* of device files) to data/results/DEVICE/scans.csv (bench/scans_torch.py).

    scripts/fit_scans.py [--write]

A time is launch + bytes at a share of the bandwidth + FLOPs at a share of the library's rate, and where the tokens of
a sequence times a chain take longer than a quarter of these, the difference. Bytes, with the states of chunks, and
FLOPs are counted as src/model/layers/scan_counts.c does. In decode a time is launch + bytes. The squares of
relative errors are minimized. Prints the figures and the error of each row when it is left out; --write puts the
figures into the device files, those of a kind and phase that one device lacks from the other. A GPU without costs
takes the H200's, which src/analysis/predict/scan.c repeats.
"""
import argparse
import csv
import json
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_SHARE = 0.9  # of the bandwidth, that any kernel reaches
FILES = {"h200": "h200", "h100-sxm": "h100"}
NAMES = {"selective": "scan_mamba", "ssd": "scan_mamba2", "delta": "scan_gated_delta", "lightning": "scan_lightning",
         "rg_lru": "scan_rg_lru", "convolution": "scan_convolution"}
CHUNK_STATE_BYTES = {"ssd": 12, "delta": 4, "lightning": 4}  # moved for each element of a chunk's state
CHAIN_SHARE = 0.25  # of the work, that runs along the sequence
CHAINED = ("delta", "lightning", "rg_lru")
STEPS = 12  # of the search for the other figures of a chain
CHAINS_NS = range(61)
COMPUTED = ("selective",)  # whose time is that of exponentials and additions, whatever the bandwidth
BLOCKS = (128, 256, 512, 1024, 2048)  # tokens (mamba_ssm 2.3.2, selective_scan_fwd_cuda())
LEAST_ROWS = 4  # for leaving one out
TOKEN_BY_TOKEN = ("selective", "rg_lru", "convolution")  # FLOPs are in proportion to the bytes


def rows(device):
    with open(ROOT / f"data/results/{FILES[device]}/scans.csv", encoding="utf-8") as file:
        found = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [row for row in found if row["kind"] != "selective" or row["phase"] == "decode" or is_whole(row)]


def is_whole(row):
    """Mamba-1's kernel loads a sequence that is not a multiple of its block's tokens element by element."""
    length = int(row["seq"])
    return length % next(block for block in BLOCKS if length <= block or block == BLOCKS[-1]) == 0


def groups_of(device):
    """The rows of each kind and phase."""
    groups = {}
    for row in rows(device):
        groups.setdefault((row["kind"], row["phase"]), []).append(row)
    return groups


def work(row):
    """(bytes, FLOPs)"""
    sizes = ("batch", "seq", "heads", "head_dim", "state", "groups", "chunk")
    b, s, h, p, n, g, c = (int(row[name]) for name in sizes)
    kind, t, decode = row["kind"], b * s, row["phase"] == "decode"
    if kind == "convolution":
        return t * h * 4 + b * h * n * 2 * (2 if decode else 1), t * h * 2 * n
    inputs = {"ssd": h * p + h, "delta": h * p + 2 * h, "lightning": h * p, "selective": 3 * h * p, "rg_lru": 3 * h * p}
    moved = t * (inputs[kind] + 2 * g * n + h * p) * 2 + b * h * p * n * 4 * (2 if decode else 1)
    if kind in TOKEN_BY_TOKEN:
        return moved, t * h * p * n * {"selective": 7, "rg_lru": 3}[kind]
    if not decode:
        moved += b * -(-s // c) * h * p * n * CHUNK_STATE_BYTES[kind]
    c = min(c, s)
    if kind == "delta":
        return moved, t * h * (2 * c * (3 * n + 2 * p) + c * c / 3 + 6 * p * n)
    return moved, t * (2 * c * g * n + 2 * c * h * p + 4 * h * p * n)


def solve(matrix, right):
    """Gaussian elimination."""
    n = len(right)
    rows_ = [list(m) + [r] for m, r in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows_[j][i]))
        rows_[i], rows_[pivot] = rows_[pivot], rows_[i]
        for j in range(n):
            if j != i:
                factor = rows_[j][i] / rows_[i][i]
                rows_[j] = [x - factor * y for x, y in zip(rows_[j], rows_[i])]
    return [rows_[i][n] / rows_[i][i] for i in range(n)]


def least_squares(features, fixed, times):
    """Coefficients of `features`, so that fixed + them come near the times, by relative errors."""
    scaled = [[x / t for x in f] for f, t in zip(features, times)]
    left = [1 - f / t for f, t in zip(fixed, times)]
    n = len(features[0])
    return solve([[sum(r[i] * r[j] for r in scaled) for j in range(n)] for i in range(n)],
                 [sum(r[i] * y for r, y in zip(scaled, left)) for i in range(n)])


def rates(hardware):
    rate = hardware["dense_flops_per_s"]["bf16"] * hardware["library_share"]["bf16"]
    return hardware["bandwidth_bytes_per_s"] / 1e9, rate / 1e9


def fit_chain(members, hardware, chain):
    """(launch ns, share of the bandwidth, share of the rate or 0, chain ns)"""
    bandwidth, rate = rates(hardware)
    times = [float(row["measured_ns"]) for row in members]
    moved, useful = [work(row)[0] / bandwidth for row in members], [work(row)[1] / rate for row in members]
    figures = None
    for _ in range(STEPS if chain else 1):
        waits = [wait(row, figures, hardware) if figures else 0 for row in members]
        kind, decode = members[0]["kind"], members[0]["phase"] == "decode"
        if decode or (kind in TOKEN_BY_TOKEN and kind not in COMPUTED):
            launch, factor = least_squares([[1, m] for m in moved], waits, times)
            figures = launch, 1 / factor, 0, chain
            continue
        if kind not in COMPUTED:
            launch, factor, busy = least_squares([[1, m, u] for m, u in zip(moved, useful)], waits, times)
            figures = launch, 1 / factor, 1 / busy, chain
        if kind in COMPUTED or not 0 < 1 / factor <= MOST_SHARE or busy <= 0:
            fixed = [w + m / MOST_SHARE for w, m in zip(waits, moved)]
            launch, busy = least_squares([[1, u] for u in useful], fixed, times)
            figures = launch, MOST_SHARE, 1 / busy, chain
    return figures


def fit(members, hardware):
    """The best chain of those that are tried."""
    chains = CHAINS_NS if members[0]["phase"] == "prefill" and members[0]["kind"] in CHAINED else [0]
    found = [fit_chain(members, hardware, chain) for chain in chains]
    found = [figures for figures in found if min(figures[:3]) >= 0] or found
    return min(found, key=lambda figures: squares(members, figures, hardware))


def squares(members, figures, hardware):
    return sum((predicted(row, figures, hardware) / float(row["measured_ns"]) - 1) ** 2 for row in members)


def busy_ns(row, figures, hardware):
    _, share, matrix, _ = figures
    bandwidth, rate = rates(hardware)
    moved, flops = work(row)
    return moved / bandwidth / share + (flops / rate / matrix if matrix else 0)


def wait(row, figures, hardware):
    """What the chain of a sequence takes beyond its part of the work."""
    return max(0, figures[3] * int(row["seq"]) - CHAIN_SHARE * busy_ns(row, figures, hardware))


def predicted(row, figures, hardware):
    return figures[0] + busy_ns(row, figures, hardware) + wait(row, figures, hardware)


def error_of(row, figures, hardware):
    ratio = predicted(row, figures, hardware) / float(row["measured_ns"])
    return max(ratio, 1 / ratio) - 1


def left_out(members, hardware):
    """The error of each row by a fit to the others."""
    return [error_of(row, fit(members[:i] + members[i + 1:], hardware), hardware) for i, row in enumerate(members)]


def mean_of(errors):
    return math.exp(sum(math.log1p(error) for error in errors) / len(errors)) - 1


def put(text, name, figures, source):
    """The text of a device file with an object of figures."""
    line = f'  "{name}": {json.dumps(figures)},\n'
    source_line = f'    "{name}": {json.dumps(source)},\n'
    for pattern, new, before in ((rf'  "{name}": {{.*\n', line, '  "tile_k_bytes"'),
                                 (rf'    "{name}": ".*\n', source_line, '    "rounding": "')):
        text = re.sub(pattern, "", text)
        text = text.replace(before, new + before, 1)
    return text


def rounded(value):
    return float(f"{value:.3g}")


def costs_of(device, hardware):
    """For each kind and phase the members of a device file, and a line about the fit."""
    costs, lines = {}, []
    for (kind, phase), members in groups_of(device).items():
        figures = fit(members, hardware)
        errors = left_out(members, hardware) if len(members) >= LEAST_ROWS else []
        held = f"left out: mean {100 * mean_of(errors):.1f}%, most {100 * max(errors):.1f}%" if errors else ""
        launch, share, matrix, chain = figures
        lines.append(f"{kind} {phase}: {len(members)} rows, launch {launch:.0f} ns, {share:.3f} of the bandwidth, "
                     f"{matrix:.3f} of the rate, {chain:.1f} ns a token; {held}")
        names = ("launch_ns", "bandwidth_share", "matrix_share", "token_ns")
        names = ("update_ns", "update_share") if phase == "decode" else names
        costs[kind, phase] = {name: rounded(value) for name, value in zip(names, figures) if value}
    return costs, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    texts = {name: (ROOT / f"data/hardware/{name}.json").read_text(encoding="utf-8") for name in FILES}
    found = {}
    for device, text in texts.items():
        found[device], lines = costs_of(device, json.loads(text))
        print(f"{device}:", *lines, sep="\n  ")
    for device, text in texts.items() if arguments.write else ():
        for kind, name in NAMES.items():
            cost, sources = {}, []
            for phase in ("prefill", "decode"):
                source = next(name_ for name_ in (device, *FILES) if (kind, phase) in found[name_])
                cost.update(found[source][kind, phase])
                sources.append(f"data/results/{FILES[source]}/scans.csv")
            source = f"{sources[0]}, decode to {sources[1]}" if sources[0] != sources[1] else sources[0]
            text = put(text, name, cost, f"fitted by scripts/fit_scans.py to {source}")
        (ROOT / f"data/hardware/{device}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
