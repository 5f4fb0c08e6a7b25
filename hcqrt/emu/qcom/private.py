"""Private memory of a compute configuration: sizes and places. Source: qcom.md §3, items 8 and 9."""

from __future__ import annotations

from hcqrt.bits import align_up, is_pow2
from hcqrt.emu.qcom.chips import CHIPS
from hcqrt.emu.qcom.reader import Reader

PRIVATE_ALIGNMENT, PRIVATE_GRAIN = 32, 4096
STACK_UNIT = 2048


def known_stack_offset(reader: Reader, per_fiber: int) -> bool:
    """Whether this is what the known client writes: its bytes for one SP of an a630, not shifted.

    It rounds them to a power of two here, though not in SP_CS_PVT_MEM_PARAM.
    """
    rounded = 1 << max(per_fiber - 1, 0).bit_length()
    expected = align_up(rounded * CHIPS["a630"].fibers_per_sp, PRIVATE_GRAIN)
    return reader.values["SP_CS_PVT_MEM_HW_STACK_OFFSET"] == expected


def private_memory(reader: Reader) -> tuple[int, int, int]:
    """(bytes of a fiber, base, bytes of an SP)."""
    param, size = reader.fields("SP_CS_PVT_MEM_PARAM"), reader.fields("SP_CS_PVT_MEM_SIZE")
    reader.zero("SP_CS_PVT_MEM_PARAM", "HWSTACKSIZEPERTHREAD")
    per_fiber, per_sp = param["MEMSIZEPERITEM"], size["TOTALPVTMEMSIZE"]
    if per_fiber and not is_pow2(per_fiber) and not reader.lenient:
        raise reader.refuse("SP_CS_PVT_MEM_PARAM", f"{per_fiber:#x} bytes of private memory are no power of two")
    needed = align_up(per_fiber * reader.chip.fibers_per_sp, PRIVATE_GRAIN)
    if per_sp < needed:
        raise reader.refuse(
            "SP_CS_PVT_MEM_SIZE",
            f"{per_sp:#x} bytes for an SP, {reader.chip.fibers_per_sp} fibers of {per_fiber:#x} need {needed:#x}",
        )
    offset = reader.values["SP_CS_PVT_MEM_HW_STACK_OFFSET"] * STACK_UNIT  # all bits: see RegisterFile.known_mistake
    if offset != per_sp and not (reader.lenient and known_stack_offset(reader, per_fiber)):
        raise reader.refuse(
            "SP_CS_PVT_MEM_HW_STACK_OFFSET", f"offset {offset:#x}, an SP's private memory has {per_sp:#x} bytes"
        )
    va = reader.values["SP_CS_PVT_MEM_ADDR"]
    if va % PRIVATE_ALIGNMENT:
        raise reader.refuse("SP_CS_PVT_MEM_ADDR", f"not {PRIVATE_ALIGNMENT}-byte aligned")
    return per_fiber, va, per_sp
