#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# processes.sh COMMAND: step and generate whose ranks are processes on the CPU, with the variables that torchrun, srun and
# mpirun set; and what is left of the others when one is killed, hangs or fails.
set -u
H=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset XDG_DATA_HOME RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export LC_ALL=C HOME="$folder" TMPDIR="$folder" HEADROOM_PROBE=0
failed=0
port=$((20000 + $$ % 20000))

expect() { # FACT CONDITION...
  fact=$1
  shift
  "$@" || {
    echo "not so: $fact"
    failed=$((failed + 1))
  }
}

cat > model.json <<'END'
{"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 6,
 "intermediate_size": 144, "vocab_size": 301, "max_position_embeddings": 128}
END

torchrun_sets() { # RANK SIZE
  export RANK="$1" WORLD_SIZE="$2" LOCAL_RANK="$1" LOCAL_WORLD_SIZE="$2" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
}
srun_sets() {
  export SLURM_PROCID="$1" SLURM_STEP_NUM_TASKS="$2" SLURM_LOCALID="$1" SLURM_STEP_TASKS_PER_NODE="$2" \
    SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=$port
}
mpirun_sets() {
  export OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_SIZE="$2" OMPI_COMM_WORLD_LOCAL_RANK="$1" \
    OMPI_COMM_WORLD_LOCAL_SIZE="$2" HEADROOM_PORT=$port
}

start() { # LAUNCHER SIZE ARGUMENTS...: processes pid.RANK that write out.RANK and err.RANK
  launcher=$1 size=$2
  shift 2
  port=$((port + 2))
  rm -f out.* err.* code.*
  rank=0
  while [ $rank -lt "$size" ]; do
    (
      "${launcher}_sets" $rank "$size"
      eval "more=\${more_$rank:-}"
      exec "$H" "$@" $more > out.$rank 2> err.$rank
    ) &
    eval "pid_$rank=$!"
    rank=$((rank + 1))
  done
}

finish() { # SIZE: code_RANK
  rank=0
  while [ $rank -lt "$1" ]; do
    eval "wait \$pid_$rank"
    eval "code_$rank=$?"
    rank=$((rank + 1))
  done
}

alive() { # RANK: not a zombie, which this shell has not waited for
  eval "state=\$(cut -d' ' -f3 /proc/\$pid_$1/stat 2> /dev/null)"
  [ -n "$state" ] && [ "$state" != Z ]
}

gone_within() { # SECONDS RANK...
  tenths=$(($1 * 10))
  shift
  for each in "$@"; do
    while alive "$each"; do
      tenths=$((tenths - 1))
      [ $tenths -gt 0 ] || return 1
      sleep 0.1
    done
  done
}

no_shared_memory() { # which a killed process would leave
  for each in "$@"; do
    eval "pid=\$pid_$each"
    ! grep -q /dev/shm "/proc/$pid/maps" && ! ls -l "/proc/$pid/fd" | grep -q /dev/shm || return 1
  done
}

runs() { # until rank 0 is connected and has computed for a while
  for i in $(seq 100); do
    [ "$(ls /proc/$pid_0/fd 2> /dev/null | wc -l)" -ge 5 ] && break
    sleep 0.1
  done
  sleep 0.5
  alive 0
}

# ---- results ----
prompt="generate model.json --prompt-ids 5,17,0,60 --tokens 24"
"$H" $prompt > alone || expect "one device generates" false
for ranks in 2 3; do
  "$H" $prompt -t $ranks > threads
  expect "$ranks threads generate one device's ids" cmp -s alone threads
done
"$H" $prompt -p 2 > threads
expect "2 stages generate one device's ids" cmp -s alone threads
start torchrun 2 $prompt -p 2
finish 2
expect "stages that are processes end well" test "$code_0 $code_1" = "0 0"
expect "the first has one device's ids" cmp -s alone out.0
for launcher in torchrun srun mpirun; do
  start $launcher 3 $prompt -t 3
  finish 3
  expect "$launcher: all end well" test "$code_0 $code_1 $code_2" = "0 0 0"
  expect "$launcher: rank 0 has one device's ids" cmp -s alone out.0
  expect "$launcher: the others are silent" test ! -s out.1 -a ! -s out.2 -a ! -s err.1 -a ! -s err.2
done
start torchrun 2 step model.json -s 16 --dtype fp32 --budget 0.2 -t 2 -f json --save --db step.db
finish 2
expect "both processes of a step end well" test "$code_0 $code_1" = "0 0"
expect "rank 0 has the step of two ranks" grep -q '"tensor_parallel": 2' out.0
expect "the other is silent" test ! -s out.1 -a ! -s err.1
expect "one of them keeps a row" test "$("$H" results export --db step.db | tail -n +2 | wc -l)" = 1

# ---- a world of another size ----
start torchrun 3 step model.json -s 16 -t 2
finish 3
expect "a wrong world is a wrong environment" test "$code_0 $code_1 $code_2" = "2 2 2"
expect "of which there is one line" test "$(cat out.* err.* | wc -l)" = 1
expect "with both numbers" grep -q 'layout has 2 ranks, and the launcher has started 3 processes' err.0
start torchrun 1 $prompt -t 2
finish 1
expect "a world of one has threads" cmp -s alone out.0

# ---- a rank is killed, hangs, fails ----
long="step model.json -s 64 --dtype fp32 --budget 60 -t 3"
for killed in 0 1 2; do
  others=$(echo "0 1 2" | tr -d $killed)
  start torchrun 3 $long
  expect "ranks run before rank $killed is killed" runs
  expect "ranks have nothing in /dev/shm" no_shared_memory 0 1 2
  eval "kill -9 \$pid_$killed"
  expect "the others of rank $killed end within ten seconds" gone_within 10 $others
  finish 3 2> /dev/null
  for each in $others; do
    eval "code=\$code_$each"
    expect "rank $each fails when rank $killed is killed" test $code = 4
    expect "rank $each names rank $killed" grep -q "^headroom: rank $killed of 3 is gone" err.$each
  done
done
start torchrun 2 step model.json -s 64 --phase train -p 2 --dtype fp32 --budget 60
expect "stages run before one is killed" runs
kill -9 $pid_1
expect "the first stage ends within ten seconds" gone_within 10 0
finish 2 2> /dev/null
expect "it names the other" grep -q '^headroom: rank 1 of 2 is gone' err.0
start torchrun 3 $long
expect "ranks run before one hangs" runs
kill -STOP $pid_1
expect "the others of a rank that hangs end in time" gone_within 13 0 2
kill -9 $pid_1
finish 3 2> /dev/null
expect "they name it" grep -q '^headroom: rank 1 of 3 has not come to .* within 10 s' err.0 err.2
more_1="--weights missing"
start torchrun 3 $long
more_1=
expect "all end when one fails" gone_within 10 0 1 2
finish 3
expect "the one that fails says why" grep -q '^headroom: no model or file is called "missing"' err.1
expect "the others say which it was, and why" \
  test "$(cat err.0 err.2 | grep -c '^headroom: rank 1 of 3 gave up: no model or file')" = 2

[ $failed -eq 0 ] && echo "processes run together"
[ $failed -eq 0 ]
