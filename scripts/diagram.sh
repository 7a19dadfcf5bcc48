#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the modules of tests/structure/edges.txt into ARCHITECTURE.md, between the two "diagram" marks: one line per
# level and dependencies, each module above all modules that it may use. A module lists its direct dependencies only.
#   diagram.sh            rewrites the block
#   diagram.sh --check    fails if the block is stale
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

draw() {
  awk '
    function level_of(m,    i, l, best, list, n) {
      if (m in level) return level[m]
      best = 0; n = split(uses[m], list, " ")
      for (i = 1; i <= n; i++) { l = level_of(list[i]) + 1; if (l > best) best = l }
      return level[m] = best
    }
    function reaches(from, to,    i, list, n) {  # through at least one module between
      n = split(uses[from], list, " ")
      for (i = 1; i <= n; i++) if (list[i] != to && ((" " uses[list[i]] " ") ~ (" " to " ") || reaches(list[i], to))) return 1
      return 0
    }
    /^#/ || !/:/ { next }
    { name = $0; sub(/:.*/, "", name); rest = $0; sub(/^[^:]*:/, "", rest); gsub(/\[[^]]*\]/, "", rest)
      order[++count] = name; uses[name] = rest }
    # "a/b" after "a/c" is ", b": the folder stands once
    function append(text, name,    i, folder) {
      i = match(name, /[^\/]*$/); folder = substr(name, 1, i - 1)
      if (text == "") { last = folder; return name }
      if (folder == last && folder != "") return text ", " substr(name, i)
      last = folder
      return text "  " name
    }
    END {
      for (i = 1; i <= count; i++) if (level_of(order[i]) > top) top = level_of(order[i])
      for (l = top; l >= 0; l--) {
        rows = 0; split("", left)
        for (i = 1; i <= count; i++) {
          m = order[i]
          if (level[m] != l) continue
          line = ""; n = split(uses[m], list, " ")
          for (j = 1; j <= n; j++) if (!reaches(m, list[j])) line = append(line, list[j])
          if (!(line in left)) { right[++rows] = line; left[line] = "" }
          members[line, ++left_count[l, line]] = m
        }
        for (r = 1; r <= rows; r++) {
          line = right[r]; text = ""
          for (i = 1; i <= left_count[l, line]; i++) text = append(text, members[line, i])
          printf (line == "" ? "%2d  %s\n" : "%2d  %-42s → %s\n"), l, text, line
        }
      }
    }' tests/structure/edges.txt
}

with_block() {
  local block
  block=$(draw)
  BLOCK=$block awk '
    /^<!-- diagram end -->/ { skip = 0 }
    !skip { print }
    /^<!-- diagram begin/ { print "```"; print ENVIRON["BLOCK"]; print "```"; skip = 1; found = 1 }
    END { exit !found }' ARCHITECTURE.md
}

if [ "${1:-}" = --check ]; then
  with_block | cmp -s - ARCHITECTURE.md || { echo "the diagram in ARCHITECTURE.md is stale: run scripts/diagram.sh"; exit 1; }
else
  text=$(with_block)
  printf '%s\n' "$text" >ARCHITECTURE.md
fi
