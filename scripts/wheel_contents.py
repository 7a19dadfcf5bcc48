#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the wheel of a build folder whose target wheel_parts is built, and prints its path. The platform tag is that
of the C library whose symbols the files need (PEP 600). The same parts give the same bytes.

    wheel_contents.py BUILD FOLDER

pip builds by build_wheel() and build_sdist() (PEP 517, pyproject.toml)."""
import base64
import hashlib
import io
import pathlib
import platform
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent
SUMMARY = "Attention kernels for CPUs and NVIDIA GPUs, and advice about transformer shapes"
DESCRIPTION = """`import headroom` runs attention and decode attention of numpy arrays on the CPU; `headroom.torch` has
them as operators of PyTorch, on CPUs and NVIDIA GPUs. The command `headroom` predicts how fast a transformer's shape
runs on a device, why, and which nearby shape is faster.
"""
TIME = (1980, 1, 1, 0, 0, 0)
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF file's header


def version():
    text = (TOP / "include/headroom/version.h").read_text(encoding="utf-8")
    return re.search(r'#define HR_VERSION "(.*)"', text)[1]


def metadata():
    """The core metadata, version 2.1."""
    fields = ["Metadata-Version: 2.1", "Name: headroom", f"Version: {version()}", f"Summary: {SUMMARY}",
              "License: Apache-2.0", "Requires-Python: >=3.9", "Requires-Dist: numpy", "Provides-Extra: torch",
              "Requires-Dist: torch>=2.4; extra == 'torch'", "Provides-Extra: transformers",
              "Requires-Dist: torch>=2.4; extra == 'transformers'",
              "Requires-Dist: transformers; extra == 'transformers'", "Provides-Extra: jax",
              "Requires-Dist: jax>=0.5; extra == 'jax'", "Provides-Extra: pandas",
              "Requires-Dist: pandas; extra == 'pandas'",
              "Classifier: License :: OSI Approved :: Apache Software License",
              "Classifier: Operating System :: POSIX :: Linux", "Classifier: Programming Language :: Python :: 3",
              "Description-Content-Type: text/markdown"]
    return "\n".join(fields) + "\n\n" + DESCRIPTION


def soname(library):
    table = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    return re.search(r"SONAME +(\S+)", table)[1]


def needed_glibc(paths):
    """The newest version of the C library whose symbols the files ask for."""
    found = set()
    for path in paths:
        table = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        found |= {tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", table)}
    return max(found)


def machine(path):
    """What a file's code is for, as platforms are named."""
    with open(path, "rb") as file:
        return MACHINES[struct.unpack("<16xHH", file.read(20))[1]]


def stripped(path, folder):
    """A copy without debug information. A cross compiler has its own program for that."""
    copy, own = pathlib.Path(folder) / path.resolve().name, machine(path)
    strip = "strip" if own == platform.machine() else f"{own}-linux-gnu-strip"
    subprocess.run([strip, "--strip-unneeded", "-o", copy, path.resolve()], check=True)
    return copy


def package_files(build, folder):
    """Pairs of a name in the wheel and the file that it has."""
    data = f"headroom-{version()}.data/scripts"
    for path in sorted((TOP / "python/headroom").rglob("*")):
        if path.suffix in (".py", ".typed"):
            yield str(path.relative_to(TOP / "python")), path
    for library in (build / "libheadroom.so", build / "wheel/libheadroom-advice.so"):
        yield f"headroom/lib/{soname(library)}", stripped(library, folder)
    yield f"{data}/headroom", stripped(build / "portable_command", folder)
    for path in [TOP / "LICENSE", TOP / "NOTICE", *sorted((TOP / "licenses").glob("*.txt"))]:
        yield f"headroom-{version()}.dist-info/licenses/{path.name}", path


def add(wheel, name, content, executable, record):
    """Adds a file, and its line to the record."""
    entry = zipfile.ZipInfo(name, TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o755 if executable else 0o644) << 16 | 0o100000 << 16
    wheel.writestr(entry, content, compresslevel=9)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def write(build, output):
    with tempfile.TemporaryDirectory() as folder:
        files = dict(package_files(build, folder))
        binaries = [path for path in files.values() if path.is_relative_to(folder)]
        tag = "py3-none-manylinux_{}_{}_{}".format(*needed_glibc(binaries), machine(binaries[0]))
        about, record = f"headroom-{version()}.dist-info", []
        path = output / f"headroom-{version()}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for name, file in files.items():
                add(wheel, name, file.read_bytes(), file in binaries, record)
            add(wheel, f"{about}/METADATA", metadata().encode(), False, record)
            add(wheel, f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/wheel_contents.py\n"
                f"Root-Is-Purelib: false\nTag: {tag}\n".encode(), False, record)
            wheel.writestr(zipfile.ZipInfo(f"{about}/RECORD", TIME), "\n".join([*record, f"{about}/RECORD,,", ""]))
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Compiles the source tree and packs it; the name of the file."""
    build = TOP / "build" / "release"
    settings = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"]
    subprocess.run(["cmake", "-S", TOP, "-B", build, *settings], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "wheel_parts"], check=True)
    return write(build, pathlib.Path(wheel_directory)).name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Writes what pip asks for before it builds; the name of the folder."""
    about = pathlib.Path(metadata_directory) / f"headroom-{version()}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(metadata(), encoding="utf-8")
    return about.name


def build_sdist(sdist_directory, config_settings=None):
    """Packs the files that git lists; the name of the archive."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    about = tarfile.TarInfo(f"headroom-{version()}/PKG-INFO")
    about.size = len(metadata().encode())
    path = pathlib.Path(sdist_directory) / f"headroom-{version()}.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in filter(None, listed.split("\0")):
            archive.add(TOP / name, f"headroom-{version()}/{name}", recursive=False)
        archive.addfile(about, io.BytesIO(metadata().encode()))
    return path.name


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(write(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])))
