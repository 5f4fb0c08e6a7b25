"""Exact rounding of arrays: pack a wide mantissa into any IEEE format in any of the four directions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

# Rounding directions, numbered as the micro-ops number them.
RN, RM, RP, RZ = range(4)


class Format(NamedTuple):
    """An IEEE interchange format by the sizes of its fields."""

    mantissa: int
    exponent: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def sign_bit(self) -> int:
        return self.mantissa + self.exponent

    @property
    def canonical_nan(self) -> int:
        return (1 << self.sign_bit) - 1


HALF = Format(10, 5)
BFLOAT = Format(7, 8)
SINGLE = Format(23, 8)
DOUBLE = Format(52, 11)

_ONE = np.uint64(1)
_MANTISSA = np.uint64((1 << 52) - 1)
_MAGNITUDE = np.uint64((1 << 63) - 1)
_HIDDEN = np.uint64(1 << 52)


def _increment(kept: U64, rest: U64, half: U64, negative: Bool, mode: int) -> Bool:
    """Whether the kept magnitude grows by one, given what was cut off."""
    grow: Bool = np.zeros(kept.shape, np.bool_)
    if mode == RN:
        grow = (rest > half) | ((rest == half) & ((kept & _ONE) != 0))
    elif mode == RM:
        grow = (rest != 0) & negative
    elif mode == RP:
        grow = (rest != 0) & ~negative
    return grow


def _overflow(negative: Bool, form: Format, mode: int) -> U64:
    """Infinity or the largest finite number, whichever the direction asks for."""
    finite = {RN: negative & ~negative, RM: ~negative, RP: negative, RZ: negative | ~negative}[mode]
    bits: U64 = np.uint64(form.infinity) - finite.astype(np.uint64)
    return bits


def pack(negative: Bool, mantissa: U64, top: int, exponent: I64, form: Format, mode: int) -> U64:
    """Round (-1)**negative * mantissa * 2**(exponent - top) to bits of `form`, once.

    `mantissa` has bit `top` set (a smaller one is right only below the format's smallest normal number).
    """
    smallest = 1 - form.bias
    shift = np.minimum(top - form.mantissa + np.maximum(smallest - exponent, 0), 63).astype(np.uint64)
    kept = mantissa >> shift
    rest = mantissa & ((_ONE << shift) - _ONE)
    half = (_ONE << shift) >> _ONE
    # With nothing cut off, half is 0 and equals the rest: no tie.
    grow = _increment(kept, rest, half, negative, mode) & (shift != 0)
    base = (np.maximum(exponent, smallest) + (form.bias - 1)).astype(np.uint64) << np.uint64(form.mantissa)
    bits: U64 = base + kept + grow.astype(np.uint64)
    over = (bits >= np.uint64(form.infinity)) | (exponent > form.bias)
    if over.any():
        bits = np.where(over, _overflow(negative, form, mode), bits)
    bits |= negative.astype(np.uint64) << np.uint64(form.sign_bit)
    return bits


def narrow(x: F64, form: Format, mode: int) -> U64:
    """Round float64 values to bits of a smaller format; NaNs become the canonical one."""
    raw = np.ascontiguousarray(x).view(np.uint64)
    negative = (raw >> np.uint64(63)) != 0
    magnitude = raw & _MAGNITUDE
    biased = (magnitude >> np.uint64(52)).astype(np.int64)
    mantissa = np.where(biased > 0, (magnitude & _MANTISSA) | _HIDDEN, magnitude)
    bits = pack(negative, mantissa, 52, np.maximum(biased, 1) - 1023, form, mode)
    odd = biased == 0x7FF
    if odd.any():
        infinite = np.uint64(form.infinity) | (negative.astype(np.uint64) << np.uint64(form.sign_bit))
        bits = np.where(odd, np.where(np.isnan(x), np.uint64(form.canonical_nan), infinite), bits)
    return bits


def two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """The rounded sum and its exact error (finite values, no overflow)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """The rounded product and its exact error, by splitting each factor in two (magnitudes near 1)."""
    p = a * b
    a_high = a * 134217729.0 - (a * 134217729.0 - a)  # 2**27 + 1
    b_high = b * 134217729.0 - (b * 134217729.0 - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def round_to_odd(s: F64, error: F64) -> F64:
    """The sum s + error as a float64 whose last bit is set whenever it is not exact.

    `s` is the sum rounded to nearest. A second rounding, to a format at least two bits shorter, is then right in
    every direction. Infinities and NaNs (whose error is NaN) pass.
    """
    bits = np.ascontiguousarray(s).view(np.int64)
    inexact = (error > 0.0) | (error < 0.0)
    step = np.where((error > 0.0) == (s > 0.0), 1, -1)
    return np.where(inexact & ((bits & 1) == 0), bits + step, bits).view(np.float64)
