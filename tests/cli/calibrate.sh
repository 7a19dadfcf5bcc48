#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# calibrate.sh COMMAND: fitting to a file of rows, the device file, and measuring that stops early and goes on.
set -u
H=$(realpath "$1")
collectives=$(dirname "$(realpath "$0")")/../../data/results/published/collectives.csv
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LC_ALL=C HOME="$folder" XDG_DATA_HOME="$folder/data" HEADROOM_PROBE=0
failed=0

expect() { # FACT CONDITION...
  fact=$1
  shift
  "$@" || {
    echo "not so: $fact"
    failed=$((failed + 1))
  }
}
ends_with() { # EXIT-CODE COMMAND...
  wanted=$1
  shift
  "$@" > out 2> err
  code=$?
  [ "$code" -eq "$wanted" ] || { echo "exit code $code: $*"; head -3 err; false; }
}

# 40 GEMMs of a device that computes at 300 TFLOP/s, after a launch of 20 us, and 8 that are hardly more than it.
{
  echo kind,m,n,k,transpose_b,time_ns
  for m in 512 1024 2048 4096 8192; do
    for n in 1024 2048 3072 4096 5120 6144 7168 8192; do
      awk -v m=$m -v n=$n 'BEGIN { printf "gemm,%d,%d,4096,1,%.0f\n", m, n, 20000 + 2 * m * n * 4096 / 300e3 }'
    done
  done
  for n in 128 256 384 512 640 768 896 1024; do
    awk -v n=$n 'BEGIN { printf "gemm,128,%d,64,1,%.0f\n", n, 20000 + 2 * 128 * n * 64 / 300e3 }'
  done
} > rows.csv

expect "rows of others are fitted" ends_with 0 "$H" calibrate --from rows.csv -d a100-sxm4-80gb --write fitted.json
expect "the report names the file" grep -q '^file  *fitted.json$' out
expect "the launch is found" grep -qE '^gemm_launch_ns +[0-9.]+ +(1[5-9][0-9]{3}|2[0-4][0-9]{3}|(1\.[5-9]|2\.[0-4])[0-9]*e\+04) ' out
expect "the file is a device" ends_with 0 "$H" gemm 2048 4096 4096 --transpose-b -d ./fitted.json
expect "the prediction says that it is calibrated" grep -q '(calibrated 2' out
expect "the fitted device is near the rows" ends_with 0 "$H" validate --from rows.csv -d ./fitted.json -f csv
expect "every row is within 30%" awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
  { r = $c["ratio"]; if (r > 1.3 || r < 1 / 1.3) bad = 1 } END { exit bad || NR != 49 }' out
expect "JSON has the fit" ends_with 0 "$H" calibrate --from rows.csv -d a100-sxm4-80gb -f json
expect "with its figures" grep -q '"name": "gemm_launch_ns"' out
# Rows of collectives, each by a library, and the same again as the command prints them.
expect "rows of collectives are compared" ends_with 0 "$H" validate --from "$collectives" -d h200 -f csv -o collectives.csv
expect "and read again" ends_with 0 "$H" validate --from collectives.csv -d h200 -f csv -o again.csv
for name in collectives again; do
  cut -d, -f2,5- $name.csv > $name.cut # without line and shape, which has commas
done
expect "with the same predictions" cmp collectives.cut again.cut
expect "a fit takes them" ends_with 0 "$H" calibrate --from "$collectives" -d h200 --write ranks.json
expect "and its rates are in the file" grep -q '"collectives": "fitted by headroom calibrate' ranks.json

expect "CSV is what --from reads" ends_with 0 "$H" calibrate --from rows.csv -d a100-sxm4-80gb -f csv -o again.csv
expect "again" ends_with 0 "$H" calibrate --from again.csv -d a100-sxm4-80gb

# No UTF-8, and a character that begins at byte 119: what a source keeps is text.
latin=$(printf 'rows\351.csv')
long=$(printf '%0119d\303\251.csv' 0)
for name in "$latin" "$long"; do
  cp rows.csv "$name"
  expect "the name of a file may be any bytes" ends_with 0 "$H" calibrate --from "$name" -d a100-sxm4-80gb --write named.json
  expect "and is a source" ends_with 0 "$H" gemm 2048 4096 4096 -d ./named.json
done

expect "a report that cannot be written" ends_with 5 "$H" calibrate --from rows.csv -d a100-sxm4-80gb --write unwritten.json \
  -o missing/report
expect "is said before anything is written" test ! -e unwritten.json

cp fitted.json before.json
expect "a folder that is missing" ends_with 5 "$H" calibrate --from rows.csv -d a100-sxm4-80gb --write missing/fitted.json
head -10 rows.csv > few.csv
expect "too few rows" ends_with 3 "$H" calibrate --from few.csv -d a100-sxm4-80gb --write fitted.json
expect "leave the file" cmp -s fitted.json before.json

expect "an input is not overwritten" ends_with 5 "$H" calibrate --from rows.csv -d a100-sxm4-80gb --write rows.csv
expect "nor by the report" ends_with 5 "$H" calibrate --from rows.csv -d a100-sxm4-80gb -o rows.csv
expect "and has its rows" [ "$(wc -l < rows.csv)" -eq 49 ]
expect "one file for two outputs" ends_with 2 "$H" calibrate --from rows.csv -d a100-sxm4-80gb --write a.json -o a.json
mkdir -p place
ln -s . here
echo old > there.json
ln there.json place/linked.json
for other in ./new.json place/../new.json here/new.json "$PWD/new.json"; do
  expect "one file by two names, which is not there yet" ends_with 2 "$H" calibrate --from rows.csv -d h200 --write new.json -o "$other"
done
for other in ./there.json place/linked.json; do
  expect "one file by two names" ends_with 2 "$H" calibrate --from rows.csv -d h200 --write there.json -o "$other"
done
"$H" calibrate --from rows.csv -d h200 --write there.json >> there.json 2> err
expect "the file of standard output" grep -qx 'headroom: --write: there.json is the file of standard output' err
expect "the store" ends_with 2 "$H" calibrate -d cpu --db new.db --write ./new.db
expect "a folder, before rows are read" ends_with 5 "$H" calibrate --from missing.csv -d h200 --write place
expect "none is replaced" [ "$(cat there.json)" = old ]
expect "nor made" [ ! -e new.json ]

# Measuring: the time ends before most points are measured; what is measured stays, and the next run goes on.
points() { "$H" results export --sweep calibrate --db "$1" 2> /dev/null | tail -n +2 | wc -l; }
expect "a short time is too short" ends_with 4 "$H" calibrate --budget 0.3 --db points.db
expect "one line says so" grep -q 'points are measured, too few to fit to; the same command goes on\|are noisy' err
first=$(points points.db)
expect "rows are kept" [ "$first" -ge 1 ]
expect "the second run goes on" ends_with 4 "$H" calibrate --budget 0.3 --db points.db
expect "with more rows" [ "$(points points.db)" -gt "$first" ]
"$H" calibrate --db points.db > out 2> err &
sleep 0.4
kill -KILL $!
wait $! 2> /dev/null
expect "a killed run leaves a store that is whole" ends_with 0 "$H" results list --db points.db
expect "no calibration is kept" [ ! -e data/headroom/calibrations ]

[ $failed = 0 ] && echo "calibrate: fine"
exit $failed
