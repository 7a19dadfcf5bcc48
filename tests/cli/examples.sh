#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples.sh COMMAND SOURCE-DIRECTORY: every command's help has two examples or more, which docs/cli.md has, too, and each
# works. Examples that measure are run small and on the CPU by options in place of their own, and interrupted after half a second:
# a wrong command line fails at once.
set -u
H=$(realpath "$1")
cli_page=$2/docs/cli.md
failed=0
count=0
say() {
  echo "$1"
  failed=$((failed + 1))
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
ln -s "$H" "$folder/bin/headroom"
export PATH="$folder/bin:$PATH" XDG_DATA_HOME="$folder/data" HEADROOM_PROBE=0 LC_ALL=C
cd "$folder" || exit 1
printf '%s' '{"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,"vocab_size":1001,
  "intermediate_size":256,"hidden_act":"silu"}' > config.json
headroom results import -q "$2/tests/cli/inputs/results.jsonl" > /dev/null || say "no store"
{
  echo kind,m,n,k,time_ns
  for m in 256 512 1024 2048 4096; do
    for n in 1024 2048 3072 4096; do echo "gemm,$m,$n,4096,$((5000 + m * n / 80))"; done
  done
} > measured.csv
for store in before after all; do
  headroom results import -q --db $store.db "$2/tests/cli/inputs/compare.csv" > /dev/null || say "no $store.db"
done
for file in h200.csv a100.csv before.csv after.csv; do # as if they were of two machines
  headroom results export > "$file"
done

# What makes an example of a command small.
small() {
  case "$1" in
    "headroom advise"*--measure*) echo "-d cpu --budget 0.01 -b 1 --seq 32" ;;
    "headroom gemm"*--measure*) echo "--dtype fp32 --budget 0.1 --warm" ;;
    "headroom attention"*) echo "-d cpu --seq 16 --dtype fp32 --budget 0.01 --warm" ;;
    "headroom decode"*) echo "-d cpu --kv-len 32 -b 1 --dtype fp32 --budget 0.01 --warm" ;;
    "headroom layer"*) echo "-d cpu -b 1 --seq 8 --dtype fp32 --budget 0.01 --warm" ;;
    "headroom step"*--context*) echo "-d cpu --context 8 --dtype fp32 --budget 0.01" ;;
    "headroom step"*) echo "-d cpu --seq 8 --dtype fp32 --budget 0.01" ;;
    "headroom generate"*) echo "--tokens 2" ;;
    "headroom validate"*--points*) echo "-d cpu --points 1 --dtype fp32 -q" ;;
    "headroom calibrate"*cuda*) echo "-d cpu" ;;
    "headroom sweep list"*) echo "-d cpu" ;;
    "headroom sweep"*) echo "-d cpu --points 1 --time-limit 0.3 --memory-limit 64 --dtype fp32 --warm -q" ;;
  esac
}

# The example without the options that make it small, which are given once.
without() { # LINE OPTIONS
  rest=$1
  for option in $2; do
    case $option in --warm | -q) ;; -*) rest=$(echo "$rest" | sed "s/ $option [^ ]*//") ;; esac
  done
  echo "$rest"
}

for command in $(headroom help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
  headroom "$command" --help | sed -n '/^Examples:/,/^$/s/^  \(headroom .*\)/\1/p' > lines
  [ "$(wc -l < lines)" -ge 2 ] || say "headroom $command --help has fewer than two examples"
  while IFS= read -r line; do
    case $line in "headroom $command" | "headroom $command "*) ;; *) say "an example of $command: $line" ;; esac
    grep -qxF "    $line" "$cli_page" || say "docs/cli.md lacks the example: $line"
    case $line in "headroom plot"*) command -v gnuplot > /dev/null || { echo "left out, without gnuplot: $line"; continue; } ;; esac
    more=$(small "$line")
    [ -z "$more" ] || line="timeout --preserve-status -s INT 0.5 $(without "$line" "$more") $more"
    (eval "$line") > out 2> err < /dev/null
    code=$?
    if [ -n "$more" ]; then
      [ "$code" -ne 130 ] || code=0
      [ "$code" -ne 4 ] || ! cat out err | grep -qE 'timeout|time limit' || code=0 # a busy machine
    fi
    case "$line:$code" in "headroom compare"*:1) code=0 ;; esac # B is slower
    count=$((count + 1))
    [ "$code" -eq 0 ] || say "$line: exit code $code: $(head -3 err)"
    [ -n "$more" ] || [ -s out ] || [ -s "${line##* }" ] || say "$line: no output"
  done < lines
done
echo "$count examples, $failed failed"
[ "$failed" -eq 0 ]
