"""Packed f16 and bf16 arithmetic, and all conversions, on the running lanes."""

from __future__ import annotations

import numpy as np

from .. import uops
from . import convert, doubles, floats, integers
from .ops_float import smaller
from .ops_integer import combine
from .records import Rec, handles
from .rounding import BFLOAT, DOUBLE, F64, HALF, RM, RN, SINGLE, U32, U64, Array, Bool, Format, narrow
from .unit import Unit

_FORMATS = {uops.F16: HALF, uops.BF16_FORMAT: BFLOAT, uops.F32: SINGLE, uops.F64: DOUBLE}
# bits, signed
_INTEGERS = {
    uops.I8: (8, True), uops.I16: (16, True), uops.I32: (32, True), uops.I64: (64, True),
    uops.U8: (8, False), uops.U16: (16, False), uops.U32: (32, False), uops.U64: (64, False),
}  # fmt: skip
_SIXTEEN = np.uint32(16)


def _form(r: Rec) -> Format:
    return BFLOAT if r.has(uops.BF16) else HALF


def _halves(u: Unit, r: Rec, slot: int) -> tuple[F64, F64]:
    """The (low, high) values of a packed source: chosen, then |x|, -x and flushing."""
    bits, form, choice = u.word(r, slot), _form(r), r.mod >> 2 * slot & 3
    parts = [bits & np.uint32(0xFFFF), bits >> _SIXTEEN]
    values = []
    for part in {0: parts, 2: [parts[0]] * 2, 3: [parts[1]] * 2}[choice]:
        if r.flags >> (9 + slot) & 1:
            part = part & np.uint32(0x7FFF)
        if r.flags >> (6 + slot) & 1:
            part = part ^ np.uint32(0x8000)
        value = floats.widen_half(part, form)
        values.append(floats.flush_half(value, form) if r.has(uops.FTZ) else value)
    return values[0], values[1]


def _finish(r: Rec, x: F64, form: Format) -> U32:
    """Round an odd-rounded value, flush, saturate."""
    bits = narrow(x, form, r.mode).astype(np.uint32)
    if form is SINGLE:
        return floats.finish(bits, r.has(uops.FTZ), r.has(uops.SAT))
    value = floats.widen_half(bits, form)
    if r.has(uops.FTZ):
        value = floats.flush_half(value, form)
    if r.has(uops.SAT):
        value = floats.saturate_double(value)
    return narrow(value, form, RN).astype(np.uint32) if r.has(uops.FTZ) or r.has(uops.SAT) else bits


def _sum(r: Rec, product: F64, addend: F64) -> F64:
    total = floats.half_sum(product, addend)
    return floats.signed_zero(total, product, addend) if r.mode == RM else total


def _put_halves(u: Unit, r: Rec, low: F64, high: F64) -> None:
    if r.has(uops.F32_RESULT):
        u.put(r.d, _finish(r, low, SINGLE))
        return
    upper: U32 = _finish(r, high, _form(r)) << _SIXTEEN
    u.put(r.d, _finish(r, low, _form(r)) | upper)


@handles("HADD2")
def hadd2(u: Unit, r: Rec) -> None:
    a, b = _halves(u, r, 0), _halves(u, r, 1)
    _put_halves(u, r, _sum(r, a[0], b[0]), _sum(r, a[1], b[1]))


@handles("HMUL2")
def hmul2(u: Unit, r: Rec) -> None:
    a, b = _halves(u, r, 0), _halves(u, r, 1)
    _put_halves(u, r, a[0] * b[0], a[1] * b[1])


@handles("HFMA2")
def hfma2(u: Unit, r: Rec) -> None:
    a, b, c = _halves(u, r, 0), _halves(u, r, 1), _halves(u, r, 2)
    _put_halves(u, r, _sum(r, a[0] * b[0], c[0]), _sum(r, a[1] * b[1], c[1]))


@handles("HMNMX2")
def hmnmx2(u: Unit, r: Rec) -> None:
    a, b, least = _halves(u, r, 0), _halves(u, r, 1), u.predicate(r.p, r.p_neg)
    results = []
    for x, y in zip(a, b, strict=True):
        x_nan, y_nan = np.isnan(x), np.isnan(y)
        chosen = np.where(x_nan, y, np.where(y_nan, x, np.where(smaller(x, y) == least, x, y)))
        results.append(np.where(x_nan | y_nan, np.nan, chosen) if r.has(uops.NAN_WINS) else chosen)
    _put_halves(u, r, results[0], results[1])


@handles("HSETP2")
def hsetp2(u: Unit, r: Rec) -> None:
    a, b, other = _halves(u, r, 0), _halves(u, r, 1), u.predicate(r.p, r.p_neg)
    code, how = r.mod >> 8 & 15, r.mod >> 12 & 3
    low, high = (integers.compare_floats(code, x, y) for x, y in zip(a, b, strict=True))
    if r.mod >> 14 & 1:
        both: Bool = low & high
        low, high = both, ~both
    first, second = combine(how, low, other), combine(how, high, other)
    u.put_predicate(r.pd, first)
    u.put_predicate(r.pd2, second)


def _float_source(u: Unit, r: Rec, form: Format) -> F64:
    """Source a in a float format as float64; FTZ concerns f32 alone."""
    if form is DOUBLE:
        return u.double(r, 0)
    if form is SINGLE:
        bits = u.single(r, 0)
        return floats.as_float(floats.flush(bits) if r.has(uops.FTZ) else bits).astype(np.float64)
    word = u.word(r, 0)
    part: U32 = word >> _SIXTEEN if r.imm == 1 else word & np.uint32(0xFFFF)
    if r.has(uops.ABS_A):
        part = part & np.uint32(0x7FFF)
    if r.has(uops.NEG_A):
        part = part ^ np.uint32(0x8000)
    return floats.widen_half(part, form)


def _put_float(u: Unit, r: Rec, x: F64, form: Format, nan_source: F64 | None = None) -> None:
    """Round x (exact) to the format and store it."""
    if form is DOUBLE:
        if r.has(uops.SAT):
            x = floats.saturate_double(x)
        u.put_pair(r.d, doubles.quiet(x, x if nan_source is None else nan_source))
        return
    bits = narrow(x, form, r.mode).astype(np.uint32)
    if form is SINGLE:
        bits = floats.finish(bits, r.has(uops.FTZ), r.has(uops.SAT))
    elif r.has(uops.SAT):
        bits = narrow(floats.saturate_double(floats.widen_half(bits, form)), form, RN).astype(np.uint32)
    u.put(r.d, bits)


@handles("F2F")
def f2f(u: Unit, r: Rec) -> None:
    to, source = _FORMATS[r.mod & 15], _FORMATS[r.mod >> uops.FORMAT_SHIFT & 15]
    _put_float(u, r, _float_source(u, r, source), to)


@handles("FRND")
def frnd(u: Unit, r: Rec) -> None:
    to, source = _FORMATS[r.mod & 15], _FORMATS[r.mod >> uops.FORMAT_SHIFT & 15]
    x = _float_source(u, r, source)
    _put_float(u, r, convert.integral(x, r.mode), to, x)


@handles("F2I")
def f2i(u: Unit, r: Rec) -> None:
    bits, signed = _INTEGERS[r.mod & 15]
    x = _float_source(u, r, _FORMATS[r.mod >> uops.FORMAT_SHIFT & 15])
    value = convert.to_integer(x, bits, signed, r.mode)
    if bits == 64:
        u.put_pair(r.d, value)
    else:
        u.put(r.d, value.astype(np.uint32))


@handles("I2F")
def i2f(u: Unit, r: Rec) -> None:
    form = _FORMATS[r.mod & 15]
    bits, signed = _INTEGERS[r.mod >> uops.FORMAT_SHIFT & 15]
    value: U64
    if bits == 64:
        value = u.pair(r, 0)
    else:
        word: Array = u.word(r, 0)
        if bits < 32:
            word = (word >> np.uint32(bits * r.imm)) & np.uint32((1 << bits) - 1)
        value = word.astype(np.uint64)
        if signed:
            top = np.uint64(1 << (bits - 1))
            value = (value ^ top) - top
    result = convert.from_integer(value, signed, form, r.mode)
    if form is DOUBLE:
        u.put_pair(r.d, result)
    else:
        u.put(r.d, result.astype(np.uint32))


@handles("F2FP")
def f2fp(u: Unit, r: Rec) -> None:
    halves = []
    for slot in (0, 1):
        bits = u.single(r, slot)
        x = floats.as_float(floats.flush(bits) if r.has(uops.FTZ) else bits).astype(np.float64)
        halves.append(narrow(x, _form(r), r.mode).astype(np.uint32))
    upper: U32 = halves[0] << _SIXTEEN
    u.put(r.d, halves[1] | upper)
