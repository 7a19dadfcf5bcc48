# SPDX-License-Identifier: Apache-2.0
"""What the command predicts, for the expressions in docs/*.md (docs_numbers.py)."""
import functools
import json
import subprocess

_program = {}


def use(program):
    _program["path"] = program and str(program.resolve())


@functools.lru_cache(maxsize=None)
def _output(*arguments):
    if not _program.get("path"):
        raise ValueError("needs --headroom PATH")
    done = subprocess.run([_program["path"], *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"headroom {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def printed(line, first=0, last=None):
    """Lines of what a command prints, as an indented block."""
    lines = _output(*line.split()[1:]).rstrip("\n").split("\n")[first:last]
    return "\n".join(("    " + text).rstrip() for text in [f"$ {line}", *lines])


def document(line):
    """The JSON of a command, without the word headroom."""
    return json.loads(_output(*line.split(), "-f", "json"))
