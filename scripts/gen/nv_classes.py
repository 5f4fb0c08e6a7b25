"""Texts of the class modules (cl<xxxx>.py) and of qmd.py from the open-gpu-doc class tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gen import nv_tables as tables
from gen.clang import Clang, GeneratorError, array_values, macro_values
from gen.classes import ClassTables, class_tables, qmd_tables
from gen.emit import Raw, assignments, header, literal, table
from gen.lexer import defines

# The class headers include nvtypes.h for one structure that is taken from the driver tree instead.
NVTYPES = "typedef unsigned int NvU32;\ntypedef unsigned short NvU16;\ntypedef unsigned char NvU8;\n"
TREE = "open-gpu-doc"


class ClassReader:
    """Reads headers of the class tree; `read` collects their paths inside it."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = root
        folder = scratch / "classes"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nvtypes.h").write_text(NVTYPES)
        self.clang = Clang([folder], scratch, defines=["MW(x)=x"])
        self.read: set[str] = set()

    def entries(self, path: str, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Constants that carry the prefix (without it, in file order, arrays too), and the others."""
        self.read.add(path)
        include = f'#include "{self.root / path}"\n'
        found = [d for d in defines((self.root / path).read_text(encoding="utf-8", errors="replace")) if d.body]
        values = macro_values(self.clang, include, [d.name for d in found if d.params is None])
        arrays = array_values(self.clang, include, {d.name: len(d.params) for d in found if d.params is not None})
        mine: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for define in found:
            if define.name in values:
                place = mine if define.name.startswith(prefix) else others
                place[define.name.removeprefix(prefix)] = values[define.name]
            elif define.name in arrays:
                start, strides = arrays[define.name]
                whole = (*start, *strides) if isinstance(start, tuple) else (start, *strides, None)
                mine[define.name.removeprefix(prefix)] = whole
            elif not define.name.endswith("_TYPEDEF"):
                raise GeneratorError(f"{path}: {define.name} is no integer and no bit range")
        return mine, others

    def class_text(self, number: str, folder: str) -> str:
        path = f"{folder}/cl{number}.h"
        entries, others = self.entries(path, f"NV{number.upper()}_")
        return class_text(number, f"{TREE} {path}", entries, others, host=folder == "host")

    def qmd_text(self) -> str:
        fields: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for number in tables.QMD_HEADERS:
            entries, _ = self.entries(f"compute/cl{number}qmd.h", f"NV{number.upper()}_")
            for version, (found, meanings) in qmd_tables(entries).items():
                # The first class that has a version gives it its plain name, but V03_00 is c7c0's (see QMD_HOME).
                plain = tables.QMD_HOME.get(version, number) == number and version not in fields
                key = version if plain else f"{version}@{number.upper()}"
                fields[key], values[key] = found, meanings
        return qmd_module([f"{TREE} compute/cl{n}qmd.h" for n in tables.QMD_HEADERS], fields, values)


def host_text(number: str, source: str, values: Mapping[str, Any]) -> str:
    """A host class whose header is in the driver tree."""
    prefix = f"NV{number.upper()}_"
    entries = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
    others = {n: v for n, v in values.items() if not n.startswith(prefix)}
    return class_text(number, source, entries, others, host=True)


def class_text(number: str, source: str, entries: dict[str, Any], others: Mapping[str, Any], *, host: bool) -> str:
    name = next((n for n, v in others.items() if v == int(number, 16)), None)
    if name is None:
        raise GeneratorError(f"{source}: no macro names the class number")
    constants = [n for n in entries if host and (n == "NUMBER_OF_SUBCHANNELS" or n.endswith("__SIZE"))]
    sorted_out = class_tables(entries, tables.HOST_FORMATS if host else (), constants)
    return class_module(number, name, [source], sorted_out)


def class_module(number: str, name: str, inputs: list[str], sorted_out: ClassTables) -> str:
    text = header(f"Methods of class {number}, {name}.", inputs)
    text += f"from __future__ import annotations\n\nCLASS = 0x{number.upper()}\n{name} = CLASS\n\n"
    text += assignments({f"NV{number.upper()}_{n}": _flat(v) for n, v in sorted_out.flat.items()})
    methods = {n: Raw(_flat(v) if isinstance(v, tuple) else hex(v)) for n, v in sorted_out.methods.items()}
    text += "\n# Method -> byte offset; of an array (offset, stride in bytes, count or None if not told).\n"
    text += table("METHODS", "dict[str, int | tuple[int, int, int | None]]", methods)
    text += "\n" + table("FIELDS", "dict[str, dict[str, tuple[int, int]]]", sorted_out.fields)
    return text + "\n" + table("VALUES", "dict[str, dict[str, dict[str, int]]]", sorted_out.values)


def _flat(value: Any) -> Any:
    """An array of methods begins with an offset, which is read in hexadecimal."""
    is_array = isinstance(value, tuple) and len(value) == 3
    return Raw(f"({hex(value[0])}, {value[1]}, {value[2]})") if is_array else value


def usermode_module(values: Mapping[str, Any], inputs: list[str]) -> str:
    """The register window of the usermode classes; the first of them alone declares the registers."""
    text = header("Registers of the usermode class c461, TURING_USERMODE_A; the header of c361 declares them.", inputs)
    text += "from __future__ import annotations\n\nCLASS = 0xC461\nTURING_USERMODE_A = CLASS\n\n" + assignments(values)
    prefix = "NVC361_"
    registers = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix) and "__SIZE" not in n}
    size = values[prefix + "NV_USERMODE__SIZE"]
    text += f"\nSIZE = {size}\n" + table("METHODS", "dict[str, int]", {})
    return (
        text
        + "\n# Register -> byte offset in the window.\n"
        + table("REGISTERS", "dict[str, int]", {n: Raw(hex(v)) for n, v in registers.items()})
    )


def qmd_module(inputs: list[str], fields: dict[str, Any], values: dict[str, Any]) -> str:
    text = header("QMD fields by version.", inputs) + "from __future__ import annotations\n\n"
    text += (
        "# Version -> field -> (msb, lsb), or (msb, lsb, stride in bits, ...) of an array. `V03_00@C6C0` is a version\n"
    )
    text += "# as another class declares it; without @ it is the one to use for that number.\n"
    parts: dict[str, str | None] = {key: _same(key, table_, fields, "QMD") for key, table_ in fields.items()}
    text += _aliased("QMD", "dict[str, dict[str, tuple[int, ...]]]", fields, parts)
    meanings = {key: _same(key, table_, values, "QMD_VALUES") for key, table_ in values.items()}
    text += "\n" + _aliased("QMD_VALUES", "dict[str, dict[str, dict[str, int]]]", values, meanings)
    sizes: dict[str, int] = {}
    for key, table_ in fields.items():
        sizes[key[:3]] = max(sizes.get(key[:3], 0), _size_bytes(table_))
    shown = {key: Raw(str(sizes[key[:3]])) for key in fields}
    return text + "\n# Bytes of the structure.\n" + table("SIZES", "dict[str, int]", shown)


def _same(key: str, value: Any, known: dict[str, Any], name: str) -> str | None:
    """Text that refers to the plain version where this class declares nothing else."""
    plain = key.split("@")[0]
    return f'{name}["{plain}"]' if plain != key and known.get(plain) == value else None


def _aliased(name: str, annotation: str, values: dict[str, Any], shown: dict[str, str | None]) -> str:
    text = table(name, annotation, {k: v for k, v in values.items() if shown[k] is None})
    return text + "".join(f"{name}[{literal(k)}] = {ref}\n" for k, ref in shown.items() if ref is not None)


def _size_bytes(fields: dict[str, tuple[int, ...]]) -> int:
    """The highest bit, rounded up to the 128 bytes in which the structure grows (one size for a major version)."""
    return -(-(max(f[0] for f in fields.values()) + 1) // 1024) * 128
