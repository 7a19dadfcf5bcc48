#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the parameters of models twice: by `headroom describe` and by building them with Hugging Face transformers.

    parameters_vs_transformers.py HEADROOM [CONFIG.json ...]           default: data/models/*.json
    parameters_vs_transformers.py HEADROOM --random N [FAMILY ...]     N random small configurations of every family
    parameters_vs_transformers.py HEADROOM --defaults                  the default of every causal language model

Totals count shared weights once; a mixture of experts is also compared in the parameters that one token uses. A
configuration with a nested text_config is compared in its text part. Needs `pip install torch transformers`; the models
are built without memory for their weights (device "meta"). What Headroom refuses is listed at the end, and what
transformers cannot build (the short form, sigma, models with code of their own) is left out.
Exits 1 if any count differs. bench/random_models.py is the table of random configurations: one row a family.
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers
from transformers.models.auto import modeling_auto

from random_models import FAMILIES, random_config

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity(transformers.logging.CRITICAL)
MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
NOT_OF_MODELS = {None, "sigma"}
OTHER_NAMES = {"minimax_m3": "minimax_m3_vl_text", "deepseek_ref": "deepseek_v4"}  # what transformers calls them
CHOSEN = ("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
NOT_TEXT = re.compile(r"(^|\.)(visual|vision_\w+|audio_\w+|embed_vision|embed_audio|multi_modal_projector|connector)\.")
CAUSAL = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
CLASSIFIERS = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES


def first(config, names):
    """The first of the fields that config has, as the configuration class names it."""
    for name in names:
        value = getattr(config, name, None)
        if value:
            return value[0] if isinstance(value, list) else value
    return None


def build(config):
    """The model that the configuration's `architectures` names, else the causal language model of its model_type."""
    name = (getattr(config, "architectures", None) or [""])[0]
    chosen = getattr(transformers, name, None)
    with torch.device("meta"):
        if isinstance(getattr(chosen, "config_class", None), type):
            return chosen(config)
        return transformers.AutoModelForCausalLM.from_config(config)


def is_routed(name, parameter, experts):
    """Whether a parameter belongs to experts among which the router chooses, all of a layer stored together."""
    if re.search(r"\.(input_linear|output_linear)\.weight$", name):  # Granite, JetMoE: one matrix an expert
        return parameter.dim() == 3 and parameter.shape[0] == experts
    if ".experts.mlp." in name:  # DBRX: experts · width rows
        return True
    return ".experts." in name and parameter.shape[0] == experts


def by_transformers(path):
    """(total, active) parameters; active is None where no expert is left out."""
    fields = json.loads(path.read_text())
    for name in ("quantization_config", "auto_map"):
        fields.pop(name, None)  # a model is counted by its shapes, with transformers' own code
    if fields.get("model_type") in OTHER_NAMES:
        fields["model_type"] = OTHER_NAMES[fields["model_type"]]
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(fields))
        config = transformers.AutoConfig.from_pretrained(folder)
    text = config.get_text_config()
    alone = isinstance(fields.get("text_config"), dict) and text.model_type in CAUSAL
    model = build(text if alone else config)
    details = getattr(text, "ffn_config", None)
    chosen = first(text, CHOSEN) or getattr(details, "moe_top_k", None)
    experts = first(text, EXPERTS) or getattr(details, "moe_num_experts", None)
    total = idle = 0
    for name, parameter in model.named_parameters():  # each shared weight once
        if text is not config and NOT_TEXT.search(name):
            continue
        total += parameter.numel()
        if chosen and experts and is_routed(name, parameter, experts):
            idle += parameter.numel() // experts * (experts - chosen)
    return total, total - idle if idle else None


def by_headroom(command, path):
    """(total, active), or why Headroom refuses the configuration."""
    done = subprocess.run([command, "describe", "--format", "json", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode} without a message"])[-1]
    document = json.loads(done.stdout)
    return document["parameters"], document.get("active_parameters")


def random_paths(number, families, folder):
    rng = random.Random(1)
    for index in range(number):
        for family in families or FAMILIES:
            path = pathlib.Path(folder) / f"{family}-{index}.json"
            config = random_config(family, rng)
            if family in CLASSIFIERS and rng.random() < 0.1:
                labels = [f"LABEL_{label}" for label in range(rng.randint(1, 5))]
                config.update(architectures=[CLASSIFIERS[family]], id2label=dict(enumerate(labels)))
            path.write_text(json.dumps(config))
            yield path


def default_paths(folder):
    for family in sorted(CAUSAL):
        try:
            fields = json.loads(transformers.AutoConfig.for_model(family).to_json_string(use_diff=False))
        except Exception as problem:  # a class without defaults
            print(f"{family}: left out: transformers: {' '.join(str(problem).split())[:100]}")
            continue
        path = pathlib.Path(folder) / f"{family}.json"
        path.write_text(json.dumps(dict(fields, model_type=family, architectures=[CAUSAL[family]])))
        yield path


def paths(arguments, folder):
    if arguments[:1] == ["--defaults"]:
        return default_paths(folder)
    if arguments[:1] == ["--random"]:
        return random_paths(int(arguments[1]), arguments[2:], folder)
    return [pathlib.Path(path) for path in arguments] or sorted(MODELS.glob("*.json"))


def compare(command, path, tally, refusals):
    config = json.loads(path.read_text())
    family = config.get("model_type")
    if family in NOT_OF_MODELS:
        tally["left out"] += 1
        return
    found = by_headroom(command, path)
    if isinstance(found, str):
        tally["refused"] += 1
        refusals.setdefault(family, []).append((path.name, found.replace(str(path), "CONFIG")))
        return
    try:
        expected = by_transformers(path)
    except Exception as problem:  # transformers refuses some combinations: nothing to compare
        print(f"{path.name}: left out: transformers: {' '.join(str(problem).split())[:100]}")
        tally["left out"] += 1
        return
    if found == expected:
        tally["equal"] += 1
        return
    tally["different"] += 1
    print(f"{path.name}: headroom {found[0]}, transformers {expected[0]}"
          + (f"; active: headroom {found[1]}, transformers {expected[1]}" if found[1] != expected[1] else "")
          + f"  {json.dumps(config)[:700]}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tally = {"equal": 0, "different": 0, "refused": 0, "left out": 0}
    refusals = {}
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        for path in paths(sys.argv[2:], folder):
            compare(sys.argv[1], path, tally, refusals)
    for family, rows in sorted(refusals.items()):
        name, reason = rows[0]
        print(f"refused: {family}: {len(rows)}; the first, {name}: {reason[:160]}")
    print(", ".join(f"{count} {kind}" for kind, count in tally.items()))
    sys.exit(1 if tally["different"] else 0)


if __name__ == "__main__":
    main()
