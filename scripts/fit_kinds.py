#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the costs of latent attention, routed experts and 8 bit GEMMs in device files to published times.

    scripts/fit_kinds.py HEADROOM [--errors | --write] [DEVICE …]

HEADROOM is the built command, whose `validate` predicts the rows of data/results/published: latent.csv, experts.csv and
gemms_fp8.csv. Only rows whose part is "fit" are fitted to. Without an option it fits and prints errors; --write puts the figures
into data/hardware; --errors prints those of the device files as they are, as rows of docs/notes/prediction.md. The mean of
|log(predicted / measured)| is minimized by pattern search along the axes.
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
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "data/results/published"
DEVICES = ("a100-sxm4-80gb", "h200", "h100-sxm", "b200", "l40s")
DECODE = {"launch_ns": 12000, "bandwidth_share": 0.8, "pair_ns": 4000, "split_ns": 700, "compute_share": 0.6}
# kind of the fit: (file, kind of its rows, object of the device file, members with their start)
KINDS = {
    "gemm_8bit": ("gemms_fp8.csv", "gemm", "rounding",
                  {"launch_ns": 2500, "bandwidth_share": 0.5, "element_ns": 0.1, "matrix_share": 0.8}),
    "latent": ("latent.csv", "latent", "decode_latent", DECODE),
    "latent_prefill": ("latent.csv", "latent_prefill", "prefill_latent", {"launch_ns": 10000, "block_ns": 2500, "share": 0.7}),
    "experts": ("experts.csv", "experts", "experts",
                {"routing_ns": 18000, "matrix_share": 0.8, "load_share": 0.85, "expert_ns": 20, "moved_share": 0.5}),
}
# Grouped GEMMs of the H100 are as fast as the H200's, whose rows have fewer outliers: the multiprocessors are the same.
SAME_RATE = {"h100-sxm": "h200"}
# TensorRT-LLM's kernel for the A100 does not split the keys.
UNSPLIT = {"launch_ns": 14500, "bandwidth_share": 0.45, "pair_ns": 12000, "key_ns": 122, "compute_share": 0.42}
MOST = {"bandwidth_share": 1, "load_share": 1, "moved_share": 1, "matrix_share": 4, "compute_share": 2, "share": 4}
SOURCE = "fitted by scripts/fit_kinds.py to half of the rows of data/results/published/"


def load(name):
    return json.loads((ROOT / f"data/hardware/{name}.json").read_text(encoding="utf-8"))


def table_of(file, kind, device):
    """The lines of a file whose rows are of a device and kind, by part."""
    lines = [line for line in (PUBLISHED / file).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    columns = lines[0].split(",")
    part, parts = columns.index("part"), {}
    for line in lines[1:]:
        fields = line.split(",")
        if (fields[0], fields[1]) == (device, kind):
            parts.setdefault(fields[part], []).append((line, fields[2]))
    return lines[0], parts


def logs_of(headroom, device_file, head, lines):
    """log(predicted / measured) of each row."""
    command = [headroom, "validate", "--device", str(device_file), "--from", "-", "--cache-writes", "--format", "csv", "-q"]
    done = subprocess.run(command, text=True, capture_output=True, check=False, input="\n".join([head] + lines) + "\n")
    if done.returncode:
        sys.exit(f"fit_kinds.py: {done.stderr.strip()}")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return [math.log(float(row["predicted_ns"]) / float(row["measured_ns"])) for row in rows]


def put(device, obj, member, value):
    value = min(max(value, 0.001), MOST.get(member, 1e9))
    device.setdefault(obj, {})[member] = float(f"{value:.3g}")


def fit(headroom, device, kind, parts, head, folder):
    _, _, obj, start = KINDS[kind]
    if kind == "latent" and device["name"].startswith("a100"):
        start = UNSPLIT
    device.pop(obj, None)
    for member, value in start.items():
        put(device, obj, member, value)
    path, lines = folder / "device.json", [line for line, dtype in parts["fit"] if dtype == "bf16" or kind != "experts"]

    def loss():
        path.write_text(json.dumps(device), encoding="utf-8")
        logs = logs_of(headroom, path, head, lines)
        return sum(abs(log) for log in logs) / len(logs)

    best, steps = loss(), {member: 0.3 for member in start}
    if kind == "experts" and device["name"] in SAME_RATE:
        other = load(SAME_RATE[device["name"]])
        rate = other["experts"]["matrix_share"] * other["library_share"]["bf16"]
        put(device, obj, "matrix_share", rate / device["library_share"]["bf16"])
        del steps["matrix_share"]
        best = loss()
    while max(steps.values()) > 0.01:
        for member in steps:
            if steps[member] <= 0.01:
                continue
            before, better = device[obj][member], False
            for value in (before * (1 + steps[member]), before / (1 + steps[member])):
                put(device, obj, member, value)
                found = loss() if device[obj][member] != before else best
                if found < best - 1e-6:
                    best, better = found, True
                    break
                put(device, obj, member, before)
            steps[member] *= 1.3 if better else 0.5


def mean_of(logs):
    return math.expm1(sum(abs(log) for log in logs) / len(logs))


def report(headroom, device_file, name, kind, head, parts):
    for part in ("held_out", "other"):
        by_format = {}
        for line, dtype in parts.get(part, []):
            by_format.setdefault(dtype, []).append(line)
        for dtype, lines in sorted(by_format.items()):
            logs = logs_of(headroom, device_file, head, lines)
            ordered = sorted(abs(log) for log in logs)
            at = lambda share: math.expm1(ordered[math.ceil(share * len(ordered)) - 1])
            print(f"| {name} | {kind} {dtype} | {part.replace('_', ' ')} | {len(logs)} | {at(0.5):.1%} | {mean_of(logs):.1%} | "
                  f"{math.expm1(sum(logs) / len(logs)):+.1%} | {at(0.9):.1%} |", flush=True)


def text_of(value):
    return "{" + ", ".join(f'"{key}": {json.dumps(number)}' for key, number in value.items()) + "}"


def write(name, device, obj, source):
    path = ROOT / f"data/hardware/{name}.json"
    text = path.read_text(encoding="utf-8")
    text = re.sub(rf'^  "{obj}": .*\n', "", text, flags=re.M)
    text = re.sub(rf'^    "{obj}": ".*\n', "", text, flags=re.M)
    sources = f'    "{obj}": {json.dumps(source)},\n'
    text = text.replace('  "sources": {\n', f'  "{obj}": {text_of(device[obj])},\n  "sources": {{\n{sources}', 1)
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headroom")
    parser.add_argument("devices", nargs="*", default=DEVICES)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--kind", action="append", choices=KINDS)
    arguments = parser.parse_args()
    print("| device | kind | rows of | rows | median error | mean error | bias | 90% within |")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in arguments.devices:
            for kind in arguments.kind or KINDS:
                file, row_kind, obj, _ = KINDS[kind]
                head, parts = table_of(file, row_kind, name)
                if not parts:
                    continue
                device, path = load(name), ROOT / f"data/hardware/{name}.json"
                if not arguments.errors:
                    fit(arguments.headroom, device, kind, parts, head, folder)
                    path = folder / "device.json"
                    path.write_text(json.dumps(device), encoding="utf-8")
                    print(name, obj, text_of(device[obj]))
                report(arguments.headroom, path, name, kind, head, parts)
                if arguments.write:
                    write(name, device, obj, SOURCE + file)


if __name__ == "__main__":
    main()
