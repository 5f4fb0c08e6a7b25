"""Where each QMD version keeps what a launch sets: names of fields, whose positions the generated table gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from hcqrt.autogen.nv.qmd import QMD, SIZES
from hcqrt.bits import set_bits

Set = tuple[str, int, int]  # field, element of an array field, value


class Release(NamedTuple):
    """A slot that stores a 64-bit payload and the time when the grid completes: address and payload are four words."""

    address: tuple[str, str]  # fields of the lower and upper half
    payload: str  # field of the lower half
    enable: tuple[Set, ...]


class Successor(NamedTuple):
    """How a QMD starts another when it completes. The pointer takes an address >> 8."""

    pointer: str
    enable: tuple[Set, ...]


@dataclass(frozen=True)
class QmdLayout:
    """Field names of one QMD version, where versions differ."""

    version: tuple[int, int]
    size_bytes: int
    fields: Mapping[str, tuple[int, ...]] = field(repr=False)  # (msb, lsb), and the stride in bits of an array
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    program_va: tuple[str, str]
    program_va_shift: int
    registers: str
    shared_size: str
    shared_size_shift: int
    local_low: str
    local_high: str
    local_shift: int
    bank_va: tuple[str, str]
    bank_va_shift: int
    minor_version: str
    releases: tuple[Release, ...]  # none where payloads have 32 bits: the host releases then
    successor: Successor
    fixed: tuple[tuple[str, int], ...]  # what every launch sets to the same value

    def position(self, name: str, index: int = 0) -> tuple[int, int]:
        """(msb, lsb) of a field, or of element `index` of an array field. Raises KeyError."""
        msb, lsb, *stride = self.fields[name]
        step = stride[0] * index if stride else 0
        if index and not stride:
            raise KeyError(f"QMD field {name} is no array")
        return msb + step, lsb + step

    def set(self, data: bytearray, name: str, value: int, index: int = 0) -> None:
        """Set one field. Raises ValueError when `value` is too wide for it."""
        msb, lsb = self.position(name, index)
        set_bits(data, msb, lsb, value, f"QMD {name}")

    def word_of(self, name: str, index: int = 0) -> int:
        """Byte offset of the 32-bit word a field starts in."""
        return self.position(name, index)[1] // 32 * 4

    @cached_property
    def release_va_limit(self) -> int:
        """Addresses that a release can have lie below this."""
        msb, lsb = self.position(self.releases[0].address[1])
        return 1 << 32 + msb - lsb + 1


BLOCK = ("CTA_THREAD_DIMENSION0", "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2")
# What all versions set alike, with the values' meaning in nv-engine facts 5.1 and 5.2:
FIXED = (
    ("QMD_GROUP_ID", 0x3F),
    ("API_VISIBLE_CALL_LIMIT", 1),  # NO_CHECK
    ("CWD_MEMBAR_TYPE", 1),  # L1_SYSMEMBAR: the grid's writes are visible to all when it has completed
    ("INVALIDATE_TEXTURE_HEADER_CACHE", 1),
    ("INVALIDATE_TEXTURE_SAMPLER_CACHE", 1),
    ("INVALIDATE_TEXTURE_DATA_CACHE", 1),
    ("INVALIDATE_SHADER_DATA_CACHE", 1),
)
# ACTION 1: QMD_SCHEDULE
SUCCESSOR = Successor(
    "DEPENDENT_QMD0_POINTER",
    (("DEPENDENT_QMD0_ENABLE", 0, 1), ("DEPENDENT_QMD0_ACTION", 0, 1), ("DEPENDENT_QMD0_PREFETCH", 0, 1)),
)


def release_of_v3(slot: int) -> Release:
    """Each slot has fields of its own name. MEMBAR_TYPE 1: FE_SYSMEMBAR before the write; structure of four words."""
    name = f"RELEASE{slot}"
    enable = tuple((f"{name}_{field}", 0, 1) for field in ("ENABLE", "PAYLOAD64B", "MEMBAR_TYPE"))
    return Release((f"{name}_ADDRESS_LOWER", f"{name}_ADDRESS_UPPER"), f"{name}_PAYLOAD_LOWER", enable)


def release_of_v4(slot: int) -> Release:
    """The flags of all slots are arrays, apart from the addresses, which have 57 bits."""
    name = f"RELEASE_SEMAPHORE{slot}"
    enable = tuple((f"RELEASE_{field}", slot, 1) for field in ("ENABLE", "PAYLOAD64B", "MEMBAR_TYPE"))
    return Release((f"{name}_ADDR_LOWER", f"{name}_ADDR_UPPER"), f"{name}_PAYLOAD_LOWER", enable)


# clc7c0qmd.h, version 03_00
QMD_V03_00 = QmdLayout(
    version=(3, 0),
    size_bytes=SIZES["V03_00"],
    fields=QMD["V03_00"],
    grid=("CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH"),
    block=BLOCK,
    program_va=("PROGRAM_ADDRESS_LOWER", "PROGRAM_ADDRESS_UPPER"),
    program_va_shift=0,
    registers="REGISTER_COUNT_V",
    shared_size="SHARED_MEMORY_SIZE",
    shared_size_shift=0,
    local_low="SHADER_LOCAL_MEMORY_LOW_SIZE",
    local_high="SHADER_LOCAL_MEMORY_HIGH_SIZE",
    local_shift=0,
    bank_va=("CONSTANT_BUFFER_ADDR_LOWER", "CONSTANT_BUFFER_ADDR_UPPER"),
    bank_va_shift=0,
    minor_version="QMD_VERSION",
    releases=(release_of_v3(0), release_of_v3(1)),
    successor=SUCCESSOR,
    fixed=(*FIXED, ("SM_GLOBAL_CACHING_ENABLE", 1)),
)

# clc5c0qmd.h, version 02_03: releases write 32 bits and clear the other half of a 64-bit signal. TYPE 1: GRID
QMD_V02_03 = replace(
    QMD_V03_00,
    version=(2, 3),
    size_bytes=SIZES["V02_03"],
    fields=QMD["V02_03"],
    releases=(),
    successor=Successor(
        "DEPENDENT_QMD_POINTER", (("DEPENDENT_QMD_SCHEDULE_ENABLE", 0, 1), ("DEPENDENT_QMD_TYPE", 0, 1))
    ),
)

# clcbc0qmd.h, version 04_00. QMD_TYPE 2: GRID_CTA, blocks without clusters; 0 would be a queue
QMD_V04_00 = replace(
    QMD_V03_00,
    version=(4, 0),
    size_bytes=SIZES["V04_00"],
    fields=QMD["V04_00"],
    grid=("GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH"),
    registers="REGISTER_COUNT",
    bank_va=("CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6", "CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6"),
    bank_va_shift=6,
    minor_version="QMD_MINOR_VERSION",
    releases=(release_of_v4(0), release_of_v4(1)),
    successor=Successor(
        "DEPENDENT_QMD0_POINTER",
        (("DEPENDENT_QMD_ENABLE", 0, 1), ("DEPENDENT_QMD_ACTION", 0, 1), ("DEPENDENT_QMD_PREFETCH", 0, 1)),
    ),
    fixed=(*FIXED, ("QMD_TYPE", 2)),
)

# clcdc0qmd.h, version 05_00
QMD_V05_00 = replace(
    QMD_V04_00,
    version=(5, 0),
    size_bytes=SIZES["V05_00"],
    fields=QMD["V05_00"],
    program_va=("PROGRAM_ADDRESS_LOWER_SHIFTED4", "PROGRAM_ADDRESS_UPPER_SHIFTED4"),
    program_va_shift=4,
    shared_size="SHARED_MEMORY_SIZE_SHIFTED7",
    shared_size_shift=7,
    local_low="SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4",
    local_high="SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4",
    local_shift=4,
    successor=SUCCESSOR,
)
