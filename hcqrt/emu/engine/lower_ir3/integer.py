"""Integer and bit instructions of one or two sources (category 2), and those of three (category 3).

An operation on half registers has 16 bits. `u` and `s` in its name say how its result becomes wider; where the opcode
names bits (b), it is `u`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....isa.ir3 import Reg
from .. import uops as u
from .convert import result
from .lowering import ALWAYS, ZERO, Lowering, Source, immediate, lowers
from .registers import A_AND_B, FIRST_PREDICATE, HALF_MASK, PREDICATES

CONDITIONS = {"lt": u.C_LT, "le": u.C_LE, "gt": u.C_GT, "ge": u.C_GE, "eq": u.C_EQ, "ne": u.C_NE}
MASK_24, TOP_HALF = 0xFFFFFF, 0xFFFF0000
A, B, C = 0xF0, 0xCC, 0xAA  # LOP3: what a source contributes to the table


def opcode(i: Lowering) -> tuple[str, str]:
    """Name and kind: ("add", "u")."""
    name, _, kind = i.instruction.opcode.partition(".")
    return name, kind


def plain_result(i: Lowering) -> None:
    """What no integer operation here implements."""
    i.unset("sat", "ei")


def kind_of(kind: str) -> str:
    return "s" if kind.startswith("s") else "u"


def narrow(i: Lowering, d: int, half: bool, emit: Callable[[int], None]) -> None:
    """`emit` writes a register; of a half operation only the low 16 bits count."""
    if not half:
        emit(d)
        return
    to_wide, wide = i.temporary()
    emit(to_wide)
    i.emit("LOP3", d, wide, immediate(HALF_MASK), mod=A_AND_B)


def masked(i: Lowering, source: Source, mask: int) -> Source:
    if source.kind == u.IMM:
        return immediate(source.value & mask)
    d, value = i.temporary()
    i.emit("LOP3", d, source, immediate(mask), mod=A_AND_B)
    return value


@lowers("add.u", "add.s", "sub.u", "sub.s")
def add_sub(i: Lowering) -> None:
    plain_result(i)
    name, kind = opcode(i)
    half = i.is_half("src1")
    a, b = i.integer("src1"), i.integer("src2")
    d = result(i, "dst", half, kind)
    minus = name == "sub"
    narrow(i, d, half, lambda to: i.emit("ADD3", to, a, b._replace(inv=minus), imm=int(minus)))


@lowers("min.u", "min.s", "max.u", "max.s")
def min_max(i: Lowering) -> None:
    plain_result(i)
    name, kind = opcode(i)
    half, signed = i.is_half("src1"), kind == "s"
    a, b = i.integer("src1", signed), i.integer("src2", signed)
    d = result(i, "dst", half, kind)
    flags, p = u.SIGNED if signed else 0, (u.PT, name == "max")
    narrow(i, d, half and signed, lambda to: i.emit("IMNMX", to, a, b, flags=flags, p=p))


@lowers("absneg.s")
def absneg(i: Lowering) -> None:
    plain_result(i)
    half = i.is_half("src1")
    a = i.integer("src1", signed=True)
    d = result(i, "dst", half, "s")
    narrow(i, d, half, lambda to: i.emit("MOV", to, a))


def truth(i: Lowering, compare: Callable[[int], None]) -> None:
    """`compare` sets a predicate; it goes to p0 as it is, and to a register as 0 or 1."""
    operand = i.arg("dst")
    if isinstance(operand, Reg) and operand.number in PREDICATES:
        compare(operand.number - FIRST_PREDICATE)
        return
    found = i.scratch_pred()
    compare(found)
    i.emit("SEL", i.target(operand), immediate(1), ZERO, p=(found, False))


@lowers("cmps.u", "cmps.s")
def cmps(i: Lowering) -> None:
    plain_result(i)
    signed = opcode(i)[1] == "s"
    condition = i.mod("cond", CONDITIONS)
    a, b = i.integer("src1", signed), i.integer("src2", signed)
    flags = u.SIGNED if signed else 0
    truth(i, lambda pd: i.emit("ISETP", u.NO_REG, a, b, flags=flags, mod=condition, p=ALWAYS, pd=pd))


LOGIC = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


@lowers("and.b", "or.b", "xor.b", "not.b")
def logic(i: Lowering) -> None:
    """An inverted source changes the table; of a half operation the third source masks what that sets above."""
    plain_result(i)
    name, half = opcode(i)[0], i.is_half("src1")
    tables, sources = [], []
    for operand, table in (("src1", A), ("src2", B))[: 1 if name == "not" else 2]:
        source = i.value(operand, "bits")
        if source.abs:
            raise i.refuse(f"operand {operand}: a magnitude of bits")
        tables.append(table ^ 0xFF if source.neg else table)
        sources.append(source._replace(neg=False))
    table = tables[0] ^ 0xFF if name == "not" else LOGIC[name](*tables)
    sources += [ZERO] if name == "not" else []
    if half:
        table, sources = table & C, [*sources, immediate(HALF_MASK)]
    i.emit("LOP3", result(i, "dst", half, "u"), *sources, mod=table)


@lowers("shl.b", "shr.b", "ashr.b")
def shift(i: Lowering) -> None:
    """By the low 5 bits of the count, whatever the width."""
    plain_result(i)
    name, half = opcode(i)[0], i.is_half("src1")
    a, count = i.bits("src1"), i.bits("src2")
    if name == "ashr" and half:
        to_wide, wide = i.temporary()
        i.emit("SGXT", to_wide, a, immediate(16), flags=u.SIGNED)
        a = wide
    d = result(i, "dst", half, "u")
    sources, flags = {
        "shl": ((a, count, ZERO), u.WRAP),
        "shr": ((a, count, ZERO), u.WRAP | u.RIGHT),
        "ashr": ((ZERO, count, a), u.WRAP | u.RIGHT | u.SIGNED | u.HI),
    }[name]
    narrow(i, d, half and name != "shr", lambda to: i.emit("SHF", to, *sources, flags=flags))


def low_24(i: Lowering, name: str, signed: bool) -> Source:
    source = i.integer(name, signed)
    if not signed:
        return masked(i, source, MASK_24)
    d, value = i.temporary()
    i.emit("SGXT", d, source, immediate(24), flags=u.SIGNED)
    return value


def product(i: Lowering, emit: Callable[[int], None]) -> None:
    """A product has 32 bits whatever its sources; a half destination keeps the low 16."""
    operand = i.arg("dst")
    narrow(i, i.target(operand), isinstance(operand, Reg) and operand.half, emit)


@lowers("mul.u24", "mul.s24")
def mul24(i: Lowering) -> None:
    plain_result(i)
    signed = opcode(i)[1] == "s24"
    a, b = low_24(i, "src1", signed), low_24(i, "src2", signed)
    product(i, lambda to: i.emit("MAD", to, a, b))


@lowers("mull.u")
def mull(i: Lowering) -> None:
    plain_result(i)
    a, b = (masked(i, i.integer(name), HALF_MASK) for name in ("src1", "src2"))
    product(i, lambda to: i.emit("MAD", to, a, b))


@lowers("bfrev.b")
def bfrev(i: Lowering) -> None:
    plain_result(i)
    half, a = i.is_half("src1"), i.bits("src1")
    d = result(i, "dst", half, "u")
    if not half:
        i.emit("BREV", d, a)
        return
    to_high, high = i.temporary()
    i.emit("BREV", to_high, a)
    i.emit("SHF", d, high, immediate(16), ZERO, flags=u.RIGHT)


@lowers("cbits.b")
def cbits(i: Lowering) -> None:
    plain_result(i)
    half, a = i.is_half("src1"), i.bits("src1")
    i.emit("POPC", result(i, "dst", half, "u"), a)


@lowers("clz.b", "clz.s")
def clz(i: Lowering) -> None:
    """Zeros (.s: copies of the sign) above the first bit that differs; all ones where there is none."""
    plain_result(i)
    half, signed = i.is_half("src1"), opcode(i)[1] == "s"
    a, flags = i.integer("src1", signed) if signed else i.bits("src1"), u.SIGNED if signed else 0
    d = result(i, "dst", half, "u")
    if not half:
        i.emit("FLO", d, a, flags=flags | u.SH)
        return
    (to_at, at), (to_count, count), found = i.temporary(), i.temporary(), i.scratch_pred()
    i.emit("FLO", to_at, a, flags=flags, pd=found)
    i.emit("ADD3", to_count, at._replace(inv=True), imm=16)
    i.emit("SEL", d, count, immediate(HALF_MASK), p=(found, False))


@lowers("mad.u16", "mad.s16")
def mad16(i: Lowering) -> None:
    plain_result(i)
    a, b, c = (i.integer(f"src{k}") for k in (1, 2, 3))
    d = result(i, "dst", True, kind_of(opcode(i)[1]))
    narrow(i, d, True, lambda to: i.emit("MAD", to, a, b, c))


@lowers("mad.u24", "mad.s24")
def mad24(i: Lowering) -> None:
    plain_result(i)
    signed = opcode(i)[1] == "s24"
    a, b, c = low_24(i, "src1", signed), low_24(i, "src2", signed), i.integer("src3")
    i.emit("MAD", result(i, "dst", False, kind_of(opcode(i)[1])), a, b, c)


@lowers("madsh.m16")
def madsh(i: Lowering) -> None:
    """(low half of a * high half of b) << 16, + c: shifted up, b's high half needs no mask on a."""
    plain_result(i)
    a, b, c = i.plain("src1"), i.plain("src2"), i.plain("src3")
    i.emit("MAD", result(i, "dst", False, "u"), a, masked(i, b, TOP_HALF), c)


@lowers("sad.s16", "sad.s32")
def sad(i: Lowering) -> None:
    """A sum of three: what Mesa's compiler takes it for."""
    plain_result(i)
    half = opcode(i)[1] == "s16"
    a, b, c = (i.integer(f"src{k}") for k in (1, 2, 3))
    d = result(i, "dst", half, "s")
    narrow(i, d, half, lambda to: i.emit("ADD3", to, a, b, c))


@lowers("sel.b16", "sel.b32")
def sel(i: Lowering) -> None:
    plain_result(i)
    half = opcode(i)[1] == "b16"
    a, condition, c = i.plain("src1"), i.plain("src2"), i.plain("src3")
    holds = i.scratch_pred()
    i.emit("ISETP", u.NO_REG, condition, ZERO, mod=u.C_NE, p=ALWAYS, pd=holds)
    i.emit("SEL", result(i, "dst", half, "u"), a, c, p=(holds, False))


@lowers("shrm", "shlm", "shrg", "shlg")
def shift_mask(i: Lowering) -> None:
    plain_result(i)
    name, half = opcode(i)[0], i.is_half("src2")
    count, value, c = i.bits("src1"), i.bits("src2"), i.bits("src3")
    to_shifted, shifted = i.temporary()
    i.emit("SHF", to_shifted, value, count, ZERO, flags=u.WRAP | (u.RIGHT if name.startswith("shr") else 0))
    table = A & B if name.endswith("m") else A | B
    d = result(i, "dst", half, "u")
    narrow(i, d, half and name == "shlg", lambda to: i.emit("LOP3", to, shifted, c, mod=table))


@lowers("andg")
def andg(i: Lowering) -> None:
    plain_result(i)
    half = i.is_half("src2")
    a, b, c = i.bits("src1"), i.bits("src2"), i.bits("src3")
    i.emit("LOP3", result(i, "dst", half, "u"), a, b, c, mod=A & B | C)
