#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang and runs each for so many seconds: run.sh SECONDS [TARGET…]
#   run.sh --coverage [TARGET…]   the share of lines that the corpus and the learned inputs reach, by file
#   run.sh --minimise [TARGET…]   adds the fewest of the learned inputs to the corpus that reach what they reach, in place
#                                 of those that this added before
# An input that makes a target fail is left in build/fuzz/found/<target>; after the fix it belongs in corpus/.
set -euo pipefail
what=${1:?usage: run.sh SECONDS|--coverage|--minimise [TARGET...]}
shift
cd "$(dirname "$0")/../.."
command -v clang >/dev/null || { echo 'run.sh: clang is missing: apt-get install clang' >&2; exit 1; }
preset=fuzz
[ "$what" != --coverage ] || preset=fuzz-coverage

build() {
  mkdir -p build/$preset
  cmake --preset $preset >/dev/null
  cmake --build build/$preset -j "$(nproc)" >build/$preset/build.log 2>&1 || { tail -n 40 build/$preset/build.log >&2; exit 1; }
}
build
if [ $# = 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    set -- "$@" "${name#fuzz_}"
  done
fi

# What a target reads, where the shipped files of that kind are, and how long an input may be.
about() { # TARGET
  inputs=model data=data/models longest=16384
  case $1 in
  hardware) inputs=hardware data=data/hardware ;;
  sweep) inputs=sweep data=data/sweeps ;;
  results | safetensors | tables | figure | journal) inputs=$1 data= ;;
  html) inputs=tables data= ;;
  store) inputs=store data= longest=32768 ;;
  esac
  learned=build/fuzz/learned/$1 # the start of the next run
  found=build/fuzz/found/$1
  seeds=("$learned" "tests/fuzz/corpus/$inputs" ${data:+"$data"})
  mkdir -p "$learned" "$found"
}

fuzz() { # TARGET
  about "$1"
  local status=0
  build/fuzz/tests/fuzz/fuzz_"$1" -max_total_time="$what" -timeout=10 -rss_limit_mb=2048 -max_len=$longest \
    -dict=tests/fuzz/$inputs.dict -artifact_prefix="$found/" -print_final_stats=1 "${seeds[@]}" \
    >build/fuzz/"$1".log 2>&1 || status=$?
  if [ $status != 0 ]; then
    tail -n 60 build/fuzz/"$1".log >&2
    echo "run.sh: $1 broke; the input is in $found" >&2
    return 1
  fi
  local tried edges
  tried=$(sed -n 's/^stat::number_of_executed_units: */inputs tried: /p' build/fuzz/"$1".log)
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' build/fuzz/"$1".log | tail -n 1)
  echo "$1: $tried, edges reached: $edges"
}

# Inputs of at most 2 KB, so that the corpus stays small, with the target's name and a part of the hash as their names.
minimise() { # TARGET
  about "$1"
  local smallest=build/fuzz/minimised/$1 input hash
  rm -rf "$smallest" && mkdir -p "$smallest"
  rm -f "tests/fuzz/corpus/$inputs/$1"-*
  build/fuzz/tests/fuzz/fuzz_"$1" -merge=1 -max_len=2048 "$smallest" "tests/fuzz/corpus/$inputs" "$learned" \
    >build/fuzz/"$1".log 2>&1
  for input in "tests/fuzz/corpus/$inputs"/*; do # those that the corpus has
    hash=$(sha1sum "$input")
    rm -f "$smallest/${hash%% *}"
  done
  for input in "$smallest"/*; do
    [ ! -e "$input" ] || cp "$input" "tests/fuzz/corpus/$inputs/$1-$(basename "$input" | cut -c 1-8)"
  done
  echo "$1: $(find "$smallest" -type f | wc -l) more inputs, $(du -sh "tests/fuzz/corpus/$inputs" | cut -f 1) in all"
}

# The files of src that a target reaches.
coverage() { # TARGET
  about "$1"
  local profile=build/$preset/$1
  LLVM_PROFILE_FILE=$profile.raw build/$preset/tests/fuzz/fuzz_"$1" -runs=0 "${seeds[@]}" >build/$preset/"$1".log 2>&1
  "$(command -v llvm-profdata || command -v llvm-profdata-14)" merge -o "$profile.data" "$profile.raw"
  echo "$1:"
  "$(command -v llvm-cov || command -v llvm-cov-14)" report build/$preset/tests/fuzz/fuzz_"$1" \
    -instr-profile="$profile.data" -ignore-filename-regex='tests/|generated|runtime/(cuda|cpu)' |
    awk '/\.c / && $10 != "0.00%" { printf "  %-44s %s of %s lines\n", $1, $10, $8 }'
}

broken=0
if [ "$what" = --coverage ] || [ "$what" = --minimise ]; then
  for name in "$@"; do
    "${what#--}" "$name" || broken=1
  done
  exit $broken
fi
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
