"""Integer and predicate operations on arrays of 32-bit words: sums with carries, logic tables, shifts, bit counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .convert import bit_length_top
from .rounding import I64, U32, U64, Array, Bool

ALL_ONES = np.uint32(0xFFFFFFFF)
_32 = np.uint64(32)


def join(low: U32, high: U32) -> U64:
    """A register pair as 64-bit values."""
    pair: U64 = high.astype(np.uint64) << _32
    pair |= low
    return pair


def low(value: U64) -> U32:
    return value.astype(np.uint32)


def high(value: U64) -> U32:
    words: U32 = (value >> _32).astype(np.uint32)
    return words


def wide_sum(*terms: Array) -> U64:
    """The exact sum of 32-bit words and carries in 64 bits: carries out are its bits from 32 on."""
    total: U64 = terms[0].astype(np.uint64)
    for term in terms[1:]:
        total = total + term
    return total


def product(a: U32, b: U32, signed: bool) -> U64:
    """The 64-bit product of 32-bit words."""
    whole: U64
    if signed:
        whole = np.multiply(a.view(np.int32), b.view(np.int32), dtype=np.int64).view(np.uint64)
    else:
        whole = np.multiply(a, b, dtype=np.uint64)
    return whole


def _terms(lut: int, inputs: list[Array]) -> Array | None:
    """The logic function of three inputs as an or of its minterms; index bit 2 is the first input."""
    result: Array | None = None
    for index in range(8):
        if lut >> index & 1:
            term = None
            for position, value in enumerate(inputs):
                factor = value if index >> (2 - position) & 1 else ~value
                term = factor if term is None else term & factor
            assert term is not None
            result = term if result is None else result | term
    return result


_COMMON: dict[int, Callable[[Array, Array, Array], Array]] = {
    0xF0: lambda a, b, c: a,
    0xCC: lambda a, b, c: b,
    0xAA: lambda a, b, c: c,
    0x0F: lambda a, b, c: ~a,
    0x33: lambda a, b, c: ~b,
    0x55: lambda a, b, c: ~c,
    0xC0: lambda a, b, c: a & b,
    0xFC: lambda a, b, c: a | b,
    0x3C: lambda a, b, c: a ^ b,
    0xA0: lambda a, b, c: a & c,
    0xFA: lambda a, b, c: a | c,
    0x88: lambda a, b, c: b & c,
    0x80: lambda a, b, c: a & b & c,
    0xFE: lambda a, b, c: a | b | c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xF8: lambda a, b, c: a | (b & c),
    0xEA: lambda a, b, c: (a & b) | c,
}


def logic(lut: int, a: Array, b: Array, c: Array) -> Array:
    """The three-input table applied bit by bit (words) or to truth values (bool arrays)."""
    if lut in _COMMON:
        return _COMMON[lut](a, b, c)
    if lut >= 0x80:
        inverse = _terms(~lut & 0xFF, [a, b, c])
        return np.full_like(a, ALL_ONES if a.dtype != np.bool_ else True) if inverse is None else ~inverse
    result = _terms(lut, [a, b, c])
    return np.zeros_like(a) if result is None else result


def permute(a: U32, selector: U32, c: U32) -> U32:
    """Pick four bytes of c:a by selector nibbles; bit 3 of a nibble spreads the byte's sign."""
    pair = join(a, c)
    result: U32 = np.zeros(a.shape, np.uint32)
    if selector.size and (selector == selector[0]).all():
        return _permute_fixed(pair, int(selector[0]))
    for k in range(4):
        nibble = (selector >> np.uint32(4 * k)).astype(np.uint64)
        byte = low(pair >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint32(0xFF)
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        byte = np.where((nibble & np.uint64(8)) != 0, sign, byte)
        result |= byte << np.uint32(8 * k)
    return result


def _permute_fixed(pair: U64, selector: int) -> U32:
    result: U32 = np.zeros(pair.shape, np.uint32)
    if selector & 0xFFFF == 0xBBBB:
        result[...] = (low(pair).view(np.int32) >> np.int32(31)).view(np.uint32)
        return result
    for k in range(4):
        nibble = selector >> 4 * k
        byte = low(pair >> np.uint64(8 * (nibble & 7))) & np.uint32(0xFF)
        if nibble & 8:
            byte = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result |= byte << np.uint32(8 * k)
    return result


def shift_left(value: U64, count: Array) -> U64:
    """Logical shift by 0 and more, 64 and more giving 0."""
    wide = count.astype(np.uint64)
    moved: U64 = np.where(wide > 63, np.uint64(0), value << (wide & np.uint64(63)))
    return moved


def shift_right(value: U64, count: Array, signed: bool) -> U64:
    wide = count.astype(np.uint64)
    if signed:
        bounded = np.minimum(wide, np.uint64(63)).astype(np.int64)
        arithmetic: I64 = value.view(np.int64) >> bounded
        return arithmetic.view(np.uint64)
    moved: U64 = np.where(wide > 63, np.uint64(0), value >> (wide & np.uint64(63)))
    return moved


def population(value: U32) -> U32:
    x: U32 = value - ((value >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    x = (x * np.uint32(0x01010101)) >> np.uint32(24)
    return x


def reverse(value: U32) -> U32:
    x: U32 = value
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        x = ((x >> np.uint32(step)) & np.uint32(mask)) | ((x & np.uint32(mask)) << np.uint32(step))
    return x


def leading(value: U32, signed: bool) -> U32:
    """The position of the highest bit that differs from the sign (signed) or is set; all ones when there is none."""
    if signed:
        value = np.where(value.view(np.int32) < 0, ~value, value)
    empty = value == 0
    top = bit_length_top(np.where(empty, np.uint32(1), value).astype(np.uint64)).astype(np.uint32)
    return np.where(empty, ALL_ONES, top)


_RELATIONS: tuple[Callable[[Array, Array], Array], ...] = (
    np.less,
    np.equal,
    np.less_equal,
    np.greater,
    np.not_equal,
    np.greater_equal,
)


def compare_integers(code: int, a: Array, b: Array) -> Bool:
    """0 never, 1 < 2 = 3 <= 4 > 5 != 6 >=, 7 always."""
    if code in (0, 7):
        return np.full(a.shape, code == 7, np.bool_)
    result: Bool = _RELATIONS[code - 1](a, b)
    return result


def compare_floats(code: int, a: Array, b: Array) -> Bool:
    """0 never, 1..6 as for integers and false with a NaN, 7 numbers, 8 some NaN, 9..14 true with a NaN, 15 always."""
    if code in (0, 15):
        return np.full(a.shape, code == 15, np.bool_)
    unordered: Bool = np.isnan(a) | np.isnan(b)
    if code in (7, 8):
        return unordered if code == 8 else ~unordered
    related: Bool = _RELATIONS[(code - 1) % 8](a, b)
    return related | unordered if code > 8 else related & ~unordered


def selector(mode: int, b: U32) -> U32:
    """The selector that a named mode of PRMT (1 F4E to 6 RC16) makes of the low bits of b. Source: PTX ISA, prmt."""
    rows = (
        (0x3210, 0x4321, 0x5432, 0x6543),
        (0x5670, 0x6701, 0x7012, 0x0123),
        (0x0000, 0x1111, 0x2222, 0x3333),
        (0x3210, 0x3211, 0x3222, 0x3333),
        (0x0000, 0x1110, 0x2210, 0x3210),
        (0x1010, 0x3232, 0x1010, 0x3232),
    )
    chosen: U32 = np.array(rows[mode - 1], np.uint32)[b & np.uint32(3)]
    return chosen
