#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package that cpack makes has Debian's file `copyright` and an SPDX document, and both name every library that
# the package's command and library link.
#   test_package.sh BUILD_FOLDER CPACK
set -euo pipefail
build=$1 cpack=$2
for tool in dpkg-deb dpkg-query dpkg-shlibdeps objdump python3; do
  command -v $tool >/dev/null || { echo "no Debian packages here: $tool is missing"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/headroom-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

(cd "$build" && "$cpack" -G DEB -B "$work/made") >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail 'cpack failed'; }
dpkg-deb --extract "$work"/made/headroom_*.deb "$work/unpacked"
documents=$work/unpacked/usr/share/doc/headroom
command=$work/unpacked/usr/bin/headroom
for file in copyright headroom.spdx.json; do
  [ -s "$documents/$file" ] || fail "the package has no $file"
done

# Debian's source packages of what is linked: the files that the loader takes, and whose they are.
linked_sources() {
  local libraries name
  libraries=$(find "$work/unpacked" -name 'libheadroom*.so.*' -type f)
  objdump -p "$command" $libraries | awk '$1 == "NEEDED" { print $2 }' | sort -u |
    grep -vE '^(libheadroom|libheadroom-advice|libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]*)\.so\.' |
    while read -r name; do
      dpkg-query -S "*/$name" | sed -n '1s/: .*//p' | xargs dpkg-query -W -f '${source:Package} ${source:Version}\n'
    done | sort -u
}

both_documents_name_every_library_that_is_linked() {
  local source version
  linked_sources >"$work/linked"
  [ "$(wc -l <"$work/linked")" -ge 4 ] || fail "only these are linked: $(cat "$work/linked")"
  while read -r source version; do
    grep -qF "source package $source $version" "$documents/copyright" || fail "copyright does not name $source $version"
  done <"$work/linked"
  python3 - "$documents/headroom.spdx.json" "$work/linked" "$(sha256sum "$command")" <<'PYTHON'
import json, sys, urllib.parse
found = json.load(open(sys.argv[1], encoding="utf-8"))
named = {urllib.parse.unquote(row["referenceLocator"]).removeprefix("pkg:deb/debian/").removesuffix("?arch=source")
         for package in found["packages"] for row in package.get("externalRefs", [])}
linked = {"@".join(line.split()) for line in open(sys.argv[2], encoding="utf-8")}
assert linked <= named, f"the SPDX document does not name {linked - named}"
command = next(package for package in found["packages"] if package["name"] == "headroom")
assert command["checksums"][0]["checksumValue"] == sys.argv[3].split()[0], "the SPDX document is of another command"
how = {row["relatedSpdxElement"]: row["relationshipType"] for row in found["relationships"]}
assert how["SPDXRef-libcsv"] == "DYNAMIC_LINK" and how["SPDXRef-chart.js"] == "CONTAINS", how
PYTHON
}

# https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
the_copyright_has_the_fields_of_its_format() {
  python3 - "$documents/copyright" <<'PYTHON'
import re, sys
paragraphs = open(sys.argv[1], encoding="utf-8").read().split("\n\n")
fields = [dict(re.findall(r"^([A-Z][A-Za-z-]*):[ \n]*((?:.|\n )*)", text, re.M)) for text in paragraphs]
assert fields[0]["Format"] == "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/", fields[0]
files = [row for row in fields if "Files" in row]
assert files[0]["Files"] == "*" and all(row.get("Copyright") and row.get("License") for row in files), files
texts = {row["License"].split("\n")[0] for row in fields[1:] if "Files" not in row}
used = {name for row in files for name in row["License"].split(" and ")}
assert used == texts, f"{used} are used, {texts} have a text"
PYTHON
}

both_documents_name_every_library_that_is_linked
the_copyright_has_the_fields_of_its_format
echo "the package names" $(cut -d' ' -f1 "$work/linked")
