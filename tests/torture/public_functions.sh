#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails on a public function that can fail and that no program of torture.py calls, and on a command that is not run there.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
left_out='hr_device_probe' # measures for seconds; its allocations are those of other measurements
headers=$(cat include/headroom/*.h include/headroom/experimental/*.h | tr '\n' ' ')
programs=$(cat cli/*.c tests/torture/calls_*.c)
failed=0 functions=0 commands=0
for name in $(grep -oE 'HR_API hr_status hr_[a-z0-9_]+' <<< "$headers" | cut -d ' ' -f 3 | sort -u); do
  functions=$((functions + 1))
  [ "$name" = "$left_out" ] || grep -qw "$name" <<< "$programs" || { echo "nothing calls $name()"; failed=1; }
done
for name in $(sed -n 's/^CLI_COMMAND([a-z_]*, "\([a-z-]*\)".*/\1/p' cli/commands.inc); do
  commands=$((commands + 1))
  grep -qE "^ +\(\"$name[ \"]" tests/torture/torture.py || { echo "nothing runs headroom $name"; failed=1; }
done
echo "$functions functions, $commands commands"
[ $functions -gt 100 ] && [ $commands -gt 10 ] && [ $failed = 0 ]
