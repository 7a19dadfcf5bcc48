#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The portable command needs only the C library, at most of the stated version, and works in an empty environment
# from another folder.
#   test_portable.sh COMMAND GLIBC_VERSION [SYSROOT]      SYSROOT: also runs it with the older C library in that folder
set -euo pipefail
command=$1 oldest=GLIBC_$2 sysroot=${3:-}
needed=$(objdump -p "$command" | awk '$1 == "NEEDED" { print $2 }')
extra=$(grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]*)\.so\.[0-9]+$' <<<"$needed" || true)
[ -z "$extra" ] || { echo "it needs" $extra; exit 1; }

newest=$(objdump -T "$command" | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -1)
[ "$(printf '%s\n' "$newest" "$oldest" | sort -V | tail -1)" = "$oldest" ] || { echo "it needs $newest"; exit 1; }

run=(env -i HEADROOM_PROBE=0) # a probe takes seconds
if [ -n "$sysroot" ]; then
  run+=("$sysroot/lib64/ld-linux-x86-64.so.2" --library-path "$sysroot/lib/x86_64-linux-gnu")
fi
modules=$(grep -oE '"[a-z]+[0-9]*>=' "$(dirname "$0")/../../cmake/libraries.cmake" | tr -d '"0-9>=')
cd /
"${run[@]}" "$command" --version
licenses=$("${run[@]}" "$command" --licenses)
for module in $modules csv chart.js; do
  grep -qE "^== (lib)?${module#lib} ==$" <<<"$licenses" || { echo "--licenses does not have $module"; exit 1; }
done
"${run[@]}" "$command" describe gpt2 >/dev/null
"${run[@]}" "$command" attention --q-len 8 --dtype fp32 --warm --budget 0.1 >/dev/null
echo "needs" $needed "and at least $newest${sysroot:+; runs with $(basename "$(readlink -f "$sysroot/lib64/ld-linux-x86-64.so.2")")}"
