#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the repository of a kernel for the Hugging Face Hub into an empty folder. One upload publishes it:
#   hf upload ORG/headroom FOLDER --repo-type kernel --revision v1
#   scripts/hub_kernel.sh FOLDER [BUILD]          of the wheel that scripts/wheel.sh builds, which explains BUILD
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: scripts/hub_kernel.sh FOLDER [BUILD]}
[ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || { echo "$folder is not empty" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=$("$top/scripts/wheel.sh" "$work" "${@:2}")
python3 "$top/scripts/hub_contents.py" "$wheel" "$folder"
