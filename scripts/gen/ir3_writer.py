"""Writes shader images as Mesa's ir3 compiler (25.2.7) leaves them: variant record, constant state, code."""

from __future__ import annotations

import struct
from dataclasses import dataclass

VARIANT_BYTES, CONST_STATE_BYTES = 2040, 1424
CODE_UNIT = 128  # bytes that one step of INSTRLEN stands for: 16 instructions
TAIL_BYTES = 4 * 8  # the instruction fetch runs ahead: at least four nops behind the end
STAGE_COMPUTE = 5
LOCAL_ID, GROUP_ID = 0x00, 0xC0  # r0.x and r48.x, three registers each
DRIVER_PARAMS, UBO_RANGES = 3, 4  # kinds of constants, by their place in the allocation table
DRIVER_PARAMS_VEC4 = 4  # group counts, base group, local size and group id: 16 words
PARAMS_UNIT = 64  # arguments take whole blocks of four vec4
CONSTLEN_UNIT = 4


@dataclass(frozen=True)
class Ir3Source:
    """What the image says of a shader besides its code. `full`, `half`: highest register, -1 where none is used."""

    code: bytes
    full: int
    half: int
    param_bytes: int
    shared: int = 0
    private: int = 0
    branches: int = 0
    images: int = 0
    textures: int = 0


def driver_params_vec4(param_bytes: int) -> int:
    """The constant register at which the launch's sizes begin: behind the arguments."""
    return -(-param_bytes // PARAMS_UNIT) * PARAMS_UNIT // 16


def write_ir3(kernel: Ir3Source) -> bytes:
    """The image of one compute shader whose local size is chosen at launch."""
    units = -(-(len(kernel.code) + TAIL_BYTES) // CODE_UNIT)
    code = kernel.code.ljust(units * CODE_UNIT, b"\0")  # an all-zero word is a nop
    driver = driver_params_vec4(kernel.param_bytes)
    constlen = -(-(driver + DRIVER_PARAMS_VEC4) // CONSTLEN_UNIT) * CONSTLEN_UNIT
    variant, state = bytearray(VARIANT_BYTES), bytearray(CONST_STATE_BYTES)
    numbers = {136: STAGE_COMPUTE, 224: len(code), 564: kernel.branches, 572: units, 576: constlen, 580: kernel.private,
               588: kernel.shared, 1480: kernel.images + kernel.textures, 1492: LOCAL_ID, 1496: GROUP_ID}  # fmt: skip
    for offset, value in numbers.items():
        struct.pack_into("<I", variant, offset, value)
    struct.pack_into("<bb", variant, 248, kernel.full, kernel.half)
    struct.pack_into("<h", variant, 250, constlen - 1)
    variant[584] = 1  # each wave's private memory lies together
    variant[1188 : 1188 + kernel.textures] = bytes(range(kernel.textures))
    variant[1220] = kernel.textures
    variant[1472] = 1  # the local size is not fixed
    struct.pack_into("<II", state, 44 + 16 * DRIVER_PARAMS, driver, DRIVER_PARAMS_VEC4)
    struct.pack_into("<I", state, 236, driver + DRIVER_PARAMS_VEC4)
    if kernel.param_bytes:
        struct.pack_into("<II", state, 44 + 16 * UBO_RANGES, 0, driver)
        struct.pack_into("<III", state, 384 + 16, 0, 0, 16 * driver)
        struct.pack_into("<II", state, 1408, 1, 16 * driver)
    return bytes(variant + state) + code
