"""Read msm_kgsl.h: constants, records and ioctls, and print hcqrt/autogen/qcom/kgsl_*.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gen.clang import Clang, GeneratorError, macro_values
from gen.emit import Raw, assignments, header
from gen.lexer import Define, defines
from gen.structs import Printer, records

PREFIX = "IOCTL_KGSL_"
GENERATOR = "gen_kgsl"

# What the header wants of the kernel's own headers: fixed-width types, and how a request number is put together
# (asm-generic/ioctl.h: direction 31:30, size 29:16, type 15:8, number 7:0; write is 1, read is 2, seen from the user).
KERNEL_HEADERS = {
    "linux/types.h": "#pragma once\n#define __user\n"
    + "".join(
        f"typedef signed {c} __s{n};\ntypedef unsigned {c} __u{n};\n"
        for c, n in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
    )
    + "typedef unsigned long __kernel_size_t;\n",
    "linux/ioctl.h": "#pragma once\n"
    "#define _IOC(way, type, nr, size) ((unsigned)(way) << 30 | (size) << 16 | (type) << 8 | (nr))\n"
    "#define _IOW(type, nr, record) _IOC(1, type, nr, sizeof(record))\n"
    "#define _IOR(type, nr, record) _IOC(2, type, nr, sizeof(record))\n"
    "#define _IOWR(type, nr, record) _IOC(3, type, nr, sizeof(record))\n",
}

_STRUCT = re.compile(r"\bstruct\s+(kgsl_\w+)\s*\{")
_CALL = re.compile(r"_IO(?:W|R|WR)\s*\(\s*KGSL_IOC_TYPE\s*,\s*\w+\s*,\s*(struct\s+kgsl_\w+|__u32)\s*\)$")

# The one call whose argument is no record: Ioctl wants one, so a record of that one word stands for it.
WORD = "kgsl_u32"


@dataclass(frozen=True)
class Call:
    """One ioctl of the header."""

    name: str
    request: int
    record: str


class Header:
    """What the header says."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8")
        names = list(dict.fromkeys(_STRUCT.findall(text)))
        macros = [d for d in defines(text) if d.params is None and d.body and not d.name.startswith("_")]
        typedefs = "".join(f"typedef struct {name} {name};\n" for name in names)
        prefix = f'#include "{path}"\n{typedefs}typedef struct {{ __u32 value; }} {WORD};\n'
        clang = Clang([], scratch, headers=KERNEL_HEADERS)
        values = macro_values(clang, prefix, [d.name for d in macros])
        calls = [d for d in macros if d.name.startswith(PREFIX)]
        self.calls = [self._call(d, values) for d in calls]
        self.consts = {d.name: unsigned(values[d.name]) for d in macros if d.name in values and d not in calls}
        for constant in clang.enum_constants(clang.checked(prefix)):
            self.consts[constant.spelling] = unsigned(constant.enum_value)
        self.records, self.names = records(clang, prefix, [*names, WORD])
        missing = [d.name for d in macros if d.name not in values]
        missing += [name for name in names if name not in self.records]
        if missing or not calls:
            what = ", ".join(missing) or "no ioctls"
            raise GeneratorError(f"{path} is no msm_kgsl.h that this generator knows: {what}")

    def _call(self, macro: Define, values: dict[str, Any]) -> Call:
        match = _CALL.search(macro.body)
        request = values.get(macro.name)
        if match is None or not isinstance(request, int):
            raise GeneratorError(f"{macro.name} is no ioctl of one record: {macro.body}")
        record = match.group(1).split()[-1]
        return Call(macro.name, request & 0xFFFFFFFF, WORD if record == "__u32" else record)


def unsigned(value: Any) -> int:
    """The header's constants are numbers and masks of unsigned fields: what C makes a negative int has bit 31 set."""
    if not isinstance(value, int) or value < -(1 << 31):
        raise GeneratorError(f"a constant of msm_kgsl.h is {value!r}")
    return value & 0xFFFFFFFF if value < 0 else value


def structs_text(kgsl: Header, tree: list[str]) -> str:
    printer = Printer(kgsl.names)
    for name, cls in kgsl.records.items():
        printer.add(cls, name)
    text = header("Records of msm_kgsl.h (64-bit, little endian; pointers are integers).", tree, GENERATOR)
    used = {word for record in printer.done.values() for word in re.findall(r"\bc_\w+", record.body)}
    kinds = sorted({record.kind for record in printer.done.values()})
    text += f"from __future__ import annotations\n\nfrom ctypes import {', '.join([*kinds, *sorted(used)])}\n"
    return text + "".join(f"\n\nclass {r.name}({r.kind}):\n{r.body}" for r in printer.done.values())


def consts_text(kgsl: Header, tree: list[str]) -> str:
    text = header("Constants of msm_kgsl.h.", tree, GENERATOR)
    return text + "from __future__ import annotations\n\n" + assignments(kgsl.consts)


def ioctls_text(kgsl: Header, tree: list[str]) -> str:
    """Ioctl objects in order of their numbers, and a table by number without the superseded *_OLD ones."""
    calls = sorted(kgsl.calls, key=lambda call: (call.request & 0xFF, call.name))
    used = sorted({call.record for call in calls})
    text = header("The ioctls of msm_kgsl.h.", tree, GENERATOR)
    text += "from __future__ import annotations\n\nfrom hcqrt.autogen.qcom.kgsl_structs import (\n"
    text += "".join(f"    {name},\n" for name in used) + ")\nfrom hcqrt.ioctl import Ioctl\n\n"
    for call in calls:
        text += f'{call.name[len(PREFIX) :]} = Ioctl("{call.name}", 0x{call.request:08X}, {call.record})\n'
    by_number: dict[int, Raw] = {}
    for call in calls:
        if call.name.endswith("_OLD"):
            continue
        if call.request & 0xFF in by_number:
            raise GeneratorError(f"{call.name} has the number of {by_number[call.request & 0xFF]}")
        by_number[call.request & 0xFF] = Raw(call.name[len(PREFIX) :])
    text += "\n# By number, which is all that the kernel dispatches on.\nIOCTLS: dict[int, Ioctl] = {\n"
    return text + "".join(f"    0x{nr:02X}: {name},\n" for nr, name in by_number.items()) + "}\n"
