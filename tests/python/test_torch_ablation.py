# SPDX-License-Identifier: Apache-2.0
"""examples/diffqkv_ablation.py: its models, and a training from text to rows."""
import argparse
import contextlib
import csv
import gzip
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy
import torch

import headroom.torch as ht

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
import diffqkv_ablation
import diffqkv_model as model

TINY = model.SIZES["tiny"]
VOCABULARY, LENGTH = 64, 16


def decoder(name, attend=model.torch_attention, size=TINY, device="cpu"):
    with torch.device(device):
        return model.Decoder(model.VARIANTS[name], size, VOCABULARY, LENGTH, torch.float32, attend)


def operands(heads=(8, 2, 4), dims=(4, 8), length=11):
    torch.manual_seed(0)
    return [torch.randn(2, length, heads, dim, dtype=torch.float32) for heads, dim in zip(heads, (dims[0], *dims))]


def tokens_file(folder):
    """A text in which every token says the next."""
    text = numpy.arange(20000, dtype=numpy.uint16) % 37
    numpy.savez_compressed(folder / "tokens.npz", train=text[2000:], held=text[:2000], vocabulary=VOCABULARY, bytes_per_token=1.0)
    return folder / "tokens.npz"


class Models(unittest.TestCase):
    def test_attention_of_pytorch_is_headrooms_for_unequal_heads_and_sizes(self):
        q, k, v = operands()
        torch.testing.assert_close(model.torch_attention(q, k, v), ht.attention(q, k, v, causal=True), rtol=1e-4, atol=1e-5)

    def test_selective_v_is_that_of_decode(self):
        q, k, v = operands()
        for top_k in (1, 3, 11, 50):
            expected = ht.decode(q[:, -1:], k, v, top_k=top_k)
            torch.testing.assert_close(model.selected_attention(top_k)(q, k, v)[:, -1:], expected, rtol=1e-4, atol=1e-5)

    def test_weights_that_variants_share_begin_with_the_same_values(self):
        models = [decoder(name) for name in ("gqa-2", "gqa-2-quarter-k-heads")]
        for one in models:
            one.initialize(3)
        base, other = (dict(one.named_parameters()) for one in models)
        self.assertEqual([name for name in base if base[name].shape != other[name].shape], ["blocks.0.k.weight", "blocks.1.k.weight"])
        self.assertTrue(all(torch.equal(base[name], other[name]) for name in base if base[name].shape == other[name].shape))

    def test_augmented_q_and_the_wider_ffn_have_equally_many_parameters(self):
        for size in ("30m", "120m"):
            counts = [sum(x.numel() for x in decoder(name, size=model.SIZES[size], device="meta").parameters())
                      for name in ("gqa-2-augmented-q", "gqa-2-wider-ffn")]
            self.assertLess(abs(counts[0] / counts[1] - 1), 0.005)

    def test_sizes_have_the_parameters_of_their_names(self):
        for name, millions in (("15m", 15), ("30m", 30), ("120m", 120)):
            with torch.device("meta"):
                found = model.Decoder(model.VARIANTS["mha"], model.SIZES[name], 4096, LENGTH, torch.float32, None)
            self.assertLess(abs(sum(x.numel() for x in found.parameters()) / (1e6 * millions) - 1), 0.1)

    def test_papers_differences_are_those_it_prints(self):
        printed = {"gqa-2": -0.26, "gqa-2-quarter-k-heads": -0.17, "gqa-2-augmented-q": 1.24, "gqa-8-selected-v": 0.01}
        for name, change in printed.items():
            self.assertAlmostEqual(model.paper_change(name), change)
        self.assertTrue(set(model.VARIANTS) <= set(model.PAPER))


class Trainings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # for models this small, more only wait for each other
        threads = unittest.mock.patch.dict(os.environ, OMP_NUM_THREADS="1")
        threads.start()
        self.addCleanup(threads.stop)
        self.path = pathlib.Path(self.folder.name)

    def options(self, attention="torch"):
        return argparse.Namespace(tokens_file=tokens_file(self.path), size="tiny", length=LENGTH, batch=8, held=8, selected=4, top_k=[2],
                                  attention=attention, compile=False, rate=1e-2)

    @unittest.skipIf(diffqkv_ablation.DEVICE != "cpu", "compares on a CPU")
    def test_training_learns_and_repeats(self):
        training = diffqkv_ablation.Training("sigma", self.options())
        first, again, other = ([float(row["loss"]) for row in training.rows(seed, 40)] for seed in (0, 0, 1))
        self.assertLess(first[0], 2.5)  # log(64) is 4.2
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    @unittest.skipIf(diffqkv_ablation.DEVICE != "cpu", "compares on a CPU")
    def test_training_with_headrooms_gradients_gives_pytorchs_losses(self):
        training = diffqkv_ablation.Training("gqa-2-half-k-size", self.options("auto"))
        if training.attention != "headroom":
            self.skipTest(training.attention)
        other = diffqkv_ablation.Training("gqa-2-half-k-size", self.options())
        losses = [float(next(one.rows(0, 5))["loss"]) for one in (training, other)]
        self.assertAlmostEqual(*losses, delta=1e-3)

    def test_command_writes_a_row_per_variant_and_seed_and_a_table(self):
        command = [sys.executable, EXAMPLES / "diffqkv_ablation.py", tokens_file(self.path), "mha", "gqa-2-half-k-size", "gqa-2",
                   "--size", "tiny", "--no-compile", "--attention", "torch", "--tokens", "512", "--seeds", "2", "--length", str(LENGTH),
                   "--batch", "8", "--held", "8", "--selected", "4", "--top-k", "2", "--csv", self.path / "rows.csv"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        with open(self.path / "rows.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["top_k"] == "0"]
        self.assertEqual([(row["variant"], row["seed"], row["tokens"]) for row in rows],
                         [(name, seed, "512") for seed in "01" for name in ("mha", "gqa-2-half-k-size", "gqa-2")])
        self.assertEqual({row["paper_change"] for row in rows if row["variant"] == "gqa-2-half-k-size"}, {"-0.08"})
        self.assertIn("gqa-2, V of 2 ", out)

    def test_bad_arguments_are_refused_in_one_line(self):
        for arguments, line in ((["t.npz", "gqa-3"], "gqa-3: no variant, expected mha, "), (["t.npz"], "t.npz: no such file"),
                                (["t.npz", "--seeds", "0"], "--seeds 0: expected 1 or more")):
            error = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(error):
                diffqkv_ablation.options(arguments)
            self.assertIn(line, error.getvalue())

    def test_a_variant_that_fails_holds_up_no_other(self):
        tokens_file(self.path)
        a = diffqkv_ablation.options([str(self.path / "tokens.npz"), "mha", "gqa-2", "--size", "tiny", "--tokens", "512", "--seeds", "1",
                                      "--length", str(LENGTH), "--batch", "8", "--held", "8", "--selected", "4", "--no-compile",
                                      "--attention", "torch"])
        a.variants[0] = "none"
        rows = list(diffqkv_ablation.run(a))
        self.assertEqual((a.failed, {row["variant"] for row in rows}), (["none"], {"gqa-2"}))


@unittest.skipIf(importlib.util.find_spec("tokenizers") is None, "Python has no tokenizers here")
class Texts(unittest.TestCase):
    def test_documents_are_read_once_and_html_is_left_out(self):
        import diffqkv_text
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "a.rst").write_text("a" * 600)
            (path / "b.rst.gz").write_bytes(gzip.compress(b"b" * 600))
            (path / "same.txt").write_text("a" * 600)
            (path / "ls.1").write_text("c" * 600)
            (path / "page.html").write_text("d" * 600)
            (path / "short.txt").write_text("e")
            self.assertEqual(sorted(text[0] for text in diffqkv_text.documents(path, 1e6)), ["a", "b", "c"])
            self.assertEqual(len(diffqkv_text.documents(path, 1300)), 2)

    def test_tokens_end_each_document_with_0(self):
        import diffqkv_text
        from tokenizers import ByteLevelBPETokenizer
        tokenizer = ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(["some text"] * 9, vocab_size=300, special_tokens=["<end>"], show_progress=False)
        found = diffqkv_text.tokens(tokenizer, ["some", "text"])
        self.assertEqual((found.dtype, (found == 0).sum(), found[-1]), (numpy.uint16, 2, 0))
        self.assertEqual(tokenizer.decode(found.tolist(), skip_special_tokens=True), "sometext")


if __name__ == "__main__":
    unittest.main()
