# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/python.md and README.md, for the expressions in them (docs_numbers.py)."""
from docs_command import document
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


FITTED = ("gpt2-xl", "pythia-1b", "smollm-135m", "pythia-6.9b", "qwen3-8b")
FRAMEWORKS = {"compiled": "transformers-compiled", "eager": "transformers"}


def predicted_error(row, device="h200"):
    """Of what --framework transformers predicts."""
    step = document(f"advise {row.model} -d {device} --phase forward --dtype bf16 -b {row.batch} --seq {row.tokens} "
                    f"--framework {FRAMEWORKS[row.mode]}")
    return step["step_time_ns"] / 1e6 / row.sdpa_ms - 1


def held_out(mode):
    return [predicted_error(row) for row in transformers_rows(mode) if row.model not in FITTED]


def on_the_h100():
    return [predicted_error(row, "h100-sxm") for row in read("h100/transformers_steps.csv") if row.mode == "compiled"]


def size_of(errors):
    return f"{100 * sum(map(abs, errors)) / len(errors):.1f}%"


def transformers_errors_table():
    """Predicted over measured, of the models that were fitted and of the others."""
    lines = [[f"{row.model}, {row.batch} × {row.tokens}", *(f"{100 * predicted_error(each):+.1f}%" for mode in FRAMEWORKS
              for each in transformers_rows(mode) if each.model == row.model), "fitted" if row.model in FITTED else "held out"]
             for row in transformers_rows("compiled")]
    lines += [[f"{row.model}, {row.batch} × {row.tokens}, H100", f"{100 * predicted_error(row, 'h100-sxm'):+.1f}%", "",
               "on the H200" if row.model in FITTED else "held out"]
              for row in read("h100/transformers_steps.csv") if row.mode == "compiled"]
    return table(["model, batch × tokens", "compiled", "launched by Python", "of the fit"], lines)


def compiled_table(models):
    """What torch.compile alone reaches, and the geometric mean of the ratios of all models."""
    rows = transformers_rows("compiled")
    lines = [[f"{row.model}, {row.batch} × {row.tokens}", f"{row.sdpa_ms:.1f} ms", f"{row.headroom_ms:.1f} ms",
              f"{row.ratio:.2f}"] for row in rows if row.model in models]
    lines.append([f"mean of {len(rows)} models", "", "", f"{mean([row.ratio for row in rows]):.2f}"])
    return table(["compiled", "sdpa", "Headroom", "gain"], lines)


def generate_rows():
    return read("h200/transformers_generate.csv")


def generate_table():
    """generate() with a static cache: the prompt, and a token after it."""
    lines = [[f"{row.model}, {row.batch} × {row.tokens}", row.mode, f"{row.sdpa_ms:.2f}", f"{row.headroom_ms:.2f}",
              f"{row.ratio:.3f}", f"{row.difference:.0%}"] for row in generate_rows()]
    return table(["model, batch × tokens", "of", "sdpa, ms", "Headroom, ms", "ratio", "tokens that differ"], lines)


def generate_ratios(mode):
    """The least batch first."""
    return " and ".join(f"{row.ratio:.2f}" for row in generate_rows() if row.mode == mode)


def first_keys_table():
    """Causal attention without first keys, with first keys of 0 and what those cost, of documents, with a window, and PyTorch's."""
    lines = [[f"{row.batch} × {row.tokens}, {row.q_heads}/{row.kv_heads} of {row.head_dim}", f"{row.causal_us:.1f}",
              f"{row.first_keys_0_us:.1f}", f"{100 * row.first_keys_0_us / row.causal_us - 100:.1f}%", f"{row.documents_us:.1f}",
              f"{row.window_us:.1f}", f"{row.sdpa_us:.1f}"] for row in read("h200/attention_first_keys.csv")]
    return table(["batch × tokens, heads", "causal, µs", "first keys of 0", "cost", "documents of 512", "window of 512", "sdpa"], lines)
