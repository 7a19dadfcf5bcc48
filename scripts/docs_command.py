# SPDX-License-Identifier: Apache-2.0
"""What the command predicts, for the expressions in docs/*.md (docs_numbers.py)."""
import csv
import functools
import json
import os
import re
import subprocess

_program = {}


def use(program):
    _program["path"] = program and str(program.resolve())


@functools.lru_cache(maxsize=None)
def _output(*arguments):
    if not _program.get("path"):
        raise ValueError("needs --headroom PATH")
    done = subprocess.run([_program["path"], *arguments], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "120"})
    if done.returncode:
        raise ValueError(f"headroom {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def program_beside(name):
    """The path of a program of the build that made the command."""
    if not _program.get("path"):
        raise ValueError("needs --headroom PATH")
    return os.path.join(os.path.dirname(_program["path"]), name)


@functools.lru_cache(maxsize=None)
def beside(name):
    """What a program of the build that made the command prints."""
    return subprocess.run([program_beside(name)], capture_output=True, text=True, check=True).stdout


def printed(line, lines="", blocks=""):
    """What a command prints, as an indented block: the lines that match, of blocks whose first line does."""
    chosen = [f"$ {line}"]
    for block in _output(*line.split()[1:]).strip("\n").split("\n\n"):
        kept = [text for text in block.split("\n") if re.search(lines, text)]
        if re.search(blocks, block.lstrip("\n")) and kept:
            chosen += kept + [""]
    return "\n".join(f"    {text}".rstrip() for text in chosen).rstrip()


def document(line):
    """The JSON of a command, without the word headroom."""
    return json.loads(_output(*line.split(), "-f", "json"))


def unpadded(line):
    """The JSON of an `advise` command, and its step's time where no GEMM is padded: that of a compiled step, its GEMMs those of eager
    mode."""
    compiled, eager = document(line), document(f"{line} --framework eager")
    plain = {row["name"]: row["predicted_ns"] for row in eager["operators"]}
    copied = sum(row["count"] * (plain[row["name"]] - row["predicted_ns"]) for row in compiled["operators"] if row["kind"] in ("gemm", "bmm"))
    return compiled, compiled["step_time_ns"] + copied


def rows_of(line):
    """The rows of a command's CSV."""
    return list(csv.DictReader(_output(*line.split(), "-f", "csv").splitlines()))
