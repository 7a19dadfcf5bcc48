#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the repository of a kernel for the Hugging Face Hub from a wheel: build/torch-cpu and build/torch-cuda, which
the Python package `kernels` loads, and the sources, which kernel-builder takes. The parts are a copy of headroom.torch
without what needs numpy; the same wheel gives the same bytes.

    hub_contents.py WHEEL FOLDER"""
import base64
import hashlib
import json
import pathlib
import re
import sys
import zipfile

HUB = pathlib.Path(__file__).resolve().parent.parent / "python/hub"
PART = re.compile(r"headroom/((?:_bindings|_library|_problem|device|errors)\.py|torch/.*|lib/libheadroom\.so\..*)")
LICENSE = re.compile(r"headroom-[^/]*\.dist-info/licenses/(LICENSE|NOTICE)")
BACKENDS = {"cpu": {"type": "cpu"}, "cuda": {"type": "cuda", "archs": ["7.0+PTX"]}}  # NVRTC compiles for all newer
NAME, VERSION, OLDEST_KERNELS = "headroom", 1, "0.16.0"


def read(wheel, pattern):
    """The files of a wheel whose name a pattern matches, by the part of the name in its group."""
    return {found[1]: wheel.read(name) for name in wheel.namelist() if (found := pattern.fullmatch(name))}


def digest(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def variant(parts, backend):
    """The files of a build. Its id, which is the package's name and the operators' namespace, tells contents apart."""
    digests = {name: digest(parts[name]) for name in sorted(parts)}
    mark = hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:7]
    metadata = {"name": NAME, "id": f"_{NAME}_{backend}_{mark}", "version": VERSION, "license": "Apache-2.0",
                "python-depends": [], "kernels-minver": OLDEST_KERNELS, "backend": BACKENDS[backend],
                "digest": {"algorithm": "sha256", "files": digests}}
    return {**parts, "metadata.json": json.dumps(metadata, indent=2).encode() + b"\n"}


def texts(platform):
    """The files at the top of the repository."""
    build, page = ((HUB / name).read_text(encoding="utf-8") for name in ("build.toml", "README.md"))
    return {"build.toml": build.encode(), "README.md": page.replace("PLATFORM", platform).encode()}


def repository(wheel, platform):
    """Pairs of a name in the repository and the bytes that it has."""
    parts = {"__init__.py": (HUB / "__init__.py").read_bytes(), **read(wheel, PART)}
    folders = {f"torch-ext/{NAME}": parts, **{f"build/torch-{each}": variant(parts, each) for each in BACKENDS},
               ".": {**read(wheel, LICENSE), **texts(platform)}}
    return [(f"{folder}/{name}", data) for folder, files in folders.items() for name, data in files.items()]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, folder = map(pathlib.Path, sys.argv[1:])
    with zipfile.ZipFile(path) as wheel:
        for name, data in repository(wheel, path.stem.rpartition("-")[2]):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


if __name__ == "__main__":
    main()
