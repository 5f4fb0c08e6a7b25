"""Conversions on arrays: float to integer with clamping, integer to float, round to integral."""

from __future__ import annotations

import numpy as np

from .rounding import F64, I64, RM, RN, RP, U64, Array, Bool, Format, pack

_TOP = np.uint64(1 << 63)


def integral(x: F64, mode: int) -> F64:
    """Round to an integral float64; zeros keep the sign of what was rounded."""
    if mode == RN:
        return np.rint(x)
    if mode == RM:
        return np.floor(x)
    return np.ceil(x) if mode == RP else np.trunc(x)


def to_integer(x: F64, bits: int, signed: bool, mode: int) -> U64:
    """The clamped integer as two's complement in 64 bits; NaN gives 0."""
    y = integral(x, mode)
    low = -(2.0 ** (bits - 1)) if signed else 0.0
    over = 2.0 ** (bits - 1) if signed else 2.0**bits  # the first value that does not fit
    largest = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    inside = (y >= low) & (y < over)
    safe = np.where(inside, y, 0.0)
    if signed:
        value: Array = safe.astype(np.int64).view(np.uint64)
    else:
        value = safe.astype(np.uint64)
    smallest = -(1 << (bits - 1)) & (1 << 64) - 1 if signed else 0
    value = np.where(y >= over, np.uint64(largest), value)
    return np.where(y < low, np.uint64(smallest), value)


def bit_length_top(m: U64) -> I64:
    """The position of the highest set bit (int64); meaningless for 0."""
    # Without the bit below the top one the conversion to float64 cannot round up to the next power of two.
    lone: F64 = (m & ~(m >> np.uint64(1))).astype(np.float64)
    top: I64 = (lone.view(np.int64) >> 52) - 1023
    return top


def from_integer(value: U64, signed: bool, form: Format, mode: int) -> U64:
    """64-bit integers (two's complement when signed) to bits of a float format, rounded once."""
    if signed:
        negative: Bool = (value & _TOP) != 0
        magnitude = np.where(negative, np.uint64(0) - value, value)
    else:
        negative, magnitude = np.zeros(value.shape, np.bool_), value
    zero = magnitude == 0
    magnitude = np.where(zero, np.uint64(1), magnitude)
    top = bit_length_top(magnitude)
    normal: U64 = np.left_shift(magnitude, (63 - top).astype(np.uint64))
    bits = pack(negative, normal, 63, top, form, mode)
    return np.where(zero, np.uint64(0), bits)
