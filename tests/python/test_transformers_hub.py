# SPDX-License-Identifier: Apache-2.0
"""The kernel for the Hugging Face Hub, loaded from a local folder by the package `kernels`, and by transformers as
attn_implementation="org/headroom"."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch
from transformers.utils import is_kernels_available

from test_transformers import generated, models
from test_transformers_sigma import SHAPES, models as sigma_models

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/hub_kernel.sh"
BUILD = os.environ.get("HEADROOM_LIBRARY_FOLDER")
WITHOUT_NUMPY = """
import importlib.util, sys
sys.modules["numpy"] = None
import torch
spec = importlib.util.spec_from_file_location("_kernel", sys.argv[1] + "/__init__.py")
sys.modules["_kernel"] = kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
x = torch.ones(1, 3, 2, 8)
assert torch.equal(kernel.flash_attn_func(x, x, x), x)
assert torch.equal(kernel.decode(x[:, :1], x, x), x[:, :1])
"""


@unittest.skipUnless(importlib.util.find_spec("kernels"), "pip brought no `kernels`")
@unittest.skipUnless(BUILD, "HEADROOM_LIBRARY_FOLDER names no build")
class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name, "kernel")
        subprocess.run([SCRIPT, cls.folder, BUILD], check=True, capture_output=True)
        environment = mock.patch.dict(os.environ, {"LOCAL_KERNELS": f"org/headroom={cls.folder}"})
        environment.start()
        cls.addClassCleanup(environment.stop)
        del os.environ["HEADROOM_LIBRARY_FOLDER"]  # the kernel has its own library

    def setUp(self):
        torch.manual_seed(1)
        self.ids = torch.randint(3, 128, (2, 24))
        grad = torch.no_grad()
        grad.__enter__()
        self.addCleanup(grad.__exit__, None, None, None)

    def close(self, found, right):
        torch.testing.assert_close(found, right, atol=2e-4, rtol=2e-4)

    def pair(self, family):
        """The same model with eager attention and with the kernel."""
        eager, own = models(family)
        own.set_attn_implementation("org/headroom")
        return eager, own

    def same(self, family, **call):
        """Logits of a model with the kernel are those with eager attention; the pair."""
        eager, own = self.pair(family)
        self.close(own(self.ids, **call).logits, eager(self.ids, **call).logits)
        return eager, own

    def test_the_metadata_of_each_build_has_the_digest_of_its_files(self):
        try:
            from kernels._rust import Digest, Metadata
        except ImportError:  # before 0.17
            from kernels_data import Digest, Metadata
        for backend in ("cpu", "cuda"):
            build = self.folder / f"build/torch-{backend}"
            metadata = Metadata.read_from_file(build / "metadata.json")
            metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, build))
            self.assertEqual((str(metadata.name), metadata.version), ("headroom", 1))
            self.assertEqual(str(metadata.backend.backend_type).lower(), backend)
            self.assertTrue(metadata.id.startswith(f"_headroom_{backend}_") and metadata.id.isidentifier())

    def test_the_top_says_what_it_is_and_for_which_platform(self):
        self.assertIn('\nname = "headroom"\nversion = 1\n', (self.folder / "build.toml").read_text())
        self.assertRegex((self.folder / "README.md").read_text(), r"on\nmanylinux_\d+_\d+_\w+ \(PEP 600\)")
        self.assertTrue((self.folder / "LICENSE").is_file() and (self.folder / "NOTICE").is_file())

    def test_a_local_kernel_runs_its_own_library_in_its_own_namespace(self):
        import kernels
        kernel = kernels.get_local_kernel(self.folder, backend="cpu")
        q, k, v = torch.randn(1, 5, 4, 16), torch.randn(1, 9, 2, 16), torch.randn(1, 9, 1, 8)
        repeated = (x.transpose(1, 2).repeat_interleave(4 // x.shape[2], 1) for x in (k, v))
        right = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), *repeated).transpose(1, 2)
        self.close(kernel.flash_attn_func(q, k, v), right)
        self.assertTrue(hasattr(getattr(torch.ops, kernel.__name__), "attention"))
        self.assertIn(f"{self.folder}/build/torch-cpu/lib/libheadroom.so.", pathlib.Path("/proc/self/maps").read_text())

    def test_it_needs_pytorch_alone(self):
        for backend in ("cpu", "cuda"):
            told = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, self.folder / f"build/torch-{backend}"],
                                  capture_output=True, text=True)
            self.assertEqual(told.returncode, 0, told.stderr)

    @unittest.skipUnless(is_kernels_available(), "transformers takes another version of `kernels`")
    def test_a_model_of_transformers_runs_through_it(self):
        for family in ("llama", "gemma2", "mistral", "gpt_oss"):
            with self.subTest(family):
                eager, own = self.same(family)
                self.assertTrue(torch.equal(generated(own, self.ids, 32), generated(eager, self.ids, 32)))

    @unittest.skipUnless(is_kernels_available(), "transformers takes another version of `kernels`")
    def test_unequal_heads_of_any_size_get_through_it(self):
        for name, sizes in SHAPES.items():
            with self.subTest(name):
                eager, own = sigma_models(("eager", "headroom"), **sizes)
                own.set_attn_implementation("org/headroom")
                self.close(own(self.ids).logits, eager(self.ids).logits)

    @unittest.skipUnless(is_kernels_available(), "transformers takes another version of `kernels`")
    def test_padding_before_tokens_and_packed_sequences_are_right(self):
        eager, own = self.pair("llama")
        mask = torch.ones_like(self.ids)
        mask[0, :5] = 0
        found, right = (each(self.ids, attention_mask=mask).logits[mask.bool()] for each in (own, eager))
        self.close(found, right)
        self.assertTrue(torch.equal(*(generated(each, self.ids, 16, attention_mask=mask) for each in (own, eager))))
        self.ids = self.ids[:1]
        self.same("llama", position_ids=torch.cat((torch.arange(10), torch.arange(14)))[None], use_cache=False)

    def test_a_folder_with_files_is_left_alone(self):
        told = subprocess.run([SCRIPT, self.folder, BUILD], capture_output=True, text=True)
        self.assertEqual((told.returncode, told.stderr), (1, f"{self.folder} is not empty\n"))


if __name__ == "__main__":
    unittest.main()
