#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a portable command contains, as an SPDX 2.3 document in JSON: https://spdx.github.io/spdx-spec/v2.3/

    scripts/release_contents.py --command FILE --version VERSION --packages FILE

--packages has a line for each Debian package that the build could link: its name, its source package and the version of
that, with tabs between; the first line of a package counts. Every license of licenses/ needs a row below. The document is
the same for the same command: its date is SOURCE_DATE_EPOCH, its name made from the command's hash.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import urllib.parse
import uuid

LICENSES = pathlib.Path(__file__).resolve().parent.parent / "licenses"
# Each file of licenses/: the Debian package with the archive that is linked, how it is contained, and the license in the
# words of https://spdx.org/licenses.
CONTAINED = {
    "chart.js": ("libjs-chart.js", "CONTAINS", "MIT"),
    "jansson": ("libjansson-dev", "STATIC_LINK", "MIT"),
    "libcsv": ("libcsv-dev", "STATIC_LINK", "LGPL-2.1-or-later"),
    "sqlite": ("libsqlite3-dev", "STATIC_LINK", "blessing"),
    "utf8proc": ("libutf8proc-dev", "STATIC_LINK", "MIT AND Unicode-DFS-2015"),
    "xxhash": ("libxxhash-dev", "STATIC_LINK", "BSD-2-Clause"),
}


def read_packages(path):
    packages = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        package, source, version = line.split("\t")
        packages.setdefault(package, (source, version))
    return packages


def copyright_lines(name):
    text = (LICENSES / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if re.match(r"\S*:? ?Copyright (\(c\)|©)", line)]
    return "\n".join(lines) or "NONE"


def package(name, version, location, license_words, **more):
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "downloadLocation": location,
            "filesAnalyzed": False, "licenseConcluded": license_words, "licenseDeclared": license_words, **more}


def contained_package(name, packages):
    binary, _, license_words = CONTAINED[name]
    if binary not in packages:
        sys.exit(f"release_contents: Debian's package {binary} is not among the packages, so {name}'s version is unknown")
    source, version = packages[binary]
    quoted = urllib.parse.quote(version, safe="")
    purl = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{source}@{quoted}?arch=source"}
    return package(name, version, f"https://snapshot.debian.org/package/{source}/{quoted}/", license_words,
                   supplier="Organization: Debian", copyrightText=copyright_lines(name), externalRefs=[purl])


def document(command, version, packages):
    digest = hashlib.sha256(command.read_bytes()).hexdigest()
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    whole = package("headroom", version, "NOASSERTION", "Apache-2.0", packageFileName=command.name,
                    checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
                    copyrightText="Copyright the Headroom authors")
    contained = [{"spdxElementId": "SPDXRef-headroom", "relationshipType": how, "relatedSpdxElement": f"SPDXRef-{name}"}
                 for name, (_, how, _) in CONTAINED.items()]
    described = {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                 "relatedSpdxElement": "SPDXRef-headroom"}
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": command.name,
            "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, digest).urn,
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": [f"Tool: release_contents.py-{version}"]},
            "packages": [whole] + [contained_package(name, packages) for name in CONTAINED],
            "relationships": [described] + contained}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    given = parser.parse_args()
    without_row = {path.stem for path in LICENSES.glob("*.txt")} ^ set(CONTAINED)
    if without_row:
        sys.exit(f"release_contents: licenses/ and the table CONTAINED differ in {', '.join(sorted(without_row))}")
    json.dump(document(given.command, given.version, read_packages(given.packages)), sys.stdout, indent=2,
              ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
