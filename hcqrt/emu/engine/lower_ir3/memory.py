"""Loads, stores and atomics by address: global, workgroup (local) and private memory, and constant buffers.

Every element is an access of its own, as wide as the type: narrow ones live in half registers, zero-extended when they
are loaded. A load whose results cover its address reads the address first.
"""

from __future__ import annotations

from typing import NamedTuple

from ....isa.ir3 import Imm, Operand, Reg, Scaled
from .. import uops as u
from .convert import following
from .lowering import ALWAYS, ZERO, Lowering, Source, immediate, lowers, register
from .registers import UBOS

# Bytes and width of an element. How a wide byte (u8_32) is extended is not known.
ELEMENTS = {
    "u8": (1, u.W_U8), "u16": (2, u.W_U16), "s16": (2, u.W_U16), "f16": (2, u.W_U16),
    "u32": (4, u.W_32), "s32": (4, u.W_32), "f32": (4, u.W_32),
}  # fmt: skip
OPERATIONS = {
    "add": u.AT_ADD, "sub": u.AT_ADD, "xchg": u.AT_EXCH, "cmpxchg": u.AT_CAS, "min": u.AT_MIN, "max": u.AT_MAX,
    "and": u.AT_AND, "or": u.AT_OR, "xor": u.AT_XOR,
}  # fmt: skip
ATOMIC_TYPES = {"u32": u.AT_U32, "s32": u.AT_S32}
ONE_WORD = {"typed": "untyped", "dims": 1, "components": 1}
UBO_ROW, VECTOR_BYTES = 16, 16


class Address(NamedTuple):
    """What the records of an access share."""

    space: int
    base: Source
    second: Source = ZERO
    flags: int = 0
    offset: int = 0


def pair(i: Lowering, operand: Operand) -> Source:
    """A 64-bit address in two full registers."""
    if not isinstance(operand, Reg) or operand.half:
        raise i.refuse(f"operand {operand!r} is no register pair")
    return register(i.full(operand.number, 2))


def word(i: Lowering, name: str) -> Source:
    """A full register, or an immediate."""
    operand = i.arg(name)
    if isinstance(operand, Imm):
        return immediate(operand.value)
    if not isinstance(operand, Reg) or operand.half:
        raise i.refuse(f"operand {name} = {operand!r} is no full register")
    return register(i.full(operand.number))


def global_address(i: Lowering) -> Address:
    return Address(u.S_GLOBAL, pair(i, i.arg("addr")), flags=u.A64, offset=i.number("offset"))


def indexed_address(i: Lowering, element_bytes: int) -> Address:
    """((index << shift) + offset) elements above the pair; the index is unsigned."""
    base, index = pair(i, i.arg("addr")), i.arg("index")
    if not isinstance(index, Scaled):
        raise i.refuse(f"operand index = {index!r}")
    scale = element_bytes << index.shift
    first = i.scratch(2)
    i.emit("MADW", first, register(i.full(index.number)), immediate(scale), base)
    return Address(u.S_GLOBAL, register(first), flags=u.A64, offset=index.offset * element_bytes)


def shared_address(i: Lowering) -> Address:
    return Address(u.S_SHARED, word(i, "addr"), offset=i.number("offset"))


def private_address(i: Lowering) -> Address:
    return Address(u.S_LOCAL, word(i, "addr"), offset=i.number("offset"))


def kept(i: Lowering, address: Address, results: int) -> Address:
    """The address where no result of the instruction can reach it."""
    if results < 2 or address.base.kind != u.REG:
        return address
    if address.flags & u.A64:
        first = i.scratch(2)
        i.emit("MOV", first, address.base, flags=u.WIDE)
    else:
        first = i.scratch()
        i.emit("MOV", first, address.base)
    return address._replace(base=register(first))


def count(i: Lowering) -> int:
    size = i.number("size")
    if not size:
        raise i.refuse("modifier size = 0 is not implemented")
    return size


def reaches(i: Lowering, address: Address, targets: list[Operand]) -> bool:
    """Whether a result may lie in a register of the address."""
    if address.base.kind != u.REG:
        return False
    words = range(address.base.value, address.base.value + (2 if address.flags & u.A64 else 1))
    for target in targets:
        assert isinstance(target, Reg)
        if target.half and not i.setup.merged:
            continue
        if (target.number >> 1 if target.half else target.number) in words:
            return True
    return False


def load(i: Lowering, address: Address, nbytes: int, width: int) -> None:
    size = count(i)
    targets = following(i, "dst", size)
    if reaches(i, address, targets):
        address = kept(i, address, size)
    for k, target in enumerate(targets):
        imm = address.offset + k * nbytes
        part = Part(i, target)
        i.emit("LD", part.d, address.base, ZERO, flags=address.flags, imm=imm, width=width, space=address.space)
        part.place()


class Part:
    """One of several results: brought to its place at once, so that scratch registers can serve the next."""

    def __init__(self, i: Lowering, target: Operand) -> None:
        self._i = i
        self._mark = i.mark()
        self.d = i.target(target)

    def place(self) -> None:
        self._i.settle(self._mark)


def store(i: Lowering, address: Address, nbytes: int, width: int) -> None:
    for k, operand in enumerate(following(i, "src", count(i))):
        assert isinstance(operand, Reg)
        mark = i.mark()
        data, imm = i.read(operand), address.offset + k * nbytes
        i.emit("ST", u.NO_REG, address.base, ZERO, data, flags=address.flags, imm=imm, width=width, space=address.space)
        i.settle(mark)


@lowers("ldg")
def ldg(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    load(i, global_address(i), nbytes, width)


@lowers("ldg.a")
def ldg_a(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    load(i, indexed_address(i, nbytes), nbytes, width)


@lowers("ldl")
def ldl(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    load(i, shared_address(i), nbytes, width)


@lowers("ldp")
def ldp(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    load(i, private_address(i), nbytes, width)


@lowers("stg")
def stg(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    store(i, global_address(i), nbytes, width)


@lowers("stg.a")
def stg_a(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    store(i, indexed_address(i, nbytes), nbytes, width)


@lowers("stl")
def stl(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    store(i, shared_address(i), nbytes, width)


@lowers("stp")
def stp(i: Lowering) -> None:
    nbytes, width = i.mod("type", ELEMENTS)
    store(i, private_address(i), nbytes, width)


def operation(i: Lowering) -> tuple[str, int]:
    """Name and the engine's `mod`. How inc and dec wrap is not known, so they have no entry."""
    name = i.instruction.opcode.rpartition(".")[2]
    if name not in OPERATIONS:
        raise i.refuse("what this operation stores is not known")
    return name, OPERATIONS[name] | i.mod("type", ATOMIC_TYPES) << u.ATOMIC_TYPE_SHIFT


def negated(i: Lowering, source: Source) -> Source:
    d, value = i.temporary()
    i.emit("ADD3", d, source._replace(inv=True), imm=1)
    return value


def atomic(i: Lowering, address: Address, name: str, mod: int, data: list[Source], d: int, **more: bool) -> None:
    """`data`: the operand; of a compare-and-swap the new value, then what is compared."""
    values = [negated(i, data[0])] if name == "sub" else data[::-1] if name == "cmpxchg" else data
    i.emit(
        "ATOM", d, address.base, address.second, *values, flags=address.flags, imm=address.offset, width=u.W_32,
        space=address.space, mod=mod,
    )  # fmt: skip


def operands(i: Lowering, name: str) -> list[Source]:
    if name != "cmpxchg":
        return [word(i, "src")]
    return [i.read(reg) for reg in following(i, "src", 2) if isinstance(reg, Reg)]


@lowers(*(f"atomic.{name}" for name in (*OPERATIONS, "inc", "dec")))
def local_atomic(i: Lowering) -> None:
    name, mod = operation(i)
    for field, value in ONE_WORD.items():
        i.mod(field, {value: None})
    address, data = Address(u.S_SHARED, word(i, "addr")), operands(i, name)
    atomic(i, address, name, mod, data, i.target(i.arg("dst")))


@lowers(*(f"atomic.g.{name}" for name in (*OPERATIONS, "inc", "dec")))
def global_atomic(i: Lowering) -> None:
    name, mod = operation(i)
    for field, value in ONE_WORD.items():
        i.mod(field, {value: None})
    address, data = Address(u.S_GLOBAL, pair(i, i.arg("addr")), flags=u.A64), operands(i, name)
    atomic(i, address, name, mod, data, i.target(i.arg("dst")))


@lowers("ldc")
def ldc(i: Lowering) -> None:
    """Words of a constant buffer: the address counts vectors of 16 bytes; past the buffer's end are zeros."""
    i.unset("u")
    i.mod("mode", {"imm": None})
    slot = i.arg("slot")
    if not isinstance(slot, Imm) or slot.value >= i.setup.ubos:
        raise i.refuse(f"operand slot = {slot!r}: the launch has {i.setup.ubos} constant buffers")
    row = UBOS << 16 | UBO_ROW * slot.value
    component, words = i.number("offset"), i.number("components")
    vector = word(i, "addr")
    first = i.scratch(2)
    i.emit("MADW", first, vector, immediate(VECTOR_BYTES), Source(u.CONST, row))
    for k, target in enumerate(following(i, "dst", words)):
        offset = 4 * (component + k)
        part, inside = Part(i, target), i.scratch_pred()
        at, (to_value, value) = i.scratch(2), i.temporary()
        i.emit("MADW", at, vector, immediate(VECTOR_BYTES), immediate(offset))
        end = Source(u.CONST, row + 8)
        i.emit("ISETP", u.NO_REG, register(at), end, flags=u.WIDE, mod=u.C_LT, p=i.guard, pd=inside, guard=ALWAYS)
        i.emit("MOV", to_value, ZERO)
        i.emit("LD", to_value, register(first), ZERO, flags=u.A64, imm=offset, width=u.W_32, space=u.S_GLOBAL,
               guard=(inside, False))  # fmt: skip
        i.emit("MOV", part.d, value)
        part.place()
