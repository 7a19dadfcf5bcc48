#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times steps of public models, and the gains of what `headroom advise` finds in them, in layers written by hand
in PyTorch, on a CUDA GPU.

    steps_torch.py --headroom build/release/headroom --output steps.csv

A step is L times a layer and once the final norm and the logits, in bf16 without dropout, at the batch and length of `headroom
describe`. Rows of kind "step" are of the forward pass and of forward and backward, "compiled" (torch.compile, replayed as a CUDA
graph) and "eager" (operator by operator, as the host launches them; host_ns is when it has launched all). Eager steps forward and backward
are L layers of weights of their own in a chain and one backward pass, where that fits the memory. Rows of kind "gain" are the findings of class free
and retrain with severity medium or more, original and changed shape interleaved, compiled; their ratio's median has a 95%
confidence interval. Rows of kind "headline" are the co-design paper's shapes, by the short form, fused and unfused.

torch.compile pads misaligned matrices. Changes of the vocabulary are therefore measured twice: "compiled", and "logits apart", where
only the layers are compiled and the logits are a plain matrix product in the graph.

Several processes compile (--workers) until all are done; then one after the other measures. --seconds ends measuring early; the same
command goes on: rows that the output has are kept.
"""
import argparse
import csv
import datetime
import fcntl
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

COLUMNS = ["kind", "model", "change", "phase", "framework", "attention", "batch", "seq", "step_ns", "low_ns", "high_ns", "layer_ns",
           "logits_ns", "after_ns", "gain", "gain_low", "gain_high", "samples", "host_ns"]
STEPS = ["gpt2", "gpt2-xl", "gpt3-2.7b", "opt-1.3b", "opt-6.7b", "phi-2", "pythia-410m", "pythia-6.9b", "gpt-j-6b", "llama-2-7b",
         "llama-2-13b", "llama-3-8b", "llama-3.2-1b", "llama-3.2-3b", "mistral-7b-v0.3", "qwen2.5-1.5b", "qwen2.5-7b", "qwen3-0.6b",
         "qwen3-8b", "tinyllama-1.1b"]
GAINS = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "opt-125m", "opt-1.3b", "opt-2.7b", "phi-1_5", "phi-2", "pythia-70m",
         "pythia-160m", "pythia-410m", "pythia-2.8b", "qwen2-0.5b", "qwen2.5-1.5b", "qwen3-0.6b", "smollm-135m", "stablelm-2-1_6b",
         "stablelm-3b-4e1t", "tinyllama-1.1b"]
GPT3 = "gpt3-2.7b"
FORMS = ["compiled", "logits apart"]
HEADLINES = [("vocabulary 50304", {"v": 50304}), ("20 heads", {"a": 20}), ("40 heads", {"a": 40}), ("64 heads", {"a": 64}),
             ("20 heads, vocabulary 50304", {"a": 20, "v": 50304})]


# ---- shapes ----

def run(command, *arguments):
    return json.loads(subprocess.run([command, *arguments, "--format", "json"], capture_output=True, text=True, check=True).stdout)


def shape_of(command, model):
    d = run(command, "describe", model)
    m, group, work = d["model"], d["model"]["groups"][0], d["workload"]
    a, mlp = group["attention"], group["dense"]
    return dict(L=m["layers"], h=m["hidden"], v=m["vocabulary"], a=a["q_heads"], kv=a["k_heads"], d=a["qk_dim"], d_ff=mlp["width"],
                gated=mlp["gated"], act=m["activation"], norm=m["norm"], norms=group["norms"], parallel=group["parallel_block"],
                rotary=a["rotary_dim"], qk_norm=a["qk_norm"] == "shared", q_bias=a["q_bias"], o_bias=a["output_bias"],
                mlp_bias=mlp["bias"], b=work["batch"], s=work["sequence"])


def changed(shape, finding):
    """The shape that a finding suggests, or None where this program does not know the rule."""
    after, text = dict(shape), finding["suggested"]
    if finding["rule"] == "parallel_layers":
        return dict(after, parallel=True, norms=1)
    vocabulary = re.match(r"vocabulary (\d+)", text)
    heads = re.match(r"(\d+) heads of (\d+)(?:, (\d+) KV heads?)?$", text)
    if vocabulary:
        return dict(after, v=int(vocabulary[1]))
    if heads:
        return dict(after, a=int(heads[1]), d=int(heads[2]), kv=int(heads[3] or heads[1]))
    return None


def items(command, device, what):
    """Every measurement: its row so far, and the shapes before and after (None: a step)."""
    found = []
    shapes = {model: shape_of(command, model) for model in dict.fromkeys(STEPS + GAINS + [GPT3])}
    for model in STEPS if "step" in what else []:
        for phase, framework in (("forward", "compiled"), ("forward", "eager"), ("train", "compiled"), ("train", "eager")):
            found.append((dict(kind="step", model=model, phase=phase, framework=framework, attention="fused"), shapes[model], None))
    for model in GAINS if "gain" in what else []:
        for finding in run(command, "advise", model, "--device", device, "--only", "free,retrain")["findings"]:
            after = changed(shapes[model], finding) if finding["severity"] in ("medium", "high") else None
            for framework in FORMS[:1 + (after["v"] != shapes[model]["v"])] if after else []:
                found.append((dict(kind="gain", model=model, change=finding["rule"], phase="forward", framework=framework,
                                   attention="fused"), shapes[model], after))
    for name, change in HEADLINES if "headline" in what else []:
        for attention in ("fused", "unfused"):
            after = dict(shapes[GPT3], **change)
            after.update(kv=after["a"], d=after["h"] // after["a"])
            for framework in FORMS[:1 + ("v" in change)]:
                found.append((dict(kind="headline", model=GPT3, change=name, phase="forward", framework=framework,
                                   attention=attention), shapes[GPT3], after))
    return found


# ---- the layer ----

def weight_sizes(c):
    h, q, kv, up = c["h"], c["a"] * c["d"], c["kv"] * c["d"], c["d_ff"]
    none, layer_norm = (0,), c["norm"] == "layer"
    return dict(qkv=(q + 2 * kv, h), qkv_b=(q + 2 * kv,) if c["q_bias"] else none, proj=(h, q), proj_b=(h,) if c["o_bias"] else none,
                up=(up * (2 if c["gated"] else 1), h), up_b=(up * (2 if c["gated"] else 1),) if c["mlp_bias"] else none, down=(h, up),
                down_b=(h,) if c["mlp_bias"] else none, n1=(h,), n1_b=(h,) if layer_norm else none, n2=(h,) if c["norms"] > 1 else none,
                n2_b=(h,) if c["norms"] > 1 and layer_norm else none, qn=(c["d"],) if c["qk_norm"] else none,
                kn=(c["d"],) if c["qk_norm"] else none)


def make_layer(c, attention, torch):
    """A function of x [b, s, h], the cosines and sines, and the weights in the order of weight_sizes()."""
    F, names = torch.nn.functional, list(weight_sizes(c))
    h, a, kv, d, r = c["h"], c["a"], c["kv"], c["d"], c["rotary"]
    act = {"silu": F.silu, "relu": F.relu}.get(c["act"], lambda y: F.gelu(y, approximate="tanh"))

    def rotate(y, cosines, sines):
        if not r:
            return y
        part, rest = y[..., :r], y[..., r:]
        first, second = part[..., :r // 2], part[..., r // 2:]
        turned = part * cosines + torch.cat((-second, first), -1) * sines
        return torch.cat((turned, rest), -1) if rest.shape[-1] else turned

    def unfused(q, k, v):
        scores = torch.matmul(q * (1 / math.sqrt(d)), k.transpose(2, 3))
        return torch.matmul(torch.softmax(scores, -1), v)

    def layer(x, cosines, sines, *weights):
        w = {name: (tensor if tensor.numel() else None) for name, tensor in zip(names, weights)}
        b, s, _ = x.shape
        norm = lambda y, n: (F.rms_norm(y, (h,), w[n]) if c["norm"] == "rms" else F.layer_norm(y, (h,), w[n], w[n + "_b"]))
        y = norm(x, "n1")
        q, k, v = F.linear(y, w["qkv"], w["qkv_b"]).split([a * d, kv * d, kv * d], -1)
        q, k, v = q.view(b, s, a, d), k.view(b, s, kv, d), v.view(b, s, kv, d).transpose(1, 2)
        if c["qk_norm"]:
            q, k = F.rms_norm(q, (d,), w["qn"]), F.rms_norm(k, (d,), w["kn"])
        q, k = (rotate(part.transpose(1, 2), cosines, sines) for part in (q, k))
        out = (F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv != a) if attention == "fused"
               else unfused(q, k, v))
        z = x + F.linear(out.transpose(1, 2).reshape(b, s, a * d), w["proj"], w["proj_b"])
        y = (y if c["norms"] == 1 else norm(x, "n2")) if c["parallel"] else norm(z, "n2")
        up = F.linear(y, w["up"], w["up_b"])
        if c["gated"]:
            gate, up = up.chunk(2, -1)
            up = act(gate) * up
        else:
            up = act(up)
        return z + F.linear(up, w["down"], w["down_b"])

    return layer


CHAIN_BYTES = 100e9  # of weights, their gradients and activations


def chain_bytes(c):
    """About what a chain of all layers keeps for its backward pass."""
    weights = sum(math.prod(size) for size in weight_sizes(c).values())
    kept = 12 * c["h"] + 4 * (c["a"] + 2 * c["kv"]) * c["d"] + (5 if c["gated"] else 3) * c["d_ff"]
    return 2 * c["L"] * (2 * weights + c["b"] * c["s"] * kept) + 8 * c["b"] * c["s"] * c["v"]


class Step:
    """The layer and the logits of a shape. Tensors are made by open() and released by close()."""

    def __init__(self, c, attention, phase, framework, torch):
        self.c, self.torch, self.train, self.compiled = c, torch, phase == "train", framework in FORMS
        F = torch.nn.functional
        norm = lambda x, n: F.rms_norm(x, (c["h"],), n) if c["norm"] == "rms" else F.layer_norm(x, (c["h"],), n, n)
        self.chained = self.train and framework == "eager" and chain_bytes(c) < CHAIN_BYTES
        self.hosts = []
        self.layer, self.head = make_layer(c, attention, torch), lambda x, n, table: F.linear(norm(x, n), table)
        if self.compiled:
            self.layer = torch.compile(self.layer, dynamic=False)
        if framework == "compiled":
            self.head = torch.compile(self.head, dynamic=False)

    def open(self):
        torch, c = self.torch, self.c
        uniform = lambda size, k=1: (torch.empty(size, device=DEVICE, dtype=torch.bfloat16).uniform_(-1, 1) / math.sqrt(k)
                                     ).detach().requires_grad_(self.train)
        self.x = uniform((c["b"], c["s"], c["h"]))
        self.turns = [torch.empty(c["s"], max(2, c["rotary"]), device=DEVICE, dtype=torch.bfloat16).uniform_(-1, 1) for _ in range(2)]
        self.sets = [[uniform(size, size[1] if len(size) == 2 else 1) for size in weight_sizes(c).values()]
                     for _ in range(c["L"] if self.chained else 2)]
        self.n, self.table = uniform((c["h"],)), uniform((c["v"], c["h"]), c["h"])
        self.dy, self.dlogits = (torch.ones(c["b"], c["s"], c[n], device=DEVICE, dtype=torch.bfloat16) if self.train else None
                                 for n in ("h", "v"))

    def close(self):
        for name in ("x", "turns", "sets", "n", "table", "dy", "dlogits", "graphs"):
            self.__dict__.pop(name, None)
        if DEVICE == "cuda":
            self.torch.cuda.empty_cache()

    def run_layer(self, number):
        weights = self.sets[number % len(self.sets)]
        out = self.layer(self.x, *self.turns, *weights)
        return self.torch.autograd.grad(out, [self.x] + [w for w in weights if w.numel()], self.dy) if self.train else out

    def run_head(self):
        out = self.head(self.x, self.n, self.table)
        return self.torch.autograd.grad(out, [self.x, self.n, self.table], self.dlogits) if self.train else out

    def run_chain(self):
        x, weights = self.x, []
        for one in self.sets:
            x = self.layer(x, *self.turns, *one)
            weights += [w for w in one if w.numel()]
        return self.torch.autograd.grad(self.head(x, self.n, self.table), weights + [self.n, self.table], self.dlogits)

    def warm(self):
        with self.torch.set_grad_enabled(self.train):
            if self.chained:
                self.run_chain()
            for number in range(2):
                self.run_layer(number), self.run_head()
        synchronize(self.torch)

    def capture(self):
        """Graphs of some layers and of the logits."""
        graphs = []
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            self.warm()
        self.torch.cuda.current_stream().wait_stream(side)
        for call, count in ((self.run_layer, 2 if self.train else 4), (lambda _: self.run_head(), 1)):
            graph = self.torch.cuda.CUDAGraph()
            with self.torch.set_grad_enabled(self.train), self.torch.cuda.graph(graph):
                for number in range(count):
                    call(number)
            graphs.append((graph.replay, count))
        self.graphs = graphs

    def time(self):
        """(ns of a layer, ns of the logits); eager: of all layers and the logits, by the host's clock."""
        if self.compiled and DEVICE == "cuda":
            return [timed(replay, self.torch) / count for replay, count in self.graphs]
        synchronize(self.torch)
        start = time.perf_counter()
        with self.torch.set_grad_enabled(self.train):
            if self.chained:
                self.run_chain()
            else:
                for number in range(self.c["L"]):
                    self.run_layer(number)
                self.run_head()
        self.hosts.append((time.perf_counter() - start) * 1e9)
        synchronize(self.torch)
        return [(time.perf_counter() - start) * 1e9 / self.c["L"], 0]

    def step_ns(self):
        layer, head = self.time()
        return layer * self.c["L"] + head, layer, head


DEVICE = "cuda"


def synchronize(torch):
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(call, torch):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e6


# ---- measuring ----

def median_interval(values):
    ordered, n = sorted(values), len(values)
    half = 0.98 * math.sqrt(n)
    return ordered[max(0, int(n / 2 - half))], ordered[n // 2], ordered[min(n - 1, int(n / 2 + half))]


def measure(row, steps, samples):
    for step in steps:
        step.open()
        if step.compiled and DEVICE == "cuda":
            step.capture()
        else:
            step.warm()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.25:  # until the clock has settled for this load
        for step in steps:
            step.time()
    for step in steps:
        step.hosts = []
    times = [[step.step_ns() for step in steps] for _ in range(samples)]
    if steps[0].hosts:
        row["host_ns"] = f"{median_interval(steps[0].hosts)[1]:.0f}"
    for step in steps:
        step.close()
    low, middle, high = median_interval([t[0][0] for t in times])
    c = steps[0].c
    row.update(batch=c["b"], seq=c["s"], step_ns=f"{middle:.0f}", low_ns=f"{low:.0f}", high_ns=f"{high:.0f}", samples=samples,
               layer_ns=f"{median_interval([t[0][1] for t in times])[1]:.0f}",
               logits_ns=f"{median_interval([t[0][2] for t in times])[1]:.0f}")
    if len(steps) > 1:
        low, middle, high = median_interval([t[0][0] / t[1][0] - 1 for t in times])
        row.update(after_ns=f"{median_interval([t[1][0] for t in times])[1]:.0f}", gain=f"{middle:.4f}", gain_low=f"{low:.4f}",
                   gain_high=f"{high:.4f}")


def compile_share(work, torch):
    """The steps of this worker, compiled; the same layer is compiled once."""
    known, share = {}, []
    for row, before, after in work:
        steps = []
        for shape in (before, after) if after else (before,):
            key = json.dumps([shape, row["attention"], row["phase"], row["framework"]])
            if key not in known:
                known[key] = Step(shape, row["attention"], row["phase"], row["framework"], torch)
                known[key].open()
                try:
                    known[key].warm()
                except Exception as failure:  # the other shapes are still measured
                    known[key].failed = failure
                finally:
                    known[key].close()
            steps.append(known[key])
        share.append((row, steps))
    return share


def worker(arguments, out):
    import torch
    torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 10000
    torch._dynamo.config.accumulated_recompile_limit = 10000
    index, folder, end = arguments.worker, arguments.folder, arguments.end
    models = list(dict.fromkeys(row["model"] for row, _, _ in arguments.items))
    mine = [item for item in arguments.items if models.index(item[0]["model"]) % arguments.workers == index]
    share = compile_share(mine, torch)
    open(os.path.join(folder, f"compiled-{index}"), "w").close()
    while sum(name.startswith("compiled-") for name in os.listdir(folder)) < arguments.workers and time.time() < end:
        time.sleep(0.1)
    writer, failures = csv.DictWriter(out, COLUMNS, lineterminator="\n"), 0
    with open(os.path.join(folder, "lock"), "w") as lock:
        for row, steps in share:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if time.time() < end:
                try:
                    for step in steps:
                        if hasattr(step, "failed"):
                            raise step.failed
                    measure(row, steps, arguments.samples)
                except Exception as failure:
                    failures += 1
                    print("failed:", row, str(failure)[:300], file=sys.stderr, flush=True)
                    for step in steps:
                        step.close()
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    continue
                writer.writerow(row)
                out.flush()
                print(*(row.get(name, "") for name in ("kind", "model", "change", "phase", "framework", "attention", "step_ns", "gain")),
                      file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_UN)
    return failures


def key_of(row):
    return tuple(row.get(name) or "" for name in ("kind", "model", "change", "phase", "framework", "attention"))


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def head_line(torch):
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True, capture_output=True,
                            check=True).stdout.strip().splitlines()[0] if DEVICE == "cuda" else "none"
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    return (f"# {name}, driver {driver}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, {datetime.date.today()}; "
            f"one layer and the logits, bench/steps_torch.py\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headroom", required=True, help="the command")
    parser.add_argument("--output", default="steps.csv")
    parser.add_argument("--device", default="h200", help="whose findings are measured; default h200")
    parser.add_argument("--what", default="gain,headline,step", help="kinds of rows; default gain,headline,step")
    parser.add_argument("--models", help="these alone, separated by commas")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--cpu", action="store_true", help="try the program on a CPU, with tiny shapes")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    global DEVICE
    DEVICE = "cpu" if arguments.cpu else "cuda"
    if arguments.worker is not None:
        arguments.items = json.load(open(os.path.join(arguments.folder, "items.json")))
        with open(os.path.join(arguments.folder, f"rows-{arguments.worker}.csv"), "w", newline="") as out:
            sys.exit(worker(arguments, out) > 0)
    listed = items(arguments.headroom, arguments.device, arguments.what.split(","))
    kept = read_rows(arguments.output)
    done = {key_of(row) for row in kept}
    listed = [item for item in listed if key_of(item[0]) not in done
              and (not arguments.models or item[0]["model"] in arguments.models.split(","))]
    if arguments.cpu:
        for _, *shapes in listed:
            for shape in filter(None, shapes):
                shape.update(L=2, b=1, s=16, v=shape["v"] // 100)
    with tempfile.TemporaryDirectory() as folder:
        json.dump(listed, open(os.path.join(folder, "items.json"), "w"))
        passed = ["--headroom", arguments.headroom, "--folder", folder, "--end", str(time.time() + arguments.seconds), "--workers",
                  str(arguments.workers), "--samples", str(arguments.samples)] + ["--cpu"] * arguments.cpu
        children = [subprocess.Popen([sys.executable, __file__, *passed, "--worker", str(i)]) for i in range(arguments.workers)]
        failed = any([child.wait() for child in children])
        import torch
        with open(arguments.output, "w", newline="") as out:
            out.write(head_line(torch) + ",".join(COLUMNS) + "\n")
            csv.DictWriter(out, COLUMNS, lineterminator="\n").writerows(kept)
            for i in range(arguments.workers):
                out.write(open(os.path.join(folder, f"rows-{i}.csv")).read())
    sys.exit("steps_torch.py: a worker failed" if failed else 0)


if __name__ == "__main__":
    main()
