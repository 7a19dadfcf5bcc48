#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes python/headroom/_bindings.py, the ctypes view of the public headers: structs, enumerators, integer macros and
signatures, as clang reads all headers below include/.

    bindings.py           writes the file
    bindings.py --check   fails if the file is another
    bindings.py --layout  prints a C program that compiles if layouts and enumerators are those of the headers

Only --layout works without clang. Enums and bools are as wide as ctypes has them. A pointer is an address (c_void_p)
but for strings, and for members and results that point to a struct whose members are known. A type that has no ctypes
equivalent is an error."""
import ctypes
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = TOP / "include"
OUTPUT = TOP / "python" / "headroom" / "_bindings.py"
SCALARS = {"_Bool": "c_bool", "bool": "c_bool"}
SCALARS.update((name, f"c_{name}") for name in ("char", "double", "float", "int"))
SCALARS.update((f"{name}_t", f"c_{name}") for name in ("int32", "int64", "uint8", "uint32", "uint64"))
SCALARS.update({"size_t": "c_size_t", "unsigned int": "c_uint32"})
MACRO = re.compile(r"^#define (HR_\w+) +([\w (<*+)-]*\d[\w (<*+)-]*?) *(?:/\*.*)?$", re.MULTILINE)
MACRO_ENUM = "macro_"  # begins the enumerators that hold macros
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Made by scripts/bindings.py from the public headers: run it after a change there."""
from ctypes import (POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)
'''


def headers():
    return sorted(INCLUDE.rglob("*.h"))


def source():
    """A translation unit with all headers, and an enumerator for each macro whose value is an integer."""
    includes = [f"#include <{path.relative_to(INCLUDE)}>\n" for path in headers()]
    macros = [name for path in headers() for name, _ in MACRO.findall(path.read_text(encoding="utf-8"))]
    return "".join(includes) + "".join(f"enum {{ {MACRO_ENUM}{name} = {name} }};\n" for name in macros)


def declarations():
    """The public declarations, in the order of the headers."""
    clang = shutil.which("clang-14") or shutil.which("clang")
    if clang is None:
        sys.exit("bindings.py: clang is not installed")
    command = [clang, "-x", "c", "-std=gnu17", f"-I{INCLUDE}", "-Xclang", "-ast-dump=json", "-fsyntax-only", "-"]
    tree = subprocess.run(command, input=source(), capture_output=True, text=True, check=False)
    if tree.returncode != 0:
        sys.exit(tree.stderr)
    return [node for node in json.loads(tree.stdout)["inner"] if is_public(node)]


def is_public(node):
    return node.get("name", "").startswith("hr_") or (node["kind"] == "EnumDecl" and any(
        inner.get("name", "").startswith(MACRO_ENUM) for inner in node.get("inner", [])))


def inner(node, kind):
    return [child for child in node.get("inner", []) if child["kind"] == kind]


def value_of(node):
    """The value of the constant expression in an enumerator, or None."""
    if node["kind"] == "ConstantExpr":
        return int(node["value"])
    values = [value for value in map(value_of, node.get("inner", [])) if value is not None]
    return values[0] if values else None


def enumerators(enum):
    """Pairs of name and value."""
    following = 0
    for node in inner(enum, "EnumConstantDecl"):
        explicit = value_of(node)
        value = following if explicit is None else explicit
        following = value + 1
        yield node["name"].removeprefix(MACRO_ENUM), value


class Types:
    """What the names of types mean: the structs with known members so far, and the typedefs of enums and functions."""

    def __init__(self, nodes):
        self.structs = set()
        self.enums = {node["name"] for node in nodes if node["kind"] == "EnumDecl" and "name" in node}
        typedefs = [node for node in nodes if node["kind"] == "TypedefDecl"]
        self.functions = {node["name"] for node in typedefs if "(*)" in node["type"]["qualType"]}

    def of(self, text, where, parameter=False):
        """The ctypes expression of a C type."""
        text = re.sub(r"\b(const|struct|enum) ?", "", text).strip()
        array = re.fullmatch(r"(.*?)((?:\[\d+\])+)", text)
        if array:
            sizes = re.findall(r"\d+", array[2])
            return " * ".join([self.of(array[1], where), *reversed(sizes)])
        if text.endswith("*"):
            return self.pointer(text[:-1].strip(), parameter)
        if text in self.functions or "(*)" in text:
            return "c_void_p"
        if text in self.structs:
            return text
        if text in self.enums:
            return "c_int"
        if text not in SCALARS:
            sys.exit(f"bindings.py: {where}: no ctypes equivalent of the type {text}")
        return SCALARS[text]

    def pointer(self, target, parameter):
        if target == "char":
            return "c_char_p"
        return f"POINTER({target})" if target in self.structs and not parameter else "c_void_p"


def struct_lines(node, types):
    yield f"\n\nclass {node['name']}(Structure):\n    _fields_ = [\n"
    for field in inner(node, "FieldDecl"):
        where = f"{node['name']}.{field.get('name')}"
        if field.get("isBitfield"):
            sys.exit(f"bindings.py: {where}: a bit field")
        yield f"        (\"{field['name']}\", {types.of(field['type']['qualType'], where)}),\n"
    yield "    ]\n"
    types.structs.add(node["name"])


def signature(node, types):
    name = node["name"]
    text = node["type"]["qualType"]
    result = text[:text.index("(")].strip()
    result = "None" if result == "void" else types.of(result, name)
    parameters = [types.of(parameter["type"]["qualType"], name, True) for parameter in inner(node, "ParmVarDecl")]
    return wrapped(f"    \"{name}\": ({result}, [", parameters)


def wrapped(head, parts):
    """The lines of one function, at most 120 columns wide."""
    lines, line = [], head
    for number, part in enumerate(parts):
        piece = part + ("" if number == len(parts) - 1 else ", ")
        if len(line + piece.rstrip()) > 116:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += piece
    return "\n".join([*lines, line + "]),\n"])


def text_of(nodes):
    types, structs, constants, functions = Types(nodes), [], {}, []
    for node in nodes:
        if node["kind"] == "EnumDecl":
            constants.update(enumerators(node))
        elif node["kind"] == "RecordDecl" and node.get("completeDefinition"):
            structs += struct_lines(node, types)
    for node in sorted(nodes, key=lambda node: node.get("name", "")):
        if node["kind"] == "FunctionDecl" and node.get("storageClass") != "static":
            functions.append(signature(node, types))
    lines = [HEAD, "\n", *(f"{name} = {value}\n" for name, value in constants.items()), *structs]
    return "".join([*lines, "\n\nFUNCTIONS = {  # name: result, parameters\n", *functions, "}\n"])


def written():
    """The module that is checked in."""
    spec = importlib.util.spec_from_file_location("_bindings", OUTPUT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layout():
    """C that compiles if sizes, offsets and enumerators of the module are those of the headers."""
    yield "#include <stddef.h>\n" + "".join(f"#include <{path.relative_to(INCLUDE)}>\n" for path in headers())
    for name, what in vars(written()).items():
        if isinstance(what, int):
            yield f"_Static_assert({name} == {what}, \"{name}\");\n"
        elif isinstance(what, type) and issubclass(what, ctypes.Structure) and what is not ctypes.Structure:
            yield f"_Static_assert(sizeof({name}) == {ctypes.sizeof(what)}, \"{name}\");\n"
            for member, _ in what._fields_:
                offset, size = getattr(what, member).offset, getattr(what, member).size
                yield (f"_Static_assert(offsetof({name}, {member}) == {offset} && "
                       f"sizeof((({name} *)0)->{member}) == {size}, \"{name}.{member}\");\n")
    yield "int main(void) { return 0; }\n"


def main():
    if sys.argv[1:] == ["--layout"]:
        print("".join(layout()))
    elif sys.argv[1:] == ["--check"]:
        if OUTPUT.read_text(encoding="utf-8") != text_of(declarations()):
            sys.exit(f"{OUTPUT.relative_to(TOP)} is not that of the headers: run scripts/bindings.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUTPUT.write_text(text_of(declarations()), encoding="utf-8")


if __name__ == "__main__":
    main()
