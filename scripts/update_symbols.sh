#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rewrites tests/structure/exported-symbols.txt and exported-symbols-advice.txt from the debug build's libraries, with
# the tier of each function. A removed line breaks the ABI for users of the library, if it is stable.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/debug/build.ninja ] || cmake --preset debug >/dev/null
cmake --build --preset debug >/dev/null
for name in "" -advice; do
  tests/structure/symbols.sh --print "build/debug/libheadroom$name.so" >"tests/structure/exported-symbols$name.txt"
done
git --no-pager diff --stat -- 'tests/structure/exported-symbols*.txt'
