#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails if files call each other in a circle: A calls a function of B, and B, perhaps through others, one of A. It reads the
# compiled objects of the library or of the command.
#   circles.sh FOLDER_OF_OBJECTS        (…/headroom_objects.dir/src, …/headroom_command.dir/cli)
set -euo pipefail
export LC_ALL=C
sources=$(cd "$(dirname "$0")/../.." && pwd)/$(basename "$1")
cd "$1"

# Objects of sources that were moved or removed stay in a build folder.
calls=$(find . -name '*.o' | sort | sed 's|^\./||' | while read -r object; do
  [ ! -e "$sources/${object%.o}" ] || echo "$object"
done | xargs nm -A | awk '
  { file = $1; sub(/\.o:.*/, "", file); kind = $(NF - 1); name = $NF }
  kind ~ /^[TDBR]$/ { home[name] = file }
  kind ~ /(^|:)U$/ { row++; from[row] = file; used[row] = name }
  END { for (i = 1; i <= row; i++) if (used[i] in home && home[used[i]] != from[i]) print from[i], home[used[i]] }' | sort -u)
[ -n "$calls" ] || { echo "no calls between the files of $1"; exit 1; }

# tsort names the members of each circle on standard error.
circles=$(tsort <<<"$calls" 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: input contains a loop:$/a circle:/' || true)
[ -z "$circles" ] || { echo "$circles"; exit 1; }
echo "$(wc -l <<<"$calls") calls between files, no circle"
