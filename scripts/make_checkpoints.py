#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes small checkpoints with random weights by transformers' save_pretrained(), each with what transformers computes
from it: logits of a prompt and the ids of greedy decoding.

    make_checkpoints.py tests/data/checkpoints            the families below, as they are in the repository
    make_checkpoints.py FOLDER --all --size small llama   larger ones; --all: also families beside those kept

A folder per family has config.json, model.safetensors and expected.safetensors: "prompt" and "greedy" (int32),
"logits" (fp32, a row for each token of the prompt), and of those that train "losses" (fp32): the mean before each of
eight steps of AdamW on the prompt and as many greedy ids. Needs torch and transformers; the versions are in the metadata of
expected.safetensors."""
import argparse
import pathlib
import shutil
import sys

PROMPT = {"tiny": 14, "small": 100}
GREEDY = 64
STEPS, RATE = 8, 3e-3  # of AdamW
SPREAD = {"tiny": 0.25, "small": 0.09}  # of matrices: some 1.4 / sqrt(hidden)

# Sizes by the names that configurations give them; a family takes those that its configuration has.
SIZES = {
    "tiny": {
        "vocab_size": 48, "hidden_size": 32, "n_embd": 32, "d_model": 32, "num_hidden_layers": 2, "n_layer": 2,
        "n_layers": 2, "num_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
        "attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "wide_head_dim": 16, "intermediate_size": 32,
        "n_inner": 32,
        "ffn_dim": 32, "dff": 32, "ffn_hidden_size": 32, "rotary_dim": 4, "sliding_window": 8,
        "window_size": 8, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
        "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 12, "shared_intermediate_size": 12,
    },
    "small": {
        "vocab_size": 512, "hidden_size": 256, "n_embd": 256, "d_model": 256, "num_hidden_layers": 4, "n_layer": 4,
        "n_layers": 4, "num_layers": 4, "num_attention_heads": 8, "n_head": 8, "n_heads": 8, "num_heads": 8,
        "attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "wide_head_dim": 64, "intermediate_size": 384,
        "n_inner": 384,
        "ffn_dim": 384, "dff": 384, "ffn_hidden_size": 384, "rotary_dim": 16,
        "sliding_window": 24, "window_size": 24, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16, "v_head_dim": 32, "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8,
        "moe_num_experts": 8, "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 96, "shared_intermediate_size": 96,
    },
}
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "original_max_position_embeddings")
PLAIN = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None, "use_cache": False}

WIDER = {"head_dim": "wide_head_dim"}  # heads together wider than hidden
LATENT = {"num_key_value_heads": "num_attention_heads", "head_dim": "qk_rope_head_dim"}

# Families in the repository, and what differs from the sizes above: a value, the name of a size that is taken, or a
# function of the sizes. A list of two is repeated for all layers. "type" is the model_type where it is not the key,
# "attention" the implementation where it is not the eager one, "fp8" what has a scale where linear layers are stored in
# fp8, "prompt" its tokens.
KEPT = {
    "gpt2": {},
    "gpt_bigcode": {},
    "gpt_neo": {"attention_types": lambda size: [[["global", "local"], size["num_layers"] // 2]]},
    "gptj": {},
    "gpt_neox": {},
    "codegen": {"bos_token_id": 0},
    "opt": {"pad_token_id": 1},
    "opt_projected": {"type": "opt", "pad_token_id": 1, "word_embed_proj_dim": 16},
    "bloom": {"hidden_size": 24, "n_head": 3},
    "falcon": {"num_kv_heads": 1},
    "falcon_new": {"type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon_alibi": {"type": "falcon", "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True,
                     "attention": "sdpa"},  # eager attention of 5.17 adds ALiBi twice
    "mpt": {"d_model": 16, "n_heads": 2},
    "llama": {},
    "llama_fp8": {"type": "llama", "intermediate_size": 160, "fp8": "block"},  # two blocks of scales
    "mistral": {},
    "qwen2": {},
    "qwen2_fp8": {"type": "qwen2", "intermediate_size": 80, "fp8": "tensor"},
    "qwen3": WIDER,
    "phi": {"num_key_value_heads": "num_attention_heads"},
    "phi3": {"pad_token_id": 0},
    "gemma": WIDER,
    "gemma_erf": {"type": "gemma", **WIDER, "hidden_act": "gelu"},
    "gemma2": {"query_pre_attn_scalar": "head_dim"},
    "gemma3_text": {"query_pre_attn_scalar": "head_dim", "layer_types": ["sliding_attention", "full_attention"]},
    "stablelm": {"use_qkv_bias": True},
    "stablelm_per_head": {"type": "stablelm", "qk_layernorm": True, "use_parallel_residual": True},
    "starcoder2": {},
    "cohere": {},
    "glm": {},
    "glm4": {},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5,
                "attention_multiplier": 0.25},
    "smollm3": {"no_rope_layers": [1, 0]},
    "nemotron": {},
    "olmo": {},
    "olmo2": {},
    "mixtral": {"intermediate_size": "moe_intermediate_size"},
    "qwen2_moe": {},
    "qwen3_moe": {},
    "gpt_oss": {"intermediate_size": "moe_intermediate_size", "layer_types": ["sliding_attention", "full_attention"]},
    "glm4_moe": {"n_group": 2, "topk_group": 1},
    "granitemoe": {"intermediate_size": "moe_intermediate_size"},
    "deepseek_v2": {**LATENT, "first_k_dense_replace": 1, "n_shared_experts": 1},
    "deepseek_v3": {**LATENT, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1},
    "deepseek_v3_yarn": {"type": "deepseek_v3", **LATENT, "q_lora_rank": None, "first_k_dense_replace": 2,
                         "n_group": 2, "topk_group": 1,
                         "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "mscale": 1.0,
                                             "mscale_all_dim": 0.8, "beta_fast": 32, "beta_slow": 1,
                                             "original_max_position_embeddings": 20}},
    "llama4_text": {"intermediate_size_mlp": "intermediate_size", "intermediate_size": "moe_intermediate_size",
                    "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 16,
                    "floor_scale": 8, "no_rope_layers": [1, 0], "prompt": 40,
                    "layer_types": ["chunked_attention", "full_attention"]},
}
UNTRAINED = ("gpt_oss", "llama4_text")  # sinks, chunks
MORE = {
    "persimmon": {},
    "arcee": {},
    "exaone4": {"layer_types": ["sliding_attention", "full_attention"]},
    "cohere2": {"layer_types": ["sliding_attention", "full_attention"]},
    "olmoe": {"intermediate_size": "moe_intermediate_size"},
    "minicpm3": {**LATENT, "dim_model_base": 16},
    "gpt-sw3": {},
    "openai-gpt": {},
    "gpt_neox_japanese": {"intermediate_multiple_size": 2},
    "ctrl": {},
    "xglm": {"pad_token_id": 1},
    "biogpt": {"pad_token_id": 1},
    "youtu": LATENT,
    "glm4_moe_lite": {"num_key_value_heads": "num_attention_heads", "mlp_layer_types": None},
    "axk1": {**LATENT, "n_group": 2, "topk_group": 1},
    "flex_olmo": {},
    "phimoe": {},
    "dots1": {"first_k_dense_replace": 1, "n_shared_experts": 1, "n_routed_experts": 4},
    "solar_open": {},
    "exaone_moe": {},
    "minimax_m2": {"rotary_dim": "rotary_dim"},
    "ernie4_5_moe": {},
    "hunyuan_v1_moe": {},
    "dbrx": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 2},
             "ffn_config": {"ffn_hidden_size": 8, "moe_num_experts": 4, "moe_top_k": 2}},
    "cohere2_moe": {},
    "granitemoeshared": {},
    "aria_text": {"intermediate_size": "moe_intermediate_size"},
    "ernie4_5": {},
    "seed_oss": {},
    "apertus": {},
    "jais2": {},
    "helium": {},
    "hunyuan_v1_dense": {},
    "ministral": {},
    "cwm": {},
    "hyperclovax": {},
    "vaultgemma": {"query_pre_attn_scalar": "head_dim"},
    "nanochat": {},
    "olmo3": {"layer_types": ["sliding_attention", "full_attention"]},
}


def value_of(value, sizes):
    if callable(value):
        return value(sizes)
    if isinstance(value, list) and len(value) == 2:
        return value * (sizes["num_layers"] // 2)
    return sizes.get(value, value) if isinstance(value, str) else value


def config_of(name, changes, size):
    from transformers import AutoConfig
    changes = dict(changes)
    model_type = changes.pop("type", name)
    changes.pop("attention", None)
    changes.pop("fp8", None)
    prompt = changes.pop("prompt", PROMPT[size])
    fields = AutoConfig.for_model(model_type)
    known = set(fields.to_dict()) | set(getattr(fields, "attribute_map", {}))
    positions = prompt + GREEDY + 2
    values = {field: value for field, value in {**SIZES[size], **dict.fromkeys(POSITIONS, positions), **PLAIN}.items()
              if field in known and field not in getattr(fields, "attribute_map", {})}
    values.update({field: value_of(value, SIZES[size]) for field, value in changes.items()})
    return AutoConfig.for_model(model_type, **values)


def fill(model, seed, spread):
    """Weights whose logits discriminate: matrices keep the size of what they multiply, norms differ from one.
    Embeddings are small beside what the layers add, so that a tied head does not just repeat its input."""
    import torch
    generator = torch.Generator().manual_seed(seed)
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point() or name.endswith(("inv_freq", "embed_scale", "embed_positions.weights")):
                continue
            if "e_score_correction_bias" not in name and name not in dict(model.named_parameters()):
                continue
            values = torch.randn(tensor.shape, generator=generator)
            if tensor is embedding:
                tensor.copy_(values * spread * 0.4)
            elif tensor.dim() > 1:
                tensor.copy_(values * spread)
            elif name.endswith("bias") or "sinks" in name:
                tensor.copy_(values * 0.2)
            else:
                tensor.copy_(values * 0.2 + (0 if tensor.abs().max() == 0 else 1))


def narrow(model, scaled):
    """Rounds the matrices of linear layers to fp8 with a scale for each block of 128 x 128, as DeepSeek-V3 has them, or
    for each tensor; returns what is stored in their place."""
    import torch
    stored = {}
    side = 128 if scaled == "block" else 1 << 20
    for name, tensor in model.named_parameters():
        if tensor.dim() != 2 or "layers." not in name:
            continue
        rows, columns = tensor.shape
        scales = torch.zeros(-(-rows // side), -(-columns // side))
        values = torch.zeros(rows, columns, dtype=torch.float8_e4m3fn)
        for i in range(scales.shape[0]):
            for j in range(scales.shape[1]):
                block = (slice(side * i, side * i + side), slice(side * j, side * j + side))
                scales[i, j] = tensor.data[block].abs().max() / 448
                values[block] = (tensor.data[block] / scales[i, j]).to(torch.float8_e4m3fn)
                tensor.data[block] = values[block].float() * scales[i, j]
        stored[name] = values
        stored[name + "_scale_inv"] = scales if scaled == "block" else scales[0, 0].clone()
    return stored


def store_narrow(folder, stored, scaled):
    """Replaces the matrices of a checkpoint that was saved in fp32."""
    import json
    from safetensors.torch import load_file, save_file
    save_file({**load_file(folder / "model.safetensors"), **stored}, folder / "model.safetensors",
              metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8",
                                     "weight_block_size": [128, 128] if scaled == "block" else None,
                                     "activation_scheme": "dynamic"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def logits_of(model, ids):
    import torch
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt):
    """Token after token with whole passes, so that no cache has a part in it; and the smallest gap between the largest
    two logits, as a share of the largest."""
    ids, gap = list(prompt), 1.0
    for _ in range(GREEDY):
        row = logits_of(model, ids)[-1]
        best = row.topk(2).values
        gap = min(gap, float((best[0] - best[1]) / row.abs().max()))
        ids.append(int(row.argmax()))
    return ids[len(prompt):], gap


def expected(model, config, count):
    """Prompt, logits and greedy ids; how far the logits are from those of fp64, and the smallest gap."""
    import torch
    prompt = [int(i) for i in torch.randint(3, config.vocab_size, (count,), generator=torch.Generator().manual_seed(7))]
    logits = logits_of(model, prompt).float()
    ids, gap = greedy(model, prompt)
    exact = logits_of(model.double(), prompt).double()
    model.float()
    error = float((logits.double() - exact).abs().max() / exact.abs().max())
    return prompt, logits, ids, error, gap


def losses_of(model, sequences):
    """The model is left trained."""
    import torch
    ids = torch.tensor(sequences)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def make(folder, name, changes, size):
    """Tries seeds until fp32 and fp64 agree and no greedy choice is close."""
    import torch
    import transformers
    transformers.utils.logging.disable_progress_bar()
    from safetensors.torch import save_file
    config = config_of(name, changes, size)
    attention = changes.get("attention", "eager")
    experts = {"experts_implementation": "eager"} if "expert" in str(config) else {}
    for seed in range(1, 20):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention, **experts)
        model.float().eval()
        fill(model, seed, SPREAD[size])
        stored = narrow(model, changes["fp8"]) if "fp8" in changes else {}
        prompt, logits, ids, error, gap = expected(model, config, changes.get("prompt", PROMPT[size]))
        if error < 1e-5 and gap > 1e-3 and len(set(ids)) > 4:
            break
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if stored:
        store_narrow(folder, stored, changes["fp8"])
    tensors = {"prompt": torch.tensor(prompt, dtype=torch.int32), "greedy": torch.tensor(ids, dtype=torch.int32),
               "logits": logits.contiguous()}
    if name not in UNTRAINED and not stored:
        losses = losses_of(model, [prompt[:GREEDY], ids[:len(prompt)]])
        tensors["losses"] = torch.tensor(losses)
    save_file(tensors, folder / "expected.safetensors",
              metadata={"transformers": transformers.__version__, "torch": torch.__version__, "seed": str(seed)})
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{name}: seed {seed}, {error:.1e} from fp64, smallest gap {gap:.1e}, {len(set(ids))} ids, {size} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    options = parser.parse_args()
    families = {**KEPT, **(MORE if options.all else {})}
    failed = 0
    for name in options.families or families:
        try:
            print(make(options.folder / name, name, families[name], options.size), flush=True)
        except Exception as why:  # one family that this transformers cannot make leaves the others
            print(f"{name}: {type(why).__name__}: {str(why)[:300]}", file=sys.stderr, flush=True)
            failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
