"""Adreno command words to packets, registers and fields by name. Source: rnndb through autogen, qcom facts 2."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.qcom import a6xx, a7xx

LAYOUTS = {"CP_LOAD_STATE6_FRAG": "CP_LOAD_STATE6", "CP_LOAD_STATE6_GEOM": "CP_LOAD_STATE6"}  # one layout, many names
LAST_DWORD_REPEATS = {"CP_MEM_WRITE": "DATA", "CP_NOP": "DATA"}
GENERATIONS = {"a6xx": a6xx, "a7xx": a7xx}
Fields = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Item:
    """One word that a packet carries: what it is called, its value, its fields (a name where the enum has one)."""

    name: str
    value: int
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        shown = [
            f"{key}={value if isinstance(value, str) else f'{value:#x}'}" for key, value in self.fields.items() if key
        ]
        return f"{self.name} {self.value:#x}{'  ' + ' '.join(shown) if shown else ''}"


@dataclass(frozen=True)
class Packet:
    """One packet. `register` is the first one of a write, `opcode` that of a command; the other is None."""

    position: int  # of its header, in words
    register: int | None
    opcode: int | None
    name: str  # of a command; "write" else
    items: tuple[Item, ...]

    def __str__(self) -> str:
        if self.register is not None:
            return "\n".join(f"{self.register + index:04x} {item}" for index, item in enumerate(self.items))
        return "\n".join([self.name, *(f"     {item}" for item in self.items)])


def parity_holds(header: int, *parts: tuple[int, int]) -> bool:
    """Whether each field, beside its parity bit, has an odd number of ones. Parts: mask of the field, parity bit."""
    return all(bin(header & (mask | 1 << bit)).count("1") % 2 for mask, bit in parts)


def walk(words: Iterable[int]) -> Iterator[tuple[int, int | None, int | None, list[int]]]:
    """(position, register, opcode, payload) of each packet. Raises ValueError for a bad header, or one past the end."""
    stream = list(words)
    at = 0
    while at < len(stream):
        header = stream[at]
        kind = header >> 28
        register = opcode = None
        if kind == 4 and parity_holds(header, (0x7F, 7), (0x3FFFF << 8, 27)) and not header & 0x0400_0000:
            count, register = header & 0x7F, header >> 8 & 0x3FFFF
        elif kind == 7 and parity_holds(header, (0x3FFF, 15), (0x7F << 16, 23)) and not header & 0x0F00_4000:
            count, opcode = header & 0x3FFF, header >> 16 & 0x7F
        else:
            raise ValueError(f"word {at}: {header:#010x} is no packet header: its type or a parity bit is wrong")
        if at + 1 + count > len(stream):
            raise ValueError(f"word {at}: header {header:#010x} wants {count} words, {len(stream) - at - 1} follow")
        yield at, register, opcode, stream[at + 1 : at + 1 + count]
        at += 1 + count


def decode(words: Iterable[int], generation: str = "a6xx") -> list[Packet]:
    """Every packet with its fields that are not zero. What the tables do not know is called `unknown`."""
    found, names = [], _names(generation)
    for at, register, opcode, payload in walk(words):
        if register is not None:
            found.append(Packet(at, register, None, "write", tuple(names.written(register, payload))))
        elif opcode is not None:
            name = names.opcodes.get(opcode, f"unknown {opcode:#x}")
            found.append(Packet(at, None, opcode, name, tuple(names.carried(name, payload))))
    return found


def to_text(words: Iterable[int], generation: str = "a6xx") -> str:
    """One line per register and per payload word, commands on a line of their own."""
    return "".join(f"{packet}\n" for packet in decode(words, generation))


class Names:
    """The tables of one generation, by number."""

    def __init__(self, tables: Any) -> None:
        self.tables = tables
        self.opcodes = {number: name for name, number in tables.OPCODES.items()}
        self.events = {number: name for name, number in tables.EVENTS.items()}
        places = []  # (offset, words, name, fields) of every register and array element
        for name, (offset, fields) in tables.REGISTERS.items():
            places.append((offset, word_count(fields), name, fields))
        for name, (offset, stride, count, fields) in tables.ARRAYS.items():
            nwords = min(stride, word_count(fields))
            places += [(offset + stride * n, nwords, f"{name}[{n}]", fields) for n in range(count)]
        self._places: list[tuple[int, int, str, Fields]] = sorted(places, key=lambda place: place[0])
        self._offsets = [place[0] for place in self._places]

    def written(self, register: int, payload: Sequence[int]) -> Iterator[Item]:
        """The registers that a write sets, one item for each word."""
        for index, value in enumerate(payload):
            name, fields, half = self.register_at(register + index)
            if half or (fields and next(iter(fields.values()))[0] > 31):  # a half of a 64-bit register
                yield Item(f"{name}_{'HI' if half else 'LO'}", value, {})
            else:
                yield Item(name, value, self.named(value, fields, self.tables.TYPES.get(name, {})))

    def register_at(self, offset: int) -> tuple[str, Fields, int]:
        """(name, fields, which word of it) of the register at `offset`."""
        index = bisect.bisect_right(self._offsets, offset) - 1
        if index >= 0:
            start, nwords, name, fields = self._places[index]
            if offset < start + nwords:
                return name, fields, offset - start
        return "unknown", {}, 0

    def carried(self, packet: str, payload: Sequence[int]) -> Iterator[Item]:
        """The payload of a command, one item for each word."""
        layout = self.tables.PACKETS.get(LAYOUTS.get(packet, packet), {})
        types = self.tables.WORD_TYPES.get(LAYOUTS.get(packet, packet), {})
        when = self.tables.WHEN.get(packet, {})
        modes: set[Any] = set()
        for index, value in enumerate(payload):
            fields = layout.get(index, {})
            whole = self.named(value, fields, types.get(index, {}), zeros=True)
            modes |= {mode for mode in whole.values() if isinstance(mode, str)}
            counts = {
                field: mode
                for field, mode in whole.items()
                if field and value >> fields[field][1] & (1 << fields[field][0] - fields[field][1] + 1) - 1
                if not when.get(index, {}).get(field) or modes & set(when[index][field])
            }
            name = next(iter(fields)) if len(fields) == 1 and "" not in fields else LAST_DWORD_REPEATS.get(packet, "-")
            yield Item(name, value, {} if name in fields else counts)

    def named(self, word: int, fields: Fields, types: Mapping[str, str], *, zeros: bool = False) -> dict[str, Any]:
        """Fields of a word as they were meant: shifts undone, enums by name. Those that are 0 only with `zeros`."""
        shown: dict[str, Any] = {}
        for field, (msb, lsb, shr) in fields.items():
            number = (word >> lsb & (1 << msb - lsb + 1) - 1) << shr
            if not number and not zeros:
                continue
            kind = types.get(field, "")
            if kind == "vgt_event_type":
                shown[field] = self.events.get(number, number)
                continue
            names = {value: name for name, value in self.tables.ENUMS.get(kind, {}).items()}
            shown[field] = names.get(number, number)
        return shown


def word_count(fields: Fields) -> int:
    return 2 if any(msb > 31 for msb, _, _ in fields.values()) else 1


@functools.cache
def _names(generation: str) -> Names:
    return Names(GENERATIONS[generation])
