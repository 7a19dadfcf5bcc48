#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# with_store.sh LINE: runs a shell line in a new folder that has a store of inputs/results.jsonl, which is also the default.
# $H is the command, $inputs the folder of inputs.
inputs=$(cd "$(dirname "$0")" && pwd)/inputs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export inputs XDG_DATA_HOME="$folder/data"
mkdir -p data/headroom
"$H" results import --db store.db "$inputs/results.jsonl" > imported || { cat imported; exit 1; }
ln store.db data/headroom/results.db
eval "$1"
