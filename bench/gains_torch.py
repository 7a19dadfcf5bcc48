#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the gains of shape changes for a whole forward step on a CUDA GPU, to compare predicted gains with.

    gains_torch.py --output gains.csv            on the machine with the GPU: needs PyTorch only
    gains_torch.py --compiled --output FILE      the same with layers by torch.compile
    gains_torch.py --compare gains.csv HEADROOM  anywhere: the same pairs as predicted by `headroom advise`

A pair is an original and a changed shape. Both run in one process, interleaved (A B A B); the ratio is computed
per pair, and its median is reported with a 95% confidence interval. A step is L times a layer and once the logits, written as
Megatron-LM and GPT-NeoX lay it out ([s, b, h], strided batched GEMMs, one QKV GEMM), in bf16 without dropout. Both forms are
replayed as CUDA graphs; --compare predicts the step of --framework compiled.
"""
import argparse
import csv
import datetime
import json
import math
import subprocess
import sys
import time

COLUMNS = ["name", "before", "after", "attention", "before_ns", "after_ns", "gain", "gain_low", "gain_high", "pairs"]

GPT3 = {"h": 2560, "a": 32, "L": 32, "v": 50257, "s": 2048, "b": 4}
LLAMA = {"h": 4096, "a": 32, "L": 32, "v": 32000, "s": 2048, "b": 4, "mlp": "swiglu", "d_ff": 11008}
LLAMA3 = {"h": 4096, "a": 32, "L": 32, "v": 128257, "s": 2048, "b": 4, "mlp": "swiglu", "d_ff": 14336, "kv_heads": 8}
SMALL = {"h": 1024, "a": 16, "L": 24, "v": 50304, "s": 2048, "b": 4}
PAIRS = [
    ("vocabulary 50257 to 50304", GPT3, {"v": 50304}),
    ("vocabulary 128257 to 128320", LLAMA3, {"v": 128320}),
    ("32 heads to 20", GPT3, {"a": 20}),
    ("32 heads to 40", GPT3, {"a": 40}),
    ("32 heads to 64", GPT3, {"a": 64}),
    ("20 heads and vocabulary 50304", GPT3, {"a": 20, "v": 50304}),
    ("hidden 2560 to 2568", GPT3, {"h": 2568, "a": 24, "d_ff": 10240}),
    ("MLP 11008 to 10922", LLAMA, {"d_ff": 10922}),
    ("MLP 11008 to 10944", LLAMA, {"d_ff": 10944}),
    ("MLP 11008 to 11264", LLAMA, {"d_ff": 11264}),
    ("32 KV heads to 8", LLAMA, {"kv_heads": 8}),
    ("16 heads to 8", SMALL, {"a": 8}),
    ("batch 1 to 4", dict(SMALL, b=1), {"b": 4}),
]


def full(shape):
    shape = dict({"mlp": "gelu", "t": 1}, **shape)
    shape.setdefault("kv_heads", shape["a"])
    shape.setdefault("d_ff", 4 * shape["h"])
    return shape


def step_parts(shape, attention, torch, compiled=False):
    """Returns (run a layer, run the logits) on fresh uniform data; weights rotate among enough sets to be cold."""
    F = torch.nn.functional
    h, a, kv, s, b, d_ff = (shape[key] for key in ("h", "a", "kv_heads", "s", "b", "d_ff"))
    d, gated = h // a, shape["mlp"] == "swiglu"
    uniform = lambda *size: torch.empty(*size, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)
    weight = lambda n, k: uniform(n, k) / math.sqrt(k)
    q_n, kv_n = a * d, kv * d
    weights = lambda: dict(qkv=weight(q_n + 2 * kv_n, h), proj=weight(h, q_n), up=weight(d_ff, h),
                           gate=weight(d_ff, h) if gated else None, down=weight(h, d_ff), norm=uniform(h))
    sets = [weights() for _ in range(4)]
    x = uniform(s, b, h)

    def attend(q, k, v):
        if attention == "fused":
            heads = lambda y, n: y.view(s, b, n, d).permute(1, 2, 0, 3)
            out = F.scaled_dot_product_attention(heads(q, a), heads(k, kv), heads(v, kv), is_causal=True,
                                                 enable_gqa=kv != a)
            return out.permute(2, 0, 1, 3).reshape(s, b, q_n)
        if kv != a:
            k, v = (y.view(s, b, kv, d).repeat_interleave(a // kv, 2) for y in (k, v))
        q, k, v = (y.reshape(s, b * a, d).transpose(0, 1) for y in (q, k, v))
        scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(d))
        return torch.bmm(torch.softmax(scores, -1), v).transpose(0, 1).reshape(s, b, q_n)

    def layer(w):
        y = F.layer_norm(x, (h,), w["norm"], w["norm"])
        q, k, v = F.linear(y, w["qkv"]).split([q_n, kv_n, kv_n], -1)
        z = x + F.linear(attend(q, k, v), w["proj"])
        y = F.layer_norm(z, (h,), w["norm"], w["norm"])
        up = F.linear(y, w["up"])
        up = F.silu(F.linear(y, w["gate"])) * up if gated else F.gelu(up)
        return z + F.linear(up, w["down"])

    table = weight(shape["v"], h)
    block = torch.compile(layer, dynamic=False) if compiled else layer
    return lambda number: block(sets[number % len(sets)]), lambda number: F.linear(x, table)


def graph(run, count, torch):
    run(0)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for number in range(count):
            run(number)
    return captured


def timer(shape, attention, torch, compiled):
    """A function that times one step in ns: L layers (four captured at a time) and the logits."""
    layer, logits = step_parts(shape, attention, torch, compiled)
    layers, output = graph(layer, 4, torch), graph(logits, 1, torch)

    def once(captured):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        captured.replay()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e6

    def step():
        return once(layers) * shape["L"] / 4 + once(output)

    step.alive = layer, logits  # a graph does not keep the tensors that it was captured with
    return step


def median_interval(values):
    ordered, n = sorted(values), len(values)
    half = 0.98 * math.sqrt(n)
    return ordered[max(0, int(n / 2 - half))], ordered[n // 2], ordered[min(n - 1, int(n / 2 + half))]


def measure(arguments):
    import torch
    if not torch.cuda.is_available():
        sys.exit("gains_torch.py: no CUDA GPU here")
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True,
                            capture_output=True, check=True).stdout.strip().splitlines()[0]
    out = open(arguments.output, "w", newline="")
    out.write(f"# {torch.cuda.get_device_name()}, driver {driver}, CUDA {torch.version.cuda}, PyTorch "
              f"{torch.__version__}, {datetime.date.today()}; forward step, {'torch.compile, ' if arguments.compiled else ''}"
              f"interleaved pairs, bench/gains_torch.py\n")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name, base, change in PAIRS:
        for attention in ("unfused", "fused"):
            before, after = full(base), full(dict(base, **change))
            time_a, time_b = (timer(shape, attention, torch, arguments.compiled) for shape in (before, after))
            begin = time.monotonic()
            while time.monotonic() - begin < 0.5:  # until the clock has settled for this load
                time_a(), time_b()
            per_token = before["b"] * before["s"] / (after["b"] * after["s"])
            a, b = [], []
            for _ in range(arguments.pairs):
                a.append(time_a())
                b.append(time_b())
            low, ratio, high = median_interval([x / (y * per_token) for x, y in zip(a, b)])
            writer.writerow(dict(name=name, before=json.dumps(before), after=json.dumps(after), attention=attention,
                                 before_ns=f"{median_interval(a)[1]:.0f}", after_ns=f"{median_interval(b)[1]:.0f}",
                                 gain=f"{ratio - 1:.4f}", gain_low=f"{low - 1:.4f}", gain_high=f"{high - 1:.4f}",
                                 pairs=arguments.pairs))
            out.flush()
            print(f"{name}, {attention}: {ratio - 1:+.3f}", file=sys.stderr)
            torch.cuda.empty_cache()


def predicted(command, shape, attention, device):
    done = subprocess.run([command, "advise", "--device", device, "--attention", attention, "--format", "json", shape],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["step_time_ns"]


def compare(arguments):
    path, command = arguments.compare
    rows = list(csv.DictReader(line for line in open(path) if not line.startswith("#")))
    print("| change | attention | measured gain | predicted gain | step measured, ms | predicted, ms |")
    print("|---|---|---|---|---|---|")
    time_errors, gain_errors = [], []
    for row in rows:
        before, after = json.loads(row["before"]), json.loads(row["after"])
        a = predicted(command, row["before"], row["attention"], arguments.device)
        b = predicted(command, row["after"], row["attention"], arguments.device)
        gain = a / b * (after["b"] * after["s"]) / (before["b"] * before["s"]) - 1
        measured, measured_ns = float(row["gain"]), float(row["before_ns"])
        time_errors += [abs(math.log(a / measured_ns)), abs(math.log(b / float(row["after_ns"])))]
        gain_errors.append(abs(gain - measured))
        print(f"| {row['name']} | {row['attention']} | {measured:+.1%} | {gain:+.1%} | {measured_ns / 1e6:.1f} | {a / 1e6:.1f} |")
    print(f"\nstep times off by {math.exp(sum(time_errors) / len(time_errors)) - 1:.1%} in the geometric mean, "
          f"gains by {sum(gain_errors) / len(gain_errors):.1%} of the step's time in the mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="gains.csv")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--compiled", action="store_true", help="layers by torch.compile")
    parser.add_argument("--compare", nargs=2, metavar=("CSV", "HEADROOM"))
    parser.add_argument("--device", default="h200")
    arguments = parser.parse_args()
    compare(arguments) if arguments.compare else measure(arguments)


if __name__ == "__main__":
    main()
