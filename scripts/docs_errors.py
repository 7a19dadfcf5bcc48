# SPDX-License-Identifier: Apache-2.0
"""Tables of errors in docs/notes/prediction.md, which programs of the build print (docs_numbers.py)."""
import functools
import json
import math
import re
import subprocess
import sys

from docs_command import program_beside
import fit_collectives
import fit_intervals
from docs_rows import RESULTS, TOP, table


def cells_of(text):
    """Cells of the lines of Markdown tables, without heads and rules."""
    found = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|-: "):
            found.append(cells)
    return found


# ---- bench/prediction_accuracy: an H200's operators ----


NAMES = {"products, m > 128": "GEMMs, m > 128", "products, m <= 128": "GEMMs, m <= 128", "batched products": "batched GEMMs",
         "all products": "all GEMMs", "decoding": "decode by frameworks"}


def accuracy_table():
    done = subprocess.run([program_beside("bench/prediction_accuracy")], capture_output=True, text=True, check=True)
    head = ["rows", "kind", "count", "mean error", "bias", "90% within", "worst"]
    lines = [["published" if cells[0] == "all" else cells[0], NAMES.get(cells[1], cells[1]), *cells[2:]]
             for cells in cells_of(done.stdout) if cells != head]
    return table(head, lines)


# ---- scripts/fit_intervals.py --formats ----


def intervals_table():
    """Of each class of fp32 and tf32: its interval, and the rows that lie in that of the other matrices."""
    lines = []
    for device in fit_intervals.FORMAT_DEVICES:
        for interval, start, inside, count in fit_intervals.coverage_of_formats(fit_intervals.format_rows(program_beside("headroom"), device)):
            if count:
                kind = {"gemm": "plain", "bmm": "batched"}[interval["kind"].split("_")[0]] + ", misaligned" * ("_" in interval["kind"])
                lines.append([device, f"{interval['dtype']}, {kind}", f"{start / 1e3:.0f} µs" if start else "", str(count),
                              f"{interval['low']:.2f} … {interval['high']:.2f}", f"{100 * inside / count:.0f}%"])
    return table(["device", "GEMMs", "from", "rows", "measured / predicted", "in the interval of other matrices"], lines)


# ---- scripts/fit_gemms.py --errors ----


NEUSIGHT = "NeuSight's test set"
# The mean error of the same rows by the model and the device files of 2026-11-22 (of NeuSight's test set, which came later, of 2026-11-26,
# before its rows were there), and whose rows they are.
BEFORE = {
    ("a100-sxm4-80gb", "bf16 < 30 µs"): ("34.8%", "SGLang 0.5.10"), ("a100-sxm4-80gb", "bf16 ≥ 30 µs"): ("8.3%", "SGLang 0.5.10"),
    ("h100-sxm", "bf16 < 30 µs"): ("17.1%", "SGLang 0.5.14"), ("h100-sxm", "bf16 ≥ 30 µs"): ("8.7%", "SGLang 0.5.14"),
    ("h200", "bf16 < 30 µs"): ("16.7%", "SGLang 0.5.14"), ("h200", "bf16 ≥ 30 µs"): ("9.4%", "SGLang 0.5.14"),
    ("l40s", "bf16 < 30 µs"): ("116.4%", "SGLang 0.5.14"), ("l40s", "bf16 ≥ 30 µs"): ("19.8%", "SGLang 0.5.14"),
    ("b200", "bf16 < 30 µs"): ("61.8%", "SGLang 0.5.14"), ("b200", "bf16 ≥ 30 µs"): ("12.6%", "SGLang 0.5.14"),
    ("v100-sxm2-32gb", "fp16 < 30 µs"): ("17.7%", "DeepBench"), ("v100-sxm2-32gb", "fp16 ≥ 30 µs"): ("26.9%", "DeepBench"),
    ("v100-sxm2-32gb", "fp32 ≥ 30 µs"): ("44.1%", "DeepBench"),
    ("v100-pcie-32gb", "fp32 ≥ 30 µs"): ("11.6%", NEUSIGHT), ("a100-pcie-40gb", "fp32 ≥ 30 µs"): ("10.4%", "its training and test set"),
    ("a100-pcie-40gb", "batched fp32 ≥ 30 µs"): ("18.9%", NEUSIGHT), ("a100-pcie-80gb", "fp32 ≥ 30 µs"): ("9.3%", NEUSIGHT),
    ("a100-pcie-80gb", "batched fp32 ≥ 30 µs"): ("19.1%", NEUSIGHT), ("h100-sxm", "fp32 ≥ 30 µs"): ("12.2%", NEUSIGHT),
    ("h100-sxm", "batched fp32 ≥ 30 µs"): ("12.9%", NEUSIGHT), ("l4", "fp32 ≥ 30 µs"): ("48.2%", NEUSIGHT),
    ("l4", "batched fp32 ≥ 30 µs"): ("42.4%", NEUSIGHT), ("mi210", "fp32 ≥ 30 µs"): ("32.0%", NEUSIGHT),
    ("mi210", "batched fp32 ≥ 30 µs"): ("30.1%", NEUSIGHT), ("mi250", "fp32 ≥ 30 µs"): ("13.7%", "its models"),
    ("mi250", "batched fp32 ≥ 30 µs"): ("10.7%", "its models"),
    ("mi300x", "batched bf16 ≥ 30 µs"): ("20.4%", "hipBLASLt, aiter (tuned)"), ("mi300x", "bf16 < 30 µs"): ("64.8%", "hipBLASLt, aiter (tuned)"),
    ("mi300x", "bf16 ≥ 30 µs"): ("7.3%", "hipBLASLt, aiter (tuned)")}
OWN = (("bmm < 30 us", "batched < 30 µs"), ("bmm >= 30 us", "batched ≥ 30 µs"), ("bmm, misaligned", "batched, misaligned"),
       ("gemm < 30 us", "plain < 30 µs"), ("gemm >= 30 us", "plain ≥ 30 µs"), ("gemm, misaligned", "plain, misaligned"))


@functools.lru_cache(maxsize=None)
def gemm_errors():
    """(device, GEMMs) -> rows held out, mean error, bias, median, 90% within, in the band."""
    done = subprocess.run([sys.executable, TOP / "scripts/fit_gemms.py", "--errors", "--program", program_beside("bench/gemm_times")],
                          capture_output=True, text=True, check=True)
    return {(cells[0], cells[1]): cells[3:] for cells in cells_of(done.stdout) if cells[2] == "held out"}


def gemm_errors_table():
    lines = []
    for (device, gemms), (before, source) in BEFORE.items():
        printed = re.sub(r"^batched", "bmm", gemms.replace("µs", "us").replace("≥", ">="))
        rows, error, bias, _, within, band = gemm_errors()[device, printed if printed.startswith("bmm") else f"gemm {printed}"]
        lines.append([device, gemms, rows, error, bias, within, band, before, source])
    return table(["device", "GEMMs", "rows held out", "mean error", "bias", "90% within", "in the band", "mean error before", "source"], lines)


def own_gemm_errors_table():
    lines = []
    for printed, gemms in OWN:
        for whose in ("figures", "own"):
            rows, error, bias, _, within, band = gemm_errors()["h200", f"{printed}, {whose}"]
            lines.append([whose, gemms, rows, error, bias, within, band])
    return table(["h200", "GEMMs", "rows held out", "mean error", "bias", "90% within", "in the band"], lines)


# ---- scripts/fit_kinds.py --errors ----


KIND_DEVICES = {"A100": "a100-sxm4-80gb", "H100": "h100-sxm", "H200": "h200", "B200": "b200", "L40S": "l40s"}
# Median and mean error of all rows by the model of 2026-11-23 without these terms.
KIND_LINES = (("latent decode", "latent bf16"), ("before", "108, 189%|7.9, 9.5%|9.1, 10.9%|24, 26%|21, 32%"),
              ("latent prefill", "latent_prefill bf16"), ("before", "39, 42%|66, 87%|72, 90%|27, 27%|42, 47%"),
              ("experts, bf16", "experts bf16"), ("experts, fp8 (not fitted to)", "experts fp8"),
              ("GEMMs with rounding, fp8", "gemm_8bit fp8"), ("before", "|62, 74%|53, 56%|118, 121%|78, 91%"))


def kind_errors_table():
    done = subprocess.run([sys.executable, TOP / "scripts/fit_kinds.py", program_beside("headroom"), "--errors"], capture_output=True, text=True,
                          check=True)
    found = {(cells[0], cells[1]): cells for cells in cells_of(done.stdout) if cells[2] == "held out"}

    def cell(device, kind):
        cells = found.get((device, kind))
        return f"{cells[4].rstrip('%')}, {cells[5]} ({cells[3]})" if cells else ""

    return table(["held out (rows): median, mean error", *KIND_DEVICES],
                 [[name, *(kind.split("|") if name == "before" else [cell(device, kind) for device in KIND_DEVICES.values()])]
                  for name, kind in KIND_LINES])


def held_out_error():
    """The mean error of all held-out operators of an H200, in percent."""
    done = subprocess.run([program_beside("bench/prediction_accuracy")], capture_output=True, text=True, check=True)
    return next(float(cells[3].rstrip("%")) for cells in cells_of(done.stdout) if cells[:2] == ["held out", "all"])


# ---- collectives: the rates of the device files over the rows that they were fitted to ----


COLLECTIVE_DEVICES = {"A100 SXM": "a100-sxm4-80gb", "H100 SXM": "h100-sxm", "H200": "h200", "B200": "b200", "L40S, 2 cards": "l40s"}


def collective_errors_table():
    groups = fit_collectives.read_groups(RESULTS / "published/collectives.csv")
    lines = []
    for name, device in COLLECTIVE_DEVICES.items():
        rates = json.loads((TOP / f"data/hardware/{device}.json").read_text(encoding="utf-8"))["collectives"]
        cells = [name]
        for kind in fit_collectives.KINDS:
            errors = []
            for rate in rates:
                form = math.log(rate["latency_ns"]), math.log(rate["bus_bytes_per_s"] / 1e9), rate["ramp"]
                points = groups.get((device, kind, rate["devices"]), []) if rate["kind"] == kind else []
                errors += [abs(math.log(fit_collectives.ramp(form, x) / time)) for x, time in points]
            cells.append(f"{math.exp(sum(errors) / len(errors)) - 1:.1%} ({len(errors)})" if errors else "-")
        lines.append(cells)
    return table(["mean error (rows)", *(kind.replace("_", "-" if kind.startswith(("all", "reduce")) else " ") for kind in fit_collectives.KINDS)],
                 lines)
