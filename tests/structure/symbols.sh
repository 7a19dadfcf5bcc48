#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The two shared libraries export exactly the functions that the public headers declare, each function once, as
# exported-symbols.txt (libheadroom) and exported-symbols-advice.txt list them, with the tier of their header: stable
# (headroom/*.h) or experimental (headroom/experimental/*.h); at most 160 are stable. libheadroom exports those of
# cmake/private_symbols.txt for libheadroom-advice, whose version is no other release's.
#   symbols.sh --print LIBRARY
#   symbols.sh LIBHEADROOM LIBHEADROOM_ADVICE
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
stable_most=160

symbols() { nm -D --defined-only "$1" | awk '$2 ~ /^[B-Z]$/ { print $3 }'; }
private() { symbols "$1" | sed -n 's/@@HEADROOM_PRIVATE_[0-9.]*$//p' | sort; }

declared() { # "NAME TIER": the name before the first bracket of each HR_API declaration
  awk '/^HR_API/ { text = ""; open = 1 }
       open { text = text " " $0; if ($0 !~ /;/) next
              open = 0; sub(/\(.*/, "", text); n = split(text, word, /[ *]+/)
              print word[n], FILENAME ~ /\/experimental\// ? "experimental" : "stable" }' \
    include/headroom/*.h include/headroom/experimental/*.h | sort
}
exported() { # with the tier; "undeclared" where no header has the function
  symbols "$1" | sed '/@HEADROOM_PRIVATE_/d; s/@.*//' | sort | join -a 1 -e undeclared -o 0,2.2 - <(declared)
}
if [ "$1" = --print ]; then exported "$2"; exit; fi

failed=0
compare() { # WHAT EXPECTED FOUND
  local difference
  difference=$(diff "$2" "$3") || { echo "$1 differ:"; grep '^[<>]' <<<"$difference"; failed=1; }
}
compare 'headers (<) and libraries (>)' <(declared) <({ exported "$1"; exported "$2"; } | sort)
compare 'before (<) and now (>), if intended: scripts/update_symbols.sh: libheadroom' \
  tests/structure/exported-symbols.txt <(exported "$1")
compare 'before (<) and now (>), if intended: scripts/update_symbols.sh: libheadroom-advice' \
  tests/structure/exported-symbols-advice.txt <(exported "$2")
compare 'cmake/private_symbols.txt (<) and libheadroom (>)' <(grep '^hr_' cmake/private_symbols.txt | sort) <(private "$1")
[ -z "$(private "$2")" ] || { echo 'libheadroom-advice exports private functions'; failed=1; }
stable=$(declared | grep -c ' stable$')
[ "$stable" -le $stable_most ] || { echo "$stable functions are stable, at most $stable_most"; failed=1; }
[ $failed = 1 ] || echo "$(exported "$1" | wc -l) and $(exported "$2" | wc -l) symbols, $stable of them stable;" \
  "$(private "$1" | wc -l) private ones"
exit $failed
