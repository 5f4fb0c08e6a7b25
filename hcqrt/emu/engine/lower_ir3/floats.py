"""Float instructions. Full ones are f32, half ones f16; both flush denormals and round to nearest even.

A product-sum (mad) rounds twice. min and max give the operand that is a number. Special functions take and give
radians where angles are meant, and are computed in f32 for either width.
"""

from __future__ import annotations

import math
import struct

from .. import uops as u
from .convert import convert, result
from .integer import truth
from .lowering import ALWAYS, ZERO, Lowering, Source, immediate, lowers
from .registers import A_AND_B, HALF_SIGN

SIGN, NEGATIVE_ZERO, HALF, ONE = 0x80000000, 0x80000000, 0x3F000000, 0x3F800000
ONE16, NAN32, NAN16 = 0x3C00, 0x7FFFFFFF, 0x7FFF
UNORDERED_NE = 13  # less, greater or unordered
CONDITIONS = {
    "lt": u.C_LT, "le": u.C_LE, "gt": u.C_GT, "ge": u.C_GE, "eq": u.C_EQ, "ne": UNORDERED_NE,
}  # fmt: skip
COMPARE_SHIFT = 8  # of HSETP2's mod
A_OR_B = 0xFC
FUNCTIONS = {
    "rcp": u.MUFU_RCP, "rsq": u.MUFU_RSQ, "log2": u.MUFU_LG2, "exp2": u.MUFU_EX2, "sin": u.MUFU_SIN, "cos": u.MUFU_COS,
    "sqrt": u.MUFU_SQRT, "hrsq": u.MUFU_RSQ, "hlog2": u.MUFU_LG2, "hexp2": u.MUFU_EX2,
}  # fmt: skip
(TURNS_PER_RADIAN,) = struct.unpack("<I", struct.pack("<f", 1 / (2 * math.pi)))


def saturation(i: Lowering) -> int:
    i.unset("ei")
    return u.SAT if i.flag("sat") else 0


def saturated(i: Lowering, d: int, half: bool, sat: int) -> int:
    """Where an operation that cannot saturate writes: with `sat` a sum with -0 that can follows."""
    if not sat:
        return d
    to_whole, whole = i.temporary()
    op, zero = ("HADD2", HALF_SIGN) if half else ("FADD", NEGATIVE_ZERO)
    i.later(lambda: i.emit(op, d, whole, immediate(zero), flags=u.FTZ | sat))
    return to_whole


@lowers("add.f", "mul.f")
def arithmetic(i: Lowering) -> None:
    half, sat = i.is_half("src1"), saturation(i)
    op = {"add.f": ("FADD", "HADD2"), "mul.f": ("FMUL", "HMUL2")}[i.instruction.opcode][half]
    a, b = i.floating("src1"), i.floating("src2")
    i.emit(op, result(i, "dst", half, "f"), a, b, flags=u.FTZ | sat)


@lowers("mad.f32", "mad.f16")
def mad(i: Lowering) -> None:
    half, sat = i.instruction.opcode == "mad.f16", saturation(i)
    a, b, c = (i.floating(f"src{k}") for k in (1, 2, 3))
    to_product, product = i.temporary()
    multiply, add = ("HMUL2", "HADD2") if half else ("FMUL", "FADD")
    i.emit(multiply, to_product, a, b, flags=u.FTZ)
    i.emit(add, result(i, "dst", half, "f"), product, c, flags=u.FTZ | sat)


@lowers("min.f", "max.f")
def min_max(i: Lowering) -> None:
    half, sat = i.is_half("src1"), saturation(i)
    a, b = i.floating("src1"), i.floating("src2")
    d = saturated(i, result(i, "dst", half, "f"), half, sat)
    i.emit("HMNMX2" if half else "FMNMX", d, a, b, flags=u.FTZ, p=(u.PT, i.instruction.opcode == "max.f"))


def compare(i: Lowering, half: bool, condition: int, a: Source, b: Source, pd: int) -> None:
    op, mod = ("HSETP2", condition << COMPARE_SHIFT) if half else ("FSETP", condition)
    i.emit(op, u.NO_REG, a, b, flags=u.FTZ, mod=mod, p=ALWAYS, pd=pd)


@lowers("cmps.f")
def cmps(i: Lowering) -> None:
    """Ordered; only `ne` holds for NaN."""
    i.unset("sat", "ei")
    half, condition = i.is_half("src1"), i.mod("cond", CONDITIONS)
    a, b = i.floating("src1"), i.floating("src2")
    truth(i, lambda pd: compare(i, half, condition, a, b, pd))


@lowers("absneg.f")
def absneg(i: Lowering) -> None:
    """Changes the sign bit and nothing else."""
    half, sat = i.is_half("src1"), saturation(i)
    a = i.signed_bits(i.floating("src1"), SIGN)
    i.emit("MOV", saturated(i, result(i, "dst", half, "f"), half, sat), a)


@lowers("sign.f")
def sign(i: Lowering) -> None:
    """-1, 0 or 1; a NaN stays one."""
    half, sat = i.is_half("src1"), saturation(i)
    a = i.floating("src1")
    less, greater, number = (i.scratch_pred() for _ in range(3))
    for condition, pd in ((u.C_LT, less), (u.C_GT, greater), (u.C_NUM, number)):
        compare(i, half, condition, a, ZERO, pd)
    one, nan, negative = (ONE16, NAN16, HALF_SIGN) if half else (ONE, NAN32, SIGN)
    (to_x, x), (to_y, y) = i.temporary(), i.temporary()
    i.emit("SEL", to_x, ZERO, immediate(nan), p=(number, False))
    i.emit("SEL", to_y, immediate(one), x, p=(greater, False))
    d = saturated(i, result(i, "dst", half, "f"), half, sat)
    i.emit("SEL", d, immediate(one | negative), y, p=(less, False))


ROUND = {"floor.f": u.RM, "ceil.f": u.RP, "rndne.f": u.RN, "trunc.f": u.RZ}


@lowers(*ROUND)
def integral(i: Lowering) -> None:
    half, sat = i.is_half("src1"), saturation(i)
    a = i.floating("src1")
    form = u.F16 if half else u.F32
    d = saturated(i, result(i, "dst", half, "f"), half, sat)
    flags = u.FTZ | ROUND[i.instruction.opcode] << u.ROUND_SHIFT
    i.emit("FRND", d, i.flushed(a) if half else a, flags=flags, mod=form | form << u.FORMAT_SHIFT)


@lowers("rndaz.f")
def away_from_zero(i: Lowering) -> None:
    """The nearest integer, a half away from zero: the cut number, and one more where the rest is a half or above."""
    half, sat = i.is_half("src1"), saturation(i)
    a = i.floating("src1")
    if half:
        to_wide, wide = i.temporary()
        convert(i, to_wide, a, "f16", "f32")
        a = wide
    final = saturated(i, result(i, "dst", half, "f"), half, sat)
    (to_cut, cut), (to_rest, rest), (to_one, one), (to_more, more) = (i.temporary() for _ in range(4))
    form, enough = u.F32 | u.F32 << u.FORMAT_SHIFT, i.scratch_pred()
    i.emit("FRND", to_cut, a, flags=u.FTZ | u.RZ << u.ROUND_SHIFT, mod=form)
    i.emit("FADD", to_rest, a, cut._replace(neg=True), flags=u.FTZ)
    compare(i, False, u.C_GE, rest._replace(abs=True), immediate(HALF), enough)
    i.emit("LOP3", to_one, cut, immediate(SIGN), immediate(ONE), mod=A_AND_B | 0xAA)
    i.emit("FADD", to_more, cut, one, flags=u.FTZ)
    if not half:
        i.emit("SEL", final, more, cut, p=(enough, False))
        return
    to_sum, total = i.temporary()
    i.emit("SEL", to_sum, more, cut, p=(enough, False))
    convert(i, final, total, "f32", "f16")


@lowers(*FUNCTIONS)
def special(i: Lowering) -> None:
    name, half, sat = i.instruction.opcode, i.is_half("src1"), saturation(i)
    if name.startswith("h") and not half:
        raise i.refuse("of a full register is not known")
    a = i.floating("src1")
    final = result(i, "dst", half, "f")
    d, value = i.temporary() if half else (final, ZERO)
    if half:
        to_wide, wide = i.temporary()
        convert(i, to_wide, a, "f16", "f32")
        a = wide
    if name in ("sin", "cos"):
        to_turns, turns = i.temporary()
        i.emit("FMUL", to_turns, a, immediate(TURNS_PER_RADIAN), flags=u.FTZ)
        a = turns
    i.emit("MUFU", d, a, mod=FUNCTIONS[name], flags=u.FTZ | sat)
    if half:
        convert(i, final, value, "f32", "f16")
