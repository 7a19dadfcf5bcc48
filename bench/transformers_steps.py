#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole forward steps of models of transformers with attn_implementation="headroom" and "sdpa".

    transformers_steps.py [--models NAME:BATCH:LENGTH,…] [--device cuda|cpu] [--dtype bf16|fp32] [--rounds N] [--eager]

Random weights for the configurations in data/models; both models have the same, in one process, and steps are
interleaved. Without --eager each is compiled by torch.compile(fullgraph=True) first. On a GPU a step is timed by CUDA
events. The ratio, sdpa's time over Headroom's, is computed per round; its median is printed, and the largest difference of
logits over the largest logit. HEADROOM_LIBRARY_FOLDER names the folder of the libraries."""
import argparse
import copy
import json
import pathlib
import statistics
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "python"))
import headroom.transformers  # noqa: E402,F401

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
MODELS = "smollm-135m:16:2048,phi-2:4:2048,qwen3-8b:1:4096"


def model_of(name, implementation, options):
    fields = json.loads((TOP / "data/models" / f"{name}.json").read_text(encoding="utf-8"))
    config = AutoConfig.for_model(**{key: value for key, value in fields.items() if not key.startswith("_")})
    config.use_cache = False
    torch.manual_seed(0)
    with torch.device(options.device):
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation,
                                                 dtype=DTYPES[options.dtype]).eval()
    return model if options.eager else torch.compile(model, fullgraph=True)


def milliseconds(model, ids):
    if ids.device.type == "cpu":
        start = time.perf_counter()
        model(ids)
        return (time.perf_counter() - start) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    model(ids)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def compare(name, batch, length, options):
    ours, theirs = (model_of(name, each, options) for each in ("headroom", "sdpa"))
    ids = torch.randint(3, 1000, (batch, length), device=options.device)
    right, found = theirs(ids).logits, ours(ids).logits
    off = float((found - right).abs().max() / right.abs().max())
    del right, found
    rounds = [(milliseconds(ours, ids), milliseconds(theirs, ids)) for _ in range(options.rounds + 3)][3:]
    own, other = (statistics.median(times) for times in zip(*rounds))
    ratio = statistics.median(b / a for a, b in rounds)
    print(f"| {name}, {batch} × {length} | {other:.1f} | {own:.1f} | {ratio:.2f} | {off:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--eager", action="store_true")
    options = parser.parse_args()
    print(f"{'eager' if options.eager else 'compiled'}, {options.dtype}, PyTorch {torch.__version__}")
    print("| model, batch × tokens | sdpa, ms | Headroom, ms | ratio | difference |\n|---|---|---|---|---|")
    with torch.no_grad():
        for each in options.models.split(","):
            name, batch, length = each.split(":")
            compare(name, int(batch), int(length), options)
            torch.compiler.reset()


if __name__ == "__main__":
    main()
