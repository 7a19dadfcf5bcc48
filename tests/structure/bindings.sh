#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails if python/headroom/_bindings.py is not what scripts/bindings.py makes of the headers, if a layout or an enumerator
# of it is another than the compiler's, or if it lacks an exported function.
#   bindings.sh CC
set -euo pipefail
cc=${1:-cc}
top=$(cd "$(dirname "$0")/../.." && pwd)
"$top/scripts/bindings.py" --layout | "$cc" -std=gnu17 -I"$top/include" -fsyntax-only -x c -
missing=$(cat "$top"/tests/structure/exported-symbols*.txt | sed -n 's/^\(hr_[a-z0-9_]*\) .*/\1/p' | sort -u |
  grep -vFxf <(sed -n 's/^    "\(hr_[a-z0-9_]*\)": (.*/\1/p' "$top/python/headroom/_bindings.py") || true)
[ -z "$missing" ] || { echo "python/headroom/_bindings.py lacks" $missing; exit 1; }
if command -v clang-14 clang >/dev/null; then
  "$top/scripts/bindings.py" --check
else
  echo 'bindings: not made anew, as clang is not installed'
fi
