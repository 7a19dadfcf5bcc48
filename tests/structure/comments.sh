#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails on a public function without a comment above it or on its line.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
awk '
  FNR == 1 { above = ""; open = 0 }
  /^HR_API/ { functions++; open = 1; has = (above ~ /\*\/[ \t]*$/); where = FILENAME ":" FNR ": " $0 }
  open && /;/ {
    if (!has && $0 !~ /\/\*/) { print where; print "  has no comment"; bad = 1 }
    open = 0
  }
  /[^ \t]/ { above = $0 }
  END { print functions " public functions"; exit bad || !functions }' include/headroom/*.h include/headroom/experimental/*.h
