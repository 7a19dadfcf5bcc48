#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles every public header alone, twice over, as C17 and as C++17, without a warning; and checks that headroom.h
# includes them all.
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
echo "$count headers"
exit $failed
