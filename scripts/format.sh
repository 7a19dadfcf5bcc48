#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats all C and C++ files with .clang-format; needs clang-format 14, because versions differ.
#   format.sh            rewrites the files
#   format.sh --check    fails, showing the first differences, if a file would change
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s globstar nullglob
files=(include/**/*.[ch] src/**/*.[ch] src/**/*.cu src/**/*.cuh cli/**/*.[ch] tests/**/*.[ch] tests/**/*.cpp bench/*.c cmake/*.c examples/*.[ch]*)

if [ "${1:-}" != --check ]; then
  clang-format-14 -i "${files[@]}"
  exit
fi
if printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 40 clang-format-14 --dry-run -Werror 2>/dev/null; then
  echo "${#files[@]} files are formatted"
  exit
fi
stale=0
for file in "${files[@]}"; do
  clang-format-14 "$file" | diff -u --label "$file" --label 'formatted by scripts/format.sh' "$file" - | head -20
  [ "${PIPESTATUS[1]}" = 0 ] || stale=$((stale + 1))
done
echo "$stale of ${#files[@]} files would change; run scripts/format.sh"
[ $stale = 0 ]
