"""Texel formats: where each component lies in memory, and how values become components and back.

A texel is up to four 32-bit words in scratch registers. Decoding gives f32 or f16 bits of float and normalised formats
and 32-bit integers of integer ones; encoding takes the same.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .. import uops as u
from ..launch import ImageShape
from .lowering import ZERO, Lowering, Source, immediate, register
from .registers import A_AND_B

UNORM, UINT, SINT, FLOAT, SMALL_FLOAT = "unorm", "uint", "sint", "float", "small float"
A_OR_B = 0xFC


class Format(NamedTuple):
    kind: str
    widths: tuple[int, ...]  # bits of each component in memory, from the lowest

    @property
    def nbytes(self) -> int:
        return sum(self.widths) // 8


# By the a6xx number of the format.
FORMATS = {
    0x03: Format(UNORM, (8,)), 0x05: Format(UINT, (8,)), 0x06: Format(SINT, (8,)),
    0x15: Format(UNORM, (16,)), 0x17: Format(FLOAT, (16,)), 0x18: Format(UINT, (16,)), 0x19: Format(SINT, (16,)),
    0x30: Format(UNORM, (8,) * 4), 0x33: Format(UINT, (8,) * 4), 0x34: Format(SINT, (8,) * 4),
    0x36: Format(UNORM, (10, 10, 10, 2)), 0x42: Format(SMALL_FLOAT, (11, 11, 10)), 0x45: Format(FLOAT, (16, 16)),
    0x4A: Format(FLOAT, (32,)), 0x4B: Format(UINT, (32,)), 0x4C: Format(SINT, (32,)),
    0x60: Format(UNORM, (16,) * 4), 0x62: Format(FLOAT, (16,) * 4), 0x63: Format(UINT, (16,) * 4),
    0x64: Format(SINT, (16,) * 4), 0x67: Format(FLOAT, (32,) * 2), 0x74: Format(FLOAT, (32,) * 3),
    0x82: Format(FLOAT, (32,) * 4), 0x83: Format(UINT, (32,) * 4), 0x84: Format(SINT, (32,) * 4),
}  # fmt: skip
# Component swap: which of x, y, z, w lies in each place, from the lowest.
SWAPS = ((0, 1, 2, 3), (2, 1, 0, 3), (3, 0, 1, 2), (3, 2, 1, 0))


class Component(NamedTuple):
    kind: str
    lsb: int
    width: int


def known_format(i: Lowering, shape: ImageShape) -> Format:
    if shape.format not in FORMATS:
        raise i.refuse(f"image format {shape.format:#x} is not implemented")
    if shape.srgb:
        raise i.refuse("sRGB images are not implemented")
    return FORMATS[shape.format]


def components(i: Lowering, shape: ImageShape) -> dict[int, Component]:
    """Components of a texel by number (0 to 3 are x to w)."""
    form = known_format(i, shape)
    order = SWAPS[shape.swap][: len(form.widths)]
    if shape.swap and (len(form.widths) != 4 or [form.widths[n] for n in order] != list(form.widths)):
        raise i.refuse(f"component swap {shape.swap} of format {shape.format:#x} is not implemented")
    lsb, found = 0, {}
    for component, width in zip(order, form.widths, strict=True):
        found[component] = Component(form.kind, lsb, width)
        lsb += width
    return found


def one(kind: str, half: bool) -> int:
    return 1 if kind in (UINT, SINT) else 0x3C00 if half else 0x3F800000


def extract(i: Lowering, words: int, part: Component) -> Source:
    """The component's bits, zero-extended, or sign-extended in a signed format."""
    word = register(words + part.lsb // 32)
    if part.width == 32:
        return word
    d, value = i.temporary()
    shift, flags = part.lsb % 32, u.SIGNED if part.kind == SINT else 0
    if shift:
        i.emit("SHF", d, word, immediate(shift), ZERO, flags=u.RIGHT)
        word = value
    i.emit("SGXT", d, word, immediate(part.width), flags=flags)
    return value


def double(i: Lowering, value: float) -> Source:
    """An f64 constant in two scratch registers."""
    lo, hi = struct.unpack("<II", struct.pack("<d", value))
    pair = i.scratch(2)
    i.emit("MOV", pair, immediate(lo))
    i.emit("MOV", pair + 1, immediate(hi))
    return register(pair)


def decode(i: Lowering, d: int, words: int, part: Component, half: bool) -> None:
    """d = component `part` of the texel as f32 or (`half`) f16 of a float format, or as integer."""
    bits = extract(i, words, part)
    target = u.F16 if half else u.F32
    if part.kind in (UINT, SINT):
        if half and part.width > 16:
            raise i.refuse("reading 32-bit integers of an image as 16-bit ones is not implemented")
        i.emit("LOP3" if half else "MOV", d, bits, *((immediate(0xFFFF),) if half else ()), mod=A_AND_B if half else 0)
    elif part.kind == UNORM:
        # n / (2^width - 1): the quotient in f64 is so close that its one rounding to f32 or f16 is the exact one's.
        wide = i.scratch(2)
        i.emit("I2F", wide, bits, mod=u.F64 | u.U32 << u.FORMAT_SHIFT)
        i.emit("DMUL", wide, register(wide), double(i, 1.0 / ((1 << part.width) - 1)))
        i.emit("F2F", d, register(wide), mod=target | u.F64 << u.FORMAT_SHIFT)
    elif part.kind == SMALL_FLOAT:
        # The same exponent as f16, no sign, fewer bits below.
        i.emit("SHF", d, bits, immediate(15 - part.width), ZERO)
        if not half:
            i.emit("F2F", d, register(d), mod=u.F32 | u.F16 << u.FORMAT_SHIFT)
    elif (part.width == 16 and not half) or (part.width == 32 and half):
        i.emit("F2F", d, bits, mod=target | (u.F32 if half else u.F16) << u.FORMAT_SHIFT)
    else:
        i.emit("MOV", d, bits)


def encode(i: Lowering, d: int, value: Source, part: Component, half: bool) -> None:
    """d = the component's bits, for a value as `decode` gives them. Integers keep their low bits."""
    if part.kind in (UINT, SINT):
        i.emit("SGXT", d, value, immediate(part.width))
    elif part.kind == UNORM:
        if half:
            i.emit("F2F", d, value, mod=u.F32 | u.F16 << u.FORMAT_SHIFT)
            value = register(d)
        wide = i.scratch(2)
        i.emit("FADD", d, value, immediate(0x80000000), flags=u.SAT)
        i.emit("F2F", wide, register(d), mod=u.F64 | u.F32 << u.FORMAT_SHIFT)
        i.emit("DMUL", wide, register(wide), double(i, float((1 << part.width) - 1)))
        i.emit("F2I", d, register(wide), mod=u.U32 | u.F64 << u.FORMAT_SHIFT)
    elif part.kind == SMALL_FLOAT:
        # Cut, not rounded; what is below zero becomes zero, a NaN stays one.
        if not half:
            i.emit("F2F", d, value, flags=u.RZ << u.ROUND_SHIFT, mod=u.F16 | u.F32 << u.FORMAT_SHIFT)
            value = register(d)
        i.emit("HMNMX2", d, value, ZERO, flags=u.NAN_WINS, p=(u.PT, True))
        i.emit("SHF", d, register(d), immediate(15 - part.width), ZERO, flags=u.RIGHT)
    elif (part.width == 16 and not half) or (part.width == 32 and half):
        form = u.F16 | u.F32 << u.FORMAT_SHIFT if part.width == 16 else u.F32 | u.F16 << u.FORMAT_SHIFT
        i.emit("F2F", d, value, mod=form)
    else:
        i.emit("MOV", d, value)


def insert(i: Lowering, words: int, part: Component, bits: Source) -> None:
    """Put a component into its word, which holds zeros or others' bits there."""
    word = words + part.lsb // 32
    shift = part.lsb % 32
    if not shift:
        i.emit("MOV", word, bits)
        return
    d, moved = i.temporary()
    i.emit("SHF", d, bits, immediate(shift), ZERO)
    i.emit("LOP3", word, register(word), moved, mod=A_OR_B)
