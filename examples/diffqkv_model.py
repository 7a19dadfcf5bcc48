# SPDX-License-Identifier: Apache-2.0
"""The decoder models of diffqkv_ablation.py: the ablations of SIGMA (arXiv 2501.13629), and the paper's results.

The paper has 32 query heads; here shapes are shares: gqa-2 has a K and a V head for two query heads, as its "GQA-16" of
32, and gqa-8 as its "GQA-4"."""
import csv
import math
import pathlib
import zlib
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Variant(NamedTuple):
    """Shares: of the query heads, of the head size, of the hidden size."""
    k_heads: float
    v_heads: float
    k_size: float = 1
    q_width: float = 0  # of augmented Q: two linear layers with this width between them
    ffn: float = 2.75


VARIANTS = {
    "mha": Variant(1, 1),
    "gqa-2": Variant(1 / 2, 1 / 2),
    "gqa-8": Variant(1 / 8, 1 / 8),
    "gqa-2-quarter-k-heads": Variant(1 / 8, 1 / 2),
    "gqa-2-quarter-v-heads": Variant(1 / 2, 1 / 8),
    "gqa-2-half-k-size": Variant(1 / 2, 1 / 2, k_size=1 / 2),
    "gqa-2-augmented-q": Variant(1 / 2, 1 / 2, q_width=3 / 2),
    # Of as many parameters as augmented Q: 2 hidden² more, by three layers. The paper widens by all of augmented Q's width.
    "gqa-2-wider-ffn": Variant(1 / 2, 1 / 2, ffn=2.75 + 2 / 3),
    "mha-half-k-heads": Variant(1 / 2, 1),
    "mha-half-v-heads": Variant(1, 1 / 2),
    "mha-half-k-size": Variant(1, 1, k_size=1 / 2),
    "sigma": Variant(1 / 8, 1 / 2, q_width=3 / 2),
}
SELECTED = ("mha", "gqa-2", "gqa-8")  # those of which the paper's table 3 has selective V
SELECTED_KEYS = 100  # there

with open(pathlib.Path(__file__).parent.parent / "data/results/published/sigma-quality.csv", encoding="utf-8") as _file:
    PAPER = {row["variant"]: row for row in csv.DictReader(line for line in _file if not line.startswith("#"))}


def base_of(name):
    """The variant that the paper compares it with."""
    return PAPER[name]["base"]


def paper_change(name):
    """Percentage points by which the mean of the paper's benchmarks differs from that of the base."""
    return float(PAPER[name]["mean"]) - float(PAPER[base_of(name)]["mean"])


class Size(NamedTuple):
    layers: int
    heads: int
    head_size: int


SIZES = {"tiny": Size(2, 8, 8), "15m": Size(4, 16, 32), "30m": Size(8, 16, 32), "120m": Size(9, 16, 64)}


# ---- attention: Q, K and V [batch, length, heads, size] ----


def torch_attention(q, k, v):
    """By scaled_dot_product_attention, which takes as many heads of one size: K and V are repeated, Q and K padded."""
    heads, size = q.shape[2], v.shape[3]
    scale = q.shape[3] ** -0.5
    k, v = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (k, v))
    q, k = (F.pad(x, (0, size - x.shape[3])) for x in (q, k))
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, scale=scale).transpose(1, 2)


def headroom_attention(q, k, v):
    import headroom.torch
    return headroom.torch.attention(q, k, v, causal=True)


def selected_attention(top_k):
    """Selective V: only the top_k keys with the largest scores of a query head count, as in the operator decode."""
    def attend(q, k, v):
        heads, length = q.shape[2], q.shape[1]
        k, v = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (k, v))
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).float().mul(q.shape[3] ** -0.5).masked_fill(later, -math.inf)
        least = scores.topk(min(top_k, length), dim=-1, sorted=False).values.amin(-1, keepdim=True)
        weights = scores.masked_fill(scores < least, -math.inf).softmax(-1).to(v.dtype)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)
    return attend


# ---- the model ----


class Linear(nn.Linear):
    """Without bias; weights are float32 and computed with in the format of the input."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def angles(length, size, dtype):
    """Cosines and sines [length, 1, size / 2] of rotary positions."""
    turns = torch.outer(torch.arange(length), 10000.0 ** -torch.linspace(0, 1, size // 2 + 1)[:-1])[:, None]
    return turns.cos().to(dtype), turns.sin().to(dtype)


class Block(nn.Module):
    def __init__(self, variant, size, attend):
        super().__init__()
        hidden, self.attend = size.heads * size.head_size, attend
        self.k_size = int(size.head_size * variant.k_size)
        self.heads = [int(size.heads * share) for share in (1, variant.k_heads, variant.v_heads)]
        width = int(hidden * variant.q_width)
        self.q_down = Linear(hidden, width) if width else nn.Identity()
        self.q = Linear(width or hidden, self.heads[0] * self.k_size)
        self.k = Linear(hidden, self.heads[1] * self.k_size)
        self.v = Linear(hidden, self.heads[2] * size.head_size)
        self.o = Linear(hidden, hidden)
        ffn = 32 * round(hidden * variant.ffn / 32)
        self.up, self.down = Linear(hidden, 2 * ffn), Linear(ffn, hidden)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))

    def forward(self, x, cos, sin):
        y = F.rms_norm(x, x.shape[-1:], self.norm1.to(x.dtype), 1e-5)
        q, k, v = (layer.unflatten(-1, (heads, -1)) for layer, heads in zip((self.q(self.q_down(y)), self.k(y), self.v(y)), self.heads))
        x = x + self.o(self.attend(rotated(q, cos, sin), rotated(k, cos, sin), v).flatten(-2))
        gate, value = self.up(F.rms_norm(x, x.shape[-1:], self.norm2.to(x.dtype), 1e-5)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class Head(nn.Module):
    """Cross-entropy of the next tokens, by the weights of the embedding."""

    def forward(self, x, weight, norm, targets):
        x = F.rms_norm(x, x.shape[-1:], norm.to(x.dtype), 1e-5)
        return F.cross_entropy(F.linear(x, weight.to(x.dtype)).flatten(0, -2).float(), targets.flatten())


class Decoder(nn.Module):
    def __init__(self, variant, size, vocabulary, length, dtype, attend):
        super().__init__()
        hidden = size.heads * size.head_size
        self.dtype, self.head = dtype, Head()
        self.embedding = nn.Parameter(torch.empty(vocabulary, hidden))
        self.norm = nn.Parameter(torch.ones(hidden))
        self.blocks = nn.ModuleList(Block(variant, size, attend) for _ in range(size.layers))
        for name, value in zip(("cos", "sin"), angles(length, self.blocks[0].k_size, dtype)):
            self.register_buffer(name, value)

    def initialize(self, seed):
        """Values by the seed and a weight's name: what two variants share begins with the same values."""
        for name, weight in self.named_parameters():
            if weight.dim() == 1:
                nn.init.ones_(weight)
                continue
            std = 0.02 if name == "embedding" else weight.shape[1] ** -0.5
            if name.endswith((".o.weight", ".down.weight")):
                std /= (2 * len(self.blocks)) ** 0.5
            generator = torch.Generator(weight.device).manual_seed(zlib.crc32(f"{seed} {name}".encode()))
            values = torch.randn(weight.shape, generator=generator, device=weight.device)
            with torch.no_grad():
                weight.copy_(std * values)

    def compile_parts(self):
        """One layer is compiled, for all of them."""
        for part in (*self.blocks, self.head):
            part.compile(fullgraph=True, dynamic=False)

    def forward(self, tokens):
        """The mean loss of predicting each token but the first from those before."""
        x = F.embedding(tokens[:, :-1], self.embedding).to(self.dtype)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(x, self.embedding, self.norm, tokens[:, 1:])

    @torch.no_grad()
    def evaluate(self, tokens, attend=torch_attention, rows=16):
        """The same over many sequences, not compiled, by another attention."""
        total, kept = 0.0, self.blocks[0].attend
        for some in tokens.split(rows):
            x = F.embedding(some[:, :-1], self.embedding).to(self.dtype)
            for block in self.blocks:
                block.attend = attend
                x = block.forward(x, self.cos, self.sin)
                block.attend = kept
            total += self.head.forward(x, self.embedding, self.norm, some[:, 1:]).item() * len(some)
        return total / len(tokens)
