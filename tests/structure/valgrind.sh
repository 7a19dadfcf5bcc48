#!/usr/bin/env bash
# The command under valgrind: no invalid access, no use of uninitialised memory, nothing lost.
#   valgrind.sh BUILD_FOLDER
set -euo pipefail
build=$1
run() {
  valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99 "$build/headroom" "$@" >/dev/null || {
    echo "headroom $*: exit $?"
    return 1
  }
}
run describe pythia-2.8b --format json
run describe llama-2-7b --phase decode --context 4096
run advise gpt2 --device h200 --verbose
run advise pythia-410m --device a100-sxm4-80gb --format json
run search gpt2 --device h200
run gemm 4096 4096 4096 --device h200
run kernels
