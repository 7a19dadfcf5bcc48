#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the command under valgrind: no invalid access, no use of uninitialised memory, no leak.
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
run serve-plan gpt2 --device h200 --price 2
run plan gpt2 --device h200 --devices 2,4 --global-batch 8
run search gpt2 --device h200
run gemm 4096 4096 4096 --device h200
run kernels
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEADROOM_PROBE=0 # which runs oneDNN
if [ "$(uname -m)" = x86_64 ]; then # valgrind knows AVX2 and no later instructions
  export HEADROOM_CPU_MASK=avx2
fi
run attention --heads 4 --k-heads 1 --q-len 9 --dtype fp32 --kernel attention_flash --warm --budget 0.02
run decode --kv-len 64 --heads 4 --dtype bf16 --kernel decode_split --warm --budget 0.02
run results import --db "$folder/a.db" "$(dirname "$0")/../cli/inputs/results.jsonl"
run results export --db "$folder/a.db" --output "$folder/a.csv"
run results import --db "$folder/b.db" "$folder/a.csv"
run results merge --db "$folder/b.db" "$folder/a.db"
run results list --db "$folder/b.db" --format json
run compare "$folder/a.db" "$folder/b.db" --verbose
run report "$folder/a.db" --models gpt2 --device h200
run results show --db "$folder/b.db" 0a1b
run results delete --db "$folder/b.db" --yes
