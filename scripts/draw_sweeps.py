#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws sweeps from exported rows with peers: one SVG per sweep, labelled by data/sweeps. `headroom plot` draws the rest.

    headroom results export --sweep fig7a -o rows.csv
    scripts/draw_sweeps.py rows.csv -o docs/figures [--sweep fig7a ...] [--dtype bf16 ...] [--series XS] [--peers peers.csv]

The same rows give the same file. Every sweep in the rows is drawn unless some are named. The lines are the series, or
the number formats where it has only one; points of data/results/published are grey, hollow where they were read off a
picture. Where the memory did not do there is a cross at 0; other rows that are not "ok" are left out and counted below the
picture. --peers takes what bench/attention_gpu_vs_torch.py measured of the same calls, which become dashed lines. Needs
matplotlib (Debian: python3-matplotlib).
"""
import argparse
import csv
import io
import json
import math
import pathlib
import sys

plt = FuncFormatter = None  # load_matplotlib()

TOP = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = TOP / "data/results/published/codesign-figures.csv"
COLUMNS = ("date", "sweep", "series", "axes", "problem", "dtype", "product", "status", "flops_per_s", "driver",
           "libraries")
PEER_COLUMNS = ("tier", "dtype", "q_heads", "qk_dim", "length", "headroom_tflops", "cudnn_tflops", "flash_tflops")
PUBLISHED_COLUMNS = ("sweep", "x", "tflops_per_s", "accuracy", "device")


def read_sweeps():
    """Name -> the sweep's fields in its file, merged with the fields that all sweeps of the file share."""
    sweeps = {}
    for path in sorted((TOP / "data/sweeps").glob("*.json")):
        shared = json.loads(path.read_text())
        for own in shared.pop("sweeps", [{}]):
            both = {**shared, **own, "axes": {**shared.get("axes", {}), **own.get("axes", {})}}
            sweeps[both["name"]] = both
    return sweeps


def fail(path, line, message):
    sys.exit(f"draw_sweeps.py: {path}: {f'line {line}: ' if line else ''}{message}")


class Lines:
    """The lines of a file without comments; `number` is that of the last line."""

    def __init__(self, file):
        self.file, self.number = file, 0

    def __iter__(self):
        for self.number, line in enumerate(self.file, 1):
            if not line.startswith("#"):
                yield line


def read_rows(paths, columns):
    """The rows of CSV files that have all columns; "place" is the origin of each row."""
    rows = []
    for path in paths:
        try:
            with open(path, newline="", encoding="utf-8") as file:
                lines = Lines(file)
                reader = csv.DictReader(lines, strict=True)
                for column in columns:
                    if column not in (reader.fieldnames or []):
                        fail(path, 0, f"has no column {column}")
                for row in reader:
                    if None in row or None in row.values():
                        fail(path, lines.number, f"has not the {len(reader.fieldnames)} fields of the head")
                    row["place"] = path, lines.number
                    rows.append(row)
        except (OSError, UnicodeDecodeError) as error:
            fail(path, 0, getattr(error, "strerror", None) or "is no text")
        except csv.Error as error:
            fail(path, lines.number, error)
    return rows


def check_number(row, column, text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        fail(*row["place"], f"{column}: expected a number of at least 0, found \"{text}\"")
    return number


def check_row(sweep, row):
    """Checks that the values of a row that are plotted are valid."""
    if row["status"] == "ok" and row["flops_per_s"]:
        check_number(row, "flops_per_s", row["flops_per_s"])
    place = check_number(row, f"axes: {sweep['x']}", axis_values(row).get(sweep["x"], ""))
    if is_of_cases(sweep) and place not in range(len(sweep["cases"])):
        fail(*row["place"], f"axes: there is no case {place:g}")


def axis_values(row):
    return dict(pair.split("=", 1) for pair in row["axes"].split() if "=" in pair)


def is_of_cases(sweep):
    return sweep["x"] == "case"


def rate(row):
    return float(row["flops_per_s"]) / 1e12


def format_of(row):
    words = dict(pair.split("=", 1) for pair in row["problem"].split() if "=" in pair)
    return row["dtype"] or words.get("dtype", "")


def title_of(sweep):
    text = sweep.get("title", sweep["name"])
    for name, value in sweep["axes"].items():
        text = text.replace("{%s}" % name, str(value))
    return f"Figure {sweep['figure']}: {text}" if "figure" in sweep else text


def by_line(rows):
    lines = {}
    several_formats = len({format_of(row) for row in rows}) > 1
    for row in rows:
        parts = [row["series"]] if row["series"] else []
        if several_formats or not parts:
            parts.append(format_of(row))
        lines.setdefault(", ".join(parts), []).append(row)
    return lines


def first_number(text):
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    return int(digits[0]) if digits else 0


def draw_lines(axes, sweep, rows, stopped):
    lines = by_line(rows + stopped)
    colours = plt.get_cmap("viridis")
    names = sorted(lines, key=lambda name: (first_number(name), name))
    for index, name in enumerate(names):
        points = sorted((float(axis_values(row)[sweep["x"]]), rate(row)) for row in lines[name] if row not in stopped)
        colour = colours(index / max(1, len(names) - 1) * 0.9)
        axes.plot(*zip(*points), marker="o", markersize=3, linewidth=1.1, color=colour, label=name)
        ends = [float(axis_values(row)[sweep["x"]]) for row in lines[name] if row in stopped]
        if ends:
            axes.plot(ends, [0] * len(ends), linestyle="", marker="x", color=colour, label=f"{name}: out of memory",
                      clip_on=False)


def draw_peers(axes, sweep, peers):
    """The sweep's calls interleaved with others: rows of bench/attention_gpu_vs_torch.py."""
    place = {"h": lambda row: int(row["q_heads"]) * int(row["qk_dim"]), "s": lambda row: int(row["length"])}[sweep["x"]]
    names = (("headroom_tflops", "Headroom", "tab:blue"), ("cudnn_tflops", "cuDNN", "tab:orange"),
             ("flash_tflops", "FlashAttention-2", "tab:red"))
    for column, name, colour in names:
        for dtype in sorted({row["dtype"] for row in peers}):
            points = sorted((place(row), float(row[column])) for row in peers if row["dtype"] == dtype and row[column])
            if points:
                axes.plot(*zip(*points), linestyle="--", linewidth=1.1, color=colour, label=f"{name}, {dtype}, interleaved")


def draw_published(axes, points, device_markers):
    for point in points:
        exact = point["accuracy"] == "exact"
        label = f"{point['device'] or 'paper'}, {point['accuracy']}"
        axes.plot(float(point["x"]), float(point["tflops_per_s"]), linestyle="", markersize=5, color="0.55",
                  marker=device_markers.setdefault(point["device"], "sDv^"[len(device_markers) % 4]),
                  fillstyle="full" if exact else "none", label=label)


def draw_cases(axes, sweep, rows, points):
    names = [case["name"] for case in sweep["cases"]]
    formats = sorted({format_of(row) for row in rows})
    groups = formats + (["paper"] if points else [])
    width = 0.8 / len(groups)
    published = {point["x"]: float(point["tflops_per_s"]) for point in points}
    for index, group in enumerate(groups):
        heights = {}
        for row in rows:
            if format_of(row) == group:
                heights[names[int(axis_values(row)["case"])]] = rate(row)
        heights = published if group == "paper" else heights
        bars = axes.bar([i + (index - (len(groups) - 1) / 2) * width for i in range(len(names))],
                        [heights.get(name, 0) for name in names], width, label=group,
                        color="0.7" if group == "paper" else plt.get_cmap("viridis")(index / len(groups)))
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.set_xticks(range(len(names)), names, fontsize=8)


def load_matplotlib():
    """After the input was checked, because this takes half a second."""
    global plt, FuncFormatter
    try:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plt
        from matplotlib.ticker import FuncFormatter
    except ModuleNotFoundError as missing:
        sys.exit(f"draw_sweeps.py: needs matplotlib (Debian: python3-matplotlib): {missing}")
    plt.rcParams.update({"svg.hashsalt": "headroom", "svg.fonttype": "none", "font.family": "sans-serif"})


def short_number(value, _):
    return f"{value / 1024:g}k" if value >= 1024 and value % 1024 == 0 else f"{value:g}"


def draw(sweep, rows, points, peers, path):
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    good = [row for row in rows if row["status"] == "ok" and row["flops_per_s"]]
    stopped = [row for row in rows if row["status"] == "out_of_memory"]
    if not good:
        plt.close(figure)
        return False
    if is_of_cases(sweep):
        draw_cases(axes, sweep, good, points)
    else:
        draw_lines(axes, sweep, good, stopped)
        draw_peers(axes, sweep, peers)
        draw_published(axes, points, {})
        if sweep.get("x_log2"):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(FuncFormatter(short_number))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.04)
    axes.set_xlabel(sweep.get("x_label", sweep["x"]))
    axes.set_ylabel("TFLOP/s")
    axes.set_title(title_of(sweep), fontsize=10)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    labels = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(labels.values(), labels.keys(), fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    drawn = len(good) if is_of_cases(sweep) else len(good) + len(stopped)
    first, left_out = good[0], len(rows) - drawn
    words = [first["product"], f"driver {first['driver']}" if first["driver"] else "", first["libraries"].split(",")[0],
             first["date"][:10], f"left out, as not ok: {left_out}" if left_out else ""]
    figure.text(0.01, -0.03, " · ".join(word for word in words if word), fontsize=6, color="0.4")
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    try:
        path.write_text("".join(line.rstrip() + "\n" for line in text.getvalue().splitlines()), encoding="utf-8")
    except OSError as error:
        fail(path, 0, error.strerror)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="+", help="CSV of `headroom results export`")
    parser.add_argument("-o", "--output", default=".", type=pathlib.Path, help="folder of the pictures")
    parser.add_argument("--sweep", action="append", help="only this one; may be repeated")
    parser.add_argument("--dtype", action="append", help="only this number format; may be repeated")
    parser.add_argument("--series", help="only lines that have this in their name")
    parser.add_argument("--peers", default=[], nargs="+", help="CSV of bench/attention_gpu_vs_torch.py")
    options = parser.parse_args()
    sweeps, published = read_sweeps(), read_rows([PUBLISHED], PUBLISHED_COLUMNS)
    peers = read_rows(options.peers, PEER_COLUMNS)
    rows = [row for row in read_rows(options.rows, COLUMNS) if not options.dtype or format_of(row) in options.dtype]
    rows = [row for row in rows if not options.series or options.series in row["series"]]
    wanted = options.sweep or sorted({row["sweep"] for row in rows if row["sweep"] in sweeps})
    for row in rows:
        if row["sweep"] in wanted and row["sweep"] in sweeps:
            check_row(sweeps[row["sweep"]], row)
    for name in wanted:
        if name not in sweeps:
            sys.exit(f"draw_sweeps.py: there is no sweep {name} in data/sweeps")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(options.output, 0, error.strerror)
    load_matplotlib()
    for name in wanted:
        path = options.output / f"{name}.svg"
        own = [row for row in rows if row["sweep"] == name]
        points = [point for point in published if point["sweep"] == name]
        peer_rows = [row for row in peers if row["tier"] == name]
        print(path if draw(sweeps[name], own, points, peer_rows, path) else
              f"{name}: nothing to draw: of {len(own)} rows none has the status ok")


if __name__ == "__main__":
    main()
