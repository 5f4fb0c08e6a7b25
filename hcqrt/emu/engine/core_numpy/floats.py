"""f32, f16 and bf16 arithmetic on arrays of bits: one rounding, canonical NaNs, flushed denormals, saturation."""

from __future__ import annotations

import numpy as np

from .rounding import BFLOAT, F32, F64, HALF, RM, RN, SINGLE, U32, Array, Format, narrow, round_to_odd, two_sum

NAN32 = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_EXPONENT = np.uint32(0x7F800000)
_ONE = np.uint32(0x3F800000)


def as_float(bits: U32) -> F32:
    return bits.view(np.float32)


def as_bits(values: F32) -> U32:
    return values.view(np.uint32)


def flush(bits: U32) -> U32:
    """Denormal numbers become a zero of their sign; the array itself comes back when there is none."""
    doubled = (bits << np.uint32(1)) - np.uint32(1)  # a zero wraps to the top
    if doubled.size == 0 or doubled.min() >= 0x00FFFFFF:
        return bits
    return np.where((bits & _EXPONENT) == 0, bits & _SIGN, bits)


def canonical(bits: U32) -> U32:
    """Every NaN becomes 0x7FFFFFFF; the array itself comes back when there is none."""
    doubled = bits << np.uint32(1)
    if doubled.size == 0 or doubled.max() <= 0xFF000000:
        return bits
    return np.where(doubled > np.uint32(0xFF000000), NAN32, bits)


def saturate(bits: U32) -> U32:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    values = as_float(bits)
    return np.where(values > 0.0, np.where(values < 1.0, bits, _ONE), np.uint32(0))


def finish(bits: U32, ftz: bool, sat: bool) -> U32:
    bits = flush(bits) if ftz else bits
    return saturate(bits) if sat else canonical(bits)


def _from_double(x: F64, mode: int) -> U32:
    """Round an exact or odd-rounded float64 to f32 bits."""
    if mode == RN:
        return as_bits(x.astype(np.float32))
    return narrow(x, SINGLE, mode).astype(np.uint32)


def _wide(bits: U32) -> F64:
    return as_float(bits).astype(np.float64)


def signed_zero(s: F64, first: F64, second: F64) -> F64:
    """Rounding down, an exact zero is negative unless both terms were +0."""
    return np.where((s == 0.0) & (np.signbit(first) | np.signbit(second)), -0.0, s)


def add(a: U32, b: U32, mode: int, ftz: bool, sat: bool) -> U32:
    if ftz:
        a, b = flush(a), flush(b)
    if mode == RN:
        return finish(as_bits(as_float(a) + as_float(b)), ftz, sat)
    return finish(_from_double(_odd_sum(_wide(a), _wide(b), mode), mode), ftz, sat)


def mul(a: U32, b: U32, mode: int, ftz: bool, sat: bool, scale: float = 1.0) -> U32:
    """a * b * scale; the scale is a power of two and applied before the only rounding."""
    if ftz:
        a, b = flush(a), flush(b)
    if mode == RN and scale == 1.0:
        return finish(as_bits(as_float(a) * as_float(b)), ftz, sat)
    return finish(_from_double(_wide(a) * _wide(b) * scale, mode), ftz, sat)


def fma(a: U32, b: U32, c: U32, mode: int, ftz: bool, sat: bool) -> U32:
    if ftz:
        a, b, c = flush(a), flush(b), flush(c)
    product, addend = _wide(a) * _wide(b), _wide(c)
    if mode != RN:
        return finish(_from_double(_odd_sum(product, addend, mode), mode), ftz, sat)
    s = product + addend
    result = as_bits(s.astype(np.float32))
    # The second rounding can only go wrong on what looks like a tie, or where f32 has fewer bits.
    halfway = (s.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    doubtful = halfway | (np.abs(s) < 1.1754943508222875e-38)  # the smallest normal f32
    if doubtful.any():
        at = np.flatnonzero(doubtful)
        odd = round_to_odd(*two_sum(product[at], addend[at]))
        result[at] = as_bits(odd.astype(np.float32))
    return finish(result, ftz, sat)


def _odd_sum(first: F64, second: F64, mode: int) -> F64:
    s, error = two_sum(first, second)
    odd = round_to_odd(s, error)
    return signed_zero(odd, first, second) if mode == RM else odd


def widen_half(bits: Array, form: Format) -> F64:
    """16-bit patterns (in arrays of any unsigned type) to float64, exactly."""
    if form is BFLOAT:
        singles: U32 = np.left_shift(bits.astype(np.uint32), np.uint32(16))
        return singles.view(np.float32).astype(np.float64)
    halves: F64 = bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return halves


def flush_half(x: F64, form: Format) -> F64:
    smallest = 2.0 ** (1 - form.bias)
    return np.where(np.abs(x) < smallest, np.copysign(0.0, x), x)


def narrow_half(x: F64, form: Format, mode: int = RN) -> U32:
    """Round an exact or odd-rounded float64 to 16 bits."""
    return narrow(x, form, mode).astype(np.uint32)


def half_sum(product: F64, addend: F64) -> F64:
    """The odd-rounded sum of an exact product and an addend, ready for `narrow_half`."""
    return round_to_odd(*two_sum(product, addend))


def saturate_double(x: F64) -> F64:
    """Clamp to [0, 1]; NaN and -0 become +0 (before a narrowing that keeps 0 and 1 exact)."""
    return np.where(x > 0.0, np.where(x < 1.0, x, 1.0), 0.0)


__all__ = [
    "BFLOAT", "HALF", "NAN32", "add", "as_bits", "as_float", "canonical", "finish", "flush", "flush_half", "fma",
    "half_sum", "mul", "narrow_half", "saturate", "saturate_double", "signed_zero", "widen_half",
]  # fmt: skip
