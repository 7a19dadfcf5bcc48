#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torture.sh COMMAND FAULTS [SAMPLES [CALLS…]]: runs commands, and CALLS (calls_*.c), again and again; each time another
# allocation fails (FAULTS is fail_allocations.c as a library), once alone and once with all later ones. A command then
# ends with exit code 5 and says that memory ran out, or its output, its messages and the store are those of a run without
# the fault. A measurement may also store `out_of_memory` as its result. SAMPLES of each command's allocations fail; all
# of them with HEADROOM_TEST=whole, cut into parts, as many at once as there are processors:
#   TORTURE_STEP=N     every N-th allocation only, from a random one on
#   TORTURE_PARTS=N    N parts; TORTURE_PART=I runs only the I-th of them, from 1 on
#   TORTURE_STATE=DIR  what a finished part printed is kept there and not run again: a run that was cut off goes on
#   TORTURE_ONLY=TEXT  only commands that begin with it, or programs
# To see where: TORTURE_FAIL=N TORTURE_TRACE=1 LD_PRELOAD=FAULTS COMMAND…
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${HEADROOM_TEST:-}" = whole ] && [ -z "${TORTURE_PART:-}" ]; then
  jobs=$(nproc) state=${TORTURE_STATE:-}
  [ -n "$state" ] || { state=$(mktemp -d) && trap 'rm -rf "$state"' EXIT; }
  mkdir -p "$state" || exit 2
  export TORTURE_PARTS=${TORTURE_PARTS:-$((jobs * 8))} TORTURE_STATE=$state here
  one_part() { # PART COMMAND FAULTS…: prints into STATE/PART.cut, which becomes STATE/PART at its end
    export TORTURE_PART=$1
    shift
    [ ! -e "$TORTURE_STATE/$TORTURE_PART" ] || return 0
    "$here/torture.sh" "$@" > "$TORTURE_STATE/$TORTURE_PART.cut" 2>&1
    [ $? -gt 1 ] || mv "$TORTURE_STATE/$TORTURE_PART.cut" "$TORTURE_STATE/$TORTURE_PART"
  }
  export -f one_part
  seq "$TORTURE_PARTS" | xargs -P "$jobs" -I{} bash -c 'one_part "$@"' - {} "$@"
  cat "$state"/* | grep -vE '^[0-9]+ runs, 0 failures$'
  through=$(find "$state" -type f ! -name '*.cut' | wc -l)
  cat "$state"/* | awk -v through="$through" -v parts="$TORTURE_PARTS" '
    /^[0-9]+ runs, [0-9]+ failures$/ { runs += $1; failed += $3 }
    END {
      print runs + 0 " runs, " failed + 0 " failures, " through " of " parts " parts"
      exit failed > 0 || through < parts
    }'
  exit
fi
H=$(realpath "$1")
faults=$(realpath "$2")
samples=${3:-6}
shift $(($# < 3 ? $# : 3))
calls=()
for program; do calls+=("$(realpath "$program")"); done
program=$H
[ "${HEADROOM_TEST:-}" != whole ] || samples=all
inputs=$(cd "$here/../cli/inputs" && pwd)
folder=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # in memory: each row of a store waits for the disk
runs=0 failed=0
trap 'rm -rf "$folder"; echo "$runs runs, $failed failures"' EXIT
trap 'exit 2' TERM # what was tried until then counts
cd "$folder" || exit 2
export LC_ALL=C HOME=$folder XDG_DATA_HOME=$folder/data HEADROOM_PROBE=0 OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
# glibc's loader loses the name of a library where the memory to load it runs out.
echo 'leak:ld-linux' > "$folder/leaks_of_others"
export LSAN_OPTIONS=suppressions=$folder/leaks_of_others:print_suppressions=0

# CUDA's libraries crash where memory runs out in them. A file that is none of them hides them.
mkdir hidden
echo 'no library' | tee hidden/libcuda.so.1 > hidden/libnvidia-ml.so.1
export LD_LIBRARY_PATH=$folder/hidden${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

cat > config.json <<'END'
{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000,
 "num_key_value_heads": 8, "intermediate_size": 11008, "rope_theta": 10000.12345678901234, "rms_norm_eps": 0.00001}
END
cat > sweep.json <<'END'
{"name": "small", "title": "Small products", "x": "m", "axes": {"m": [1, 2]}, "series": "all",
 "problem": {"kind": "gemm", "m": "m", "n": 16, "k": 16}}
END
{
  echo kind,m,n,k,time_ns
  for n in {1..24}; do echo "gemm,$((n * 128)),4096,4096,$((n * 9000 + 20000))"; done
} > fitted.csv
cat > measured.csv <<'END'
kind,dtype,m,n,k,time_ns
gemm,bf16,4096,4096,4096,250000
gemm,bf16,8192,8192,8192,1700000
END
"$H" results import -q --db full.db "$inputs/results.jsonl" > made 2>&1 || { cat made; exit 2; }

fail() {
  echo "${program##*/} ${words[*]}: allocation $n${after:+ and later}: $1: $(head -c 3000 errors)"
  failed=$((failed + 1))
}

# The parts of the outputs that are the same in each run, in `seen`.
see_all() { cat out; }
see_saved() { cat saved; } # --output
see_rows() { # of a CSV table whose first column names a kernel: kernel, whether it was right; none that had no memory
  grep -v out_of_memory out | cut -d, -f1,10
}
see_points() { # of a sweep: its points, whatever became of them
  cut -d, -f1-4 out
}
see_store() { # its rows; none if there is no file
  [ ! -e new.db ] || "$H" results export --db new.db | tail -n +2 | cut -d, -f3-8
}

prepare() {
  [ ! -e new.db ] || rm -rf new.db*
  [ ! -e data ] || rm -rf data
  echo before > out
  echo before > saved
  [ ! -e "$start" ] || cp "$start" new.db
}

judge() {
  local first_line left=(.headroom.*)
  read -r first_line < out
  [ "$first_line" = before ] || fail "standard output was replaced"
  [ ! -e "${left[0]}" ] || { fail "a temporary file is left behind"; rm -f "${left[@]}"; }
  [ ! -e new.db ] || [ -s new.db ] || fail "an empty store is left behind"
  if [ $code = 5 ] || { [ $code = 4 ] && [ "$see" = see_rows ] && grep -q out_of_memory out; }; then
    [ $code = 4 ] || [[ $(< errors) = *[Mm]emory* ]] || fail "exit code 5 for another reason"
    [ "$(< saved)" = before ] || fail "the file was replaced"
    [ "$start" = none ] && return
    [ "$start" = new ] || ! cmp -s new.db "$start" || return # not a byte is another one
    see_store > stored
    if [ "$see" = see_points ]; then # what was measured before stays
      ! grep -qvxFf stored_base stored || fail "the store has other rows"
    else
      cmp -s stored stored_before || cmp -s stored stored_base || fail "the store has some of the rows"
    fi
    return
  fi
  [ $code = "$base" ] || { fail "exit code $code"; return; }
  $see > seen
  cmp -s seen seen_base || { [ "$see" = see_rows ] && ! grep -qvxFf seen_base seen; } || fail "another result"
  [ "$see" != see_all ] || cmp -s errors errors_base || fail "other messages"
  [ "$start" = none ] && return
  see_store > stored
  cmp -s stored stored_base || fail "the store has other rows"
}

# torture START SEE OPTION…: the command with each fault; new.db is a copy of START; "new": it does not exist; "none": no store.
torture() {
  start=$1 see=$2 after=''
  shift 2
  words=("$@")
  [[ "${program##*/} $*" = *" ${TORTURE_ONLY:-}"* || "${program##*/}" = "${TORTURE_ONLY:-}"* ]] || return
  prepare
  see_store > stored_before
  TORTURE_COUNT=count LD_PRELOAD=$faults "$program" "$@" >> out 2> errors < /dev/null
  base=$?
  cp errors errors_base
  $see > seen_base
  see_store > stored_base
  local count step first
  count=$(< count)
  [ "$count" -gt 20 ] || { echo "${program##*/} ${words[*]}: only $count allocations were counted"; failed=$((failed + 1)); }
  if [ "$samples" = all ]; then
    step=${TORTURE_STEP:-1}
    first=$((1 + RANDOM % step + step * (TORTURE_PART - 1)))
    step=$((step * TORTURE_PARTS))
  else
    step=$((count / samples + 1))
    first=$((1 + RANDOM % step))
  fi
  for after in '' 1; do
    for ((n = first; n <= count; n += step)); do
      prepare
      TORTURE_FAIL=$n TORTURE_AFTER=$after LD_PRELOAD=$faults "$program" "$@" >> out 2> errors < /dev/null
      code=$?
      runs=$((runs + 1))
      judge
    done
  done
}

RANDOM=${HEADROOM_TEST_SEED:-19}
torture none see_all describe config.json
torture none see_all describe config.json -f json
torture none see_all describe llama-3-8b -f csv
torture none see_all describe "$inputs/checkpoint_sharded"
HF_HUB_CACHE=$inputs/hub torture none see_all describe acme/tiny -f csv
torture none see_all describe config.json -o /dev/stdout
torture none see_saved describe config.json -o saved
torture none see_all advise -d h200 llama-2-7b
torture none see_all advise -d h200 llama-2-7b -f markdown
torture none see_all advise -d h200 llama-2-7b -f json
torture none see_all search -d h200 -n 3 --hidden 768 --heads 12 gpt2
torture none see_all serve-plan -d h200 -t 2 -f json gpt2
torture none see_all sweep list -d h200
torture none see_all help models
torture none see_all kernels
torture none see_all devices h200
torture none see_all decode -d h200
torture none see_all layer -d h200 gpt2
torture none see_all validate -d h200 --from measured.csv -v
torture none see_all calibrate -d h200 --from fitted.csv
torture none see_all plot fig24 --predict h200 -f text
torture none see_all gemm 64 64 64 -d h200
torture full.db see_all results list --db new.db
torture full.db see_all results list --db new.db -f json --sweep fig24 --device H200 --since 2026-01 --status ok
torture full.db see_all compare new.db new.db -v
torture full.db see_all report new.db --models config.json -d h200
torture full.db see_all results show --db new.db 0a1b
torture full.db see_all results export --db new.db
torture full.db see_all results delete --db new.db 0a1b
torture full.db see_all results import --db new.db "$inputs/results.jsonl"
torture new see_all results import --db new.db "$inputs/results.jsonl"
torture new see_all results merge --db new.db full.db
torture none see_rows attention --heads 4 --k-heads 1 --q-len 9 --dtype fp32 --kernel attention_naive --warm --budget 0.02 -f csv
torture new see_points sweep sweep.json -d reference --dtype fp32 --time-limit 0.001 --db new.db -f csv -q
for program in "${calls[@]}"; do
  torture none see_all
done
[ "$failed" = 0 ]
