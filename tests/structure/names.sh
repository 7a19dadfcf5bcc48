#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails if a name means two things: a type or function that is defined twice, a type and a function of one name, or a
# macro of a header that is such a name in capitals (HR_TRY beside hr_try). It reads every hr_ and cli_ name of src, cli
# and include, and the types of headers; other names belong to their file. Macros that make the rows of a table (.inc) are
# named after what a row is, and HR_VERSION is what hr_version() returns.
#   names.sh [SOURCE_ROOT]
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"

rows=$(find src cli -name '*.inc' | xargs grep -ohE '^[A-Z]+_[A-Z_]+\(' | tr -d '(' | sort -u | tr '\n' ' ' || true)
find src include cli -name '*.[ch]' | sort | xargs awk -v rows="$rows" '
  function define(kind, name) {
    if (name !~ /^(hr|HR|cli|CLI)_/ && !(kind == "type" && FILENAME ~ /\.h$/)) return
    names++
    key = kind == "macro" ? tolower(name) : name
    if (kind == "macro") {
      if (FILENAME ~ /\.h$/ && name !~ /^HR_VERSION/ && index(" " rows, " " name " ") == 0) macro[key] = name " (" FILENAME ":" FNR ")"
      return
    }
    if (key in place && !(kind == "type" && of[key] == "type" && place[key] == FILENAME)) {
      if (exclusive(key, kind)) return
      print FILENAME ":" FNR ": " kind " " name " is defined as a " of[key] " in " place[key] ":" line[key]; bad = 1
    } else { place[key] = FILENAME; line[key] = FNR; of[key] = kind; text[key] = name }
  }
  function folder(path) { sub(/[^\/]*$/, "", path); return path }
  # Versions for one platform each: functions in branches of #if, types of headers of which one is included (simd).
  function exclusive(key, kind) {
    if (kind == "function") return of[key] == "function" && place[key] == FILENAME && conditional
    return of[key] == "type" && text[key] !~ /^(hr|cli)_/ && folder(place[key]) == folder(FILENAME)
  }
  FNR == 1 { conditional = 0; pending = "" }
  /^#[ \t]*if/ { conditional++ }
  /^#[ \t]*endif/ { conditional-- }
  /^#[ \t]*define[ \t]/ { name = $0; sub(/^#[ \t]*define[ \t]+/, "", name); sub(/[^A-Za-z0-9_].*/, "", name); define("macro", name); next }
  /^(typedef )?(struct|enum|union) [a-z_0-9]+ \{/ { name = $0; sub(/^(typedef )?(struct|enum|union) /, "", name); sub(/ .*/, "", name); define("type", name); next }
  /^typedef .*;/ && !/^typedef (struct|enum|union) ([a-z_0-9]+) [a-z_0-9]+;/ {
    name = $0
    if (name ~ /\(\*/) { sub(/.*\(\*/, "", name) } else { sub(/( __attribute__.*)?;.*/, "", name); sub(/\[.*/, "", name); sub(/.*[ *]/, "", name) }
    sub(/[^A-Za-z0-9_].*/, "", name); define("type", name); next
  }
  # A function: its head begins a line, its brace is alone on the next one after it.
  /^[A-Za-z][A-Za-z0-9_ *]*[ *](hr|cli)_[a-z0-9_]*\(/ && !/;[ \t]*(\/\*.*)?$/ {
    pending = $0; sub(/\(.*/, "", pending); sub(/.*[ *]/, "", pending); pending_line = FNR; next
  }
  pending != "" && /;[ \t]*(\/\*.*)?$/ { pending = "" }
  pending != "" && /^\{/ { define("function", pending); pending = "" }
  END {
    for (key in macro)
      if (key in place && text[key] != macro[key]) { print macro[key] ": differs only in capitals from the " of[key] " " text[key] " (" place[key] ")"; bad = 1 }
    print names + 0 " names"
    exit bad || !names
  }'
