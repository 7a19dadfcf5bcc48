#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# behaviour.sh COMMAND SOURCE: tests that golden files cannot express: terminals, signals, files that must stay intact.
set -u
H=$(realpath "$1")
source=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset NO_COLOR COLUMNS
export LC_ALL=C TERM=xterm HEADROOM_PROBE=0
failed=0

# expect FACT CONDITION...
expect() {
  fact=$1
  shift
  "$@" || { echo "not so: $fact"; failed=$((failed + 1)); }
}
# expect_code FACT CODE COMMAND...
expect_code() {
  fact=$1
  code=$2
  shift 2
  "$@"
  found=$?
  [ "$found" -eq "$code" ] || { echo "not so: $fact: exit code $found rather than $code"; failed=$((failed + 1)); }
}
# Containers may have no pseudoterminals; tests that need one are then skipped with a message.
terminals=yes
script -qec true /dev/null < /dev/null > script.log 2>&1 || terminals=
# on_terminal COLUMNS COMMAND-LINE: the output on a terminal of this width
on_terminal() {
  script -qec "stty cols $1 rows 40; $2" /dev/null < /dev/null | tr -d '\r'
}
widest() {
  LC_ALL=C.UTF-8 wc -L
}
escape=$(printf '\033')

# ---- colours and width ----
"$H" describe gpt2 > pipe
expect "no colours in a pipe" sh -c "! grep -q '$escape' pipe"
colours_and_width() {
  on_terminal 80 "$H describe gpt2" > terminal
  expect "colours on a terminal" grep -q "$escape" terminal
  on_terminal 80 "NO_COLOR=1 $H describe gpt2" > plain
  expect "NO_COLOR is respected" sh -c "! grep -q '$escape' plain"
  on_terminal 80 "NO_COLOR= $H describe gpt2" > empty
  expect "an empty NO_COLOR says nothing" grep -q "$escape" empty
  on_terminal 80 "TERM=dumb $H describe gpt2" > dumb
  expect "no colours on a dumb terminal" sh -c "! grep -q '$escape' dumb"
  on_terminal 80 "NO_COLOR=1 $H describe --color always -f json gpt2" > json
  expect "no colours in JSON" sh -c "! grep -q '$escape' json"
  for columns in 60 80 100 160; do
    on_terminal $columns "NO_COLOR=1 $H describe -v --phase train -d h200 llama-2-70b" > wide
    expect "tables fit $columns columns" test "$(widest < wide)" -le $columns
  done
}
[ -z "$terminals" ] || colours_and_width

# ---- files ----
echo old > kept
expect_code "a model that does not exist" 3 "$H" describe nonsense -o kept 2> errors
expect "a failed run leaves the old file intact" grep -qx old kept
"$H" describe gpt2 -o kept
expect "the file is replaced" grep -q gpt2 kept
chmod 640 kept
"$H" describe gpt2 -f json -o kept
expect "the file keeps its mode" test "$(stat -c %a kept)" = 640
ln -s kept link
"$H" describe opt-125m -o link
expect "a link is written through" sh -c "test -L link && grep -q opt-125m kept"
ln -s kept absent
rm kept
"$H" describe gpt2 -o absent
expect "a link to a file that does not exist yet is written through, too" sh -c "test -L absent && grep -q gpt2 kept"
long_name=$(printf '%0250d' 0)
"$H" describe gpt2 -o "$long_name"
expect "a name may be as long as names can be" grep -q gpt2 "$long_name"
expect "no temporary file is left" test "$(ls -A | grep -c '^\.')" -eq 0
echo before > log
"$H" describe gpt2 -o /dev/stdout >> log
"$H" describe opt-125m -o /dev/fd/3 3>> log
expect "/dev/stdout and /dev/fd/3 go on where they are" sh -c "grep -qx before log && grep -q gpt2 log && grep -q opt-125m log"
ln -s /dev/stdout to_stdout
"$H" describe gpt2 -o to_stdout > out
expect "a link to one does, too" sh -c "grep -q gpt2 out && test -L to_stdout"
expect_code "a descriptor that is not open" 5 "$H" describe gpt2 -o /dev/fd/9 2> errors
expect_code "one that is open for reading only" 5 "$H" describe gpt2 -o /dev/fd/3 3< log 2> errors
expect "they have a reason" grep -qx 'headroom: /dev/fd/3: is not open for writing' errors
printf '{"h":64,"a":4,"L":2,"v":100}' > own.json
mkdir model
cp own.json model/config.json
cp "$source/data/hardware/h200.json" device.json
cp "$source/data/sweeps/gemm.json" sweep.json
ln own.json own_too
expect_code "the model that is read is not replaced" 5 "$H" describe own.json -o own.json 2> errors
expect "it has a reason" grep -qx 'headroom: own.json: is an input of the command and is not overwritten' errors
expect_code "by another name" 5 "$H" describe own.json -o own_too 2> errors
expect_code "nor as standard input" 5 "$H" describe - -o own.json < own.json 2> errors
expect_code "of a folder" 5 "$H" describe model -o model/config.json 2> errors
expect_code "nor the device" 5 "$H" describe own.json -d ./device.json -o device.json 2> errors
expect_code "nor the sweep" 5 "$H" sweep ./sweep.json#gqa -o sweep.json 2> errors
expect_code "nor an import" 5 "$H" results import own.json --db no.db -o own.json 2> errors
expect "all are as they were" sh -c "cmp -s own.json model/config.json && cmp -s device.json '$source/data/hardware/h200.json' &&
  cmp -s sweep.json '$source/data/sweeps/gemm.json'"
mkdir locked
if [ "$(id -u)" -ne 0 ]; then
  chmod 500 locked
  expect_code "a folder that cannot be written" 5 "$H" describe gpt2 -o locked/x 2> errors
  chmod 000 kept
  expect_code "a file that cannot be read" 3 "$H" describe ./kept 2> errors
  chmod 640 kept
  expect_code "a store in a folder that cannot be written" 5 "$H" results import --db locked/x.db a.csv 2> errors
  expect "an unwritable store has a reason" grep -q 'locked/x.db: .*Permission denied' errors
  chmod 000 locked
  expect_code "a folder that cannot be looked into" 3 "$H" describe ./locked 2> errors
  expect "an unreadable configuration has a reason" grep -q 'locked/config.json: Permission denied' errors
  chmod 700 locked
fi
expect_code "a full disk" 5 sh -c "'$H' describe -f json gpt2 > /dev/full" 2> errors
expect "one line about it" test "$(wc -l < errors)" -eq 1

# Notes are written while the output file is open, which must not get the file descriptor of the closed stderr.
echo '{"name": "small", "x": "m", "axes": {"m": [8]}, "problem": {"kind": "gemm", "m": "m", "n": 8, "k": 8}}' > small.json
"$H" sweep small.json -d reference --dtype fp32 --time-limit 0.02 --db closed.db -o closed 2>&-
expect "with stderr closed, notes do not go to the output file" sh -c "grep -q '^sweep' closed && ! grep -q note: closed"
expect_code "standard output that is closed" 5 sh -c "'$H' describe gpt2 >&-" 2> errors
expect_code "standard input that is closed" 3 sh -c "'$H' describe - <&-" 2> errors
expect "one line about it" test "$(wc -l < errors)" -eq 1

# ---- what depends on the machine ----
expect_code "more threads than cores" 2 "$H" attention --q-len 8 --threads 60000 2> errors
expect "too many threads are an error" grep -q '^headroom: threads: 60000, but this process may use' errors
HEADROOM_PROBE=2 expect_code "neither a probe nor none" 2 "$H" gemm 8 8 8 --measure 2> errors
expect "an invalid wish is an error" grep -qx 'headroom: HEADROOM_PROBE: expected 0 or 1, found "2"' errors
HEADROOM_CPU_MASK=sse9 expect_code "an instruction set that there is not" 2 "$H" attention --q-len 8 2> errors
expect "an invalid mask is an error" grep -q '^headroom: HEADROOM_CPU_MASK: expected portable' errors

HEADROOM_ONEDNN=/nowhere.so "$H" kernels > kernels
expect "what all kernels of a device lack is said once" test "$(grep -c 'nowhere.so' kernels)" -eq 1

# ---- the store ----
HEADROOM_PROBE=1 "$H" gemm 64 64 64 --dtype fp32 --measure --budget 0.2 --db kept.db > out 2> errors
expect "a measurement is compared with probed ceilings" grep -q '^of ceiling ' out
"$H" gemm 64 64 64 --measure --warm --budget 0.2 --db kept.db > out 2> errors
expect_code "HEADROOM_PROBE=0 leaves the probe out" 1 grep -q '^of ceiling ' out
expect "each measurement is a row" test "$("$H" results list -f csv --db kept.db | wc -l)" -eq 3
expect_code "an invalid store is an error before measuring" 3 "$H" gemm 64 64 64 --measure --db . > out 2> errors
expect "and nothing else is printed" test ! -s out
XDG_DATA_HOME=$folder/data "$H" gemm 64 64 64 --measure --warm --budget 0.2 --save > out 2> errors
expect "--save makes the default store" test -f data/headroom/results.db
"$H" results export --db kept.db > a.csv
"$H" results import --db copy.db - < a.csv > out
"$H" results export --db copy.db > b.csv
expect "a measured row is the same after export and import" cmp a.csv b.csv
expect_code "an export to a full disk" 5 sh -c "'$H' results export --db kept.db > /dev/full" 2> errors
expect_code "an import with a format that it does not write" 2 "$H" results import --db unchanged.db a.csv -f html 2> errors
expect "says so in one line" test "$(wc -l < errors)" -eq 1
expect_code "an import whose report cannot be written" 5 "$H" results import --db unchanged.db a.csv -o missing/report 2> errors
expect "adds no row" test ! -e unchanged.db
expect_code "delete writes no report" 2 "$H" results delete -y --db copy.db -o deleted 2> errors
expect_code "in no format" 2 "$H" results delete -y --db copy.db -f json 2> errors
expect_code "list deletes nothing" 2 "$H" results list -y --db copy.db 2> errors
expect_code "an import chooses no rows" 2 "$H" results import --last 1 --db copy.db a.csv 2> errors
expect "and the store is as it was" cmp -s a.csv b.csv
expect_code "findings need no store" 0 env HOME="$folder/nobody" XDG_DATA_HOME= "$H" report --models gpt2 -d h200 -o findings.html 2> errors
expect_code "a store that is named is needed" 3 "$H" report --models gpt2 -d h200 --db nowhere.db -o findings.html 2> errors
expect_code "an option with one value is given once" 2 "$H" describe gpt2 -d h100 --device h200 2> errors
expect "and the line names it" grep -q -- '--device is given twice, now as "h200"' errors
expect_code "a list goes on" 0 "$H" advise gpt2 -d h200 --only free --only deploy > out 2> errors
expect_code "no room for a new store" 5 sh -c "ulimit -f 1; trap '' XFSZ; '$H' results import --db new.db a.csv" 2> errors
expect "one line about it" test "$(wc -l < errors)" -eq 1
expect "no store is left behind" test ! -e new.db
echo nonsense > nonsense.csv
expect_code "an import that is refused" 3 "$H" results import --db new.db nonsense.csv a.csv 2> errors
expect_code "a merge that is refused" 3 "$H" results merge --db new.db nonsense.csv 2> errors
XDG_DATA_HOME=$folder/none expect_code "an import into the default store that is refused" 3 "$H" results import - < nonsense.csv 2> errors
expect "no store is left behind" test ! -e new.db -a ! -e none
expect_code "an import of which a part is refused" 3 "$H" results import --db new.db a.csv nonsense.csv > out 2> errors
expect "the other part is kept" test "$("$H" results list -f csv --db new.db | wc -l)" -eq 3
expect_code "an export does not replace its own store" 5 "$H" results export --db kept.db -o kept.db 2> errors
expect "one line about it" test "$(wc -l < errors)" -eq 1
expect "its rows are there" test "$("$H" results list -f csv --db kept.db | wc -l)" -eq 3
# The existing rows leave less space in the page than the new rows take, with or without times.
cp kept.db full.db
expect_code "there is no room for all rows" 5 sh -c "ulimit -f 48; trap '' XFSZ; '$H' attention --q-len 8 --warm --budget 0.2 --db full.db > out" 2> errors
expect "those before it are kept" test "$("$H" results list -f csv --db full.db | wc -l)" -ge 2
expect "what was measured is shown" grep -q attention_naive out
expect "one line about it" grep -qx "headroom: full.db: .*" errors
rm -rf data

# ---- input that does not end ----
mkfifo pipe_without_writer
expect_code "a pipe without a writer" 3 timeout 10 "$H" describe ./pipe_without_writer 2> errors
truncate -s 1G huge.json
expect_code "a file of 1 GB" 3 timeout 10 "$H" describe huge.json 2> errors
expect_code "standard input without an end" 3 timeout 10 "$H" describe - < /dev/zero 2> errors
printf '{"h":64,"a":4,"L":2,"v":100}' > config.json
expect_code "a directory with a config.json" 0 "$H" describe . > out
expect "it is named after the directory" grep -q "^model *$(basename "$folder")\$" out
expect_code "a name with an escape" 3 "$H" describe "$(printf 'x\033[31m\n.json')" 2> errors
expect "an escape in a name does not reach the terminal" sh -c "! grep -q '$escape' errors"
expect "a line break in a name does not either" test "$(wc -l < errors)" -eq 1

# ---- pipes that close, signals ----
expect "a reader that leaves is no error" test -z "$("$H" describe -f json gpt2 2>&1 >&3 3>&- | head -c 0)" 3>/dev/null
(trap '' PIPE; "$H" describe -v -f json llama-2-70b 2> errors | true)
expect "nor where the signal is ignored" test ! -s errors

# A search that takes minutes unless it is stopped.
long="$H search -d h200 llama-2-70b --param-band 0.9 --hidden 1024:20480:8 --mlp-width 1024:65536:8 --vary layers --serve-on 1 -n 2"
long="$long --max-shapes 1000000000000"
# In the foreground, as timeout signals its group as well otherwise, and a second signal kills.
timeout --foreground -s INT --preserve-status 1 $long > interrupted 2> errors
code=$?
expect "Ctrl-C ends it" test $code -eq 130
expect "with what it has" grep -q "Shapes, fastest first" interrupted
expect "and says that it is not all" grep -q "not all of them" interrupted
expect "without an error" test ! -s errors
# Each first measures the device for seconds.
for command in 'devices --probe cpu' 'devices --probe' 'gemm --measure 64 64 64' 'attention --q-len 16' \
  'advise --measure gpt2' 'layer gpt2' 'sweep fig24 --db stopped.db'; do
  HEADROOM_PROBE=1 timeout --foreground -s INT --preserve-status 0.4 "$H" $command > interrupted 2> errors
  expect "Ctrl-C ends $command while it probes" test $? -eq 130
  expect "with nothing that was not measured" test ! -s interrupted -a ! -e stopped.db
done
echo old > kept
timeout -s KILL 0.5 $long -o kept > killed 2>&1
expect "a kill leaves the old file whole" grep -qx old kept
progress() {
  on_terminal 80 "timeout --foreground -s INT 2 $long; true" > shown
  expect "long work shows its progress on a terminal" grep -q "[0-9]%  [0-9] s" shown
  on_terminal 80 "timeout --foreground -s INT 1.5 $long -q; true" > shown
  expect "but not with --quiet" sh -c "! grep -q '[0-9]%  [0-9] s' shown"
}
if [ -n "$terminals" ]; then
  progress
else
  echo "left out: colours, width and progress on a terminal, because there is none: $(cat script.log)"
fi

[ "$failed" -eq 0 ] && echo "all as expected"
[ "$failed" -eq 0 ]
