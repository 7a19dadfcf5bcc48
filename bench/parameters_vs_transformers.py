#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the parameters of models twice: by `headroom describe` and by building them with Hugging Face transformers.

    parameters_vs_transformers.py HEADROOM [CONFIG.json ...]     default: data/models/*.json
    parameters_vs_transformers.py HEADROOM --random N            N random small configurations of every family

Needs `pip install torch transformers`; the models are built without memory for their weights (device "meta").
Exits 1 if any count differs. Configurations that transformers does not know (short form, sigma) are left out.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"


def by_transformers(config):
    fields = {key: value for key, value in config.items() if not key.startswith("_") and key != "model_type"}
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(config["model_type"], **fields))
    return sum(p.numel() for p in model.parameters())  # shared weights are counted once


def by_headroom(command, path):
    done = subprocess.run([command, "describe", "--format", "json", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return json.loads(done.stdout)["parameters"]


def random_config(family, rng):
    """A small model with every optional switch set at random."""
    heads = rng.choice([2, 4, 6, 8])
    kv = rng.choice([k for k in (1, 2, 4, 8) if heads % k == 0])
    size = rng.choice([8, 16, 24])
    h, layers, vocabulary, positions = heads * size, rng.randint(1, 4), rng.randint(50, 999), rng.choice([64, 128])
    width = rng.choice([h * 4, h * 3 + 8])
    coin = lambda: rng.random() < 0.5
    llama = dict(hidden_size=h, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
                 intermediate_size=width, vocab_size=vocabulary, max_position_embeddings=positions,
                 tie_word_embeddings=coin())
    gpt = dict(n_embd=h, n_layer=layers, n_head=heads, vocab_size=vocabulary, n_positions=positions)
    rows = {
        "gpt2": dict(gpt, n_inner=rng.choice([None, width]), tie_word_embeddings=coin()),
        "gpt_neo": dict(hidden_size=h, num_layers=layers, num_heads=heads, vocab_size=vocabulary,
                        max_position_embeddings=positions, intermediate_size=rng.choice([None, width]),
                        attention_types=[[["global", "local"][:2], 1]] if layers == 2 else [[["global"], layers]]),
        "gpt_neox": dict(hidden_size=h, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=width,
                         vocab_size=vocabulary, tie_word_embeddings=coin(), use_parallel_residual=coin(),
                         attention_bias=coin()),
        "gptj": dict(gpt, rotary_dim=8, n_inner=rng.choice([None, width])),
        "opt": dict(hidden_size=h, num_hidden_layers=layers, num_attention_heads=heads, ffn_dim=width,
                    vocab_size=vocabulary, max_position_embeddings=positions, enable_bias=coin(),
                    word_embed_proj_dim=rng.choice([h, h // 2]), do_layer_norm_before=coin(),
                    layer_norm_elementwise_affine=coin()),
        "bloom": dict(hidden_size=h, n_layer=layers, n_head=heads, vocab_size=vocabulary),
        "falcon": dict(hidden_size=h, num_hidden_layers=layers, num_attention_heads=heads, vocab_size=vocabulary,
                       bias=coin(), alibi=coin(), multi_query=coin(), parallel_attn=coin(),
                       new_decoder_architecture=coin(), num_kv_heads=kv),
        "llama": dict(llama, attention_bias=coin(), mlp_bias=coin()),
        "mistral": dict(llama, head_dim=rng.choice([size, 32])),
        "qwen2": llama,
        "qwen3": dict(llama, head_dim=rng.choice([size, 32]), attention_bias=coin()),
        "gemma": dict(llama, head_dim=rng.choice([size, 32]), attention_bias=coin()),
        "gemma2": dict(llama, head_dim=rng.choice([size, 32]), attention_bias=coin()),
        "phi": dict(llama, qk_layernorm=coin(), partial_rotary_factor=0.5),
        "phi3": dict(llama, pad_token_id=0),
        "stablelm": dict(llama, use_qkv_bias=coin(), qk_layernorm=coin(), use_parallel_residual=coin()),
        "starcoder2": dict(llama, use_bias=coin()),
        "olmo2": dict(llama, attention_bias=coin()),
    }
    return dict(rows[family], model_type=family)


FAMILIES = ["gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "llama", "mistral", "qwen2", "qwen3",
            "gemma", "gemma2", "phi", "phi3", "stablelm", "starcoder2", "olmo2"]


def configs(arguments):
    if arguments[:1] == ["--random"]:
        rng = random.Random(1)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="headroom-"))
        for number in range(int(arguments[1])):
            for family in FAMILIES:
                path = folder / f"{family}-{number}.json"
                path.write_text(json.dumps(random_config(family, rng)))
                yield path
        return
    yield from [pathlib.Path(path) for path in arguments] or sorted(MODELS.glob("*.json"))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    same = different = left_out = 0
    for path in configs(sys.argv[2:]):
        config = json.loads(path.read_text())
        if config.get("model_type") in (None, "sigma"):
            left_out += 1
            continue
        try:
            expected = by_transformers(config)
        except Exception as problem:  # transformers refuses some random combinations: nothing to compare
            print(f"{path.name}: left out: transformers: {str(problem).splitlines()[0][:100]}")
            left_out += 1
            continue
        found = by_headroom(sys.argv[1], path)
        if found == expected:
            same += 1
        else:
            different += 1
            print(f"{path.name}: headroom {found}, transformers {expected}  {json.dumps(config)[:600]}")
    print(f"{same} equal, {different} different, {left_out} left out")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
