#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the rates of collectives in device files to measured times, and prints their errors on rows that are held out.

    scripts/fit_collectives.py [--csv FILE …] [--experts FILE] [--own FILE] [--write] [--forms] [--errors HEADROOM] [DEVICE …]

--csv: columns device, kind, dtype, gpus, nodes, bytes, time_ns, source (default data/results/published/collectives.csv); a
name of a device is that of its file in data/hardware. --experts: DeepEP's combine, with the columns device, source, nodes,
gpus, tokens_per_gpu, top_k, hidden, experts, measured_ns. --own: Headroom's all-reduces, as bench/all_reduce prints them,
of GPUs with the links of an H200. Prints the list "collectives" of each device, or with --write puts it into the file.

A library's time is α + x + γ·√(α·x) with x = bytes sent / β, or NCCL's where that is less. The mean of
|log(predicted / measured)| is minimized over every other size; the sizes between are held out. error_band is that of nine
in ten held-out rows, of every version. A server's rows are of its newest version, and of those that its newest version's fit predicts within
10% in the median; "servers" are all of them together. --errors prints the medians of the held-out rows' errors, predicted by the command with the device files
as they are. --forms compares forms of the time, each part of the sizes held out in turn.
"""
import argparse
import collections
import csv
import io
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")
SERVERS = ("trtllm", "vllm", "sglang")
LIBRARIES = ("nccl", "headroom", "servers", *SERVERS, *(f"deepep_{one}" for one in SERVERS), *(f"deepep_ll_{one}" for one in SERVERS))
FOLDS = 8
LEAST_BAND = 0.15
SAME_KERNELS = 0.1  # versions whose times are this close are fitted together
OLD = ("nccl-2.23",)  # takes 1.2 times as long for small messages as NCCL from 2.26 on, which are alike
# Devices whose links are those of another one, which alone was measured.
SAME_LINKS = {"a100-sxm4-40gb": "a100-sxm4-80gb"}
SAME_POINT_TO_POINT = {"h200": "h100-sxm"}
SAME_HOSTS = {"h200": "h100-sxm"}  # of several nodes: the published rows are one measurement
OWN = ("h200", "h100-sxm")
WAYS = ("one_shot", "two_shot", "blocks")
# The host of the L40S rows has no direct path between most of its GPUs: 20 GB/s for 2, 5 for 4, 1 to 2 for 8.
MOST_DEVICES = {"l40s": 2, "gb300": 8}  # of 16 GB300 kernels differ by up to eight times

Key = collections.namedtuple("Key", "device library kind devices nodes")
Point = collections.namedtuple("Point", "sent time version sizes")  # sizes: bytes and copies, which decide what is held out


def share(kind, devices):
    if kind == "point_to_point":
        return 1
    return (devices - 1) / devices * (2 if kind == "all_reduce" else 1)


def sent_bytes(key, size, copies):
    """As hr_collective_sent() of src/analysis/predict/collective_rates.c."""
    peers = key.nodes if key.nodes > 1 else key.devices
    sent = size * share(key.kind, peers)
    if key.library.startswith("deepep") and "_ll_" not in key.library:
        sent *= peers * (1 - (1 - 1 / peers) ** copies) / copies
    return sent


def version_of(source):
    return tuple(int(number) for number in re.findall(r"\d+", source.rpartition("-")[2].rpartition(" ")[2]))


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def read_collectives(groups, path):
    for row in rows_of(path):
        kind = {"p2p": "point_to_point"}.get(row["kind"], row["kind"])
        devices = int(row["gpus"])
        server = next((one for one in SERVERS if one in row["source"]), None)
        if kind not in KINDS:
            sys.exit(f"fit_collectives.py: {path}: kind \"{kind}\" is not a collective")
        if row["nodes"] != "1" or row["dtype"] == "int8" or devices > MOST_DEVICES.get(row["device"], devices):
            continue  # NCCL reduces int8 without the switch
        if any(old in row["source"] for old in OLD) or (server and kind != "all_reduce"):
            continue
        key, size = Key(row["device"], server or "nccl", kind, devices, 1), int(row["bytes"])
        for library in (key.library, "servers") if server else (key.library,):
            point = Point(sent_bytes(key, size, 0), int(row["time_ns"]), version_of(row["source"]), (size, 0))
            groups[key._replace(library=library)].append(point)


def deepep_of(source):
    server, mode = source.split(maxsplit=1)
    if "v2" in mode:
        return None
    return f"deepep_ll_{server}" if "ll" in re.split("[ _]", mode) else f"deepep_{server}"


def read_experts(groups, path):
    """Of several nodes devices with the same hosts share their rows."""
    for row in rows_of(path):
        library, nodes = deepep_of(row["source"]), int(row["nodes"])
        device = SAME_HOSTS.get(row["device"], row["device"]) if nodes > 1 else row["device"]
        copies = min(int(row["top_k"]), int(row["experts"]))
        size = int(row["tokens_per_gpu"]) * copies * int(row["hidden"]) * 2
        if not library:
            continue
        key = Key(device, library, "all_to_all", int(row["gpus"]), nodes)
        point = Point(sent_bytes(key, size, copies), int(row["measured_ns"]), version_of(row["source"]), (size, copies))
        if point not in groups[key]:
            groups[key].append(point)
    for key in [one for one in groups if one.nodes > 1]:
        for device in (one for one, other in SAME_HOSTS.items() if other == key.device):
            groups[key._replace(device=device)] = groups[key]


def read_own(path):
    """way → [(bytes, time in ns)] of two GPUs."""
    ways = {way: [] for way in WAYS}
    for row in rows_of(path):
        for way in WAYS:
            if row["gpus"] == "2" and row.get(f"{way}_us"):
                ways[way].append((int(row["bytes"]), 1000 * float(row[f"{way}_us"])))
    return ways


def read_groups(options):
    groups = collections.defaultdict(list)
    for path in options.csv or [ROOT / "data/results/published/collectives.csv"]:
        read_collectives(groups, path)
    if options.experts:
        read_experts(groups, options.experts)
    return groups


def halves(points):
    """(fitted, held out): every other size of both."""
    sizes = sorted({point.sizes for point in points})
    away = set(sizes[1::2])
    return [p for p in points if p.sizes not in away], [p for p in points if p.sizes in away]


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
    if form is power:
        return [(a, b, 1.0)]
    if form in (full_ramp, unit_ramp, line, larger):
        return [(a, b)]
    return [(a, b, 1.0), (a, b - 1, 0.0)]


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


def fit(form, points, begin=ramp):
    least, rate = min(t for _, t in points), max(x / t for x, t in points)
    return min(descend(form, points, p) for p in starts(begin, least, rate))[1]


def held_out(form, points):
    """|log(predicted / measured)| of every point, predicted without the sizes of its part."""
    sizes = sorted({x for x, _ in points})
    errors = []
    for part in range(min(FOLDS, len(sizes))):
        away = set(sizes[part::FOLDS])
        p = fit(form, [point for point in points if point[0] not in away], form)
        errors += [abs(math.log(form(p, x) / t)) for x, t in points if x in away]
    return errors


# ---- fits ----


def times(points):
    return [(point.sent, point.time) for point in points]


def fit_group(points, other):
    """Fits to the points; `other` is the time of NCCL for so many bytes, which the library has, too."""

    def form(p, x):
        return min(ramp(p, x), other(x))

    return fit(form, times(points))


def same_version(points, other):
    """The rows of the newest version, and of those that have the same kernels."""
    newest = max(point.version for point in points)
    chosen = [point for point in points if point.version == newest]
    if len(halves(chosen)[0]) < 3:
        return points
    p = fit_group(halves(chosen)[0], other)
    for version in {point.version for point in points} - {newest}:
        older = [point for point in points if point.version == version]
        errors = [abs(min(ramp(p, x), other(x)) / t - 1) for x, t in times(halves(older)[0])]
        if errors and statistics.median(errors) < SAME_KERNELS:
            chosen += older
    return chosen


def nccl_of(groups, key):
    """The time that NCCL's fit has for the bytes of another library."""
    points = groups.get(key._replace(library="nccl"))
    if key.library in ("nccl", "servers") or key.library.startswith("deepep") or not points:
        return lambda _: math.inf
    p = fit_group(halves(points)[0], lambda _: math.inf)
    return lambda x: ramp(p, x)


def chosen_points(groups, key):
    points = groups[key]
    return points if key.library in ("nccl", "servers") else same_version(points, nccl_of(groups, key))


def row_of(key, p, errors):
    band = max(math.exp(errors[math.ceil(0.9 * len(errors)) - 1]) - 1, LEAST_BAND) if errors else LEAST_BAND
    row = {"library": key.library, "kind": key.kind, "devices": key.devices}
    if key.nodes > 1:
        row["nodes"] = key.nodes
    return {**row, "latency_ns": 10 * round(math.exp(p[0]) / 10), "bus_bytes_per_s": f"{math.exp(p[1]):.1f}e9",
            "ramp": round(max(p[2], 0), 2), "error_band": round(band, 2)}


def fitted_row(groups, key):
    other = nccl_of(groups, key)
    fitted = halves(chosen_points(groups, key))[0]
    if len(fitted) < 3:
        return None
    p = fit_group(fitted, other)
    away = halves(groups[key])[1]
    errors = sorted(abs(math.log(min(ramp(p, x), other(x)) / t)) for x, t in times(away))
    return row_of(key, p, errors)


def own_rows(device, path):
    """Of more GPUs by the bytes that each writes: one shot (n − 1) · bytes, the others 2 · (n − 1) / n · bytes."""
    rows = []
    for way, points in read_own(path).items() if device in OWN else ():
        if len(points) < 3:
            continue
        p = fit(ramp, points[::2])
        errors = sorted(abs(math.log(ramp(p, x) / t)) for x, t in points[1::2])
        for devices in (2, 4, 8):
            part = 2 / devices if way == "one_shot" else 1
            key = Key(device, "headroom", "all_reduce", devices, 1)
            row = row_of(key, (p[0], p[1] + math.log(part), p[2]), errors)
            rows.append(row if devices == 2 else {**row, "error_band": 0.5})
    return rows


def rates(groups, device, own):
    rows = own_rows(device, own)
    source = SAME_LINKS.get(device, device)
    for key in [key for key in groups if key.device == source]:
        rows.append(fitted_row(groups, key))
    if device in SAME_POINT_TO_POINT:
        for key in [key for key in groups if key.device == SAME_POINT_TO_POINT[device] and key.kind == "point_to_point"]:
            rows.append(fitted_row(groups, key))
    rows = [row for row in rows if row]
    return sorted(rows, key=lambda row: (LIBRARIES.index(row["library"]), KINDS.index(row["kind"]), row["devices"]))


def as_text(rows):
    """As the device files have it: a row a line, 450e9 instead of 450000000000.0."""
    lines = [json.dumps(row).replace(f'"{row["bus_bytes_per_s"]}"', row["bus_bytes_per_s"]) for row in rows]
    return '  "collectives": [\n    ' + ",\n    ".join(lines) + "\n  ],\n"


def source_of(device, options):
    files = [pathlib.Path(path) for path in options.csv or []] + [pathlib.Path(options.experts)] * bool(options.experts)
    named = [f"{path.parent.name}/{path.name}" for path in files] or ["data/results/published/collectives.csv"]
    of = SAME_LINKS.get(device)
    text = f"scripts/fit_collectives.py, every other size of {', '.join(named)}" + (f" (rows of {of}, the same links)" if of else "")
    if device in OWN:
        text += "; headroom: data/results/h200/all_reduce.csv, of more than 2 GPUs by the bytes that each writes"
    if device in SAME_POINT_TO_POINT:
        text += f"; point to point: rows of {SAME_POINT_TO_POINT[device]}, the same links"
    return text


def write(device, text, source):
    path = ROOT / "data/hardware" / f"{device}.json"
    old = path.read_text(encoding="utf-8")
    new, count = re.subn(r'  "collectives": \[.*?\n  \],\n', lambda _: text, old, flags=re.S)
    if count == 0:
        new, count = re.subn(r'(?=  "sources": \{)', lambda _: text, old)
    if count != 1:
        sys.exit(f"fit_collectives.py: {path}: found no place for \"collectives\"")
    new = re.sub(r'    "collectives": ".*?"(,?)\n', lambda found: f'    "collectives": {json.dumps(source)}{found[1]}\n', new)
    path.write_text(new, encoding="utf-8")


# ---- output ----


def compare_forms(groups):
    print("| time | parameters | fitted | held out | all-reduce of 8, held out |\n|---|---|---|---|---|")
    for name, form in FORMS.items():
        fitted, tested, eight = [], [], []
        for key in groups:
            points = times(chosen_points(groups, key))
            if len({x for x, _ in points}) < 6:
                continue
            fitted.append(loss(form, points, fit(form, points, form)))
            errors = held_out(form, points)
            tested.append(sum(errors) / len(errors))
            if (key.kind, key.devices) == ("all_reduce", 8):
                eight.append(tested[-1])
        count = len(starts(form, 1, 1)[0])
        means = [math.exp(sum(values) / len(values)) - 1 if values else math.nan for values in (fitted, tested, eight)]
        print(f"| {name} | {count} | " + " | ".join(f"{mean:.1%}" for mean in means) + " |")


def predicted(headroom, device, lines):
    """[predicted / measured] by the command."""
    head = "kind,library,gpus,nodes,bytes,copies,time_ns\n"
    done = subprocess.run([headroom, "validate", "--device", device, "--from", "-", "-q", "--format", "csv"], text=True,
                          capture_output=True, check=False, input=head + "".join(lines))
    if done.returncode:
        sys.exit(f"fit_collectives.py: {device}: {done.stderr.strip()}")
    return [float(row["predicted_ns"]) / float(row["measured_ns"]) for row in csv.DictReader(io.StringIO(done.stdout))]


def lines_of(groups, key):
    return [f"{key.kind},{key.library},{key.devices},{key.nodes},{p.sizes[0]},{p.sizes[1]},{p.time}\n"
            for p in halves(chosen_points(groups, key))[1]]


def cell(ratios):
    if not ratios:
        return ""
    errors = [ratio - 1 for ratio in ratios]
    return f"{100 * statistics.median(map(abs, errors)):.0f} ({100 * statistics.median(errors):+.0f}), {len(errors)}"


def print_errors(groups, devices, headroom):
    columns = [("nccl", kind, False) for kind in KINDS[:4]] + [(one, "all_reduce", False) for one in ("servers", *SERVERS)]
    columns += [(f"{mode}_{one}", "all_to_all", several) for several in (False, True) for mode in ("deepep", "deepep_ll")
                for one in SERVERS if not several or one == "sglang"]
    print("| library | collective | nodes | " + " | ".join(devices) + " |\n|---|---|---|" + "---|" * len(devices))
    for library, kind, several in columns:
        cells = []
        for device in devices:
            lines = [text for key in groups if key.device == device and (key.library, key.kind, key.nodes > 1) == (library, kind, several)
                     for text in lines_of(groups, key)]
            cells.append(cell(predicted(headroom, device, lines) if lines else []))
        if any(cells):
            print(f"| {library} | {kind} | {'several' if several else 1} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--csv", action="append")
    parser.add_argument("--experts")
    parser.add_argument("--own", default=ROOT / "data/results/h200/all_reduce.csv")
    parser.add_argument("--write", action="store_true", help="put the rates into data/hardware")
    parser.add_argument("--forms", action="store_true", help="compare forms of the time")
    parser.add_argument("--errors", metavar="HEADROOM", help="print the errors of rows that are held out")
    parser.add_argument("devices", nargs="*")
    options = parser.parse_args()
    groups = read_groups(options)
    measured = {key.device for key in groups}
    devices = options.devices or sorted(measured | {d for d, of in SAME_LINKS.items() if of in measured})
    for device in devices:
        if SAME_LINKS.get(device, device) not in measured:
            sys.exit(f"fit_collectives.py: {options.csv} has no rows of {device}")
    if options.forms:
        compare_forms(groups)
        return
    if options.errors:
        print_errors(groups, devices, options.errors)
        return
    for device in devices:
        text = as_text(rates(groups, device, options.own))
        if options.write:
            write(device, text, source_of(device, options))
        else:
            print(f"{device}\n{text}", end="")


if __name__ == "__main__":
    main()
