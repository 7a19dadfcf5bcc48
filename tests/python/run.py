#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package in this folder. Without the packages that a set needs it says so and exits with
77, which ctest counts as skipped.

    run.py numpy|advisor|torch|transformers|jax|notebook

The package is the installed one, or that of this source tree where HEADROOM_LIBRARY_FOLDER names a build's folder."""
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = {"numpy": [], "advisor": [], "torch": ["torch"], "transformers": ["transformers"], "jax": ["jax"],
          "notebook": ["pandas", "nbclient", "ipykernel"]}


def main():
    names = sys.argv[1]
    missing = [name for name in ["numpy", *NEEDED[names]] if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: Python has no {missing[0]} here")
        return 77
    if "HEADROOM_LIBRARY_FOLDER" in os.environ:
        sys.path.insert(0, str(HERE.parent.parent / "python"))
    sys.path.insert(0, str(HERE))
    tests = unittest.defaultTestLoader.discover(str(HERE), pattern=f"test_{names}*.py")
    with tempfile.TemporaryDirectory() as data:
        os.environ["XDG_DATA_HOME"] = data  # not the user's store
        result = unittest.TextTestRunner(buffer=True).run(tests)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
