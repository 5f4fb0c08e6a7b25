"""Pushbuffers: GP entries and method headers, taken apart into single methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hcqrt.emu.nv.trouble import PBDMA_ERROR, Refused

# clc56f.h NVC56F_DMA_SEC_OP
SEC_OP_GRP0, SEC_OP_INCR, SEC_OP_GRP2, SEC_OP_NON_INCR, SEC_OP_IMMD, SEC_OP_ONE_INCR, SEC_OP_RESERVED, SEC_OP_END = (
    range(8)
)
HEADER_RESERVED = 1 << 12
END_RESERVED = (1 << 29) - 1  # END_PB_SEGMENT has no operands
# clc56f.h NVC56F_GP_ENTRY1_OPCODE, for entries of length 0
OPCODE_NOP, OPCODE_ILLEGAL, OPCODE_GP_CRC, OPCODE_PB_CRC, OPCODE_EXTENDED_BASE = range(5)
EXTENDED_BASE_OPERAND = 0x1FFFF << 8  # VA bits 56:40
ENTRY_BYTES = 8
ENTRY_RESERVED = 1 << 1 | 1 << 40
LAST_PUSHBUFFER_VA = (1 << 40) - 4  # the last word of the 40-bit space cannot be used (nv-engine.md §1.4)

Methods = Iterator[tuple[int, int, int]]


@dataclass(frozen=True)
class Entry:
    """One GP entry: `words` at `va`, or a control opcode when `words` is 0 (its address is then an operand)."""

    va: int
    words: int
    sync: bool
    opcode: int


def decode_entry(raw: int, index: int, *, extended_base: bool = False) -> Entry:
    """Take a GP entry apart. Refused: conditional fetch, reserved bits, unknown opcodes, unusable addresses."""
    where = f"GP entry {index} = {raw:#018x}"
    if raw & 1:
        raise Refused(PBDMA_ERROR, f"{where}: conditional fetch needs sub-device masks")
    if raw & ENTRY_RESERVED:
        raise Refused(PBDMA_ERROR, f"{where}: reserved bits {raw & ENTRY_RESERVED:#x}")
    words = raw >> 42 & 0x1F_FFFF
    sync = bool(raw >> 63)
    if words:
        va = raw & 0xFF_FFFF_FFFC
        if va + 4 * words > LAST_PUSHBUFFER_VA:
            raise Refused(PBDMA_ERROR, f"{where}: {words} words at {va:#x} reach the end of the 40-bit space")
        return Entry(va, words, sync, OPCODE_NOP)
    opcode = raw >> 32 & 0xFF
    if opcode == OPCODE_EXTENDED_BASE and extended_base:
        if raw & ~(EXTENDED_BASE_OPERAND | 0xFF << 32 | 1 << 63):
            raise Refused(PBDMA_ERROR, f"{where}: SET_PB_SEGMENT_EXTENDED_BASE has bits outside its operand")
        return Entry((raw & EXTENDED_BASE_OPERAND) << 32, 0, sync, opcode)
    if opcode not in (OPCODE_NOP, OPCODE_ILLEGAL):
        raise Refused(PBDMA_ERROR, f"{where}: control opcode {opcode:#x} is not modelled")
    if opcode == OPCODE_NOP and raw:
        raise Refused(PBDMA_ERROR, f"{where}: a segment of no words")
    return Entry(0, 0, sync, opcode)


def methods(words: Sequence[int]) -> Methods:
    """Yield (subchannel, method offset in bytes, data) of a segment. Refused: headers that are no known form."""
    position, end = 0, len(words)
    while position < end:
        header = words[position]
        position += 1
        sec_op = header >> 29
        if sec_op == SEC_OP_END:
            if header & END_RESERVED:
                raise Refused(PBDMA_ERROR, f"method header {header:#010x}: END_PB_SEGMENT has no operands")
            return
        if header == 0:
            continue
        if sec_op in (SEC_OP_GRP0, SEC_OP_GRP2, SEC_OP_RESERVED):
            raise Refused(PBDMA_ERROR, f"method header {header:#010x}: sec_op {sec_op} is not allowed")
        if header & HEADER_RESERVED:
            raise Refused(PBDMA_ERROR, f"method header {header:#010x}: bit 12 is reserved")
        subchannel, method, count = header >> 13 & 7, (header & 0xFFF) << 2, header >> 16 & 0x1FFF
        if sec_op == SEC_OP_IMMD:
            yield subchannel, method, count
            continue
        if count > end - position:
            raise Refused(
                PBDMA_ERROR,
                f"method header {header:#010x} (subchannel {subchannel}, method {method:#x}): "
                f"count {count} spills past the segment, which has {end - position} words left",
            )
        for done in range(count):
            yield subchannel, method, words[position + done]
            if sec_op == SEC_OP_INCR or (sec_op == SEC_OP_ONE_INCR and done == 0):
                method += 4
        position += count
