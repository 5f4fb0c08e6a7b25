"""Descriptors of textures, writable images, samplers and UBOs: taken apart, checked, made rows of a launch's banks.

Source: qcom.md §4. Positions are written out here: a second reading beside the generated table.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

from hcqrt.emu.engine.launch import ImageShape, SamplerShape
from hcqrt.emu.qcom.trouble import Refused

TEXTURE_BYTES, SAMPLER_BYTES = 64, 16
BASE_ALIGNMENT = 64
PITCH_UNIT_LOG2 = 6
MAX_EXTENT = 16384
BUFFER_WIDTH_BITS = 15
MAX_BUFFER_TEXELS = 1 << 27
CUBE_LAYERS = 6
KINDS = {0: "1d", 1: "2d", 2: "cube", 3: "3d", 4: "buffer"}
IDENTITY = (0, 1, 2, 3)
LAST_SWIZZLE = 5
# bytes of a texel by a6xx_format
TEXEL_BYTES = {
    0x03: 1, 0x05: 1, 0x06: 1,
    0x15: 2, 0x17: 2, 0x18: 2, 0x19: 2,
    0x30: 4, 0x33: 4, 0x34: 4, 0x36: 4, 0x42: 4, 0x45: 4, 0x4A: 4, 0x4B: 4, 0x4C: 4,
    0x60: 8, 0x62: 8, 0x63: 8, 0x64: 8, 0x67: 8,
    0x74: 12,
    0x82: 16, 0x83: 16, 0x84: 16,
}  # fmt: skip
SRGB_FORMATS = (0x03, 0x30)
# d0 bit 3 has no name, and the vendor's driver sets it in textures; of an image with one plane and no compression
# d6 to d10 (minimum level, plane pitch, flag buffer) mean nothing
TEXTURE_QUIRK = 1 << 3
LAST_IDLE_WORD = 10
LAST_WRAP, BORDER_WRAP = 4, 3
LAST_FILTER = 1  # cubic and anisotropic filters are not modelled
BORDER_ENTRY_BYTES = 128


@dataclass(frozen=True)
class Image:
    """One image in memory. `nbytes` reach from its first texel to its last."""

    shape: ImageShape
    va: int
    width: int
    height: int
    depth: int
    pitch_bytes: int
    layer_bytes: int
    nbytes: int

    @property
    def row(self) -> bytes:
        """Its 32 bytes in the bank of textures or images."""
        return struct.pack(
            "<8I", self.va & 0xFFFFFFFF, self.va >> 32, self.width, self.height, self.depth,
            self.pitch_bytes, self.layer_bytes, 0,
        )  # fmt: skip


@dataclass(frozen=True)
class Sampler:
    """One sampler; `border` is the byte offset of its border colour where a coordinate wraps to that, else None."""

    shape: SamplerShape
    border: int | None


def bits(word: int, msb: int, lsb: int) -> int:
    return word >> lsb & (1 << msb - lsb + 1) - 1


def refuse(what: str, text: str) -> Refused:
    return Refused(f"{what}: {text}")


@functools.lru_cache(maxsize=1024)
def decode_image(raw: bytes, writable: bool, idle_d1: int = 0) -> Image:
    """A descriptor of 64 bytes. Raises Refused, whose text says what is wrong with which dword.

    `idle_d1`: bits of d1 above the extents that the generation has, and that mean nothing to a linear image.
    """
    d = struct.unpack("<16I", raw)
    shape = decode_shape(d, writable)
    for index, word in enumerate(d):
        if index > LAST_IDLE_WORD and word:
            raise refuse(f"d{index} = {word:#x}", "no field is known there")
    for name, value in (("d1", (d[1] & ~idle_d1) >> 30), ("d3", d[3] >> 29), ("d5", d[5] >> 30)):
        if value:
            raise refuse(name, f"upper bits {value:#x} are in no known field")
    if bits(d[3], 28, 28) or bits(d[3], 27, 27):
        raise refuse(f"d3 = {d[3]:#x}", "tiled or compressed images are not modelled")
    va = bits(d[5], 16, 0) << 32 | d[4]
    if va % BASE_ALIGNMENT:
        raise refuse(f"d4 = {d[4]:#x}", f"base {va:#x} is not {BASE_ALIGNMENT}-byte aligned")
    if shape.kind == "buffer":
        return decode_buffer(d, shape, va)
    return decode_plain(d, shape, va)


def decode_shape(d: tuple[int, ...], writable: bool) -> ImageShape:
    """What d0 and the type in d2 say."""
    what = f"d0 = {d[0]:#010x}"
    if bits(d[0], 1, 0):
        raise refuse(what, f"tile mode {bits(d[0], 1, 0)} is not modelled, only linear")
    if d[0] & TEXTURE_QUIRK and writable:
        raise refuse(what, "bit 3 must be 0 in a writable image")
    if bits(d[0], 19, 16) or bits(d[0], 21, 20):
        raise refuse(what, f"{bits(d[0], 19, 16) + 1} levels of {1 << bits(d[0], 21, 20)} samples are not modelled")
    number = bits(d[0], 29, 22)
    if number not in TEXEL_BYTES:
        raise refuse(what, f"format {number:#x} is not modelled")
    x, y, z, w = (bits(d[0], lsb + 2, lsb) for lsb in (4, 7, 10, 13))
    if max(x, y, z, w) > LAST_SWIZZLE:
        raise refuse(what, f"swizzle {x}, {y}, {z}, {w}: there are 0 to {LAST_SWIZZLE}")
    if writable and (x, y, z, w) != (0, 0, 0, 0):
        raise refuse(what, f"swizzle {x}, {y}, {z}, {w} must be 0 in a writable image")
    srgb = bool(bits(d[0], 2, 2))
    if srgb and (number not in SRGB_FORMATS or writable):
        raise refuse(what, f"sRGB with format {number:#x} is not modelled")
    kind = bits(d[2], 31, 29)
    if kind not in KINDS:
        raise refuse(f"d2 = {d[2]:#010x}", f"type {kind} is not modelled")
    return ImageShape(number, KINDS[kind], IDENTITY if writable else (x, y, z, w), bits(d[0], 31, 30), srgb)


def decode_buffer(d: tuple[int, ...], shape: ImageShape, va: int) -> Image:
    """A row of texels without pitch, its length spread over width and height, here as in the descriptor."""
    what = f"d2 = {d[2]:#010x}"
    width, height = bits(d[1], 14, 0), bits(d[1], 29, 15)
    count = height << BUFFER_WIDTH_BITS | width
    if not 0 < count <= MAX_BUFFER_TEXELS:
        raise refuse(f"d1 = {d[1]:#x}", f"{count:#x} texels, a buffer has 1 to {MAX_BUFFER_TEXELS:#x}")
    if bits(d[2], 15, 4) != 1 or bits(d[2], 21, 16):
        raise refuse(what, f"struct size {bits(d[2], 15, 4)} and start {bits(d[2], 21, 16)}: only 1 and 0 are modelled")
    if bits(d[2], 28, 22) or bits(d[2], 3, 0):
        raise refuse(what, "a buffer has no pitch")
    if d[3] or bits(d[5], 29, 17) > 1:
        raise refuse(f"d3 = {d[3]:#x}, d5 = {d[5]:#x}", "a buffer has no layers")
    nbytes = count * TEXEL_BYTES[shape.format]
    return Image(shape, va, width, height, 1, 0, 0, nbytes)


def decode_plain(d: tuple[int, ...], shape: ImageShape, va: int) -> Image:
    width, height, depth = bits(d[1], 14, 0), bits(d[1], 29, 15), bits(d[5], 29, 17)
    if not 1 <= width <= MAX_EXTENT or not 1 <= height <= MAX_EXTENT:
        raise refuse(f"d1 = {d[1]:#x}", f"{width} x {height} texels, each is 1 to {MAX_EXTENT}")
    if shape.kind == "1d" and height != 1:
        raise refuse(f"d1 = {d[1]:#x}", f"a 1D image has height 1, not {height}")
    if shape.kind != "3d" and depth > 1:
        raise refuse(f"d5 = {d[5]:#x}", f"{depth} layers: arrays are not modelled")
    if shape.kind == "3d" and not depth:
        raise refuse(f"d5 = {d[5]:#x}", "a 3D image without depth")
    texel = TEXEL_BYTES[shape.format]
    pitch, align = bits(d[2], 28, 7), 1 << PITCH_UNIT_LOG2 + bits(d[2], 3, 0)
    if bits(d[2], 6, 4):
        raise refuse(f"d2 = {d[2]:#010x}", f"bits {bits(d[2], 6, 4) << 4:#x} are in no known field")
    if pitch % align or pitch < width * texel:
        raise refuse(
            f"d2 = {d[2]:#010x}", f"pitch {pitch:#x} for rows of {width * texel:#x} bytes, a multiple of {align:#x}"
        )
    layer = bits(d[3], 22, 0) << 12
    layers = {"3d": depth, "cube": CUBE_LAYERS}.get(shape.kind, 1)
    if (layers > 1 or layer) and layer < pitch * height:
        raise refuse(f"d3 = {d[3]:#x}", f"array pitch {layer:#x} is less than {height} rows of {pitch:#x}")
    if bits(d[3], 26, 23) and shape.kind != "3d":
        raise refuse(f"d3 = {d[3]:#x}", "a minimum layer size without layers")
    if layer > 0xFFFFFFFF:
        raise refuse(f"d3 = {d[3]:#x}", f"array pitch {layer:#x} is over 4 GiB")
    nbytes = (layers - 1) * layer + (height - 1) * pitch + width * texel
    return Image(shape, va, width, height, layers, pitch, layer, nbytes)


@functools.lru_cache(maxsize=1024)
def decode_sampler(raw: bytes) -> Sampler:
    """A descriptor of 16 bytes. Raises Refused for what reading single texels cannot mean."""
    d = struct.unpack("<4I", raw)
    what = f"d0 = {d[0]:#010x}"
    wrap = bits(d[0], 7, 5), bits(d[0], 10, 8), bits(d[0], 13, 11)
    if max(wrap) > LAST_WRAP:
        raise refuse(what, f"wrap modes {wrap}: there are 0 to {LAST_WRAP}")
    minimum, magnified = bits(d[0], 4, 3), bits(d[0], 2, 1)
    if max(minimum, magnified) > LAST_FILTER:
        raise refuse(what, f"filters {minimum}, {magnified} are not modelled")
    if bits(d[0], 18, 14) or bits(d[0], 31, 19):
        raise refuse(what, "anisotropy and level bias are not modelled")
    if bits(d[1], 3, 1) or bits(d[1], 7, 7):
        raise refuse(f"d1 = {d[1]:#010x}", "comparison is not modelled, and bit 7 is in no known field")
    if bits(d[2], 6, 0) or d[3]:
        raise refuse(f"d2 = {d[2]:#x}, d3 = {d[3]:#x}", "reduction and chroma modes are not modelled")
    border = bits(d[2], 31, 7) * BORDER_ENTRY_BYTES if BORDER_WRAP in wrap else None
    return Sampler(SamplerShape(bool(bits(d[1], 5, 5)), wrap, (minimum, magnified)), border)


def decode_ubo(raw: bytes) -> tuple[int, int]:
    """(address, bytes) of a descriptor of 8 bytes. Raises Refused."""
    low, high = struct.unpack("<2I", raw)
    va, nbytes = bits(high, 16, 0) << 32 | low, bits(high, 31, 17) * 16
    if va % 16 or not nbytes:
        raise Refused(f"UBO at {va:#x} of {nbytes:#x} bytes: not 16-byte aligned, or empty")
    return va, nbytes


def ubo_row(va: int, nbytes: int) -> bytes:
    """Its 16 bytes in the bank of UBOs."""
    return struct.pack("<4I", va & 0xFFFFFFFF, va >> 32, nbytes, 0)
