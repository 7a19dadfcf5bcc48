#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ranks.sh COMMAND: a sweep shared by processes of a real mpirun on the CPU, and by the variables of srun and torchrun.
set -u
H=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset XDG_DATA_HOME SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID SLURM_STEP_TASKS_PER_NODE RANK WORLD_SIZE LOCAL_RANK
export LC_ALL=C HOME="$folder" TMPDIR="$folder" HEADROOM_PROBE=0
export ASAN_OPTIONS="${ASAN_OPTIONS:-}${ASAN_OPTIONS:+:}detect_leaks=0" # mpirun's children cannot be traced everywhere
failed=0

expect() { # FACT CONDITION...
  fact=$1
  shift
  "$@" || {
    echo "not so: $fact"
    failed=$((failed + 1))
  }
}
rows() { "$H" results export --db "$1" | tail -n +2 | wc -l; }
points() { "$H" results export --db "$1" -f json | grep -o '"axes": *"[^"]*"' | sort -u | wc -l; }
wait_for_rows() { # STORE COUNT
  for i in $(seq 600); do
    [ -f "$1" ] && [ "$(rows "$1" 2>/dev/null || echo 0)" -ge "$2" ] && return 0
    sleep 0.1
  done
  return 1
}

gone() { # PID, within ten seconds
  for i in $(seq 100); do
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.1
  done
  return 1
}

cat > many.json <<'END'
{"name": "many", "x": "m", "axes": {"m": {"from": 1, "to": 30, "step": 1}},
 "problem": {"kind": "gemm", "m": "m", "n": 16, "k": 16}}
END
sweep="sweep many.json --dtype fp32 --time-limit 0.02"

# ---- srun: what its tasks see ----
for task in 0 1; do
  SLURM_PROCID=$task SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$task SLURM_STEP_TASKS_PER_NODE='2(x1)' \
    "$H" $sweep -d cpu --warm --db slurm.db > task.$task 2> note.$task || expect "task $task ends" false
done
expect "two tasks of srun are everything" test "$(rows slurm.db) $(points slurm.db)" = "30 30"
expect "a task says which it is" grep -q 'rank 1 of 2' note.1
expect "tasks of one machine share its cores alike" \
  test "$("$H" results export --db slurm.db -f json | grep -o '"threads": *[0-9]*' | sort -u | wc -l)" = 1

# ---- torchrun ----
for task in 0 1; do
  RANK=$task WORLD_SIZE=2 LOCAL_RANK=$task LOCAL_WORLD_SIZE=2 \
    "$H" $sweep -d reference -q --db torchrun.db > task.$task || expect "process $task of torchrun ends" false
done
expect "two processes of torchrun are everything" test "$(rows torchrun.db) $(points torchrun.db)" = "30 30"
WORLD_SIZE=two RANK=0 "$H" $sweep -d reference --db never.db 2> note.0
expect "a world that is no number is a wrong environment" test $? = 2
expect "its line names the variable" grep -q "^headroom: WORLD_SIZE: .*'two'" note.0

if ! command -v mpirun > /dev/null || ! mpirun --version 2> /dev/null | grep -q 'Open MPI'; then
  echo "mpirun of Open MPI is not on this machine: only variables were tried"
  exit $((failed > 0))
fi
[ "$(id -u)" = 0 ] && as_root=--allow-run-as-root || as_root=
run="mpirun $as_root --oversubscribe -n 3"

# ---- one store ----
$run "$H" $sweep -d cpu --db shared.db > out 2> errors
expect "three ranks end well" test $? = 0
expect "three ranks measure each point once" test "$(rows shared.db) $(points shared.db)" = "30 30"
expect "one of them prints a table" test "$(grep -c 'of 30 have a row' out)" = 1
expect "without the colours of mpirun's terminal" test "$(grep -c "$(printf '\033')" out)" = 0
expect "every line of the ranks is whole" test "$(grep -c '^headroom: note: many (rank [012] of 3): ' errors)" = 3

# ---- a store for each, merged ----
$run sh -c "\"$H\" $sweep -d reference -q --db rank\$OMPI_COMM_WORLD_RANK.db" > /dev/null 2> errors
expect "each rank has a third" test "$(rows rank0.db) $(rows rank1.db) $(rows rank2.db)" = "10 10 10"
"$H" results merge --db merged.db rank0.db rank1.db rank2.db > /dev/null 2> errors
expect "merged they are everything" test "$(rows merged.db) $(points merged.db)" = "30 30"

# ---- a rank is killed; Ctrl-C ----
cat > long.json <<'END'
{"name": "long", "x": "m", "axes": {"m": {"from": 1, "to": 240, "step": 1}},
 "problem": {"kind": "gemm", "m": "m", "n": 96, "k": 96}}
END
slow="sweep long.json -d reference --dtype fp32 --time-limit 0.05" # seconds of work for each rank
$run sh -c "echo \$\$ > pid\$OMPI_COMM_WORLD_RANK; exec \"$H\" $slow --db killed.db" > out 2> errors &
launcher=$!
expect "rows appear" wait_for_rows killed.db 4
kill -9 "$(cat pid1)"
wait $launcher
expect "mpirun reports a killed rank" test $? != 0
expect "what was measured is kept" test "$(rows killed.db)" -ge 4
expect "it was not over" test "$(rows killed.db)" -lt 240
$run "$H" $slow --db killed.db > out 2> errors
expect "the same command picks its points up" test "$(rows killed.db) $(points killed.db)" = "240 240"

sed 's/"to": 30/"to": 3000/' many.json > long.json # so that no rank is at its end before it is stopped
long="sweep long.json -d reference --dtype fp32 --time-limit 0.5"
$run sh -c "echo \$\$ > pid\$OMPI_COMM_WORLD_RANK; exec \"$H\" $long --db stopped.db" > out 2> errors &
launcher=$!
expect "rows appear before it is stopped" wait_for_rows stopped.db 4
kill -INT $launcher
wait $launcher
expect "a stopped run does not end as if it had finished" test $? != 0
for rank in 0 1 2; do
  expect "no rank is left" gone "$(cat pid$rank)"
done
expect "a stopped run prints no table" test ! -s out -o "$(grep -c 'have a row' out)" = 0
expect "its rows are kept" test "$(rows stopped.db)" -ge 4

[ $failed -eq 0 ] && echo "ranks share"
[ $failed -eq 0 ]
