#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole training steps of models: forward, backward and AdamW, by Headroom's executor and by transformers, eager
and compiled, with PyTorch's fused AdamW.

    train_vs_transformers.py [--models NAME,…] [--tokens N] [--batch N] [--device cpu|cuda] [--dtype bf16|fp32]
                             [--threads N] [--rounds N] [--layers N] [--csv FILE]

Random weights for the configurations of data/models, the same for all. In bf16 Headroom keeps an fp32 copy of its
weights; transformers has fp32 weights and torch.autocast, and beside it bf16 weights without a copy, which take less
memory and lose small steps. Attention is sdpa, without dropout. Steps are interleaved as in step_vs_peers.py. Printed: the
median time, the ratio of a peer's time over Headroom's with its interval, and the loss of the first step. A peer whose
loss is another one is left out. HEADROOM_LIBRARY_FOLDER names the folder of the libraries. docs/step.md has the
results."""
import argparse
import contextlib
import pathlib
import statistics
import tempfile

import numpy
import step_vs_peers
import torch
from gemm_vs_torch import median_interval
from step_vs_peers import headroom

RATE = 1e-4
NEAR = 0.02  # of a loss


class Headroom:
    name = "headroom"

    def __init__(self, folder, ids, options):
        self.ids = numpy.ascontiguousarray(ids.cpu().numpy(), numpy.int32)
        self.model = headroom.Model(folder, device=options.device, dtype=options.dtype, tokens=self.ids.shape[1],
                                    threads=options.threads, trains=True, learning_rate=RATE)

    def before(self):
        """Steps follow each other."""

    def run(self):
        return float(self.model.train(self.ids)[:, :-1].mean())

    def wait(self):
        """A step is over when the call returns."""


class Transformers:
    def __init__(self, model, ids, options, compiled, narrow):
        self.name = f"transformers {'compiled' if compiled else 'eager'}{', bf16 weights' if narrow else ''}"
        self.ids, self.device = ids, options.device
        self.model = model.to(torch.bfloat16 if narrow else torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, weight_decay=0, fused=True)
        self.forward = torch.compile(self.loss) if compiled else self.loss
        casts = options.dtype == "bf16" and not narrow
        self.casting = (lambda: torch.autocast(options.device, torch.bfloat16)) if casts else contextlib.nullcontext

    def loss(self, ids):
        return self.model(input_ids=ids, labels=ids, use_cache=False).loss

    def before(self):
        """Steps follow each other."""

    def run(self):
        with self.casting():
            loss = self.forward(self.ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def wait(self):
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def makers(name, folder, ids, options):
    def transformers(compiled, narrow):
        return lambda: Transformers(step_vs_peers.model_of(name, options), ids, options, compiled, narrow)
    yield lambda: Headroom(folder, ids, options)
    for narrow in (False, True) if options.dtype == "bf16" else (False,):
        for compiled in (False, True):
            yield transformers(compiled, narrow)


def right_ones(contenders):
    """Those that run, with the loss of their first step, which is that of the first contender."""
    right = []
    for each in contenders:
        try:
            loss = float(each.run())
        except Exception as why:  # torch.compile does not build every backward pass
            print(f"{each.name} is left out: {type(why).__name__}", flush=True)
            continue
        if right and abs(loss - right[0][1]) > NEAR * right[0][1]:
            print(f"{each.name} is left out: its loss is {loss:.4f}, not {right[0][1]:.4f}", flush=True)
        else:
            right.append((each, loss))
    return right


def compare(name, options):
    ids = torch.randint(3, 1000, (options.batch, options.tokens), device=options.device)
    with tempfile.TemporaryDirectory() as folder:
        step_vs_peers.model_of(name, options).save_pretrained(folder)
        contenders = [make() for make in makers(name, folder, ids, options)]
    right = right_ones(contenders)
    rounds = [[step_vs_peers.turn(each) for each, _ in right] for _ in range(options.rounds + 1)][1:]
    for at, (each, loss) in enumerate(right):
        low, ratio, high = median_interval([times[at] / times[0] for times in rounds])
        ms = statistics.median(times[at] for times in rounds)
        step_vs_peers.report((pathlib.Path(name).name.removesuffix(".json"), "train", *ids.shape, options.dtype, each.name,
                              f"{ms:.3f}", f"{ratio:.3f}", f"{low:.3f}", f"{high:.3f}", f"{loss:.4f}", len(rounds)),
                             options)
    torch.compiler.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="pythia-160m,smollm-135m")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    options.threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(options.threads)
    columns = ["loss" if name == "difference" else name for name in step_vs_peers.COLUMNS[:step_vs_peers.SHOWN]]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in options.models.split(","):
        compare(name, options)


if __name__ == "__main__":
    main()
