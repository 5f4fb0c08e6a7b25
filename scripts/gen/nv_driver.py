"""Read one driver tree: constants, status codes, class and control numbers, and records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gen import nv_tables as tables
from gen.clang import Clang, GeneratorError, Value, macro_values
from gen.lexer import defines
from gen.structs import Printer, Record, records

_NUMBER = re.compile(r"cl([0-9a-f]{4})\.h$")


def version_tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@dataclass
class Driver:
    """What the headers of one driver version say. Paths are relative to the tree's root."""

    version: str
    consts: dict[str, Value] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    robust: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    usermode: dict[str, Value] = field(default_factory=dict)
    hosts: dict[str, dict[str, Value]] = field(
        default_factory=dict
    )  # host class -> its constants, in the header's order
    records: dict[str, Record] = field(default_factory=dict)
    typedefs: dict[str, str] = field(default_factory=dict)  # curated name -> the record that it stands for
    read: dict[str, str] = field(default_factory=dict)  # path -> sha256
    headers: tuple[str, ...] = ()  # every header name of the tree
    source: str = ""  # where it comes from, if not from a tree


def header_names(root: Path) -> Iterator[str]:
    """Every header under the include folders of a tree."""
    for folder in tables.INCLUDES:
        yield from (path.relative_to(root).as_posix() for path in sorted((root / folder).rglob("*.h")))


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def reads_alike(known: Driver, root: Path) -> bool:
    """Whether a tree says what `known` says: the files that were read are equal, and no header came or went."""
    return known.headers == tuple(header_names(root)) and all(sha256_of(root / p) == s for p, s in known.read.items())


class DriverReader:
    """Fills a Driver."""

    def __init__(self, version: str, root: Path, scratch: Path) -> None:
        self.driver = Driver(version, headers=tuple(header_names(root)))
        self.root = root
        self.clang = Clang([root / folder for folder in tables.INCLUDES], scratch)

    def read(self) -> Driver:
        wanted = [h for h in tables.CONST_HEADERS if (self.root / h).exists()]
        classes = sorted(p.relative_to(self.root).as_posix() for p in (self.root / tables.CLASS_FOLDER).glob("cl*.h"))
        if not wanted or not classes:
            raise GeneratorError(f"driver {self.driver.version}: no headers of open-gpu-kernel-modules in this tree")
        extra = [h for h in tables.STRUCT_HEADERS if (self.root / h).exists()]
        listed = [h for h in (tables.CLASS_LIST,) if (self.root / h).exists()]
        prefix = self.includes([*wanted, *extra, *classes, *listed])
        self.note(prefix)
        self.consts(prefix, wanted)
        self.class_numbers(prefix, classes)
        self.class_list(prefix, listed)
        self.faults()
        self.status()
        self.records(prefix)
        return self.driver

    def records(self, prefix: str) -> None:
        classes, names = records(self.clang, prefix, tables.STRUCTS)
        printer = Printer(names)
        self.driver.typedefs = {name: printer.add(cls, name) for name, cls in classes.items()}
        self.driver.records = printer.done

    def includes(self, headers: list[str]) -> str:
        return "".join(f'#include "{self.root / header}"\n' for header in headers)

    def note(self, prefix: str) -> None:
        """Remember every file of the tree that the text reads."""
        unit = self.clang.checked(prefix)  # an include's file name lives in its unit and does not keep it alive
        for include in unit.get_includes():
            path = Path(str(include.include.name)).resolve()
            if path.is_relative_to(self.root.resolve()):
                self.driver.read[path.relative_to(self.root.resolve()).as_posix()] = sha256_of(path)

    def macros(self, header: str) -> list[str]:
        """Object-like macros of a header that have a body."""
        text = (self.root / header).read_text(encoding="utf-8", errors="replace")
        return [d.name for d in defines(text) if d.params is None and d.body and not d.name.startswith("_")]

    def consts(self, prefix: str, headers: list[str]) -> None:
        wanted = dict.fromkeys(name for header in headers for name in self.macros(header))
        for header, names in tables.EXTRA_CONSTS.items():
            if (self.root / header).exists():
                wanted |= dict.fromkeys(names)
        self.driver.consts |= macro_values(self.clang, prefix, list(wanted))
        files = {(self.root / header).resolve() for header in headers}
        for constant in self.clang.enum_constants(self.clang.checked(prefix)):
            if Path(str(constant.location.file)).resolve() in files:
                self.driver.consts[constant.spelling] = constant.enum_value

    def class_numbers(self, prefix: str, headers: list[str]) -> None:
        """A class header names its number by a macro without the NVxxxx_ prefix."""
        numbers = {h: int(m.group(1), 16) for h in headers if (m := _NUMBER.search(h))}
        names = {h: self.macros(h) for h in numbers}
        values = macro_values(self.clang, prefix, list(dict.fromkeys(n for found in names.values() for n in found)))
        for header, wanted in numbers.items():
            tag = f"NV{wanted:04X}"
            for name in names[header]:
                if values.get(name) == wanted and not name.upper().startswith(tag):
                    self.driver.classes[name] = wanted
            if f"{wanted:04x}" in tables.DRIVER_HOSTS:
                self.driver.hosts[f"{wanted:04x}"] = {n: values[n] for n in names[header] if n in values}
            if wanted & 0xFF == 0x61:
                self.driver.usermode |= {n: values[n] for n in names[header] if n in values and n.startswith(tag + "_")}

    def class_list(self, prefix: str, headers: list[str]) -> None:
        for header in headers:
            for name, value in macro_values(self.clang, prefix, self.macros(header)).items():
                if isinstance(value, int) and not name.startswith("SDK_"):
                    self.driver.classes.setdefault(name, value)
        self.driver.consts |= self.driver.classes

    def faults(self) -> None:
        for header in tables.FAULT_HEADERS:
            if (self.root / header).exists():
                prefix = self.includes([header])
                self.note(prefix)
                names = [n for n in self.macros(header) if n.startswith(tables.FAULT_PREFIX)]
                for name, value in macro_values(self.clang, prefix, names).items():
                    self.driver.consts.setdefault(name, value)

    def status(self) -> None:
        codes = (
            "#define NV_STATUS_CODE(name, code, text) name = (code),\n"
            f'enum hcqrt_status {{\n#include "{self.root / tables.STATUS_HEADER}"\n}};\n'
        )
        self.note(codes)
        for constant in self.clang.enum_constants(self.clang.checked(codes)):
            self.driver.status[constant.spelling] = constant.enum_value
        prefix = self.includes([tables.ERROR_HEADER])
        self.note(prefix)
        values = macro_values(self.clang, prefix, self.macros(tables.ERROR_HEADER))
        self.driver.robust = {n: v for n, v in values.items() if isinstance(v, int) and n.startswith("ROBUST_CHANNEL_")}
