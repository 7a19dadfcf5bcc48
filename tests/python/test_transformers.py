# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="headroom" beside eager, on small random models of several families on the CPU."""
import contextlib
import copy
import functools
import unittest
import warnings

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

import headroom.transformers

SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=256, pad_token_id=0, bos_token_id=1,
             eos_token_id=2, initializer_range=0.2)
WINDOW = dict(sliding_window=8)
LATENT = dict(n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=32,
              kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
              num_key_value_heads=4, head_dim=8, first_k_dense_replace=1)
CHUNKS = dict(num_local_experts=4, num_experts_per_tok=2, attention_chunk_size=8, intermediate_size_mlp=96)
EAGER_ALONE = {"bigbird_pegasus": dict(d_model=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=96,
                                       is_decoder=True), "bloom": dict(n_head=4, n_layer=2)}
SHARED = dict(num_hidden_layers=4, num_kv_shared_layers=2, hidden_size_per_layer_input=16, global_head_dim=16,
              vocab_size_per_layer_input=128, layer_types=["sliding_attention", "full_attention"] * 2, **WINDOW)
INDEX = dict(index_n_heads=4, index_head_dim=16, index_topk=4)
INDEXED = {"deepseek_v32": dict(LATENT, **INDEX), "glm_moe_dsa": dict(LATENT, **INDEX),
           "minimax_m3_vl_text": dict(num_local_experts=4, num_experts_per_tok=2, dense_intermediate_size=96,
                                      shared_intermediate_size=96, rotary_dim=8, index_n_heads=2, index_head_dim=16,
                                      index_block_size=4, index_topk_blocks=2,
                                      layer_types=["full_attention", "minimax_m3_sparse"])}
FAMILIES = {
    "cohere2": WINDOW, "deepseek_v3": LATENT, "exaone4": WINDOW, "gemma2": dict(query_pre_attn_scalar=16, **WINDOW),
    "gemma4_text": SHARED, "gemma3_text": dict(query_pre_attn_scalar=16, **WINDOW), "glm4": {},
    "llama4_text": CHUNKS, "gpt2": dict(n_embd=64, n_head=4, n_layer=2),
    "gpt_neox": {}, "gpt_oss": dict(num_local_experts=4, num_experts_per_tok=2, **WINDOW), "granite": {}, "llama": {},
    "mistral": WINDOW, "mixtral": dict(num_local_experts=4), "nemotron": {}, "olmo2": {},
    "opt": dict(ffn_dim=96, word_embed_proj_dim=64), "phi": {}, "phi3": {}, "qwen2": {}, "qwen3": {}, "smollm3": {},
    "stablelm": {}, "starcoder2": WINDOW,
}


def models(family, kind=AutoModelForCausalLM):
    """The same model with eager attention and with Headroom's."""
    config = AutoConfig.for_model(family, **{**SIZES, **{**FAMILIES, **EAGER_ALONE, **INDEXED}.get(family, {})})
    torch.manual_seed(0)
    eager = kind.from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    other = kind.from_config(copy.deepcopy(config), attn_implementation="headroom").eval()
    other.load_state_dict(eager.state_dict())
    return eager, other


@contextlib.contextmanager
def nothing_said():
    """Fails if a call is passed on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*passed on")
        yield


def note_targets(called, graph, inputs):
    """A backend that runs a graph as it is, and notes what it calls."""
    called.update(str(node.target) for node in graph.graph.nodes)
    return graph.forward


def generated(model, ids, tokens=64, **options):
    return model.generate(ids, max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0, **options)


class Transformers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.ids = torch.randint(3, 128, (2, 24))
        headroom.transformers._said.clear()
        grad = torch.no_grad()
        grad.__enter__()
        self.addCleanup(grad.__exit__, None, None, None)

    def close(self, found, right):
        torch.testing.assert_close(found, right, atol=2e-4, rtol=2e-4)

    def test_logits_and_greedy_tokens_are_those_of_eager_in_each_family(self):
        for family in FAMILIES:
            with self.subTest(family), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                eager, other = models(family)
                self.close(other(self.ids).logits, eager(self.ids).logits)
                self.assertTrue(torch.equal(generated(eager, self.ids), generated(other, self.ids)))
                self.assertEqual([str(each.message) for each in said if "passed on" in str(each.message)], [])

    def test_static_caches_give_the_same_tokens(self):
        for family in ("llama", "gemma2", "gpt_oss"):
            with self.subTest(family):
                eager, other = models(family)
                options = dict(cache_implementation="static", disable_compile=True)
                self.assertTrue(torch.equal(generated(eager, self.ids, 32), generated(other, self.ids, 32, **options)))

    def mask_of(self, left):
        mask = torch.ones_like(self.ids)
        mask[0, :5] = 0
        return mask if left else mask.flip(1)

    def test_padding_before_or_behind_a_prompt_is_computed(self):
        for family in ("llama", "gemma2", "gpt_oss", "mistral", "llama4_text"):
            eager, other = models(family)
            for left in (True, False):
                mask = self.mask_of(left)
                with self.subTest(family, left=left), nothing_said():
                    self.close(*(model(self.ids, attention_mask=mask).logits[mask.bool()] for model in (other, eager)))

    def test_padding_changes_no_generated_token(self):
        for family in ("llama", "gemma2", "gpt_oss", "mistral", "llama4_text"):
            eager, other = models(family)
            with self.subTest(family), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertTrue(torch.equal(*(generated(model, self.ids, 16, attention_mask=self.mask_of(True))
                                              for model in (eager, other))))

    def test_a_mask_with_a_gap_is_computed_and_with_a_window_passed_on(self):
        mask = torch.ones_like(self.ids)
        mask[0, 5:8] = 0
        for family, lines in (("llama", 0), ("mistral", 1)):
            eager, other = models(family)
            with self.subTest(family), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = other(self.ids, attention_mask=mask).logits
                self.assertEqual(sum("the mask is of another kind" in str(each.message) for each in said), lines)
                self.close(found[mask.bool()], eager(self.ids, attention_mask=mask).logits[mask.bool()])

    def test_models_that_take_eager_attention_alone_get_its_masks(self):
        for family in EAGER_ALONE:
            with self.subTest(family), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                eager, other = models(family)
                self.close(other(self.ids).logits, eager(self.ids).logits)
                compiled = torch.compile(other, backend="eager")
                self.close(compiled(self.ids, use_cache=False).logits, eager(self.ids).logits)

    def test_keys_that_an_indexer_chooses_are_those_of_eager(self):
        for family in INDEXED:
            with self.subTest(family), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                eager, other = models(family)
                self.close(other(self.ids).logits, eager(self.ids).logits)
                self.assertTrue(torch.equal(generated(eager, self.ids, 16), generated(other, self.ids, 16)))
                self.assertTrue(any("an indexer chooses keys" in str(each.message) for each in said))

    def test_layers_that_share_keys_for_the_last_query_alone_see_its_window(self):
        eager, other = models("gemma4_text")
        for options in ({}, dict(attention_mask=self.mask_of(True))):
            with self.subTest(padded=bool(options)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.close(*(model(self.ids, logits_to_keep=1, **options).logits for model in (other, eager)))

    def test_a_prompt_in_chunks_is_that_in_one(self):
        for family in ("llama", "gemma2", "gpt_oss"):
            with self.subTest(family):
                eager, other = models(family)
                first = other(self.ids[:, :3], use_cache=True)
                second = other(self.ids[:, 3:], past_key_values=first.past_key_values, use_cache=True)
                self.close(torch.cat((first.logits, second.logits), 1), eager(self.ids).logits)

    def test_packed_sequences_are_computed(self):
        positions = torch.cat((torch.arange(10), torch.arange(1), torch.arange(13)))[None]
        for family in ("llama", "gemma2", "gpt_oss", "mistral", "llama4_text"):
            with self.subTest(family), nothing_said():
                eager, other = models(family)
                self.close(*(model(self.ids[:1], position_ids=positions, use_cache=False).logits
                             for model in (other, eager)))

    def test_beams_and_assisted_generation_give_the_same_tokens(self):
        eager, other = models("llama")
        right, found = (generated(model, self.ids, 16, num_beams=3) for model in (eager, other))
        self.assertTrue(torch.equal(found, right))
        found = generated(other, self.ids[:1], 16, assistant_model=models("llama")[1])
        self.assertTrue(torch.equal(found, generated(eager, self.ids[:1], 16)))

    def test_an_encoder_sees_all_tokens(self):
        eager, other = models("bert", AutoModel)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = other(self.ids).last_hidden_state
        self.close(found, eager(self.ids).last_hidden_state)

    def test_compiled_models_have_no_break_and_no_other_attention(self):
        positions = torch.cat((torch.arange(10), torch.arange(14)))[None]
        for family in ("llama", "gemma2", "mistral", "gpt2", "llama4_text"):
            with self.subTest(family):
                eager, other = models(family)
                torch.compiler.reset()
                called = set()
                compiled = torch.compile(other, fullgraph=True, backend=functools.partial(note_targets, called))
                for options in ({}, dict(position_ids=positions)):
                    self.close(*(model(self.ids[:1], use_cache=False, **options).logits for model in (compiled, eager)))
                self.assertIn("headroom.attention.default", called)
                self.assertFalse(any("scaled_dot_product" in each or "softmax" in each for each in called), called)

    def test_a_mask_of_padding_is_right_in_compiled_models(self):
        gap = torch.ones_like(self.ids)
        gap[0, 5:8], gap[1, 20:] = 0, 0
        for family in ("llama", "gemma2"):
            eager, other = models(family)
            for mask in (self.mask_of(True), self.mask_of(False), gap, torch.ones_like(gap)):
                with self.subTest(family, mask=mask):
                    torch.compiler.reset()
                    called = set()
                    compiled = torch.compile(other, fullgraph=True, backend=functools.partial(note_targets, called))
                    self.close(*(model(self.ids, attention_mask=mask, use_cache=False).logits[mask.bool()]
                                 for model in (compiled, eager)))
                    self.assertIn("headroom.attention.default" if family == "llama" else "", {*called, ""})

    def test_a_models_attention_can_be_set_afterwards(self):
        eager, _ = models("llama")
        right = eager(self.ids).logits
        self.assertEqual(headroom.transformers.use(eager).config._attn_implementation, "headroom")
        self.close(eager(self.ids).logits, right)


if __name__ == "__main__":
    unittest.main()
