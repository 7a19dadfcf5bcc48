#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails on paths of one machine, unfinished work, trailing white space, files without a final newline, and large or
# binary files. Data for the tests of bad input is exempt.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "not a git checkout: nothing to check"; exit 0; }

failed=0
complain() {
  if [ -n "$2" ]; then
    printf '%s:\n%s\n' "$1" "$(head -20 <<<"$2")"
    failed=1
  fi
}
# Excludes this file, which contains the words, and the corpora, whose content is odd on purpose.
list() { git ls-files -z "$@" ':!tests/structure/words.sh' ':!tests/fuzz/corpus' ':!tests/cli/input' ':!LICENSE'; }

complain 'a path of one machine' "$(list | xargs -0 grep -nIE '(^|[^A-Za-z0-9_.}])/(work|home|Users)/' -- || true)"
complain 'work left undone' "$(list | xargs -0 grep -nIwE 'TODO|FIXME|XXX|HACK' -- || true)"
# Private words where the field has its own; data that was measured or stored keeps the words of its day.
complain 'a private word (GEMM, TMA, WGMMA, interleaved, attention over value, compute, reports, LM head, needs, is ignored)' "$(list ':!data/results' ':!CHANGELOG.md' |
  xargs -0 grep -nIiwE 'copy engine|warpgroup products?|reckon(s|ed|ing)?|by turns|tells? of|(is|are) told|has no more to say|over-values?|logit maps?|means nothing without|says nothing of|at hand at once' -- || true)"
complain 'a comment that begins with a fragment (a comment is a sentence: subject, verb, object)' "$(list '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' '*.inc' |
  xargs -0 grep -nIE '(//|/\*+) *(Of|That|So|And|But|Or|Than|As|By|To|Kept|Also|Those) ' -- || true)"
# In a message: "out of memory", "not supported", "is not a".
complain 'a message that reads as translated' "$(list 'src/*.c' 'src/*.h' 'cli/*.c' 'cli/*.inc' 'include/*.h' |
  xargs -0 grep -nIE '"[^"]*(memory ran out|no memory (for|to) |(is|are) not covered|is no (regular|safetensors|multiple))' -- || true)"
complain 'an entry of the CHANGELOG over one line or 100 characters' "$(LC_ALL=C.UTF-8 awk '
  /^- / && length($0) > 100 { print FILENAME ":" FNR ": " $0 }
  /^ +[^ ]/ { print FILENAME ":" FNR ": " $0 }' CHANGELOG.md)"
complain 'no SPDX line' "$(git ls-files -z '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' '*.inc' '*.sh' '*.py' '*.cmake' '*.awk' '*CMakeLists.txt' |
  xargs -0 grep -L 'SPDX-License-Identifier: Apache-2.0' || true)"
complain 'white space at the end of a line' "$(list ':!tests/golden' ':!tests/cli' | xargs -0 grep -nIE '[ 	]+$' -- || true)"
complain 'over 120 columns in C' "$(list 'include/*.h' '*.[ch]' '*.cpp' '*.cu' '*.cuh' | LC_ALL=C.UTF-8 xargs -0 grep -nIE '^.{121}' -- || true)"
complain 'a tab in C' "$(list '*.c' '*.h' '*.inc' | xargs -0 grep -nI $'\t' -- || true)"
complain 'no newline at the end' "$(list '*.c' '*.h' '*.inc' '*.sh' '*.md' '*.cmake' '*.txt' | while IFS= read -r -d '' file; do
  [ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] || echo "$file"
done)"
complain 'over 1 MiB' "$(list | xargs -0 ls -l | awk '$5 > 1048576 { print $NF }')"
exit $failed
