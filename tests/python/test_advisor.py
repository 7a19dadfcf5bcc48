# SPDX-License-Identifier: Apache-2.0
"""The advisor beside the command: the same documents, tables and options; inputs of every kind; what is refused."""
import doctest
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import headroom
from headroom import _interrupt, _options, _rows, documents, measuring

FOLDER = os.environ.get("HEADROOM_LIBRARY_FOLDER", os.path.dirname(sys.executable))
COMMAND = os.path.join(FOLDER, "headroom")
LLAMA = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
         "intermediate_size": 1376, "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
QUICK = dict(probe=False, budget=0.02, threads=1)


def command(*arguments):
    """What the command prints, without a terminal."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run([COMMAND, *arguments, "--quiet"], capture_output=True, text=True, check=False,
                          env={**environment, "HEADROOM_PROBE": "0"}).stdout


def rows_of(row):
    """The row and all rows in it."""
    yield row
    for value in vars(row).values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, _rows.Row):
                yield from rows_of(each)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = self.folder / "results.db"


class Commands(Folder):
    def same(self, found, *arguments):
        with self.subTest(arguments):
            self.assertEqual(found.to_dict(), json.loads(command(*arguments, "--format", "json")))
            self.assertEqual(str(found), command(*arguments).rstrip("\n"))

    def test_documents_and_tables_are_those_of_the_command(self):
        self.same(headroom.describe("llama-2-7b"), "describe", "llama-2-7b")
        self.same(headroom.advise("gpt-oss-20b", device="h200", phase="train"),
                  "advise", "gpt-oss-20b", "-d", "h200", "--phase", "train")
        self.same(headroom.advise("llama-3-8b", device="h200", dtype="fp8", phase="train"),
                  "advise", "llama-3-8b", "-d", "h200", "--dtype", "fp8", "--phase", "train")
        self.same(headroom.describe("llama-2-7b", device="h200", dtype="fp8", batch=3, phase="decode", context=900),
                  *"describe llama-2-7b -d h200 --dtype fp8 -b 3 --phase decode --context 900".split())
        self.same(headroom.advise("gpt2", device="h200", verbose=True), *"advise gpt2 -d h200 -v".split())
        self.same(headroom.advise("gpt2", device="a100-40gb", phase="train", network=50, devices_per_node=4, zero=1,
                                  tensor_parallel=2, data_parallel=2, nodes=2, only=["free", "deploy"], explain=True,
                                  ignore="microbatch", design=True, recompute="full", clock="burst", cache="warm"),
                  *"advise gpt2 -d a100-40gb --phase train --network 50 --devices-per-node 4 --zero 1 -t 2 --nodes 2 "
                  "--data-parallel 2 --only free,deploy --explain --ignore microbatch --design --recompute full "
                  "--clock burst --cache warm".split())
        self.same(headroom.search("gpt2", device="h200", hidden=(512, 1024, 128), heads=12, limit=3, vary="layers",
                                  keep=["vocabulary"], serve_on=[1, 2], head_sizes=(64,), mlp_width=3072),
                  *"search gpt2 -d h200 --hidden 512:1024:128 --heads 12:12 --limit 3 --vary layers --keep vocabulary "
                  "--serve-on 1,2 --head-sizes 64 --mlp-width 3072:3072".split())
        self.same(headroom.serve_plan("llama-2-7b", device="h200", ttft=0.5, tpot=0.03, price=2.5, kv_cache="fp8",
                                      weights="int4", reserve=2, disaggregated=True, output=100),
                  *"serve-plan llama-2-7b -d h200 --ttft 500ms --tpot 30ms --price 2.5 --kv-cache fp8 --weights int4 "
                  "--reserve 2 --disaggregated --output 100".split())
        self.same(headroom.serve_load("llama-3-8b", device="h200", rate=20, prompt=(512, 2048), output=(64, 512), ttft=0.1,
                                      sure=90, cached=0.5, draft=3, draft_model="gpt2", accept=0.7, requests=200, seed=7,
                                      prefill_wait=2),
                  *"serve-plan llama-3-8b -d h200 --rate 20 --prompt 512:2048 --output 64:512 --ttft 100ms --sure 90 "
                  "--cached 0.5 --draft 3 --draft-model gpt2 --accept 0.7 --requests 200 --seed 7 --prefill-wait 2".split())
        self.same(headroom.serve_plan("llama-3-70b", device="h200", pipeline_stages=2, price=(3.5, 2.5), recommend=5,
                                      disaggregated=True, prefill_device="h100", prefill_tensor_parallel=4),
                  *"serve-plan llama-3-70b -d h200 -p 2 --price 3.5,2.5 --recommend 5 --disaggregated "
                  "--prefill-device h100 --prefill-tensor-parallel 4".split())
        self.same(headroom.serve_load("llama-3-8b", device="h200", tensor_parallel=1, rate=50, ttft=0.3, tpot=0.02,
                                      requests=500, disaggregated=True, prefill_device="h100", price=(3.5, 2.5),
                                      draft=3, draft_model="gpt2", accept=0.7),
                  *"serve-plan llama-3-8b -d h200 -t 1 --rate 50 --ttft 300ms --tpot 20ms --requests 500 "
                  "--disaggregated --prefill-device h100 --price 3.5,2.5 --draft 3 --draft-model gpt2 --accept 0.7".split())
        self.same(headroom.serve_load("llama-3-8b", device="h200", tensor_parallel=1, rate=50, requests=500, instances=4),
                  *"serve-plan llama-3-8b -d h200 -t 1 --rate 50 --requests 500 --instances 4".split())
        self.same(headroom.serve_load("gpt2", device="h200", tensor_parallel=1, clients=4, engine="none"),
                  *"serve-plan gpt2 -d h200 -t 1 --clients 4 --engine none".split())
        self.same(headroom.serve_plan("gpt2", device="h200", tensor_parallel=2, batch=7),
                  *"serve-plan gpt2 -d h200 -t 2 -b 7".split())
        self.same(headroom.serve_plan("gemma-3-1b", device="l40s", engine="trtllm", page_size=64, uniform_pages=True,
                                      kv_cache="q8_0"),
                  *"serve-plan gemma-3-1b -d l40s --engine trtllm --page-size 64 --uniform-pages "
                  "--kv-cache q8_0".split())

    def test_a_prediction_is_an_advice_that_ignores_every_rule(self):
        self.same(headroom.predict("gpt2", device="h200", batch=2), *"advise gpt2 -d h200 -b 2 --ignore".split(),
                  ",".join(_options.rules()))

    def test_the_call_that_is_measured_is_that_of_the_command(self):
        for options, arguments in (
                (dict(heads=4, kv_heads=2, seq=16, layout="bhsd", alibi=True, causal=True, kernel="attention_naive"),
                 "attention --heads 4 --kv-heads 2 --seq 16 --layout bhsd --alibi --causal --kernel attention_naive"),
                (dict(heads=4, kv_heads=2, seq=16, backward=True, dtype="fp32", kernel="attention_backward_naive"),
                 "attention --heads 4 --kv-heads 2 --seq 16 --backward --dtype fp32 --kernel attention_backward_naive"),
                (dict(heads=4, q_len=1, kv_len=16, v_head_dim=32, kernel="attention_naive"),
                 "attention --heads 4 --q-len 1 --kv-len 16 --v-head-dim 32 --kernel attention_naive"),
                (dict(latent=True, heads=4, kv_len=16, batch=2, softcap=2, kernel="decode_split_portable"),
                 "decode --latent --heads 4 --kv-len 16 -b 2 --softcap 2 --kernel decode_split_portable"),
                (dict(kv_cache="int8", scales="token", kv_len=16, page_size=0, kernel="decode_split_portable"),
                 "decode --kv-cache int8 --scales token --kv-len 16 --page-size 0 --kernel decode_split_portable"),
                (dict(m=64, n=32, k=48, transpose_b=True, batch=3, broadcast_b=True, dtype="fp32", ldc=40),
                 "gemm 64 32 48 --transpose-b -b 3 --broadcast-b --dtype fp32 --ldc 40 --measure")):
            with self.subTest(arguments):
                op = arguments.split()[0]
                found = headroom.measure(op, **QUICK, **options).to_dict()
                expected = json.loads(command(*arguments.split(), *"--budget 0.02 --threads 1 --format json".split()))
                for key in (op, "device", "prediction", "predicted_ns"):
                    self.assertEqual(found.get(key), expected.get(key), key)
                self.assertEqual([each["kernel"] for each in found.get("kernels", ())],
                                 [each["kernel"] for each in expected.get("kernels", ())])

    def test_the_options_are_those_of_the_command(self):
        output = {"format", "output", "output_file", "color", "quiet", "help", "plot", "width", "list", "strict",
                  "table"}
        load = set(_options.LoadOptions.__annotations__) - set(_options.ServeOptions.__annotations__)
        for name, known, further in (("describe", _options.StepOptions, set()),
                                     ("advise", _options.AdviseOptions, {"probe"}),
                                     ("search", _options.SearchOptions, set()),
                                     ("serve-plan", _options.ServeOptions, {"output"}),
                                     ("serve-plan", _options.LoadOptions, {"output"}),
                                     ("gemm", measuring.GemmOptions, {"probe"}),
                                     ("attention", measuring.AttentionOptions, {"probe"}),
                                     ("decode", measuring.DecodeOptions, {"probe"}),
                                     ("sweep", measuring.SweepOptions, {"probe"}),
                                     ("results", measuring.ResultOptions, {"id"})):
            with self.subTest(name):
                found = re.findall(r"^  (?:-\w, |    )--([a-z-]+)", command("help", name), re.MULTILINE)
                mine = {"measure", "explain", "clock", "cache", "verbose", "price", "power", "emit", "seed"} - set(known.__annotations__)
                theirs = {option.replace("-", "_") for option in found} - output - mine - (load if name == "serve-plan" and known is not _options.LoadOptions else set())
                self.assertEqual(theirs | further, set(known.__annotations__) - {"yes"} | (theirs & {"yes"}))

    def test_a_trace_is_a_file_or_a_list(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.csv"
            path.write_text("arrival_s,prompt,output\n0,100,5\n0.25,200,7\n")
            options = dict(device="h200", tensor_parallel=1)
            read = headroom.serve_load("gpt2", trace=path, **options)
            self.assertEqual(read.to_dict(), headroom.serve_load("gpt2", trace=[(0, 100, 5), (0.25, 200, 7)], **options).to_dict())
            self.assertEqual((read.load.requests, read.load.prompt_max), (2, 200))
            with self.assertRaisesRegex(headroom.NotFoundError, "missing"):
                headroom.serve_load("gpt2", trace=path.with_name("missing.csv"), **options)


class Attributes(Folder):
    def same(self, *found):
        for row in (row for each in found for row in rows_of(each)):
            names = [_rows.key_of(name) for name in _rows.kinds(type(row))]
            self.assertEqual(sorted(names), sorted(row.to_dict()), type(row).__name__)
            for name in _rows.kinds(type(row)):
                self.assertIn(getattr(row, name), (row.to_dict()[_rows.key_of(name)], getattr(row, name)))

    def test_they_are_the_keys_of_the_json(self):
        self.same(*(headroom.describe(name, device="h200", weights="int4", dtype="bf16") for name in
                    ("llama-2-7b", "deepseek-v2-lite", "mamba-codestral-7b-v0.1", "gemma-2-9b")))
        self.same(headroom.advise("gpt2", device="h200"), headroom.search("gpt2", device="h200"),
                  headroom.serve_plan("gpt2", device="h200"), headroom.serve_load("gpt2", device="h200", rate=5))

    def test_also_of_what_is_measured(self):
        options = dict(QUICK, db=self.store)
        others = [rule for rule in _options.rules() if rule != "tile_quantization"]
        confirmed = headroom.advise(LLAMA, batch=1, seq=16, measure=True, ignore=others, **QUICK)
        self.assertTrue(confirmed.measurement.complete and confirmed.measurement.rows)
        self.same(headroom.measure("gemm", m=16, n=16, k=16, **options),
                  headroom.measure("attention", seq=16, **options), headroom.measure("decode", kv_len=16, **options),
                  confirmed,
                  headroom.results(db=self.store))

    def test_they_have_the_types_that_their_classes_declare(self):
        advice = headroom.advise("gpt2", device="h200")
        self.assertIsInstance(advice.findings[0], documents.Finding)
        self.assertIn(advice.findings[0].class_, ("free", "deploy", "retrain"))
        self.assertIsInstance(advice.step_time_ns, float)
        self.assertIsInstance(advice.model.groups[0].attention.q_heads, int)
        self.assertIsNone(advice.measurement)
        for cls in vars(documents).values():
            if isinstance(cls, type) and issubclass(cls, _rows.Row) and cls._body is not None:
                self.assertIsNotNone(_rows.row_of(_rows.kinds(cls)[cls._body]), cls.__name__)

    def test_a_document_does_not_change_with_its_dict(self):
        found = headroom.describe("gpt2")
        found.to_dict()["model"]["name"] = "another"
        self.assertEqual(found.to_dict()["model"]["name"], "gpt2")
        with self.assertRaises(AttributeError):
            found.parameters = 1


class Config:
    """As transformers has it."""

    def __init__(self, content, name=""):
        self.content, self.name_or_path = content, name

    def to_dict(self):
        return self.content


class Module:
    def __init__(self, config):
        self.config = config


class Models(Folder):
    def test_each_kind_of_input_gives_the_same_model(self):
        (self.folder / "config.json").write_text(json.dumps(LLAMA))
        cached = self.folder / "hub" / "models--org--small"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs" / "main").write_text("0" * 40)
        (cached / "snapshots" / ("0" * 40)).mkdir(parents=True)
        (cached / "snapshots" / ("0" * 40) / "config.json").write_text(json.dumps(LLAMA))
        inputs = [self.folder, str(self.folder), self.folder / "config.json", json.dumps(LLAMA), LLAMA, Config(LLAMA),
                  Module(Config(LLAMA)), Module(LLAMA), "org/small"]
        expected = headroom.describe(LLAMA).to_dict()
        with unittest.mock.patch.dict(os.environ, HF_HUB_CACHE=str(self.folder / "hub")):
            for model in inputs:
                with self.subTest(str(model)):
                    found = headroom.describe(model).to_dict()
                    found["model"]["name"] = expected["model"]["name"]
                    self.assertEqual(found, expected)

    def test_a_model_is_named_as_its_configuration_names_it(self):
        self.assertEqual(headroom.describe(Config(LLAMA, "org/small")).model.name, "org/small")
        self.assertEqual(headroom.describe({**LLAMA, "_name_or_path": "mine"}).model.name, "mine")
        self.assertEqual(headroom.describe(LLAMA).model.name, "llama")

    def test_what_is_left_out_of_a_model_is_a_warning(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            headroom.describe({"model_type": "llava", "vision_config": {}, "text_config": LLAMA})
        self.assertTrue(said and all(issubclass(each.category, UserWarning) for each in said))

    def test_weights_that_were_not_fetched_are_a_warning(self):
        (self.folder / "config.json").write_text(json.dumps(LLAMA))
        (self.folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
        with self.assertWarnsRegex(UserWarning, "the checkpoint is not read: .*model.safetensors"):
            self.assertIsNone(headroom.describe(self.folder).checkpoint)


class Refusals(Folder):
    def refused(self, error, text, function, *arguments, **options):
        with self.subTest(text), self.assertRaisesRegex(error, text):
            function(*arguments, **options)

    def test_a_wrong_model_is_named(self):
        (self.folder / "config.json").write_text('{"model_type": "llama",')
        missing = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
        for error, text, model in (
                (headroom.NotFoundError, 'no model or file is called "gpt22"; did you mean gpt2', "gpt22"),
                (headroom.UnreadableError, "config.json: line 1", self.folder),
                (headroom.InvalidError, "llama: hidden_size: is missing", missing),
                (headroom.InvalidError, "hidden_size.*-1", {**LLAMA, "hidden_size": -1}),
                (headroom.InvalidError, "hidden_size", {**LLAMA, "hidden_size": "512"}),
                (headroom.UnsupportedError, "t5", {**LLAMA, "model_type": "t5", "is_encoder_decoder": True}),
                (headroom.InvalidError, "model: expected a path, a name, a dict.*found int", 3),
                (headroom.InvalidError, "model: expected a path, a name, a dict.*found NoneType", None),
                (headroom.InvalidError, "model: expected a name, found ''", ""),
                (headroom.InvalidError, "model: expected a name", "gpt2\0"),
                (headroom.InvalidError, "standard input", "-")):
            self.refused(error, text, headroom.describe, model)

    def test_a_wrong_option_is_named(self):
        for error, text, options in (
                (headroom.InvalidError, "there is no option 'bacth'; did you mean batch", dict(bacth=1)),
                (headroom.InvalidError, "batch: expected a whole number from 1 on, found -1", dict(batch=-1)),
                (headroom.InvalidError, "batch: .*found 0", dict(batch=0)),
                (headroom.InvalidError, "batch: .*found '4'", dict(batch="4")),
                (headroom.InvalidError, "batch: .*found True", dict(batch=True)),
                (headroom.InvalidError, "batch: .*found 2.5", dict(batch=2.5)),
                (headroom.InvalidError, "batch: expected at most 1099511627776", dict(batch=2**62)),
                (headroom.InvalidError, "batch: .*whole number", dict(batch=2**70)),
                (headroom.InvalidError, "phase: expected one of forward, train, .*'x'", dict(phase="x")),
                (headroom.InvalidError, "dtype: expected one of fp64", dict(dtype=16)),
                (headroom.InvalidError, "weights: \"int3\" is none of", dict(weights="int3")),
                (headroom.InvalidError, "kv_cache: expected one of bf16, fp8, int8", dict(kv_cache="int4")),
                (headroom.InvalidError, "sequence_parallel: expected True or False", dict(sequence_parallel="yes")),
                (headroom.InvalidError, "overlap: expected a number from 0 on, found nan", dict(overlap=float("nan"))),
                (headroom.InvalidError, "zero_stage: needs the phase train", dict(zero=2)),
                (headroom.InvalidError, "context: needs the phase decode", dict(context=2)),
                (headroom.InvalidError, "fp8_linears: headroom trains in 16 bits",
                 dict(dtype="fp8", phase="train", framework="headroom")),
                (headroom.NotFoundError, 'no device is called "h2000"; did you mean h20, h200', dict(device="h2000")),
                (headroom.InvalidError, "network: needs devices per node", dict(device="rtx-4090", network=1))):
            self.refused(error, text, headroom.describe, "gpt2", **options)

    def test_options_that_exclude_each_other_are_named(self):
        for function, text, options in (
                (headroom.advise, "design: cannot be combined with trained", dict(design=True, trained=True)),
                (headroom.advise, "budget: needs measure", dict(budget=1)),
                (headroom.advise, "framework: ", dict(measure=True, framework="eager")),
                (headroom.advise, "only: expected one of free, deploy, retrain, found 'cheap'", dict(only="cheap")),
                (headroom.search, "mlp_width: cannot be combined with keep='mlp'", dict(keep="mlp", mlp_width=64)),
                (headroom.search, "vocab_multiple: cannot be", dict(vocab_multiple=8, keep_vocabulary=True)),
                (headroom.search, "hidden: the least, 5, is above the most, 4", dict(hidden=(5, 4))),
                (headroom.search, "heads: a range without a step", dict(heads=(5, 6, 1))),
                (headroom.search, "serve_on: expected a list of 1 to 16 numbers", dict(serve_on=[])),
                (headroom.serve_plan, "ttft: expected a number", dict(ttft="500ms")),
                (headroom.serve_plan, "framework: sglang beside engine 'vllm'", dict(framework="sglang", engine="vllm")),
                (headroom.serve_load, "load: none of", {}),
                (headroom.serve_load, "draft and accept need each other", dict(rate=1, draft=3)),
                (headroom.serve_load, "prompt: a trace has its own lengths", dict(trace=[(0, 1, 1)], prompt=5)),
                (headroom.serve_load, "trace: expected a file or a list", dict(trace=[(0, 1)])),
                (headroom.serve_load, "prompt: a range without a step", dict(rate=1, prompt=(1, 9, 2)))):
            self.refused(headroom.InvalidError, text, function, "gpt2", **options)

    def test_a_wrong_measurement_is_named(self):
        for error, text, op, options in (
                (headroom.InvalidError, "op: expected one of gemm, attention, decode, found 'gem'", "gem", {}),
                (headroom.InvalidError, "n: is missing", "gemm", dict(m=1)),
                (headroom.NotFoundError, "there is no kernel 'gemm_onedn'.*did you mean", "gemm",
                 dict(m=1, n=1, k=1, kernel="gemm_onedn")),
                (headroom.UnsupportedError, "cpu has no such kernel for decode", "decode", dict(kernel="gemm_onednn")),
                (headroom.NotFoundError, '"h200" is not a device of this machine', "gemm",
                 dict(m=1, n=1, k=1, device="h200")),
                (headroom.InvalidError, "scales: needs kv_cache", "decode", dict(scales="token")),
                (headroom.InvalidError, "q_heads 3 is not a multiple of k_heads 2", "attention",
                 dict(heads=3, kv_heads=2))):
            self.refused(error, text, headroom.measure, op, probe=False, **options)
        self.refused(headroom.NotFoundError, "results.db: no such file", headroom.results, db=self.store)
        self.refused(headroom.NotFoundError, 'there is no sweep "fig"', headroom.sweep, "fig", db=self.store)
        self.refused(headroom.InvalidError, "shard: expected a list of 2", headroom.sweep, "fig5a", shard=[1])
        self.assertFalse(self.store.exists())


class Pages(unittest.TestCase):
    def test_the_example_of_the_documentation_prints_what_stands_there(self):
        page = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "python.md"
        result = doctest.testfile(str(page), module_relative=False)
        self.assertEqual((result.failed, result.attempted >= 3), (0, True))

    def test_a_page_is_in_a_frame_of_its_own(self):
        for found in (headroom.advise("gpt2", device="h200"), headroom.search("gpt2", device="h200")):
            page = found._repr_html_()
            self.assertRegex(page, r'^<iframe srcdoc="[^"]*" sandbox="allow-scripts" [^>]*></iframe>$')
            self.assertIn("&lt;html", page)
            self.assertNotIn("<style", page)

    def test_a_document_without_a_page_is_its_table(self):
        self.assertRegex(headroom.describe("gpt2")._repr_html_(), r"^<pre>model +gpt2\n[^<]*</pre>$")

    def test_a_table_needs_pandas_and_names_the_extra(self):
        with unittest.mock.patch.dict(sys.modules, pandas=None):
            with self.assertRaisesRegex(headroom.UnavailableError, r"pip install 'headroom\[pandas\]'"):
                headroom.describe("gpt2").to_pandas()
        with self.assertRaisesRegex(headroom.InvalidError, "has no table 'shapes', but operators, layouts, findings"):
            headroom.advise("gpt2", device="h200").to_pandas("shapes")


class Measuring(Folder):
    def test_what_is_saved_is_read_again(self):
        found = headroom.measure("gemm", m=16, n=24, k=32, dtype="fp32", db=self.store, kernel="gemm_onednn", **QUICK)
        row, = headroom.results(db=self.store).results
        self.assertEqual((row.operation, row.m, row.n, row.k, row.dtype, row.kernel_asked, row.threads),
                         ("gemm", 16, 24, 32, "fp32", "gemm_onednn", 1))
        self.assertEqual((row.status, row.median_ns, row.samples),
                         (found.measurement.status, found.measurement.median_ns, found.measurement.samples))
        self.assertEqual(headroom.results(db=self.store, status="out_of_memory").results, [])

    def test_points_of_a_sweep_are_measured_once(self):
        sweep = self.folder / "two.json"
        problem = {"kind": "gemm", "m": "m", "n": 8, "k": 8}
        sweep.write_text(json.dumps({"axes": {"m": [8, 16]}, "x": "m", "x_label": "m", "y_label": "rate", "sweeps": [
            {"name": "two", "title": "Two sizes", "problem": problem}]}))
        for _ in range(2):
            found = headroom.sweep(sweep, db=self.store, time_limit=0.01, probe=False, threads=1, dtype="fp32")
        self.assertEqual((found.points, found.found, [row.x for row in found.rows]), (2, 2, [8, 16]))
        self.assertEqual(len(headroom.results(db=self.store, sweep="two").results), 2)

    def test_an_interrupt_ends_a_call_and_is_raised_behind_it(self):
        before = signal.getsignal(signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            with _interrupt.Interruptible() as interrupt:
                stops = [_interrupt.PROGRESS(interrupt.progress), _interrupt.SWEEP_PROGRESS(interrupt.sweep_progress),
                         _interrupt.CANCELLED(interrupt.cancelled)]
                arguments = ((None, 0.5, b""), (None, None), (None,))
                self.assertEqual([stop(*each) for stop, each in zip(stops, arguments)], [0, 0, 0])
                signal.raise_signal(signal.SIGINT)
                self.assertEqual([stop(*each) for stop, each in zip(stops, arguments)], [1, 1, 1])
        self.assertEqual(signal.getsignal(signal.SIGINT), before)
