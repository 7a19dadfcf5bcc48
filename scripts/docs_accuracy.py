# SPDX-License-Identifier: Apache-2.0
"""The table of each device in docs/notes/prediction.md (docs_numbers.py): the errors of its predictions on rows that no figure was fitted to."""
import csv
import functools
import re
import tempfile
import zlib

from docs_advice import random_line
from docs_command import rows_of
from docs_rows import RESULTS, read, table

KINDS = {"gemm": "GEMMs", "gemm_misaligned": "misaligned GEMMs", "bmm": "batched GEMMs", "bmm_misaligned": "misaligned batched GEMMs",
         "attention": "attention", "decode": "decode", "latent": "latent attention, decode", "latent_prefill": "latent attention, prefill",
         "experts": "experts", "gemm_8bit": "8 bit GEMMs with rounding"}
# file, options of validate, whether a row was held out of its fit, source
PUBLISHED = (
    ("gemms.csv", "--clock burst", lambda row: row["part"] == "held_out", "published, held out"),
    ("attention.csv", "--cache-writes", None, "published, held out"),
    ("latent.csv", "--cache-writes", lambda row: row["part"] == "held_out", "published, held out"),
    ("experts.csv", "", lambda row: row["part"] == "held_out" and row["dtype"] == "bf16", "published, held out"),
    ("gemms_fp8.csv", "", lambda row: row["part"] == "held_out", "published, held out"),
)
# The first file that has a kind.
RANDOM = {"h200": ("h200/random-seed-23.csv", "h200/random-seed-27.csv"), "h100-sxm": ("h100/random-seed-29.csv", "h100/random-seed-21-attention.csv")}
SHORT_NS = 30e3


SHAPE = {"keys": "n", "batch": "batch", "q_heads": "q_heads", "k_heads": "kv_heads", "v_heads": "kv_heads", "head_dim": "head_dim",
         "window": "window"}


def attention_held_out(row):
    """The quarter of scripts/fit_attention.py."""
    shape = sorted((name, int(row[column])) for name, column in SHAPE.items())
    return zlib.crc32(repr(shape).encode()) % 4 == 0


@functools.lru_cache(maxsize=None)
def published(name):
    with open(RESULTS / "published" / name, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def predicted_rows(device, name, options, wanted):
    chosen = [row for row in published(name) if row["device"] == device and wanted(row)]
    if not chosen:
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, chosen[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(chosen)
        file.flush()
        return rows_of(f"validate --from {file.name} --device {device} {options}".strip())


def decode_beside_torch():
    """The calls of bench/decode_gpu_vs_torch.py with a contiguous cache, and their predictions: with WGMMA, and without."""
    measured = read("h200/decode_gpu_vs_torch.csv")
    lines = ["kind,m,n,batch,q_heads,kv_heads,v_heads,head_dim,v_dim,measured_ns,framework"]
    lines += [f"decode,1,{row['keys']},{row.batch},{row.q_heads},{row.k_heads},{row.v_heads},{row.qk_dim},{row.v_dim},"
              f"{row.contiguous_us * 1e3},headroom" for row in measured]
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        found = rows_of(f"validate --from {file.name} --device h200")
    wide = [predicted for predicted, row in zip(found, measured) if "WGMMA" in row.configuration]
    return wide, [predicted for predicted in found if predicted not in wide]


def decode_errors():
    """By how much calls with WGMMA are predicted too slow, and the errors of the others."""
    wide, others = decode_beside_torch()
    slow = sorted(100 * (float(row["ratio"]) - 1) for row in wide)
    _, count, median, _, most, *_ = random_line("decode", others)
    return f"{slow[0]:.0f} to {slow[-1]:.0f}% too slow", f"other {count} calls are {median} off in the median, nine of ten within {most}"


def lines_of(found, source):
    lines = []
    for kind, name in KINDS.items():
        of_kind = [row for row in found if row["kind"] == kind]
        parts = [("", of_kind)]
        if kind == "gemm":
            parts = [(", below 30 µs", [row for row in of_kind if float(row["measured_ns"]) < SHORT_NS]),
                     (", 30 µs and more", [row for row in of_kind if float(row["measured_ns"]) >= SHORT_NS])]
        for size, part in parts:
            if len(part) > 2:
                _, count, median, mean, most, bias, inside, *_ = random_line(name, part)
                lines.append([name + size, count, median, mean, most, bias, inside, source])
    return lines


# What NeuSight reports of a device (Lee, Phanishayee, Mahajan 2025, arXiv 2407.13853), our files of it, and our error on their held-out
# rows before any of these rows was there (2026-11-26).
NEUSIGHT = {"H100": ("14.5%", {"h100-sxm": "11.6%"}), "V100": ("8.8%", {"v100-pcie-32gb": "11.1%"}),
            "A100": ("16.4%", {"a100-pcie-40gb": "10.2%", "a100-pcie-80gb": "10.3%"}), "L4": ("18%", {"l4": "31.2%"}),
            "MI210": ("14%", {"mi210": "21.2%"}), "MI250": ("18%", {"mi250": "13.1%"})}


def device_lines(device):
    """A line of device_table() for each kind of row of a device that no figure was fitted to."""
    lines = []
    for name, options, wanted, source in PUBLISHED:
        lines += lines_of(predicted_rows(device, name, options, wanted or attention_held_out), source)
    seen = set()
    for file in RANDOM.get(device, ()):
        found = [row for row in rows_of(f"validate --from {RESULTS / file} --device {device}") if row["kind"] not in seen]
        lines += lines_of(found, f"own, random ({re.search(r'seed-([0-9]+)', file)[1]})")
        seen.update(row["kind"] for row in found)
    return lines


def device_table(device):
    return table(["kind", "rows", "median error", "mean", "90% within", "bias", "in the interval", "source"], device_lines(device))


TRUSTED = {"H200": "h200", "H100 SXM": "h100-sxm", "A100 SXM": "a100-sxm4-80gb", "B200": "b200", "L40S": "l40s", "V100": "v100-sxm2-32gb"}
LEAST_ROWS = 20


def trust_table():
    """Median error and the error of nine in ten, by kind and device, of own random rows where there are some, else of published ones."""
    columns = {name: {line[0]: line for line in device_lines(device) if line[1] >= LEAST_ROWS}
               for name, device in TRUSTED.items()}
    kinds = dict.fromkeys(kind for lines in columns.values() for kind in lines)
    return table(["median, 90% within", *columns],
                 [[kind, *(", ".join(lines[kind][i] for i in (2, 4)) if kind in lines else "" for lines in columns.values())] for kind in kinds])
