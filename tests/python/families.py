#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What attn_implementation="headroom" does in each family of causal language models of transformers: tiny random
models in fp32 on the CPU, beside eager.

    families.py [--write] [FAMILY...]

Prints a row for each family; --write writes docs/notes/transformers-families.md. A family is not compared where it has
several models, or where eager cannot run its tiny config."""
import concurrent.futures
import contextlib
import copy
import datetime
import io
import logging
import multiprocessing
import pathlib
import re
import sys
import textwrap
import warnings
from typing import Dict, Iterable, List, NamedTuple
from unittest import mock

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import headroom.transformers as backend

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "notes" / "transformers-families.md"
PROMPT, TOKENS, PADDED_TOKENS, PADDING = 24, 64, 8, 5
BOUND = 2e-4  # of the largest logit
PROCESSES = 2
PADDED_STEPS = "the mask is of another kind, or there is padding that is not known before the step"
SIZES = {  # of the fields that a family's config has
    128: "vocab_size unpadded_vocab_size vocab_size_per_layer_input decoder_vocab_size",
    64: "hidden_size d_model n_embd emb_dim embedding_dim embedding_size word_embed_proj_dim input_embedding_size "
        "output_embedding_size lru_width",
    2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_decoder_layers num_blocks "
       "num_encoder_layers num_key_value_heads num_kv_heads swa_num_key_value_heads num_experts_per_tok "
       "num_experts_per_token moe_topk",
    4: "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads attention_heads "
       "num_encoder_attention_heads num_decoder_attention_heads swa_num_attention_heads num_experts num_local_experts "
       "n_routed_experts moe_num_experts linear_num_heads linear_num_value_heads linear_num_key_heads index_topk "
       "index_block_size mamba_num_heads mamba_n_heads",
    1: "n_group topk_group n_shared_experts",
    16: "head_dim d_head dim_head attention_head_size kv_channels swa_head_dim qk_nope_head_dim v_head_dim q_lora_rank "
        "kv_lora_rank linear_key_head_dim linear_value_head_dim linear_head_dim mamba_d_state state_size mamba_d_head "
        "mamba_headdim index_head_dim o_lora_rank hidden_size_per_layer_input query_pre_attn_scalar",
    8: "qk_rope_head_dim rotary_dim sliding_window sliding_window_size window_size attention_chunk_size "
       "attention_window_size local_attention",
    96: "intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim dim_ff dff d_inner moe_intermediate_size "
        "shared_expert_intermediate_size shared_intermediate_size ffn_hidden_size expert_ffn_hidden_size "
        "intermediate_size_mlp dense_intermediate_size feed_forward_size moe_shared_expert_intermediate_size "
        "shared_experts_intermediate_size",
    256: "max_position_embeddings n_positions max_seq_len n_ctx max_target_positions model_max_length",
}
FIELDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.2, is_decoder=True)
FIELDS.update((name, size) for size, names in SIZES.items() for name in names.split())
LATENT = dict(num_key_value_heads=4, qk_head_dim=24, head_dim=8)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=16)
OVERRIDES: Dict[str, dict] = {
    **dict.fromkeys(("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa",
                     "kimi_linear", "longcat_flash", "minicpm3", "sarvam_mla", "youtu", "dots3_note_text"), LATENT),
    "bailing_hybrid": dict(num_key_value_heads=4, qk_head_dim=24),
    "bamba": dict(attn_layer_indices=[1], **MAMBA),
    "granitemoehybrid": dict(layer_types=["mamba", "attention"], **MAMBA), "falcon_h1": dict(mamba_d_ssm=128, **MAMBA),
    "mamba2": dict(num_heads=8), "nemotron_h": dict(mamba_num_heads=8, mamba_head_dim=16),
    "jamba": dict(num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1, mamba_dt_rank=4),
    "minimax_m3_vl_text": dict(index_n_heads=2, index_topk_blocks=2,
                               layer_types=["full_attention", "minimax_m3_sparse"]),
    "qwen4_exp_text": dict(indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8,
                           indexer_compress_ratio=2, hc_lowrank=8, partial_rotary_factor=0.5),
    "cohere_compass_text": dict(layer_types=["sliding_attention", "full_attention"], rope_parameters=dict.fromkeys(
        ("sliding_attention", "full_attention"), dict(rope_type="default", rope_theta=1e4))),
    "dbrx": dict(attn_config=dict(kv_n_heads=2, rope_theta=1e4, clip_qkv=8),
                 ffn_config=dict(ffn_hidden_size=96, moe_num_experts=4, moe_top_k=2)),
    "zamba": dict(num_hidden_layers=4, layers_block_type=["mamba", "hybrid"] * 2, mamba_dt_rank=4,
                  attention_hidden_size=128, attention_head_dim=32),
    "gemma3n_text": dict(num_hidden_layers=4, num_kv_shared_layers=2, hidden_size_per_layer_input=16,
                         layer_types=["sliding_attention", "full_attention"] * 2),
    "gemma4_text": dict(num_hidden_layers=4, num_kv_shared_layers=2,
                        layer_types=["sliding_attention", "full_attention"] * 2),
    "deepseek_v4": dict(compress_rates={"compressed_sparse_attention": 2, "heavily_compressed_attention": 8}),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"], num_dense_layers=1),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), dict(use_sliding_window=True, max_window_layers=1)),
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"), dict(partial_rotary_factor=0.5)),
    "lara_mini": dict(linear_num_value_heads=4, linear_num_key_heads=2),
    "reformer": dict(axial_pos_shape=(16, 16), axial_pos_embds_dim=(32, 32)),
    "xmod": dict(default_language="en_XX"),
    "zaya": dict(num_experts_per_tok=1),
}
LEFT_OUT = {"xlstm": "no attention", "dory": "eager fails: its masks are shorter than the keys that its loops share"}
NO_PADDING = {"minimax_m3_vl_text": "its indexer also scores padding, which has other values in eager than in sdpa"}


class Row(NamedTuple):
    """What happens to the calls of a family's attention; `wrong` says where the models are apart."""
    family: str
    plain: str
    padded: str = ""
    why: str = ""
    wrong: str = ""


# ---- tiny configs ----


def parts(family: str) -> Dict[str, type]:
    """The configs of the models that a composite model has."""
    return {name: kind for name, kind in CONFIG_MAPPING[family].sub_configs.items()
            if name not in ("attn_config", "ffn_config")}


def words_of_layers(config) -> Dict[str, list]:
    """The fields that have a word for each layer."""
    lists = {name: list(value) for name, value in vars(config).items()
             if isinstance(value, (list, tuple)) and len(value) > 2 and all(isinstance(each, str) for each in value)}
    most = max(map(len, lists.values()), default=0)
    return {name: value for name, value in lists.items() if len(value) == most}


def kinds_of_layers(config) -> dict:
    """One layer of each kind, and at least two."""
    words = words_of_layers(config)
    kinds = list(dict.fromkeys(zip(*words.values())))
    kinds = kinds * 2 if len(kinds) == 1 else kinds
    return dict(zip(words, map(list, zip(*kinds))), num_hidden_layers=len(kinds)) if kinds else {}


def tiny(family: str):
    kind, extra = CONFIG_MAPPING[family], OVERRIDES.get(family, {})
    usual = kind()
    sizes = {name: value for name, value in FIELDS.items() if name in vars(usual) or name in kind.attribute_map}
    return kind(**{**sizes, **kinds_of_layers(usual), **extra})


# ---- models ----


def model_of(config, implementation: str):
    """No parameter is zero, which could hide the attention."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation).eval()
    for each in model.parameters():
        each.add_(torch.randn_like(each), alpha=0.02)
    return model


def tokens_of(model, ids, tokens: int, **options):
    return model.generate(ids, max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0, **options)


def apart(found, right) -> float:
    return float((found - right).abs().max() / right.abs().max())


class Calls:
    """Counts the calls that the backend computes and passes on, and notes why."""

    def __enter__(self):
        backend._said.clear()
        self.patches = [mock.patch.object(backend, name, wraps=getattr(backend, name))
                        for name in ("computed", "pass_on")]
        self.computed, self.passed = (each.start() for each in self.patches)
        return self

    def __exit__(self, *_):
        for each in self.patches:
            each.stop()
        self.reasons = {line.split(": ", 1)[1].removesuffix(": passed on to sdpa") for line in backend._said}

    def state(self) -> str:
        computed, passed = self.computed.call_count, self.passed.call_count
        return ("in part" if passed else "used") if computed else ("passed on" if passed else "own attention")


@contextlib.contextmanager
def moved_by_a_token():
    """A wrong attention, which a comparison has to notice."""
    computed, pass_on = backend.computed, backend.pass_on
    with mock.patch.object(backend, "computed", lambda *a, **b: computed(*a, **b).roll(1, 1)), \
            mock.patch.object(backend, "pass_on", lambda *a, **b: (pass_on(*a, **b)[0].roll(1, 1), None)):
        yield


# ---- families ----


def prompt():
    """Tokens, and a mask with padding before those of the first sequence."""
    ids = torch.randint(3, 128, (2, PROMPT), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :PADDING] = 0
    return ids, mask


def results(model, padded: bool) -> Iterable[torch.Tensor]:
    """Logits of a prompt, and the tokens that follow."""
    ids, mask = prompt()
    options, tokens = (dict(attention_mask=mask), PADDED_TOKENS) if padded else ({}, TOKENS)
    logits = model(ids, **options).logits
    return logits[mask.bool()] if padded else logits, tokens_of(model, ids, tokens, **options)


def wrong(what: str, found, right) -> List[str]:
    far = apart(found[0], right[0])
    return [f"{what}: logits {far:.1e} apart"] * (not far <= BOUND) + \
        [f"{what}: other tokens"] * (not torch.equal(found[1], right[1]))


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:80]}" if str(error) else type(error).__name__


def look(family: str) -> Row:
    if family in LEFT_OUT or parts(family):
        text = getattr(parts(family).get("text_config"), "model_type", None)
        composite = f"composite: its text model is {text}" if text else "composite: several models"
        return Row(family, "left out", "", LEFT_OUT.get(family, composite))
    try:
        config = tiny(family)
        eager = model_of(config, "eager")
        right = [results(eager, padded) for padded in (False, True)]
    except Exception as error:  # whatever a config of another version says
        return Row(family, "left out", "", f"eager fails: {first_line(error)}")
    try:
        return compared(family, model_of(config, backend.NAME), right)
    except KeyError as error:
        if error.args != (backend.NAME,):
            raise
        return Row(family, "own attention", "", "a model cannot be made with another")


def attention_of(model) -> str:
    names = {type(each).__name__ for each in model.modules()}
    return "it computes it itself" if any("att" in name.lower() for name in names) else "no attention"


def compared(family: str, model, right) -> Row:
    with Calls() as plain:
        faults = wrong("plain", results(model, False), right[0])
    with Calls() as padded:
        faults += wrong("padded", results(model, True), right[1]) if family not in NO_PADDING else []
    if plain.state() == "own attention":
        return Row(family, plain.state(), "", attention_of(model), "; ".join(faults))
    with moved_by_a_token():
        if apart(model(prompt()[0]).logits, right[0][0]) < 10 * BOUND:
            faults.append("an attention that is wrong is not noticed")
    why = plain.reasons | (padded.reasons - {PADDED_STEPS}) | ({NO_PADDING[family]} if family in NO_PADDING else set())
    return Row(family, plain.state(), padded.state() if family not in NO_PADDING else "not compared",
               "; ".join(sorted(why)), "; ".join(faults))


def looked(family: str) -> Row:
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return look(family)
        except Exception as error:  # Headroom's, or the model's with it
            return Row(family, "fails", "", "", first_line(error))


def begin() -> None:
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)


def rows(families: Iterable[str] = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) -> List[Row]:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(PROCESSES, context, begin) as pool:
        return list(pool.map(looked, families))


# ---- the page ----


def page(found: List[Row]) -> str:
    count = {state: sum(row.plain == state for row in found) for state in ("used", "in part", "passed on")}
    lines = [f"| {' | '.join(row[:4])} |".replace("|  |", "| |") for row in found]
    text = textwrap.fill(f"""Of the {len(found)} families of causal language models, {count['used']} use Headroom's
attention for all calls, {count['in part']} for some, and {count['passed on']} for none. Each was compared with eager by
a tiny random model in fp32: the logits of a prompt of {PROMPT} tokens are within {BOUND:g} of the largest one, and the
{TOKENS} tokens that follow are the same; likewise with {PADDING} tokens of padding before a sequence and
{PADDED_TOKENS} tokens. With padding "in part" means that prompts are computed and steps passed on: the kernels for
steps take no first keys. Families with "own attention" do not ask for another one. Nothing was compared where no
model can be made, and of those left out.""", 120)
    return f"""<!-- Written by tests/python/families.py --write -->
# Families of transformers

transformers {transformers.__version__}, PyTorch {torch.__version__.split('+')[0]}, CPU, {datetime.date.today()}.

{text}

| family | without padding | with padding | why |
|---|---|---|---|
""" + "\n".join(lines) + "\n"


def written() -> Dict[str, tuple]:
    """The rows of the page, by family."""
    cells = re.findall(r"^\| (.*) \|$", PAGE.read_text().replace("| |", "|  |"), re.M)[1:]
    return {each[0]: each for each in (tuple(cell.strip() for cell in line.split(" | ")) for line in cells)}


def written_version() -> str:
    return re.search(r"^transformers ([0-9.]*[0-9])", PAGE.read_text(), re.M)[1]


def main() -> int:
    families = [each for each in sys.argv[1:] if not each.startswith("--")]
    found = rows(families or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    for row in found:
        print(*row, sep=" | ")
    if "--write" in sys.argv[1:] and not families:
        PAGE.write_text(page(found))
    return int(any(row.wrong for row in found))


if __name__ == "__main__":
    sys.exit(main())
