#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which libraries a release is made of, in one of three forms. All are made from the table CONTAINED.

    scripts/release_contents.py spdx --version VERSION --packages FILE --command FILE [--dynamic]
    scripts/release_contents.py copyright --version VERSION --packages FILE
    scripts/release_contents.py notice

spdx       An SPDX 2.3 document in JSON (https://spdx.github.io/spdx-spec/v2.3/) of a portable command, or with --dynamic
           of one that links shared libraries. The document is the same for the same command: its date is
           SOURCE_DATE_EPOCH, its name made from the command's hash.
copyright  The file `copyright` of a Debian package, whose command links shared libraries, in Debian's machine-readable
           format (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/).
notice     The rows of NOTICE.

--packages has a line for each Debian package that the build could link: its name, its source package and the version of
that, with tabs between; the first line of a package counts. Every license of licenses/ needs a row in CONTAINED.
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
OWN_LICENSE, OWN_COPYRIGHT = "Apache-2.0", "Copyright the Headroom authors"
# Each file of licenses/: the Debian package with the archive that is linked, how a portable command contains it, and the
# license in the words of https://spdx.org/licenses.
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


def source_package(name, packages):
    binary = CONTAINED[name][0]
    if binary not in packages:
        sys.exit(f"release_contents: Debian's package {binary} is not among the packages, so {name}'s version is unknown")
    return packages[binary]


def contained_package(name, packages):
    license_words = CONTAINED[name][2]
    source, version = source_package(name, packages)
    quoted = urllib.parse.quote(version, safe="")
    purl = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{source}@{quoted}?arch=source"}
    return package(name, version, f"https://snapshot.debian.org/package/{source}/{quoted}/", license_words,
                   supplier="Organization: Debian", copyrightText=copyright_lines(name), externalRefs=[purl])


def relationship(name, dynamic):
    how = CONTAINED[name][1]
    return "DYNAMIC_LINK" if dynamic and how == "STATIC_LINK" else how


def print_spdx(given):
    packages = read_packages(given.packages)
    digest = hashlib.sha256(given.command.read_bytes()).hexdigest()
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    whole = package("headroom", given.version, "NOASSERTION", OWN_LICENSE, packageFileName=given.command.name,
                    checksums=[{"algorithm": "SHA256", "checksumValue": digest}], copyrightText=OWN_COPYRIGHT)
    contained = [{"spdxElementId": "SPDXRef-headroom", "relationshipType": relationship(name, given.dynamic),
                  "relatedSpdxElement": f"SPDXRef-{name}"} for name in CONTAINED]
    described = {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                 "relatedSpdxElement": "SPDXRef-headroom"}
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": given.command.name, "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, digest).urn,
                "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 "creators": [f"Tool: release_contents.py-{given.version}"]},
                "packages": [whole] + [contained_package(name, packages) for name in CONTAINED],
                "relationships": [described] + contained}
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    print()


def field(text):
    """Lines of text that continue a field: each begins with a space, and an empty line is a dot."""
    return "".join(f"\n {line.rstrip() or '.'}" for line in text.splitlines())


def debian_license(license_words):
    """Debian's name of SPDX's MIT license is Expat, and its "and" is in small letters."""
    return license_words.replace("MIT", "Expat").replace(" AND ", " and ")


def linked_libraries(packages):
    for name, (_, how, license_words) in CONTAINED.items():
        if how == "STATIC_LINK":
            source, version = source_package(name, packages)
            yield f"{name} ({debian_license(license_words)}; source package {source} {version})"


def print_copyright(given):
    packages = read_packages(given.packages)
    embedded = [name for name, (_, how, _) in CONTAINED.items() if how == "CONTAINS"]
    libraries = "\n".join(linked_libraries(packages))
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: headroom")
    print(f"Source: headroom-{given.version}.tar.gz")
    print(f"Comment: The command and the library link these libraries of other packages:{field(libraries)}")
    print(f"\nFiles: *\nCopyright: {OWN_COPYRIGHT.removeprefix('Copyright ')}\nLicense: {OWN_LICENSE}")
    for name in embedded:
        source, version = source_package(name, packages)
        licenses = f"{OWN_LICENSE} and {debian_license(CONTAINED[name][2])}"
        print(f"\nFiles: */libheadroom-advice.so.*\nCopyright:{field(copyright_lines(name))}\nLicense: {licenses}")
        print(f"Comment: The library contains {name}, from the source package {source} {version}.")
    print(f"\nLicense: {OWN_LICENSE}\n On Debian systems, /usr/share/common-licenses/{OWN_LICENSE} has the text.")
    for name in embedded:
        text = (LICENSES / f"{name}.txt").read_text(encoding="utf-8")
        print(f"\nLicense: {debian_license(CONTAINED[name][2])}{field(text)}")


def print_notice(_):
    for name, (_, _, license_words) in CONTAINED.items():
        print(f"  {name:<10}{license_words:<27}licenses/{name}.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    forms = parser.add_subparsers(required=True)
    for name, function in (("spdx", print_spdx), ("copyright", print_copyright), ("notice", print_notice)):
        form = forms.add_parser(name)
        form.set_defaults(function=function)
        if name != "notice":
            form.add_argument("--version", required=True)
            form.add_argument("--packages", type=pathlib.Path, required=True)
        if name == "spdx":
            form.add_argument("--command", type=pathlib.Path, required=True)
            form.add_argument("--dynamic", action="store_true")
    given = parser.parse_args()
    without_row = {path.stem for path in LICENSES.glob("*.txt")} ^ set(CONTAINED)
    if without_row:
        sys.exit(f"release_contents: licenses/ and the table CONTAINED differ in {', '.join(sorted(without_row))}")
    given.function(given)


if __name__ == "__main__":
    main()
