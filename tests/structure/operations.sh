#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An operation is a row of tables (src/runtime/operation, src/runtime/measure/checks.c): few lines elsewhere name one.
# They were 37 in 18 files; the limit may only become smaller.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
most=6
lines=$(git grep -nE 'HR_OPERATION_(GEMM|ATTENTION|ROWWISE|DECODE|ATTENTION_BACKWARD)' -- src cli include ':!src/runtime/operation' \
  ':!src/runtime/measure/checks.c' || true)
count=$(grep -c . <<<"$lines" || true)
echo "$count lines outside of the tables name an operation"
[ "$count" -le $most ] || { echo "at most $most may:"; echo "$lines"; exit 1; }
