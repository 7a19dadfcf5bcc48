#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles every public header alone, twice over, as C17 and as C++17, without a warning; checks that the headroom.h of
# its tier includes each, and that none of the stable tier includes an experimental one; and compiles the examples of
# README and docs, indented blocks that begin with an #include. Structs that the library makes and that are large or still
# grow have no members there.
#   headers.sh C_COMPILER CXX_COMPILER
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
flags='-Wall -Wextra -Wshadow -pedantic -Werror -fsyntax-only -Iinclude'
failed=0 count=0
for header in include/headroom/*.h include/headroom/experimental/*.h; do
  name=${header#include/}
  all=${header%/*}/headroom.h
  text="#include <$name>"$'\n'"#include <$name>"$'\n'"extern int not_empty;"
  "$1" -std=c17 -Wstrict-prototypes $flags -x c - <<<"$text" || { echo "$name: does not compile alone as C17"; failed=1; }
  "$2" -std=c++17 $flags -x c++ - <<<"$text" || { echo "$name: does not compile alone as C++17"; failed=1; }
  if [ "$header" != "$all" ] && ! grep -q "^#include <$name>" "$all"; then
    echo "${all#include/} does not include <$name>"; failed=1
  fi
  count=$((count + 1))
done
grep -n '^#include <headroom/experimental/' include/headroom/*.h && { echo 'a stable header includes these'; failed=1; }
grep -q '^#include <headroom/headroom.h>' include/headroom/experimental/headroom.h ||
  { echo 'headroom/experimental/headroom.h does not include the stable tier'; failed=1; }
for name in hr_advice hr_hardware hr_step hr_sweep; do
  grep -rnE "^(typedef )?struct $name \{" include && { echo "$name is opaque"; failed=1; }
  grep -rq "^typedef struct $name $name;" include || { echo "no header declares $name"; failed=1; }
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
