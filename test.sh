#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what is needed and runs every test: a debug build with warnings as errors, of whose objects a portable command is
# made, too, and the same under the address and undefined-behaviour sanitizers, which alone runs most unit tests.
#   ./test.sh           what every change must pass
#   ./test.sh --long    also: all kernel cases and tests of the command under the sanitizers, unit tests without them,
#                       a build with clang, clang-tidy over everything, valgrind, the thread and memory
#                       sanitizers, ten minutes of each fuzzer, HTML reports in Chromium, GPU kernels emulated in all
#                       sizes, the portable build, the aarch64 build under qemu, the portable command on Debian 11's C
#                       library
# It installs what is missing with apt (and says so first). Ends with "N passed, N failed"; fails if any did.
set -uo pipefail
long=
case ${1:-} in
'') ;;
--long) long=1 ;;
-h | --help) sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
*) echo "test.sh: unknown argument $1 (try --help)" >&2; exit 2 ;;
esac
cd "$(dirname "$0")" || exit 1
. scripts/packages.sh
install_packages build test ${long:+long} || exit 1

jobs=$(nproc)
passed=0 failed=0 failures=()
started=$SECONDS

pass() { passed=$((passed + ${1:-1})); }
fail() { failed=$((failed + 1)); failures+=("$1"); }

# Counts a command as one test; its output is shown if it fails.
check() { # NAME COMMAND…
  local name=$1 from=$SECONDS output
  shift
  if output=$("$@" 2>&1 </dev/null); then
    pass
    printf '%-10s %s (%d s)\n' "$name" ok $((SECONDS - from))
  else
    printf '%s\n' "$output" | tail -n 60
    fail "$name"
  fi
}

# Builds a preset and counts its tests. REST: without those of unit tests that the sanitized build has, too.
suite() { # PRESET [REST]
  local from=$SECONDS results=build/$1/tests.log total bad
  build_preset "$1" ${2:+--target not_sanitized} || { fail "building $1"; return; }
  ctest --preset "$1" ${2:+-LE sanitized} -j $((jobs + 1)) --no-tests=error >"$results" 2>&1 </dev/null
  local status=$?
  bad=$(sed -n 's/.* tests passed, \([0-9]*\) tests\{0,1\} failed out of [0-9]*$/\1/p' "$results")
  total=$(sed -n 's/.* failed out of \([0-9]*\)$/\1/p' "$results")
  if [ -z "$total" ] || { [ $status != 0 ] && [ "${bad:-0}" = 0 ]; }; then
    tail -n 40 "$results"
    fail "running the tests of $1"
    return
  fi
  printf '%-10s %d of %d tests passed (%d s)\n' "$1" $((total - bad)) "$total" $((SECONDS - from))
  pass $((total - bad))
  [ "$bad" = 0 ] && return
  sed '/^The following tests FAILED/,$d' "$results" | grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
  local name
  while read -r name; do fail "$1: $name"; done < <(sed -n '/^The following tests FAILED/,$s/^[^0-9]*[0-9]* - \([^ ]*\) .*$/\1/p' "$results")
}

# The library and the command that users run; the suite `portable` has the portable one.
hardened() {
  build_preset release && tests/structure/hardening.sh build/release/headroom build/release/libheadroom.so \
    build/release/CMakeFiles/headroom_objects.dir
}

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
suite debug $([ -n "$long" ] || echo rest)
suite asan
if command -v clang-format-14 >/dev/null; then
  check format scripts/format.sh --check
else
  echo 'format     not checked: clang-format-14 is not installed'
fi
if [ -n "$long" ]; then
  suite clang
  suite portable
  if [ "$(uname -m)" = x86_64 ]; then
    check sysroots scripts/sysroot.sh build/sysroot-arm64 arm64
    suite aarch64
    check wheel_aarch64 tests/install/test_wheel_aarch64.sh
    check sysroots scripts/sysroot.sh build/sysroot-debian11 amd64 bullseye
    suite portable-debian11
  fi
  check sanitized env HEADROOM_TEST=whole ctest --preset asan -R '^(test_(attention|rowwise|decode|properties)|fuzz_|cli_(options|examples|sweep|behaviour|golden|places|plot)$)' -j "$jobs"
  check emulation env HEADROOM_TEST=thorough ctest --preset debug -L emulation -j "$jobs"
  check levels env HEADROOM_TEST=thorough ctest --preset debug -L levels -j "$jobs"
  check faults env HEADROOM_TEST=whole ctest --preset debug -L faults
  check browser env HEADROOM_TEST=whole ctest --preset debug -L browser
  check hardened hardened
  check torture env HEADROOM_TEST=whole ctest --preset debug -R '^cli_torture'
  check leaks env HEADROOM_TEST=whole ctest --preset asan -R '^cli_torture'
  check tidy scripts/tidy.sh
  check valgrind tests/structure/valgrind.sh build/debug
  if [ "$(uname -m)" = x86_64 ]; then
    check tsan tests/sanitizers/run.sh tsan
    check msan tests/sanitizers/run.sh msan
  fi
  check fuzz tests/fuzz/run.sh 600 # each target, two at a time
fi

[ ${#failures[@]} = 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "in $((SECONDS - started)) s:"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
