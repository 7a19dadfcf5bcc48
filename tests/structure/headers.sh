#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles every public header alone, twice over, as C17 and as C++17, without a warning; checks that headroom.h includes
# them all; and compiles the examples of README and docs, indented blocks that begin with an #include.
#   headers.sh C_COMPILER CXX_COMPILER
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
flags='-Wall -Wextra -Wshadow -pedantic -Werror -fsyntax-only -Iinclude'
failed=0 count=0
for header in include/headroom/*.h; do
  name=headroom/$(basename "$header")
  text="#include <$name>"$'\n'"#include <$name>"$'\n'"extern int not_empty;"
  "$1" -std=c17 -Wstrict-prototypes $flags -x c - <<<"$text" || { echo "$name: does not compile alone as C17"; failed=1; }
  "$2" -std=c++17 $flags -x c++ - <<<"$text" || { echo "$name: does not compile alone as C++17"; failed=1; }
  if [ "$name" != headroom/headroom.h ] && ! grep -q "^#include <$name>" include/headroom/headroom.h; then
    echo "headroom/headroom.h does not include <$name>"; failed=1
  fi
  count=$((count + 1))
done
examples=0
for page in README.md docs/*.md; do
  text=$(awk '/^    #include </ { on = 1 } on && /^[^ ]/ { on = 0 } on { print substr($0, 5) }' "$page")
  [ -n "$text" ] || continue
  examples=$((examples + 1))
  "$1" -std=c17 -Wstrict-prototypes $flags -x c - <<<"$text" || { echo "$page: its example does not compile"; failed=1; }
done
[ $examples -ge 2 ] || { echo 'no examples were found in docs'; failed=1; }
echo "$count headers, $examples pages with examples"
exit $failed
