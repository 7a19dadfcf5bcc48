#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published training runs beside what `headroom advise` predicts, for the expressions in docs/*.md (docs_numbers.py).

    scripts/docs_training.py build/debug/headroom        prints every row of data/results/published/training_speeds.csv, and the tables
"""
import functools
import pathlib
import statistics
import sys
import textwrap

from docs_command import document, use
from docs_rows import rows, table

TRAINING_SPEEDS = "published/training_speeds.csv"
MPT_RUNS = {"h100-sxm": "MPT, H100", "a100-sxm4-80gb": "MPT, A100 80 GB", "a100-sxm4-40gb": "MPT, A100 40 GB"}
OTHER_RUNS = "torchtitan, fms-fsdp, llm.c"
FP8_RUNS = "in fp8: MPT, Megatron-Bridge"
WITHIN = 1.25
RECOMPUTED = {"none": ["none"], "full": ["full"], "half": ["none", "full"]}  # half: every other layer


def is_loss(operator):
    return operator["name"].startswith("loss")


def is_attention(operator):
    return operator["kind"] == "attention"


class Speed:
    """Predicted over measured tokens per second of a row, and the same at the ends of the step's interval."""

    def __init__(self, row, changed=str):
        self.row, self.steps = row, [document(f"advise {row.model} -d {row.device} {changed(row.options)} --recompute {recompute}")
                                     for recompute in RECOMPUTED[row.recompute]]
        first = self.steps[0]
        self.length, self.microbatches = first["workload"]["sequence"], first["workload"]["microbatches"]
        self.measured_ns = first["tokens_per_s_per_device"] * first["step_time_ns"] / row.tokens_per_s_per_gpu
        self.ratio, self.most, self.least = (self.measured_ns / self.time(f"step_time{end}_ns") for end in ("", "_low", "_high"))

    def group(self):
        if "fp8" in self.row.precision:
            return FP8_RUNS
        return MPT_RUNS[self.row.device] if self.row.source == "llm-foundry" else OTHER_RUNS

    def time(self, name):
        return statistics.fmean(step[name] for step in self.steps)

    def time_of(self, which):
        """Of operators of all microbatches."""
        return self.microbatches * statistics.fmean(
            sum(row["count"] * row["predicted_ns"] for row in step["operators"] if which(row)) for step in self.steps)


@functools.lru_cache(maxsize=None)
def speeds(changed=str):
    """`changed` gives other options for those of a row."""
    return [Speed(row, changed) for row in rows(TRAINING_SPEEDS, device=lambda device: device != "")]


def speeds_not_predicted():
    return len(rows(TRAINING_SPEEDS)) - len(speeds())


def speeds_of(group):
    return [speed for speed in speeds() if speed.group() == group]


def median_speed(found):
    return statistics.median(speed.ratio for speed in found)


def share_within(found):
    return statistics.fmean(1 / WITHIN <= speed.ratio <= WITHIN for speed in found)


def share_in_interval(found):
    return statistics.fmean(speed.least <= 1 <= speed.most for speed in found)


def speeds_table():
    lines = []
    for group in [*MPT_RUNS.values(), OTHER_RUNS, FP8_RUNS]:
        found = speeds_of(group)
        ratios = [speed.ratio for speed in found]
        lines.append([group, len(found), f"{median_speed(found):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}",
                      f"{100 * share_within(found):.0f}%", f"{100 * share_in_interval(found):.0f}%"])
    return table(["runs", "rows", "median", "range", "within 25%", "in the interval"], lines)


def in_bf16(options):
    return options.replace("--dtype fp8", "--dtype bf16")


def fp8_training_table():
    """Of fp8 runs, and what bf16 would have been predicted."""
    lines = []
    for speed in speeds_of(FP8_RUNS):
        model = speed.steps[0]["model"]
        lines.append([f"{speed.row.source}, {model['layers']} × {model['hidden']}", f"{speed.row.gpus} × {speed.row.device}, {speed.length}",
                      f"{speed.row.tokens_per_s_per_gpu:,}", f"{speed.ratio:.2f}", f"{Speed(speed.row, in_bf16).ratio:.2f}"])
    return table(["run, layers × hidden", "devices, tokens", "tokens/s", "predicted over it", "if it were in bf16"], lines)


def mpt_runs():
    return [speed for speed in speeds() if speed.group() in MPT_RUNS.values()]


def best_factor(found, part_ns):
    """Of a part of the predicted steps, which fits the measured ones best: least squares of their relative errors."""
    parts = [(part_ns(speed), speed.measured_ns - speed.time("step_time_ns"), speed.measured_ns) for speed in found]
    return 1 + sum(part * error / measured**2 for part, error, measured in parts) / sum((part / measured)**2 for part, _, measured in parts)


def factors_table():
    """The best factors of parts of a step, which predictions take as 1."""
    parts = {"traffic between replicas": lambda speed: speed.time("exposed_ns"), "loss": lambda speed: speed.time_of(is_loss),
             "attention": lambda speed: speed.time_of(is_attention)}
    found = {"all": mpt_runs(), "every other row": mpt_runs()[::2], "the rows between": mpt_runs()[1::2]}
    found.update((group, speeds_of(group)) for group in MPT_RUNS.values())
    return table(["part", *found], [[name, *(f"{best_factor(some, part):.2f}" for some in found.values())] for name, part in parts.items()])


def left_out_table():
    """Medians without a part of the model."""
    without = {"all": lambda speed: speed.ratio,
               "without the loss": lambda speed: speed.measured_ns / (speed.time("step_time_ns") - speed.time_of(is_loss))}
    options = {"communication hidden (`--overlap 1`)": lambda options: f"{options} --overlap 1",
               "`--flash-attention newest`": lambda options: options.replace("attention triton", "attention newest")}
    lines = [[name, *(f"{statistics.median(map(ratio, speeds_of(group))):.2f}" for group in MPT_RUNS.values())]
             for name, ratio in without.items()]
    for name, changed in options.items():
        lines.append([name, *(f"{median_speed([speed for speed in speeds(changed) if speed.group() == group]):.2f}"
                              for group in MPT_RUNS.values())])
    return table(["predicted over measured", *MPT_RUNS.values()], lines)


def lengths_table():
    found = mpt_runs()
    lengths = sorted({speed.length for speed in found})
    medians = [f"{median_speed([speed for speed in found if speed.length == length]):.2f}" for length in lengths]
    return table(["tokens in a sequence", *map(str, lengths)], [["median", *medians]])


# ---- docs/parallelism.md: a published training run ----


LARGEST = ('advise {"h":20480,"a":128,"L":105,"v":51200,"s":2048,"b":1} --device a100-sxm4-80gb --phase train -t 8 -p 35 '
           "--virtual-stages 3 --microbatches 280 --data-parallel 8 --attention unfused ")


def training_runs():
    """(options, published MFU, predicted MFU, predicted step in s)."""
    found = []
    for row in rows("published/training.csv"):
        step = document(LARGEST + row.options)
        found.append((row.options, row.mfu_percent / 100, step["model_efficiency"], step["step_time_ns"] / 1e9))
    return found


def training_table():
    return table(["", "published MFU", "predicted", "predicted step"],
                 [[f"`{options}`", f"{100 * published:.1f}%", f"{100 * predicted:.0f}%", f"{seconds:.1f} s"]
                  for options, published, predicted, seconds in training_runs()])


def training_sentence():
    (_, first, first_predicted, _), (_, second, second_predicted, _) = training_runs()
    text = (f"The gain of the first over the second is {100 * first / second - 100:.0f}% published and "
            f"{100 * first_predicted / second_predicted - 100:.0f}% predicted. Each of the t devices is predicted to "
            "send all activations to the next stage, which Megatron-LM divided among them (arXiv 2104.04473, section 4.1), and the time between "
            "kernels is not predicted.")
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    use(pathlib.Path(sys.argv[1]))
    for speed in speeds():
        print(f"{speed.ratio:.3f} ({speed.least:.2f} … {speed.most:.2f})  {speed.group()}: {speed.row.model}, {speed.row.gpus} GPUs, "
              f"{speed.length} tokens, recompute {speed.row.recompute}")
    print(f"\n{speeds_table()}\n\n{lengths_table()}\n\n{speeds_not_predicted()} rows are not predicted")


if __name__ == "__main__":
    main()
