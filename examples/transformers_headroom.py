#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of transformers with sdpa and with Headroom: the time of a prompt and of a generated token, and how far logits
differ. On a GPU in bf16 where PyTorch has one, else on the CPU in fp32.

    transformers_headroom.py MODEL [--tokens 1024] [--new 32] [--batch 1] [--rounds 3]

MODEL is a name of the Hugging Face Hub, a folder, or a config.json, which gets random weights."""
import argparse
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import headroom.transformers.sigma  # registers "headroom", and SIGMA as a model

DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


def load(name):
    if name.endswith(".json"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=DTYPE).to(DEVICE).eval()
    return AutoModelForCausalLM.from_pretrained(name, dtype=DTYPE).to(DEVICE).eval()


def milliseconds(model, ids, new):
    """Of new tokens behind a prompt."""
    begin = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for name, default in (("tokens", 1024), ("new", 32), ("batch", 1), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    model, times, logits = load(a.model), {"sdpa": [], "headroom": []}, {}
    ids = torch.randint(0, model.config.vocab_size, (a.batch, a.tokens), device=DEVICE)
    for _ in range(a.rounds):
        for attention in times:
            model.set_attn_implementation(attention)  # the one line
            logits[attention] = model(ids).logits.float()  # also warms up
            times[attention].append([milliseconds(model, ids, new) for new in (1, 1 + a.new)])
    for attention, each in times.items():
        prompt, whole = (min(column) for column in zip(*each))
        print(f"{attention:9} prompt {prompt:9.2f} ms   token {(whole - prompt) / a.new:8.2f} ms")
    print(f"logits differ by {(logits['headroom'] - logits['sdpa']).abs().max():.2g} at most")


if __name__ == "__main__":
    main()
