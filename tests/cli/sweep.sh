#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sweep.sh COMMAND: sweeps that are killed, stopped, shared and damaged, as their user meets them.
set -u
H=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset XDG_DATA_HOME OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE SLURM_PROCID SLURM_STEP_NUM_TASKS
export LC_ALL=C HOME="$folder" HEADROOM_PROBE=0
failed=0

say() {
  echo "not so: $1"
  failed=$((failed + 1))
}
# expect FACT CONDITION...
expect() {
  fact=$1
  shift
  "$@" || say "$fact"
}
# rows STORE: how many rows; how many different points they are of
rows() { "$H" results export --db "$1" | tail -n +2 | wc -l; }
points() { "$H" results export --db "$1" -f json | grep -o '"axes": *"[^"]*"' | sort -u | wc -l; }
# sweep STORE [OPTION...]
sweep() {
  store=$1
  shift
  "$H" sweep "$folder/many.json" -d reference --dtype fp32 --time-limit 0.02 --db "$store" "$@"
}
# start STORE OUTPUT: the same in the background; $! is the command itself, not a shell around it
start() {
  "$H" sweep "$folder/many.json" -d reference --dtype fp32 --time-limit 0.02 --db "$1" -q > "$2" 2> errors &
}
wait_for_rows() { # STORE COUNT
  for i in $(seq 200); do
    [ -f "$1" ] && [ "$(rows "$1" 2>/dev/null || echo 0)" -ge "$2" ] && return 0
    sleep 0.05
  done
  return 1
}

cat > many.json <<'END'
{"name": "many", "title": "Many small products", "x": "m",
 "axes": {"n": [16, 32], "m": {"from": 1, "to": 20, "step": 1}}, "series": "n = {n}",
 "problem": {"kind": "gemm", "m": "m", "n": "n", "k": 16}}
END

# ---- kill -9 at any moment: what was measured is there, the same command goes on ----
start killed.db /dev/null
victim=$!
expect "rows appear while the sweep runs" wait_for_rows killed.db 4
kill -9 $victim
wait $victim 2> /dev/null
before=$(rows killed.db)
expect "rows of a killed sweep are kept" test "$before" -ge 4
expect "the sweep was not over when it was killed" test "$before" -lt 40
sweep killed.db > table 2> note || say "a killed sweep goes on"
expect "each point has one row in the end" test "$(rows killed.db) $(points killed.db)" = "40 40"
expect "what was there is not measured again" grep -q "$((40 - before)) measured .* $before stored before" note
expect "the table has every point" test "$(grep -c '^n = ' table)" = 40

# ---- Ctrl-C: a clean end ----
start stopped.db out
victim=$!
expect "rows appear before it is stopped" wait_for_rows stopped.db 2
kill -TERM $victim
wait $victim
expect "a stopped sweep exits with 130" test $? = 130
expect "a stopped sweep prints no table" test ! -s out
expect "the rows of a stopped sweep are kept" test "$(rows stopped.db)" -ge 2
sweep stopped.db -q > /dev/null 2>&1 || say "a stopped sweep goes on"
expect "a stopped sweep is whole in the end" test "$(rows stopped.db) $(points stopped.db)" = "40 40"

# ---- shares: by hand and by a launcher's environment, two writers at once ----
sweep shared.db --shard 1/2 -q > /dev/null 2>&1 &
first=$!
sweep shared.db --shard 2/2 -q > /dev/null 2>&1 || say "the second share ends"
wait $first || say "the first share ends"
expect "two shares at once are everything" test "$(rows shared.db) $(points shared.db)" = "40 40"
for rank in 0 1 2; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 sweep ranks.db -q > rank.$rank 2>&1 || say "rank $rank ends"
done
expect "three ranks of mpirun are everything" test "$(rows ranks.db) $(points ranks.db)" = "40 40"
expect "only the first rank prints" test -s rank.0 -a ! -s rank.1 -a ! -s rank.2
for rank in 0 1 2; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 sweep divided.db -q --shard 2/4 > /dev/null 2>&1 || say "rank $rank ends"
done
expect "three ranks share what --shard leaves them" test "$(rows divided.db) $(points divided.db)" = "10 10"
sweep divided.db --shard 2/4 > /dev/null 2> note
expect "which is the share of one alone" grep -q '0 measured (0 failed, 0 noisy), 10 stored before' note
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 sweep slurm.db -q --points 20 > /dev/null 2>&1
expect "a task of srun takes its share" test "$(rows slurm.db)" = 5
SLURM_PROCID=0 SLURM_NTASKS=4 sweep batch.db -q --points 8 > /dev/null 2>&1
expect "a batch script outside of a step takes all" test "$(rows batch.db)" = 8

# ---- the same command twice at once: one row a point, whoever measured it ----
sweep twice.db > /dev/null 2> note.1 &
first=$!
sweep twice.db > /dev/null 2> note.2 || say "the second of two ends"
wait $first || say "the first of two ends"
expect "two at once measure each point once" test "$(rows twice.db) $(points twice.db)" = "40 40"
# "headroom: note: many: 45 measured (0 failed, 0 noisy), 35 stored before, in twice.db"
expect "and say what the other had" test "$(awk '{ m += $4; t += $10 } END { print m, t }' note.1 note.2)" = "40 40"

# ---- again, thinned, formats ----
sweep batch.db -q --points 8 --again > /dev/null 2>&1
expect "--again measures anew and keeps both" test "$(rows batch.db) $(points batch.db)" = "16 8"
sweep batch.db -q --points 8 -f csv > csv 2>&1
expect "CSV has the last row of each point" test "$(wc -l < csv)" = 9
sweep batch.db -q --points 8 -f json | grep -q '"found": 8' || say "JSON counts what was found"
sweep batch.db -q --points 8 -o kept.md -f markdown && expect "Markdown goes to a file" grep -q '^| n = 16' kept.md

# ---- points without a time ----
cat > near.json <<'END'
{"name": "near", "x": "m", "axes": {"m": [4, 8]}, "problem": {"kind": "gemm", "m": "m", "n": 16, "k": 16}}
END
cat > large.json <<'END'
{"name": "large", "x": "m", "axes": {"m": [4, 1024, 2048]}, "problem": {"kind": "gemm", "m": "m", "n": 512, "k": 512}}
END
"$H" sweep large.json -d reference --dtype fp32 --time-limit 0.02 --memory-limit 3 --db large.db > table 2> note ||
  say "a sweep with points too large ends"
expect "points too large are counted" grep -q '3 measured (2 failed' note
expect "and the table says how many, which and why" \
  grep -q '^out_of_memory 2 points, the first at 1024: operands and workspace take 5.0[0-9]* MiB, the limit is 3.00 MiB' table
"$H" results delete --db large.db --status out_of_memory --yes > deleted
"$H" sweep large.json -d reference --dtype fp32 --time-limit 0.001 --points 2 --db large.db > table 2> note
expect "those alone are tried anew without their rows" grep -q '1 measured (1 failed, 0 noisy), 1 stored before' note
expect "one timeout is reported in the singular" grep -q '^timeout       1 point, at 2048: ' table

# ---- operators without a time: weights of 512 GiB and more ----
"$H" layer '{"h":524288,"a":4096,"L":1,"v":51200,"mlp":"gelu"}' -b 1 --phase decode --attention unfused --context 16 \
  --warm --budget 0.05 --db operators.db > table 2> note || say "a layer with operators too large ends"
kept() { "$H" results list --db operators.db -f csv "$@" | tail -n +2 | wc -l; }
expect "operators without a time are rows, too" test "$(kept --status out_of_memory)" = 4
expect "in addition to the rows with a time and the whole layer" test "$(kept)" = 13

# ---- the number format, which a device may lack ----
"$H" sweep near.json --points 1 --warm --db default.db > table 2> note || say "a sweep runs in the default format of the processor"
expect "and its point has a time" grep -q '1 measured (0 failed' note
"$H" sweep list 2> errors | grep -q ' 0 ns' && say "sweep list estimates a time"
"$H" sweep list --dtype fp8 > table 2> note || say "sweep list takes a format that the device lacks"
expect "and says that no time is estimated" grep -q 'no time is estimated, because cpu has no matrix rate for fp8' table
"$H" sweep near.json --dtype fp8 --db none.db > table 2> errors
expect "a sweep in which no point runs exits with 4" test $? = 4
expect "and says so" grep -q 'no point could be measured' errors
HEADROOM_CPU_MASK=avx2 "$H" sweep near.json --dtype bf16 --db none.db > table 2> errors
expect "GEMMs in bf16 without AVX-512 as well" test $? = 4

# ---- several, one after the other ----
cat > two.json <<'END'
{"x": "m", "problem": {"kind": "gemm", "m": "m", "n": 4, "k": 8},
 "sweeps": [{"name": "near", "axes": {"m": [1, 2]}}, {"name": "far", "axes": {"m": [3, 4, 5]}}]}
END
"$H" sweep two.json#near two.json#far -d reference --dtype fp32 --time-limit 0.02 --db two.db > table 2> note ||
  say "two sweeps end"
expect "two sweeps have the rows of both" test "$(rows two.db)" = 5
expect "each is counted for itself" test "$(grep -cE '(near: 2|far: 3) measured' note)" = 2
"$H" sweep fig5a fig5b -f csv --db two.db > /dev/null 2> errors
expect "one document holds one sweep" test $? = 2
expect "and export is named instead" grep -q 'results export' errors
"$H" sweep fig5a all --db two.db > /dev/null 2> errors
expect "the word all stands alone" test $? = 2
"$H" sweep fig5a nonsense --db two.db > /dev/null 2> errors
expect "an unknown sweep among others is seen before any is measured" test $? = 3 -a "$(rows two.db)" = 5

# ---- random points ----
validate() { "$H" validate -d cpu --points 2 --kinds gemm --dtype fp32 --seed 8 --db drawn.db "$@"; }
validate > table 2> note
code=$?
expect "each point has a row" test "$(rows drawn.db)" = 2
if [ $code = 4 ] && grep -q 'no point has a time' note; then
  echo "left out: other programs have the cores, so that all points are noisy"
else
  expect "random points end" test $code = 0
  expect "the seed is shown" grep -q 'drawn with --seed 8' table
  validate -f csv > drawn.csv 2> note
  expect "the same command measures only noisy points again" \
    grep -q "2 of 2 points are in drawn.db: $(($(rows drawn.db) - 2)) measured now" note
  expect "its CSV is a file for --from" "$H" validate -d cpu --from drawn.csv -o from
fi

# ---- what cannot be written or read ----
echo text > broken.db
sweep broken.db -q > /dev/null 2> errors
expect "a store that is none is refused" test $? = 3
expect "and named" grep -q broken.db errors
"$H" sweep nonsense --db x.db > /dev/null 2> errors
expect "an unknown sweep exits with 3" test $? = 3
expect "and says where to look" grep -q 'sweep list' errors
rm -f x.db
sweep x.db --kernel gemm_magic > /dev/null 2> errors
expect "an unknown kernel exits with 2" test $? = 2
sweep x.db -o nowhere/table > /dev/null 2> errors
expect "output that cannot be written exits with 5" test $? = 5
for command in 'gemm 8 8 8 --measure' 'attention --q-len 8'; do
  "$H" $command -d reference --db x.db -o nowhere/table > /dev/null 2> errors
  expect "so does $command" test $? = 5
done
"$H" sweep many.json -d cuda:99 --db x.db > /dev/null 2> errors
"$H" layer gpt2 -d reference --db x.db > /dev/null 2> errors
expect "a layer on a device without rates exits with 4" test $? = 4
expect "none of them leaves a store behind" test ! -e x.db
sweep full.db --points 2 -q > /dev/full 2> errors
expect "a full disk below the table is seen" test $? = 5
expect "the rows are kept nevertheless" test "$(rows full.db)" = 2

[ $failed -eq 0 ] && echo "sweeps behave"
[ $failed -eq 0 ]
