# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="headroom" for transformers: importing this module registers the attention and the mask function.

What Headroom does not compute is passed on to transformers' sdpa, and where that has no soft cap or sinks to the
formula in PyTorch; the reason is said once. The mask function builds a mask for these calls alone. For others it
returns None, which is causal or all by the layer, aligned to the bottom right; the lengths of the sequences in a
static cache [batch, 1, 1, 1] (int32); the first key that each query sees [batch, 2, queries, keys] (int32, without
memory for the second and the last dimension), where padding, packed sequences or chunks hide keys before; for padding
that is not known or lies between tokens an order of tokens in which it comes first [batch, 3, queries, keys] (int32);
or a tensor [0, window, 1, keys] without elements, whose sizes say how far a query sees and how many keys are there (0:
no limit). generate() hands masks of four dimensions on as they are; a model may keep those of the last queries alone."""
from __future__ import annotations

import sys
import warnings
from typing import Callable, List, NamedTuple, Optional, Set, Tuple, Union

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

from .. import torch as ht
from ..torch._gradients import missing
from ..torch._tensors import DTYPES, requires_gradient

Tensor = torch.Tensor
NAME = "headroom"
DECODE_MOST = 16  # queries
KEY_BITS = 31  # of the number of keys
CAUSAL, ALL = "causal_mask_function", "bidirectional_mask_function"
JOINS_MASKS = ("falcon", "diffusion_gemma")  # models that add to their masks, or concatenate them
CHOOSERS = ("index_topk", "indexer_budget", "keep_window_size")  # fields of configs whose models choose keys by a mask
Form = Optional[Tuple[Optional[Tensor]]]  # what stands for a mask, in a tuple; None if nothing does
_said: Set[str] = set()


def use(model: torch.nn.Module) -> torch.nn.Module:
    """Sets the model's attention; the same as attn_implementation="headroom" where it is made."""
    model.set_attn_implementation(NAME)
    return model


# ---- masks ----


class Sizes(NamedTuple):
    """Of a mask. Offsets are numbers, or tensors for a static cache."""
    batch: int
    queries: int
    places: int  # for keys
    q_offset: Union[int, Tensor]
    kv_offset: Union[int, Tensor]
    device: Union[str, torch.device]

    def keys(self) -> Union[int, Tensor]:
        """Up to the last query's own."""
        return self.q_offset + self.queries - self.kv_offset


def mask(batch_size: int, q_length: int, kv_length: int, q_offset=0, kv_offset=0,
         mask_function: Optional[Callable] = None, attention_mask: Optional[Tensor] = None,
         allow_is_causal_skip: bool = True, device="cpu", **rest) -> Optional[Tensor]:
    arguments = dict(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset,
                     kv_offset=kv_offset, mask_function=mask_function, attention_mask=attention_mask, device=device)
    if needs_masks(rest.get("config")):
        return eager_mask(**arguments, **rest)
    sizes = Sizes(batch_size, q_length, kv_length, q_offset, kv_offset, device)
    form = None
    if kind_of(mask_function, rest) == ALL and (rest.get("allow_is_bidirectional_skip") or q_length == 1):
        form = all_form(sizes, attention_mask)
    elif kind_of(mask_function, rest) == CAUSAL:
        form = causal_form(sizes, mask_function, allow_is_causal_skip or q_length == 1, attention_mask, rest)
    if form is not None:
        return form[0]
    return sdpa_mask(**arguments, allow_is_causal_skip=False, allow_is_bidirectional_skip=False,
                     **{name: value for name, value in rest.items() if name != "allow_is_bidirectional_skip"})


def needs_masks(config) -> bool:
    """Whether the model adds to its masks itself, or is causal by them alone. An indexer needs them."""
    if any(hasattr(config, each) for each in CHOOSERS):
        return True
    return config is not None and no_interface(type(config).__module__, type(config).__name__)


@torch.compiler.assume_constant_result
def no_interface(configuration: str, name: str) -> bool:
    """Whether a model of a config says that it takes no other attention than eager."""
    module = sys.modules.get(configuration.replace("configuration_", "modeling_"))
    kinds = [each for each in vars(module).values() if isinstance(each, type)] if module else []
    models = [each for each in kinds if issubclass(each, PreTrainedModel)
              and getattr(each.config_class, "__name__", None) == name]
    return any(not (each._supports_sdpa or each._supports_attention_backend) for each in models)


def kind_of(function: Optional[Callable], rest: dict) -> Optional[str]:
    """CAUSAL also where transformers joins a window, chunks or packed sequences to it: a query then sees the keys from
    a first one to its own. Functions of the model's own come with use_vmap. torch.compile tells the name of a function
    that it has made, not what it refers to."""
    try:
        name = function.__name__
    except AttributeError:
        return None
    if name == "and_mask":
        return None if rest.get("use_vmap", True) or "allow_is_bidirectional_skip" in rest else CAUSAL
    return name


def tracing() -> bool:
    """Whether no value of a tensor can be looked at."""
    return torch.compiler.is_compiling() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def all_form(sizes: Sizes, attention_mask: Optional[Tensor]) -> Form:
    padding = padding_of(sizes, sizes.places, attention_mask)
    if padding is None or (attention_mask is not None and not bool(attention_mask[:, -1].all())):
        return None
    return row_form(sizes, sizes.places, padding) if padding else (None,)


def causal_form(sizes: Sizes, function: Callable, plain: bool, attention_mask: Optional[Tensor], rest: dict) -> Form:
    """`plain`: there are no packed sequences, and the model does not join its masks to others."""
    config, local = rest.get("config"), int(rest.get("local_size") or 0)
    packs = function.__name__ != CAUSAL and getattr(config, "model_type", None) not in JOINS_MASKS
    if not plain and not packs:
        return None
    if not all(isinstance(x, int) for x in (sizes.q_offset, sizes.kv_offset)):
        return static_form(sizes, function, plain, attention_mask, rest)
    keys, chunks = sizes.keys(), getattr(config, "attention_chunk_size", None) == local
    padding = padding_of(sizes, keys, attention_mask) if keys <= sizes.places else None
    if padding is None:
        return order_form(sizes, keys, attention_mask, config) if plain and not 0 < local < keys else None
    local = local if local < keys + (sizes.kv_offset if chunks else 0) else 0
    if local and chunks and sizes.queries == 1 and not hides(attention_mask):
        local, chunks = (sizes.kv_offset + keys - 1) % local + 1, False  # one query's chunk is a window
    if not plain or (local and chunks):
        return row_form(sizes, keys, padding + [first_keys(sizes, keys, function)])
    return row_form(sizes, keys, padding, local) if padding else plain_form(sizes, keys, local)


def plain_form(sizes: Sizes, keys: int, window: int) -> Form:
    """A static cache that is not full gives a step lengths, so that all steps have masks of one shape."""
    limit = keys if keys < sizes.places else 0
    if limit and sizes.queries <= DECODE_MOST and not window:
        return (torch.full((sizes.batch, 1, 1, 1), keys, dtype=torch.int32, device=sizes.device),)
    return (torch.empty(0, window, 1, limit, device=sizes.device) if window or limit else None,)


def static_form(sizes: Sizes, function: Callable, plain: bool, attention_mask: Optional[Tensor], rest: dict) -> Form:
    """Of a cache whose length is a tensor: lengths for a step, their number for a prompt."""
    if sizes.queries <= DECODE_MOST:
        if not plain or rest.get("local_size") or hides(attention_mask):
            return None
        keys = sizes.keys().to(device=sizes.device, dtype=torch.int32)
        return (keys.reshape(1, 1, 1, 1).repeat(sizes.batch, 1, 1, 1),)
    if tracing():
        return None
    known = sizes._replace(q_offset=int(sizes.q_offset), kv_offset=int(sizes.kv_offset))
    return causal_form(known, function, plain, attention_mask, rest)


def hides(attention_mask: Optional[Tensor]) -> bool:
    return attention_mask is not None and (tracing() or not bool(attention_mask.all()))


def padding_of(sizes: Sizes, keys: int, attention_mask: Optional[Tensor]) -> Optional[List[Tensor]]:
    """The first token of each sequence, in a list, an empty one without padding before tokens; None: tokens are not in
    a row, or it is not known."""
    if attention_mask is None:
        return []
    if tracing() or attention_mask.shape[1] < sizes.kv_offset + keys:
        return None
    seen = attention_mask[:, sizes.kv_offset:sizes.kv_offset + keys].int()
    begins = torch.diff(seen, dim=1, prepend=seen.new_zeros((len(seen), 1))) > 0
    if bool((begins.sum(1) > 1).any()):
        return None
    first = torch.where(seen.any(1), seen.argmax(1), seen.shape[1])
    return [first[:, None].to(sizes.device)] if bool(first.any()) else []


def order_form(sizes: Sizes, keys: int, attention_mask: Optional[Tensor], config) -> Form:
    """Of a prompt whose padding is not known or lies between tokens: the number of tokens that are padding, the tokens
    in an order with these first, and the place of each token in it. Others keep their order, so that all masks are
    causal, but not their distances."""
    whole = attention_mask is not None and sizes.queries == keys == sizes.places == attention_mask.shape[1]
    if not whole or getattr(config, "num_kv_shared_layers", 0):
        return None
    seen = attention_mask.to(sizes.device).bool()
    before, hidden = seen.cumsum(1), (~seen).sum(1, keepdim=True)
    tokens = torch.arange(keys, device=sizes.device).expand(sizes.batch, -1)
    places = torch.where(seen, hidden + before - 1, tokens - before)
    order = torch.zeros_like(places).scatter(1, places, tokens)
    rows = torch.stack((hidden.expand(-1, keys), order, places), 1).to(torch.int32)
    return (rows[..., None].expand(-1, -1, -1, keys),)


def first_keys(sizes: Sizes, keys: int, function: Callable) -> Tensor:
    """The first key that each query sees [batch, queries], by bisection: it sees all from there to its own."""
    batch = torch.arange(sizes.batch, device=sizes.device)[:, None]
    own = torch.arange(sizes.queries, device=sizes.device)[None] + (keys - sizes.queries)

    def sees(key: Tensor) -> Tensor:
        return function(batch, torch.zeros_like(batch), own + sizes.kv_offset, key.clamp(min=0) + sizes.kv_offset)

    first = torch.where(sees(own), own, own + 1)  # not `own`: Inductor 2.11 fails to compile indices without a load
    hidden = torch.full_like(first, -1)
    for _ in range(KEY_BITS if torch.compiler.is_compiling() else keys.bit_length()):
        middle = torch.div(first + hidden + 1, 2, rounding_mode="floor")
        seen = sees(middle)
        first, hidden = torch.where(seen, torch.minimum(middle, first), first), torch.where(seen, hidden, middle)
    return first.clamp(min=0)


def row_form(sizes: Sizes, keys: int, firsts: List[Tensor], window: int = 0) -> Form:
    """Decode kernels do not take first keys."""
    if sizes.queries <= DECODE_MOST and keys > sizes.queries:
        return None
    own = torch.arange(sizes.queries, device=sizes.device)[None] + (keys - sizes.queries)
    first = own - window + 1 if window else torch.zeros_like(own)
    for each in firsts:
        first = torch.maximum(first, each)
    rows = first.to(torch.int32).expand(sizes.batch, -1).contiguous()
    return (rows.reshape(sizes.batch, 1, sizes.queries, 1).expand(sizes.batch, 2, sizes.queries, keys),)


# ---- attention ----


def attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
              attention_mask: Optional[Tensor] = None, dropout: float = 0.0,
              scaling: Optional[float] = None, is_causal: Optional[bool] = None, softcap: Optional[float] = None,
              s_aux: Optional[Tensor] = None,
              **rest) -> Tuple[Tensor, None]:
    """The attention of a layer; tensors [batch, heads, length, dim]."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    chosen = chosen_keys(module, query, key, rest)
    reason = passed_on(query, key, value, attention_mask, dropout, {**rest, "s_aux": s_aux})
    reason = "an indexer chooses keys" if chosen is not None else reason
    if reason:
        say_once(f"{type(module).__name__}: {reason}: passed on to sdpa")
        full = both(explicit(attention_mask, query, key, causal), chosen)
        return pass_on(module, query, key, value, full, dropout, scaling, softcap, s_aux, rest)
    seen = limits(attention_mask)
    key, value = (key[:, :, :seen.keys], value[:, :, :seen.keys]) if seen.keys else (key, value)
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    if seen.order is None:
        return computed(q, k, v, causal, scaling, softcap or 0.0, s_aux, seen), None
    q, k, v = (ordered(x, seen.order) for x in (q, k, v))
    return ordered(computed(q, k, v, causal, scaling, softcap or 0.0, s_aux, seen), seen.places), None


def ordered(x: Tensor, order: Tensor) -> Tensor:
    """The rows of each sequence in another order."""
    return x[torch.arange(len(order), device=x.device)[:, None], order]


class Limits(NamedTuple):
    """What a short form says: window, keys (0: no limit), the sequences' lengths, the first key of each query, an order
    of tokens and the place of each in it."""
    window: int = 0
    keys: int = 0
    lengths: Optional[Tensor] = None
    first_keys: Optional[Tensor] = None
    order: Optional[Tensor] = None
    places: Optional[Tensor] = None


def limits(short: Optional[Tensor]) -> Limits:
    if short is None:
        return Limits()
    if short.shape[0] == 0:
        return Limits(short.shape[1], short.shape[3])
    if short.shape[1] == 2:
        return Limits(keys=short.shape[3], first_keys=short[:, 0, :, 0].contiguous())
    if short.shape[1] == 3:
        hidden, order, places = short[..., 0].unbind(1)
        return Limits(first_keys=hidden.contiguous(), order=order, places=places)
    return Limits(lengths=short.reshape(-1))


def is_mask(attention_mask: Optional[Tensor]) -> bool:
    """Whether it is a mask of queries and keys, and no short form."""
    return attention_mask is not None and attention_mask.shape[0] > 0 and attention_mask.dtype != torch.int32


def computed(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], softcap: float,
             sinks: Optional[Tensor], seen: Limits) -> Tensor:
    """Few queries as decode, where they see all keys up to their own; others, and those with gradients, as
    attention."""
    queries, keys = q.shape[1], k.shape[1]
    sinks = None if sinks is None else sinks.float().contiguous()
    few = (queries == 1 and keys > 1) or (causal and queries <= DECODE_MOST and keys > queries)
    few = few and seen.first_keys is None and not requires_gradient(q, k, v, sinks)
    if seen.lengths is not None or few:
        return ht.decode(q, k, v, seen.lengths, scale=scale, window=seen.window, softcap=softcap, sinks=sinks)
    return ht.attention(q, k, v, causal=causal, scale=scale, window=seen.window, softcap=softcap,
                        first_keys=seen.first_keys, sinks=sinks)


def passed_on(query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], dropout: float,
              rest: dict) -> Optional[str]:
    """Why Headroom does not compute a call, or None."""
    if is_mask(attention_mask):
        return "the mask is of another kind, or there is padding that is not known before the step"
    if dropout > 0:
        return "dropout"
    if rest.get("position_bias") is not None:
        return "a bias by position"
    if rest.get("sinks") is not None:
        return "sinks of each query"
    if query.dtype not in DTYPES or key.dtype != query.dtype or query.device.type not in ("cpu", "cuda"):
        return f"{query.dtype} on {query.device.type}"
    if not requires_gradient(query, key, value, rest.get("s_aux")):
        return None
    if limits(attention_mask).lengths is not None:
        return "a gradient of a step with a static cache"
    return missing(*(x.transpose(1, 2) for x in (query, key, value)))


def say_once(line: str) -> None:
    if not torch.compiler.is_compiling() and line not in _said:
        _said.add(line)
        warnings.warn(line, stacklevel=3)


# ---- what is passed on ----


def explicit(attention_mask: Optional[Tensor], query: Tensor, key: Tensor, causal: bool) -> Optional[Tensor]:
    """The boolean mask [batch or 1, 1, queries, keys] that a short form stands for; True: is seen."""
    if is_mask(attention_mask):
        return attention_mask
    if attention_mask is None and not (causal and query.shape[2] > 1):
        return None
    queries, positions = query.shape[2], torch.arange(key.shape[2], device=key.device)
    seen = limits(attention_mask)
    ends = torch.full((1,), seen.keys or key.shape[2], device=key.device) if seen.lengths is None else seen.lengths
    own = ends[:, None, None, None] - queries + torch.arange(queries, device=key.device)[:, None]
    shown = (positions <= own) if causal else positions < ends[:, None, None, None]
    shown = shown & (positions > own - seen.window) if seen.window else shown
    if seen.places is not None:
        return shown & (seen.places >= seen.first_keys)[:, None, None]
    return shown if seen.first_keys is None else shown & (positions >= seen.first_keys[:, None, :, None])


def chosen_keys(module: torch.nn.Module, query: Tensor, key: Tensor, rest: dict) -> Optional[Tensor]:
    """The keys that an indexer has chosen [batch, 1 or heads, queries, keys], by key or by block; None: it may choose
    all of them."""
    size, picks = 1, rest.get("indices")
    if rest.get("block_indices") is not None:
        size, picks = module.config.index_block_size, rest["block_indices"]
    blocks = -(-key.shape[2] // size)
    if picks is None or picks.shape[-1] >= blocks:
        return None
    picks = (picks if picks.dim() == 4 else picks[:, None]).long()
    seen = torch.zeros(*picks.shape[:3], blocks + 1, dtype=torch.bool, device=picks.device)
    seen = seen.scatter(3, picks.masked_fill(picks < 0, blocks), True)[..., :blocks]
    heads = 1 if seen.shape[1] == 1 else query.shape[1] // seen.shape[1]
    return seen.repeat_interleave(size, 3)[..., :key.shape[2]].repeat_interleave(heads, 1)


def both(full: Optional[Tensor], chosen: Optional[Tensor]) -> Optional[Tensor]:
    """The mask of what two masks show; the first one may be added to scores."""
    if full is None or chosen is None:
        return chosen if full is None else full
    return full & chosen if full.dtype == torch.bool else full.masked_fill(~chosen, torch.finfo(full.dtype).min)


def pass_on(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, full: Optional[Tensor], dropout: float,
            scaling: Optional[float], softcap: Optional[float], s_aux: Optional[Tensor],
            rest: dict) -> Tuple[Tensor, None]:
    s_aux, bias = rest.get("sinks") if s_aux is None else s_aux, rest.get("position_bias")
    if softcap is None and s_aux is None:
        return sdpa_attention_forward(module, query, key, value, full, dropout, scaling, is_causal=False, **rest)
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    scores = (query @ key.transpose(2, 3)).float() * (query.shape[3]**-0.5 if scaling is None else scaling)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if bias is None else scores + bias
    if full is not None:
        scores = scores.masked_fill(~full, -torch.inf) if full.dtype == torch.bool else scores + full
    weights = torch.softmax(scores if s_aux is None else torch.cat((scores, sink_scores(scores, s_aux)), 3), 3)
    weights = torch.nn.functional.dropout(weights[..., :key.shape[2]].nan_to_num(), dropout, module.training)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def sink_scores(scores: Tensor, s_aux: Tensor) -> Tensor:
    """Of each head, or of each query [batch, heads, queries, 1]."""
    sinks = s_aux if s_aux.dim() == 4 else s_aux.view(1, -1, 1, 1)
    return sinks.to(scores.dtype).expand(*scores.shape[:3], 1)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
