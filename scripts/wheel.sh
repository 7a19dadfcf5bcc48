#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package as a wheel for all CPython from 3.9 on, and prints its path.
#   scripts/wheel.sh FOLDER            optimised, on x86-64 for systems as old as Debian 11, whose C library
#                                      scripts/sysroot.sh fetches where it can; elsewhere for this machine's own
#   scripts/wheel.sh FOLDER BUILD      of a build folder's objects (build/debug)
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: scripts/wheel.sh FOLDER [BUILD]} build=${2:-}
mkdir -p "$folder"

if [ -z "$build" ]; then
  preset=release
  if [ "$(uname -m)" = x86_64 ] && "$top/scripts/sysroot.sh" "$top/build/sysroot-debian11" amd64 bullseye >&2; then
    preset=wheel-debian11
  fi
  build=$top/build/$preset
  (cd "$top" && cmake --preset "$preset") >&2
fi
cmake --build "$build" --target wheel_parts -j "$(nproc)" >&2
python3 "$top/scripts/wheel_contents.py" "$build" "$folder"
