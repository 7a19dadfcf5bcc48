#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the Python package that need PyTorch, transformers, JAX, pandas or a notebook's kernel, with those of
# PyPI in an environment that stays in build/python-venv; random arguments also under the sanitizers, where build/asan has
# a library.
#   venv.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
venv=$top/build/python-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" >/dev/null || { echo 'skipped: this Python has no venv'; exit 0; }
if ! "$venv/bin/python" -c 'import numpy, torch, transformers' 2>/dev/null; then
  "$venv/bin/pip" install --quiet numpy torch transformers || { echo 'skipped: pip does not bring PyTorch'; exit 0; }
fi
if ! "$venv/bin/python" -c 'import kernels' 2>/dev/null; then
  version=$("$venv/bin/python" -c 'import transformers; print(transformers.__version__)')
  "$venv/bin/pip" install --quiet "transformers[kernels]==$version" 2>/dev/null ||
    "$venv/bin/pip" install --quiet kernels ||
    echo 'skipped: pip does not bring kernels; the Hub kernel is not tested'
fi
for names in jax pandas,nbclient,ipykernel; do # run.py says if one is missing
  "$venv/bin/python" -c "import $names" 2>/dev/null || "$venv/bin/pip" install --quiet ${names//,/ } || true
done
for set in advisor notebook torch transformers jax; do
  HEADROOM_LIBRARY_FOLDER=$build "$venv/bin/python" "$top/tests/python/run.py" "$set" || [ $? = 77 ]
done

asan=$top/build/asan
if [ -e "$asan/libheadroom.so" ]; then # PyTorch's own leaks are not looked for
  LD_PRELOAD="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0 HEADROOM_LIBRARY_FOLDER=$asan PYTHONPATH=$top/python \
    "$venv/bin/python" "$top/tests/python/test_torch_fuzz.py"
fi
