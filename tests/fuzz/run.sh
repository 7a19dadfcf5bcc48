#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang and runs each for so many seconds: run.sh SECONDS [TARGET…]
# An input that makes a target fail is left in build/fuzz/found/<target>; after the fix it belongs in corpus/.
set -euo pipefail
seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
cd "$(dirname "$0")/../.."
command -v clang >/dev/null || { echo 'run.sh: clang is missing: apt-get install clang' >&2; exit 1; }

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" >build/fuzz/build.log 2>&1 || { tail -n 40 build/fuzz/build.log >&2; exit 1; }
if [ $# = 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    set -- "$@" "${name#fuzz_}"
  done
fi

fuzz() { # TARGET
  local inputs=model data=models
  [ "$1" != hardware ] || inputs=hardware data=hardware
  [ "$1" != results ] || inputs=results data=none
  [ "$1" != safetensors ] || inputs=safetensors data=none
  [ "$1" != sweep ] || inputs=sweep data=sweeps
  local learned=build/fuzz/learned/$1 found=build/fuzz/found/$1 # the learned corpus is the start of the next run
  mkdir -p "$learned" "$found"
  local seeds=("$learned" tests/fuzz/corpus/$inputs)
  [ ! -d data/$data ] || seeds+=(data/$data)
  local status=0
  build/fuzz/tests/fuzz/fuzz_"$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -dict=tests/fuzz/$inputs.dict -artifact_prefix="$found/" -print_final_stats=1 "${seeds[@]}" \
    >build/fuzz/"$1".log 2>&1 || status=$?
  if [ $status != 0 ]; then
    tail -n 60 build/fuzz/"$1".log >&2
    echo "run.sh: $1 broke; the input is in $found" >&2
    return 1
  fi
  sed -n 's/^stat::number_of_executed_units: */'"$1"': inputs tried: /p' build/fuzz/"$1".log
}

broken=0
while [ $# -gt 0 ]; do # two at a time
  pids=()
  for name in "${@:1:2}"; do
    fuzz "$name" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || broken=1
  done
  shift ${#pids[@]}
done
exit $broken
