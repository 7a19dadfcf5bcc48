# SPDX-License-Identifier: Apache-2.0
"""Tables and sets of rows of docs/findings.md, for the expressions in it (docs_numbers.py)."""
import functools

from docs_rows import h200, median, one, percent, power, rates, read, rows, table

SCORE = tuple(f"fig{number}" for number in range(21, 34))
OVER_VALUE = tuple(f"fig{number}" for number in range(35, 48))
LINEAR = ("fig10a", "fig10b", "fig15", "fig19")
DIVISORS = (64, 32, 16, 8, 4, 2, 1)


def head_size(row):
    return row.h // row.a


@functools.lru_cache(maxsize=None)
def beside_multiples(sweeps, divisor):
    """Rates of head sizes with this divisor over the line between the nearest measured multiples of 64, each sweep."""
    ratios = []
    for sweep in sweeps:
        found = h200(sweep)
        aligned = {head_size(row): row.tflops for row in found if head_size(row) % 64 == 0}
        for row in found:
            below, above = ([size for size in aligned if sign * (size - head_size(row)) > 0] for sign in (-1, 1))
            if power(head_size(row)) == divisor and below and above:
                least, most = max(below), min(above)
                share = (head_size(row) - least) / (most - least)
                ratios.append(row.tflops / (aligned[least] + share * (aligned[most] - aligned[least])))
    return ratios


def alignment(sweeps, divisor):
    return f"{median(beside_multiples(sweeps, divisor)):.2f}"


def alignment_table():
    return table(["h/a divisible by", *map(str, DIVISORS[1:])],
                 [["score (figures 21–33)", *(alignment(SCORE, divisor) for divisor in DIVISORS[1:])],
                  ["attention over value (35–47)", *(alignment(OVER_VALUE, divisor) for divisor in DIVISORS[1:])]])


@functools.lru_cache(maxsize=None)
def of_head_size(sweeps, size):
    """Rates of all rows with this head size."""
    return [row.tflops for sweep in sweeps for row in h200(sweep) if row.h == size * row.a]


SCORE_SIZES = (*SCORE, "fig7a", "fig8", "fig17", "fig34")
OVER_VALUE_SIZES = (*OVER_VALUE, "fig7b", "fig9", "fig18")


def head_size_table():
    sizes = (8, 16, 32, 64, 128, 256, 512)
    lines = []
    for name, sweeps in (("score", SCORE_SIZES), ("attention over value", OVER_VALUE_SIZES)):
        found = [of_head_size(sweeps, size) for size in sizes]
        lines += [[f"{name}, TFLOP/s", *(f"{median(rates_of):.0f}" for rates_of in found)],
                  ["least to most", *(f"{min(rates_of):.0f}–{max(rates_of):.0f}" for rates_of in found)],
                  ["rows", *map(len, found)]]
    return table(["h/a", *map(str, sizes)], lines)


def by_divisor(sweep, axis, dtype="bf16"):
    """Divisor -> median rate."""
    found = {}
    for row in h200(sweep, dtype=dtype):
        found.setdefault(power(getattr(row, axis)), []).append(row.tflops)
    return {divisor: median(values) for divisor, values in found.items()}


def linear_rates(dtype, sweep=None):
    """Rates of MLP, QKV and projection over the hidden size."""
    return [rate for name in ([sweep] if sweep else LINEAR) for rate in rates(h200(name, dtype=dtype, h=lambda h: h >= 2048))]


def deviation(dtype):
    """The least and the largest rate over the median of the same GEMM."""
    ratios = [rate / median(linear_rates(dtype, name)) for name in LINEAR for rate in linear_rates(dtype, name)]
    return f"{percent(min(ratios), 1)} to {percent(max(ratios), 1)}"


def tensor_parallel(hidden, devices):
    return one("h200/figures-1-to-19.csv", sweep="fig16", dtype="bf16", h=hidden, t=devices).tflops


def in_both_formats(test):
    """(fp16, bf16) rows of the GEMMs whose rate in bf16 passes the test."""
    found = {}
    for row in read("h200/figures-*.csv"):
        if row.status == "ok" and row.operation == "gemm":
            found.setdefault((row["sweep"], row["axes"]), {})[row.dtype] = row
    return [(both["fp16"], both["bf16"]) for both in found.values() if len(both) == 2 and test(both["bf16"].tflops)]


def fp16_over_bf16(test):
    return [half.tflops / brain.tflops for half, brain in in_both_formats(test)]


def points(dtype):
    """Rows of each thinned figure of GEMMs in a format."""
    found = {}
    for row in read("h200/figures-*.csv"):
        if row.operation == "gemm" and row.dtype == dtype and row["sweep"] not in ("fig6a", "fig6b", "fig6c", "fig6d", "fig14"):
            found[row["sweep"]] = found.get(row["sweep"], 0) + 1
    return found.values()


def layer(case, sweep="fig1"):
    return one("h200/figures-1-to-19.csv", sweep=sweep, dtype="bf16", case=case)


def flash(size):
    """A row of figure 12, by head size."""
    return one("h200/figure-12.csv", dtype="bf16", head_dim=size)


def flash_peer(size):
    return one("h200/figure-12_gpu_vs_torch.csv", dtype="bf16", qk_dim=size)


def flash_table():
    sizes = range(32, 257, 32)
    names = (("Headroom", "headroom_tflops"), ("cuDNN", "cudnn_tflops"), ("FlashAttention-2", "flash_tflops"))
    return table(["hidden size", *(str(128 * size) for size in sizes)],
                 [["head size", *map(str, sizes)],
                  *([name, *(f"{getattr(flash_peer(size), column):.0f}" for size in sizes)] for name, column in names)])


def gain(name, attention):
    return one("h200/gains.csv", name=name, attention=attention)


def chosen(test):
    """Speed-ups of the fastest algorithm over the heuristic's, of the shapes that pass the test."""
    return [row.choice_speedup for row in rows("h200/autotune.csv") if test(row)]


def even_sized(row):
    return all(size % 8 == 0 for size in (row.m, row.n, row.k)) and row.m >= 2048


def stride_us(size, leading):
    return one("h200/strides.csv", m=4096, n=4096, k=size, lda=leading, ldb=leading).median_ns / 1e3
