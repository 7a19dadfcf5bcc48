# bash completion of headroom(1). tests/cli/options.sh holds the options against `headroom COMMAND --help`.

_headroom_options() {
  local common="--format --output --color --verbose --quiet --help"
  local workload="--batch --seq --tensor-parallel --pipeline-stages --phase --context --attention --dtype"
  case $1 in
    describe) echo "--device $workload --list $common" ;;
    advise) echo "--device $workload --measure --budget --threads --strict --table $common" ;;
    search)
      echo "--device $workload --param-band --hidden --layers --heads --head-dim --mlp-width --vocab-multiple" \
        "--keep-vocabulary --kv-ratio --allow-uneven --limit --max-shapes $common"
      ;;
    gemm)
      echo "--device --dtype --m --n --k --batch-count --transpose-a --transpose-b --lda --ldb --ldc" \
        "--stride-a --stride-b --stride-c --broadcast-a --broadcast-b --kernel --autotune --warm --measure --budget" \
        "--threads --save --db $common"
      ;;
    attention)
      echo "--device --dtype --batch --heads --k-heads --v-heads --head-dim --v-head-dim --q-len --kv-len --causal" \
        "--window --scale --softcap --alibi --layout --memory-limit --kernel --warm --budget --threads --save --db $common"
      ;;
    layer) echo "--device $workload --budget --threads --warm --save --db $common" ;;
    sweep) echo "--device --dtype --threads --kernel --autotune --warm --points --shard --again --seed --time-limit --memory-limit --db --list $common" ;;
    results) echo "--sweep --device --status --since --last --yes --db $common" ;;
    devices) echo "--probe --list $common" ;;
    kernels) echo "--list $common" ;;
    help) echo "$common" ;;
  esac
}

# The values of an option, or nothing. Options with a free value (a number) complete to nothing.
_headroom_values() {
  case $1 in
    --device | -d) headroom devices --list 2>/dev/null ;;
    --phase) echo forward train prefill decode ;;
    --attention) echo unfused fused ;;
    --layout) echo bshd bhsd packed_qkv ;;
    --dtype) echo fp64 fp32 tf32 fp16 bf16 fp8 ;;
    --table) echo findings operators measurements ;;
    --status) echo ok noisy out_of_memory timeout unsupported unavailable wrong_result backend ;;
    --kernel) headroom kernels --list 2>/dev/null ;;
    --format | -f) echo table json csv markdown ;;
    --color) echo auto always never ;;
  esac
}

_headroom_takes_value() {
  case $1 in
    --device | --batch | --seq | --tensor-parallel | --pipeline-stages | --phase | --context | --attention | --dtype | \
      --budget | --threads | --table | --points | --shard | --seed | --time-limit | --param-band | --hidden | --layers | --heads | --k-heads | --v-heads | --head-dim | --v-head-dim | --q-len | --kv-len | --window | --scale | --softcap | --layout | --memory-limit | --mlp-width | \
      --vocab-multiple | --kv-ratio | --limit | --max-shapes | --m | --n | --k | --batch-count | --kernel | --format | \
      --sweep | --status | --since | --last | --db | --output | --color | -d | -b | -s | -t | -p | -n | -f | -o) return 0 ;;
  esac
  return 1
}

_headroom() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "describe advise search gemm attention layer sweep results devices kernels help --help --version" -- "$word")
    return
  fi
  if [[ $word == "=" ]]; then
    word=""
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if _headroom_takes_value "$before"; then
    mapfile -t COMPREPLY < <(compgen -W "$(_headroom_values "$before")" -- "$word")
    if [[ $before == --output || $before == -o || $before == --db || ($before == --device && $word == */*) ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      compopt -o filenames 2>/dev/null
    fi
    return
  fi
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_headroom_options "$command")" -- "$word")
    return
  fi
  case $command in
    describe | advise | search | layer)
      mapfile -t COMPREPLY < <(compgen -W "$(headroom describe --list 2>/dev/null)" -- "$word"; compgen -f -- "$word")
      compopt -o filenames 2>/dev/null
      ;;
    sweep)
      mapfile -t COMPREPLY < <(compgen -W "list all $(headroom sweep --list 2>/dev/null)" -- "$word"; compgen -f -- "$word")
      compopt -o filenames 2>/dev/null
      ;;
    results)
      mapfile -t COMPREPLY < <(compgen -W "list show export import merge delete" -- "$word")
      if ((COMP_CWORD > 2)); then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
      fi
      ;;
    devices) mapfile -t COMPREPLY < <(compgen -W "$(headroom devices --list 2>/dev/null)" -- "$word") ;;
    help)
      mapfile -t COMPREPLY < <(compgen -W "describe advise search gemm attention layer sweep results devices kernels help models rules" -- "$word")
      ;;
  esac
}

complete -F _headroom headroom
