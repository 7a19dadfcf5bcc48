#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# places.sh COMMAND SOURCE: a home folder that is missing or cannot be written, terminals without abilities, descriptors
# that are closed, and Ctrl-C while a kernel runs.
set -u
H=$(realpath "$1")
rows=$(realpath "$2")/tests/cli/inputs/results.jsonl
folder=$(mktemp -d -p /dev/shm 2> /dev/null || mktemp -d) # in memory: each row of a store waits for the disk
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset XDG_DATA_HOME XDG_CACHE_HOME
export LC_ALL=C HEADROOM_PROBE=0 OMP_WAIT_POLICY=passive
failed=0

not_so() {
  echo "not so: $*"
  failed=$((failed + 1))
}
# ends FACT CODE COMMAND...: the exit code, and one line of errors unless it is 0
ends() {
  fact=$1 code=$2
  shift 2
  "$@" > out 2> errors
  found=$?
  [ $found -eq "$code" ] || not_so "$fact: exit code $found rather than $code: $(cat errors)"
  [ "$code" -eq 0 ] || [ "$(wc -l < errors)" -eq 1 ] || not_so "$fact: not one line: $(cat errors)"
}

# ---- the home folder ----
"$H" describe gpt2 > wanted
mkdir home
for home in none '' relative /dev/null /proc "$folder/home/new"; do
  case $home in
  none) run() { env -u HOME "$H" "$@"; } ;;
  *) run() { HOME=$home "$H" "$@"; } ;;
  esac
  ends "HOME $home, a model" 0 run describe gpt2
  cmp -s out wanted || not_so "HOME $home changes nothing in a description"
  ends "HOME $home, kernels" 0 run kernels
  ends "HOME $home, the hub's cache" 3 run describe acme/none
  ends "HOME $home, no store yet" 3 run results list
  case $home in
  "$folder"*) ends "HOME $home is made" 0 run results import "$rows" ;;
  /*) ends "HOME $home cannot be written" 5 run results import "$rows" ;;
  *) ends "HOME $home is none" 3 run results import "$rows" ;;
  esac
done
[ "$(HOME=$folder/home/new "$H" results list -f csv | wc -l)" -eq 6 ] || not_so "the store of a new home has its rows"
if [ "$(id -u)" -ne 0 ]; then
  mkdir read_only
  chmod 500 read_only
  HOME=$folder/read_only ends "a home that is read-only" 5 "$H" results import "$rows"
  chmod 700 read_only
fi

# ---- terminals ----
# Texts of a store cannot control the terminal that shows them; files and pipes get every byte.
sed '1s/"product": "[^"]*"/"product": "\\u001b[31mred\\u001b]0;title\\u0007 \\u009b2J"/' "$rows" > hostile.jsonl
"$H" results import --db hostile.db hostile.jsonl > out 2>&1 || not_so "an import: $(cat out)"
cat > on_terminal.py << 'END'
import os, pty, sys
shown = bytearray()
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    shown += part
sys.stdout.buffer.write(bytes(shown).replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
on_terminal() {
  TERM=xterm COLUMNS=300 python3 on_terminal.py "$H" "$@"
}
controls() {
  python3 -c 'import re, sys; sys.exit(not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", open(sys.argv[1], encoding="utf-8").read()))' "$1"
}
has_terminals() { # not in a folder that has no /dev/pts
  python3 -c 'import pty; pty.openpty()' 2> /dev/null
}
shown_on_a_terminal() {
  for written in "export" "export -f json" "list -f csv" "list -f json" "list" "list -f markdown" "show 0a1b"; do
    on_terminal results $written --db hostile.db --color never > shown || not_so "results $written on a terminal"
    grep -q 'red' shown || not_so "results $written does not show the text"
    controls shown && not_so "results $written controls the terminal"
  done
  on_terminal advise -d h200 gpt2 --color always > shown
  controls shown || not_so "colours reach a terminal"
}
if has_terminals; then
  shown_on_a_terminal
else
  echo "skipped: no pseudo-terminal can be opened here, so that nothing is shown on one"
fi
"$H" results export --db hostile.db > out
controls out || not_so "an export to a pipe has every byte"
for terminal in dumb '' unknown; do
  TERM=$terminal ends "TERM $terminal" 0 "$H" describe gpt2
  cmp -s out wanted || not_so "TERM $terminal changes nothing in a pipe"
done

# ---- closed descriptors: files that are opened do not take their numbers ----
(exec 0<&- 1>&- 2>&-; exec "$H" describe gpt2 -o saved)
cmp -s saved wanted || not_so "a file is whole with every descriptor closed"
for closed in '0<&-' '0<&- 1>&-' '0<&- 1>&- 2>&-' '2>&-' '1>&- 2>&-'; do
  rm -f a.db
  sh -c "exec '$H' results import --db a.db '$rows' $closed" > out 2> errors
  "$H" results export --db a.db > exported 2> errors || not_so "a store is whole without $closed: $(cat errors)"
  [ "$(wc -l < exported)" -eq 6 ] || not_so "all rows are stored without $closed"
  grep -q headroom: a.db && not_so "no message is in the store without $closed"
done

# ---- Ctrl-C while a kernel runs; the cases run at once ----
in_a_kernel() {
  timeout --foreground -s INT --preserve-status 0.5 "$H" $2 > "$1.out" 2> "$1.errors"
  echo $? > "$1.code"
}
in_a_kernel 1 'attention --seq 512 --heads 4 --dtype fp32 --kernel attention_naive --warm --budget 60' &
in_a_kernel 2 'gemm 1024 1024 1024 --dtype fp32 --measure --warm --budget 60' &
in_a_kernel 3 'decode --kv-len 4096 --batch 4 --dtype fp32 --warm --budget 60' &
in_a_kernel 4 'layer gpt2 --dtype fp32 --budget 60' &
# A run of many seconds is left after two; nothing of it stays.
long_run() {
  timeout --foreground -k 15 -s INT --preserve-status 0.5 "$H" attention --seq 65536 --heads 1 --dtype fp32 --threads 1 \
    --warm -o long > 5.out 2> 5.errors
  echo $? > 5.code
}
long_run &
# The same in a sweep, whose row in the store stays.
cat > long.json << 'END'
{"name": "long", "axes": {"s": [64, 65536]}, "x": "s", "problem": {"kind": "attention", "batch": 1, "q_heads": 1,
 "k_heads": 1, "v_heads": 1, "q_len": "s", "kv_len": "s", "qk_dim": 64, "v_dim": 64, "causal": true}}
END
long_sweep() { # TERM, as SIGINT is ignored in the background; the second point starts when the first is stored
  "$H" sweep ./long.json --dtype fp32 --threads 1 --warm --db sweep.db -o long -q > 6.out 2> 6.errors &
  tries=0
  while [ "$("$H" results export --db sweep.db 2> 6.stored | wc -l)" -lt 2 ] && [ $tries -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  kill -TERM $!
  wait $!
  echo $? > 6.code
}
long_sweep &
# A second signal does not wait at all, and leaves no temporary file either. SIGINT is ignored in the background.
twice() {
  "$H" attention --seq 65536 --heads 1 --dtype fp32 --threads 1 --warm -o long > 7.out 2> 7.errors &
  sleep 0.5
  kill -TERM $!
  sleep 0.2
  kill -TERM $!
  wait $! 2> 7.ended # the shell reports it
  [ $? -eq 143 ] && echo 130 > 7.code
}
twice &
wait
[ ! -e long ] && ! ls .headroom.* > /dev/null 2>&1 || not_so "Ctrl-C in a long run leaves nothing: $(ls -A)"
[ "$("$H" results export --db sweep.db | wc -l)" -eq 2 ] || not_so "Ctrl-C in a long point leaves the row before it"
for case in 1 2 3 4 5 6 7; do
  [ "$(cat $case.code)" = 130 ] || not_so "Ctrl-C ends kernel $case: exit code $(cat $case.code)"
  [ ! -s $case.errors ] || not_so "kernel $case: no message: $(cat $case.errors)"
done
[ "$failed" -eq 0 ] && echo "all as expected"
[ "$failed" -eq 0 ]
