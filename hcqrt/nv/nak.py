"""Shaders from Mesa's NAK compiler, as tinymesa 25.2.7.2 makes them: a metadata block followed by code."""

from __future__ import annotations

import struct

from hcqrt.bits import align_up
from hcqrt.errors import BinaryError
from hcqrt.nv.arch import CHIPS
from hcqrt.nv.image import PREFETCH_PAD, Image, Kernel

INFO_BYTES = 728  # sizeof(nak_shader_info) of that build; the layout is private to it
STAGE_COMPUTE = 5  # MESA_SHADER_COMPUTE
INSTRUCTION_BYTES = 16
BARRIERS_MAX, SCRATCH_BYTES_MAX = 16, 1 << 19  # of a block, of a thread
SM_TARGETS = range(70, 130)
PARAM_BYTES_MAX = 0x400  # arguments lie in bank 0 from offset 0: 128 pointers; the file does not say how many it takes
# u32 stage, u8 sm, gprs, barriers; u32 instructions at 12, scratch at 36, crs at 40; u16 x 3 block at 44, u16 shared
HEAD = struct.Struct("<I3B5xI20xII3HH")


def looks_like_nak(binary: bytes) -> bool:
    """Whether the metadata block is there: stage, target and code length agree. Nothing else starts like this."""
    if len(binary) < INFO_BYTES + INSTRUCTION_BYTES:
        return False
    stage, sm, _, _, instructions, *_ = HEAD.unpack_from(binary)
    return stage < 16 and sm in SM_TARGETS and len(binary) == INFO_BYTES + instructions * INSTRUCTION_BYTES


def load_nak(binary: bytes, name: str | None) -> Image:
    """Read a NAK shader. It carries no name, so it gets the one asked for. Raises BinaryError."""
    stage, sm, registers, barriers, _, scratch, crs, x, y, z, shared = HEAD.unpack_from(binary)
    if stage != STAGE_COMPUTE:
        raise BinaryError(f"NAK shader of stage {stage}: only compute shaders (stage {STAGE_COMPUTE}) can be launched")
    chip = CHIPS.get(f"sm_{sm}")
    if chip and chip.arch.nak_refusal:
        raise BinaryError(f"NAK shader for sm_{sm}: {chip.arch.nak_refusal}")
    if crs:
        raise BinaryError(f"NAK shader wants {crs} bytes of call stack, which sm_75 and later do not have")
    threads = x * y * z
    if not 1 <= threads <= 1024 or not registers:
        raise BinaryError(f"NAK shader with block size ({x}, {y}, {z}) and {registers} registers: damaged metadata")
    if barriers > BARRIERS_MAX or scratch > SCRATCH_BYTES_MAX:
        raise BinaryError(f"NAK shader with {barriers} barriers and {scratch} bytes of scratch: damaged metadata")
    code = binary[INFO_BYTES:]
    kernel = Kernel(
        name=name or "main",
        entry=0,
        registers=registers,
        barriers=barriers,
        shared_static=shared,
        local_low=align_up(scratch, 16),
        local_high=0,
        max_threads=threads,
        required_block=(x, y, z),
        param_base=0,
        params=None,
        param_bytes=PARAM_BYTES_MAX,
        driver_area=False,
        shared_in_abi=False,
    )
    return Image(sm=sm, variant="", data=code + bytes(PREFETCH_PAD), kernels={kernel.name: kernel})
