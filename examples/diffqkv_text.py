#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text of Debian's documentation packages as tokens for diffqkv_ablation.py: a byte-level BPE is trained on it, and every
50th document is held out. It takes apt-get, dpkg-deb and `pip install numpy tokenizers`.

    diffqkv_text.py [PACKAGE ...] [--vocabulary 4096] [--most-mb 100] [--out tokens.npz]

Of each package its reStructuredText, plain text, POD and manual pages are read; HTML, made from those, is not. The file
has uint16 arrays "train" and "held", the vocabulary's size, and the bytes that a held-out token stands for."""
import argparse
import gzip
import hashlib
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
from tokenizers import ByteLevelBPETokenizer

PACKAGES = ("linux-doc-6.1", "python3.11-doc", "manpages", "manpages-dev", "perl-doc", "git-doc", "vim-doc")
SUFFIXES = {".rst", ".txt", ".pod", *(f".{section}" for section in range(1, 9))}
HELD_EVERY = 50


def unpack(packages, folder):
    """Downloads packages and unpacks them into a folder."""
    subprocess.run(["apt-get", "download", "-q", *packages], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder / "files"], check=True)


def text_of(path):
    """The file's text, or None where it is another kind of file."""
    packed = path.suffix == ".gz"
    if (path.with_suffix("") if packed else path).suffix not in SUFFIXES or path.is_symlink() or not path.is_file():
        return None
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    return data.decode("utf-8", errors="replace")


def documents(folder, most_bytes):
    """Different texts in an order that is always the same, up to a size."""
    texts = [text for path in sorted(folder.rglob("*")) if (text := text_of(path)) is not None and len(text) >= 500]
    different = list({hashlib.sha256(text.encode()).digest(): text for text in texts}.values())
    random.Random(0).shuffle(different)
    taken, size = [], 0
    for text in different:
        size += len(text.encode())
        if size > most_bytes:
            break
        taken.append(text)
    return taken


def tokens(tokenizer, texts):
    """All texts one after another, token 0 behind each."""
    encoded = (np.array([*one.ids, 0], dtype=np.uint16) for one in tokenizer.encode_batch(texts))
    return np.concatenate(list(encoded))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"default: {' '.join(PACKAGES)}")
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--most-mb", type=float, default=100)
    parser.add_argument("--out", default="tokens.npz")
    a = parser.parse_args()
    if not 257 <= a.vocabulary <= 65536:
        parser.error(f"--vocabulary {a.vocabulary}: expected 257 to 65536")
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(a.packages or PACKAGES, pathlib.Path(folder))
        except (subprocess.CalledProcessError, OSError) as error:
            sys.exit(f"diffqkv_text.py: {error}")
        texts = documents(pathlib.Path(folder) / "files", 1e6 * a.most_mb)
    if len(texts) < HELD_EVERY:
        sys.exit(f"diffqkv_text.py: {len(texts)} documents, expected {HELD_EVERY} or more")
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=a.vocabulary, special_tokens=["<end>"], show_progress=False)
    train = tokens(tokenizer, [text for i, text in enumerate(texts) if i % HELD_EVERY])
    held = tokens(tokenizer, texts[::HELD_EVERY])
    held_bytes = sum(len(text.encode()) for text in texts[::HELD_EVERY])
    np.savez_compressed(a.out, train=train, held=held, vocabulary=a.vocabulary, bytes_per_token=held_bytes / len(held))
    print(f"{a.out}: {len(texts):,} documents, {len(train):,} tokens to train on, {len(held):,} held out, "
          f"{held_bytes / len(held):.2f} bytes each")


if __name__ == "__main__":
    main()
