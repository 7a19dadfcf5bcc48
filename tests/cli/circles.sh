#!/usr/bin/env bash
# circles.sh FOLDER: no two files of the command call each other, directly or through others. Reads compiled objects.
set -euo pipefail
export LC_ALL=C
cd "$1"
symbols() { for object in *.c.o; do nm "$object" | awk -v file="${object%.o}" 'NF >= 2 { print $(NF - 1), $NF, file }'; done; }
# Pairs "caller callee" of symbols that are used in one object and defined in another.
pairs=$(symbols | awk '$1 ~ /^[TDR]$/ { home[$2] = $3 }
  $1 == "U" { used[NR] = $2; by[NR] = $3 }
  END { for (i in used) if (used[i] in home) print by[i], home[used[i]] }' | sort -u)
[ "$(wc -l <<<"$pairs")" -gt 10 ] || { echo "few calls between the files: the objects are not where they were"; exit 1; }
tsort <<<"$pairs" >/dev/null && echo "$(wc -l <<<"$pairs") calls between files, no circle"
