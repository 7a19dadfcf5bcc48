#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails on a broken link between pages of the repository, and on a path in backquotes that does not exist.
# Paths that a reader creates contain NAME, or are listed here:
to_be_made='src/model/config/families/orion.c'
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
failed=0 count=0
complain() { echo "$1"; failed=1; }
for page in *.md docs/*.md docs/notes/*.md; do
  [ -f "$page" ] || continue
  while read -r target; do
    count=$((count + 1))
    [ -e "$(dirname "$page")/${target%%#*}" ] || complain "$page: links to $target, which is not there"
  done < <(grep -oE '\]\([^)# ]+[^) ]*\)' "$page" | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):' || true)
  while read -r path; do
    count=$((count + 1))
    [ -e "$path" ] || complain "$page: speaks of $path, which is not there"
  done < <(grep -oE '`(src|include|cli|tests|docs|data|scripts|cmake|bench|completions)/[A-Za-z0-9_./-]*`' "$page" | tr -d '`' | grep -v NAME | grep -vxF "$to_be_made" | sort -u || true)
done
echo "$count links and paths"
exit $failed
