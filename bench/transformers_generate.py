#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares generate() of models of transformers with attn_implementation="headroom" and "sdpa": the prompt, and a token
after it.

    transformers_generate.py [--models NAME:BATCH:LENGTH,…] [--device cuda|cpu] [--dtype bf16|fp32] [--rounds N]
                             [--tokens N] [--cache static|dynamic] [--layers N] [--csv FILE]

Weights and rows are as those of transformers_steps.py; --cache is "static" on a GPU, where transformers compiles steps
with it, and "dynamic" on a CPU. The first token's time is the prompt's; a token's is what the others took, each."""
import argparse
import pathlib
import statistics
import time

import torch

import transformers_steps as steps


def seconds(model, ids, tokens, options):
    start = time.perf_counter()
    out = model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0,
                         eos_token_id=None, cache_implementation=None if options.cache == "dynamic" else options.cache)
    if ids.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, out[:, ids.shape[1]:]


def times(model, ids, options):
    """Milliseconds of the prompt, and of a token; the tokens."""
    prompt, _ = seconds(model, ids, 1, options)
    whole, found = seconds(model, ids, options.tokens, options)
    return prompt * 1e3, (whole - prompt) * 1e3 / (options.tokens - 1), found


def compare(name, batch, length, options):
    models = steps.models_of(name, options)
    ids = torch.randint(3, 1000, (batch, length), device=options.device)
    rounds = [[times(model, ids, options) for model in models] for _ in range(options.rounds + 1)][1:]
    same = float((rounds[0][0][2] == rounds[0][1][2]).float().mean())
    for at, mode in enumerate(("prompt", "token")):
        own, other = (statistics.median(each[side][at] for each in rounds) for side in (0, 1))
        ratio = statistics.median(each[1][at] / each[0][at] for each in rounds)
        steps.report((name, batch, length, mode, options.dtype, f"{other:.2f}", f"{own:.2f}", f"{ratio:.3f}",
                      f"{1 - same:.2f}", "", ""), ids.device, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cuda = torch.cuda.is_available()
    parser.add_argument("--models", default="smollm-135m:1:4096,smollm-135m:16:4096")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--dtype", choices=steps.DTYPES, default="bf16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=33)
    parser.add_argument("--cache", choices=("static", "dynamic"), default="static" if cuda else "dynamic")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    options.use_cache = True
    print(f"| {' | '.join(steps.COLUMNS[:9])} |\n|{'---|' * 9}")
    with torch.no_grad():
        for each in options.models.split(","):
            name, batch, length = each.split(":")
            compare(name, int(batch), int(length), options)


if __name__ == "__main__":
    main()
