"""IEEE formats on exact fractions: what a bit pattern is worth, and the one right rounding of a number."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

RN, RM, RP, RZ = range(4)
NAN, INFINITE, FINITE = "nan", "infinite", "finite"


class Format(NamedTuple):
    mantissa: int
    exponent: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def emin(self) -> int:
        return 2 - (1 << self.exponent - 1)

    @property
    def infinity(self) -> int:
        return (1 << self.exponent) - 1 << self.mantissa


F16, BF16, F32, F64 = Format(10, 5), Format(7, 8), Format(23, 8), Format(52, 11)


class Number(NamedTuple):
    """(-1)**negative * magnitude; `bits` is the pattern of a NaN."""

    kind: str
    negative: bool
    magnitude: Fraction = Fraction(0)
    bits: int = 0

    @property
    def signed(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude

    @property
    def zero(self) -> bool:
        return self.kind == FINITE and self.magnitude == 0


def number(bits: int, form: Format) -> Number:
    negative = bool(bits >> form.width - 1)
    field = bits >> form.mantissa & (1 << form.exponent) - 1
    rest = bits & (1 << form.mantissa) - 1
    if field == (1 << form.exponent) - 1:
        return Number(NAN, negative, bits=bits) if rest else Number(INFINITE, negative)
    if field:
        rest += 1 << form.mantissa
    step = form.emin + max(field, 1) - 1 - form.mantissa
    return Number(FINITE, negative, Fraction(rest) * Fraction(2) ** step)


def of_fraction(value: Fraction, negative_zero: bool = False) -> Number:
    return Number(FINITE, value < 0 or (value == 0 and negative_zero), abs(value))


def round_to_integer(value: Fraction, mode: int) -> int:
    below = value.numerator // value.denominator
    rest = value - below
    if mode == RM:
        return below
    if mode == RP:
        return below + (rest != 0)
    if mode == RZ:
        return below + (rest != 0 and value < 0)
    half = Fraction(1, 2)
    return below + (rest > half or (rest == half and below % 2 == 1))


def log2_floor(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def pattern(value: Number, form: Format, mode: int = RN) -> int:
    """Bits of an exact number rounded once; a NaN gives the canonical one of all formats but f64."""
    if value.kind == NAN:
        return (1 << form.width - 1) - 1
    sign = int(value.negative) << form.width - 1
    if value.kind == INFINITE:
        return sign | form.infinity
    if value.magnitude == 0:
        return sign
    step = max(log2_floor(value.magnitude), form.emin) - form.mantissa
    unit = Fraction(2) ** step
    count = abs(round_to_integer(value.signed / unit, mode))
    if count >> form.mantissa + 1:  # rounded up to the next power of two
        count, step = count >> 1, step + 1
    if step + form.mantissa > -form.emin + 1:
        away = mode == RN or (mode == RM and value.negative) or (mode == RP and not value.negative)
        return sign | form.infinity - (0 if away else 1)
    field = step + form.mantissa - form.emin + 1 if count >> form.mantissa else 0
    return sign | field << form.mantissa | count & (1 << form.mantissa) - 1


def flushed(bits: int, form: Format) -> int:
    """A denormal pattern becomes a zero of its sign."""
    field = bits >> form.mantissa & (1 << form.exponent) - 1
    return bits if field else bits & 1 << form.width - 1


def saturated(bits: int, form: Format) -> int:
    x = number(bits, form)
    if x.kind == NAN or x.negative or x.zero:
        return 0
    one = pattern(of_fraction(Fraction(1)), form)
    return one if x.kind == INFINITE or x.magnitude > 1 else bits


def multiply(a: Number, b: Number) -> Number:
    """The exact product; `bits` of a NaN that comes out is of no use."""
    negative = a.negative != b.negative
    if NAN in (a.kind, b.kind) or (INFINITE in (a.kind, b.kind) and (a.zero or b.zero)):
        return Number(NAN, False)
    if INFINITE in (a.kind, b.kind):
        return Number(INFINITE, negative)
    return Number(FINITE, negative, a.magnitude * b.magnitude)


def add(a: Number, b: Number, mode: int) -> Number:
    """The exact sum. The sign of an exact zero depends on the direction of rounding."""
    if NAN in (a.kind, b.kind) or (a.kind == b.kind == INFINITE and a.negative != b.negative):
        return Number(NAN, False)
    if a.kind == INFINITE or b.kind == INFINITE:
        return a if a.kind == INFINITE else b
    total = a.signed + b.signed
    if total == 0:
        same = a.negative == b.negative
        return Number(FINITE, a.negative if same else mode == RM)
    return of_fraction(total)


def compare(code: int, a: Number, b: Number) -> bool:
    """The 16 float comparisons: 1-6 ordered, 7 numbers, 8 a NaN, 9-14 true with a NaN as well."""
    unordered = NAN in (a.kind, b.kind)
    if code in (0, 15):
        return code == 15
    if code in (7, 8):
        return unordered == (code == 8)
    if unordered:
        return code > 8
    x, y = order(a), order(b)
    return (x < y, x == y, x <= y, x > y, x != y, x >= y)[(code - 1) % 8]


def order(a: Number) -> tuple[int, Fraction]:
    """What sorts numbers; both zeros are the same."""
    if a.kind == INFINITE:
        return (-1 if a.negative else 1), Fraction(0)
    return 0, a.signed
