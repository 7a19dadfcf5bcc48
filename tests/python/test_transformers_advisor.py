# SPDX-License-Identifier: Apache-2.0
"""The advisor on configurations and modules of transformers."""
import tempfile
import unittest

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import headroom

SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=256, pad_token_id=0)
FAMILIES = {"gemma2": {}, "gpt2": dict(n_embd=64, n_head=4, n_layer=2), "gpt_neox": {}, "llama": {}, "mistral": {},
            "mixtral": dict(num_local_experts=4), "olmo2": {}, "opt": dict(ffn_dim=96, word_embed_proj_dim=64),
            "phi": {}, "phi3": {}, "qwen2": {}, "qwen3": {}, "stablelm": {}, "starcoder2": {}}


class Advisor(unittest.TestCase):
    def test_a_module_has_the_parameters_that_are_counted(self):
        for family, sizes in FAMILIES.items():
            with self.subTest(family):
                config = AutoConfig.for_model(family, **{**SIZES, **sizes})
                with torch.device("meta"):
                    module = AutoModelForCausalLM.from_config(config)
                parameters = sum(each.numel() for each in {id(each): each for each in module.parameters()}.values())
                self.assertEqual(headroom.describe(config).parameters, parameters)
                self.assertEqual(headroom.describe(module).to_dict(), headroom.describe(config).to_dict())

    def test_a_configuration_is_the_one_that_it_saves(self):
        for family, sizes in FAMILIES.items():
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                config = AutoConfig.for_model(family, **{**SIZES, **sizes}, dtype=torch.bfloat16)
                config.save_pretrained(folder)
                saved, found = (headroom.describe(each).to_dict() for each in (folder, config))
                found["model"]["name"] = saved["model"]["name"]
                self.assertEqual(found, saved)
