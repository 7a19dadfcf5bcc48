#compdef headroom
# zsh completion of headroom(1). tests/cli/options.sh holds the options against `headroom COMMAND --help`.

_headroom_models() {
  local -a models
  models=(${(f)"$(headroom describe --list 2>/dev/null)"})
  _alternative 'models:model:($models)' 'files:configuration:_files'
}

_headroom_devices() {
  local -a devices
  devices=(${(f)"$(headroom devices --list 2>/dev/null)"})
  _alternative 'devices:device:($devices)' 'files:device file:_files -g "*.json"'
}

_headroom_kernels() {
  local -a kernels
  kernels=(${(f)"$(headroom kernels --list 2>/dev/null)"})
  compadd -a kernels
}

_headroom_sweeps() {
  local -a sweeps
  sweeps=(list all ${(f)"$(headroom sweep --list 2>/dev/null)"})
  _alternative 'sweeps:sweep:($sweeps)' 'files:sweep file:_files -g "*.json"'
}

_headroom() {
  local -a common device workload dtype measure commands
  commands=(
    'describe:parameters, memory and the operators of a step'
    'advise:what to change about a shape, and what it gains'
    'search:faster shapes of about as many parameters'
    'gemm:one matrix product'
    'attention:one attention call, every kernel'
    'layer:one layer, operator by operator'
    'sweep:a figure measured point by point'
    'results:measurements that were kept'
    'devices:devices of this machine and those known by name'
    'kernels:the kernels, and which of them run here'
    'help:help about a command or a topic'
  )
  common=(
    '(-f --format)'{-f,--format}'[form of the result]:format:(table json csv markdown)'
    '(-o --output)'{-o,--output}'[write to a file]:file:_files'
    '--color[colours in tables]:when:(auto always never)'
    '(-v --verbose)'{-v,--verbose}'[say more]'
    '(-q --quiet)'{-q,--quiet}'[no progress line]'
    '(-h --help)'{-h,--help}'[options of the command]'
  )
  device=('(-d --device)'{-d,--device}'[device]:device:_headroom_devices')
  dtype=('--dtype[number format]:format:(fp64 fp32 tf32 fp16 bf16 fp8)')
  workload=(
    '(-b --batch)'{-b,--batch}'[sequences in a microbatch]:count:'
    '(-s --seq)'{-s,--seq}'[tokens in a sequence]:count:'
    '(-t --tensor-parallel)'{-t,--tensor-parallel}'[devices that share each layer]:count:'
    '(-p --pipeline-stages)'{-p,--pipeline-stages}'[stages of the layers]:count:'
    '--phase[what a step is]:phase:(forward train prefill decode)'
    '--context[tokens in the KV cache]:count:'
    '--attention[whether the scores go through memory]:form:(unfused fused)'
    $dtype
  )
  measure=(
    '(-m --measure)'{-m,--measure}'[measure on this machine]'
    '--budget[how long measuring may take]:seconds:'
    '--threads[cores to measure with]:count:'
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
    describe) _arguments $device $workload '--list[only the names]' $common '1:model:_headroom_models' ;;
    advise)
      _arguments $device $workload $measure '--strict[exit with 1 on a high finding]' \
        '--table[table of the CSV]:table:(findings operators measurements)' $common '1:model:_headroom_models'
      ;;
    search)
      _arguments $device $workload '--param-band[how far the parameters may move]:share:' \
        '--hidden[hidden sizes]:MIN\:MAX[\:STEP]:' '--layers[layers]:MIN\:MAX:' '--heads[query heads]:MIN\:MAX:' \
        '--head-dim[head sizes]:MIN\:MAX:' '--mlp-width[MLP widths]:MIN\:MAX[\:STEP]:' \
        '--vocab-multiple[pad the vocabulary]:count:' '--keep-vocabulary[leave the vocabulary alone]' \
        '--kv-ratio[query heads for each K and V head]:count:' '--allow-uneven[also what t and p do not divide]' \
        '(-n --limit)'{-n,--limit}'[shapes to list]:count:' '--max-shapes[stop after so many]:count:' $common \
        '1:model:_headroom_models'
      ;;
    gemm)
      _arguments $device $dtype $measure '--m[rows]:count:' '--n[columns]:count:' '--k[depth]:count:' \
        '--batch-count[products]:count:' '--transpose-a[A is stored transposed]' \
        '--transpose-b[B is stored transposed]' '--lda[leading dimension of A]:elements:' \
        '--ldb[leading dimension of B]:elements:' '--ldc[leading dimension of C]:elements:' \
        '--stride-a[from one A to the next]:elements:' '--stride-b[from one B to the next]:elements:' \
        '--stride-c[from one C to the next]:elements:' '--broadcast-a[all products read the same A]' \
        '--broadcast-b[all products read the same B]' '--kernel[kernel]:kernel:_headroom_kernels' \
        '--autotune[time so many algorithms]:count:' \
        '--warm[the same data again and again]' '--save[keep the measurement]' '--db[the store]:file:_files' $common
      ;;
    attention)
      _arguments $device $dtype '(-b --batch)'{-b,--batch}'[sequences]:count:' '--heads[query heads]:count:' \
        '--k-heads[K heads]:count:' '--v-heads[V heads]:count:' '--head-dim[size of a head]:count:' \
        '--v-head-dim[size of a V head]:count:' '--q-len[queries]:count:' '--kv-len[keys]:count:' \
        '--causal[queries see the keys up to their own]' '--window[keys that a query sees]:count:' \
        '--scale[of the scores]:number:' '--softcap[cap of the scores]:number:' '--alibi[biases of ALiBi]' \
        '--layout[order in memory]:layout:(bshd bhsd packed_qkv)' '--memory-limit[of operands and workspace]:MiB:' \
        '--kernel[kernel]:kernel:_headroom_kernels' '--warm[the same data again and again]' \
        '--budget[how long measuring may take]:seconds:' '--threads[cores to measure with]:count:' \
        '--save[keep the measurements]' '--db[the store]:file:_files' $common
      ;;
    layer)
      _arguments $device $workload '--budget[how long measuring may take]:seconds:' \
        '--threads[cores to measure with]:count:' '--warm[the same data again and again]' \
        '--save[keep what is measured]' '--db[the store]:file:_files' $common '1:model:_headroom_models'
      ;;
    results)
      _arguments '--sweep[rows of this sweep]:name:' '(-d --device)'{-d,--device}'[rows of this device]:name:' \
        '--status[rows of this status]:status:(ok noisy out_of_memory timeout unsupported unavailable wrong_result backend)' \
        '--since[rows from this date on]:date:' '(-n --last)'{-n,--last}'[only the last rows]:count:' \
        '(-y --yes)'{-y,--yes}'[delete without an id]' '--db[the store]:file:_files' $common \
        '1:action:(list show export import merge delete)' '*:file:_files'
      ;;
    sweep)
      _arguments $device $dtype '--points[only so many points]:count:' '--shard[a share of the points]:I/N:' \
        '--again[measure also what has a row]' '--seed[of the order and the data]:number:' \
        '--time-limit[seconds of sampling one point]:seconds:' '--memory-limit[of operands and workspace]:MiB:' '--threads[cores to measure with]:count:' \
        '--kernel[kernel]:kernel:_headroom_kernels' '--autotune[time so many algorithms]:count:' '--warm[the same data again and again]' \
        '--db[the store]:file:_files' '--list[only the names]' $common \
        '*:sweep:_headroom_sweeps'
      ;;
    devices) _arguments '--probe[measure rates]' '--list[only the names]' $common '*:device:_headroom_devices' ;;
    kernels) _arguments '--list[only the names]' $common ;;
    help) _arguments $common '1:topic:(describe advise search gemm attention layer sweep results devices kernels help models rules)' ;;
  esac
}

_headroom "$@"
