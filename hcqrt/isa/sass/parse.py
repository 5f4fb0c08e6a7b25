"""Reads one instruction from its text: tries the rows of its mnemonic until suffixes and operands all find a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from .codec import encode, matching_rows
from .families import family
from .memory_slots import BindlessSlot, ConstSlot, IndexSlot, MemSlot, TargetSlot
from .model import (
    PT,
    RZ,
    Barrier,
    Bindless,
    Const,
    Instruction,
    Mem,
    Num,
    Operand,
    Pred,
    Reg,
    SassError,
    Sched,
    SpecialReg,
    Target,
    UPred,
    UReg,
    Value,
)
from .names import SPECIAL
from .numbers import parse_immediate, parse_integer
from .row import ModField, Row
from .slots import EitherPredSlot, ImmSlot, NumSlot, PredSlot, RegSlot, Slot, URegSlot
from .text import text

INSTRUCTION_BYTES = 16
SPECIAL_NUMBERS = {name: index for index, name in SPECIAL.items()}
Resolver = Callable[[str], int]  # label or number -> byte address

REGISTER = re.compile(r"(U?)R(Z|\d+)$")
MODIFIED = re.compile(r"(-?)(~?)(\|)?(.+?)(?(3)\|)((?:\.(?:reuse|F32|H0_H0|H1_H1|H1))*)$")
INNER_HALF = re.compile(r"(.+)\.(F32|H0_H0|H1_H1|H1)$")
CONSTANT = re.compile(r"(cx?)\[(.+?)\] ?\[(.+)\]$")
ADDRESS = re.compile(r"(?:desc\[(UR\d+|URZ)\])?\[(.+)\]$")
TERM = re.compile(r"(U?R(?:Z|\d+))(\.64|\.U32)?(?:\.X(4|8|16))?$")


def split_operands(line: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(line):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(line[start:at].strip())
            start = at + 1
    tail = line[start:].strip()
    return [*parts, tail] if tail or parts else []


class OperandReader:
    """Reads operands of one row. `pc`: byte address of the instruction, `resolve`: labels."""

    def __init__(self, sm: int, pc: int, resolve: Resolver) -> None:
        self.urz = family(sm).urz
        self.pc = pc
        self.resolve = resolve
        self.reuse = 0

    def register(self, name: str) -> Reg | UReg:
        match = REGISTER.match(name)
        if match is None:
            raise SassError(f"{name!r} is no register")
        zero = self.urz if match[1] else RZ
        number = zero if match[2] == "Z" else int(match[2])
        if number >= zero and match[2] != "Z":
            raise SassError(f"{name}: there are {zero} such registers")
        return (UReg if match[1] else Reg)(number)

    def predicate(self, name: str) -> Pred | UPred:
        match = re.match(r"(!?)(U?)P(T|[0-6])$", name)
        if match is None:
            raise SassError(f"{name!r} is no predicate")
        return (UPred if match[2] else Pred)(PT if match[3] == "T" else int(match[3]), bool(match[1]))

    def source(self, name: str, slot: Slot) -> Reg | UReg | Const | Bindless:
        match = MODIFIED.match(name)
        if match is None:
            raise SassError(f"{name!r} is no source operand")
        core, tail = match[4], match[5].split(".")
        inner = INNER_HALF.match(core)
        if inner is not None:
            core, tail = inner[1], [*tail, inner[2]]
        if "reuse" in tail:
            self.reuse |= slot.reuse if isinstance(slot, RegSlot) else 0
        half = next((item for item in tail if item and item != "reuse"), "")
        operand = self.constant(core, slot) if core.startswith("c") else self.register(core)
        return replace(operand, neg=bool(match[1]), inv=bool(match[2]), abs=bool(match[3]), half=half)

    def constant(self, name: str, slot: Slot) -> Const | Bindless:
        match = CONSTANT.match(name)
        if match is None:
            raise SassError(f"{name!r} is no constant")
        index: Reg | UReg | None = None
        offset = 0
        for term in match[3].split("+"):
            if REGISTER.match(term):
                index = self.register(term)
            else:
                offset = parse_integer(term)
        if match[1] == "cx":
            handle = self.register(match[2])
            if not isinstance(handle, UReg) or isinstance(index, UReg):
                raise SassError(f"{name!r}: cx takes a uniform register, then a general one")
            return Bindless(handle, offset, index=index)
        if index is None and not (isinstance(slot, ConstSlot) and slot.index_lsb >= 0):
            offset &= 0xFFFF  # printed signed, stored as the position in the bank
        return Const(parse_integer(match[2]), offset, index=index)

    def memory(self, name: str, slot: MemSlot) -> Mem:
        match = ADDRESS.match(name)
        if match is None:
            raise SassError(f"{name!r} is no address")
        found = Mem(Reg(RZ))
        for term in match[2].split("+"):
            part = TERM.match(term)
            if part is None:
                offset = parse_integer(term)
                limit = 1 << slot.offset_width
                found = replace(found, offset=offset - limit if limit // 2 <= offset < limit else offset)
                continue
            register = self.register(part[1])
            if isinstance(register, UReg):
                found = replace(found, ureg=register)
            else:
                found = replace(found, base=register, wide=part[2] == ".64", scale=int(part[3] or 1))
        if match[1]:
            descriptor = self.register(match[1])
            assert isinstance(descriptor, UReg)
            found = replace(found, ureg=descriptor, descriptor=True)
        return found

    def index(self, name: str, slot: IndexSlot) -> Operand:
        if slot.kind is SpecialReg:
            if name in SPECIAL_NUMBERS:
                return SpecialReg(SPECIAL_NUMBERS[name])
            prefix = "SR"
        else:
            prefix = "B" if slot.kind is Barrier else "SB"
        match = re.match(rf"{prefix}(\d+)$", name)
        if match is None:
            raise SassError(f"{name!r} is no {slot.kind.__name__}")
        return slot.kind(int(match[1]))

    def operand(self, slot: Slot, piece: str, mods: Mapping[str, Value]) -> Operand:
        if isinstance(slot, (RegSlot, URegSlot, ConstSlot, BindlessSlot)):
            return self.source(piece, slot)
        if isinstance(slot, (PredSlot, EitherPredSlot)):
            return self.predicate(piece)
        if isinstance(slot, ImmSlot):
            return parse_immediate(piece, slot.kind_for(mods))
        if isinstance(slot, NumSlot):
            return Num(parse_integer(piece))
        if isinstance(slot, MemSlot):
            return self.memory(piece, slot)
        if isinstance(slot, IndexSlot):
            return self.index(piece, slot)
        assert isinstance(slot, TargetSlot)
        address = self.resolve(piece)
        return Target(address if slot.style == "D" else address - self.pc - INSTRUCTION_BYTES)

    def default(self, slot: Slot) -> Operand | None:
        """What an operand is that the text leaves out, or None when it must be there."""
        if slot.shown is None:
            return None
        if isinstance(slot, PredSlot):
            return (UPred if slot.uniform else Pred)(PT, "X" in slot.shown.split("&"))
        if isinstance(slot, RegSlot):
            return Reg(RZ)
        if isinstance(slot, URegSlot):
            return UReg(self.urz)
        return Num(int(slot.shown[1:]) if slot.shown.startswith("<") else 0)


def _suffixes(rest: str, items: tuple[ModField | str, ...]) -> Iterator[dict[str, Value]]:
    """All ways to read `.A.B` as the suffix fields of a row."""
    if not items:
        if not rest:
            yield {}
        return
    item, tail = items[0], items[1:]
    if isinstance(item, str):
        if rest == f".{item}" or rest.startswith(f".{item}."):
            yield from _suffixes(rest[len(item) + 1 :], tail)
        return
    values: list[Value] = [True, False] if item.names is None else list(item.codes)
    for value in values:
        printed = item.text(value)
        if not printed or rest == printed or rest.startswith(printed + "."):
            meant = value if item.names is None else item.names[item.codes[str(value)]]
            for mods in _suffixes(rest[len(printed) :], tail):
                yield {item.name: meant, **mods}


def _operands(
    reader: OperandReader, slots: tuple[Slot, ...], pieces: list[str], mods: Mapping[str, Value]
) -> Iterator[dict[str, Operand]]:
    if not slots:
        if not pieces:
            yield {}
        return
    slot = slots[0]
    pair = isinstance(slot, ImmSlot) and slot.kind_for(mods) in ("f16", "bf16")
    count = 2 if pair else 1
    if len(pieces) >= count:
        try:
            operand = reader.operand(slot, ", ".join(pieces[:count]), mods)
        except SassError:
            pass  # not what this slot holds; it may be left out, or another row fits
        else:
            for rest in _operands(reader, slots[1:], pieces[count:], mods):
                yield {slot.name: operand, **rest}
    default = reader.default(slot)
    if default is not None:
        for rest in _operands(reader, slots[1:], pieces, mods):
            yield {slot.name: default, **rest}


def _names(name: str) -> Iterator[tuple[str, str]]:
    """`A.B.C` as mnemonic and suffix, longest mnemonic first; the aliases of IMAD are dropped."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        yield ".".join(parts[:count]), "".join(f".{part}" for part in parts[count:])
    if parts[0] == "IMAD" and len(parts) > 1 and parts[1] in ("MOV", "SHL", "IADD"):
        yield "IMAD", "".join(f".{part}" for part in parts[2:])


def _pieces(row: Row, operands: str) -> list[str]:
    pieces = split_operands(operands)
    if any(isinstance(slot, TargetSlot) and slot.style != "T" for slot in row.slots) and pieces:
        pieces = [*pieces[:-1], *pieces[-1].split()]
    return pieces


def _candidates(name: str, operands: str, guard: Pred | UPred, reader: OperandReader, sm: int) -> Iterator[Instruction]:
    for mnemonic, suffix in _names(name):
        for known in matching_rows(mnemonic, sm):
            row = known.row
            for mods in _suffixes(suffix, row.suffix):
                for args in _operands(reader, row.slots, _pieces(row, operands), mods):
                    fitting = UPred if row.uniform_guard else Pred
                    own_guard = fitting(guard.index) if guard == Pred(PT) else guard
                    yield Instruction(sm, row.opcode, mnemonic, mods, args, own_guard, Sched(reuse=reader.reuse))


def parse(line: str, sm: int, pc: int = 0, resolve: Resolver = parse_integer) -> Instruction:
    """The instruction that prints as `line` at byte address `pc`.

    Also read: labels as targets (through `resolve`), `desc[URn][...]`, IMAD without its printed alias.

    Raises:
        SassError: no row of the table fits.
    """
    line = " ".join(line.split()).rstrip("; ")
    match = re.match(r"(?:@(\S+) )?(\S+) ?(.*)$", line)
    if match is None:
        raise SassError(f"{line!r} is no instruction")
    reader = OperandReader(sm, pc, resolve)
    guard = reader.predicate(match[1]) if match[1] else Pred(PT)
    fallback = None
    for inst in _candidates(match[2], match[3], guard, reader, sm):
        try:
            encode(inst)
        except SassError:
            continue  # a value does not fit this row
        if text(inst, pc) == line:
            return inst
        fallback = fallback or inst
    if fallback is None:
        raise SassError(f"sm_{sm}: no instruction has the form {line!r}")
    return fallback
