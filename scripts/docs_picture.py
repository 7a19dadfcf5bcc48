# SPDX-License-Identifier: Apache-2.0
"""The picture of README.md as SVG, from what the command predicts and the measured gain (docs_numbers.py)."""
from docs_command import document
from docs_rows import one

PARTS = (("QKV, projection", "a", ("qkv_transform", "linear_projection")), ("MLP", "b", ("mlp_up", "mlp_down")),
         ("norms …", "c", None), ("attention", "d", ("attention",)), ("logits", "e", ("logit",)))
LEFT, WIDTH, HEIGHT = 20, 840, 46
STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b1f24 }
.title { font-size: 21px; font-weight: 600 } .quiet { fill: #57606a; font-size: 14px } .strong { font-weight: 600 }
.code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 14px; fill: #57606a }
.in { fill: #fff; font-size: 13.5px } .dark { fill: #1b1f24; font-size: 13.5px } .gain { font-size: 19px; font-weight: 700 }
.a { fill: #0072b2 } .b { fill: #004d80 } .c { fill: #8c959f } .d { fill: #f0a202 } .e { fill: #d55e00 }
.saved { fill: none; stroke: #1a7f37; stroke-width: 2; stroke-dasharray: 6 4 } .line { stroke: #57606a; stroke-width: 1.2 }
.win { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet, .code { fill: #9da7b1 } .in { fill: #fff } .dark { fill: #1b1f24 } .win { fill: #56d364 }
  .b { fill: #1a6fb0 } .a { fill: #3d95d1 } .saved { stroke: #56d364 } .line { stroke: #9da7b1 }
}"""


def text(x, y, words, kind="", anchor="start"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def parts_of(step):
    """Part -> its time in ns, and its rate in TFLOP/s where it is one operator."""
    rows = {row["name"]: row for row in step["operators"]}
    times = {name: sum(rows[one_of]["predicted_ns"] * rows[one_of]["count"] for one_of in names)
             for name, _, names in PARTS if names}
    times["norms …"] = step["step_time_ns"] - sum(times.values())
    rates = {name: rows[operator]["flops"] / rows[operator]["predicted_ns"] / 1e3
             for name, operator in (("attention", "attention"), ("logits", "logit"))}
    return times, rates


def bar(y, times, scale):
    """Rectangles with their names, and the middle of each."""
    x, shapes, middle = LEFT, [], {}
    for name, kind, _ in PARTS:
        width = times[name] * scale
        middle[name] = x + width / 2
        shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{width - 2:.1f}" height="{HEIGHT}" rx="3" class="{kind}"/>')
        if width > 8 * len(name):
            shapes.append(text(middle[name], y + 29, name, "dark" if kind in "d" else "in", "middle"))
        x += width
    return shapes, middle, x


def pointed(x, y, words, anchor, end):
    """A note below a bar, with a line to the part that it is about."""
    return [f'<line x1="{x:.0f}" y1="{y}" x2="{x:.0f}" y2="{y + 10}" class="line"/>', text(end, y + 25, words, "strong", anchor)]


def advice_picture():
    """GPT-3 2.7B on an H200 where nothing pads the vocabulary: the step as published, and with all that `advise` suggests."""
    step = document("advise gpt3-2.7b --device h200 --framework eager")
    best = next(one_of for one_of in step["combined"] if one_of["rule"] == "combined_retrain")
    model, was = best["model"], step["model"]
    after = document(f'advise {{"h":{model["hidden"]},"a":{model["q_heads"]},"L":{model["layers"]},"v":{model["vocabulary"]}}} '
                     "--device h200 --framework eager")
    measured = one("h200/gains.csv", name="20 heads and vocabulary 50304", attention="fused")
    same = (model["q_heads"], model["vocabulary"]) == (20, 50304)  # what was measured is what is suggested
    scale = WIDTH / step["step_time_ns"]
    (times, rates), (new_times, new_rates) = parts_of(step), parts_of(after)
    first, middle, right = bar(126, times, scale)
    second, new_middle, end = bar(232, new_times, scale)
    gain = step["step_time_ns"] / after["step_time_ns"]
    ms = [one_of["step_time_ns"] / 1e6 for one_of in (step, after)]
    shapes = [
        text(LEFT, 36, "Which shape of a transformer runs faster, and why?", "title"),
        text(LEFT, 62, "$ headroom advise gpt3-2.7b --device h200 --framework eager", "code"),
        text(LEFT + WIDTH, 62, "predicted from the shape alone; no GPU needed", "quiet", "end"),
        text(LEFT, 114, f"GPT-3 2.7B as published: {was['q_heads']} heads of {was['qk_dim']}, vocabulary {was['vocabulary']}", "strong"),
        text(LEFT + WIDTH, 114, f"{ms[0]:.1f} ms a step", "strong", "end"), *first,
        *pointed(middle["attention"], 172, f"heads of {was['qk_dim']}: {rates['attention']:.0f} TFLOP/s", "end", middle["attention"] + 2),
        *pointed(middle["logits"], 172, f"odd size: {rates['logits']:.0f} TFLOP/s", "end", right),
        text(LEFT, 224, f"the same size, as advised: {model['q_heads']} heads of {model['qk_dim']}, vocabulary {model['vocabulary']}", "strong"),
        text(end, 224, f"{ms[1]:.1f} ms", "strong", "end"), *second,
        f'<rect x="{end:.1f}" y="233" width="{right - end - 1:.1f}" height="{HEIGHT - 2}" rx="3" class="saved"/>',
        text((end + right) / 2, 262, f"{gain:.2f} × as fast", "gain win", "middle"),
        *pointed(new_middle["attention"], 278, f"{new_rates['attention']:.0f} TFLOP/s", "end", new_middle["attention"] + 8),
        *pointed(new_middle["logits"], 278, f"{new_rates['logits']:.0f} TFLOP/s", "start", new_middle["logits"] - 12)]
    if same:
        shapes.append(text(right, 326, f"measured in PyTorch on an H200: {1 + measured.gain:.2f} ×", "quiet", "end"))
    return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 344" role="img">',
                      "<title>Step time of GPT-3 2.7B on an H200, as published and as headroom advises</title>",
                      f"<style>{STYLE}</style>", *shapes, "</svg>", ""])
