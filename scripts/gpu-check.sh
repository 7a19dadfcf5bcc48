#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, tests and measures on a machine with an NVIDIA GPU: one command, about 6 minutes, a short table last.
#   gpu-check.sh                 builds here first (needs the packages of scripts/packages.sh)
#   gpu-check.sh --built FOLDER  uses FOLDER/headroom, FOLDER/tests and FOLDER/lib of a build from elsewhere, for bare
#                                machines
# Fails if a step fails. Does not change the GPU's clocks.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT

case "${1:-}" in
  "") built=$top/build/debug ;;
  --built) built=$(cd "${2:?--built needs a folder}" && pwd) || exit 2 ;;
  *) sed -n '3,7p' "$0" | cut -c3-; exit 2 ;;
esac
export LD_LIBRARY_PATH=$built/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

failed=0
table=""
# run_with_limit NAME LIMIT_S COMMAND…: runs a command with a time limit; keeps its output and its row for the table.
run_with_limit() {
  local name=$1 limit=$2 start=$SECONDS code
  shift 2
  timeout "$limit" "$@" >"$log/$name" 2>&1
  code=$?
  local result=ok
  [ $code = 0 ] || result="FAILED ($code)"
  printf '%-36s %-12s %4d s' "$name" "$result" $((SECONDS - start)) >"$log/$name.row"
  echo "$(<"$log/$name.row")"
  return $code
}
# report NAME: adds the row to the table; prints the end of the output after a failure.
report() {
  table+=$(<"$log/$1.row")$'\n'
  case $(<"$log/$1.row") in *FAILED*)
    failed=1
    echo "== $1"
    tail -25 "$log/$1"
    ;;
  esac
}
# run NAME LIMIT_S COMMAND…: runs a command in the foreground and reports it.
run() {
  run_with_limit "$@"
  local code=$?
  report "$1"
  return $code
}
# run_in_background NAME LIMIT_S COMMAND…: runs a command next to others; wait_and_report waits for all of them.
running=()
most=$(nproc)
run_in_background() {
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
  running+=("$1")
  run_with_limit "$@" &
}
wait_and_report() {
  local name
  wait
  for name in "${running[@]}"; do report "$name"; done
  running=()
}
report_skipped() {
  table+=$(printf '%-36s skipped: %s' "$1" "$2")$'\n'
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || { echo "no NVIDIA driver here"; exit 4; }
date -u +%F
if [ $# = 0 ]; then
  run build 240 bash -c 'cd "$0" && cmake --preset debug && cmake --build --preset debug' "$top" || exit 1
fi
headroom=$built/headroom
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)

# in_pool TEST NAME WORDS VARIABLE=VALUE…: a test of the pool, a program with its arguments, if it was built; WORDS for
# HEADROOM_TEST.
in_pool() {
  local test name=$2 words=$3
  read -ra test <<<"$1"
  shift 3
  [ -x "$built/tests/${test[0]}" ] &&
    run_in_background "$name" 300 env HEADROOM_TEST="$words" "$@" "$built/tests/${test[0]}" "${test[@]:1}"
}
# each_kernel OPERATION TEST: the test, thorough, for each kernel, and for each format of those that compile most.
each_kernel() {
  local kernel formats shares share
  while IFS=, read -r kernel _ _ formats _; do
    case $kernel in *_sm[0-9]*) read -ra shares <<<"$formats" ;; *) shares=("") ;; esac
    for share in "${shares[@]}"; do
      in_pool "$2" "test_$kernel${share:+-$share}" "thorough gpu $share" HEADROOM_TEST_KERNEL="$kernel"
    done
  done < <("$headroom" kernels -f csv | grep ",$1,cuda,")
}

run devices 60 "$headroom" devices cuda:0 && cat "$log/devices"
# These compare free memory and times, so they run alone.
for test in test_device test_cuda "harness attention_memory" test_confirm_attention; do
  # shellcheck disable=SC2086 # a program and its arguments
  [ -x "$built/tests/${test%% *}" ] && run "${test// /-}" 120 "$built/tests/"$test
done
# The pool, the longest first. Most of these are bound by NVRTC or by float64 on the host.
in_pool test_cuda_programs test_cuda_programs "thorough gpu"
if [ -n "$sanitizer" ]; then
  for test in "harness attention_edges" "harness attention_repeats" "harness decode" "harness rowwise" test_device test_device_graph \
    test_kv_cache test_kv_cache_quantized test_kv_cache_decode test_experts test_linear test_run_training; do
    [ -x "$built/tests/${test%% *}" ] || continue
    for tool in racecheck memcheck synccheck; do
      # Not decode_latent_sm90: racecheck and synccheck name its barriers that some warps only arrive at (docs/notes/decode-gpu.md).
      case $test in
        "harness decode") some="HEADROOM_TEST_SAMPLES=6 HEADROOM_TEST_SHARE=7 HEADROOM_TEST_KERNEL=decode_split_sm80" ;;
        *) some="" ;;
      esac
      # shellcheck disable=SC2086 # several variables, or none
      run_in_background "$tool-${test// /-}" 300 env HEADROOM_TEST="gpu few" $some "$sanitizer" --tool "$tool" \
        --report-api-errors no --error-exitcode 9 "$built/tests/"$test
    done
  done
  run_in_background memcheck-gemm 120 "$sanitizer" --tool memcheck --error-exitcode 9 "$headroom" gemm 512 512 512 \
    --device cuda:0 --measure --budget 0.1
else
  report_skipped compute-sanitizer "it is not installed"
fi
each_kernel attention "harness attention"
each_kernel decode "harness decode"
each_kernel attention_backward "harness attention_backward"
for formats in "fp32 tf32" fp16 bf16 fp8; do
  in_pool "harness attention_edges" "attention_edges-${formats// /-}" "thorough gpu $formats"
  in_pool "harness attention_lengths" "attention_lengths-${formats// /-}" "thorough gpu $formats"
  in_pool "harness attention_repeats" "attention_repeats-${formats// /-}" "thorough gpu $formats"
  in_pool "harness rowwise" "rowwise-${formats// /-}" "thorough gpu $formats"
done
for test in "harness gemm" "harness gemm_gpu" test_decode "harness decode_batches" \
  "harness decode_latent" "harness decode_topk" test_kv_cache test_kv_cache_quantized test_kv_cache_decode test_device_stream test_device_graph test_run test_run_families \
  test_run_training test_experts test_linear; do
  in_pool "$test" "${test// /-}" "thorough gpu"
done
for group in small shared_plans; do
  in_pool "harness $group" $group gpu HEADROOM_TEST_SHARE=4 # each problem of attention is a program to compile
done
wait_and_report
# Bound by the GPU, and needs up to 50 GB of its memory.
[ -x "$built/tests/harness" ] && run attention_large 120 env HEADROOM_TEST="thorough gpu" "$built/tests/harness" attention_large

# The operators of PyTorch, in streams and captured graphs.
libraries=$built
[ ! -e "$built/lib/libheadroom.so" ] || libraries=$built/lib
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  run headroom.torch 300 env HEADROOM_LIBRARY_FOLDER="$libraries" python3 "$top/tests/python/run.py" torch
else
  report_skipped headroom.torch "Python has no PyTorch for a GPU here"
fi
if python3 -c 'import jax, sys; sys.exit(jax.default_backend() != "gpu")' 2>/dev/null; then
  run headroom.jax 300 env HEADROOM_LIBRARY_FOLDER="$libraries" XLA_PYTHON_CLIENT_PREALLOCATE=false \
    python3 "$top/tests/python/run.py" jax
else
  report_skipped headroom.jax "Python has no JAX for a GPU here"
fi

# gemm_row NAME M N K OPTIONS…: measures one GEMM and prints a row.
gemm_row() {
  local name=$1
  shift
  "$headroom" gemm "$@" --device cuda:0 --measure -f csv >"$log/row" 2>"$log/row.error" ||
    { printf '%-32s FAILED: %s\n' "$name" "$(cat "$log/row.error")"; return; }
  python3 - "$name" "$log/row" <<'PYTHON' || printf '%-32s FAILED: no row\n' "$name"
import csv, sys
row = next(csv.DictReader(open(sys.argv[2])))
time = float(row["measured_ns"] or "nan") / 1e3
rate = float(row["measured_flops_per_s"] or "nan") / 1e12
print(f'{sys.argv[1]:32} {time:10.1f} us {rate:8.1f} TFLOP/s  {row["status"]:6} {row["configuration"]}')
PYTHON
}
rows=$(
  gemm_row 'bf16 4096^3' 4096 4096 4096 --transpose-b
  gemm_row 'bf16 vocabulary 50257' 8192 50257 2560 --transpose-b
  gemm_row 'bf16 vocabulary 50304' 8192 50304 2560 --transpose-b
  gemm_row 'bf16 decode' 8 4096 4096 --transpose-b
  gemm_row 'fp16 scores' 2048 2048 128 --batch-count 80 --transpose-b --dtype fp16
  gemm_row 'tf32 4096^3' 4096 4096 4096 --transpose-b --dtype tf32
  gemm_row 'fp8 4096^3' 4096 4096 4096 --transpose-b --dtype fp8
)
case $rows in *FAILED*) failed=1 ;; esac
echo
printf '%s' "$table"
printf '%s\n' "$rows"
echo "$([ $failed = 0 ] && echo "all fine" || echo "something FAILED"), $SECONDS s"
exit $failed
