#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds tests with one of clang's sanitizers and runs them: run.sh tsan|msan [TEST…]
#   tsan   races between threads: the thread pool, plans and stores that threads share, sweeps, kernels of several threads
#   msan   values that were never set: tests whose data does not come from a library that is built without the sanitizer
# Ends with a line per test; fails if one did.
set -uo pipefail
kind=${1:?usage: run.sh tsan|msan [TEST...]}
shift
cd "$(dirname "$0")/../.." || exit 1
command -v clang >/dev/null || { echo 'run.sh: clang is missing: apt-get install clang' >&2; exit 1; }
tsan=(test_thread_pool test_plans "harness shared_plans" test_shared_sweep test_flash "harness gemm" "harness attention" "harness rowwise"
  "harness decode" test_store_processes test_sweep_run)
msan=(test_shape test_attention test_workload test_reshape test_predict test_names test_kernel_names test_number
  test_sweep_expression test_statistics test_measure test_autotune test_error_bounds test_thread_pool test_scores test_flash)
case $kind in
tsan) tests=("${tsan[@]}") ;;
msan) tests=("${msan[@]}") ;;
*) echo "run.sh: unknown sanitizer $kind" >&2; exit 2 ;;
esac
[ $# = 0 ] || tests=("$@")
export OMP_WAIT_POLICY=passive HEADROOM_TEST_SAMPLES=4
export TSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/tsan.supp exitcode=66" MSAN_OPTIONS=exitcode=66

mkdir -p build
{ cmake --preset "$kind" && cmake --build "build/$kind" --target "${tests[@]%% *}"; } >"build/$kind.log" 2>&1 ||
  { tail -n 40 "build/$kind.log" >&2; exit 1; }
broken=0
for test in "${tests[@]}"; do
  share=4
  [ "$test" != "harness gemm" ] || share=1 # it wants a case of each layout
  from=$SECONDS
  # shellcheck disable=SC2086 # a program and its arguments
  if HEADROOM_TEST_SHARE=$share "build/$kind/tests/"$test >"build/$kind/$test.log" 2>&1; then
    echo "$test: ok ($((SECONDS - from)) s)"
  else
    tail -n 60 "build/$kind/$test.log"
    echo "$test: failed"
    broken=1
  fi
done
exit $broken
