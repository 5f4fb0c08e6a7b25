"""Engine classes as the emulated GPU sees them: methods by offset, and which data each may have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from hcqrt.emu.nv.trouble import Refused

ONE = 4  # bytes from one method to the next


@dataclass(frozen=True)
class Method:
    """One method of a class; an element of an array has its `index`."""

    name: str
    index: int
    offset: int
    known_mask: int
    fields: dict[str, tuple[int, int]]  # name -> (lsb, mask after the shift)
    values: dict[str, frozenset[int]]  # fields that are enumerations

    @property
    def text(self) -> str:
        return f"{self.name}({self.index})" if self.index >= 0 else self.name


def names(text: str) -> frozenset[str]:
    """A set of names written as one text."""
    return frozenset(text.split())


def mask_of(msb: int, lsb: int) -> int:
    return ((1 << (msb - lsb + 1)) - 1) << lsb


class ClassTable:
    """Methods of one class by byte offset, made from its generated module."""

    def __init__(self, module: Any, number: int) -> None:
        self.number = number
        self.methods: dict[int, Method] = {}
        for name, place in module.METHODS.items():
            declared = module.FIELDS.get(name, {}).items()
            fields = {field: (WIDER.get((number, name, field), msb), lsb) for field, (msb, lsb) in declared}
            known = 0
            for bits in fields.values():
                known |= mask_of(*bits)
            spans = {field: (lsb, mask_of(msb - lsb, 0)) for field, (msb, lsb) in fields.items()}
            values = {
                field: frozenset(v.values())
                for field, v in module.VALUES.get(name, {}).items()
                if covers_field(name, field)
            }
            first, stride, count = (place, ONE, None) if isinstance(place, int) else place
            for index in range(count or 1):
                at = first + index * stride
                self.methods[at] = Method(name, index if count else -1, at, known, spans, values)

    def method(self, offset: int, code: int) -> Method:
        found = self.methods.get(offset)
        if found is None:
            raise Refused(code, f"class {self.number:#x} has no method {offset:#x}")
        return found

    def decode(self, method: Method, data: int, code: int) -> dict[str, int]:
        """Fields of `data`. Refused: bits outside every field, values that an enumeration does not have."""
        if data & ~method.known_mask:
            raise Refused(
                code,
                f"class {self.number:#x} {method.text} ({method.offset:#x}) = {data:#010x}:"
                f" bits {data & ~method.known_mask:#x} belong to no field",
            )
        fields = {name: data >> lsb & mask for name, (lsb, mask) in method.fields.items()}
        for name, allowed in method.values.items():
            if fields[name] not in allowed:
                raise Refused(
                    code,
                    f"class {self.number:#x} {method.text} ({method.offset:#x}) = {data:#010x}:"
                    f" {name} = {fields[name]:#x} is no known value",
                )
        return fields


def covers_field(method: str, field: str) -> bool:
    """Whether a header's list of values is the whole enumeration: single names for special values are not."""
    return (method, field) != ("SET_OBJECT", "ENGINE")  # only SW is named; the rest are engine numbers


# Classes with the methods of another one. The headers of channel classes from c86f on list a part of them only.
SAME_METHODS = {0xC86F: 0xC56F, 0xC96F: 0xC56F, 0xCA6F: 0xC56F}
# Fields that are wider there: (class, method, field) -> last bit
WIDER = {(number, "SEM_ADDR_HI", "OFFSET"): 24 for number in (0xC86F, 0xC96F, 0xCA6F)}


@cache
def class_table(number: int) -> ClassTable | None:
    """The table of a class number, or None for a class whose methods are not known here."""
    name = f"hcqrt.autogen.nv.cl{SAME_METHODS.get(number, number):04x}"
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    return ClassTable(module, number)
