#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package as a wheel for all CPython from 3.9 on, and prints its path.
#   scripts/wheel.sh FOLDER            optimised, on x86-64 for systems as old as Debian 11, whose C library
#                                      scripts/sysroot.sh fetches where it can; elsewhere for this machine's own
#   scripts/wheel.sh FOLDER --arch aarch64   the same by cross build (package gcc-aarch64-linux-gnu)
#   scripts/wheel.sh FOLDER BUILD      of a build folder's objects (build/debug)
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
usage='usage: scripts/wheel.sh FOLDER [BUILD | --arch x86_64|aarch64]'
folder=${1:?$usage} build=${2:-} architecture=$(uname -m)
[ "$build" != --arch ] || { architecture=${3:?$usage} build=; }
mkdir -p "$folder"

preset_of() { # ARCHITECTURE: the preset for systems as old as can be
  local sysroot= debian=
  case $1:$(uname -m) in
  x86_64:x86_64) sysroot=debian11 debian=amd64 ;;
  aarch64:x86_64) sysroot=debian11-aarch64 debian=arm64 ;;
  esac
  if [ -n "$sysroot" ] && "$top/scripts/sysroot.sh" "$top/build/sysroot-$sysroot" "$debian" bullseye >&2; then
    echo "wheel-$sysroot"
  else
    [ "$1" = "$(uname -m)" ] && echo release
  fi
}

if [ -z "$build" ]; then
  preset=$(preset_of "$architecture") || { echo "wheel.sh: no build for $architecture on this machine" >&2; exit 1; }
  build=$top/build/$preset
  (cd "$top" && cmake --preset "$preset") >&2
fi
cmake --build "$build" --target wheel_parts -j "$(nproc)" >&2
python3 "$top/scripts/wheel_contents.py" "$build" "$folder"
