# SPDX-License-Identifier: Apache-2.0
"""headroom.Model on the checkpoints of tests/data/checkpoints, beside what transformers computed with them."""
import gc
import json
import pathlib
import threading
import unittest

import numpy

import headroom

CHECKPOINTS = pathlib.Path(__file__).resolve().parent.parent / "data" / "checkpoints"
FORMATS = {"F32": numpy.float32, "I32": numpy.int32}


def tensors_of(family):
    """prompt, greedy and logits of a family: the file's header is JSON behind its length."""
    content = (CHECKPOINTS / family / "expected.safetensors").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return {name: numpy.frombuffer(content[start + about["data_offsets"][0]:start + about["data_offsets"][1]],
                                   FORMATS[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items() if name != "__metadata__"}


class Steps(unittest.TestCase):
    family = "llama"

    def setUp(self):
        self.expected = tensors_of(self.family)
        self.prompt, self.logits = self.expected["prompt"], self.expected["logits"]
        self.model = headroom.Model(CHECKPOINTS / self.family, slots=3)
        self.addCleanup(self.model.close)

    def near(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertEqual(found.dtype, numpy.float32)
        numpy.testing.assert_allclose(found, expected, atol=1e-4 * abs(self.logits).max())

    def test_forward_prefill_and_decode_give_the_logits_of_transformers(self):
        self.near(self.model.forward(self.prompt), self.logits)
        self.near(self.model.prefill(self.prompt[:-3].tolist()), self.logits[-4])
        self.near(self.model.decode(self.prompt[-3:-1]), self.logits[-3:-1])
        self.near(self.model.decode(int(self.prompt[-1])), self.logits[-1])
        self.assertEqual(self.model.length(), self.prompt.size)
        self.assertEqual(self.model.outputs, self.logits.shape[1])

    def test_sequences_of_a_batch_are_kept_in_the_slots_that_are_named(self):
        both = numpy.stack([self.prompt[:6], self.prompt[6:12]])
        each = [self.model.prefill(row) for row in both]
        self.near(self.model.forward(both)[:, -1], numpy.stack(each))
        self.near(self.model.prefill(both, slots=[2, 0]), numpy.stack(each))
        self.assertEqual([self.model.length(slot) for slot in range(3)], [6, 0, 6])
        self.near(self.model.decode([[self.prompt[6]]], slots=[2])[0, 0], self.logits[6])

    def test_a_shortened_slot_goes_on_from_where_it_was(self):
        self.model.prefill(self.prompt)
        self.model.truncate(4)
        self.near(self.model.decode([self.prompt[4]]), self.logits[4:5])

    def test_generated_ids_are_those_of_transformers(self):
        found = self.model.generate(self.prompt, 12)
        self.assertEqual(found.tolist(), self.expected["greedy"][:12].tolist())
        self.assertEqual(self.model.generate(list(self.prompt)).size, 16)

    def test_training_takes_the_losses_of_transformers(self):
        ids = numpy.stack([self.prompt, self.expected["greedy"][:self.prompt.size]])
        with headroom.Model(CHECKPOINTS / self.family, trains=True, learning_rate=3e-3) as model:
            losses = [model.train(ids) for _ in self.expected["losses"]]
            self.assertEqual(losses[0].shape, ids.shape)
            self.assertEqual(list(losses[0][:, -1]), [0, 0])
            means = numpy.array([each[:, :-1].mean() for each in losses])
            numpy.testing.assert_allclose(means, self.expected["losses"], rtol=1e-4)
            self.assertEqual(model.train(self.prompt).shape, self.prompt.shape)
            with self.assertRaisesRegex(headroom.InvalidError, "microbatches: 2 do not divide 1 sequences"):
                model.train(self.prompt, microbatches=2)
            with self.assertRaisesRegex(headroom.UnsupportedError, "phase: the executor runs forward and training"):
                model.prefill(self.prompt)
            with self.assertRaisesRegex(headroom.InvalidError, "tokens: training needs 2"):
                model.train(self.prompt[:1])
        with self.assertRaisesRegex(headroom.UnsupportedError, "phase: the executor runs forward, prefill and decode"):
            self.model.train(self.prompt)
        with self.assertRaisesRegex(headroom.InvalidError, "beta1"):
            headroom.Model(CHECKPOINTS / self.family, trains=True, beta1=1)

    def test_microbatches_are_a_batch_of_all_their_sequences(self):
        ids = numpy.stack([self.prompt, self.expected["greedy"][:self.prompt.size]])
        losses = []
        for microbatches in (1, 2):
            with headroom.Model(CHECKPOINTS / self.family, trains=True, learning_rate=3e-3) as model:
                losses.append([model.train(ids, microbatches=microbatches) for _ in range(3)])
        numpy.testing.assert_allclose(losses[1], losses[0], rtol=1e-3, atol=1e-4)

    def test_threads_that_share_a_model_get_their_own_results(self):
        found = [None] * 4

        def run(index):
            for _ in range(5):
                found[index] = self.model.forward(self.prompt[:index + 2])

        threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index in range(4):
            self.near(found[index], self.logits[:index + 2])


class Neox(Steps):
    family = "gpt_neox"


class Opening(unittest.TestCase):
    config = json.loads((CHECKPOINTS / "llama" / "config.json").read_text(encoding="utf-8"))

    def test_weights_are_random_by_seed_where_none_are_named(self):
        prompt = [1, 2, 3]
        with headroom.Model(self.config, seed=7) as one, headroom.Model(self.config, seed=7) as same, \
                headroom.Model(self.config) as other, headroom.Model(CHECKPOINTS / "llama", weights="random") as again:
            numpy.testing.assert_array_equal(one.forward(prompt), same.forward(prompt))
            numpy.testing.assert_array_equal(other.forward(prompt), again.forward(prompt))
            self.assertFalse((one.forward(prompt) == other.forward(prompt)).all())

    def test_a_configuration_takes_the_weights_of_a_folder(self):
        expected = tensors_of("llama")
        with headroom.Model(self.config, weights=CHECKPOINTS / "llama") as model:
            numpy.testing.assert_allclose(model.forward(expected["prompt"]), expected["logits"],
                                          atol=1e-4 * abs(expected["logits"]).max())

    def test_weights_and_cache_in_bf16_take_half_the_bytes_of_fp32(self):
        with headroom.Model(self.config, dtype="bf16") as half, headroom.Model(self.config) as full:
            self.assertEqual(2 * half.nbytes, full.nbytes)
            self.assertEqual(half.prefill([1, 2]).dtype, numpy.float32)

    def test_weights_in_q8_0_take_fewer_bytes_and_change_logits_by_a_few_percent(self):
        expected = tensors_of("llama")
        with headroom.Model(CHECKPOINTS / "llama", weights_format="q8_0") as model, \
                headroom.Model(CHECKPOINTS / "llama") as full:
            self.assertLess(model.nbytes, full.nbytes)
            off = abs(model.forward(expected["prompt"]) - expected["logits"]).max() / abs(expected["logits"]).max()
            self.assertTrue(1e-5 < off < 0.05, off)

    def test_what_cannot_be_opened_is_refused_with_the_librarys_line(self):
        for error, text, options in (
                (headroom.UnsupportedError, "dtype", dict(dtype="fp8")),
                (headroom.InvalidError, "slots", dict(slots=0)),
                (headroom.NotFoundError, "nowhere", dict(weights="nowhere")),
                (headroom.InvalidError, "weights_format", dict(weights_format="q9")),
                (headroom.UnsupportedError, "weights in formats", dict(weights_format="int8")),
                (headroom.NotFoundError, "tpu", dict(device="tpu")),
                (headroom.OutOfMemoryError, "KV cache", dict(slots=1 << 20, tokens=1 << 20))):
            with self.subTest(**options), self.assertRaisesRegex(error, text):
                headroom.Model(self.config, **options)
        with self.assertRaisesRegex(headroom.UnsupportedError, "cannot be run"):
            headroom.Model("mamba-codestral-7b-v0.1")

    def test_a_module_is_refused_as_its_weights_would_be_left_out(self):
        module = type("Module", (), {"config": self.config, "state_dict": dict})
        with self.assertRaisesRegex(headroom.InvalidError, "folder"):
            headroom.Model(module())

    def test_a_closed_model_says_so(self):
        model = headroom.Model(self.config)
        self.assertEqual(repr(model), f"Model('{model.name}', device='cpu')")
        with model:
            model.prefill([1])
        model.close()
        self.assertIn("closed", repr(model))
        for call in (lambda: model.decode(1), lambda: model.generate([1]), lambda: model.outputs,
                     lambda: model.truncate(0)):
            with self.assertRaisesRegex(headroom.InvalidError, "is closed"):
                call()

    def test_a_model_without_references_is_closed(self):
        model = headroom.Model(self.config)
        closed = model._close
        del model
        gc.collect()
        self.assertFalse(closed.alive)


class Ids(unittest.TestCase):
    def setUp(self):
        self.model = headroom.Model(Opening.config, tokens=8, slots=2)
        self.addCleanup(self.model.close)

    def test_ids_that_no_step_takes_are_refused(self):
        for text, ids in (("dimensions", [[[1]]]), ("float64", [1.5]), ("str", "one"), ("4294967297", [1, 2**32 + 1]),
                          ("-1", [-1]), ("tokens: expected 1", []), ("tokens: expected 1", [1] * 9),
                          ("batch", [[1]] * 3), ("ids", [[1], [1, 2]])):
            with self.subTest(ids=ids), self.assertRaisesRegex(headroom.InvalidError, text):
                self.model.prefill(ids)

    def test_slots_that_do_not_fit_the_sequences_are_refused(self):
        for text, slots in (("one for each", [0, 1]), ("below 2", [2]), ("bool", [True])):
            with self.subTest(slots=slots), self.assertRaisesRegex(headroom.InvalidError, text):
                self.model.prefill([1], slots=slots)
        with self.assertRaisesRegex(headroom.InvalidError, "slot 1: has no tokens"):
            self.model.decode(1, slots=[1])

    def test_a_prompt_is_one_sequence(self):
        with self.assertRaisesRegex(headroom.InvalidError, "one sequence"):
            self.model.generate([[1]], 2)


if __name__ == "__main__":
    unittest.main()
