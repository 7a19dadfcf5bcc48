#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# faults.sh COMMAND SOURCE INTERPOSED: calls of the system fail, one after the other (tests/cli/faults/interpose.c). After
# each the old file or the new one is there, whole; no temporary file is left; and a command that reports success has
# written everything. HEADROOM_TEST=whole fails every call, otherwise the first ones.
set -u
H=$(realpath "$1")
source=$(realpath "$2")
interposed=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LC_ALL=C HEADROOM_PROBE=0
failed=0
most=2
[ "${HEADROOM_TEST:-}" = whole ] && most=200

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
EIO=5 EINTR=4 ENOSPC=28

# ---- --output ----
"$H" describe gpt2 > wanted
check_output() {
  echo old > out
  with_fault "$1" "$2" "$3" "" "$H" describe gpt2 -o out > log 2>&1
  code=$?
  [ -e fired ] || return 1
  if [ $code -eq 0 ]; then
    cmp -s out wanted || not_so "$1 $2 errno $3: success, but the file is not whole"
  else
    [ $code -eq 5 ] || not_so "$1 $2 errno $3: exit code $code"
    [ "$(wc -l < log)" -eq 1 ] || not_so "$1 $2 errno $3: not one line: $(cat log)"
    cmp -s out wanted || grep -qx old out || not_so "$1 $2 errno $3: the file is neither old nor new"
  fi
  [ "$(find . -name '.headroom*' | wc -l)" -eq 0 ] || not_so "$1 $2 errno $3: a temporary file is left"
}
reached=0
for call in mkstemp fsync rename; do
  for number in $EIO $ENOSPC; do
    at=1
    while [ $at -le $most ] && check_output $call $at $number; do
      at=$((at + 1))
      reached=$((reached + 1))
    done
    [ $at -gt 1 ] || not_so "$call is not called by --output"
  done
done

# ---- paths that the system does not follow, and files that it does not show ----
EACCES=13
# kept FACT COMMAND...: `victim` stays as it was, and one line says why nothing is written
kept() {
  fact=$1
  shift
  cp before.txt victim
  with_fault "$call" 1 $EACCES again env FAULT_LINK=link "$@" > log 2>&1
  code=$?
  [ -e fired ] || not_so "$fact: $call was not reached"
  [ $code -eq 5 ] || [ $code -eq 3 ] || not_so "$fact: exit code $code"
  [ "$(wc -l < log)" -eq 1 ] && grep -q 'Permission denied' log || not_so "$fact: not one line that says why: $(cat log)"
  cmp -s victim before.txt || not_so "$fact: another file is replaced"
  [ "$(find . -name '.headroom*' | wc -l)" -eq 0 ] || not_so "$fact: a temporary file is left"
}
cp "$source/tests/cli/inputs/results.jsonl" before.txt
awk 'BEGIN { print "kind,m,n,k,time_ns"; for (i = 1; i <= 40; i++) printf "gemm,%d,4096,4096,%d\n", 512 * i, 60000 * i }' > rows.csv
call=follow
for links in victim none; do
  rm -f link none
  ln -s $links link
  kept "--output through a stranger's link to $links" "$H" describe gpt2 -o link
  kept "--write through a stranger's link to $links" "$H" calibrate --from rows.csv -d h200 --write link
  kept "--write through a stranger's link to $links, before rows are read" "$H" calibrate --from missing.csv -d h200 --write link
  kept "--output-file through a stranger's link to $links, before a model is read" "$H" serve-plan missing -o link
  kept "a store behind a stranger's link to $links" "$H" results import --db link before.txt
  if command -v gnuplot > gnuplot.txt; then
    ln -sf $links link.svg
    kept "--plot through a stranger's link to $links" env FAULT_LINK=link.svg "$H" describe gpt2 -d h200 --plot link.svg
    kept "--plot through a stranger's link to $links, before a model is read" env FAULT_LINK=link.svg \
      "$H" describe missing -d h200 --plot link.svg
  fi
  [ ! -e none ] || not_so "a file is made behind a stranger's link"
done
rm -f link link.svg
ln -s victim link
"$H" describe gpt2 -o link && cmp -s victim wanted && [ -L link ] || not_so "a link of one's own is written through"
rm link
call=stat
kept "a file that cannot be looked at" "$H" describe gpt2 -o victim
kept "an input that cannot be looked at" "$H" results import --db new.db victim -o victim
"$H" results import --db out.db before.txt > log 2>&1 || not_so "an import: $(cat log)"
cp out.db shown.db
with_fault open 1 $EACCES again "$H" describe gpt2 -o out.db > log 2>&1
[ $? -eq 5 ] && [ "$(wc -l < log)" -eq 1 ] && cmp -s out.db shown.db || not_so "a database that cannot be read is kept: $(cat log)"

# ---- a signal that interrupts a write ----
"$H" results import --db deleted.db before.txt > log 2>&1 || "$H" results merge --db deleted.db before.txt > log 2>&1 || not_so "$(cat log)"
cp deleted.db kept.db
# interrupted COMMAND...: the first write fails with EINTR, and the output is that of a run without the fault
interrupted() {
  "$@" > wanted.out 2> log || not_so "$*: $(cat log)"
  cp kept.db deleted.db
  with_fault write 1 $EINTR "" "$@" > out 2> log
  code=$?
  [ -e fired ] || not_so "write is not called by $*"
  [ $code -eq 0 ] && cmp -s out wanted.out && [ ! -s log ] || not_so "an interrupted write of $*: exit code $code: $(cat log)"
}
interrupted "$H" --version
interrupted "$H" --help
interrupted "$H" --licenses
for topic in '' models rules names terms sweep; do
  interrupted "$H" help $topic
done
for command in describe devices kernels sweep; do
  interrupted "$H" $command --list
done
interrupted "$H" describe --help
interrupted "$H" results delete -y --db deleted.db
"$H" describe gpt2 -d nosuch 2> wanted.err
with_fault write 1 $EINTR "" "$H" describe gpt2 -d nosuch 2> out
[ -e fired ] && cmp -s out wanted.err || not_so "an interrupted write of a message: $(cat out)"
echo old > out
with_fault fsync 2 $EIO "" "$H" describe gpt2 -o out > log 2>&1
[ $? -eq 5 ] && [ "$(wc -l < log)" -eq 1 ] && cmp -s out wanted ||
  not_so "where the folder is not synced after the rename, the new file is there: $(cat log)"

# ---- the store ----
cat > rows.json << 'ROWS'
{"operation":"gemm","dtype":"bf16","batch":1,"m":8,"n":8,"k":8,"transpose_a":false,"transpose_b":false,"status":"ok","id":"00000000000000000000000000000001","date":"2026-01-01T00:00:00.000Z"}
{"operation":"gemm","dtype":"bf16","batch":1,"m":16,"n":8,"k":8,"transpose_a":false,"transpose_b":false,"status":"ok","id":"00000000000000000000000000000002","date":"2026-01-01T00:00:00.000Z"}
ROWS
"$H" results import --db before.db rows.json > log 2>&1 || { cat log; exit 1; }
sed 's/"000000000000000000000000000000/"100000000000000000000000000000/' rows.json > more.json
rows_of() {
  "$H" results list -f csv --db "$1" 2> log | tail -n +2 | wc -l
}
check_store() {
  rm -f a.db*
  [ "$5" = new ] || cp before.db a.db
  with_fault "$1" "$2" "$3" "$4" "$H" results import --db a.db more.json > log 2>&1
  code=$?
  [ -e fired ] || return 1
  what="$1 $2 errno $3 ${4:+and later ones }into a ${5:-full} store"
  if [ $code -eq 0 ]; then
    expected=4
    [ "$5" = new ] && expected=2
  else
    [ $code -eq 5 ] || [ $code -eq 3 ] || not_so "$what: exit code $code: $(cat log)"
    [ "$(wc -l < log)" -eq 1 ] || not_so "$what: not one line: $(cat log)"
    expected=2
    [ "$5" != new ] || expected=0
  fi
  found=$(rows_of a.db)
  # A commit whose last step fails, the removal of the journal, may or may not have taken place.
  [ "$found" -eq $expected ] || { [ $code -ne 0 ] && [ "$found" -eq $((expected + 2)) ]; } ||
    not_so "$what: exit code $code, but $found rows rather than $expected"
}
for call in pwrite shortwrite fsync fdatasync ftruncate unlink open pread; do
  for number in $EIO $ENOSPC $EINTR; do
    for again in "" again; do
      for into in "" new; do
        [ "$number$again" != "${EINTR}again" ] || continue # a signal that never stops coming
        [ -z "$again" ] || [ $number -eq $EIO ] || continue
        at=1
        while [ $at -le $most ] && check_store $call $at $number "$again" "$into"; do
          at=$((at + 1))
          reached=$((reached + 1))
        done
      done
    done
  done
done
echo "$reached calls failed"
[ $reached -ge 40 ] || not_so "fewer than 40 calls were reached"
[ "$failed" -eq 0 ]
