#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the costs of attention in device files to measured times.

    scripts/fit_attention.py [--csv FILE] [--write]

FILE has the columns device, kind, n, batch, q_heads, kv_heads, head_dim, window, time_ns (default
data/results/published/attention.csv: A100 and B200). `headroom calibrate` fits Headroom's kernels, scripts/fit_public.py other devices.
Prints parameters and errors, fitted and held out; with --write puts the parameters into data/hardware.

The time is that of docs/prediction-model.md#the-model-of-other-operators; the mean of |log(predicted / measured)| is minimized.
A quarter of the rows, by the checksum of their shape, is held out. Prefill rows contain the copy of K and V into the cache,
so it is added to their prediction here as a step of prefill adds it.
"""
import argparse
import csv
import json
import math
import pathlib
import re
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "data/results"
COST = ("launch_ns", "bandwidth_share", "pair_ns", "element_ns", "split_ns")
Q_TILE, Q_TILE_LEAST, KV_TILE, ROWS, UNSPLIT_KEYS = 128, 16, 128, 16, 128


def device(name):
    return json.loads((ROOT / f"data/hardware/{name}.json").read_text(encoding="utf-8"))


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def round_up(value, granule):
    return -(-value // granule) * granule


def rate_of(hardware):
    return hardware["dense_flops_per_s"]["bf16"] * hardware["library_share"]["bf16"] / 1e9


def share_of(hardware, head_dim):
    for row in hardware["attentions"]:
        if head_dim <= row["head_dim"]:
            break
    return row["forward_share"]


def held_out(shape):
    return zlib.crc32(repr(shape).encode()) % 4 == 0


def call(row, names, time_ns):
    shape = {name: int(row[column]) for name, column in names.items()}
    shape["held_out"] = held_out(sorted(shape.items()))
    shape["time_ns"] = time_ns
    return shape


# ---- decode ----

def decode_terms(hardware, c):
    """(compute, bytes over the datasheet's bandwidth, pairs over slots, head size, doublings of the keys, idle share)"""
    k_heads, v_heads, dim = c["k_heads"], c["v_heads"], c["head_dim"]
    keys = min(c["keys"], c["window"]) if c.get("window") else c["keys"]
    moved = 2 * c["batch"] * dim * (keys * (k_heads + v_heads) + 2 * c["q_heads"])
    padded = sum(round_up(c["q_heads"] // heads, ROWS) * heads for heads in (k_heads, v_heads))
    compute = 2 * keys * dim * c["batch"] * padded / (rate_of(hardware) * share_of(hardware, dim))
    pairs = c["batch"] * max(k_heads, v_heads) / hardware["multiprocessors"]
    return (compute, moved / hardware["bandwidth_bytes_per_s"] * 1e9, pairs, dim, max(0, math.log2(keys / UNSPLIT_KEYS)),
            max(0, 1 - pairs))


def decode_ns(terms, cost):
    compute, memory, pairs, dim, doublings, idle = terms
    launch, share, pair, element, split = cost
    busy = compute ** 3 + (memory / share) ** 3 + (pairs * (pair + element * dim)) ** 3
    return launch + busy ** (1 / 3) + split * doublings * idle


# ---- prefill ----

def prefill_terms(hardware, c):
    n, dim, window = c["keys"], c["head_dim"], c.get("window", 0)
    most = min(n, window) if window else n
    entries = (n - most + 1) * most + (most - 1) * most // 2
    tile = Q_TILE_LEAST
    while tile < Q_TILE and tile < n:
        tile *= 2
    rows, columns = round_up(n, tile), round_up(n, KV_TILE)
    edges = 2 if window and window < n else 1
    computed = min(entries * rows / n + edges * rows * (tile + KV_TILE) / 4, rows * columns)
    if not c.get("causal", 1):
        entries, computed = n * n, rows * columns
    if window:
        columns = min(columns, round_up(min(window, n), KV_TILE) + KV_TILE)
    slots, heads = hardware["multiprocessors"], c["q_heads"] * c["batch"]
    rate, kv = rate_of(hardware), c["k_heads"] + c["v_heads"]
    bandwidth = hardware["bandwidth_bytes_per_s"] * hardware["bandwidth_share"] / 1e9
    memory = 2 * c["batch"] * n * dim * (2 * c["q_heads"] + kv) / bandwidth
    return (columns * tile * 4 * dim / rate * slots, computed * 4 * dim * heads / rate, rows // tile * heads / slots,
            entries * 4 * dim * heads / rate, memory, 2 * 2 * c["batch"] * n * dim * kv / bandwidth if c["cached"] else 0,
            bool(c.get("causal", 1)))


def prefill_ns(terms, launch, block, share):
    longest, filled, blocks, matrix, memory, cache, causal = terms
    busy = filled / share + blocks * block
    if not causal:
        busy *= math.ceil(blocks) / blocks
    busy = max(busy, longest / share + block, matrix)
    return launch + (busy ** 3 + memory ** 3) ** (1 / 3) + cache


# ---- fitting ----

def minimize(loss, start, rounds=3, steps=400):
    """Nelder and Mead 1965, over the logarithms of positive parameters, started again a few times."""
    best = [math.log(value) for value in start]
    f = lambda point: loss([math.exp(value) for value in point])
    for _ in range(rounds):
        simplex = [best] + [best[:i] + [best[i] + 0.3] + best[i + 1:] for i in range(len(best))]
        points = sorted((f(point), point) for point in simplex)
        for _ in range(steps):
            worst = points[-1][1]
            middle = [sum(point[i] for _, point in points[:-1]) / len(worst) for i in range(len(worst))]
            at = lambda factor: [m + factor * (w - m) for m, w in zip(middle, worst)]
            tried = (f(at(-1)), at(-1))
            if tried[0] < points[0][0]:
                tried = min(tried, (f(at(-2)), at(-2)))
            elif tried[0] >= points[-2][0]:
                tried = min(points[-1], (f(at(0.5)), at(0.5)))
                if tried[0] >= points[-1][0]:
                    first = points[0][1]
                    shrunk = [[(a + b) / 2 for a, b in zip(first, point)] for _, point in points[1:]]
                    points = sorted([points[0]] + [(f(point), point) for point in shrunk])
                    continue
            points = sorted(points[:-1] + [tried])
        best = points[0][1]
    return [math.exp(value) for value in best]


def mean_log(pairs):
    return sum(abs(math.log(predicted / measured)) for predicted, measured in pairs) / len(pairs)


def report(label, predict, calls):
    for name, wanted in (("fitted", False), ("held out", True)):
        pairs = [(predict(c), c["time_ns"]) for c in calls if c["held_out"] == wanted]
        if pairs:
            bias = math.exp(sum(math.log(p / t) for p, t in pairs) / len(pairs)) - 1
            print(f"  {label:34} {name:8} {len(pairs):5}  {100 * math.expm1(mean_log(pairs)):5.1f}%  {100 * bias:+6.1f}%")


def fit_decode(label, hardware, calls, start):
    for c in calls:
        c["terms"] = decode_terms(hardware, c)
    fitted = [c for c in calls if not c["held_out"]]

    def loss(values):
        return mean_log([(decode_ns(c["terms"], values), c["time_ns"]) for c in fitted]) + 100 * max(0, values[1] - 1)

    cost = minimize(loss, [start[name] for name in COST])
    cost = [round(value, 3 if value < 1 else 2 if value < 100 else 0) for value in cost]
    print(label, dict(zip(COST, cost)))
    predict = lambda c: decode_ns(c["terms"], cost)
    for text, has in (("below 512 keys", lambda n: n < 512), ("512 to 2047", lambda n: 512 <= n < 2048),
                      ("2048 keys and more", lambda n: n >= 2048)):
        report(text, predict, [c for c in calls if has(min(c["keys"], c.get("window") or c["keys"]))])
    return dict(zip(COST, cost))


def fit_prefill(label, hardware, calls):
    """(launch, block, share by head size)"""
    dims = sorted({c["head_dim"] for c in calls})
    for c in calls:
        c["terms"] = prefill_terms(hardware, c)
    fitted = [c for c in calls if not c["held_out"]]

    def predict(c, values):
        return prefill_ns(c["terms"], values[0], values[1], values[2 + dims.index(c["head_dim"])])

    start = [9000, 1500] + [0.7] * len(dims)
    values = minimize(lambda v: mean_log([(predict(c, v), c["time_ns"]) for c in fitted]), start)
    values = [round(value, 3 if value < 10 else 0) for value in values]
    print(label, dict(zip(("launch_ns", "block_ns", *dims), values)))
    for text, has in (("below 512 tokens", lambda c: c["keys"] < 512), ("512 to 2047", lambda c: 512 <= c["keys"] < 2048),
                      ("2048 tokens and more", lambda c: c["keys"] >= 2048), ("1 ms and more", lambda c: c["time_ns"] >= 1e6)):
        report(text, lambda c: predict(c, values), [c for c in calls if has(c)])
    return values[0], values[1], dict(zip(dims, values[2:]))


# ---- the files ----

def framework_calls(path, name, kind):
    names = {"keys": "n", "batch": "batch", "q_heads": "q_heads", "k_heads": "kv_heads", "v_heads": "kv_heads",
             "head_dim": "head_dim", "window": "window"}
    calls = [call(row, names, float(row["time_ns"])) for row in rows_of(path) if (row["device"], row["kind"]) == (name, kind)]
    for c in calls:
        c["cached"] = kind == "attention"
    return calls


def put(text, key, value):
    """Sets a member of a device file, behind "attention_block_ns" if it is new."""
    line = f'  "{key}": {json.dumps(value)}'
    if re.search(rf'^  "{key}": ', text, re.M):
        return re.sub(rf'^  "{key}": .*?(,?)$', lambda m: line + m.group(1), text, count=1, flags=re.M)
    return re.sub(r'^(  "attention_block_ns": .*)$', lambda m: f"{m.group(1)}\n{line},", text, count=1, flags=re.M)


def drop(text, key):
    return re.sub(rf'^ +"{key}": .*\n', "", text, flags=re.M)


def put_source(text, key, source):
    text = re.sub(rf'^    "{key}": .*\n', "", text, flags=re.M)
    return re.sub(r'^(  "sources": \{\n)', lambda m: f'{m.group(1)}    "{key}": {json.dumps(source)},\n', text, flags=re.M)


def put_share(text, head_dim, member, value):
    row = re.compile(rf'(\{{"head_dim": {head_dim}, .*?)(, "{member}": [0-9.]+|(?=\}}))', re.S)
    if member == "forward_share":
        return re.sub(rf'(\{{"head_dim": {head_dim}, "forward_share": )[0-9.]+', rf"\g<1>{value}", text)
    return row.sub(rf'\g<1>, "{member}": {value}', text, count=1)


def change(name, edit):
    path = ROOT / f"data/hardware/{name}.json"
    text = edit(path.read_text(encoding="utf-8"))
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def put_decode(text, key, cost, source):
    for former in ("attention_launch_ns",) if key == "decode_framework" else ("decode_launch_ns",):
        text = drop(text, former)
    return put_source(put(text, key, cost), key, source)


def write(decode, prefill):
    fitted = "fitted to data/results/published/attention.csv, scripts/fit_attention.py, docs/notes/prediction.md"
    for name, (launch, block, shares) in prefill.items():
        def edit(text, name=name, launch=launch, block=block, shares=shares):
            text = put_decode(text, "decode_framework", decode[name], fitted)
            text = put_source(put(text, "prefill_server", {"launch_ns": launch, "block_ns": block}), "prefill_server", fitted)
            text = put_source(put(text, "attention_block_ns", block), "attention_block_ns", fitted)
            for dim, share in shares.items():
                text = put_share(text, dim, "forward_share", share)
            return put_source(text, "attentions", fitted + "; other head sizes and backward: assumed")
        change(name, edit)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", default=RESULTS / "published/attention.csv")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    start = {"launch_ns": 9000, "bandwidth_share": 0.85, "pair_ns": 1000, "element_ns": 5, "split_ns": 500}
    decode, prefill = {}, {}
    for name in ("a100-sxm4-80gb", "b200"):
        hardware = device(name)
        decode[name] = fit_decode(f"{name} decode", hardware, framework_calls(arguments.csv, name, "decode"), start)
        prefill[name] = fit_prefill(f"{name} prefill", hardware, framework_calls(arguments.csv, name, "attention"))
    if arguments.write:
        write(decode, prefill)


if __name__ == "__main__":
    main()
