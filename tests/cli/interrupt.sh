#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# interrupt.sh COMMAND: one Ctrl-C ends a command that waits, for a reader, a writer or a lock, with exit code 130 and
# without a message; nothing waits for the writer of a pipe that has none, or takes long to read.
set -u
H=$(realpath "$1")
sources=$(cd "$(dirname "$0")/../../cli" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LC_ALL=C HEADROOM_PROBE=0
failed=0

not_so() {
  echo "not so: $*"
  failed=$((failed + 1))
}
# Sends SIGINT after some time; in the foreground, since timeout otherwise signals its whole group, and a second signal
# kills.
interrupted() {
  timeout --foreground -s INT --preserve-status "$@"
}

# 2,000 rows are more than a pipe holds.
awk 'BEGIN { for (i = 1; i <= 2000; i++) printf "{\"operation\":\"gemm\",\"dtype\":\"bf16\",\"batch\":1,\"m\":%d,\"n\":8,\"k\":8,\"transpose_a\":false,\"transpose_b\":false,\"status\":\"ok\",\"id\":\"%032d\",\"date\":\"2026-01-01T00:00:00.000Z\"}\n", i, i }' > rows.json
"$H" results import --db a.db rows.json > out || exit 1
mkfifo pipe

# The cases wait, so they run at once. Each writes its exit code and messages to files of its own.
stalled_reader() {
  {
    interrupted 0.7 "$H" results $2 --db a.db 2> "$1.errors"
    echo $? > "$1.code"
  } | sleep 2
}
full_pipe() {
  {
    head -c 65536 /dev/zero
    interrupted 0.7 "$H" $2 2> "$1.errors"
    echo $? > "$1.code"
  } | sleep 2
}
no_reader() {
  interrupted 0.5 "$H" describe gpt2 -o pipe 2> "$1.errors"
  echo $? > "$1.code"
}
no_input() {
  sleep 2 | {
    interrupted 0.7 "$H" $2 > "$1.out" 2> "$1.errors"
    echo $? > "$1.code"
  }
}
lock() {
  cp a.db locked.db
  {
    sed -n '1s/"id":"0/"id":"1/p' rows.json
    sleep 3
  } | "$H" results import --db locked.db - > "$1.out" 2>&1 & # has the lock while it waits for more rows
  tries=0
  while [ ! -e locked.db-journal ] && [ $tries -lt 100 ]; do
    sleep 0.02
    tries=$((tries + 1))
  done
  interrupted 0.7 "$H" results import --db locked.db rows.json > "$1.out" 2> "$1.errors"
  echo $? > "$1.code"
  wait
}
# Nobody may read either: the lock that a writer has while it changes the file itself.
whole_lock() {
  cp a.db exclusive.db
  python3 -c 'import os, sqlite3, time
lock = sqlite3.connect("exclusive.db", isolation_level=None)
lock.execute("BEGIN EXCLUSIVE")
open("exclusive", "w").close()
time.sleep(3)
os.remove("exclusive")' &
  tries=0
  while [ ! -e exclusive ] && [ $tries -lt 100 ]; do
    sleep 0.02
    tries=$((tries + 1))
  done
  interrupted 1 "$H" results import --db exclusive.db rows.json > "$1.out" 2> "$1.errors"
  echo $? > "$1.code"
  [ -e exclusive ] || echo "it waited for the lock" > "$1.errors"
  wait
}
stalled_reader 1 'export' &
stalled_reader 2 'export -f json' &
stalled_reader 3 'list' &
no_reader 4 &
no_input 5 'results import --db new5.db -' &
no_input 6 'describe -' &
no_input 7 'sweep /dev/stdin --db new7.db' &
lock 8 &
whole_lock 9 &
no_input 10 'validate -d h200 --from -' &
no_input 11 'calibrate -d h200 --from -' &
no_input 12 'plot fig24 --predict h200 --peers /dev/stdin -f text' &
no_input 13 'compare - a.db' &
full_pipe 14 'help models' &
full_pipe 15 'gemm --help' &
wait
for case in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  [ "$(cat $case.code)" = 130 ] || not_so "Ctrl-C ends case $case: exit code $(cat $case.code)"
  [ ! -s $case.errors ] || not_so "case $case has no message: $(cat $case.errors)"
done
[ ! -e new5.db ] && [ ! -e new7.db ] || not_so "no store is left"

# ---- work ----
interrupted 0.02 "$H" results merge --db merged.db a.db a.db a.db a.db a.db a.db a.db a.db > out 2> errors
code=$?
[ $code -eq 130 ] || [ $code -eq 0 ] || not_so "Ctrl-C ends a merge: exit code $code"
if [ -e merged.db ]; then
  rows=$("$H" results list -f csv --db merged.db | tail -n +2 | wc -l)
  [ "$rows" -eq 2000 ] || not_so "a merge is whole: $rows rows"
fi

# Predictions of a file's points or rows, of which it may have 100,000, end at once.
deaf=$(cd "$sources" && awk '/cli_blocking\((true|!cli_interrupted\(\))\)/ { ends = 1 } /cli_blocking\(false\)/ { ends = 0 }
  /hr_(figure_of_sweep|validate_file|validate_rows)\(/ && !ends { print FILENAME ": " $0 }
' ./*.c)
[ -z "$deaf" ] || not_so "Ctrl-C ends predictions of many points: $deaf"

# Reading many rows ends at once where the store was opened with cli_store_open(). An import keeps what it has read.
plain=$(cd "$sources" && grep -n 'hr_store_open(' ./*.c | grep -v 'run->options.db, HR_STORE_WRITE')
[ -z "$plain" ] || not_so "Ctrl-C ends the reading of each store: $plain"

# ---- pipes without a writer ----
timeout 10 "$H" results import --db new.db ./pipe 2> errors
[ $? -eq 3 ] || not_so "an import from a pipe without a writer is refused"
grep -qx 'headroom: ./pipe: is empty' errors || not_so "it has a reason: $(cat errors)"
HEADROOM_ONEDNN=./pipe timeout 10 "$H" kernels > out 2> errors || not_so "a pipe is not a library"
grep -q 'pipe) cannot be loaded: is not a regular file' out || not_so "it has a reason: $(cat out)"

# ---- long input ----
awk 'BEGIN { printf "{\"sweeps\":["; for (i = 0; i < 60000; i++) printf "%s{\"name\":\"s%d\"}", i ? "," : "", i; print "]}" }' > many.json
timeout 10 "$H" sweep ./many.json#none > out 2> errors
[ $? -eq 3 ] || not_so "60,000 sweeps are read in linear time"
grep -q 'many.json: has no sweep "none"' errors || not_so "they have a reason: $(cat errors)"
[ "$failed" -eq 0 ] && echo "all as expected"
[ "$failed" -eq 0 ]
