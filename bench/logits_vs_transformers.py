#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the logits of whole models with those of transformers, on random checkpoints larger than the tests'.

    logits_vs_transformers.py [--build FOLDER] [--device cpu] [--size small] [--checkpoints FOLDER] [FAMILY ...]

scripts/make_checkpoints.py makes the checkpoints and their logits in fp32. The columns: the largest difference in fp32
and after a prefill of a part and decoding the rest, as shares of the largest logit, at most 1e-4; how many of 64 greedy
ids agree; the root mean square of the difference from fp32 in bf16, of transformers, of Headroom, and their ratio, at
most 1.5. Exits 1 if a family is further away. Families that Headroom refuses are listed with its reason, and "-" stands
for decoding that it refuses. Needs torch and transformers."""
import argparse
import ctypes
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

from libheadroom import bindings, call, default, load, open_device

from headroom.errors import UnsupportedError

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "scripts"))
import make_checkpoints  # noqa: E402

FP32_LIMIT, BF16_LIMIT = 1e-4, 1.5


class Executor:
    """A checkpoint on a device."""

    def __init__(self, library, device, folder, dtype, tokens):
        self.library, self.handle = library, ctypes.c_void_p()
        self.model = bindings.hr_model()
        call(library.hr_resolve_model, str(folder).encode(), None, None, ctypes.byref(self.model))
        options = default(library, bindings.hr_executor_options)
        options.dtype, options.tokens = dtype, tokens
        call(library.hr_executor_open, device, ctypes.byref(self.model), ctypes.byref(options),
             ctypes.byref(self.handle))
        call(library.hr_executor_load, self.handle, str(folder).encode(), 0, None, None)
        self.outputs = library.hr_executor_outputs(self.handle)

    def step(self, phase, ids):
        """Logits of all tokens; of the last one in prefill."""
        given = default(self.library, bindings.hr_executor_input)
        tokens = torch.tensor(ids, dtype=torch.int32)
        rows = 1 if phase == bindings.HR_PHASE_PREFILL else len(ids)
        logits = torch.empty(rows, self.outputs)
        given.phase, given.tokens, given.ids = phase, len(ids), tokens.data_ptr()
        call(self.library.hr_executor_step, self.handle, ctypes.byref(given), logits.data_ptr())
        return logits

    def in_parts(self, ids, first):
        """The last logits after a prefill of `first` tokens and decoding the others one by one."""
        logits = self.step(bindings.HR_PHASE_PREFILL, ids[:first])
        for token in ids[first:]:
            logits = self.step(bindings.HR_PHASE_DECODE, [token])
        return logits[-1]

    def greedy(self, prompt, count):
        logits, ids = self.step(bindings.HR_PHASE_PREFILL, prompt), []
        for _ in range(count):
            ids.append(int(logits[-1].argmax()))
            logits = self.step(bindings.HR_PHASE_DECODE, ids[-1:])
        return ids

    def close(self):
        self.library.hr_executor_close(self.handle)


def of_largest(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def root_mean_square(found, expected):
    return float((found - expected).pow(2).mean().sqrt() / expected.pow(2).mean().sqrt())


def transformers_bf16(folder, prompt):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    return make_checkpoints.logits_of(model.eval(), prompt).float()


def decode(executor, prompt, ids, logits):
    """The columns of decoding: the difference behind a part of the prompt, and how many greedy ids agree."""
    try:
        in_parts = of_largest(executor.in_parts(prompt, len(prompt) // 2), logits[-1])
        agreeing = sum(a == b for a, b in zip(executor.greedy(prompt, len(ids)), ids))
    except UnsupportedError:
        return f"{'-':>9} {'-':>6}", True
    return f"{in_parts:9.1e} {agreeing:6}", in_parts <= FP32_LIMIT and agreeing == len(ids)


def compare(library, device, folder):
    """The columns of a family, and whether they are within the limits."""
    expected = load_file(folder / "expected.safetensors")
    prompt, ids, logits = expected["prompt"].tolist(), expected["greedy"].tolist(), expected["logits"]
    tokens = len(prompt) + len(ids) + 1
    executor = Executor(library, device, folder, bindings.HR_FP32, tokens)
    one_pass = of_largest(executor.step(bindings.HR_PHASE_FORWARD, prompt), logits)
    decoded, right = decode(executor, prompt, ids, logits)
    executor.close()
    executor = Executor(library, device, folder, bindings.HR_BF16, tokens)
    theirs = root_mean_square(transformers_bf16(folder, prompt), logits)
    ours = root_mean_square(executor.step(bindings.HR_PHASE_FORWARD, prompt), logits)
    executor.close()
    right = right and one_pass <= FP32_LIMIT and ours <= BF16_LIMIT * theirs
    mark = "" if right else "   *"
    return f"{one_pass:9.1e} {decoded} {theirs:9.2e} {ours:9.2e} {ours / theirs:6.2f}{mark}", right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build" / "release")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=make_checkpoints.SIZES, default="small")
    parser.add_argument("--checkpoints", type=pathlib.Path, help="where they are kept; those that are there are used")
    parser.add_argument("families", nargs="*")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    device = open_device(load(str(options.build / "libheadroom.so")), options.device)
    library = load(str(options.build / "libheadroom-advice.so"))
    every = {**make_checkpoints.KEPT, **make_checkpoints.MORE}
    place = options.checkpoints or pathlib.Path(tempfile.mkdtemp())
    refused, wrong = [], 0
    print(f"{'family':20} one pass  in parts greedy    theirs      ours  ratio   ({transformers.__version__}, torch "
          f"{torch.__version__}, {options.device})")
    for family in options.families or every:
        folder = place / options.size / family
        try:
            if not (folder / "expected.safetensors").exists():
                make_checkpoints.make(folder, family, every[family], options.size)
        except Exception as why:  # a family that this transformers cannot make leaves the others
            refused.append(f"{family}: transformers: {type(why).__name__}: {str(why)[:100]}")
            continue
        try:
            text, right = compare(library, device, folder)
        except Exception as why:
            refused.append(f"{family}: {str(why)[:200]}")
            continue
        wrong += not right
        print(f"{family:20} {text}", flush=True)
    print(*refused, sep="\n")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
