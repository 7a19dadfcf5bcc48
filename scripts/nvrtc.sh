#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads NVRTC, the compiler of GPU programs, unless the system has it, so that tests compile programs without a GPU.
#   nvrtc.sh     prints its folder, for LD_LIBRARY_PATH; empty if the system has NVRTC
# It comes from PyPI (58 MB), the version and hash of scripts/nvrtc.txt, into build/nvrtc and is kept. Fails with one line on stderr.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '3,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."
. scripts/packages.sh

for place in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }}; do
  compgen -G "$place/libnvrtc.so*" >/dev/null && exit 0
done
folder=$PWD/build/nvrtc
if [ ! -e "$folder/.ready" ]; then
  rm -rf "$folder"
  mkdir -p "$folder/wheel"
  trap '[ -e "$folder/.ready" ] || rm -rf "$folder"' EXIT
  install_packages programs >&2 || exit 1
  pip3 download -q --no-deps --only-binary :all: --require-hashes -d "$folder/wheel" -r scripts/nvrtc.txt >&2 ||
    { echo 'nvrtc.sh: pip3 could not bring the nvidia-cuda-nvrtc of scripts/nvrtc.txt' >&2; exit 1; }
  python3 -m zipfile -e "$folder"/wheel/*.whl "$folder"
  rm -r "$folder/wheel"
  : >"$folder/.ready"
fi
libraries=("$folder"/nvidia/*/lib)
echo "${libraries[0]}"
