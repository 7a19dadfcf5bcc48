#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the energy of Headroom's attention on Hopper goes: the kernel with one part left out or changed, each sustained.

    attention_gpu_energy.py LIBHEADROOM [--calls long128,train128c] [--variants NAME,…] [--operands uniform,zeros]
                            [--rounds N] [--seconds S] [--output FILE.csv]

A variant is a copy of the library in which the text of attention_flash_sm90 is changed; NVRTC compiles it as usual. Its
results are wrong, except for `base` and the ways to wait, so nothing is checked. A variant has to use every score and
every element of P, or the compiler drops the WGMMAs, and its row sums must not be negative, since the wait for the next K
tile depends on them: with negative ones the kernel may not end. A part's energy is what leaving it out
saves, but a lighter kernel runs at a higher clock and voltage, where the rest costs more: joules of different clocks don't
add up, and the column of cycles (time by clock) tells how much of a part overlapped with others. `zeros` are operands.
Needs PyTorch and a shared, unstripped or stripped libheadroom; calls are those of attention_gpu_vs_torch.py --grid named.
"""
import argparse
import concurrent.futures
import csv
import os
import re
import tempfile

import torch

import attention_gpu_peers as common
from gpu_power import Meter, Nvml, block

SETTLE_S, SAMPLE_S, TURN_S = 0.4, 1.2, 2e-3
COLUMNS = ["tier", "variant", "operands", "us", "clock_mhz", "power_w", "call_j", "tflop_j", "energy_saved", "cycles_saved",
           "blocks"]

SOFTMAX = ("    mask_scores(call, item, sp, c, tile);\n  online_softmax(c, factor);\n  t = next;",
           "    mask_scores(call, item, sp, c, tile);\n  t = next;")
RESCALE = ("  release_kv(c, V_EMPTY + before.stage);\n  rescale_out(c);\n", "  release_kv(c, V_EMPTY + before.stage);\n")
CONVERT = ("  rescale_out(c);\n  convert_p(c);\n}", "  rescale_out(c);\n}")
WAIT_AND_LOAD = ("  mbarrier_wait_long(empty, parity);\n  mbarrier_arrive_expect_tx(full, panels * K_PANEL);\n"
                 "  for (int panel = 0; panel < panels; panel++)\n#if HR_CLUSTER > 1")
LOADS = (WAIT_AND_LOAD,
         "  mbarrier_wait_long(empty, parity);\n  bool loads = tile >= item.end_tile - HR_STAGES && item.head % 4 == 0;\n"
         "  if (loads) mbarrier_arrive_expect_tx(full, panels * K_PANEL); else mbarrier_arrive(full);\n"
         "  for (int panel = loads ? 0 : panels; panel < panels; panel++)\n#if HR_CLUSTER > 1")
SLEEP = (WAIT_AND_LOAD, WAIT_AND_LOAD.replace(
    "  mbarrier_wait_long(empty, parity);\n",
    "  for (unsigned over = 0; !over;) {\n"
    "    asm volatile(\"{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}\" "
    ": \"=r\"(over) : \"r\"(empty), \"r\"(parity) : \"memory\");\n"
    "    if (!over) __nanosleep(100);\n  }\n"))

# name: what it leaves out or changes, and (old, new) in the kernel's files. Every old text has to be there.
VARIANTS = {
    "base": ("the kernel", []),
    "no_loads": ("one K/V tile in 16 or fewer is loaded", [LOADS]),
    "no_softmax": ("no softmax, no rescaling; P is converted", [SOFTMAX, RESCALE]),
    "wgmma": ("neither loads nor softmax: WGMMA, waits, work items", [SOFTMAX, RESCALE, LOADS]),
    "loads": ("loads alone", [("      attend(call, item, sp, c, c.memory + at * Q_BYTES, Q_EMPTY + at, t, factor);",
                               "      skip_tiles(c, t, sp.end_tile - sp.first_tile, 0); __syncwarp(); release_stage(c, Q_EMPTY + at);")]),
    "no_exp": ("a multiply-add instead of the exponential",
               [("float weight = exp2_approx(c.scores[n * 4 + half * 2 + e] * factor - c.base[half]);",
                 "float weight = (c.base[half] + 9) - c.scores[n * 4 + half * 2 + e] * factor;")]),
    "no_max": ("a row's base is one of its first scores",
               [("  c.rescales = __any_sync(0xFFFFFFFFu, find_row_max(c, row_max));",
                 "  c.rescales = c.limit[0] == minus_infinity(); row_max[0] = c.scores[0]; row_max[1] = c.scores[2];")]),
    "eager": ("O is rescaled whenever a maximum grows", [("#define RESCALE_THRESHOLD 8", "#define RESCALE_THRESHOLD 0")]),
    "no_rescale": ("O is not rescaled", [RESCALE]),
    "no_convert": ("P is not converted", [CONVERT]),
    "no_store": ("O is not written", [("    epilogue(call, tensor_maps,", "    if (c.row_sum[0] < 0) epilogue(call, tensor_maps,")]),
    "no_diagonal": ("tiles that the mask cuts are left out",
                    [("  sp.end_tile = tiles.end;\n",
                      "  sp.end_tile = max(tiles.first + 1, keys_of_row(call, view, sp.first_row).end / HR_KV_TILE);\n")]),
    "no_ping_pong": ("no ping-pong", [("#ifdef HR_PING_PONG\n  named_barrier_sync", "#ifdef HR_NEVER\n  named_barrier_sync"),
                                     ("#ifdef HR_PING_PONG\n  named_barrier_arrive", "#ifdef HR_NEVER\n  named_barrier_arrive")]),
    "no_hint": ("try_wait without a suspend-time hint", [("[%0], %1, 10000000;", "[%0], %1;")]),
    "wait_sleep": ("the producers of K and V sleep 100 ns between polls", [SLEEP]),
}
FIRST_LINES = (b"/* Attention forward with an online softmax on Hopper", b"/* Between the WGMMAs of attention_flash_sm90",
               b"/* The producer warps of attention_flash_sm90", b"/* PTX instructions of compute capability 9.0")


def text_of(library, first_line):
    """Where an embedded file is: begins with its licence line, ends with a NUL."""
    at = library.index(first_line)
    start = library.rindex(b"\0", 0, at) + 1
    return start, library.index(b"\0", at)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def apply(name, text, edits, done):
    for i, (old, new) in enumerate(edits):
        if old in text:
            if text.count(old) != 1:
                raise RuntimeError(f"{name}: {text.count(old)} places for {old!r}")
            text, done[i] = text.replace(old, new), True
    return text


def changed_library(library, name):
    """The library with the kernel's text changed; what comments took pays for longer text."""
    changed, edits = bytearray(library), VARIANTS[name][1]
    done = [False] * len(edits)
    for first_line in FIRST_LINES:
        start, end = text_of(library, first_line)
        text = without_comments(library[start:end].decode())
        text = apply(name, text, [(without_comments(a), b) for a, b in edits], done).encode()
        if len(text) > end - start:
            raise RuntimeError(f"{name}: {len(text) - end + start} bytes too long")
        changed[start:end] = text + b" " * (end - start - len(text))
    if not all(done):
        raise RuntimeError(f"{name}: the kernel has changed: {edits[done.index(False)][0]!r} is not there")
    return bytes(changed)


def open_variants(path, names, folder):
    with open(path, "rb") as file:
        library = file.read()

    def open_one(name):
        own = os.path.join(folder, f"lib{name}.so")
        with open(own, "wb") as file:
            file.write(changed_library(library, name))
        return common.Headroom(own, "attention_flash_sm90")

    return {name: open_one(name) for name in names}


def measure(graph, meter, rounds, seconds):
    blocks = [block(graph, meter, SETTLE_S, seconds) for _ in range(rounds)]
    return {key: sum(b[key] for b in blocks) / rounds for key in blocks[0]}


def capture(variant, plan, row, sets, count):
    outputs = [common.empty_output(row) for _ in sets]
    return common.common.capture(lambda i: plan.run(*sets[i % len(sets)], outputs[i % len(sets)]), count, variant.stream)


def compare(row, variants, meter, arguments, emit):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        plans = dict(zip(variants, pool.map(lambda variant: variant.plan(row), variants.values())))
    inputs = common.operands(row)
    sets, base = common.cold_sets(row, inputs), {}
    count = max(len(sets), min(64, int(TURN_S / (plans["base"].flops / 500e12)) + 1))
    for operands in arguments.operands.split(","):
        if operands == "zeros":
            for tensor in [t for tensors in sets for t in tensors]:
                tensor.zero_()
        for name, variant in variants.items():
            if operands == "zeros" and name not in ("base", "no_loads", "no_softmax", "wgmma", "loads"):
                continue
            graph = capture(variant, plans[name], row, sets, count)
            m = measure(graph[0], meter, arguments.rounds, arguments.seconds)
            us, joules = m["ms"] * 1e3 / count, m["power_w"] * m["ms"] * 1e-3 / count
            base.setdefault("joules", joules)
            base.setdefault("cycles", us * m["clock_mhz"])
            result = dict(tier=row["tier"], variant=name, operands=operands, us=f"{us:.1f}", clock_mhz=f"{m['clock_mhz']:.0f}",
                          power_w=f"{m['power_w']:.1f}", call_j=f"{joules:.5f}",
                          tflop_j=f"{joules / plans[name].flops * 1e12:.4f}", energy_saved=f"{1 - joules / base['joules']:.4f}",
                          cycles_saved=f"{1 - us * m['clock_mhz'] / base['cycles']:.4f}", blocks=arguments.rounds)
            emit(result)
            print("{tier:10} {variant:13} {operands:8} {us:>8} us {clock_mhz:>5} MHz {power_w:>6} W {call_j:>9} J {tflop_j:>7} J/TFLOP  saved: energy "
                  "{energy_saved:>7} cycles {cycles_saved:>7}".format(**result), VARIANTS[name][0], flush=True)
    for plan in plans.values():
        plan.free()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--calls", default="long128,train128c", help="calls of the grid `named`")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=f"some of {', '.join(VARIANTS)}")
    parser.add_argument("--operands", default="uniform,zeros", help="what Q, K and V hold (both)")
    parser.add_argument("--rounds", type=int, default=1, help="blocks of each variant (1)")
    parser.add_argument("--seconds", type=float, default=SAMPLE_S, help=f"of a block that are measured ({SAMPLE_S})")
    parser.add_argument("--output", default=os.devnull, help="CSV file")
    arguments = parser.parse_args()
    names = ["base"] + [name for name in arguments.variants.split(",") if name != "base"]
    rows = [row for row in common.named(False) if row["tier"] in arguments.calls.split(",")]
    torch.cuda.init()
    with tempfile.TemporaryDirectory() as folder, open(arguments.output, "w", newline="") as file:
        variants = open_variants(arguments.library, names, folder)
        meter = Meter(Nvml())
        file.write(common.provenance("each variant alone, sustained, bench/attention_gpu_energy.py"))
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        common.settle()

        def emit(result):
            writer.writerow(result)
            file.flush()  # keeps the rows so far if the run is stopped

        for row in rows:
            compare(row, variants, meter, arguments, emit)


if __name__ == "__main__":
    main()
