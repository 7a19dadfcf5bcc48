#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails on an #include that the table of edges does not allow.
#   include_edges.sh [SOURCE_ROOT]
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"

find src $(ls -d cli 2>/dev/null) -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' | LC_ALL=C sort | xargs awk -v table="$here/edges.txt" '
  # The module of a path: the longest row of the table that is a prefix of the path.
  function module_of(path,    m, best) {
    best = ""
    for (m in known) if (index(path "/", m "/") == 1 && length(m) > length(best)) best = m
    return best
  }
  function complain(text) { print FILENAME ":" FNR ": " text; bad++ }
  BEGIN {
    while ((getline line < table) > 0) {
      if (line ~ /^#/ || line !~ /:/) continue
      name = line; sub(/:.*/, "", name)
      rest = line; sub(/^[^:]*:/, "", rest)
      known[name] = 1
      count = split(rest, names, " ")
      for (i = 1; i <= count; i++) if (names[i] !~ /^\[/) allowed[name, names[i]] = 1
    }
    close(table)
  }
  FNR == 1 {
    files++
    path = FILENAME; sub(/^src\//, "", path)
    from = module_of(path)
    if (from == "") complain("belongs to no module of " table)
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    edges++
    split($0, part, "\"")
    target = part[2]
    if (from == "cli") {
      if (target ~ /\//) complain("the command includes \"" target "\"; it may use <headroom/...> and its own headers only")
      next
    }
    if (target !~ /\//) { complain("\"" target "\" does not say its folder; write it from src/ on"); next }
    to = module_of(target)
    if (to == "") complain("\"" target "\" belongs to no module of " table)
    else if (to != from && !((from, to) in allowed)) complain(from " may not include " to " (\"" target "\")")
  }
  END {
    if (bad) exit 1
    print edges + 0 " includes in " files + 0 " files, all allowed"
    if (!edges) exit 1
  }'
