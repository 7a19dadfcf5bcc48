# SPDX-License-Identifier: Apache-2.0
"""Steps of transformers for step_vs_peers.py: eager with the cache that it makes itself, and compiled with a static
cache, on a GPU also captured as a CUDA graph: torch.compile's own graphs refuse a static cache in 5.17. With sdpa, or
with Headroom's attention as transformers' backend."""
import copy

import torch
from transformers import DynamicCache, StaticCache

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Eager:
    name = "transformers eager"

    def __init__(self, model, ids, phase):
        self.model, self.phase, self.out = model, phase, None
        self.ids, self.prompt = (ids[:, -1:], ids[:, :-1]) if phase == "decode" else (ids, None)
        self.cache = self.new_cache(ids.shape[1])
        self.fill()

    def new_cache(self, _):
        return DynamicCache(config=self.model.config)

    def fill(self):
        """What the step finds in its cache."""
        if self.prompt is not None:
            self.model(self.prompt, past_key_values=self.cache, logits_to_keep=1)

    def before(self):
        """Brings the cache back to where the step began."""
        if self.phase == "prefill":
            self.cache = self.new_cache(0)
        elif self.cache.get_seq_length() > self.prompt.shape[1]:
            self.cache.crop(-1)

    def run(self):
        self.out = self.model(self.ids, past_key_values=self.cache, logits_to_keep=1).logits

    def wait(self):
        if self.ids.is_cuda:
            torch.cuda.synchronize()

    def logits(self):
        return self.out[:, -1].float().cpu().numpy()


class Compiled(Eager):
    """The caches are made before, so that their addresses stay; the step's positions are counted in them."""
    name = "transformers compiled"

    def __init__(self, model, ids, phase):
        super().__init__(model, ids, phase)
        self.model = torch.compile(model, fullgraph=True)

    def new_cache(self, tokens):
        config = self.model.config
        cache, heads = StaticCache(config=config, max_cache_len=tokens), config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        heads = getattr(config, "num_key_value_heads", None) or heads
        cache.early_initialization(self.ids.shape[0], heads, dim, self.model.dtype, self.ids.device)
        return cache

    def before(self):
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(0 if self.prompt is None else self.prompt.shape[1])


class Graph(Compiled):
    name = "transformers graph"

    def __init__(self, model, ids, phase):
        super().__init__(model, ids, phase)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.before()
                super().run()
        side.synchronize()
        self.before()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().run()

    def run(self):
        self.graph.replay()


def with_attention(model, attention):
    """The model, or one on the same weights."""
    if attention == "sdpa":
        return model
    import headroom.transformers  # registers it
    return headroom.transformers.use(copy.deepcopy(model, {id(each): each for each in model.parameters()}))


def maker_of(kind, name, model):
    def make(ids, phase):
        contender = kind(model, ids, phase)
        contender.name = name
        return contender
    return make


def contenders(model, device, attentions):
    """What makes each contender of a phase, by name."""
    kinds, found = [Eager, Compiled, Graph] if device.startswith("cuda") else [Eager, Compiled], {}
    for attention in attentions:
        one = with_attention(model, attention)
        for kind in kinds:
            name = kind.name if attention == "sdpa" else f"{kind.name} with {attention}"
            found[name] = maker_of(kind, name, one)
    return found
