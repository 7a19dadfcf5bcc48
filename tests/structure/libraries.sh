#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libheadroom stands without libheadroom-advice, by the table cmake/modules.txt:
#   - every module of edges.txt is in a library, and none of libheadroom may use one of libheadroom-advice; what both
#     have uses nothing else;
#   - the functions of a public header are of one library (exported-symbols.txt, exported-symbols-advice.txt), and
#     headers and sources of libheadroom include no header of libheadroom-advice.
#   libraries.sh [SOURCE_ROOT]
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"

modules=$(awk '
  FNR == NR { if (/^[a-z]/) library[$1] = $2; next }
  function of(module,    row, best) {
    best = ""
    for (row in library) if (index(module "/", row "/") == 1 && length(row) > length(best)) best = row
    if (best == "" || library[best] !~ /^(kernels|both|advice)$/) {
      if (!(module in complained)) print "cmake/modules.txt: " module " is in no library"
      complained[module] = 1
      return "none"
    }
    used[best] = 1
    return library[best]
  }
  /^#/ || !/:/ || /^cli:/ { next }
  {
    name = $1; sub(/:$/, "", name)
    from = of(name)
    for (i = 2; i <= NF; i++) {
      to = $i; gsub(/[][]/, "", to)
      if (to != "" && from != "advice" && of(to) == "advice") print name " is of libheadroom and may not use " to
      if (to != "" && from == "both" && of(to) != "both") print name " is in both libraries and may not use " to
    }
  }
  END { for (row in library) if (!(row in used)) print "cmake/modules.txt: there is no module " row }
' cmake/modules.txt tests/structure/edges.txt)

# Rows "HEADER LIBRARY": of a header without functions the library is "none".
headers=$(awk '
  FILENAME ~ /exported-symbols/ { of[$1] = FILENAME ~ /advice/ ? "advice" : "kernels"; next }
  FNR == 1 { name = FILENAME; sub(/^include\//, "", name); library[name] = "none" }
  /^HR_API/ { text = ""; open = 1 }
  open {
    text = text " " $0
    if ($0 !~ /;/) next
    open = 0; sub(/\(.*/, "", text); n = split(text, word, /[ *]+/)
    found = word[n] in of ? of[word[n]] : "neither"
    library[name] = library[name] == "none" || library[name] == found ? found : "several"
  }
  END { for (name in library) print name, library[name] }
' tests/structure/exported-symbols.txt tests/structure/exported-symbols-advice.txt include/headroom/*.h \
  include/headroom/experimental/*.h | sort)
mixed=$(awk '$2 !~ /^(kernels|advice|none)$/ { print $1 ": its functions are in " $2 " libraries" }' <<<"$headers")

# Headers without functions that include one of libheadroom-advice are its own (headroom.h).
advice=$(awk '$2 == "advice" { print $1 }' <<<"$headers")
for header in $(awk '$2 == "none" { print $1 }' <<<"$headers"); do
  ! grep -qF -f <(sed 's/.*/<&>/' <<<"$advice") "include/$header" || advice+=$'\n'$header
done
of_kernels() {
  awk '$2 == "kernels" || $2 == "none" { print "include/" $1 }' <<<"$headers" | grep -vxF -f <(sed 's|^|include/|' <<<"$advice")
  awk '/^[a-z]/ && $2 != "advice" { print "src/" $1 }' cmake/modules.txt | xargs -I{} find {} -name '*.[ch]' |
    grep -vE "^src/($(awk '/^[a-z]/ && $2 == "advice" { print $1 }' cmake/modules.txt | paste -sd '|'))/"
}
files=$(of_kernels)
included=$(xargs grep -nF -f <(sed 's/.*/#include <&>/' <<<"$advice") <<<"$files" || true)
[ -z "$included" ] || included=$(sed 's/$/: a header of libheadroom-advice/' <<<"$included")

faults=$(printf '%s\n' "$modules" "$mixed" "$included" | sed '/^$/d')
[ -z "$faults" ] || { echo "$faults"; exit 1; }
echo "$(wc -l <<<"$headers") headers, $(wc -l <<<"$advice") of libheadroom-advice; $(wc -l <<<"$files") files of libheadroom"
[ "$(wc -l <<<"$advice")" -ge 10 ] && [ "$(wc -l <<<"$files")" -ge 100 ]
