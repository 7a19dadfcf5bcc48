#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel of a build folder is below 12 MB, is tagged as auditwheel reads it, and works in an empty virtual environment
# with numpy: the command, and the package's tests. Its metadata and the source archive's are what an index takes, and the
# source archive has what builds it. Skips where Python has no venv or pip brings no numpy.
#   test_wheel.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skipped: $*"; exit 77; }

wheel=$("$here/../scripts/wheel.sh" "$work" "$build" 2>"$work/log") || { cat "$work/log"; exit 1; }
size=$(stat -c %s "$wheel")
[ "$size" -lt 12000000 ] || { echo "$(basename "$wheel") has $size bytes"; exit 1; }

source=
if git -C "$here" rev-parse >/dev/null 2>&1; then
  source=$(cd "$here/../scripts" && python3 -c 'import sys, wheel_contents; print(wheel_contents.build_sdist(sys.argv[1]))' "$work")
  tar -xzf "$work/$source" -C "$work"
  for file in PKG-INFO pyproject.toml CMakeLists.txt python/headroom/_bindings.py src/base/kernel_names.c; do
    [ -s "$work/${source%.tar.gz}/$file" ] || { echo "$source lacks $file"; exit 1; }
  done
fi

python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "this Python has no venv"
"$work/venv/bin/pip" install --quiet numpy >"$work/log" 2>&1 || skip "pip does not bring numpy: $(tail -1 "$work/log")"
"$work/venv/bin/pip" install --quiet --no-index "$wheel"
unset HEADROOM_LIBRARY_FOLDER PYTHONPATH
cd /
"$work/venv/bin/headroom" --version
for set in numpy advisor; do
  "$work/venv/bin/python" "$here/python/run.py" "$set"
done

if "$work/venv/bin/pip" install --quiet auditwheel twine >"$work/log" 2>&1; then
  tag=$(basename "$wheel" .whl | grep -oE 'manylinux_[0-9]+_[0-9]+')
  shown=$("$work/venv/bin/auditwheel" show "$wheel")
  grep -q "^the following platform tag: \"$tag" <<<"$shown" || { echo "auditwheel does not confirm $tag: $shown"; exit 1; }
  "$work/venv/bin/twine" check --strict "$wheel" ${source:+"$work/$source"} >"$work/log" || { cat "$work/log"; exit 1; }
else
  echo "without auditwheel and twine: pip does not bring them"
fi
echo "$(basename "$wheel"): $size bytes"
