# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/papers.md: published numbers beside what the command predicts and what was measured (docs_numbers.py)."""
import functools
import math
import re

from docs_command import document
from docs_rows import h200, median, one, power, read, table

DEVICES = {"A100": "a100-sxm4-40gb", "V100": "v100-sxm2-16gb"}
TOKENS = 8192  # b = 4, s = 2048
HEADS = dict(zip(range(21, 34), (8, 12, 16, 20, 24, 32, 40, 64, 80, 96, 128, 256, 512)))
FIGURES = "published/codesign-figures.csv"
X_AXIS = {"fig5a": "m", "fig5b": "n", "fig5c": "n", "fig6a": "b", "fig6b": "b", "fig6c": "m", "fig6d": "m", "fig14": "n",
          "fig20a": "v"}
STEPS = {"fig5a": 128, "fig5b": 8, "fig5c": 64}  # readings at round numbers stand for the sweep's points


def published(sweep, x, /, **wanted):
    """A published rate of the co-design paper, in TFLOP/s."""
    return one(FIGURES, sweep=sweep, x=x, **wanted).tflops_per_s


def value(place, what, of=""):
    """A published number that is no rate of a shape."""
    return one("published/codesign-values.csv", place=place, what=what, of=of).value


# ---- the GEMM at a point of a figure: m, n, k, batch, B transposed ----


def heads_of(sweep):
    figure = int(re.sub(r"\D", "", sweep))
    return 32 if figure == 7 else HEADS[figure if figure < 34 else figure - 14]


@functools.lru_cache(maxsize=None)
def predicted(device, gemm):
    """TFLOP/s in fp16."""
    m, n, k, batch, transposed = gemm
    found = document(f"gemm {m} {n} {k} -b {batch} --dtype fp16 --device {device}" + " --transpose-b" * transposed)
    return found["gemm"]["flops"] / found["prediction"]["predicted_ns"] / 1e3


def measured(sweep, series, x):
    """The row of the H200 nearest to a point of a figure."""
    axis = X_AXIS.get(sweep, "h")
    found = [row for row in h200(sweep) if row.series == series]
    return min(found, key=lambda row: abs(getattr(row, axis) - x), default=None)


# ---- readings ----


def readings(sweep, device="A100"):
    return [row for row in read(FIGURES) if row["sweep"] == sweep and row["device"] == device]


def same_picture():
    """Readings of one series in figures 8 and 34 at the same hidden size: their differences, in TFLOP/s."""
    found = {(row.series, row.x): row.tflops_per_s for row in readings("fig34")}
    return [abs(row.tflops_per_s - found[row.series, row.x]) for row in readings("fig8") if (row.series, row.x) in found]


# ---- layers: figures 1, 2, 11 ----


LAYERS = (("C1", 2560, 64), ("C2", 2560, 40), ("GPT-3 (2.7B)", 2560, 32), ("Ours 1", 2560, 20), ("Ours 2", 4096, 32))


def layer_document(hidden, heads, device, attention="unfused"):
    return document(f'advise {{"h":{hidden},"a":{heads},"L":32,"v":50257}} --device {device} --attention {attention} --dtype fp16')


def layer_rate(hidden, heads, device):
    flops = 24 * TOKENS * hidden ** 2 + 4 * TOKENS * 2048 * hidden
    return flops / layer_document(hidden, heads, device)["layer_time_ns"] / 1e3


def figure_1_table():
    lines = []
    base = [published("fig1", "GPT-3 (2.7B)"), layer_rate(2560, 32, DEVICES["A100"]), one_layer(2).tflops]
    for case, (name, hidden, heads) in enumerate(LAYERS):
        three = published("fig1", name), layer_rate(hidden, heads, DEVICES["A100"]), one_layer(case).tflops
        lines.append([name, hidden, heads, *(f"{rate:.1f} ({rate / of:.2f})" for rate, of in zip(three, base)),
                      f"{three[1] / three[0]:.2f}", f"{three[2] / three[0]:.2f}"])
    return table(["bar", "h", "a", "paper", "predicted, A100", "H200, measured", "predicted / paper", "H200 / paper"], lines)


def one_layer(case, sweep="fig1"):
    return one("h200/figures-1-to-19.csv", sweep=sweep, dtype="bf16", case=case)


PARTS = {"QKV": ("qkv_transform",), "Score": ("attention_score",), "AOV": ("attention_over_value",),
         "Linproj": ("linear_projection",), "MLP h to 4h": ("mlp_up",), "MLP 4h to h": ("mlp_down",),
         "Flash": ("attention",)}
BARS = (("Small (h=2560, a=20)", 2560, 20, "unfused"), ("Large (h=16384, a=128)", 16384, 128, "unfused"),
        ("Large + Flash (h=16384, a=128)", 16384, 128, "fused"))


def shares(times):
    """Shares of a layer's time, in percent, by the names of figures 2 and 11: of the times of its operators."""
    total, of = sum(times.values()), {}
    for part, names in PARTS.items():
        of[part] = 100 * sum(times.get(name, 0) for name in names) / total
    of["GEMMs"] = sum(share for part, share in of.items() if part != "Flash")
    of["Softmax"], of["Non-GEMM"] = 100 * times.get("softmax", 0) / total, 100 - of["GEMMs"] - of["Flash"]
    of["DR"] = 100 * sum(time for name, time in times.items() if name.endswith(("dropout", "residual"))) / total
    of["LN"] = 100 * sum(time for name, time in times.items() if name.endswith("norm")) / total
    return of


def predicted_shares(hidden, heads, attention):
    """Of a layer on an A100."""
    found = document(f'advise {{"h":{hidden},"a":{heads},"L":1,"v":64}} --device a100-sxm4-80gb --attention {attention} --dtype fp16 --framework headroom --dropout forward')
    return shares({row["name"]: row["count"] * row["predicted_ns"] for row in found["operators"]
                   if row["name"] not in ("embedding", "embedding_dropout", "logit", "final_norm")})


def measured_shares(sweep, case):
    """Of a layer on an H200, each operator alone."""
    row = one("h200/layer-shares.csv", sweep=sweep, case=case, status="ok")
    return shares({name: float(time) for name, time in (part.split("=") for part in row.parts.split())})


def shares_differ():
    """The largest difference of a measured and a predicted share, in percentage points, rounded up."""
    pairs = [(predicted_shares(*layer), measured_shares(figure, case)) for figure in ("fig2", "fig11")
             for case, (_, *layer) in enumerate(BARS)]
    return math.ceil(max(abs(ours[part] - here[part]) for ours, here in pairs for part in ours))


def shares_table(figure, parts):
    lines = []
    for case, (name, *layer) in enumerate(BARS):
        ours, here = predicted_shares(*layer), measured_shares(figure, case)
        lines.append([name, *(f"{value(figure, part, name)} / {ours[part]:.0f} / {here[part]:.0f}" for part in parts)])
    return table(["paper / predicted / H200, %", *parts], lines)


# ---- figures 12, 13, 20 and the numbers of the text ----


def output_ms(case, graph):
    """An output of the suite on the H200, measured: 128 tokens behind 512."""
    return one("h200/whole-models.csv", sweep="fig13", case=case, graph=graph).ms


def figure_13_table():
    lines = []
    for case, size in ((3, "160m"), (4, "410m"), (5, "1b"), (6, "1.4b"), (7, "2.8b")):
        times = [document(f"advise pythia-{size} --device {device} --phase decode -b 1 {options}")["step_time_ns"] / 1e6
                 for device, options in (("a100-sxm4-40gb", "--dtype fp16 --framework eager"), ("a100-sxm4-80gb", "--context 128"),
                                         ("h200", "--context 128"))]
        lines.append([f"Pythia {size}", value("fig13", f"pythia-{size}"), *(f"{time:.2f}" for time in times),
                      *(f"{output_ms(case, graph):.0f}" for graph in (0, 1))])
    return table(["model", "paper, s", "predicted: a token in eager mode on an A100, ms", "in a graph on an A100, ms",
                  "on an H200, ms", "H200, measured: an output kernel by kernel, ms", "as one graph a step, ms"], lines)


def figure_20_table():
    lines = []
    for figure, axis, on, off, theirs in (("20a", "v", (TOKENS, 51200, 4096, 1, True), (TOKENS, 51199, 4096, 1, True), "vocabularies"),
                                          ("20b", "h", (TOKENS, 51200, 14336, 1, True), (TOKENS, 51200, 14335, 1, True), "hidden sizes")):
        for what, gemm, aligned in (("at the peaks", on, True), ("between them", off, False)):
            paper, ours = value(f"fig{figure}", f"{theirs} {what}"), predicted(DEVICES["A100"], gemm)
            here = [row.tflops for row in h200(f"fig{figure}")
                    if (power(row.n if axis == "v" else row.h) == 64 if aligned else (row.n if axis == "v" else row.h) % 2)]
            lines.append([figure, f"{what}: {axis} = {gemm[1] if axis == 'v' else gemm[2]}", paper, f"{ours:.0f}",
                          f"{ours / paper:.2f}", f"{median(here):.0f}"])
    return table(["figure", "point", "paper, A100", "predicted, A100", "predicted / paper", "H200, measured"], lines)


def generations():
    """H100 over A100, predicted: one layer of GPT-3 2.7B, and a GEMM of 8192."""
    layers = [layer_rate(2560, 32, device) for device in ("h100-sxm", DEVICES["A100"])]
    products = [predicted(device, (8192, 8192, 8192, 1, True)) for device in ("h100-sxm", DEVICES["A100"])]
    return layers[0] / layers[1], products[0] / products[1]


def generations_table():
    layer_ratio, product_ratio = generations()
    paper = value("section VIII", "BERT in MLCommons, and kernels", "H100 over A100")
    return table(["H100 over A100", "paper", "predicted", "predicted / paper"],
                 [["one layer of GPT-3 2.7B, unfused", f"{paper} : 1", f"{layer_ratio:.2f}", f"{layer_ratio / paper:.2f}"],
                  ["a GEMM, m = n = k = 8192", f"{paper} : 1", f"{product_ratio:.2f}", f"{product_ratio / paper:.2f}"]])


# ---- SIGMA and the attention sweep ----


IMPLEMENTATIONS = {"scaled_dot_prod_attention": "naive", "vectorized_torch": "materialized",
                   "vectorized_torch_compiled": "fused", "flash_attention_triton": "flash"}


def attention_sweep_table():
    """The shortest length."""
    lines = []
    for row in (row for row in read("published/attention-forward.csv") if row.q_len == 2048):
        found = {dtype: one("h200/attention-forward.csv", series=f"{IMPLEMENTATIONS[row.kernel]} XS", s=row.q_len, dtype=dtype)
                 for dtype in ("fp32", "bf16")}
        times = [f"{one_of.ms:.3g}" if one_of.status == "ok" else one_of.status for one_of in found.values()]
        ratio = f"{found['fp32'].ms / row.mean_ms:.2f}" if found["fp32"].status == "ok" else None
        lines.append([row.kernel, row.q_len, f"{row.mean_ms:.3g}", IMPLEMENTATIONS[row.kernel], *times, ratio])
    return table(["published", "length", "ms", "Headroom's", "H200, fp32, ms", "bf16, ms", "fp32 / published"], lines)
