#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# golden.sh COMMAND: runs every line of cases.txt and compares exit code, output and errors with tests/golden.
# UPDATE=1 writes the golden files instead. ONLY=REGEX runs the cases whose names match. HEADROOM_TEST_SHARE=n runs every nth
# case, unless HEADROOM_TEST is "whole".
set -u
H=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../golden
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
unset NO_COLOR COLUMNS
two_sockets=$found/two_sockets
"$here/../topology.sh" "$two_sockets" 2 4 2
export H two_sockets LC_ALL=C TERM=xterm HEADROOM_PROBE=0 HF_HUB_CACHE=inputs/hub XDG_DATA_HOME=$found/data # without calibrations
cd "$here" || exit 1

failed=0
count=0
number=0
share=${HEADROOM_TEST_SHARE:-1}
[ "${HEADROOM_TEST:-}" = whole ] && share=1
while IFS= read -r line; do
  case $line in '' | '#'*) continue ;; esac
  name=${line%%:*}
  number=$((number + 1))
  [ $((number % share)) -eq 0 ] || continue
  [ -z "${ONLY:-}" ] || echo "$name" | grep -qE "$ONLY" || continue
  shell_line=${line#*: }
  (eval "$shell_line") > "$found/out" 2> "$found/err" < /dev/null
  code=$?
  {
    printf '$ %s\nexit code %s\n' "$shell_line" "$code"
    [ -s "$found/err" ] && printf -- '---- errors\n' && cat "$found/err"
    [ -s "$found/out" ] && printf -- '---- output\n' && cat "$found/out"
  } > "$found/$name.txt"
  count=$((count + 1))
  if [ -n "${UPDATE:-}" ]; then
    cp "$found/$name.txt" "$golden/$name.txt"
  elif ! diff -u "$golden/$name.txt" "$found/$name.txt"; then
    failed=$((failed + 1))
  fi
done < cases.txt

# A golden file that no case writes would never fail.
for file in "$golden"/*.txt; do
  name=$(basename "$file" .txt)
  grep -q "^$name: " cases.txt || { echo "$name.txt: no case of this name"; failed=$((failed + 1)); }
done
echo "$count cases, $failed failed"
[ "$failed" -eq 0 ] || echo "If the change is meant: UPDATE=1 tests/cli/golden.sh $1, and read the difference."
[ "$failed" -eq 0 ]
