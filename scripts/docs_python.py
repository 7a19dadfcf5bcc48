# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/python.md and README.md, for the expressions in them (docs_numbers.py)."""
from docs_rows import mean, read, table


MEASURED_MODELS = ("smollm-135m", "phi-2", "qwen3-8b", "llama-3-8b")


def transformers_rows(mode):
    return [row for row in read("h200/transformers_steps.csv") if row.mode == mode]


def transformers_table(models=()):
    """Whole forward steps, and the geometric means of the ratios of all models."""
    lines = []
    for row in transformers_rows("compiled"):
        if not models or row.model in models:
            others = [next(each.ratio for each in transformers_rows(mode) if each.model == row.model)
                      for mode in ("graph", "eager")]
            lines.append([f"{row.model}, {row.batch} × {row.tokens}", f"{row.sdpa_ms:.1f}", f"{row.headroom_ms:.1f}",
                          f"{row.ratio:.2f}", *(f"{each:.2f}" for each in others)])
    means = [mean([row.ratio for row in transformers_rows(mode)]) for mode in ("compiled", "graph", "eager")]
    count = len(transformers_rows("compiled"))
    lines.append([f"geometric mean of {count} models", "", "", *(f"{each:.2f}" for each in means)])
    return table(["model, batch × tokens", "sdpa compiled, ms", "Headroom compiled, ms", "ratio", "as a CUDA graph",
                  "as launched"], lines)


def compiled_table(models):
    """What torch.compile alone reaches, and the geometric mean of the ratios of all models."""
    rows = transformers_rows("compiled")
    lines = [[f"{row.model}, {row.batch} × {row.tokens}", f"{row.sdpa_ms:.1f} ms", f"{row.headroom_ms:.1f} ms",
              f"{row.ratio:.2f}"] for row in rows if row.model in models]
    lines.append([f"mean of {len(rows)} models", "", "", f"{mean([row.ratio for row in rows]):.2f}"])
    return table(["compiled", "sdpa", "Headroom", "gain"], lines)
