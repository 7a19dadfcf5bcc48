#!/usr/bin/env bash
# Static analysis of everything with the checks of .clang-tidy; findings are errors.
#   tidy.sh [FILE…]      all sources of the library and the command unless some are named
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s globstar nullglob
. scripts/packages.sh
build_preset clang # the embedded data are made there
[ $# -gt 0 ] || set -- src/**/*.c cli/*.c
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/clang 2>/dev/null
