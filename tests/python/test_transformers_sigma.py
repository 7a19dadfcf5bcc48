# SPDX-License-Identifier: Apache-2.0
"""SIGMA's model: parameters beside the command's, three attentions beside each other, on small random models."""
import copy
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import headroom.transformers
from headroom.transformers.sigma import SigmaConfig

MODELS = pathlib.Path(__file__).resolve().parents[2] / "data/models"
SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8,
             num_key_heads=2, num_value_heads=4, augmented_q_dim=96, max_position_embeddings=256, initializer_range=0.2,
             pad_token_id=0)
SHAPES = {"key heads": {}, "half key heads": dict(key_head_dim=8, value_head_dim=16),
          "large key heads": dict(key_head_dim=16, value_head_dim=8), "Q of one layer": dict(augmented_q_dim=None),
          "tied": dict(tie_word_embeddings=True, num_key_heads=8, num_value_heads=1)}
ATTENTIONS = ("eager", "sdpa", "headroom")


def described_parameters(config):
    """What `headroom describe` counts for a config.json."""
    folder = os.environ.get("HEADROOM_LIBRARY_FOLDER")
    command = os.path.join(folder, "headroom") if folder else shutil.which("headroom")
    told = subprocess.run([command, "describe", config, "-f", "json"], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["parameters"]


def parameters(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(each.numel() for each in model.parameters())


def models(attentions=ATTENTIONS, **sizes):
    """The same model with each attention."""
    config, made = SigmaConfig(**{**SIZES, **sizes}), []
    torch.manual_seed(0)
    for each in attentions:
        made.append(AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=each).eval())
        made[-1].load_state_dict(made[0].state_dict())
    return made


def generated(model, ids, tokens=64, **options):
    return model.generate(ids, max_new_tokens=tokens, do_sample=False, eos_token_id=None, **options)


class Sigma(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.ids = torch.randint(3, 128, (2, 24))

    def close(self, found, right):
        torch.testing.assert_close(found, right, atol=2e-4, rtol=2e-4)

    def test_the_shipped_models_have_as_many_parameters_as_the_command_says(self):
        paths = sorted(MODELS.glob("sigma-*.json"))
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            with self.subTest(path.stem):
                self.assertEqual(parameters(AutoConfig.from_pretrained(path)), described_parameters(path))

    def test_a_saved_model_is_the_same_again_and_its_config_is_one_for_the_command(self):
        for name, sizes in SHAPES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                model, = models(("headroom",), **sizes)
                model.save_pretrained(folder)
                again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="headroom")
                self.assertTrue(torch.equal(again(self.ids).logits, model(self.ids).logits))
                self.assertEqual(described_parameters(f"{folder}/config.json"), parameters(again.config))

    @torch.no_grad()
    def test_three_attentions_give_the_same_logits_and_greedy_tokens(self):
        for name, sizes in SHAPES.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("error")
                eager, sdpa, own = models(**sizes)
                right, tokens = eager(self.ids).logits, generated(eager, self.ids)
                for each in (sdpa, own):
                    self.close(each(self.ids).logits, right)
                    self.assertTrue(torch.equal(generated(each, self.ids), tokens))

    @torch.no_grad()
    def test_headroom_gets_unequal_heads_as_they_are_and_the_cache_has_no_more(self):
        own, = models(("headroom",), **SHAPES["half key heads"])
        with mock.patch.object(headroom.transformers, "computed", wraps=headroom.transformers.computed) as computed:
            cache = own(self.ids, use_cache=True).past_key_values
        q, k, v = computed.call_args.args[:3]
        self.assertEqual([tuple(x.shape) for x in (q, k, v)], [(2, 24, 8, 8), (2, 24, 2, 8), (2, 24, 4, 16)])
        self.assertEqual(tuple(cache.layers[0].keys.shape), (2, 2, 24, 8))
        self.assertEqual(tuple(cache.layers[0].values.shape), (2, 4, 24, 16))

    @torch.no_grad()
    def test_a_static_cache_has_room_for_each(self):
        eager, *others = models(**SHAPES["half key heads"])
        right = generated(eager, self.ids[:1], 32)
        for each in (eager, *others):
            found = generated(each, self.ids[:1], 32, cache_implementation="static", disable_compile=True)
            self.assertTrue(torch.equal(found, right))

    @torch.no_grad()
    def test_what_headroom_passes_on_has_repeated_heads(self):
        eager, own = models(("eager", "headroom"), **SHAPES["half key heads"])
        mask = torch.ones_like(self.ids)
        mask[0, :5] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, right = (each(self.ids, attention_mask=mask).logits[mask.bool()] for each in (own, eager))
            self.close(found, right)
            self.assertTrue(torch.equal(*(generated(each, self.ids, 16, attention_mask=mask) for each in (own, eager))))

    def test_gradients_are_those_of_eager_and_training_learns(self):
        for name, sizes in SHAPES.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*passed on")
                eager, own = (each.train() for each in models(("eager", "headroom"), **sizes))
                for each in (eager, own):
                    each(self.ids, labels=self.ids).loss.backward()
                for right, found in zip(eager.parameters(), own.parameters()):
                    self.close(found.grad, right.grad)
                optimizer, losses = torch.optim.AdamW(own.parameters(), lr=1e-2), []
                for _ in range(10):
                    losses.append(own(self.ids, labels=self.ids).loss)
                    optimizer.zero_grad()
                    losses[-1].backward()
                    optimizer.step()
                self.assertLess(float(losses[-1]), 0.7 * float(losses[0]))

    @torch.no_grad()
    def test_a_compiled_model_has_no_break_and_the_same_logits(self):
        for each in models():
            compiled = torch.compile(each, fullgraph=True, backend="aot_eager")
            self.close(compiled(self.ids, use_cache=False).logits, each(self.ids, use_cache=False).logits)
            torch._dynamo.reset()

    def test_a_wrong_config_names_its_field(self):
        for field, value in (("num_key_heads", 3), ("num_value_heads", 3), ("num_attention_heads", 0),
                             ("num_key_heads", 0), ("hidden_size", -64), ("augmented_q_dim", 0), ("key_head_dim", 7),
                             ("value_head_dim", 0), ("vocab_size", "many"), ("num_hidden_layers", 1.5)):
            with self.subTest(field, value=value), self.assertRaisesRegex(ValueError, f"^{field}: "):
                SigmaConfig(**{**SIZES, field: value})
        with self.assertRaisesRegex(ValueError, "^num_attention_heads: 8 does not divide hidden_size, 60"):
            SigmaConfig(**{**SIZES, "hidden_size": 60})


if __name__ == "__main__":
    unittest.main()
