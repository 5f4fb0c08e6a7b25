"""EIATTR records of `.nv.info` sections. Source: nv-engine facts 8.4, from ptxas' own attribute table."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hcqrt.errors import BinaryError

MAX_THREADS, PARAM_CBANK, EXTERNS, REQNTID = 0x05, 0x0A, 0x0F, 0x10
FRAME_SIZE, MIN_STACK_SIZE, KPARAM_INFO, CBANK_PARAM_SIZE = 0x11, 0x12, 0x17, 0x19
REGCOUNT, CTA_PER_CLUSTER, EXPLICIT_CLUSTER, SYSCALL_OFFSETS, NUM_BARRIERS = 0x2F, 0x3D, 0x3E, 0x46, 0x4C
BLOCKS_ARE_CLUSTERS = 0x5B
# of `.nv.compat`, which has records of the same form (measured with ptxas 13.0): 1 for sm_NNa, 2 for family features
COMPAT_ACCELERATED, COMPAT_ISA_CLASS, ISA_CLASS_PLAIN = 0x09, 0x02, 1

FORMAT_NONE, FORMAT_BYTE, FORMAT_HALF, FORMAT_SIZED = 1, 2, 3, 4


def records(data: bytes, section: str) -> Iterator[tuple[int, int, bytes]]:
    """(attribute, value, payload) of each record; unknown attributes come too, unknown formats raise BinaryError."""
    position = 0
    while position < len(data):
        if position + 4 > len(data):
            raise BinaryError(f"damaged file: {section} ends inside a record at {position:#x}")
        form, attribute, value = struct.unpack_from("<2BH", data, position)
        position += 4
        payload = b""
        if form == FORMAT_SIZED:
            payload = data[position : position + value]
            if len(payload) != value:
                raise BinaryError(f"damaged file: attribute {attribute:#x} of {section} says {value} bytes, too many")
            position += -(-value // 4) * 4
        elif form not in (FORMAT_NONE, FORMAT_BYTE, FORMAT_HALF):
            raise BinaryError(f"{section}: attribute {attribute:#x} has unknown format {form} at {position - 4:#x}")
        yield attribute, value, payload


def words(payload: bytes, count: int | None, attribute: int, section: str) -> tuple[int, ...]:
    """A payload as `count` u32 (any number when None). Raises BinaryError when the size differs."""
    if len(payload) % 4 or (count is not None and len(payload) != 4 * count):
        raise BinaryError(f"damaged file: attribute {attribute:#x} of {section} has {len(payload)} bytes")
    return struct.unpack(f"<{len(payload) // 4}I", payload)
