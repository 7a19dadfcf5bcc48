#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# levels.sh COMMAND SOURCE-DIRECTORY LEVEL: the command as on a processor with no more than this instruction set.
# Skipped (exit code 77) if this machine lacks it. HEADROOM_TEST=thorough runs the other suites whole at this level.
set -u
H=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
level=$3
has() { grep -qw "$1" /proc/cpuinfo; }
case $level in
portable) ;;
avx2) has avx2 ;;
avx512) has avx512vl && has avx512bw && has avx512dq ;;
*) has "$level" ;;
esac || { echo "left out: this processor has no $level"; exit 77; }
export HEADROOM_CPU_MASK="$level" LC_ALL=C HEADROOM_PROBE=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
say() {
  echo "not so at $level: $1"
  failed=$((failed + 1))
}
# expect CODE COMMAND...: its output is in $folder/out, its errors in $folder/errors
expect() {
  code=$1
  shift
  (cd "$folder" && "$H" "$@" > out 2> errors)
  found=$?
  [ $found = "$code" ] || { say "headroom $*: exit code $found rather than $code"; cat "$folder/errors"; }
}

ONLY='attention|gemm|kernels|devices|sweep|describe_device' "$here/golden.sh" "$H" || say "the golden files are the same"

# ---- without --dtype every command takes a format that the processor computes in ----
tiny='{"h":64,"a":4,"L":1,"v":128,"s":64,"b":1}'
for command in advise search "describe -d cpu"; do
  expect 0 $command "$tiny"
done
expect 0 gemm 64 64 64
expect 0 sweep list
grep -qw '0 ns' "$folder/out" && say "sweep list estimates a time"
expect 0 layer "$tiny" --warm --budget 0.3
grep -q ' unsupported$' "$folder/out" && say "each operator of a layer has a kernel"
echo '{"name": "near", "x": "m", "axes": {"m": [8]}, "problem": {"kind": "gemm", "m": "m", "n": 16, "k": 16}}' > "$folder/near.json"
expect 0 sweep near.json --warm --db sweep.db
grep -q '1 measured (0 failed' "$folder/errors" || say "a sweep runs in the processor's default format"

# ---- 16-bit formats are predicted and attention runs in them ----
for format in bf16 fp16; do
  for command in advise search "describe -d cpu"; do
    expect 0 $command --dtype $format "$tiny"
  done
  expect 0 gemm 64 64 64 --dtype $format
done
expect 0 attention --q-len 64 --dtype bf16 --kernel attention_flash_portable --warm
expect 4 gemm 64 64 64 --dtype fp8
grep -q 'no matrix rate for fp8' "$folder/errors" || say "a format that the processor lacks is named"

if [ "${HEADROOM_TEST:-}" = thorough ]; then
  for suite in golden behaviour sweep; do
    "$here/$suite.sh" "$H" "$2" || say "$suite.sh passes"
  done
fi
[ $failed -eq 0 ] && echo "the command works at $level"
[ $failed -eq 0 ]
