#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGMA's ablations (arXiv 2501.13629, tables 1 to 6) in small: what do fewer K heads, fewer V heads, smaller K heads,
augmented Q and selective V cost or gain in the loss of a decoder model on held-out text?

    diffqkv_text.py --out tokens.npz
    diffqkv_ablation.py tokens.npz [VARIANT ...] [--size 30m] [--seeds 3] [--first-seed 0] [--seconds 600 | --tokens N]
                        [--csv ROWS.csv]

Variants of one seed begin with the same values of the weights that they share, and see the same text in the same order.
A process per variant compiles; then they train in turn, all with the first seed, then with the next, ... On a GPU a step is one
CUDA graph in bf16. Rows are written as soon as they are measured."""
import argparse
import csv
import datetime
import math
import multiprocessing
import os
import pathlib
import queue
import statistics
import sys
import time
import traceback

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # each variant has its process already
import numpy as np
import torch

from diffqkv_model import (SELECTED, SELECTED_KEYS, SIZES, VARIANTS, Decoder, base_of, headroom_attention, paper_change,
                           selected_attention, torch_attention)

DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
WARM_STEPS, TIMED_STEPS = 3, 10
COLUMNS = ("date", "device", "size", "variant", "base", "q_heads", "k_heads", "v_heads", "k_dim", "v_dim", "parameters",
           "attention", "length", "batch", "tokens", "seed", "top_k", "loss", "bytes_per_token", "tokens_per_s", "paper_change")


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def choose_attention(asked, variant, size):
    """The attention to train with, and its name: PyTorch's where Headroom has no gradient here."""
    if asked == "torch":
        return torch_attention, "torch"
    heads = [int(size.heads * share) for share in (1, variant.k_heads, variant.v_heads)]
    dims = [int(size.head_size * share) for share in (variant.k_size, variant.k_size, 1)]
    try:
        q, k, v = (torch.ones(1, 16, *shape, device=DEVICE, dtype=DTYPE, requires_grad=True) for shape in zip(heads, dims))
        headroom_attention(q, k, v).sum().backward()
        return headroom_attention, "headroom"
    except Exception as error:
        if asked == "headroom":
            raise
        return torch_attention, f"torch, because headroom says: {str(error).splitlines()[0] if str(error) else repr(error)}"


class Training:
    """A model whose step reads its text and its rate by the number of the step, a tensor, so that a graph repeats it."""

    def __init__(self, name, a):
        self.a, self.name, self.variant, self.size = a, name, VARIANTS[name], SIZES[a.size]
        data = np.load(a.tokens_file)
        self.bytes_per_token = float(data["bytes_per_token"])
        self.text = torch.from_numpy(data["train"].astype(np.int64)).to(DEVICE)
        held = torch.from_numpy(data["held"].astype(np.int64)).to(DEVICE)
        held = held[:len(held) // (a.length + 1) * (a.length + 1)].view(-1, a.length + 1)
        self.held = held[torch.randperm(len(held), generator=torch.Generator().manual_seed(0))[:a.held].to(DEVICE)]
        attend, self.attention = choose_attention(a.attention, self.variant, self.size)
        self.model = Decoder(self.variant, self.size, int(data["vocabulary"]), a.length, DTYPE, attend).to(DEVICE)
        if a.compile:
            self.model.compile_parts()
        rate = torch.tensor(a.rate, device=DEVICE)
        decayed, others = ([x for x in self.model.parameters() if (x.dim() > 1) == many] for many in (True, False))
        self.optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
                                           lr=rate, betas=(0.9, 0.95), fused=True, capturable=DEVICE == "cuda")
        self.at = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        self.columns = torch.arange(a.length + 1, device=DEVICE)
        self.most = len(self.text) // (a.length * a.batch)  # steps of one pass over the text
        self.firsts = torch.zeros(self.most, a.batch, dtype=torch.int64, device=DEVICE)
        self.rates = torch.zeros(self.most, device=DEVICE)
        self.reset(0, self.most)
        self.repeat = self.graph() if DEVICE == "cuda" else self.step
        self.reset(0, self.most)

    def reset(self, seed, steps):
        """Begins a training of so many steps."""
        self.model.initialize(seed)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        self.at.zero_()
        places = torch.randperm(self.most * self.a.batch, generator=torch.Generator().manual_seed(seed))
        self.firsts.copy_((places * self.a.length).clamp(max=len(self.text) - self.a.length - 1).view(self.most, -1))
        done = torch.arange(self.most) / steps  # the rate rises over a twentieth of the steps, then falls to 0 linearly
        self.rates.copy_(self.a.rate * torch.minimum(20 * done + 0.01, 1 - done).clamp(min=0))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        rows = self.text[self.firsts.index_select(0, self.at).view(-1, 1) + self.columns]
        self.model(rows).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"].copy_(self.rates.index_select(0, self.at)[0])
        self.optimizer.step()
        self.at += 1

    def graph(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_STEPS):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def seconds(self, steps):
        synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            self.repeat()
        synchronize()
        return time.perf_counter() - begin

    def seconds_of_step(self):
        self.seconds(WARM_STEPS)
        return self.seconds(TIMED_STEPS) / TIMED_STEPS

    def rows(self, seed, steps):
        """Trains, then yields the rows: with all keys, and where the paper has it with the V of some."""
        self.reset(seed, steps)
        taken = self.seconds(steps)
        tokens = steps * self.a.batch * self.a.length
        yield self.row(seed, tokens, 0, self.model.evaluate(self.held), tokens / taken)
        if self.name in SELECTED:
            few = self.held[:self.a.selected]
            for top_k in (self.a.length, *self.a.top_k):
                yield self.row(seed, tokens, top_k, self.model.evaluate(few, selected_attention(top_k), rows=4), "")

    def row(self, seed, tokens, top_k, loss, rate):
        block, compared = self.model.blocks[0], f"{self.name}-selected-v" if top_k else self.name
        paper = f"{paper_change(compared):.2f}" if base_of(self.name) != compared and top_k in (0, SELECTED_KEYS) else ""
        values = (datetime.date.today().isoformat(), torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU", self.a.size,
                  self.name, base_of(compared), *block.heads, block.k_size, self.size.head_size,
                  sum(x.numel() for x in self.model.parameters()), self.attention.split(",")[0], self.a.length, self.a.batch,
                  tokens, seed, top_k, f"{loss:.5f}", f"{self.bytes_per_token:.4f}", rate and f"{rate:.0f}", paper)
        return dict(zip(COLUMNS, values))


# ---- a process per variant ----


class Turns:
    """Processes do their work in turn, so that none disturbs another's time. Each turn of each process is used once."""

    def __init__(self, context, processes):
        self.now, self.changed, self.processes = context.Value("q", 0), context.Condition(), processes

    def take(self, process, turn, work):
        mine = turn * self.processes + process
        with self.changed:
            self.changed.wait_for(lambda: self.now.value == mine)
        try:
            return work()
        finally:
            with self.changed:
                self.now.value = mine + 1
                self.changed.notify_all()


def steps_of(a, begin, step_seconds, most):
    """As asked by tokens, or as many as there is time for: a tenth of it stays for losses."""
    steps = a.tokens // (a.length * a.batch) if a.tokens else 0.9 * (a.seconds - (time.time() - begin)) / (a.seeds * sum(step_seconds))
    return int(min(max(steps, 1), most))


def work(process, a, begin, turns, step_seconds, steps, rows):
    """One variant. What fails in it does not hold up others."""
    failed = False

    def attempt(function):
        nonlocal failed
        try:
            if not failed:
                function()
        except Exception:
            failed = True
            print(f"{a.variants[process]}:", file=sys.stderr)
            traceback.print_exc()

    training = []
    attempt(lambda: training.append(Training(a.variants[process], a)))

    def measure():
        print(f"{training[0].name:22} attention: {training[0].attention}", flush=True)
        step_seconds[process] = training[0].seconds_of_step()

    def train(seed):
        if steps.value == 0:  # by the first to train: all have been measured
            steps.value = steps_of(a, begin, step_seconds, training[0].most)
        for row in training[0].rows(seed, steps.value):
            rows.put(row)

    turns.take(process, 0, lambda: None)  # all have compiled then
    turns.take(process, 1, lambda: attempt(measure))
    for turn in range(a.seeds):
        turns.take(process, 2 + turn, lambda: attempt(lambda: train(a.first_seed + turn)))
    rows.put(None)
    sys.exit(failed)


def run(a):
    """The rows of all processes, in the order in which they are measured. a.failed becomes the variants that failed."""
    context = multiprocessing.get_context("spawn")
    turns, rows = Turns(context, len(a.variants)), context.Queue()
    shared = context.Array("d", len(a.variants)), context.Value("q", 0)
    processes = [context.Process(target=work, args=(i, a, time.time(), turns, *shared, rows), daemon=True)
                 for i in range(len(a.variants))]
    for process in processes:
        process.start()
    running = len(processes)
    while running:
        try:
            row = rows.get(timeout=5)
        except queue.Empty:
            if any((process.exitcode or 0) < 0 for process in processes):  # killed: nobody takes its turns
                sys.exit("diffqkv_ablation.py: a variant's process was killed; was there memory for all?")
            continue
        running -= row is None
        if row is not None:
            yield row
    for process in processes:
        process.join()
    a.failed = [name for name, process in zip(a.variants, processes) if process.exitcode]


# ---- results ----


def spread(values, sign=""):
    """The mean and the deviation."""
    if not values:
        return ""
    return f"{statistics.fmean(values):{sign}.4f} ± {statistics.stdev(values) if len(values) > 1 else math.nan:.4f}"


def report(rows):
    """Losses, their differences from the base of the same seed with the deviation over seeds, and the paper's."""
    groups = {}
    for row in rows:
        groups.setdefault((row["variant"], row["top_k"]), []).append(row)
    print(f"\n{'variant':30} {'loss':>17}  {'from':6} {'difference':>17}  {'paper':>5}  tokens/s")
    for (name, top_k), found in groups.items():
        first = found[0]
        base = groups.get((first["base"], first["length"] if top_k else 0), [])
        bases, losses = ({row["seed"]: float(row["loss"]) for row in some} for some in (base, found))
        differences = [] if found is base else [loss - bases[seed] for seed, loss in losses.items() if seed in bases]
        rate = "" if top_k else f"{statistics.fmean(float(row['tokens_per_s']) for row in found):,.0f}"
        print(f"{name + (f', V of {top_k}' if top_k else ''):30} {spread(list(losses.values())):>17}  {first['base']:6} "
              f"{spread(differences, '+'):>17}  {first['paper_change']:>5}  {rate}")
    print("Losses are in nats a token: less is better. The paper's differences are percentage points of benchmarks: more is.")


def options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens_file", metavar="tokens.npz")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"default: all: {', '.join(VARIANTS)}")
    parser.add_argument("--size", choices=SIZES, default="30m")
    parser.add_argument("--attention", choices=("auto", "headroom", "torch"), default="auto",
                        help="default auto: Headroom's where it has gradients, else PyTorch's")
    for name, default in (("seeds", 3), ("tokens", 0), ("length", 512), ("batch", 16), ("held", 512), ("selected", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--first-seed", type=int, default=0, help="so that several GPUs share the seeds")
    parser.add_argument("--seconds", type=float, default=600, help="of the whole program; without --tokens")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--top-k", type=int, nargs="*", default=[16, 32, 64, 100], help="of selective V")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--csv", default="diffqkv_ablation.csv")
    a = parser.parse_args(arguments)
    a.variants = a.variants or list(VARIANTS)
    for name in a.variants:
        if name not in VARIANTS:
            parser.error(f"{name}: no variant, expected {', '.join(VARIANTS)}")
    for name in ("seeds", "length", "batch", "held", "selected"):
        if getattr(a, name) < 1:
            parser.error(f"--{name} {getattr(a, name)}: expected 1 or more")
    if not pathlib.Path(a.tokens_file).is_file():
        parser.error(f"{a.tokens_file}: no such file; diffqkv_text.py makes one")
    return a


def main():
    a, rows = options(), []
    with open(a.csv, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in run(a):
            rows.append(row)
            writer.writerow(row)
            file.flush()
    report(rows)
    if a.failed:
        sys.exit(f"diffqkv_ablation.py: failed: {', '.join(a.failed)}")


if __name__ == "__main__":
    main()
