#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hostile.sh COMMAND SOURCE-DIRECTORY: stored rows whose texts are commands of SQL, a shell, gnuplot, a terminal, a
# spreadsheet and a browser, through every way out. tests/page does the same for pages, in a browser.
set -u
H=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LC_ALL=C HOME="$folder" HEADROOM_PROBE=0
unset XDG_DATA_HOME COLUMNS
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
escapes() { tr -cd '\033\233' < "$1" | wc -c; }
rows_in() { "$H" results export --db "$1" -f json | wc -l; }

# ---- the rows ----
sql="x'; DROP TABLE results; --"
python3 - "$sql" > rows.jsonl << 'END'
import json
import sys

attacks = [sys.argv[1], "' OR '1'='1", 'x" OR 1=1 --', '=HYPERLINK("http://x","y")', "@SUM(1)", "+1+1", "-2+3|cmd", "\x1b[31m\x1b]0;t\x07",
           "\u009b31m", "`touch hacked`$(touch hacked)", 'a"; system("touch hacked"); \'', "'; system('touch hacked') #", "<script>alert(1)</script>",
           "a\nset output 'hacked'", "%s%n", "a|b", "\u202eevil"]
for index, text in enumerate(attacks):
    print(json.dumps({
        "id": f"{index:032x}", "date": "2026-01-31T10:00:00.000Z", "operation": "gemm", "dtype": "bf16", "batch": 1, "m": 64, "n": 64,
        "k": 64, "transpose_a": False, "transpose_b": True, "device": "cuda:0", "product": text, "driver": text, "libraries": text,
        "host": text[:60], "program": text[:30], "seed": 1, "warm": False, "buffer_sets": 1, "sweep": text[:40], "series": text,
        "axes": f"h={index + 1}", "kernel": text[:40], "status": "ok", "reason": text, "samples": 10, "median_ns": 1000.0,
        "median_low_ns": 990.0, "median_high_ns": 1010.0}))
END
"$H" results import -q --db a.db rows.jsonl > log 2>&1 || say "hostile rows are imported: $(cat log)"
count=$(wc -l < rows.jsonl)
expect "every row is stored" test "$(rows_in a.db)" = "$count"

# ---- SQL: a name chooses the rows of this name ----
for text in "$sql" "' OR '1'='1" 'x" OR 1=1 --'; do
  expect "$text chooses its row" test "$("$H" results export --db a.db --sweep "$text" -f json | wc -l)" = 1
  expect "a device's name is no SQL" test "$("$H" results export --db a.db --device "$text%" -f json 2> err | wc -l)" = 0
done
"$H" results delete --db a.db --sweep "$sql" --yes > log 2>&1 || say "one row is deleted: $(cat log)"
expect "the other rows remain" test "$(rows_in a.db)" = $((count - 1))
"$H" results import -q --db a.db rows.jsonl > log 2>&1
for id in "' OR '1'='1" '%' '_'; do
  "$H" results show --db a.db "$id" > out 2> err && say "$id is no row"
done

# ---- an export is exact ----
"$H" results export --db a.db -o a.csv
"$H" results import -q --db b.db a.csv > log 2>&1 || say "a CSV export is imported: $(cat log)"
"$H" results export --db b.db -o b.csv
"$H" results export --db b.db -f json -o b.jsonl
"$H" results import -q --db c.db b.jsonl > log 2>&1 || say "a JSON export is imported: $(cat log)"
"$H" results export --db c.db -o c.csv
expect "a CSV export keeps every byte" cmp a.csv b.csv
expect "a JSON export keeps every byte" cmp a.csv c.csv
expect "a formula is exported as it is" grep -q ',=HYPERLINK\|,"=HYPERLINK' a.csv

# ---- tables ----
for command in "results list" "results show 00000000000000000000000000000007" "compare a.db b.db -v"; do
  case $command in compare*) db= ;; *) db="--db a.db" ;; esac
  # shellcheck disable=SC2086 # words
  "$H" $command $db > table.txt 2> err || say "$command: $(cat err)"
  expect "$command: no byte commands a terminal" test "$(escapes table.txt)" = 0
done
"$H" compare a.db b.db -f csv > table.csv
python3 - table.csv << 'END' || say "a table as CSV has no formula"
import csv
import sys

cells = [cell for row in csv.reader(open(sys.argv[1], encoding="utf-8")) for cell in row]
numbers = sum(cell.lstrip("-+").replace(".", "").replace("e-", "").isdigit() for cell in cells)
formulas = [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and not cell.lstrip("-+").replace(".", "").replace("e-", "").isdigit()]
assert any(cell.startswith("'=HYPERLINK") for cell in cells), "the formula is there as text"
assert not formulas, formulas
END
"$H" compare a.db b.db -f markdown > table.md
expect "Markdown has no tags" test "$(grep -c '[^\\]<script' table.md)" = 0
"$H" report a.db -o page.html 2> err || say "a report is written: $(cat err)"
expect "a page has no script of a row" sh -c '! grep -q "<script>alert" page.html'
"$H" plot ./no-such-sweep a.db -f text > out 2> err && say "there is no such sweep"
expect "messages command no terminal" test "$(escapes err)" = 0
"$H" results list --db a.db --sweep "$(printf '\033[31m')" > out 2> err
expect "an argument commands no terminal" test "$(cat out err | tr -cd '\033' | wc -c)" = 0

# ---- gnuplot ----
if command -v gnuplot > /dev/null; then
  sed 's/"sweep": "[^"]*\(\\"[^"]*\)*"/"sweep": "fig24"/; s/"axes": "[^"]*"/"axes": "a=20 b=4 s=2048 power=64 head_dim=64 h=1280"/' rows.jsonl > fig24.jsonl
  "$H" plot fig24 fig24.jsonl -f svg -o a.svg 2> err || say "hostile series are drawn: $(cat err)"
  expect "the picture is XML" python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' a.svg
  "$H" plot fig24 fig24.jsonl > a.txt 2> err || say "hostile series are drawn as text: $(cat err)"
  expect "a text picture commands no terminal" test "$(escapes a.txt)" = 0
fi
expect "no command in a text is run" test ! -e hacked

[ "$failed" -eq 0 ] && echo "texts of rows stay texts"
[ "$failed" -eq 0 ]
