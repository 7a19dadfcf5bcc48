#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plot.sh COMMAND SOURCE-DIRECTORY: pictures as their user meets them. SVGs are compared by structure. Exit code 77: skipped,
# because there is no gnuplot.
set -u
H=$(realpath "$1")
data=$2/data/results
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
# refuses CODE TEXT ARGUMENT...: the command ends with this code and one line that has the text
refuses() {
  code=$1 text=$2
  shift 2
  "$H" "$@" > out 2> err
  found=$?
  [ "$found" = "$code" ] && grep -qF -- "$text" err && [ "$(wc -l < err)" = 1 ] ||
    say "$*: exit code $found, expected $code and \"$text\": $(cat err)"
}

# ---- without gnuplot ----
mkdir empty
PATH=$folder/empty "$H" plot fig24 -o a.svg 2> err
expect "a missing gnuplot is an exit code" test $? = 4
expect "a missing gnuplot is one line" grep -q 'gnuplot, which is not on the PATH (Debian: gnuplot-nox)$' err
expect "nothing is written without gnuplot" test ! -e a.svg
command -v gnuplot > /dev/null || { echo 'left out: there is no gnuplot (Debian: gnuplot-nox)'; exit 77; }

# ---- the structure of a picture ----
# count REGEX FILE
count() { grep -cE "$1" "$2"; }
rows=$data/h200/figures-21-to-34.csv
head -1 "$rows" > fig24.csv
grep ',fig24,' "$rows" >> fig24.csv
"$H" plot fig24 fig24.csv --dtype bf16 -o a.svg || say "a figure is drawn"
expect "an SVG is well-formed" python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' a.svg
for text in 'Figure 24: Attention Key Query Score, a=20' 'Hidden Size' 'Throughput (TFLOP/s)' 'NVIDIA H200' 'h/a = 64' \
  'h/a = 64, A100, read off'; do
  expect "the picture has the text $text" grep -qF "$text" a.svg
done
# a line of 7 points or fewer for each of 7 series, with an interval, and 7 published ones
expect "each series and its intervals are plots: $(count 'id="gnuplot_plot_' a.svg)" test "$(count 'id="gnuplot_plot_' a.svg)" = 21
"$H" plot fig24 fig24.csv --dtype bf16 --no-published -o b.svg || say "a figure without published points is drawn"
expect "without published points there are 14" test "$(count 'id="gnuplot_plot_' b.svg)" = 14
"$H" plot fig24 fig24.csv fig24.csv --dtype bf16 --no-published --series 'h/a = 64' -o b.svg || say "two files are drawn"
expect "rows of one device in two files are two lines" test "$(count 'id="gnuplot_plot_' b.svg)" = 4
mkdir before after && cp fig24.csv before && cp fig24.csv after
"$H" plot fig24 before/fig24.csv after/fig24.csv --dtype bf16 --no-published --series 'h/a = 64' -o b.svg || say "two files are drawn"
expect "files of one name have their folders in the legend" grep -qF 'before/fig24' b.svg
"$H" plot fig24 fig24.csv -o a.png && expect "a PNG is one" grep -q PNG a.png
"$H" plot fig24 fig24.csv -o a.pdf --width single && expect "a PDF is one" grep -qa '^%PDF' a.pdf
COLUMNS=80 "$H" plot fig24 fig24.csv --dtype bf16 > a.txt || say "text is drawn"
expect "text has no control characters" test "$(tr -d '\n -~' < a.txt | wc -c)" = 0
expect "text is as wide as the terminal" test "$(wc -L < a.txt)" -le 80
expect "text names what its y axis shows" grep -qF 'Throughput (TFLOP/s)' a.txt
expect "text has no spaces at the ends of lines" test "$(count ' $' a.txt)" = 0
expect "text has no grid, which looks like a line" test "$(tr -cd '*' < a.txt | wc -c)" = 0
expect "measured and published points have different letters" grep -qE ' g +h/a = 64, A100' a.txt
COLUMNS=50 "$H" plot fig24 fig24.csv --dtype bf16 > b.txt || say "text is drawn in a narrow terminal"
expect "a long legend takes no lines from the points: $(count '^ *[0-9]* \|' b.txt)" test "$(count '^ *[0-9]* [|]' b.txt)" -ge 12
expect "numbers of a narrow axis are whole" grep -q "0 *10000 *20000 *30000 *40000" b.txt
"$H" plot fig5c --predict h200 --no-published > c.txt || say "predictions alone are drawn as text"
expect "predictions are dots in text" grep -q ' [.]  predicted for h200' c.txt
"$H" results import -q --db store.db fig24.csv > log
"$H" plot fig24 --db store.db -o c.svg && expect "a store is drawn as its rows" grep -qF 'h/a = 64' c.svg
"$H" plot fig2 --predict h200 -o shares.svg || say "shares are drawn"
for text in GEMMs Softmax 'Dropout, residuals' paper predicted; do # names of bars are broken at spaces
  expect "the shares have the text $text" grep -qF "$text" shares.svg
done
expect "the legend gives way to the names of bars, which are then not turned" test "$(count 'rotate\((-?40|-?90)' shares.svg)" -le 1
"$H" plot fig2 --predict h200 --width single -o upright.svg || say "shares are drawn for one column"
expect "names for one column stand upright" test "$(count 'rotate\((-?90)' upright.svg)" -gt 3
expect "six parts are six plots" test "$(count 'id="gnuplot_plot_' shares.svg)" = 6

# ---- sums of calls: figures 3 to 6 of SIGMA ----
python3 "$2/scripts/sigma_elapsed.py" "$data/h200/sigma-ceet.csv" "$data/h200/sigma-ceet-runs.csv" --rows outputs.csv > table ||
  say "sums are rows"
"$H" plot "$2/bench/sigma_outputs.json#sigma-output-total" outputs.csv --view gain -o even.svg || say "sums are drawn"
expect "the break-even of the picture is that of the script's table" sh -c '
  of_script=$(sed -n "s/^| 2k | \([0-9]*\) | 0 |$/\1/p" table)
  of_picture=$(sed -n "s/.*[^3]2k tokens, batch 1, even at \([0-9]*\).*/\1/p" even.svg)
  test $((of_picture - of_script)) -lt 300 && test $((of_script - of_picture)) -lt 300' # between two points, to the token

# ---- heads and tiles ----

"$H" plot heads llama-3-8b -o heads.svg 2> err || say "heads are drawn: $(cat err)"
bytes=$("$H" describe llama-3-8b | sed -n 's/^KV cache *\(.*\) per token$/\1/p')
expect "the own heads have the cache that describe has" grep -q "V heads, $bytes" heads.svg
"$H" plot tiles 2304 5100 4096 --predict h200 > tiles.txt 2> err || say "tiles are drawn as text: $(cat err)"
tiles=$("$H" gemm 2304 5100 4096 -d h200 | sed -n 's/^tiles *\([0-9]*\) of \([0-9×]* in [0-9]* waves\);.*/\1 tiles of \2/p')
expect "tiles and waves are those of gemm" grep -q "${tiles:-none}" tiles.txt
refuses 2 "plot tiles: needs the device" plot tiles 1 2 3
refuses 2 "--view: plot heads draws no rows" plot heads gpt2 --view time
refuses 4 "no layer has heads of K and V" plot heads mamba-codestral-7b-v0.1
"$H" plot heads deepseek-v2-lite > latent.txt 2> err || say "latents are drawn: $(cat err)"
latent=$("$H" describe deepseek-v2-lite | sed -n 's/^KV cache *\(.*\) per token$/\1/p')
expect "a latent has the cache that describe has" grep -q "${latent% *}" latent.txt

# ---- peers ----
peers=$data/h200/figure-12_gpu_vs_torch.csv
"$H" plot fig12 "$data/h200/figure-12.csv" --dtype bf16 --no-published --peers "$peers" -o peers.svg || say "peers are drawn"
for text in 'a: 128, Headroom, each call alone' 'Headroom, bf16, interleaved' 'cuDNN, bf16, interleaved' 'FlashAttention-2, bf16, interleaved'; do
  expect "the picture has the text $text" grep -qF "$text" peers.svg
done
refuses 3 'no row has the tier fig24 and its number format' plot fig24 fig24.csv --peers "$peers" -o none.svg
refuses 2 'peers are lines of rates' plot fig1 --predict h200 --peers "$peers" -o none.svg
refuses 3 'is no text' plot fig12 --peers store.db -o none.svg
printf 'tier,"dtype\n' > broken.csv
refuses 3 'broken.csv: ' plot fig12 --predict h200 --peers broken.csv -o none.svg

# ---- hostile names ----
mkdir 'a"; system("touch hacked"); '"'"'`touch hacked`'
bad='a"; system("touch hacked"); '"'"'`touch hacked`/x'"'"'`touch hacked`'"$(printf '\033[31m\nset output "hacked"')"'.csv'
cp fig24.csv "$bad"
printf '%s' '{"name":"fig24","title":"t\"; system(\"touch hacked\"); '"'"'`touch hacked`\u001b[31m\nset output \"hacked\"",
  "x":"h","x_label":"@h `touch hacked`","axes":{"a":20,"b":4,"s":2048,"power":64,"head_dim":{"from":64,"to":128,"step":64},"h":"a * head_dim"},
  "problem":{"kind":"bmm","batch":"b * a","m":"s","n":"s","k":"head_dim","transpose_b":true}}' > bad.json
"$H" plot ./bad.json "$bad" fig24.csv -o bad.svg 2> err || say "hostile names are drawn: $(cat err)"
expect "an SVG of hostile names is well-formed" python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' bad.svg
"$H" plot ./bad.json "$bad" fig24.csv > bad.txt || say "hostile names are drawn as text"
expect "hostile names command no terminal" test "$(tr -cd '\033' < bad.txt | wc -c)" = 0
expect "no command in a name is run" test ! -e hacked
printf 'system("touch %s/hacked")\n' "$folder" > .gnuplot
"$H" plot fig24 fig24.csv -o a.svg
expect "start-up files are not read" test ! -e hacked

# ---- the output ----
echo before > keep.svg
refuses 2 'one of rate|time|heatmap|scaling|gain|shares|gemm-shares' plot fig24 fig24.csv --view tme -o keep.svg
refuses 2 'the view scaling needs an x axis of numbers' plot fig1 fig24.csv --view scaling -o keep.svg
refuses 3 'sigma-ceet: there are no rows to draw' plot sigma-ceet fig24.csv -o keep.svg
refuses 3 'none of' plot fig24 fig24.csv --no-published --series none -o keep.svg
refuses 2 'ends in .svg, .png, .pdf or .txt' plot fig24 fig24.csv -o keep.gif
refuses 5 'is an input of the command and is not overwritten' plot fig24 fig24.csv -f svg -o fig24.csv
refuses 5 'is a database and is not overwritten' plot fig24 fig24.csv -f svg -o store.db
expect "what is refused replaces nothing" test "$(cat keep.svg)" = before
mkdir bin && printf '#!/bin/sh\necho wrong >&2\nexit 1\n' > bin/gnuplot && chmod +x bin/gnuplot
PATH=$folder/bin:$PATH "$H" plot fig24 fig24.csv -o keep.svg 2> err && say "a gnuplot that fails is an error"
expect "a gnuplot that fails is reported" grep -q 'gnuplot could not draw the picture: wrong' err
expect "a gnuplot that fails replaces nothing" test "$(cat keep.svg)" = before
refuses 5 '/dev/full: No space left on device' plot fig24 fig24.csv -f png -o /dev/full
refuses 5 '/dev/full: No space left on device' plot fig24 fig24.csv -f text -o /dev/full
ln -s target.svg link.svg
"$H" plot fig24 fig24.csv -o link.svg && expect "a link is written through" test -L link.svg -a -f target.svg

# ---- --plot ----
"$H" advise llama-3-8b -d h200 --plot roof.svg > out 2> err || say "advise draws"
expect "it says where" grep -qF 'the picture is in roof.svg' err
expect "the roofline has the operators" grep -qF qkv_transform roof.svg
"$H" describe llama-3-8b -d h200 --phase train --plot - > out || say "describe draws as text"
expect "text follows the table" grep -q 'Roofline of' out
"$H" search llama-3-8b -d h200 --limit 40 --plot search.svg -q > out 2> err || say "search draws"
expect "the search has a front" grep -qF 'Pareto front' search.svg
expect "--quiet omits the note" test ! -s err
# More names than columns below the axis: a line has a character at least, where it once had none and never ended.
awk 'BEGIN { printf "{\"name\": \"crowd\", \"x\": \"case\", \"cases\": ["
  for (i = 1; i <= 90; i++) printf "%s{\"name\": \"a %d\", \"m\": %d}", (i > 1 ? ", " : ""), i, i
  print "], \"series\": \"all\", \"problem\": {\"kind\": \"gemm\", \"m\": \"m\", \"n\": 16, \"k\": 16}}" }' > crowd.json
for picture in '-f text' '-o crowd.svg' '-o crowd.svg --width single'; do
  timeout -k 1 20 "$H" plot ./crowd.json --predict h200 $picture > out || say "90 names below an axis: $picture"
done
refuses 2 '--plot: - follows a table' advise llama-3-8b -d h200 -f json --plot -
refuses 5 'none/a.svg: No such file or directory' search llama-3-8b --plot none/a.svg
refuses 2 '--plot: ./a.txt is the file of --output' describe llama-3-8b -d h200 -o a.txt --plot ./a.txt
refuses 2 '--plot: the roofline needs --device' describe llama-3-8b --plot a.svg
refuses 2 '--width: needs --plot' search llama-3-8b --width single
refuses 2 '--plot: draws one sweep' sweep fig24 fig23 --plot a.svg

[ "$failed" -eq 0 ] && echo "pictures are drawn"
[ "$failed" -eq 0 ]
