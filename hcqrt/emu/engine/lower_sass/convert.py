"""Conversions between number formats."""

from __future__ import annotations

from ....isa.sass import Imm
from .. import uops as u
from .floats import ROUND, flush
from .lowering import Lowering, Source, lowers

FLOAT_FORMATS = {"F16": u.F16, "BF16": u.BF16_FORMAT, "F32": u.F32, "": u.F32, "F64": u.F64}
INTEGER_FORMATS = {
    "U8": u.U8, "S8": u.I8, "U16": u.U16, "S16": u.I16, "U32": u.U32, "": u.I32, "U64": u.U64, "S64": u.I64,
}  # fmt: skip
WIDE = (u.F64, u.I64, u.U64)
WORD_FORMATS = (u.F32, u.I32, u.U32)
ROUND_INTEGRAL = {
    "": u.RN << u.ROUND_SHIFT,
    "FLOOR": u.RM << u.ROUND_SHIFT,
    "CEIL": u.RP << u.ROUND_SHIFT,
    "TRUNC": u.RZ << u.ROUND_SHIFT,
}
F2F_FORMATS = {
    f"{dst}.{src}": (FLOAT_FORMATS[dst], FLOAT_FORMATS[src])
    for dst, src in (
        ("F16", "F32"), ("F32", "F16"), ("BF16", "F32"), ("F16", "F64"), ("F32", "F64"), ("F64", "F16"), ("F64", "F32"),
    )
}  # fmt: skip


def value(i: Lowering, origin: int) -> Source:
    """The operand to convert. Integers have no sign or magnitude bit in the word, floats do."""
    if origin == u.F64:
        return i.double("b")
    operand = i.arg("b")
    if isinstance(operand, Imm) and origin not in WORD_FORMATS:
        raise i.refuse(f"operand b = {operand!r}: where a value of this size lies in the immediate is not known")
    floating = origin in (u.F16, u.BF16_FORMAT, u.F32)
    return i.source(operand, 2 if origin in WIDE else 1, "neg abs" if floating else "")


def convert(i: Lowering, op: str, target: int, origin: int, flags: int) -> None:
    source = value(i, origin)
    d = i.dst("d", 2 if target in WIDE else 1)
    i.emit(op, d, source, flags=flags, mod=target | origin << u.FORMAT_SHIFT)


@lowers("F2F")
def f2f(i: Lowering) -> None:
    target, origin = i.mod("format", F2F_FORMATS)
    convert(i, "F2F", target, origin, flush(i) | i.mod("round", ROUND))


@lowers("F2I")
def f2i(i: Lowering) -> None:
    """NTZ only says what a NaN gives, which is 0 here with and without it."""
    i.no_effect("NTZ")
    target, origin = i.mod("dst", INTEGER_FORMATS), i.mod("src", FLOAT_FORMATS)
    convert(i, "F2I", target, origin, flush(i) | i.mod("round", ROUND_INTEGRAL))


@lowers("I2F")
def i2f(i: Lowering) -> None:
    target, origin = i.mod("dst", FLOAT_FORMATS), i.mod("src", INTEGER_FORMATS)
    convert(i, "I2F", target, origin, i.mod("round", ROUND))


@lowers("I2FP")
def i2fp(i: Lowering) -> None:
    convert(i, "I2F", u.F32, i.mod("sign", {"S32": u.I32, "U32": u.U32}), i.mod("round", ROUND))


@lowers("FRND")
def frnd(i: Lowering) -> None:
    form = i.mod("format", FLOAT_FORMATS)
    convert(i, "FRND", form, form, flush(i) | i.mod("round", ROUND_INTEGRAL))


@lowers("F2FP")
def f2fp(i: Lowering) -> None:
    i.unset("SATFINITE")
    i.unset("RELU")
    flags = i.mod("type", {"": 0, "F16": 0, "BF16": u.BF16}) | i.mod("round", {"": 0, "RZ": u.RZ << u.ROUND_SHIFT})
    i.emit("F2FP", i.dst("d"), i.single("a"), i.single("b"), flags=flags)
