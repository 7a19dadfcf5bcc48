# SPDX-License-Identifier: Apache-2.0
"""Gradients of attn_implementation="headroom" in training, on small random models of several families on the CPU."""
import copy
import functools
import unittest
import unittest.mock
import warnings

import torch
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

import headroom.transformers
from test_torch_gradients import passed_on
from test_transformers import FAMILIES, SIZES, models, note_targets, nothing_said

PADDED = ("llama", "gemma2", "gpt_oss", "mistral", "llama4_text")


def trained(family, **fields):
    """The model with eager attention and with Headroom's, in training."""
    eager, other = models(family)
    for model in (eager, other):
        model.train()
        for name, value in fields.items():
            setattr(model.config, name, value)
    return eager, other


def gradients(model, ids, labels=None, **options):
    model.zero_grad()
    model(ids, labels=ids if labels is None else labels, use_cache=False, **options).loss.backward()
    return [each.grad for each in model.parameters()]


class Training(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.ids = torch.randint(3, 128, (2, 24))
        headroom.transformers._said.clear()

    def same(self, found, right):
        self.assertTrue(any(each is not None for each in found))
        self.assertEqual(len(found), len(right))
        for each, expected in zip(found, right):
            torch.testing.assert_close(each, expected, atol=1e-4, rtol=1e-3)

    def test_gradients_are_those_of_eager_in_each_family(self):
        for family in FAMILIES:
            with self.subTest(family), nothing_said():
                eager, other = trained(family)
                for model in (eager, other):
                    model.eval()  # some families drop out elsewhere
                self.same(gradients(other, self.ids), gradients(eager, self.ids))

    def test_gradients_of_padded_prompts_are_those_of_eager(self):
        for family in PADDED:
            eager, other = trained(family)
            for left in (True, False):
                mask = torch.ones_like(self.ids)
                mask[0, :5] = 0
                mask = mask if left else mask.flip(1)
                labels = self.ids.masked_fill(mask == 0, -100)
                if left:
                    labels[0, 5] = -100  # predicted by padding
                with self.subTest(family, left=left), nothing_said():
                    self.same(gradients(other, self.ids, labels, attention_mask=mask),
                              gradients(eager, self.ids, labels, attention_mask=mask))

    def test_gradients_of_packed_sequences_are_those_of_eager(self):
        positions = torch.cat((torch.arange(10), torch.arange(1), torch.arange(13)))[None]
        for family in PADDED:
            with self.subTest(family), nothing_said():
                eager, other = trained(family)
                self.same(*(gradients(model, self.ids[:1], position_ids=positions) for model in (other, eager)))

    def test_gradients_in_bf16_are_as_near_as_those_of_sdpa(self):
        for family in ("llama", "mistral", "qwen3"):
            eager, other = trained(family)
            right, found = gradients(eager, self.ids), {}
            for name in ("sdpa", "headroom"):
                model = copy.deepcopy(other).to(torch.bfloat16)
                model.set_attn_implementation(name)
                found[name] = sum(float((own.float() - each).square().sum())
                                  for own, each in zip(gradients(model, self.ids), right))
            with self.subTest(family):
                self.assertLess(found["headroom"], 1.5**2 * found["sdpa"])

    def test_compiled_steps_have_no_break_and_the_same_gradients(self):
        mask, positions = torch.ones_like(self.ids), torch.cat((torch.arange(10), torch.arange(14)))[None].repeat(2, 1)
        mask[0, :5] = 0
        labels = self.ids.masked_fill(mask == 0, -100)
        labels[0, 5] = -100
        for family in ("llama", "gemma2", "gpt_oss", "mistral"):
            eager, other = trained(family)
            for options in ({}, dict(position_ids=positions), dict(attention_mask=mask)):
                if "attention_mask" in options and family != "llama":
                    continue  # with windows sdpa computes it
                with self.subTest(family, options=list(options)):
                    torch.compiler.reset()
                    called = set()
                    compiled = torch.compile(other, fullgraph=family != "gpt_oss",
                                             backend=functools.partial(note_targets, called))
                    self.same(*(gradients(model, self.ids, labels, **options) for model in (compiled, eager)))
                    self.assertIn("headroom.attention.default", called)
                    self.assertFalse(any("scaled_dot_product" in each for each in called), called)

    def test_checkpoints_give_the_same_gradients(self):
        for reentrant in (False, True):
            eager, other = trained("llama")
            right = gradients(eager, self.ids)
            other.gradient_checkpointing_enable(dict(use_reentrant=reentrant))
            with self.subTest(reentrant=reentrant), nothing_said():
                self.same(gradients(other, self.ids), right)

    def test_dropout_in_training_is_passed_on_and_said(self):
        config = AutoConfig.for_model("llama", **SIZES, attention_dropout=0.1)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="headroom").train()
        with passed_on() as lines:
            self.assertTrue(all(each.abs().max() > 0 for each in gradients(model, self.ids)))
        self.assertEqual(lines, ["LlamaAttention: dropout: passed on to sdpa"])
        with nothing_said():
            gradients(model.eval(), self.ids)

    def test_few_tokens_behind_others_have_gradients(self):
        for family in ("llama", "gpt_oss"):
            found = []
            for model in trained(family):
                first = model(self.ids[:, :20], use_cache=True)
                with nothing_said():
                    second = model(self.ids[:, 20:], past_key_values=first.past_key_values, use_cache=True)
                model.zero_grad()
                (first.logits.square().mean() + second.logits.square().mean()).backward()
                found.append([each.grad for each in model.parameters()])
            with self.subTest(family):
                self.same(*found[::-1])

    def test_a_step_with_a_static_cache_is_passed_on_if_it_requires_a_gradient(self):
        _, other = trained("llama")
        cache = StaticCache(config=other.config, max_cache_len=64)
        with torch.no_grad():
            other(self.ids, past_key_values=cache, use_cache=True)
        with passed_on() as lines:
            self.assertTrue(other(self.ids[:, :1], past_key_values=cache, use_cache=True).logits.requires_grad)
        self.assertEqual(lines, ["LlamaAttention: a gradient of a step with a static cache: passed on to sdpa"])

    def test_a_call_without_a_kernel_for_its_gradient_is_passed_on(self):
        eager, other = trained("llama")
        line = "there are no gradients of torch.float32 on cpu"
        with unittest.mock.patch.object(headroom.transformers, "missing", return_value=line):
            with passed_on() as lines:
                self.same(gradients(other, self.ids), gradients(eager, self.ids))
            self.assertEqual(lines, [f"LlamaAttention: {line}: passed on to sdpa"])
            with torch.no_grad(), nothing_said():
                other(self.ids)


if __name__ == "__main__":
    unittest.main()
