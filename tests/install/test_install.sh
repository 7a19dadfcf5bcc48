#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a prefix with a space in its name, moves the prefix, and uses it from another project: through
# pkg-config and through find_package, in C and in C++. A program that calls attention loads libheadroom and the C library
# alone. Runs the command with an empty environment.
#   test_install.sh BUILD_FOLDER CMAKE C_COMPILER CXX_COMPILER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1 cmake=$2 cc=$3 cxx=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/headroom install.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || { cat "$work/log"; fail 'the installation failed'; }
mv "$work/first" "$work/moved"
prefix=$work/moved

pc=$(find "$prefix" -name headroom.pc)
[ -n "$pc" ] || fail 'no headroom.pc was installed'
lib=$(cd "$(dirname "$pc")/.." && pwd)
export PKG_CONFIG_PATH=${pc%/*}
version=$(sed -n 's/^#define HR_VERSION "\(.*\)"/\1/p' "$prefix/include/headroom/version.h")
for name in headroom headroom-advice; do
  [ "$(pkg-config --modversion $name)" = "$version" ] || fail "$name.pc gives version $(pkg-config --modversion $name), version.h $version"
  soname=$(objdump -p "$lib/lib$name.so" | awk '$1 == "SONAME" { print $2 }')
  [[ $soname =~ ^lib$name\.so\.[0-9] ]] || fail "the SONAME of lib$name is \"$soname\""
  [ -e "$lib/$soname" ] || fail "$soname is not installed"
done

allowed='^(libc|libm|libpthread|libdl|ld-linux-[a-z0-9-]*)\.so\.[0-9]+$'
check_output() { # NAME COMMAND…: the consumer prints the version, and 1 if there are models, or attention is right
  local name=$1 found
  shift
  found=$("$@") || fail "$name: exit $?"
  [[ $found =~ ^"$version "[01]$ ]] || fail "$name: printed \"$found\""
}

extra=(${HEADROOM_TEST_FLAGS:-})
eval "flags=($(pkg-config --cflags --libs headroom))"
"$cc" -std=c17 -Wall -Wextra -Werror "${extra[@]}" -o "$work/attention" "$here/consumer/attention.c" "${flags[@]}"
check_output 'attention, pkg-config' env LD_LIBRARY_PATH="$lib" "$work/attention"
needed=$(objdump -p "$lib/libheadroom.so" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$allowed" || true)
[ -z "$needed" ] || fail "libheadroom needs" $needed
env -u HEADROOM_ONEDNN LD_LIBRARY_PATH="$lib" LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/loaded" "$work/attention" >/dev/null
loaded=$(sed -n 's|.*calling init: .*/||p' "$work"/loaded.* | sort -u)
grep -q '^libheadroom\.so' <<<"$loaded" || fail 'LD_DEBUG does not show libheadroom'
others=$(grep -vE "$allowed|^libheadroom\.so" <<<"$loaded" || true)
[ -z "$others" ] || fail "a program that calls attention loads" $others
strip -o "$work/stripped.so" "$lib/libheadroom.so"
[ "$(wc -c <"$work/stripped.so")" -lt 3600000 ] || fail "libheadroom has $(wc -c <"$work/stripped.so") bytes"

"$cc" -std=c17 -Wall -Wextra -Werror "${extra[@]}" -o "$work/example" "$here/../../examples/attention.c" "${flags[@]}"
LD_LIBRARY_PATH="$lib" "$work/example" >"$work/log" 2>&1 || { cat "$work/log"; fail 'examples/attention.c fails'; }

eval "flags=($(pkg-config --cflags --libs headroom-advice))"
"$cc" -std=c17 -Wall -Wextra -Werror "${extra[@]}" -o "$work/c" "$here/consumer/main.c" "${flags[@]}"
check_output 'C, pkg-config' env LD_LIBRARY_PATH="$lib" "$work/c"
"$cxx" -std=c++17 -Wall -Wextra -Werror "${extra[@]}" -o "$work/cxx" -x c++ "$here/consumer/main.c" -x none "${flags[@]}"
check_output 'C++, pkg-config' env LD_LIBRARY_PATH="$lib" "$work/cxx"

{
  "$cmake" -G Ninja -S "$here/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" && "$cmake" --build "$work/build"
} >"$work/log" 2>&1 || { cat "$work/log"; fail 'a CMake project cannot use the installation'; }
check_output 'C, find_package' "$work/build/consumer_c"
check_output 'C++, find_package' "$work/build/consumer_cxx"
check_output 'attention, find_package' "$work/build/consumer_attention"
! readelf -d "$work/build/consumer_attention" | grep -q advice || fail 'the component `kernels` links libheadroom-advice'

{
  "$cmake" -G Ninja -S "$here/../../examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" && "$cmake" --build "$work/examples" && "$work/examples/attention"
} >"$work/log" 2>&1 || { cat "$work/log"; fail 'the examples are not built or fail'; }
[ -x "$work/examples/streams" ] || echo 'examples/streams.cpp and graph.cpp: only over the emulated GPU, for want of a CUDA toolkit'

if [ -x "$build/headroom" ]; then
  [ -x "$prefix/bin/headroom" ] || fail 'the command is not installed'
  (cd / && env -i "$prefix/bin/headroom" --version) | grep -qF "$version" || fail 'the installed command does not print its version'
  for file in share/man/man1/headroom.1 share/bash-completion/completions/headroom share/zsh/site-functions/_headroom \
    share/fish/vendor_completions.d/headroom.fish; do
    [ -s "$prefix/$file" ] || fail "$file is not installed"
  done
fi
docs=$prefix/share/doc/headroom
for file in LICENSE NOTICE; do
  cmp -s "$here/../../$file" "$docs/$file" || fail "$file is not installed"
done
if [ -x "$build/headroom" ]; then # builds in two folders are equal
  path=$(objdump -p "$build/headroom" | awk '$1 == "RUNPATH" || $1 == "RPATH" { print $2 }')
  [[ -z $path || $path == '$ORIGIN'* ]] || fail "the command looks for libraries in $path"
fi
for page in "$here"/../../docs/*.md; do
  [ -s "$docs/$(basename "$page")" ] || fail "$(basename "$page") is not installed"
done
# Links between the installed pages lead to installed files.
grep -ohE '\]\([A-Za-z0-9_./-]+\.(md|svg|png)' "$docs"/[a-z]*.md | sed 's/^](//' | sort -u | while read -r link; do
  case $link in ../*) continue ;; esac
  [ -s "$docs/$link" ] || { echo "$link is linked, but not installed"; exit 1; }
done || fail 'documents are missing'
echo "installed, moved and used: $version, $soname"
