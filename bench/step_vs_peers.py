#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole steps of models: Headroom's executor, transformers eager and compiled, and llama.cpp.

    step_vs_peers.py [--models NAME,…] [--phases prefill,decode] [--tokens N] [--batch N] [--device cpu|cuda]
                     [--dtype bf16|fp32] [--weights-format q8_0] [--threads N] [--rounds N] [--layers N]
                     [--peers NAME,…] [--attention sdpa,headroom] [--hold] [--csv FILE]

Random weights for the configurations of data/models, or of a config.json, are saved as a checkpoint that Headroom loads,
and as a GGUF file for llama.cpp (the architectures of step_llama.py) where the packages llama_cpp and gguf are
installed. A prefill has --tokens new tokens, a decode step one behind --tokens − 1 others; both give the logits of the
last token. Steps are interleaved: in a round each contender rests, runs once, and is timed several times, of which the
median counts. Ratios are of a peer's time over Headroom's, in a round; the median with its interval is printed, and the
largest difference of a peer's logits from Headroom's over the largest one. A peer that is far off is left out. With
--weights-format q8_0 Headroom and llama.cpp have their weights in it, transformers in --dtype. --attention names the
attentions with which transformers runs: its own sdpa, Headroom's. --hold waits for a line on standard input before the
first timing, so that several processes can compile at once.
HEADROOM_LIBRARY_FOLDER names the folder of the libraries. docs/step.md has the results."""
import argparse
import csv
import ctypes
import datetime
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "python"))
import headroom  # noqa: E402
import step_transformers  # noqa: E402
from gemm_vs_torch import median_interval  # noqa: E402
from headroom import _bindings as bindings  # noqa: E402
from headroom import _library, model as models  # noqa: E402

PHASES = {"prefill": bindings.HR_PHASE_PREFILL, "decode": bindings.HR_PHASE_DECODE}
ATTENTIONS = ("sdpa", "headroom")
REST_S = 0.01  # threads of PyTorch and of llama.cpp spin for a while after a step
TURN_S, RUNS_MOST = 0.2, 20
WRONG = {"bf16": 0.1, "fp32": 0.001}
LLAMA_WRONG = 0.05  # its keys and values are fp16
COLUMNS = ("model", "phase", "batch", "tokens", "dtype", "contender", "ms", "ratio", "low", "high", "difference", "rounds",
           "device", "driver", "threads", "pytorch", "transformers", "date")
SHOWN = 11


class Headroom:
    name = "headroom"

    def __init__(self, folder, ids, phase, options):
        self.ids = numpy.ascontiguousarray(ids.cpu().numpy(), numpy.int32)
        self.kept = self.ids.shape[1] - 1 if phase == "decode" else 0
        self.model = headroom.Model(folder, device=options.device, dtype=options.dtype, slots=self.ids.shape[0],
                                    tokens=self.ids.shape[1], threads=options.threads,
                                    weights_format=options.weights_format)
        if self.kept:
            self.model.prefill(self.ids[:, :-1])
        self.input = models.input_of(PHASES[phase], numpy.ascontiguousarray(self.ids[:, self.kept:]), None)

    def before(self):
        for slot in range(self.ids.shape[0] if self.kept else 0):
            self.model.truncate(self.kept, slot)

    def step(self, logits):
        _library.call(_library.advice().hr_executor_step, self.model.handle, ctypes.byref(self.input), logits)

    def run(self):
        self.step(None)

    def wait(self):
        """A step is over when the call returns."""

    def logits(self):
        found = numpy.empty((self.ids.shape[0], self.model.outputs), numpy.float32)
        self.before()
        self.step(found.ctypes.data)
        return found


# ---- models ----


def model_of(name, options):
    """A model with random weights."""
    path = pathlib.Path(name) if name.endswith(".json") else TOP / "data/models" / f"{name}.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    config = AutoConfig.for_model(**{key: value for key, value in fields.items() if not key.startswith("_")})
    config.num_hidden_layers = options.layers or config.num_hidden_layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:config.num_hidden_layers]
    torch.manual_seed(0)
    with torch.device(options.device):
        return AutoModelForCausalLM.from_config(config, dtype=step_transformers.DTYPES[options.dtype],
                                                attn_implementation="sdpa").eval()


def llama_of(model, folder, options):
    """A function that makes llama.cpp's contender of a phase; None where the packages are not."""
    if any(importlib.util.find_spec(name) is None for name in ("llama_cpp", "gguf")):
        return None

    def make(ids, phase):
        import step_llama
        path = pathlib.Path(folder) / "model.gguf"
        if not path.exists():
            step_llama.write(model, path, options.weights_format or options.dtype)
        return step_llama.Llama(path, ids, phase, options.threads, options.device.startswith("cuda"))
    return make


# ---- times ----


def milliseconds(contender):
    contender.before()
    contender.wait()
    start = time.perf_counter()
    contender.run()
    contender.wait()
    return (time.perf_counter() - start) * 1e3


def turn(contender):
    time.sleep(REST_S)
    once = milliseconds(contender)
    return statistics.median(milliseconds(contender) for _ in range(max(1, min(RUNS_MOST, int(TURN_S * 1e3 / once)))))


def difference(contender, ours):
    milliseconds(contender)
    found = contender.logits()
    return float(abs(found - ours).max() / abs(ours).max())


def right_ones(ours, peers, ids, phase, options):
    """The contenders whose logits are Headroom's, with how far off they are. What a peer cannot run is left out, too."""
    right, found = ours.logits(), [(ours, 0.0)]
    for name, make in peers.items():
        try:
            peer = make(ids, phase)
            off = difference(peer, right)
        except Exception as error:  # of any kind: the others are still to be compared
            print(f"{name} is left out: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            continue
        if off <= (LLAMA_WRONG if name == "llama.cpp" else WRONG[options.dtype]):
            found.append((peer, off))
        else:
            print(f"{name} is left out: its logits are {off:.2g} away", flush=True)
    return found


def compare(model, phase, ours, peers, ids, options):
    contenders = right_ones(ours(ids, phase), peers, ids, phase, options)
    if options.hold:
        print("ready", flush=True)
        sys.stdin.readline()
        options.hold = False
    rounds = [[turn(each) for each, _ in contenders] for _ in range(options.rounds + 1)][1:]
    for at, (each, off) in enumerate(contenders):
        low, ratio, high = median_interval([times[at] / times[0] for times in rounds])
        ms = statistics.median(times[at] for times in rounds)
        weights = options.weights_format or options.dtype
        report((model, phase, *ids.shape, weights, each.name, f"{ms:.3f}", f"{ratio:.3f}", f"{low:.3f}", f"{high:.3f}",
                f"{off:.1e}", len(rounds)), options)
    torch.compiler.reset()


def report(row, options):
    print(f"| {' | '.join(map(str, row[:SHOWN]))} |", flush=True)
    if options.csv is None:
        return
    new = not options.csv.exists()
    with options.csv.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS] * new + [(*row, *conditions(options))])


def conditions(options):
    name, driver = cpu_name(), ""
    if options.device.startswith("cuda"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
        name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return name, driver, options.threads, torch.__version__, transformers.__version__, datetime.date.today()


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "CPU")


def compare_model(name, options):
    model, ids = model_of(name, options), torch.randint(3, 1000, (options.batch, options.tokens), device=options.device)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        peers = step_transformers.contenders(model, options.device, options.attention.split(","))
        peers["llama.cpp"] = llama_of(model, folder, options) if asked("llama.cpp", options) else None
        peers = {peer: make for peer, make in peers.items() if make and asked(peer, options)}
        for phase in options.phases.split(","):
            compare(shown_name(name, options), phase, lambda ids, phase: Headroom(folder, ids, phase, options), peers, ids,
                    options)


def shown_name(name, options):
    return pathlib.Path(name).name.removesuffix(".json") + (f" of {options.layers} layers" if options.layers else "")


def asked(peer, options):
    return not options.peers or peer in options.peers.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="pythia-160m,smollm-135m")
    parser.add_argument("--phases", default="prefill,decode")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=step_transformers.DTYPES, default="bf16")
    parser.add_argument("--weights-format", choices=("q8_0",))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--peers", default="")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    for option, given, known in (("--phases", options.phases, PHASES), ("--attention", options.attention, ATTENTIONS)):
        if set(given.split(",")) - set(known):
            parser.error(f"{option}: {given}; expected {', '.join(known)}")
    options.threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(options.threads)
    print(f"| {' | '.join(COLUMNS[:SHOWN])} |\n|{'---|' * SHOWN}")
    with torch.no_grad():
        for name in options.models.split(","):
            compare_model(name, options)


if __name__ == "__main__":
    main()
