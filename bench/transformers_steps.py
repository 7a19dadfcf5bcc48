#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole steps of models of transformers with attn_implementation="headroom" and "sdpa".

    transformers_steps.py [--train] [--models NAME:BATCH:LENGTH,…] [--device cuda|cpu] [--dtype bf16|fp32] [--rounds N]
                          [--modes compiled,graph,eager] [--layers N] [--hold] [--csv FILE]

Random weights for the configurations in data/models; both models share them, in one process, and steps are interleaved.
"eager": as Python launches it; "graph": the same, captured as a CUDA graph; "compiled": by
torch.compile(fullgraph=True), on a GPU captured, too. The ratio, sdpa's time over Headroom's, is computed per round;
its median is printed, the largest difference of logits over the largest logit, and the peak of memory beyond the
weights. --train: forward and backward of the loss, without dropout, optimizer and checkpoints; the difference is that
of all gradients, its norm over theirs.
--hold waits for a line on standard input before the first timing, so that several processes can compile at once. --csv
appends the rows to a file. HEADROOM_LIBRARY_FOLDER names the folder of the libraries."""
import argparse
import copy
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "python"))
import headroom.transformers  # noqa: E402,F401

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
MODELS = "smollm-135m:16:2048,phi-2:4:2048,qwen3-8b:1:4096"
COLUMNS = ("model", "batch", "tokens", "mode", "dtype", "sdpa_ms", "headroom_ms", "ratio", "difference", "sdpa_gib",
           "headroom_gib", "device", "driver", "pytorch", "transformers", "date")


def config_of(name, options):
    fields = json.loads((TOP / "data/models" / f"{name}.json").read_text(encoding="utf-8"))
    config = AutoConfig.for_model(**{key: value for key, value in fields.items() if not key.startswith("_")})
    config.use_cache = getattr(options, "use_cache", False)
    if options.layers:
        config.num_hidden_layers = options.layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:options.layers]
    return config


def models_of(name, options):
    """The model with each implementation; their weights are the same tensors."""
    torch.manual_seed(0)
    with torch.device(options.device):
        model = AutoModelForCausalLM.from_config(config_of(name, options), dtype=DTYPES[options.dtype],
                                                 attn_implementation="sdpa").eval()
    model.loss_type = "ForCausalLM"  # of some models found with a warning, which torch.compile(fullgraph=True) refuses
    return headroom.transformers.use(copy.deepcopy(model, {id(each): each for each in model.parameters()})), model


class Step:
    """A step that can be repeated; its results stay in the same memory."""

    def __init__(self, model, ids, mode):
        self.model = torch.compile(model, fullgraph=True) if mode == "compiled" else model
        self.ids, self.graph, self.out = ids, None, None
        self.once()
        if ids.is_cuda and mode != "eager":
            self.capture()

    def results(self):
        return self.model(self.ids).logits

    def once(self):
        self.out = None
        self.out = self.results()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.once()
        torch.cuda.current_stream().wait_stream(side)
        self.out, self.graph = None, torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.results()

    def run(self):
        if self.graph:
            self.graph.replay()
        else:
            self.once()

    def milliseconds(self):
        if not self.ids.is_cuda:
            start = time.perf_counter()
            self.run()
            return (time.perf_counter() - start) * 1e3
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


class TrainingStep(Step):
    """Forward and backward. The models share their parameters, so that each step takes its gradients away."""

    def results(self):
        self.model(self.ids, labels=self.ids).loss.backward()
        parameters = [each for each in self.model.parameters() if each.grad is not None]
        gradients = [each.grad for each in parameters]
        for each in parameters:
            each.grad = None
        return gradients


def step_of(model, ids, mode, kind):
    """The step, and the bytes that it took beyond what there was."""
    if not ids.is_cuda:
        return kind(model, ids, mode), 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step = kind(model, ids, mode)
    return step, torch.cuda.max_memory_allocated() - before


def difference(found, right):
    """Row by row, since all logits at once may not fit twice in fp32."""
    off = max(float((a.float() - b.float()).abs().max()) for a, b in zip(found, right))
    return off / max(float(each.abs().max()) for each in right)


def gradient_difference(found, right):
    norms = [[float(each.float().norm()) for each in some]
             for some in ([a - b for a, b in zip(found, right)], right)]
    return math.hypot(*norms[0]) / math.hypot(*norms[1])


def compare(models, name, ids, mode, options):
    kind, apart = (TrainingStep, gradient_difference) if options.train else (Step, difference)
    steps, bytes_taken = zip(*(step_of(model, ids, mode, kind) for model in models))
    ours, theirs = steps
    if options.hold:
        print("ready", flush=True)
        sys.stdin.readline()
        options.hold = False
    rounds = [(ours.milliseconds(), theirs.milliseconds()) for _ in range(options.rounds + 3)][3:]
    own, other = (statistics.median(times) for times in zip(*rounds))
    ratio = statistics.median(b / a for a, b in rounds)
    own_gib, other_gib = (each / 2**30 for each in bytes_taken)
    mode = f"train {mode}" if options.train else mode
    report((name, *ids.shape, mode, options.dtype, f"{other:.2f}", f"{own:.2f}", f"{ratio:.3f}",
            f"{apart(ours.out, theirs.out):.1e}", f"{other_gib:.2f}", f"{own_gib:.2f}"), ids.device, options)


def report(row, device, options):
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    if not options.csv:
        return
    new = not options.csv.exists()
    with options.csv.open("a", encoding="utf-8") as file:
        if new:
            file.write(",".join(COLUMNS) + "\n")
        file.write(",".join(map(str, (*row, *conditions(device)))) + "\n")


def conditions(device):
    name, driver = "CPU", ""
    if device.type == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", f"--id={device.index or 0}"]
        name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return name, driver, torch.__version__, transformers.__version__, datetime.date.today()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--modes", default="compiled")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    if set(options.modes.split(",")) - {"compiled", "graph", "eager"}:
        parser.error(f"--modes: {options.modes}; expected compiled, graph, eager")
    print(f"| {' | '.join(COLUMNS[:11])} |\n|{'---|' * 11}")
    with torch.set_grad_enabled(options.train):
        for each in options.models.split(","):
            name, batch, length = each.split(":")
            models = models_of(name, options)
            ids = torch.randint(3, 1000, (int(batch), int(length)), device=options.device)
            for mode in options.modes.split(","):
                compare(models, name, ids, mode, options)
                torch.compiler.reset()


if __name__ == "__main__":
    main()
