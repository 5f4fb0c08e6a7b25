"""Loads, stores, atomic operations and constant loads."""

from __future__ import annotations

from ....isa.sass import Const, Mem, Operand
from .. import uops as u
from .lowering import ZERO, Lowering, Source, immediate, lowers

WIDTHS = {
    "U8": u.W_U8, "S8": u.W_S8, "U16": u.W_U16, "S16": u.W_S16, "": u.W_32, "64": u.W_64, "128": u.W_128,
}  # fmt: skip
WORDS = {u.W_64: 2, u.W_128: 4}
SPACES = {
    "LDG": u.S_GLOBAL, "STG": u.S_GLOBAL, "ATOMG": u.S_GLOBAL, "RED": u.S_GLOBAL, "REDG": u.S_GLOBAL,
    "LD": u.S_GENERIC, "ST": u.S_GENERIC, "LDS": u.S_SHARED, "STS": u.S_SHARED, "ATOMS": u.S_SHARED,
    "LDL": u.S_LOCAL, "STL": u.S_LOCAL,
}  # fmt: skip
WIDE_SPACES = (u.S_GLOBAL, u.S_GENERIC)
OPERATIONS = {
    "ADD": u.AT_ADD, "MIN": u.AT_MIN, "MAX": u.AT_MAX, "INC": u.AT_INC, "DEC": u.AT_DEC, "AND": u.AT_AND, "OR": u.AT_OR,
    "XOR": u.AT_XOR, "EXCH": u.AT_EXCH, "CAS": u.AT_CAS,
    # Compare-and-swap inside a retry loop of the compiler's own.
    "CAST.SPIN": u.AT_CAS,
}  # fmt: skip
TYPES = {"": u.AT_U32, "S32": u.AT_S32, "64": u.AT_U64, "S64": u.AT_S64}
FLOAT_TYPES = {**TYPES, "F32.FTZ.RN": u.AT_F32}
# What one thread sees does not depend on caching, prefetching or the order that other agents see.
HINTS = ("evict", "prefetch", "order")


def address(i: Lowering, name: str, space: int) -> tuple[Source, Source, int, int]:
    """(base, second base, flags, offset) of a memory operand."""
    operand: Operand = i.arg(name)
    if not isinstance(operand, Mem):
        raise i.refuse(f"operand {name} = {operand!r} is no address")
    wide_space = space in WIDE_SPACES
    wide = wide_space and (operand.wide if operand.ureg is not None else i.flag("E"))
    if operand.wide and not wide_space:
        raise i.refuse(f"operand {name}: a 64-bit base in a 32-bit space")
    base = i.source(operand.base, 2 if wide else 1)
    if operand.scale != 1 and base.kind != u.ZERO:
        d, scaled = i.temporary()
        i.emit("MAD", d, base, immediate(operand.scale))
        base = scaled
    flags = u.A64 if wide else 0
    if operand.ureg is None or operand.descriptor:
        # A descriptor says how to cache, not where.
        return base, ZERO, flags, operand.offset
    return base, i.source(operand.ureg, 2 if wide_space else 1), flags | (u.B64 if wide_space else 0), operand.offset


@lowers("LDG", "LD", "LDS", "LDL")
def load(i: Lowering) -> None:
    i.no_effect(*HINTS, "U")  # U: the warp's lanes read one place
    i.no_pred("pd")
    width, space = i.mod("type", WIDTHS), SPACES[i.instruction.mnemonic]
    a, b, flags, offset = address(i, "addr", space)
    d = i.dst("d", WORDS.get(width, 1))
    i.emit("LD", d, a, b, flags=flags, imm=offset, width=width, space=space)


@lowers("STG", "ST", "STS", "STL")
def store(i: Lowering) -> None:
    i.no_effect(*HINTS)
    width, space = i.mod("type", WIDTHS), SPACES[i.instruction.mnemonic]
    a, b, flags, offset = address(i, "addr", space)
    data = i.source(i.arg("data"), WORDS.get(width, 1))
    i.emit("ST", u.NO_REG, a, b, data, flags=flags, imm=offset, width=width, space=space)


@lowers("ATOMG", "RED", "REDG", "ATOMS")
def atomic(i: Lowering) -> None:
    i.no_effect(*HINTS, "unused")
    i.no_pred("pd")
    space = SPACES[i.instruction.mnemonic]
    operation = i.mod("op", OPERATIONS)
    kind = i.mod("type", FLOAT_TYPES if operation == u.AT_ADD and space == u.S_GLOBAL else TYPES)
    wide = kind in (u.AT_U64, u.AT_S64)
    words, width = (2, u.W_64) if wide else (1, u.W_32)
    a, b, flags, offset = address(i, "addr", space)
    sources = [i.source(i.arg(name), words) for name in (("cmp", "data") if operation == u.AT_CAS else ("data",))]
    d = u.NO_REG if i.instruction.mnemonic in ("RED", "REDG") else i.dst("d", words)
    flags |= u.WIDE if wide else 0
    mod = operation | kind << u.ATOMIC_TYPE_SHIFT
    i.emit("ATOM", d, a, b, *sources, flags=flags, imm=offset, width=width, space=space, mod=mod)


@lowers("LDGSTS")
def load_to_shared(i: Lowering) -> None:
    """Copied at once: what waits for the copy (LDGDEPBAR, DEPBAR) then has nothing to wait for."""
    i.no_effect("bypass", *HINTS)
    i.unset("ZFILL")
    i.no_pred("ps")
    width = i.mod("type", WIDTHS)
    words = WORDS.get(width, 1)
    a, b, flags, offset = address(i, "addr", u.S_GLOBAL)
    to, at, to_flags, to_offset = address(i, "shared", u.S_SHARED)
    first = i.scratch(words)
    i.emit("LD", first, a, b, flags=flags, imm=offset, width=width, space=u.S_GLOBAL)
    data = Source(u.REG, first)
    i.emit("ST", u.NO_REG, to, at, data, flags=to_flags, imm=to_offset, width=width, space=u.S_SHARED)


@lowers("LDC", "ULDC", "LDCU")
def load_constant(i: Lowering) -> None:
    if i.instruction.mnemonic == "LDC":
        i.mod("mode", {"": None})
    width = i.mod("type", WIDTHS)
    operand = i.arg("b")
    if not isinstance(operand, Const) or operand.neg or operand.abs or operand.inv or operand.half:
        raise i.refuse(f"operand b = {operand!r} is not implemented")
    d = i.dst("d", WORDS.get(width, 1))
    if operand.index is None and width == u.W_32 and operand.offset >= 0 and operand.offset % 4 == 0:
        i.emit("MOV", d, Source(u.CONST, operand.bank << 16 | operand.offset))
        return
    index = ZERO if operand.index is None else i.source(operand.index)
    i.emit("LD", d, index, ZERO, immediate(operand.bank), imm=operand.offset, width=width, space=u.S_CONST)


@lowers("MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "LDGDEPBAR", "DEPBAR")
def memory_order(i: Lowering) -> None:
    """Accesses happen in program order and at once, so there is nothing to wait for or to flush."""
    i.no_effect("kind", "scope", "cache", "op", "E")
    for name in ("addr", "sb", "count"):
        i.optional(name)
    i.emit("NOP")
