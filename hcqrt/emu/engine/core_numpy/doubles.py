"""float64 arithmetic on arrays: the fused multiply-add in every direction, and what is built on it."""

from __future__ import annotations

import numpy as np

from .rounding import DOUBLE, F64, I64, RM, RN, U64, Array, pack, round_to_odd, two_product, two_sum

_EXPONENT = np.uint64(0x7FF << 52)
_ONE_BITS = np.uint64(1023 << 52)
_QUIET = np.uint64(1 << 51)
# An addend this many binades away only decides the direction of the rounding.
_FAR = 130


def quiet(result: F64, *sources: F64) -> U64:
    """Bits of the result; where it is NaN: the first source that is NaN, quieted, else the default NaN."""
    bits = np.ascontiguousarray(result).view(np.uint64)
    nan = np.isnan(result)
    if not nan.any():
        return bits
    chosen: Array = np.full(result.shape, 0x7FF8000000000000, np.uint64)
    for source in reversed(sources):
        raw = np.ascontiguousarray(source).view(np.uint64)
        chosen = np.where(np.isnan(source), raw | _QUIET, chosen)
    return np.where(nan, chosen, bits)


def add(a: F64, b: F64, mode: int) -> U64:
    if mode == RN:
        return quiet(a + b, a, b)
    return quiet(_fma(a, np.ones_like(a), b, mode), a, b)


def mul(a: F64, b: F64, mode: int) -> U64:
    if mode == RN:
        return quiet(a * b, a, b)
    zero = np.where(np.signbit(a) != np.signbit(b), -0.0, 0.0)
    return quiet(_fma(a, b, zero, mode), a, b)


def fma(a: F64, b: F64, c: F64, mode: int) -> U64:
    return quiet(_fma(a, b, c, mode), a, b, c)


def _split(x: F64) -> tuple[F64, I64]:
    """x = m * 2**e with 1 <= |m| < 2; zeros stay zero."""
    small = np.abs(x) < 2.2250738585072014e-308  # the smallest normal float64
    y = np.where(small, x * 18014398509481984.0, x)  # 2**54
    bits = y.view(np.uint64)
    exponent = ((bits & _EXPONENT) >> np.uint64(52)).astype(np.int64) - 1023 - np.where(small, 54, 0)
    m = ((bits & ~_EXPONENT) | _ONE_BITS).view(np.float64)
    return np.where(x == 0.0, x, m), exponent


def _power(n: I64) -> F64:
    bits: U64 = (n + 1023).astype(np.uint64) << np.uint64(52)
    return bits.view(np.float64)


def _round(s: F64, error: F64, scale: I64, mode: int) -> F64:
    """(s + error) * 2**scale rounded once; s is the nearest float64 of the sum and not zero."""
    bits = np.ascontiguousarray(s).view(np.uint64)
    negative = np.signbit(s)
    exponent = ((bits & _EXPONENT) >> np.uint64(52)).astype(np.int64) - 1023 + scale
    mantissa = ((bits & np.uint64((1 << 52) - 1)) | np.uint64(1 << 52)).astype(np.int64)
    # Two more bits hold the side on which the exact sum lies; just below a power of two it has the finer step.
    side = np.where(error == 0.0, 0, np.where((error > 0.0) == (s > 0.0), 1, -1))
    below = (mantissa == 1 << 52) & (side < 0)
    wide = np.where(below, (1 << 55) - 1, mantissa * 4 + side)
    packed = pack(negative, wide.astype(np.uint64), 54, exponent - below, DOUBLE, mode)
    return packed.view(np.float64)


def _fma(a: F64, b: F64, c: F64, mode: int) -> F64:
    """a * b + c rounded once; NaNs are not yet chosen."""
    (ma, ea), (mb, eb), (mc, ec) = _split(a), _split(b), _split(c)
    high, low = two_product(ma, mb)
    apart = np.where(mc == 0.0, -_FAR, ec - (ea + eb))
    near = np.clip(apart, -_FAR, _FAR)
    u, u_error = two_sum(mc * _power(near), low)
    t, t_error = two_sum(high, u)
    s, error = two_sum(t, round_to_odd(*two_sum(t_error, u_error)))
    result = _round(s, error, np.where(apart > _FAR, ec - _FAR, ea + eb), mode)
    zero = ((a == 0.0) | (b == 0.0) | (s == 0.0)) & np.isfinite(a) & np.isfinite(b)
    negative_product = np.signbit(a) != np.signbit(b)
    minus = np.signbit(c)
    negative_zero = negative_product | minus if mode == RM else negative_product & minus
    cancelled = np.where(negative_zero, -0.0, 0.0)
    exact = np.where((a == 0.0) | (b == 0.0), np.where(c == 0.0, cancelled, c), cancelled)
    result = np.where(zero, exact, result)
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    if special.any():
        finite_product = np.isfinite(a) & np.isfinite(b)
        result = np.where(special, np.where(finite_product, c, a * b + c), result)
    return result
