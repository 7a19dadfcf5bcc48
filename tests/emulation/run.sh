#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test program against the emulated GPU instead of a real one: its kernels' programs are compiled by the host's C++
# compiler and run on the CPU.
#   run.sh BUILD PROGRAM [WHAT [SHARE [FORMATS]]]     run.sh build/debug "harness attention_edges" attention_flash_sm80
# PROGRAM: with its arguments. WHAT: one kernel, or formats for "harness rowwise" ("fp32 tf32"). SHARE: every SHAREth case, and a few of the
# combinations; 0 none. FORMATS: of the kernel. All with HEADROOM_TEST=thorough.
set -euo pipefail
build=$(cd "$1" && pwd)
program=$2
share=${4:-1}
formats=${5:-}
case " ${HEADROOM_TEST:-} " in *" thorough "*) share=1 formats= ;; esac
if [ "$share" = 0 ]; then
  echo "$program ${3:-}: only with HEADROOM_TEST=thorough"
  exit 77
fi
export LD_LIBRARY_PATH=$build/tests/emulation${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XDG_CACHE_HOME=$build/tests/emulation/cache
export HEADROOM_TEST="${HEADROOM_TEST:-} gpu required $formats"
case ${3:-} in
attention_*_sm[0-9]*) ;;
attention*) [ "$share" = 1 ] || HEADROOM_TEST+=" few" ;; # these copy nothing ahead
esac
case ${3:-} in
attention* | decode* | gemv*) export HEADROOM_TEST_KERNEL=$3 ;;
*) HEADROOM_TEST+=" ${3:-}" ;;
esac
export HEADROOM_TEST_SHARE=$share HEADROOM_TEST_SAMPLES=${HEADROOM_TEST_SAMPLES:-$((share > 100 ? 1 : share > 1 ? 3 : 80))}
# shellcheck disable=SC2086 # words
exec "$build/tests/"$program
