"""Images: formats by the register description's names, row layout, texture, image and sampler descriptors."""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hcqrt.bits import align_up
from hcqrt.core.sints import lo_hi
from hcqrt.qcom import tables
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.pm4 import pack_fields

DESCRIPTOR_BYTES, SAMPLER_BYTES = 64, 16
PITCH_UNIT_BITS = 6  # a row starts at a multiple of 64 bytes, times 2 ** PITCHALIGN
DESCRIPTOR, SAMPLER = struct.Struct("<16I"), struct.Struct("<4I")

# name in enum a6xx_format -> components, bytes of a texel. Source: qcom facts 4
FORMATS: Mapping[str, tuple[int, int]] = {
    "FMT6_8_UNORM": (1, 1),
    "FMT6_8_UINT": (1, 1),
    "FMT6_8_SINT": (1, 1),
    "FMT6_16_UNORM": (1, 2),
    "FMT6_16_FLOAT": (1, 2),
    "FMT6_16_UINT": (1, 2),
    "FMT6_16_SINT": (1, 2),
    "FMT6_8_8_8_8_UNORM": (4, 4),
    "FMT6_8_8_8_8_UINT": (4, 4),
    "FMT6_8_8_8_8_SINT": (4, 4),
    "FMT6_10_10_10_2_UNORM": (4, 4),
    "FMT6_11_11_10_FLOAT": (3, 4),
    "FMT6_16_16_FLOAT": (2, 4),
    "FMT6_32_FLOAT": (1, 4),
    "FMT6_32_UINT": (1, 4),
    "FMT6_32_SINT": (1, 4),
    "FMT6_16_16_16_16_UNORM": (4, 8),
    "FMT6_16_16_16_16_FLOAT": (4, 8),
    "FMT6_16_16_16_16_UINT": (4, 8),
    "FMT6_16_16_16_16_SINT": (4, 8),
    "FMT6_32_32_FLOAT": (2, 8),
    "FMT6_32_32_32_FLOAT": (3, 12),
    "FMT6_32_32_32_32_FLOAT": (4, 16),
    "FMT6_32_32_32_32_UINT": (4, 16),
    "FMT6_32_32_32_32_SINT": (4, 16),
}


@dataclass(frozen=True)
class ImageLayout:
    """A 2D image in memory, rows one after the other. Sizes in bytes."""

    width: int
    height: int
    format: str
    components: int
    texel_bytes: int
    pitch: int  # from one row's start to the next, in the descriptor, in memory and in host copies alike

    @property
    def row_bytes(self) -> int:
        """A row without its padding."""
        return self.width * self.texel_bytes

    @property
    def tight_bytes(self) -> int:
        """The whole image without padding: what host copies take and give."""
        return self.row_bytes * self.height

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.pitch * self.height

    @property
    def pitch_align(self) -> int:
        return pitch_align_of(self.texel_bytes)

    def spread(self, data: Any) -> bytearray:
        """Tight rows with the padding of memory between them."""
        source = memoryview(data).cast("B")
        if source.nbytes != self.tight_bytes:
            raise ValueError(f"an image of {self.tight_bytes} bytes cannot take {source.nbytes}")
        out = bytearray(self.nbytes)
        for row in range(self.height):
            start = row * self.pitch
            out[start : start + self.row_bytes] = source[row * self.row_bytes : (row + 1) * self.row_bytes]
        return out

    def gather(self, memory: Any) -> bytes:
        """Tight rows out of the image's memory."""
        source = memoryview(memory).cast("B")
        if source.nbytes != self.nbytes:
            raise ValueError(f"an image takes {self.nbytes} bytes of memory, {source.nbytes} were given")
        starts = range(0, self.nbytes, self.pitch)
        return b"".join(source[start : start + self.row_bytes] for start in starts)


def pitch_align_of(texel_bytes: int) -> int:
    """PITCHALIGN of images laid out by hand: 64 bytes up to 4 a texel, then in proportion. Source: qcom facts 4."""
    return max(0, (texel_bytes - 1).bit_length() - 2)


def layout_for(image: tuple[int, int, str]) -> ImageLayout:
    """The layout of a (width, height, format) image. Raises ValueError for what the hardware has no image of."""
    try:
        width, height, name = image
    except (TypeError, ValueError):
        raise ValueError(f"image {image!r}: give (width, height, format)") from None
    if not isinstance(name, str) or name not in FORMATS:
        raise ValueError(f"image format {name!r} is not supported; supported are {', '.join(FORMATS)}")
    components, texel_bytes = FORMATS[name]
    for what, size in (("width", width), ("height", height)):
        if not hasattr(size, "__index__") or not 1 <= size <= A6XX.image_axis_max:
            raise ValueError(f"image {what} {size!r}, allowed are 1 to {A6XX.image_axis_max}")
    width, height = operator.index(width), operator.index(height)
    pitch = align_up(width * texel_bytes, 1 << PITCH_UNIT_BITS + pitch_align_of(texel_bytes))
    return ImageLayout(width, height, name, components, texel_bytes, pitch)


@functools.lru_cache(maxsize=1024)
def texture(layout: ImageLayout, va: int) -> bytes:
    """The descriptor through which a shader samples the image at `va`, 64-byte aligned."""
    swizzles = tables.ENUMS["a6xx_tex_swiz"]
    given = ["A6XX_TEX_X", "A6XX_TEX_Y", "A6XX_TEX_Z", "A6XX_TEX_W"][: layout.components]
    missing = ["A6XX_TEX_ZERO", "A6XX_TEX_ZERO", "A6XX_TEX_ZERO", "A6XX_TEX_ONE"][layout.components :]
    swizzle = {f"SWIZ_{name}": swizzles[way] for name, way in zip("XYZW", given + missing, strict=True)}
    return descriptor(layout, va, swizzle)


@functools.lru_cache(maxsize=1024)
def storage(layout: ImageLayout, va: int) -> bytes:
    """The descriptor through which a shader stores to the image at `va`: as `texture`, components as they are."""
    return descriptor(layout, va, {})


def descriptor(layout: ImageLayout, va: int, swizzle: Mapping[str, int]) -> bytes:
    if va % DESCRIPTOR_BYTES:
        raise ValueError(f"image at {va:#x} is not aligned to {DESCRIPTOR_BYTES} bytes")
    low, high = lo_hi(va)
    number = tables.ENUMS["a6xx_format"][layout.format]
    kind = tables.ENUMS["a6xx_tex_type"]["A6XX_TEX_2D"]
    linear = tables.ENUMS["a6xx_tile_mode"]["TILE6_LINEAR"]
    values: dict[int, dict[str, int]] = {
        0: {"TILE_MODE": linear, "FMT": number, **swizzle},
        1: {"WIDTH": layout.width, "HEIGHT": layout.height},
        2: {"PITCHALIGN": layout.pitch_align, "PITCH": layout.pitch, "TYPE": kind},
        4: {"BASE_LO": low},
        5: {"BASE_HI": high, "DEPTH": 1},
    }
    fields = tables.DESCRIPTORS["A6XX_TEX_CONST"]
    words = [pack_fields(f"A6XX_TEX_CONST[{dword}]", fields[dword], values.get(dword, {})) for dword in range(16)]
    return DESCRIPTOR.pack(*words)


def sampler() -> bytes:
    """The sampler that programs get: texel coordinates as they are, transparent black outside, no filter."""
    border = tables.ENUMS["a6xx_tex_clamp"]["A6XX_TEX_CLAMP_TO_BORDER"]
    values: dict[int, dict[str, int]] = {
        0: {"WRAP_S": border, "WRAP_T": border, "WRAP_R": border},
        1: {"UNNORM_COORDS": 1, "CUBEMAPSEAMLESSFILTOFF": 1},
    }
    fields = tables.DESCRIPTORS["A6XX_TEX_SAMP"]
    return SAMPLER.pack(
        *(pack_fields(f"A6XX_TEX_SAMP[{dword}]", fields[dword], values.get(dword, {})) for dword in range(4))
    )
