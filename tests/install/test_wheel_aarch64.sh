#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel for aarch64 that x86-64 builds is named for it and for a C library no newer than Debian 11's; its files are
# for that processor, and the command runs under qemu-user.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheel=$("$top/scripts/wheel.sh" "$work" --arch aarch64 2>"$work/log") || { tail -n 40 "$work/log"; exit 1; }
[[ $(basename "$wheel") =~ manylinux_2_([0-9]+)_aarch64 ]] && [ "${BASH_REMATCH[1]}" -le 31 ] || { echo "named $wheel"; exit 1; }
python3 -m zipfile -e "$wheel" "$work/files"
command=$(echo "$work"/files/headroom-*.data/scripts/headroom)
libraries=("$work"/files/headroom/lib/*)
[ "${#libraries[@]}" = 2 ] || { echo "libraries: ${libraries[*]}"; exit 1; }
for file in "${libraries[@]}" "$command"; do
  aarch64-linux-gnu-readelf -h "$file" | grep -q 'Machine: *AArch64' || { echo "$file is not for aarch64"; exit 1; }
done
chmod +x "$command"
qemu-aarch64 -L "$top/build/sysroot-debian11-aarch64" "$command" --version
