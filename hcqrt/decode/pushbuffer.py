"""NVIDIA command words to methods with named fields. Source: class headers through autogen, dev_ram.ref.txt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hcqrt.autogen.nv import clc7b5, clc7c0, clc56f

# header word: sec_op 31:29, count or data 28:16, subchannel 15:13, method / 4 in 11:0
NOP, INCR, NON_INCR, IMMD, ONE_INCR, END_SEGMENT = 0, 1, 3, 4, 5, 7
HOST_METHODS_END = 0x100  # offsets below are the host's, whatever the subchannel
CLASSES: Mapping[int, ModuleType] = {1: clc7c0, 4: clc7b5}


@dataclass(frozen=True)
class Method:
    """One method write. `name` as the header spells it, without its class prefix; arrays with their index."""

    subchannel: int
    offset: int
    name: str
    data: int
    fields: Mapping[str, Any]  # field -> value name where the header has one, else the number

    def __str__(self) -> str:
        shown = " ".join(
            f"{key}={value if isinstance(value, str) else f'{value:#x}'}" for key, value in self.fields.items()
        )
        return f"{self.subchannel} {self.offset:04x} {self.name} {self.data:#x}{'  ' + shown if shown else ''}"


def walk(words: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """(subchannel, method offset, data) of each write. Raises ValueError for a bad header, or one past the end."""
    stream = list(words)
    position = 0
    while position < len(stream):
        word = stream[position]
        position += 1
        op, count, subchannel, offset = word >> 29, word >> 16 & 0x1FFF, word >> 13 & 7, (word & 0xFFF) * 4
        if word == NOP:
            continue
        if op == END_SEGMENT:
            return
        if op == IMMD:
            yield subchannel, offset, count
            continue
        if op not in (INCR, NON_INCR, ONE_INCR):
            raise ValueError(f"word {position - 1}: header {word:#010x} has unknown operation {op}")
        if position + count > len(stream):
            raise ValueError(
                f"word {position - 1}: header {word:#010x} wants {count} words, {len(stream) - position} follow"
            )
        for index in range(count):
            step = index if op == INCR else min(index, 1) if op == ONE_INCR else 0
            yield subchannel, offset + 4 * step, stream[position + index]
        position += count


def decode(words: Iterable[int], classes: Mapping[int, ModuleType] = CLASSES) -> list[Method]:
    """Every write with its name and non-zero fields. An offset that the class does not have is `unknown`."""
    found = []
    for subchannel, offset, data in walk(words):
        module = clc56f if offset < HOST_METHODS_END else classes.get(subchannel)
        name, key = ("unknown", "") if module is None else method_name(module, offset)
        fields = {} if module is None else named_fields(module, key, data)
        found.append(Method(subchannel, offset, name, data, fields))
    return found


def method_name(module: ModuleType, offset: int) -> tuple[str, str]:
    """(name to show, name in the tables) of the method at `offset`. Single methods win over open arrays."""
    best = ("unknown", "", -1)
    for name, place in module.METHODS.items():
        if place == offset:
            return name, name
        if isinstance(place, tuple):
            start, stride, count = place
            index, rest = divmod(offset - start, stride)
            if not rest and index >= 0 and (count is None or index < count) and start > best[2]:
                best = (f"{name}({index})", name, start)
    return best[0], best[1]


def named_fields(module: ModuleType, method: str, data: int) -> dict[str, Any]:
    values = module.VALUES.get(method, {})
    shown: dict[str, Any] = {}
    for field, (msb, lsb) in module.FIELDS.get(method, {}).items():
        number = data >> lsb & (1 << msb - lsb + 1) - 1
        names = {value: name for name, value in values.get(field, {}).items()}
        if number:
            shown[field] = names.get(number, number)
    return shown


def to_text(words: Iterable[int]) -> str:
    """One line per method write."""
    return "".join(f"{method}\n" for method in decode(words))
