#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static analysis with the checks of .clang-tidy; findings are errors.
#   tidy.sh [FILE…]      default: all sources of the library and the command
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s globstar nullglob
. scripts/packages.sh
build_preset clang # it generates the embedded data
if [ $# -eq 0 ]; then # those that this machine compiles: NEON's have no flags on x86-64
  for file in src/**/*.c cli/*.c; do
    ! grep -qF "\"file\": \"$PWD/$file\"" build/clang/compile_commands.json || set -- "$@" "$file"
  done
fi
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/clang 2>/dev/null
