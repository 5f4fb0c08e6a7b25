"""f32 and f64 arithmetic and comparisons on the running lanes."""

from __future__ import annotations

import numpy as np

from .. import uops
from . import doubles, floats, integers, specials
from .ops_integer import combine, put_comparison
from .records import Rec, handles
from .rounding import F64, U32, U64, Array, Bool
from .unit import Unit

_MUFU = {
    uops.MUFU_COS: specials.cos, uops.MUFU_SIN: specials.sin, uops.MUFU_EX2: specials.ex2, uops.MUFU_LG2: specials.lg2,
    uops.MUFU_RCP: specials.rcp, uops.MUFU_RSQ: specials.rsq, uops.MUFU_SQRT: specials.sqrt,
    uops.MUFU_TANH: specials.tanh,
}  # fmt: skip
_ONE = np.uint32(0x3F800000)


@handles("FADD")
def fadd(u: Unit, r: Rec) -> None:
    a, b = u.single(r, 0), u.single(r, 1)
    u.put(r.d, floats.add(a, b, r.mode, r.has(uops.FTZ), r.has(uops.SAT)))


@handles("FMUL")
def fmul(u: Unit, r: Rec) -> None:
    a, b = u.single(r, 0), u.single(r, 1)
    u.put(r.d, floats.mul(a, b, r.mode, r.has(uops.FTZ), r.has(uops.SAT), 2.0**r.imm))


@handles("FFMA")
def ffma(u: Unit, r: Rec) -> None:
    a, b, c = u.single(r, 0), u.single(r, 1), u.single(r, 2)
    u.put(r.d, floats.fma(a, b, c, r.mode, r.has(uops.FTZ), r.has(uops.SAT)))


def _flushed(u: Unit, r: Rec) -> tuple[U32, U32]:
    a, b = u.single(r, 0), u.single(r, 1)
    return (floats.flush(a), floats.flush(b)) if r.has(uops.FTZ) else (a, b)


def smaller(a: Array, b: Array) -> Bool:
    """a < b with -0 < +0; false with a NaN."""
    below: Bool = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    return below


@handles("FMNMX")
def fmnmx(u: Unit, r: Rec) -> None:
    a, b = _flushed(u, r)
    x, y = floats.as_float(a), floats.as_float(b)
    chosen = np.where(smaller(x, y) == u.predicate(r.p, r.p_neg), a, b)
    x_nan, y_nan = np.isnan(x), np.isnan(y)
    if x_nan.any() or y_nan.any():
        chosen = np.where(x_nan, b, np.where(y_nan, a, chosen))
        lost = x_nan | y_nan if r.has(uops.NAN_WINS) else x_nan & y_nan
        chosen = np.where(lost, floats.NAN32, chosen)
    u.put(r.d, floats.saturate(chosen) if r.has(uops.SAT) else chosen)


@handles("FSETP")
def fsetp(u: Unit, r: Rec) -> None:
    a, b = _flushed(u, r)
    put_comparison(u, r, integers.compare_floats(r.mod & 15, floats.as_float(a), floats.as_float(b)))


@handles("FSET")
def fset(u: Unit, r: Rec) -> None:
    a, b = _flushed(u, r)
    result = integers.compare_floats(r.mod & 15, floats.as_float(a), floats.as_float(b))
    holds = combine(r.mod >> uops.BOOL_SHIFT & 3, result, u.predicate(r.p, r.p_neg))
    u.put(r.d, np.where(holds, _ONE if r.has(uops.SAT) else integers.ALL_ONES, np.uint32(0)))


@handles("MUFU")
def mufu(u: Unit, r: Rec) -> None:
    ftz = r.has(uops.FTZ)
    bits = u.single(r, 0)
    x = floats.as_float(floats.flush(bits) if ftz else bits).astype(np.float64)
    result = _MUFU[r.mod](x).astype(np.float32)
    u.put(r.d, floats.finish(floats.as_bits(result), ftz, r.has(uops.SAT)))


def flush_double(x: F64) -> F64:
    return np.where(np.abs(x) < 2.2250738585072014e-308, np.copysign(0.0, x), x)  # the smallest normal float64


def _doubles(u: Unit, r: Rec, count: int) -> list[F64]:
    sources = [u.double(r, slot) for slot in range(count)]
    return [flush_double(x) for x in sources] if r.has(uops.FTZ) else sources


def _put_double(u: Unit, r: Rec, bits: U64) -> None:
    if r.has(uops.FTZ):
        bits = flush_double(bits.view(np.float64)).view(np.uint64)
    if r.has(uops.SAT):
        bits = floats.saturate_double(bits.view(np.float64)).view(np.uint64)
    u.put_pair(r.d, bits)


@handles("DADD")
def dadd(u: Unit, r: Rec) -> None:
    a, b = _doubles(u, r, 2)
    _put_double(u, r, doubles.add(a, b, r.mode))


@handles("DMUL")
def dmul(u: Unit, r: Rec) -> None:
    a, b = _doubles(u, r, 2)
    _put_double(u, r, doubles.mul(a, b, r.mode))


@handles("DFMA")
def dfma(u: Unit, r: Rec) -> None:
    a, b, c = _doubles(u, r, 3)
    _put_double(u, r, doubles.fma(a, b, c, r.mode))


@handles("DSETP")
def dsetp(u: Unit, r: Rec) -> None:
    put_comparison(u, r, integers.compare_floats(r.mod & 15, *_doubles(u, r, 2)))


@handles("DMNMX")
def dmnmx(u: Unit, r: Rec) -> None:
    a, b = _doubles(u, r, 2)
    chosen = np.where(smaller(a, b) == u.predicate(r.p, r.p_neg), a, b)
    a_nan, b_nan = np.isnan(a), np.isnan(b)
    chosen = np.where(a_nan, b, np.where(b_nan, a, chosen))
    if r.has(uops.NAN_WINS):
        chosen = np.where(a_nan | b_nan, np.nan, chosen)
    _put_double(u, r, doubles.quiet(chosen, a, b))
