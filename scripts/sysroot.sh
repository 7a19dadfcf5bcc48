#!/usr/bin/env bash
# Makes a folder with the arm64 libraries that the cross build links, from Debian's packages, for cmake/aarch64.cmake.
#   scripts/sysroot.sh FOLDER
# apt resolves the dependencies as on an empty arm64 system with its state below FOLDER, and dpkg unpacks the files: no
# package is installed, no foreign architecture is added, and root is not needed. It needs 200 MB and 30 MB of download.
# A folder that has the same packages already is left as it is.
set -euo pipefail
folder=${1:?usage: scripts/sysroot.sh FOLDER}
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
settings=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" -o Dir::Cache="$folder/apt"
  -o Dir::State::status=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=)
echo "Fetching libraries for arm64 into $folder: ${packages[*]}"
apt_quietly -- "${settings[@]}" update -qq
apt_quietly -- "${settings[@]}" install -y -qq --no-install-recommends --download-only "${packages[@]}"
rm -f "$folder"/apt/archives/libdnnl2_*.deb # opened at run time, where there is one; its GEMMs take hours under emulation
for archive in "$folder"/apt/archives/lib*.deb "$folder"/apt/archives/{linux-libc-dev,zlib1g}_*.deb; do
  dpkg-deb --extract "$archive" "$folder"
done
rm -rf "$folder/apt"

# A link to /lib/… would be followed to this machine's own library.
find "$folder" -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfnr "$folder$(readlink "$link")" "$link"
done
echo "${packages[*]}" >"$folder/packages"
