#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick parts of scripts/release.sh: versions that agree, a source archive that is the same from every clone, and the
# list of what a portable command contains, and the source of libcsv, from a mirror of Debian that the test makes.
#   test_release.sh BUILD_FOLDER CMAKE
set -euo pipefail
build=$1 cmake=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
git -C "$top" rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo 'not a git checkout: nothing to release'; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/headroom-release.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
clone() { # FOLDER: HEAD there, with the script and CHANGELOG.md of this checkout
  git clone -q "$top" "$1"
  cp "$top"/scripts/{release.sh,release_contents.py,packages.sh} "$1/scripts/"
  cp "$top/CHANGELOG.md" "$1/"
  cp "$top/include/headroom/version.h" "$1/include/headroom/"
}
clone "$work/a"
clone "$work/deeper folder/b"

the_versions_that_are_stated_agree() {
  "$work/a/scripts/release.sh" "$work/installed" versions || fail 'the versions differ'
}

a_version_that_differs_is_named() { # NAME FILE FROM TO
  cp "$2" "$work/kept"
  sed -i "s/$3/$4/" "$2"
  ! cmp -s "$2" "$work/kept" || fail "$1: $2 has no $3"
  ! "$work/a/scripts/release.sh" "$work/installed" versions >"$work/out" 2>&1 || fail "$1: another version is not found"
  grep -q "^release: $1 gives \".*\" where version.h asks for " "$work/out" || fail "$1 is not named: $(cat "$work/out")"
  [ "$(wc -l <"$work/out")" = 1 ] || fail "$1 alone differs, but: $(cat "$work/out")"
  cp "$work/kept" "$2"
}

the_archive_of_two_clones_is_the_same() {
  local name
  git -C "$work/deeper folder/b" config tar.umask 0077
  "$work/a/scripts/release.sh" "$work/first" archive >/dev/null
  (umask 0077 && cd / && "$work/deeper folder/b/scripts/release.sh" "$work/second release" archive >/dev/null)
  name=$(ls "$work/first")
  [[ $name == headroom-*.tar.gz && $name == $(ls "$work/second release") ]] || fail "the folder of an archive has $name"
  cmp "$work/first/$name" "$work/second release/$name" || fail "$name differs"
  [ "$(tar -tzf "$work/first/$name" | sed 's,^[^/]*/,,' | grep -v '/$' | grep . | LC_ALL=C sort)" = \
    "$(git -C "$work/a" ls-tree -r --name-only HEAD | LC_ALL=C sort)" ] || fail "$name does not have the files of HEAD"
}

a_folder_that_has_files_is_left_as_it_is() {
  ! "$work/a/scripts/release.sh" "$work/first" archive >"$work/out" 2>&1 || fail 'it writes into a folder that has files'
  [ "$(cat "$work/out")" = "release: $work/first is not empty" ] || fail "a folder that has files: $(cat "$work/out")"
}

contents() { "$top/scripts/release_contents.py" spdx --command "$build/headroom" --version 0.0.0 --packages "$work/packages"; }

every_license_has_its_package_in_the_contents() {
  local package
  for package in libjs-chart.js libjansson-dev libsqlite3-dev libcsv-dev libutf8proc-dev libxxhash-dev; do
    printf '%s\tsource-of-%s\t1:2.0+x-3\n' "$package" "$package"
  done >"$work/packages"
  contents >"$work/contents.json"
  python3 - "$work/contents.json" "$(sha256sum "$build/headroom")" <<'PYTHON'
import json, sys
found = json.load(open(sys.argv[1], encoding="utf-8"))
by_name = {package["name"]: package for package in found["packages"]}
assert by_name["headroom"]["checksums"][0]["checksumValue"] == sys.argv[2].split()[0]
assert by_name["libcsv"]["licenseDeclared"] == "LGPL-2.1-or-later" and by_name["libcsv"]["versionInfo"] == "1:2.0+x-3"
assert by_name["libcsv"]["downloadLocation"].endswith("/source-of-libcsv-dev/1%3A2.0%2Bx-3/")
related = {row["relatedSpdxElement"] for row in found["relationships"]}
assert related == {package["SPDXID"] for package in found["packages"]}, related
PYTHON
  sed -i /libcsv/d "$work/packages"
  ! contents >"$work/out" 2>&1 || fail 'the contents lack libcsv without a word'
  grep -q "^release_contents: Debian's package libcsv-dev is not among" "$work/out" || fail "without libcsv: $(cat "$work/out")"
}

# A mirror with the source package of the libcsv that is installed: NAME.dsc and NAME.tar.xz.
make_mirror() { # FOLDER
  local suite file source=$1/dists/$(. /etc/os-release && echo "$VERSION_CODENAME")/main/source
  suite=${source%/main/source} csv=libcsv_$(dpkg-query -W -f '${source:Version}' libcsv-dev)
  mkdir -p "$source" "$1/pool"
  for file in $csv.dsc $csv.tar.xz; do echo "this is $file" >"$1/pool/$file"; done
  {
    printf 'Package: libcsv\nVersion: %s\nFormat: 3.0 (native)\nDirectory: pool\n' "${csv#*_}"
    printf 'Binary: libcsv-dev\nArchitecture: any\nChecksums-Sha256:\n'
    for file in $csv.dsc $csv.tar.xz; do
      echo " $(sha256sum <"$1/pool/$file" | cut -d' ' -f1) $(wc -c <"$1/pool/$file") $file"
    done
  } >"$source/Sources"
  {
    printf 'Origin: Debian\nCodename: %s\nComponents: main\nSHA256:\n' "${suite##*/}"
    echo " $(sha256sum <"$source/Sources" | cut -d' ' -f1) $(wc -c <"$source/Sources") main/source/Sources"
  } >"$suite/Release"
  mkdir "$work/apt.d"
  echo "deb file:$1 ${suite##*/} main" >"$work/apt.list"
  cat >"$work/apt.conf" <<CONFIG
Dir::Etc::sourcelist "$work/apt.list"; Dir::Etc::sourceparts "$work/apt.d";
Acquire::AllowInsecureRepositories "true"; APT::Get::AllowUnauthenticated "true";
CONFIG
}

fetch() { APT_CONFIG=$work/apt.conf "$work/a/scripts/release.sh" "$work/$1" libcsv >"$work/out" 2>&1; }

the_source_of_libcsv_is_fetched_by_its_name() {
  fetch fetched || fail "libcsv's source is not fetched: $(cat "$work/out")"
  diff -r "$work/debian/pool" "$work/fetched/libcsv-source" || fail 'the source of libcsv is not what the mirror has'
}

a_release_without_the_source_of_libcsv_fails_and_says_which_file_it_lacks_and_why() {
  mv "$work/debian/pool/$csv.dsc" "$work/"
  ! fetch lacking || fail 'a release without the source of libcsv goes on'
  [ "$(cat "$work/out")" = "release: cannot fetch $csv.dsc of Debian's $(. /etc/os-release && echo "$VERSION_CODENAME"):\
 portable contains this libcsv, whose license (LGPL 2.1, section 6) asks for its source; put it into\
 $work/a/build/libcsv-source" ] || fail "without $csv.dsc: $(cat "$work/out")"
}

a_file_that_the_mirror_lacks_is_taken_from_the_checkout_when_its_hash_is_right() {
  mkdir -p "$work/a/build/libcsv-source"
  echo another >"$work/a/build/libcsv-source/$csv.dsc"
  ! fetch another || fail 'another file of the same name is taken'
  cp "$work/$csv.dsc" "$work/a/build/libcsv-source/"
  fetch given || fail "the file that is there is not taken: $(cat "$work/out")"
  cmp "$work/$csv.dsc" "$work/given/libcsv-source/$csv.dsc"
}

notice_has_the_rows_of_the_contents() {
  diff <(grep '^  ' "$top/NOTICE") <("$top/scripts/release_contents.py" notice) || fail 'NOTICE differs from the contents'
}

"$cmake" --install "$build" --prefix "$work/installed" >"$work/log" 2>&1 || { cat "$work/log"; fail 'the installation failed'; }
the_versions_that_are_stated_agree
a_version_that_differs_is_named CHANGELOG.md "$work/a/CHANGELOG.md" '^## \[[0-9.]*\] - ' '## [9.9.9] - '
a_version_that_differs_is_named headroom-advice.pc "$(find "$work/installed" -name headroom-advice.pc)" '^Version: .*' 'Version: 9.9.9'
a_version_that_differs_is_named headroom.pc "$(find "$work/installed" -name headroom.pc)" '^Version: .*' 'Version: 9.9.9'
a_version_that_differs_is_named 'the CMake package' "$(find "$work/installed" -name headroom-config-version.cmake)" \
  '^set(PACKAGE_VERSION .*' 'set(PACKAGE_VERSION "9.9.9")'
a_version_that_differs_is_named 'HR_VERSION_MAJOR, _MINOR and _PATCH' "$work/a/include/headroom/version.h" \
  '^#define HR_VERSION_PATCH .*' '#define HR_VERSION_PATCH 99'
the_archive_of_two_clones_is_the_same
a_folder_that_has_files_is_left_as_it_is
every_license_has_its_package_in_the_contents
notice_has_the_rows_of_the_contents
if command -v apt-get >/dev/null && dpkg-query -W libcsv-dev >/dev/null 2>&1; then
  make_mirror "$work/debian"
  the_source_of_libcsv_is_fetched_by_its_name
  a_release_without_the_source_of_libcsv_fails_and_says_which_file_it_lacks_and_why
  a_file_that_the_mirror_lacks_is_taken_from_the_checkout_when_its_hash_is_right
fi
echo 'versions, archive and contents of a release'
