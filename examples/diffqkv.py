#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DiffQKV attention (SIGMA, arXiv 2501.13629) with operators of PyTorch: a prompt, then steps of generation against a
cache whose K has fewer heads than V, beside the same with as many.

    diffqkv.py [--heads 32] [--k-heads 4] [--v-heads 16] [--dim 64] [--prompt 4096] [--steps 16] [--batch 1]"""
import argparse
import time

import torch

import headroom.torch as ht

DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


def steps(a, k_heads):
    """The bytes of a cached token, the time of a step in µs, and how far its last O is from that of the whole."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(a.batch, a.prompt + a.steps, heads, a.dim, device=DEVICE, dtype=DTYPE)
               for heads in (a.heads, k_heads, a.v_heads))
    k_cache, v_cache = torch.empty_like(k), torch.empty_like(v)
    k_cache[:, :a.prompt], v_cache[:, :a.prompt] = k[:, :a.prompt], v[:, :a.prompt]
    ht.attention(q[:, :a.prompt], k[:, :a.prompt], v[:, :a.prompt], causal=True)
    lengths, times = torch.full((a.batch,), a.prompt, dtype=torch.int32, device=DEVICE), []
    for token in range(a.prompt, a.prompt + a.steps):
        k_cache[:, token], v_cache[:, token] = k[:, token], v[:, token]
        lengths += 1
        begin = time.perf_counter()
        o = ht.decode(q[:, token:token + 1], k_cache, v_cache, lengths)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    whole = ht.attention(q, k, v, causal=True)[:, -1:]
    return (k_heads + a.v_heads) * a.dim * k.element_size(), min(times), (o - whole).abs().max().item()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("heads", 32), ("k-heads", 4), ("v-heads", 16), ("dim", 64), ("prompt", 4096), ("steps", 16),
                          ("batch", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    results = [steps(a, k_heads) for k_heads in (a.v_heads, a.k_heads)]
    for k_heads, (size, step, difference) in zip((a.v_heads, a.k_heads), results):
        print(f"{a.heads}/{k_heads}/{a.v_heads}: {size} bytes a token, {step:.1f} µs a step, "
              f"{difference:.2g} from attention of the whole")
    print(f"saved: {1 - results[1][0] / results[0][0]:.1%} of the bytes, {1 - results[1][1] / results[0][1]:.1%} of the time")


if __name__ == "__main__":
    main()
