#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Headroom and shows what it is for: what to change about a model's shape, for a GPU that need not be here, and
# then for this machine's processor, where the advice is measured.
#   ./quickstart.sh [MODEL]      MODEL: a config.json, a folder with one, or a built-in name (default gpt2)
# It installs what is missing with apt (and says so first). A second run only shows.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '3,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
model=${1:-}
[ -z "$model" ] || [ ! -e "$model" ] || model=$(cd "$(dirname "$model")" && pwd)/$(basename "$model")
cd "$(dirname "$0")"
. scripts/packages.sh

install_packages build || exit 1
[ -x build/release/headroom ] || echo 'Building Headroom (release); this takes a minute.'
build_preset release || exit 1

headroom=build/release/headroom
show() {
  printf '\n$ headroom'
  printf ' %s' "$@"
  printf '\n\n'
  "$headroom" "$@"
}

show advise "${model:-gpt2}" --device h200
show advise "${model:-gpt2}" --device cpu --measure

cat <<'END'

The command is build/release/headroom. Try it on your own model:

  build/release/headroom advise path/to/config.json --device h200
  build/release/headroom help
END
