# SPDX-License-Identifier: Apache-2.0
"""SIGMA (arXiv 2501.13629) for transformers: importing this module registers the model type "sigma", so that
AutoModelForCausalLM.from_config() makes the paper's model.

Its attention, DiffQKV, gives K fewer and smaller heads than V, and makes Q by two linear layers (augmented Q, section
2; the paper names no activation between them, and there is none here). Norms, rotation and the gated MLP are Llama's.
The attention "headroom" reads K and V as they are; any other one gets them repeated to Q's heads."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, StaticLayer
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel,
                                                      LlamaPreTrainedModel, LlamaRMSNorm, LlamaRotaryEmbedding,
                                                      apply_rotary_pos_emb, eager_attention_forward)

from . import NAME, passed_on

Tensor = torch.Tensor


class SigmaConfig(PreTrainedConfig):
    """The fields of data/models/sigma-*.json, which `headroom describe` reads, too; the defaults are those of SIGMA
    1.5B (table 7) without augmented Q. augmented_q_dim None: Q is one linear layer. value_head_dim None: hidden_size /
    num_attention_heads; key_head_dim None: value_head_dim."""

    model_type = "sigma"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {"head_dim": "key_head_dim"}  # that of rotation
    default_theta = 50000.0
    mlp_bias = False

    vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 6144
    num_hidden_layers: int = 26
    num_attention_heads: int = 32
    num_key_heads: int = 4
    num_value_heads: int = 16
    key_head_dim: Optional[int] = None
    value_head_dim: Optional[int] = None
    augmented_q_dim: Optional[int] = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 4096
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    attention_dropout: float = 0.0
    use_cache: bool = True
    tie_word_embeddings: bool = False
    rope_parameters: Optional[dict] = None
    pad_token_id: Optional[int] = None
    bos_token_id: Optional[int] = None
    eos_token_id: Optional[int] = None

    def __post_init__(self, **rest):
        self.check_sizes()
        if self.value_head_dim is None:
            expect_divides(self, "num_attention_heads", "hidden_size")
            self.value_head_dim = self.hidden_size // self.num_attention_heads
        if self.key_head_dim is None:
            self.key_head_dim = self.value_head_dim
        if self.key_head_dim % 2:
            raise ValueError(f"key_head_dim: {self.key_head_dim} is odd; rotation takes pairs")
        super().__post_init__(**rest)

    def check_sizes(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                     "num_key_heads", "num_value_heads", "max_position_embeddings"):
            expect_positive(self, name)
        for name in ("key_head_dim", "value_head_dim", "augmented_q_dim"):
            if getattr(self, name) is not None:
                expect_positive(self, name)
        for name in ("num_key_heads", "num_value_heads"):
            expect_divides(self, name, "num_attention_heads")


def expect_positive(config: SigmaConfig, name: str) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected an integer from 1 on, got {value!r}")


def expect_divides(config: SigmaConfig, name: str, whole: str) -> None:
    part, total = getattr(config, name), getattr(config, whole)
    if total % part:
        raise ValueError(f"{name}: {part} does not divide {whole}, {total}")


class SigmaAttention(nn.Module):
    is_causal = True
    num_key_value_groups = 1  # what other attention functions get is repeated already

    def __init__(self, config: SigmaConfig, layer_idx: int):
        super().__init__()
        self.config, self.layer_idx, self.scaling = config, layer_idx, config.key_head_dim**-0.5
        hidden, heads = config.hidden_size, config.num_attention_heads
        q_inputs = config.augmented_q_dim or hidden
        self.q_down_proj = nn.Linear(hidden, q_inputs, bias=False) if config.augmented_q_dim else nn.Identity()
        self.q_proj = nn.Linear(q_inputs, heads * config.key_head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, config.num_key_heads * config.key_head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, config.num_value_heads * config.value_head_dim, bias=False)
        self.o_proj = nn.Linear(heads * config.value_head_dim, hidden, bias=False)

    def forward(self, hidden_states: Tensor, position_embeddings: Tuple[Tensor, Tensor],
                attention_mask: Optional[Tensor] = None, past_key_values: Optional[Cache] = None,
                cache: Optional[Cache] = None, **rest) -> Tuple[Tensor, Optional[Tensor]]:
        cache = past_key_values if cache is None else cache  # its name in transformers since 5.24
        query = heads_of(self.q_proj(self.q_down_proj(hidden_states)), self.config.key_head_dim)
        key = heads_of(self.k_proj(hidden_states), self.config.key_head_dim)
        value = heads_of(self.v_proj(hidden_states), self.config.value_head_dim)
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
        if cache is not None:
            make_room(cache, self.layer_idx, key, value)
            key, value = cache.update(key, value, self.layer_idx)
        o, weights = self.attend(query, key, value, attention_mask, rest)
        return self.o_proj(o.reshape(*hidden_states.shape[:-1], -1)), weights

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor],
               rest: dict) -> Tuple[Tensor, Optional[Tensor]]:
        name, dropout = self.config._attn_implementation, self.config.attention_dropout if self.training else 0.0
        if name != NAME or passed_on(query, key, value, mask, dropout, rest):
            query, key, value = alike(query, key, value)
        function = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        o, weights = function(self, query, key, value, mask, dropout=dropout, scaling=self.scaling, **rest)
        return o, weights


def heads_of(rows: Tensor, dim: int) -> Tensor:
    """[batch, length, heads · dim] as [batch, heads, length, dim]."""
    return rows.unflatten(-1, (-1, dim)).transpose(1, 2)


def alike(query: Tensor, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """K and V with Q's heads, and Q and K at least as wide as V: zeros add nothing to a score."""
    heads, missing = query.shape[1], value.shape[3] - key.shape[3]
    if missing > 0:
        query, key = nn.functional.pad(query, (0, missing)), nn.functional.pad(key, (0, missing))
    return query, *(x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))


def make_room(cache: Cache, layer_idx: int, key: Tensor, value: Tensor) -> None:
    """A static layer's memory for V has K's heads unless it is made here."""
    layer = cache.layers[layer_idx] if layer_idx < len(cache.layers) else None
    if isinstance(layer, StaticLayer) and not layer.is_initialized:
        layer.lazy_initialization(key, value)
        layer.values = value.new_zeros(value.shape[0], value.shape[1], layer.values.shape[2], value.shape[3])
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_static_address(layer.values)


class SigmaDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config: SigmaConfig, layer_idx: int):
        GradientCheckpointingLayer.__init__(self)
        self.self_attn = SigmaAttention(config, layer_idx)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class SigmaPreTrainedModel(LlamaPreTrainedModel):
    config: SigmaConfig
    config_class = SigmaConfig
    _no_split_modules = ["SigmaDecoderLayer"]
    _can_record_outputs = {"hidden_states": SigmaDecoderLayer, "attentions": SigmaAttention}


class SigmaModel(SigmaPreTrainedModel, LlamaModel):
    def __init__(self, config: SigmaConfig):
        PreTrainedModel.__init__(self, config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(SigmaDecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(config=config)
        self.gradient_checkpointing = False
        self.post_init()


class SigmaForCausalLM(SigmaPreTrainedModel, LlamaForCausalLM):
    def __init__(self, config: SigmaConfig):
        PreTrainedModel.__init__(self, config)
        self.model = SigmaModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


AutoConfig.register(SigmaConfig.model_type, SigmaConfig)
AutoModel.register(SigmaConfig, SigmaModel)
AutoModelForCausalLM.register(SigmaConfig, SigmaForCausalLM)
