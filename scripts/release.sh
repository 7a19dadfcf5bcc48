#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a release of HEAD in FOLDER, on Debian, and writes nothing elsewhere. It prints the command that tags and does not
# tag. Everything is built twice, in two folders, and must be equal byte for byte.
#   scripts/release.sh FOLDER                everything: the source archive, portable commands with what they contain, a
#                                            Debian package, libcsv's sources and SHA256SUMS; 5 minutes on two cores
#   scripts/release.sh FOLDER archive        the source archive
#   scripts/release.sh FOLDER libcsv         the source of the libcsv that is installed, which a portable command contains
#   scripts/release.sh PREFIX versions       compares the versions that an installation gives with version.h
set -euo pipefail
export LC_ALL=C CCACHE_DISABLE=1 # a cache would hide a difference of two builds
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/scripts/packages.sh"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
machine=$(uname -m)
older_suite=bullseye # Debian 11, whose C library and archives the portable command for older systems has

fail() { echo "release: $*" >&2; exit 1; }
say() { echo "== $*"; }

need() { # TOOL PACKAGE
  command -v "$1" >/dev/null || fail "$1 is missing; Debian's package $2 has it"
}

defined() { # NAME: what version.h defines
  sed -n "s/^#define $1 \"\{0,1\}\([0-9.]*\)\"\{0,1\}\$/\1/p" "$top/include/headroom/version.h"
}
version=$(defined HR_VERSION)
minor_version=$(defined HR_VERSION_MAJOR).$(defined HR_VERSION_MINOR)
interface=$(defined HR_VERSION_MAJOR) # before 1.0 a minor version may break it
[ "$interface" != 0 ] || interface=$minor_version

# Each place that states the version: NAME | what it has to be | what it is.
stated_versions() { # PREFIX
  local library package name
  library=$(find "$1" -name libheadroom.so) package=$(find "$1" -name headroom-config-version.cmake)
  echo "HR_VERSION_MAJOR, _MINOR and _PATCH|$version|$minor_version.$(defined HR_VERSION_PATCH)"
  echo "headroom --version|$version|$("$1/bin/headroom" --version | sed -n '1s/^headroom \([0-9.]*\).*/\1/p')"
  echo "SONAME|libheadroom.so.$interface|$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')"
  for name in headroom headroom-advice; do
    echo "$name.pc|$version|$(sed -n 's/^Version: //p' "$(find "$1" -name $name.pc)")"
  done
  echo "the CMake package|$version|$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$package")"
  echo "CHANGELOG.md|$version|$(sed -n 's/^## \[\([0-9.]*\)\] - [0-9-]\{10\}$/\1/p' "$top/CHANGELOG.md" | head -1)"
}

check_versions() { # PREFIX
  local name expected found differ=
  while IFS='|' read -r name expected found; do
    [ "$found" = "$expected" ] || { differ=1; echo "release: $name gives \"$found\" where version.h asks for $expected" >&2; }
  done < <(stated_versions "$1")
  [ -z "$differ" ] || exit 1
  echo "$version: the command, SONAME, headroom.pc, headroom-advice.pc, the CMake package and CHANGELOG.md agree with version.h"
}

open_folder() {
  mkdir -p "$folder"
  [ -z "$(ls -A "$folder")" ] || fail "$folder is not empty"
  folder=$(cd "$folder" && pwd) work=$folder/builds
  mkdir "$work"
  trap 'rm -rf "$work"' EXIT
}

# Two clones of HEAD, in folders of different depth.
make_clones() {
  need git git
  open_folder
  clones=("$work/a" "$work/another/folder/b")
  local clone
  for clone in "${clones[@]}"; do git clone -q "$top" "$clone"; done
  export SOURCE_DATE_EPOCH TMPDIR=$work
  SOURCE_DATE_EPOCH=$(git -C "${clones[0]}" log -1 --format=%ct)
}

must_be_equal() { # WHAT A B: files or folders
  diff -rq --no-dereference "$2" "$3" >"$work/differences" || fail "two builds of $1 differ: $(head -1 "$work/differences")"
  say "$1: two builds are equal"
}

# The commit's date, order by name, and no settings of this machine.
archive() { # CLONE: prints the archive
  git -C "$1" -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix="headroom-$version/" HEAD | gzip -9n
}

make_archive() {
  need gzip gzip
  local name=headroom-$version.tar.gz
  archive "${clones[0]}" >"$folder/$name"
  archive "${clones[1]}" >"$work/$name"
  must_be_equal "$name" "$folder/$name" "$work/$name"
}

build() { # CLONE PRESET [OPTION…]
  local clone=$1 preset=$2
  (cd "$clone" && cmake --preset "$preset" "${@:3}" && cmake --build --preset "$preset") >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; fail "building $preset failed"; }
}

build_twice() { # PRESET [OPTION…]
  local clone
  say "builds $1 twice"
  for clone in "${clones[@]}"; do build "$clone" "$@"; done
}

make_package() {
  local clone name
  build_twice release -DCMAKE_INSTALL_PREFIX=/usr
  for clone in "${clones[@]}"; do
    (cd "$clone/build/release" && DESTDIR=$clone/installed cmake --install . && cpack) >"$work/log" 2>&1 ||
      { tail -n 20 "$work/log" >&2; fail 'packing failed'; }
  done
  must_be_equal 'what is installed' "${clones[0]}/installed" "${clones[1]}/installed"
  check_versions "${clones[0]}/installed/usr"
  name=$(cd "${clones[0]}/build/release" && echo headroom_*.deb)
  must_be_equal "$name" "${clones[0]}/build/release/$name" "${clones[1]}/build/release/$name"
  cp "${clones[0]}/build/release/$name" "$folder/"
}

installed_packages() { # [PACKAGE…]: each with its source package and the version of that
  dpkg-query -W -f '${Package}\t${source:Package}\t${source:Version}\n' "$@"
}

# A portable command with a list of what it contains, by the packages whose archives it was linked with, and with the source
# of libcsv.
make_portable() { # PRESET NAME SUITE [FILE of the packages, where they are not this machine's]
  installed_packages ${4:+libjs-chart.js} | cat - ${4:+"$4"} >"$work/$2.packages" # Chart.js is always this machine's
  fetch_libcsv "$2" "$3"
  build_twice "$1"
  must_be_equal "$2" "${clones[0]}/build/$1/headroom" "${clones[1]}/build/$1/headroom"
  (cd "${clones[0]}" && ctest --preset "$1") >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "$2 fails its tests"; }
  cp "${clones[0]}/build/$1/headroom" "$folder/$2"
  "$top/scripts/release_contents.py" spdx --command "$folder/$2" --version "$version" --packages "$work/$2.packages" \
    >"$folder/$2.spdx.json"
}

make_portable_for_older() {
  local sysroot=build/sysroot-debian11
  if ! (cd "${clones[0]}" && scripts/sysroot.sh $sysroot amd64 $older_suite) >"$work/log" 2>&1; then
    say "left out: the command for glibc 2.29, because Debian 11's packages cannot be fetched: $(tail -n 1 "$work/log")"
    return
  fi
  mkdir -p "${clones[1]}/build"
  ln -s "${clones[0]}/$sysroot" "${clones[1]}/$sysroot"
  make_portable portable-debian11 "headroom-$version-linux-$machine-glibc2.29" $older_suite "${clones[0]}/$sysroot/sources"
}

# libcsv's license asks that whoever gets the command can change libcsv and link the command anew. apt fetches the source
# package by its name and compares each file with the suite's list; a file that its mirror lacks may be in $own_sources.
own_sources=$top/build/libcsv-source
fetch_libcsv() { # COMMAND SUITE
  local sources=$folder/libcsv-source wanted missing
  wanted=libcsv=$(awk -F '\t' '$2 == "libcsv" { print $3; exit }' "$work/$1.packages")
  mkdir -p "$sources" "$work/apt/lists/partial" "$work/apt/archives/partial"
  cp -n "$own_sources"/* "$sources/" 2>/dev/null || true
  echo "deb-src $(debian_mirror || true) $2 main" >"$work/apt/sources.list"
  { apt_source update && cd "$sources" && apt_source source --download-only "$wanted"; } >"$work/log" 2>&1 </dev/null || true
  if missing=$(cd "$sources" && apt_source source --print-uris "$wanted" 2>/dev/null); then
    missing=$(awk '{ printf "%s%s", separator, $2; separator = ", " }' <<<"$missing")
  else
    missing="the source package ${wanted/=/ }"
  fi
  [ -z "$missing" ] || fail "cannot fetch $missing of Debian's $2: $1 contains this libcsv, whose license (LGPL 2.1," \
    "section 6) asks for its source; put it into $own_sources"
}

apt_source() { # ARGUMENT…
  apt-get -qq -o Dir::State="$work/apt" -o Dir::Cache="$work/apt" -o Debug::NoLocking=1 -o APT::Sandbox::User= \
    -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null "$@"
}

explain_libcsv() {
  {
    echo "The portable commands beside this folder contain libcsv, unchanged, as a static library, under the GNU Lesser"
    echo "General Public License 2.1 or later, which \`headroom --licenses\` prints. Who passes such a command on, passes on"
    echo "with it this text, libcsv's sources and headroom-$version.tar.gz, or offers them at the same place (section 6)."
    echo
    echo "To link the command with another libcsv: install that libcsv with its archive libcsv.a, unpack"
    echo "headroom-$version.tar.gz, and there run cmake --preset portable && cmake --build --preset portable."
    echo
    echo "Debian's source packages that the archives were built from are beside this text:"
    awk -F '\t' '$2 == "libcsv" { print "  " $2, $3 }' "$work"/*.packages | sort -u
  } >"$folder/libcsv-source/README"
}

make_all() {
  local tool
  for tool in cmake:cmake ninja:ninja-build cpack:cmake ctest:cmake objdump:binutils dpkg-shlibdeps:dpkg-dev \
    apt-get:apt python3:python3 sha256sum:coreutils; do
    need "${tool%:*}" "${tool#*:}"
  done
  [ -z "$(git -C "$top" status --porcelain)" ] || fail 'files differ from HEAD, which is what is released: commit them first'
  make_clones
  make_archive
  [ "$machine" != x86_64 ] || make_portable_for_older # first, as a mirror may lack what it needs
  make_portable portable "headroom-$version-linux-$machine" "$suite"
  make_package
  explain_libcsv
  rm -rf "$work"
  (cd "$folder" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
  say "$folder has:" && ls -l "$folder"
  echo "To tag it: git tag -a v$version -m 'Headroom $version' $(git -C "$top" rev-parse HEAD)"
}

folder=${1:?usage: scripts/release.sh FOLDER [archive|libcsv], or scripts/release.sh PREFIX versions}
case ${2:-all} in
all) make_all ;;
archive)
  make_clones
  make_archive
  ;;
libcsv)
  need apt-get apt
  open_folder
  installed_packages >"$work/portable.packages"
  fetch_libcsv portable "$suite"
  ;;
versions)
  need objdump binutils
  [ -x "$folder/bin/headroom" ] || fail "$folder/bin/headroom is missing; versions needs an installation"
  check_versions "$folder"
  ;;
*) fail "$2 is none of archive, libcsv and versions" ;;
esac
