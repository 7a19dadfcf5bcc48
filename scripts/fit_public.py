#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the kernels of inference frameworks in device files to published times, and prints their errors.

    scripts/fit_public.py HEADROOM FOLDER [--against HEADROOM] [--fit [--write]] [--intervals] [--kind KIND …] [DEVICE …]

FOLDER has DEVICE_KIND.csv, whose rows `headroom validate` reads. Half of the shapes, by the checksum of their sizes, is
fitted to; the table is of the other half: the median of |predicted / measured - 1| and its bias, by the command given
with --against (with its own device files) and by data/hardware as it is, or after --fit. The fit minimizes the mean of
|log(predicted / measured)| by pattern search along the axes; --write puts its figures into data/hardware. --intervals puts the
intervals of the kinds there (of figures as they are).
"""
import argparse
import collections
import copy
import csv
import io
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import zlib

import fit_intervals

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHORT_NS = 30e3
HEADS_FITTED = {"decode fp8": 128}  # heads of 256 have slower kernels, which few models use
BROKEN = 10  # a measurement that is further off than this leaves the intervals as they are
SIZES = ("dtype", "m", "n", "k", "batch", "q_heads", "kv_heads", "head_dim", "window", "hidden", "intermediate", "experts", "top_k",
         "tp", "ep", "recurrence", "phase", "seq", "heads", "state")
PREFILL = {"launch_ns": 8000, "block_ns": 2500, "forward_share": 1, "key_ns": 8}
# kernels whose Q tiles hold the query heads of a K head; others for windows: for each part of them, if it pays
MORE = ({"packed_share": 1}, {"packed_share": 1, "packed_window_share": 1}, {"window_launch_ns": 0})
FP8_SHARES = {"fp8_share@64": 0.5, "fp8_share@128": 0.6, "fp8_share@256": 0.6}
DECODE = {"launch_ns": 7000, "bandwidth_share": 0.85, "pair_ns": 1000, "element_ns": 4, "split_ns": 500, "compute_share": 0.6}
# kind: (file, which rows, options of validate, object of the device file, members with their start)
KINDS = {
    "gemm": ("gemm_bf16", {}, (), None, {}),
    "prefill": ("attention_bf16", {}, ("--cache-writes",), "prefill_server", PREFILL),
    "prefill fp8": ("attention_fp8", {}, ("--cache-writes",), "prefill_fp8", PREFILL),
    "encoder": ("encoder_bf16", {}, (), "prefill_full",
                {"launch_ns": 6000, "block_ns": 2500, "full_share@64": 0.7, "full_share@80": 0.7}),
    "decode": ("decode_bf16", {}, ("--cache", "warm"), "decode_framework", DECODE),
    "decode fp8": ("decode_fp8", {}, ("--cache", "warm"), "decode_fp8", {**DECODE, "compute_share": 0.2, "one_head_share": 0.7}),
    "latent": ("latent", {"kind": "latent"}, ("--cache", "warm"), "decode_latent", {**DECODE, "pair_ns": 4000}),
    "latent prefill": ("latent", {"kind": "latent_prefill"}, (), "prefill_latent",
                       {"launch_ns": 1e4, "block_ns": 2500, "share": 0.8, "key_ns": 20}),
    "gemm fp8": ("gemm_fp8", {}, (), "rounding",
                 {"launch_ns": 2500, "bandwidth_share": 0.5, "element_ns": 0.1, "matrix_share": 0.8}),
    "convolution decode": ("scan", {"recurrence": "convolution", "phase": "decode"}, ("--cache", "warm"), "scan_convolution",
                           {"update_ns": 2000, "update_share": 0.7}),
    "convolution prefill": ("scan", {"recurrence": "convolution", "phase": "prefill"}, ("--cache", "warm"), "scan_convolution",
                            {"launch_ns": 2500, "bandwidth_share": 0.5}),
    "delta decode": ("scan", {"recurrence": "gated_delta", "phase": "decode"}, ("--cache", "warm"), "scan_gated_delta",
                     {"update_ns": 3000, "update_share": 0.6}),
    "delta prefill": ("scan", {"recurrence": "gated_delta", "phase": "prefill"}, ("--cache", "warm"), "scan_gated_delta",
                      {"launch_ns": 25000, "bandwidth_share": 0.9, "matrix_share": 0.23, "token_ns": 24}),
}
SERVERS = ("trtllm", "vllm", "sglang")
EXPERTS = {"routing_ns": 18000, "sort_ns": 8000, "choice_ns": 0.2, "remote_share": 0.1, "matrix_share": 0.8, "load_share": 0.85,
           "expert_ns": 20, "moved_share": 0.5}
EXPERTS_8BIT = {"matrix_share_8bit": 0.8, "load_share_8bit": 0.85, "expert_ns_8bit": 20}
FASTEST = {"b200": "vllm", "b300": "vllm", "gb200": "vllm"}  # whose experts are the common ones; elsewhere TensorRT-LLM's
KINDS["experts"] = ("experts", {"kernels": "usual"}, (), "experts", {**EXPERTS, **EXPERTS_8BIT})
for one in SERVERS:  # kernels of one server: rows of its versions; of attention, its column
    KINDS.update({
        f"gemm fp8 {one}": ("gemm_fp8", {}, ("--framework", one), f"{one}.rounding", {**KINDS["gemm fp8"][4], "launch_ns": 4000}),
        f"experts {one}": ("experts", {"kernels": "usual"}, ("--framework", one), f"{one}.experts", {**EXPERTS, **EXPERTS_8BIT}),
        **{f"experts {part} {one}": ("experts", {"kernels": part}, ("--framework", one), f"{one}.experts_{part}", EXPERTS)
           for part in ("8bit", "cutlass", "triton")},
        f"prefill {one}": ("attention_bf16", {}, ("--framework", one, "--cache-writes"), f"{one}.prefill", PREFILL),
        f"decode {one}": ("decode_bf16", {}, ("--framework", one, "--cache", "warm"), f"{one}.decode", DECODE),
    })
INTERVALS = {"prefill": "attention", "prefill fp8": "attention", "encoder": "attention", "decode": "decode", "decode fp8": "decode",
             "gemm": "gemm", "gemm fp8": "gemm_8bit", "latent": "latent", "latent prefill": "latent_prefill", "convolution decode": "scan", "convolution prefill": "scan",
             "delta decode": "scan", "delta prefill": "scan",
             **{f"experts{part} {one}": "experts" for one in SERVERS for part in ("", " 8bit")}}
MOST = {"bandwidth_share": 1, "one_head_share": 1, "load_share": 1, "moved_share": 1, "remote_share": 1, "sort_ns": 2e4, "update_share": 1, "compute_share": 4, "matrix_share": 1.6, "forward_share": 4, "full_share": 4, "fp8_share": 4,
        "share": 4}
COMMON = {"rounding": "rounding", "experts": "experts", "prefill": "prefill_server", "decode": "decode_framework"}  # where servers' begin
FAR = 0.5  # a row of experts counts for no more than this |log|, as single rows take several times as long as their neighbours
LEAST = {"key_ns": 0.5, "sort_ns": 300, "choice_ns": 0.05, "remote_share": 0.05, "expert_ns": 2, "expert_ns_8bit": 2}  # less is none
PAYS = 0.01  # a server's own figures have to lower the mean of |log(predicted / measured)| by so much, else it has the common ones
STEP_FIRST, STEP_LAST = 0.3, 0.01
FITTED = "scripts/fit_public.py, aiconfigurator_core 0.12.0 (NVIDIA)"
UNMEASURED_HEADS = ("l40s", "rtx-pro-6000", "b60")  # attentions of other devices, so that they are fitted, too
WINDOWS_APART = ("l40s", "rtx-pro-6000")  # where vLLM's kernels for windows read K and V for each query head
DEVICES = ("a100-sxm4-80gb", "h100-sxm", "h200", "b200", "b300", "gb200", "l40s", "rtx-pro-6000", "b60")


def load(name):
    return json.loads((ROOT / f"data/hardware/{name}.json").read_text(encoding="utf-8"))


def lines_of(path):
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines() if not line.startswith("#")]


def server_of(kind):
    return next((one for one in SERVERS if kind.endswith(f" {one}")), None)


def servers_of(device, kind):
    """The server whose rows a kind has; None: all."""
    return FASTEST.get(device, "trtllm") if kind == "experts" else server_of(kind)


def usual_kernels(lines, server):
    """The kernels of experts that most rows of a server have, by format."""
    counts = collections.Counter((row["dtype"], row["kernel"]) for row in csv.DictReader(lines) if f"aic-{server}-" in row["source"])
    return {dtype: kernel for (dtype, kernel), _ in reversed(counts.most_common())}


def is_part(row, part, usual):
    """Whether a row is of the kernels that a block of a server is about."""
    if row["kernel"] != usual.get(row["dtype"]):
        return part == row["kernel"]
    return part == ("usual" if row["kernel"] == usual.get("bf16") else "8bit")


def source_of(folder, device, server):
    """What rows of the server's 8 bit GEMMs, without any of its experts, have in their column "source": its version."""
    for file in ("gemm_fp8", "experts"):
        found = {row["source"] for row in csv.DictReader(lines_of(folder / f"{device}_{file}.csv"))}
        found = sorted(source for source in found if source.startswith(f"aic-{server}-"))
        if found:
            return found[0]
    return None


def of_server(line, row, server, source):
    """The line of a row that a server has measured, with its time; None of another's."""
    if f"{server}_ns" not in row:
        return line if row["source"] == source or "kernel" in row and f"aic-{server}-" in row["source"] else None
    if not row[f"{server}_ns"]:
        return None
    return ",".join(row[f"{server}_ns"] if name == "time_ns" else value for name, value in row.items())


def rows_of(folder, device, kind):
    """The head and the rows of a kind: those that are fitted to, and the others."""
    file, wanted = KINDS[kind][:2]
    lines, server, parts = lines_of(folder / f"{device}_{file}.csv"), servers_of(device, kind), ([], [])
    source = source_of(folder, device, server)
    if not lines or server and not source:
        return "", parts
    part = wanted.get("kernels")
    kernels = usual_kernels(lines, server) if part else {}
    for line, row in zip(lines[1:], csv.DictReader(lines)):
        sizes = ",".join(row.get(name) or "" for name in SIZES)
        held = zlib.crc32(sizes.encode()) % 2
        two_more = kind == "gemm fp8" and "trtllm" in row["source"]  # kernels, which look for the maximum and round, are timed
        usual = held or not two_more and int(row.get("head_dim") or 0) <= HEADS_FITTED.get(kind, math.inf)
        line = of_server(line, row, server, source) if server else line
        if line and usual and (is_part(row, part, kernels) if part else all(row[name] == value for name, value in wanted.items())):
            parts[held].append(line)
    framework = "" if server_of(kind) else ",compiled"  # not the server's that "source" names
    return lines[0] + (framework and ",framework"), tuple([line + framework for line in one] for one in parts)


def predicted(headroom, device, kind, head, lines):
    """[(predicted, measured)], ns"""
    options = ["-q", "--format", "csv", *KINDS[kind][2]]
    done = subprocess.run([headroom, "validate", "--device", str(device), "--from", "-", *options], text=True,
                          capture_output=True, check=False, input="\n".join([head] + lines) + "\n")
    if done.returncode:
        sys.exit(f"fit_public.py: {device}: {done.stderr.strip()}")
    return [(float(row["predicted_ns"]), float(row["measured_ns"])) for row in csv.DictReader(io.StringIO(done.stdout))]


def holder(device, obj, member):
    """What has a member, and its key there: "full_share@80" is that of the attention with heads of up to 80."""
    key, _, head_dim = member.partition("@")
    if not head_dim:
        for name in obj.split("."):
            device = device.setdefault(name, {})
        return device, key
    rows = device["attentions"]
    at = next(i for i, row in enumerate(rows) if int(head_dim) <= row["head_dim"])
    if rows[at]["head_dim"] > int(head_dim):
        rows.insert(at, {**rows[at], "head_dim": int(head_dim)})
    return rows[at], key


def get(device, obj, member, other=None):
    at, key = holder(device, obj, member)
    return at.get(key, other)


def put(device, obj, member, value):
    at, key = holder(device, obj, member)
    most = MOST.get(key.replace("_8bit", ""), 1e6)
    least = device["launch_ns"] if key == "launch_ns" and "prefill" in obj else 0.001  # no call is shorter than a launch
    at[key] = float(f"{min(max(value, least), most):.3g}")


def has_rows(member, rows):
    """Whether rows of experts depend on a member."""
    if member.endswith("_8bit"):
        return any(row["dtype"] == "fp8" for row in rows)
    if member == "sort_ns":
        return any(int(row["top_k"]) > 8 for row in rows)
    return member != "remote_share" or any(row["ep"] != "1" for row in rows)


def fit(headroom, device, kind, head, lines, path):
    obj, start = KINDS[kind][3:]
    server, block = obj.split(".") if "." in obj else (None, None)

    def loss():
        path.write_text(json.dumps(device), encoding="utf-8")
        far = FAR if kind.startswith("experts") else math.inf
        return statistics.fmean(min(far, abs(math.log(p / m))) for p, m in predicted(headroom, path, kind, head, lines))

    if kind == "prefill" and device["name"] in UNMEASURED_HEADS:
        start = {"launch_ns": 5000, "block_ns": 2000, "key_ns": 20, **{f"forward_share@{head_dim}": 0.8 for head_dim in (64, 128, 256)}}
    heads = {row.get("head_dim") for row in csv.DictReader([head] + lines)}
    if kind == "prefill fp8" and len(heads) > 1:
        start = {member: value for member, value in {**start, **FP8_SHARES}.items()
                 if member != "forward_share" and member.partition("@")[2] in {"", *heads}}
    if kind == "decode vllm" and device["name"] in WINDOWS_APART:
        start = {**start, "window_head_ns": 4500}
    if kind.startswith("experts"):
        rows = list(csv.DictReader([head] + lines))
        start = {member: value for member, value in start.items() if has_rows(member, rows)}
    known = device.get(COMMON.get(block), {})
    start = {member: known.get(member.replace("_8bit", "")) or value for member, value in start.items()}
    if server:
        device[server].pop(block, None)
    elif not server and obj.startswith("scan_"):  # of scans a kind has a part
        device.setdefault(obj, {"launch_ns": 0})
    elif not server:
        device[obj] = {}

    def search():
        """The least loss along the axes, whose figures it leaves in the device."""
        best, steps = loss(), dict.fromkeys(start, STEP_FIRST)
        while max(steps.values()) > STEP_LAST:
            for member in steps:
                if steps[member] <= STEP_LAST:
                    continue
                before, better = get(device, obj, member), False
                least = LEAST.get(member, 0)
                for value in (max(before, least) * (1 + steps[member]), before / (1 + steps[member]) if before > least else 0):
                    put(device, obj, member, value)
                    found = loss() if get(device, obj, member) != before else best
                    if found < best - 1e-6:
                        best, better = found, True
                        break
                    put(device, obj, member, before)
                steps[member] *= 1.3 if better else 0.5
        return best

    common = loss() if server else math.inf
    for member, value in start.items():
        put(device, obj, member, value)

    best = search()
    for more in (MORE[:-1] if server else MORE) if kind.startswith("prefill") else ():
        before, members = copy.deepcopy(device), dict(start)
        for member, value in more.items():
            put(device, obj, member, value)
        if "window_launch_ns" in more:
            put(device, obj, "window_launch_ns", 1.2 * get(device, obj, "launch_ns"))
            start.update(more)
        found = search()
        if found <= best - (PAYS / 2 if "window_launch_ns" in more else PAYS):
            best = found
        else:
            device.clear()
            device.update(before)
            start = members
    if "key_ns" in start:
        key_ns = get(device, obj, "key_ns")
        put(device, obj, "key_ns", 0)
        best, kept = (loss(), 0) if loss() < best + PAYS / 4 else (best, key_ns)
        put(device, obj, "key_ns", kept)
    if kind == "prefill fp8":
        near = sorted((row for row in device["attentions"] if "fp8_share" in row), key=lambda row: row["head_dim"])
        for row in device["attentions"] if near else ():
            row["fp8_share"] = next((one for one in near if one["head_dim"] >= row["head_dim"]), near[-1])["fp8_share"]
    for member, least in LEAST.items():
        if get(device, obj, member, math.inf) < least:
            del holder(device, obj, member)[0][member]
    if server and best > common - PAYS:
        del device[server][block]
    path.write_text(json.dumps(device), encoding="utf-8")


def put_intervals(headroom, name, folder):
    """Intervals of the kinds that are fitted here, of the rows that they are fitted to; the others stay."""
    rows, path, device = [], ROOT / f"data/hardware/{name}.json", load(name)
    for kind, interval in INTERVALS.items():
        head, parts = rows_of(folder, name, kind)
        if parts[0] and device["sources"].get(obj_of(kind) or "gemm_launch_ns", "").startswith(FITTED):
            pairs = predicted(headroom, path, kind, head, parts[0])
            if interval == "experts":  # of a server that is not named, too
                pairs += predicted(headroom, path, "experts", head + ",framework", [line + ",compiled" for line in parts[0]])
            rows += [(interval, p, m, None) for p, m in pairs if 1 / BROKEN < m / p < BROKEN]
    fitted = fit_intervals.fit(rows)
    kinds = {one["kind"] for one in fitted}
    before = device["sources"].get("intervals", "").rpartition("; the others: ")[2]
    before = "" if "fit_public.py" in before else before
    source = f"of {', '.join(sorted(kinds))} the rows of scripts/fit_public.py" + (f"; the others: {before}" if before else "")
    fit_intervals.put_intervals(path, fitted + [one for one in device.get("intervals", []) if one["kind"] not in kinds], source)


def cells(pairs):
    """Median error and bias, %, of short calls, of the others, and of all."""
    texts = []
    for least, most in ((0, SHORT_NS), (SHORT_NS, math.inf), (0, math.inf)):
        errors = [p / m - 1 for p, m in pairs if least <= m < most]
        texts.append(f"{100 * statistics.median(map(abs, errors)):.0f} ({100 * statistics.median(errors):+.0f})" if errors else "")
    return texts


def text_of(value):
    if isinstance(value, dict) and "version" in value:
        return "{\n" + ",\n".join(f'    "{name}": {json.dumps(member)}' for name, member in value.items()) + "\n  }"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in value) + "\n  ]"
    return json.dumps(value)


def put_figure(name, figure, value, source):
    """Sets a figure and its source in a device file, whose other lines stay as they are; a new one stands before "sources"."""
    path = ROOT / f"data/hardware/{name}.json"
    text, line = path.read_text(encoding="utf-8"), f'  "{figure}": {text_of(value)}'
    text, found = re.subn(rf'^  "{figure}": (\[\n.*?^  \]|\{{\n.*?^  \}}|.*?)(,?)$', lambda m: line + m.group(2), text, count=1, flags=re.M | re.S)
    if not found:
        text = text.replace('  "sources": {', f'{line},\n  "sources": {{', 1)
    if source:
        text = re.sub(rf'^    "{figure}": ".*\n', "", text, flags=re.M)
        text = text.replace('  "sources": {\n', f'  "sources": {{\n    "{figure}": {json.dumps(source)},\n', 1)
    json.loads(text)
    path.write_text(text, encoding="utf-8")


def obj_of(kind):
    return (KINDS[kind][3] or "").partition(".")[0]


def put_kind(name, kind, device, source):
    obj = obj_of(kind)
    put_figure(name, obj, device[obj], source)
    if name in UNMEASURED_HEADS or kind == "prefill fp8" or any("@" in member for member in KINDS[kind][4]):
        put_figure(name, "attentions", device["attentions"], None)


def fit_gemms(headroom, device, head, lines, path):
    """Those figures of bf16 GEMMs that `headroom calibrate` fits, over the file as it is; returns their names."""
    rows, fitted = path.with_suffix(".csv"), path.with_suffix(".fitted.json")
    rows.write_text("\n".join([head] + lines) + "\n", encoding="utf-8")
    path.write_text(json.dumps(device), encoding="utf-8")
    subprocess.run([headroom, "calibrate", "-q", "--device", str(path), "--from", str(rows), "--write", str(fitted)], check=True,
                   stdout=subprocess.DEVNULL)
    found = json.loads(fitted.read_text(encoding="utf-8"))
    names = [name for name, source in found["sources"].items() if source.startswith("fitted by headroom calibrate") and
             name not in ("intervals", "error_band")]
    device.update({name: found[name] for name in names + ["launch_ns"]})
    path.write_text(json.dumps(device), encoding="utf-8")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headroom")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("devices", nargs="*", default=DEVICES)
    parser.add_argument("--against")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--intervals", action="store_true")
    given = parser.parse_intermixed_args()
    source = f"{FITTED}, {given.folder.name}"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "device.json"
        for name in given.devices:
            if given.intervals:
                put_intervals(given.headroom, name, given.folder)
            print(f"\n| {name} | rows | < 30 µs | ≥ 30 µs | all | before: < 30 µs | ≥ 30 µs | all |\n|---|---|---|---|---|---|---|---|")
            device = load(name)
            for kind in given.kind or KINDS:
                head, parts = rows_of(given.folder, name, kind)
                if not parts[1]:
                    continue
                path.write_text(json.dumps(device), encoding="utf-8")
                if given.fit and server_of(kind):
                    device.setdefault(server_of(kind), {})["version"] = source_of(given.folder, name, server_of(kind)).rpartition("-")[2]
                if given.fit and KINDS[kind][3]:
                    fit(given.headroom, device, kind, head, parts[0], path)
                elif given.fit and given.kind:  # GEMMs only if they are asked for: other rows determine them better on some devices
                    for figure in fit_gemms(given.headroom, device, head, parts[0], path):
                        if given.write:
                            put_figure(name, figure, device[figure], source)
                    if given.write:
                        put_figure(name, "launch_ns", device["launch_ns"], "no longer than gemm_launch_ns, as a GEMM is a kernel")
                if given.write and KINDS[kind][3]:
                    put_kind(name, kind, device, source)
                pairs = predicted(given.headroom, path, kind, head, parts[1])
                old = cells(predicted(given.against, name, kind, head, parts[1])) if given.against else []
                print("|", " | ".join([kind, str(len(pairs)), *cells(pairs), *old]), "|", flush=True)
                if given.fit and KINDS[kind][3]:
                    print("   ", KINDS[kind][3], json.dumps(device[obj_of(kind)]), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
