#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shared library exports exactly the functions that the public headers declare and exported-symbols.txt lists.
#   symbols.sh --print LIBRARY
#   symbols.sh LIBRARY
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

exported() { nm -D --defined-only "$1" | awk '$2 ~ /^[A-Z]$/ { sub(/@.*/, "", $3); print $3 }' | sort; }
if [ "$1" = --print ]; then exported "$2"; exit; fi

declared() { # the name before the first bracket of each HR_API declaration
  awk '/^HR_API/ { text = ""; open = 1 }
       open { text = text " " $0; if ($0 ~ /;/) { open = 0; sub(/\(.*/, "", text); n = split(text, word, /[ *]+/); print word[n] } }' \
    include/headroom/*.h | sort
}
failed=0
difference=$(diff <(declared) <(exported "$1")) || {
  echo 'headers (<) and library (>) differ:'; grep '^[<>]' <<<"$difference"; failed=1; }
difference=$(diff tests/structure/exported-symbols.txt <(exported "$1")) || {
  echo 'before (<) and now (>); if intended: scripts/update_symbols.sh'; grep '^[<>]' <<<"$difference"; failed=1; }
[ $failed = 1 ] || echo "$(exported "$1" | wc -l) symbols"
exit $failed
