#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/figures by `headroom plot` from the rows of data/results.

    scripts/docs_figures.py build/debug/headroom             all
    scripts/docs_figures.py build/debug/headroom fig24 fig2  these
    scripts/docs_figures.py build/debug/headroom --check     exit code 1 where a picture has other texts or another number of lines, as
                                                             after new rows; 77 without gnuplot. Numbers of axes are not compared: those
                                                             are gnuplot's choice

README.md's picture is drawn by docs_numbers.py, those of a report by docs_screenshots.py. Look at the pictures before committing
them.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
ROWS = TOP / "data/results/h200"
OUTPUTS = TOP / "bench/sigma_outputs.json"

# The picture, what it draws, the rows (None: sums of SIGMA's calls), and options.
PICTURES = (
    ("fig1", "fig1", "figures-1-to-19.csv", ()),
    ("fig2", "fig2", "layer-shares.csv", ()),
    ("fig5c", "fig5c", "figures-1-to-19.csv", ("--dtype", "bf16", "--predict", "h200")),
    ("fig10a", "fig10a", "figures-1-to-19.csv", ("--dtype", "bf16")),
    ("fig12", "fig12", "figure-12.csv", ("--dtype", "bf16", "--peers", ROWS / "figure-12_gpu_vs_torch.csv")),
    ("fig17", "fig17", "figures-1-to-19.csv", ("--dtype", "bf16")),
    ("fig20a", "fig20a", "figures-20.csv", ("--dtype", "bf16")),
    ("fig24", "fig24", "figures-21-to-34.csv", ("--dtype", "bf16")),
    ("fig34", "fig34", "figures-21-to-34.csv", ("--dtype", "bf16")),
    ("attention-heatmap", "attention-forward", "attention-forward.csv", ("--series", "XS", "--dtype", "fp32", "--view", "heatmap")),
    ("attention-scaling", "attention-forward", "attention-forward.csv", ("--series", "XS", "--dtype", "fp32", "--view", "scaling")),
    ("sigma-fig3", f"{OUTPUTS}#sigma-output-q", None, ()),
    ("sigma-fig4", f"{OUTPUTS}#sigma-output-cache", None, ()),
    ("sigma-fig5", f"{OUTPUTS}#sigma-output-attention", None, ("--view", "gain")),
    ("sigma-fig6", f"{OUTPUTS}#sigma-output-total", None, ("--view", "gain")),
)


def structure(path):
    """The texts of a picture, without numbers of axes and of bars, and how many lines and bars it has."""
    text = path.read_text(encoding="utf-8")
    words = re.findall(r"<text>(.*?)</text>", text, re.DOTALL)
    return sorted(" ".join(word.split()) for word in words if not re.fullmatch(r"[\d.\s]*", word)), len(re.findall(r'id="gnuplot_plot_', text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=pathlib.Path)
    parser.add_argument("pictures", nargs="*")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_intermixed_args()
    unknown = set(arguments.pictures) - {name for name, *_ in PICTURES}
    if unknown:
        sys.exit(f"docs_figures.py: no picture {', '.join(sorted(unknown))}")
    if not shutil.which("gnuplot"):
        print("left out: there is no gnuplot (Debian: gnuplot-nox)")
        sys.exit(77)
    others = []
    with tempfile.TemporaryDirectory() as folder:
        sums = pathlib.Path(folder) / "outputs.csv"
        subprocess.run([sys.executable, TOP / "scripts/sigma_elapsed.py", ROWS / "sigma-ceet.csv", ROWS / "sigma-ceet-runs.csv", "--rows",
                        sums], check=True, stdout=subprocess.DEVNULL)
        for name, sweep, rows, options in PICTURES:
            if arguments.pictures and name not in arguments.pictures:
                continue
            path = (pathlib.Path(folder) if arguments.check else TOP / "docs/figures") / f"{name}.svg"
            subprocess.run([arguments.command.resolve(), "plot", sweep, ROWS / rows if rows else sums, *options, "-q", "-o", path], check=True)
            if arguments.check and structure(path) != structure(TOP / f"docs/figures/{name}.svg"):
                others.append(name)
            lines = path.read_text(encoding="utf-8").split("\n")  # no white space at their ends
            path.write_text("\n".join(line.rstrip() for line in lines), encoding="utf-8")
    if others:
        sys.exit(f"{', '.join(others)}: not what the rows draw now; scripts/docs_figures.py COMMAND, and look at them")


main()
