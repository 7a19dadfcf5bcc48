#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a folder with the C library and the libraries that Headroom links, from Debian's packages, for the toolchain
# files cmake/aarch64.cmake and cmake/debian11.cmake.
#   scripts/sysroot.sh FOLDER ARCHITECTURE [SUITE]      SUITE: bullseye, for example; left out, this machine's own
# apt resolves the dependencies as on an empty system with its state below FOLDER, and dpkg unpacks the files: no package
# is installed, no foreign architecture is added, and root is not needed. It takes about 200 MB and 30 MB of download.
# A folder that has the same packages already is left as it is.
set -euo pipefail
folder=${1:?usage: scripts/sysroot.sh FOLDER ARCHITECTURE [SUITE]} architecture=${2:?no architecture} suite=${3:-}
. "$(dirname "$0")/packages.sh"

# Every library of the groups build and test, by the table of packages.
packages=()
while IFS='|' read -r group package probe _; do
  case ${group// /}:${probe// /} in
  build:pkg:* | build:file:* | test:pkg:* | test:file:*) packages+=("${package// /}") ;;
  esac
done <<<"$packages_table"
[ "$(cat "$folder/packages" 2>/dev/null)" != "${packages[*]}" ] || exit 0

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
folder=$(cd "$folder" && pwd)
settings=(-o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State="$folder/apt"
  -o Dir::Cache="$folder/apt" -o Dir::State::status=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=)
if [ -n "$suite" ]; then
  mirror=$(debian_mirror) || { echo "sysroot: this machine's apt names no mirror of Debian, which has $suite" >&2; exit 1; }
  echo "deb $mirror $suite main" >"$folder/apt/sources.list"
  settings+=(-o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null)
fi
echo "Fetching libraries for ${suite:+$suite, }$architecture into $folder: ${packages[*]}"
apt_quietly -- "${settings[@]}" update -qq
apt_quietly -- "${settings[@]}" install -y -qq --no-install-recommends --download-only "${packages[@]}"
rm -f "$folder"/apt/archives/libdnnl[0-9]*.deb # opened at run time where there is one; its GEMMs take hours under emulation
for archive in "$folder"/apt/archives/{lib,linux-libc-dev,zlib1g}*.deb; do
  dpkg-deb --extract "$archive" "$folder"
  dpkg-deb --show --showformat='${Package}\t${source:Package}\t${source:Version}\n' "$archive" # a release names them
done >"$folder/sources"
rm -rf "$folder/apt"

# A link to /lib/… would be followed to this machine's own library.
find "$folder" -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfnr "$folder$(readlink "$link")" "$link"
done
echo "${packages[*]}" >"$folder/packages"
