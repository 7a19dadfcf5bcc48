#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# faults_commands.sh COMMAND SOURCE INTERPOSED CACHE_CALLS: reads, writes, opens, syncs and renames fail in turn
# (tests/cli/faults/interpose.c), once and from then on, in commands that read models, write files and change stores, and in
# the cache of compiled kernels. A command ends with its result or with one line and exit code 3 or 5; files are old or new;
# interruptions and short reads and writes change nothing. HEADROOM_TEST=whole fails every call, otherwise a few.
set -u
H=$(realpath "$1")
source=$(realpath "$2")
interposed=$(realpath "$3")
cache_calls=$(realpath "$4")
folder=$(mktemp -d -p /dev/shm 2> /dev/null || mktemp -d) # in memory: each row waits for the disk
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LC_ALL=C HEADROOM_PROBE=0 HOME="$folder" OMP_WAIT_POLICY=passive
failed=0 reached=0
step=97 most=60
[ "${HEADROOM_TEST:-}" = whole ] && step=1 most=2000

not_so() {
  echo "not so: $*"
  failed=$((failed + 1))
}
# with_fault CALL AT ERRNO AGAIN COMMAND...: its exit code; `fired` exists if the call was reached
with_fault() {
  call=$1 at=$2 number=$3 again=$4
  shift 4
  rm -f fired
  env FAULT_CALL="$call" FAULT_AT="$at" FAULT_ERRNO="$number" ${again:+FAULT_AGAIN=1} FAULT_LOG="$folder/fired" \
    LD_PRELOAD="$interposed" "$@"
}
# each CALLS ERRNOS AGAIN CHECK: CHECK is called with CALL AT ERRNO AGAIN until the command has no such call
each() {
  for fault_call in $1; do
    for fault_number in $2; do
      n=1
      while [ $n -le $most ] && $4 "$fault_call" $n "$fault_number" "$3"; do
        n=$((n + step))
        reached=$((reached + 1))
      done
    done
  done
}
EIO=5 EINTR=4 ENOSPC=28

# ---- commands that read and print ----
mkdir model
cp "$source/data/models/gpt2.json" model/config.json
cp "$source/data/hardware/h200.json" device.json
check_reading() {
  with_fault "$1" "$2" "$3" "$4" "$H" $command > found 2> log
  code=$?
  [ -e fired ] || return 1
  what="$command: $1 $2 errno $3${4:+ and later ones}"
  if [ $code -eq 0 ] || [ "$3" = $EINTR ] || [ "$1" = partread ]; then
    [ $code -eq 0 ] && cmp -s found wanted || not_so "$what: exit code $code, not the result: $(cat log)"
  else
    [ $code -eq 3 ] || not_so "$what: exit code $code"
    [ "$(wc -l < log)" -eq 1 ] || not_so "$what: not one line: $(cat log)"
  fi
}
for command in 'describe model' "describe $source/tests/cli/inputs/checkpoint_sharded" 'advise -d ./device.json gpt2'; do
  "$H" $command > wanted 2> log || not_so "$command: $(cat log)"
  each 'read open' $EIO '' check_reading
  each 'read' $EIO again check_reading
  each 'read partread' $EINTR '' check_reading
done

# ---- commands that write a file ----
cat > rows.json << 'ROWS'
{"operation":"gemm","dtype":"bf16","batch":1,"m":8,"n":8,"k":8,"transpose_a":false,"transpose_b":false,"status":"ok","id":"00000000000000000000000000000001","date":"2026-01-01T00:00:00.000Z"}
{"operation":"gemm","dtype":"bf16","batch":1,"m":16,"n":8,"k":8,"transpose_a":false,"transpose_b":false,"status":"ok","id":"00000000000000000000000000000002","date":"2026-01-01T00:00:00.000Z"}
ROWS
sed 's/"000000000000000000000000000000/"100000000000000000000000000000/' rows.json > more.json
"$H" results import --db before.db rows.json > log 2>&1 || { cat log; exit 1; }
"$H" results import --db other.db more.json > log 2>&1 || { cat log; exit 1; }
check_writing() {
  echo old > out
  with_fault "$1" "$2" "$3" "$4" "$H" $command -o out > log 2>&1
  code=$?
  [ -e fired ] || return 1
  what="$command: $1 $2 errno $3${4:+ and later ones}"
  if [ $code -eq 0 ]; then
    cmp -s out wanted || not_so "$what: success, but the file is not whole"
  else
    [ $code -eq 5 ] || [ $code -eq 3 ] || not_so "$what: exit code $code"
    [ "$3" != $EINTR ] && [ "$1" != partwrite ] || not_so "$what: exit code $code"
    [ "$(wc -l < log)" -eq 1 ] || not_so "$what: not one line: $(cat log)"
    cmp -s out wanted || grep -qx old out || not_so "$what: the file is neither old nor new"
  fi
  [ "$(find . -name '.headroom*' | wc -l)" -eq 0 ] || not_so "$what: a temporary file is left"
}
for command in 'describe gpt2 -f json' 'results export --db before.db'; do
  "$H" $command > wanted
  each 'write open fsync rename mkstemp close' "$EIO $ENOSPC" '' check_writing
  each 'write' "$EIO $ENOSPC" again check_writing
  each 'write partwrite' $EINTR '' check_writing
done

# ---- commands that change a store ----
cat > sweep.json << 'SWEEP'
{"name": "small", "x": "m", "axes": {"m": [1, 2]}, "series": "all", "problem": {"kind": "gemm", "m": "m", "n": 4, "k": 4}}
SWEEP
rows_of() {
  "$H" results list -f csv --db "$1" 2> list_log | tail -n +2 | wc -l
}
check_store() {
  rm -f a.db*
  cp before.db a.db
  with_fault "$1" "$2" "$3" "$4" "$H" $command > log 2> errors
  code=$?
  [ -e fired ] || return 1
  what="$command: $1 $2 errno $3${4:+ and later ones}"
  found=$(rows_of a.db)
  if [ $code -eq 0 ]; then
    [ "$found" -eq $after ] || not_so "$what: success, but $found rows"
  else
    [ $code -eq 5 ] || [ $code -eq 3 ] || not_so "$what: exit code $code"
    [ "$(grep -cv '^headroom: note: ' errors)" -eq 1 ] || not_so "$what: not one line: $(cat errors)"
    # A commit whose last step fails may have taken place; a sweep keeps its first row.
    [ "$found" -eq 2 ] || [ "$found" -eq $after ] || { [ $after -eq 4 ] && [ "$found" -eq 3 ]; } ||
      not_so "$what: exit code $code and $found rows"
  fi
  "$H" results import --db a.db more.json > log 2>&1 || not_so "$what: the store cannot be written: $(cat log)"
}
run_store() {
  command=$1 after=$2
  rm -f a.db*
  cp before.db a.db
  "$H" $command > log 2> errors || not_so "$command: $(cat errors)"
  found=$(rows_of a.db)
  [ "$found" -eq $after ] || not_so "$command: $found rows rather than $after without a fault"
  each 'pwrite shortwrite fsync fdatasync ftruncate unlink open pread' "$EIO $ENOSPC" '' check_store
  each 'pwrite fsync fdatasync unlink open pread' $EIO again check_store
  each 'pwrite pread open' $EINTR '' check_store
}
run_store 'results merge --db a.db other.db' 4
run_store 'results delete --db a.db 00000000000000000000000000000001' 1
run_store 'results export --db a.db' 2
run_store 'results list --db a.db' 2
run_store 'sweep ./sweep.json -d reference --dtype fp32 --time-limit 0.001 --db a.db -q' 4

# ---- the cache of compiled kernels ----
check_cache() {
  rm -rf cache
  with_fault "$1" "$2" "$3" "$4" "$cache_calls" "$folder/cache" || not_so "cache: $1 $2 errno $3: another kernel is read"
  [ -e fired ] || return 1
  "$cache_calls" "$folder/cache" || not_so "cache: $1 $2 errno $3: another kernel is read afterwards"
  [ "$1" = unlinkat ] || [ "$(ls cache | grep -cv 'kernel$')" -eq 0 ] || not_so "cache: $1 $2 errno $3: a part is left"
}
each 'write partwrite read partread renameat close' "$EIO $ENOSPC $EINTR" '' check_cache
each 'write read renameat' $ENOSPC again check_cache

echo "$reached calls failed"
[ $reached -ge 40 ] || not_so "fewer than 40 calls were reached"
[ "$failed" -eq 0 ]
