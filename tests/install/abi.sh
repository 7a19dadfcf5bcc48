#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the stable functions of both libraries with those of the last release, which abi.xml.gz and abi-advice.xml.gz
# describe. A function or type that was removed or changed and is not in abi_intended.txt with a reason fails, and so does
# a row there of one that did not change. Structs may grow at their ends (src/base/struct_size.h).
#   abi.sh LIBHEADROOM LIBHEADROOM_ADVICE
#   abi.sh --dump LIBHEADROOM LIBHEADROOM_ADVICE [HEADERS]   of a release with debug information: writes the descriptions
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
here=tests/install
command -v abidiff >/dev/null || { echo 'skipped: no abidiff (abigail-tools)'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

describe() { # LIST LIBRARY HEADERS: the stable functions of a list, without private types
  printf '[suppress_function]\nsymbol_name_not_regexp = ^(%s)$\ndrop = true\n' \
    "$(awk '$2 == "stable" { print $1 }' "tests/structure/exported-symbols$1.txt" | paste -sd '|')" >"$work/only"
  printf '[suppress_variable]\nname_regexp = .*\ndrop = true\n' >>"$work/only"
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --drop-undefined-syms \
    --headers-dir "$3" --drop-private-types --suppressions "$work/only" "$2"
}
if [ "$1" = --dump ]; then
  describe "" "$2" "${4:-include/headroom}" | gzip -9n >$here/abi.xml.gz
  describe -advice "$3" "${4:-include/headroom}" | gzip -9n >$here/abi-advice.xml.gz
  exit
fi

sed -nE 's/^\} (hr_[a-z0-9_]+);$/\1/p' include/headroom/*.h >"$work/public"
# Names of functions that were removed or whose own types differ, and of public types that changed, unless they are
# structs that got members behind all others.
names() {
  awk '
    FNR == NR { public[$1] = 1; next }
    function type_changed() { if (type in public) print type }
    /^ *\[[CD]\] / { type = ""; name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print name; next }
    match($0, /\047(struct|union|enum|class) hr_[a-z0-9_]+/) && / changed:$/ {
      type = substr($0, RSTART, RLENGTH); struct = type ~ /struct/; sub(/.* /, "", type); bits = 0
      if (!struct) type_changed()
      next
    }
    /type size changed from/ { for (i = 1; i < NF; i++) if ($i == "from") bits = $(i + 1); next }
    struct && /data member (changes?|deletions?):/ { type_changed() }
    struct && /, at offset [0-9]+ \(in bits\)/ { at = $0; sub(/.*, at offset /, "", at); if (at + 0 < bits + 0) type_changed() }
  ' "$work/public" "$1"
}
changed() { # LIST LIBRARY
  zcat "$here/abi$1.xml.gz" >"$work/before.xml"
  describe "$1" "$2" include/headroom >"$work/now.xml"
  [ "$(grep -c '<function-decl ' "$work/now.xml")" -ge 30 ] || { echo "skipped: $2 has no types" >&2; exit 77; }
  local status=0
  abidiff --leaf-changes-only --no-added-syms "$work/before.xml" "$work/now.xml" >"$work/report$1" || status=$?
  [ $((status & 3)) = 0 ] || { echo "abidiff fails with $status" >&2; return 1; }
  names "$work/report$1"
}
changed "" "$1" >"$work/found"
changed -advice "$2" >>"$work/found"
sort -u -o "$work/found" "$work/found"
sed '/^#/d; /^$/d' $here/abi_intended.txt | sort >"$work/rows"
sed 's/ .*//' "$work/rows" >"$work/intended"

failed=0
for name in $(comm -23 "$work/found" "$work/intended"); do
  echo "$name is stable and differs from the last release's, for no reason of $here/abi_intended.txt:"
  grep -hE -A 12 "[ *]$name(\(|'| |$)" "$work"/report* | head -16
  failed=1
done
for name in $(comm -13 "$work/found" "$work/intended"); do
  echo "$here/abi_intended.txt: $name is as in the last release"
  failed=1
done
grep -vE '^hr_[a-z0-9_]+ +[^ ]+ ' "$work/rows" && { echo "$here/abi_intended.txt: these rows have no reason"; failed=1; }
before=$(zcat $here/abi*.xml.gz | grep -c '<elf-symbol ')
echo "$before stable functions of the last release, $(wc -l <"$work/found") changed on purpose"
[ "$before" -ge 100 ] && exit $failed
