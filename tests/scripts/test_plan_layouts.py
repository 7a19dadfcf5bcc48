# SPDX-License-Identifier: Apache-2.0
"""Layouts of `headroom plan` keep the rules of Megatron-LM and torchtitan, as written down here a second time, have the predictions
of `advise` and `describe` with the same options by hand, and hold published runs. HEADROOM: the command."""
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
import docs_command
from docs_command import document
from docs_rows import rows
from docs_training import TRAINING_SPEEDS

PLANS = {
    "llama-3.1-8b": "-d h100-sxm --devices 8,64 --seq 4096",
    "qwen2.5-7b": "-d h200 --devices 56 --global-batch 112 --seq 3072",
    "mixtral-8x7b-v0.1": "-d h100-sxm --devices 128 --global-batch 512 --seq 2048",
    "qwen3-30b-a3b": "-d h200 --devices 24,48 --global-batch 96 --seq 8192",
    "deepseek-v2-lite": "-d h100-sxm --devices 32 --seq 4096",
    "gpt3-2.7b": "-d a100-sxm4-80gb --devices 32 --attention unfused",
    "mamba-codestral-7b-v0.1": "-d h100-sxm --devices 16 --seq 4096",
}
OPTIONS = {"tensor_parallel": "-t", "pipeline_stages": "-p", "virtual_stages": "--virtual-stages", "context_parallel": "--context-parallel",
           "expert_parallel": "--expert-parallel", "data_parallel": "--data-parallel", "zero_stage": "--zero", "batch": "-b",
           "microbatches": "--microbatches", "recompute": "--recompute"}
SAMPLES = 12


def plan(model):
    return document(f"plan {model} {PLANS[model]}")


def divides(number, *wholes):
    return all(whole % number == 0 for whole in wholes if whole)


def widths(group, whole_experts):
    """Columns that a feed-forward network's devices share."""
    experts = group["experts"]
    yield group["dense"]["width"] if group["dense"] else 0
    if experts:
        yield experts["shared_width"]
        yield 0 if whole_experts else experts["width"]


def heads(group):
    attention, latent, scan = (group[kind] for kind in ("attention", "latent", "scan"))
    if attention:
        yield from (attention[name] for name in ("q_heads", "k_heads", "v_heads"))
    if latent:
        yield latent["q_heads"]
    if scan:
        yield scan["heads"]


def has_whole_stages(layers, layout):
    """All stages have as many layers, in whole parts; or those of Megatron-LM but the first or the last, which have fewer."""
    p, v = layout["pipeline_stages"], layout["virtual_stages"]
    ends = [layout[name] for name in ("first_stage_layers", "last_stage_layers") if layout[name]]
    if not ends:
        return divides(p * v, layers)
    between, rest = p - len(ends), layers - sum(ends)
    return v == 1 and (not between or divides(between, rest)) and all(0 < end < -(-layers // p) for end in ends)


def faults(model, training, layout):
    """The rules that both programs have and that the layout breaks."""
    t, p, v, cp, e, dp = (layout[name] for name in list(OPTIONS)[:6])
    m, b = layout["microbatches"], layout["batch"]
    experts = [group["experts"]["experts"] for group in model["groups"] if group["experts"]]
    rules = {
        "t · p · cp · dp devices": t * p * cp * dp == layout["devices"],
        "global batch": m * b * dp == training["global_batch"],
        "heads": all(divides(t, *heads(group)) for group in model["groups"]),
        "widths": all(divides(t, *widths(group, e > 1)) for group in model["groups"]),
        "layers": has_whole_stages(model["layers"], layout),
        "rounds of microbatches": v == 1 or (p > 1 and divides(p, m)),
        "sequence over cp": cp == 1 or divides(2 * cp, training["sequence"]),
        "sequence over t": not layout["sequence_parallel"] or (t > 1 and divides(t * cp, training["sequence"])),
        "experts": e == 1 or (experts and divides(e, *experts) and divides(e, dp * cp * t)),
        "ZeRO among several": layout["zero_stage"] == 0 or dp * cp > 1,
        "memory": layout["memory_bytes"] <= training["capacity_bytes"],
    }
    return [name for name, holds in rules.items() if not holds]


def megatron_accepts(model, layout):
    has_experts = any(group["experts"] for group in model["groups"])
    return layout["sequence_parallel"] or layout["tensor_parallel"] == 1 or not has_experts


def torchtitan_accepts(training, layout):
    t, p, _, cp, e, dp = (layout[name] for name in list(OPTIONS)[:6])
    tensor = t == 1 or (layout["sequence_parallel"] and divides(2 * t * cp, training["sequence"]))
    replicas = dp * cp == 1 or layout["zero_stage"] == 3 or (layout["zero_stage"] == 0 and t == p == cp == e == 1)
    equal = not layout["first_stage_layers"] and not layout["last_stage_layers"]
    return tensor and replicas and equal and (e == 1 or divides(cp * t, e))


def options_of(layout):
    words = [f"{option} {layout[key]}" for key, option in OPTIONS.items()]
    return " ".join(words + ["--sequence-parallel"] * layout["sequence_parallel"])


def workload_options(model):
    return re.sub(r"--(devices|global-batch) \S+", "", PLANS[model])


class PlanLayouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        docs_command.use(pathlib.Path(os.environ["HEADROOM"]))

    def test_every_layout_keeps_the_rules(self):
        for model in PLANS:
            found = plan(model)
            self.assertGreater(len(found["layouts"]), 20, model)
            for layout in found["layouts"]:
                self.assertEqual(faults(found["model"], found["training"], layout), [], (model, layout))

    def test_a_framework_is_named_where_its_own_rules_are_kept(self):
        for model in PLANS:
            found = plan(model)
            for layout in found["layouts"]:
                accepted = [name for name, accepts in (("Megatron-LM", megatron_accepts(found["model"], layout)),
                                                       ("torchtitan", torchtitan_accepts(found["training"], layout))) if accepts]
                self.assertEqual(layout["accepted_by"], ", ".join(accepted), (model, layout))

    def test_layouts_are_ranked_by_tokens_per_second(self):
        for model in PLANS:
            found = plan(model)
            order = [(layout["devices"], -layout["tokens_per_s"]) for layout in found["layouts"]]
            self.assertEqual(order, sorted(order), model)
            self.assertEqual(len(order), sum(count["fitting"] for count in found["counts"]), model)

    def test_a_layout_is_predicted_as_advise_and_describe_do_by_hand(self):
        for model in PLANS:
            layouts = plan(model)["layouts"]
            for layout in layouts[:: max(1, len(layouts) // SAMPLES)]:
                line = f"{model} {workload_options(model)} --phase train {options_of(layout)}"
                step, memory = document(f"advise {line}"), document(f"describe {line}")["memory"]
                for name in ("step_time_ns", "step_time_low_ns", "step_time_high_ns", "bubble", "model_efficiency"):
                    self.assertEqual(layout[name], step[name], (line, name))
                self.assertEqual(layout["memory_bytes"], memory["total_bytes"], line)
                self.assertAlmostEqual(layout["tokens_per_s"] / layout["devices"] / step["tokens_per_s_per_device"], 1, 12, line)

    def test_a_published_run_fits_and_is_predicted_as_its_row(self):
        found = 0
        for row in rows(TRAINING_SPEEDS, device=lambda device: device != ""):
            given = dict(re.findall(r"--?([\w-]+) (\S+)", row.options))
            if int(given["data-parallel"]) != row.gpus:  # replicas of replicas, which no layout has
                continue
            recompute = {"half": "full"}.get(row.recompute, row.recompute)
            kept = " ".join(f"--{name} {given[name]}" for name in ("dtype", "framework", "dropout", "flash-attention", "zero") if name in given)
            batch = int(given["b"]) * int(given["microbatches"]) * row.gpus
            layouts = document(f"plan {row.model} -d {row.device} --devices {row.gpus} --global-batch {batch} -s {given['s']} -b {given['b']} "
                               f"-t 1 -p 1 --context-parallel 1 --recompute {recompute} {kept}")["layouts"]
            step = document(f"advise {row.model} -d {row.device} {row.options} --recompute {recompute}")
            self.assertEqual([layout["step_time_ns"] for layout in layouts], [step["step_time_ns"]], row)
            found += 1
        self.assertEqual(found, 117)


if __name__ == "__main__":
    unittest.main()
