#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles the eager steps of bench/steps_torch.py on a CUDA GPU: which kernels they run, and where the GPU waits for the host.

    steps_profile.py --headroom build/release/headroom --output steps_profile.csv

Rows of kind "step" have the time of a step by the host's clock (median and an interval of it), when the host has launched all of it,
and the step's time where the host launches it while the GPU still waits (queued_ns): what is missing between that and step_ns are
waits for the host. Rows of kind "kernel" are the kernels of one profiled step: their number, and their time together.
"""
import argparse
import collections
import csv
import time

import steps_torch

MODELS = ["gpt2", "pythia-410m", "qwen3-0.6b", "gpt2-xl", "opt-1.3b", "tinyllama-1.1b", "qwen2.5-1.5b", "llama-3.2-1b"]
COLUMNS = ["kind", "model", "phase", "layers", "kernel", "count", "device_ns", "step_ns", "low_ns", "high_ns", "host_ns", "queued_ns"]
SLEEP_CYCLES = int(2e8)  # of the GPU, while the host launches
SAMPLES = 24
QUEUED = 8


def launch(step, torch):
    with torch.set_grad_enabled(step.train):
        if step.chained:
            step.run_chain()
        else:
            for number in range(step.c["L"]):
                step.run_layer(number)
            step.run_head()


def queued_ns(step, torch):
    torch.cuda.synchronize()
    times = []
    for _ in range(QUEUED):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SLEEP_CYCLES)
        start.record()
        launch(step, torch)
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e6)
    return steps_torch.median_interval(times)[1]


def kernels(step, torch):
    """(number, ns) by name."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        launch(step, torch)
        torch.cuda.synchronize()
    times = collections.defaultdict(list)
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[event.name[:160]].append(event.time_range.elapsed_us() * 1e3)
    return {name: (len(each), sum(each)) for name, each in times.items()}


def profiled(model, shape, phase, torch):
    step = steps_torch.Step(shape, "fused", phase, "eager", torch)
    step.open()
    step.warm()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.3:  # until the clock has settled for this load
        step.time()
    step.hosts = []
    low, middle, high = steps_torch.median_interval([step.step_ns()[0] for _ in range(SAMPLES)])
    head = dict(model=model, phase=phase, layers=shape["L"])
    host = steps_torch.median_interval(step.hosts)[1]
    yield dict(head, kind="step", step_ns=f"{middle:.0f}", low_ns=f"{low:.0f}", high_ns=f"{high:.0f}", host_ns=f"{host:.0f}",
               queued_ns=f"{queued_ns(step, torch):.0f}")
    for name, (count, device_ns) in sorted(kernels(step, torch).items(), key=lambda item: -item[1][1]):
        yield dict(head, kind="kernel", kernel=name, count=count, device_ns=f"{device_ns:.0f}")
    step.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headroom", required=True, help="the command")
    parser.add_argument("--output", default="steps_profile.csv")
    parser.add_argument("--models", default=",".join(MODELS), help="separated by commas")
    arguments = parser.parse_args()
    import torch
    with open(arguments.output, "w", newline="") as out:
        out.write(steps_torch.head_line(torch).replace("one layer and the logits, bench/steps_torch.py", "eager, bench/steps_profile.py"))
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for model in arguments.models.split(","):
            shape = steps_torch.shape_of(arguments.headroom, model)
            for phase in ("forward", "train"):
                writer.writerows(profiled(model, shape, phase, torch))
                out.flush()


if __name__ == "__main__":
    main()
