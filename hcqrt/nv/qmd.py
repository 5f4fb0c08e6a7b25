"""QMD, the launch descriptor: which fields a launch sets, and a template patched in place for each launch."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hcqrt.autogen.nv.qmd import QMD
from hcqrt.bits import set_bits
from hcqrt.core.sints import Sint, is_symbolic
from hcqrt.errors import LaunchError

PAIR = struct.Struct("<2I")
POINTER_LIMIT = 1 << 40  # SEND_PCAS_A and DEPENDENT_QMD0_POINTER take va >> 8 in 32 bits


@dataclass(frozen=True)
class QmdLayout:
    """Field names of one QMD version, where versions differ; positions come from the generated table."""

    version: tuple[int, int]
    size_bytes: int
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
    releases: tuple[tuple[str, str, str], ...]  # per slot: enable, payload-64 flag, membar; one shared structure rule
    release_address: tuple[str, ...]  # low word of each slot's address
    fixed: tuple[tuple[str, int], ...]  # what every launch sets to the same value

    @property
    def table(self) -> Mapping[str, Any]:
        return QMD[f"V{self.version[0]:02}_{self.version[1]:02}"]

    def position(self, name: str, index: int = 0) -> tuple[int, int]:
        """(msb, lsb) of a field, or of element `index` of an array field. Raises KeyError."""
        msb, lsb, *stride = self.table[name]
        step = stride[0] * index if stride else 0
        if index and not stride:
            raise KeyError(f"QMD field {name} is no array")
        return msb + step, lsb + step

    def set(self, data: bytearray, name: str, value: int, index: int = 0) -> None:
        """Set one field. Raises ValueError when `value` is too wide for it."""
        msb, lsb = self.position(name, index)
        set_bits(data, msb, lsb, value, f"QMD {name}")

    def word_of(self, name: str) -> int:
        """Byte offset of the 32-bit word a field starts in."""
        return self.position(name)[1] // 32 * 4

    @property
    def release_offsets(self) -> tuple[int, ...]:
        """Byte offset of each release slot: address low, flags with address high, 64-bit payload."""
        return tuple(self.word_of(name) for name in self.release_address)

    @property
    def release_flags(self) -> int:
        """The slot's second word: enabled, 64-bit payload, four words with timestamp, sysmembar before the write."""
        enable, payload64, membar = self.releases[0]
        base = self.release_offsets[0] + 4
        return sum(1 << self.position(name)[1] - base * 8 for name in (enable, payload64, membar))


# clc7c0qmd.h, version 03_00. `fixed`, with the values' meaning in nv-engine facts 5.1 and 5.2:
QMD_V03_00 = QmdLayout(
    version=(3, 0),
    size_bytes=0x100,
    grid=("CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH"),
    block=("CTA_THREAD_DIMENSION0", "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2"),
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
    releases=(
        ("RELEASE0_ENABLE", "RELEASE0_PAYLOAD64B", "RELEASE0_MEMBAR_TYPE"),
        ("RELEASE1_ENABLE", "RELEASE1_PAYLOAD64B", "RELEASE1_MEMBAR_TYPE"),
    ),
    release_address=("RELEASE0_ADDRESS_LOWER", "RELEASE1_ADDRESS_LOWER"),
    fixed=(
        ("QMD_GROUP_ID", 0x3F),
        ("SM_GLOBAL_CACHING_ENABLE", 1),
        ("API_VISIBLE_CALL_LIMIT", 1),  # NO_CHECK
        ("CWD_MEMBAR_TYPE", 1),  # L1_SYSMEMBAR: the grid's writes are visible to all when it has completed
        ("INVALIDATE_TEXTURE_HEADER_CACHE", 1),
        ("INVALIDATE_TEXTURE_SAMPLER_CACHE", 1),
        ("INVALIDATE_TEXTURE_DATA_CACHE", 1),
        ("INVALIDATE_SHADER_DATA_CACHE", 1),
    ),
)


@dataclass(frozen=True)
class QmdSpec:
    """What a QMD says of one launch shape. Sizes in bytes per block (shared) or thread (local)."""

    grid: tuple[Sint, Sint, Sint]
    block: tuple[Sint, Sint, Sint]
    program_va: int
    registers: int
    barriers: int
    shared_bytes: int
    sm_configs: tuple[int, int, int]  # min, target, max carve-out as the field takes it: KiB / 4 + 1
    local_low: int
    local_high: int
    bank0_bytes: int
    banks: tuple[tuple[int, int, int], ...]  # bank number, GPU address, bytes: all banks but 0
    sass_version: int


class QmdTemplate:
    """A finished QMD but for bank 0's address, the releases and the successor, which differ per launch."""

    __slots__ = ("_bank0_offset", "_bank0_shift", "_bank0_upper", "_next_offset", "_next_word", "bank0_prefix",
                 "bank0_symbols", "data", "layout", "symbols")  # fmt: skip

    def __init__(self, layout: QmdLayout, spec: QmdSpec) -> None:
        self.layout = layout
        self.symbols: list[tuple[int, str, Sint]] = []  # byte offset, struct format, value at submission
        self.bank0_prefix = b""  # what bank 0 holds before the parameters, and symbols in it
        self.bank0_symbols: list[tuple[int, str, Sint]] = []
        data = bytearray(layout.size_bytes)
        self._shape(data, spec)
        self._resources(data, spec)
        layout.set(data, "CONSTANT_BUFFER_VALID", 1)
        layout.set(data, "CONSTANT_BUFFER_INVALIDATE", 1)
        layout.set(data, "CONSTANT_BUFFER_SIZE_SHIFTED4", -(-spec.bank0_bytes // 16))
        for number, va, nbytes in spec.banks:
            self._bank(data, number, va, nbytes)
        for name, value in layout.fixed:
            layout.set(data, name, value)
        self.data = bytes(data)
        self._bank0_offset = layout.word_of(layout.bank_va[0])
        self._bank0_shift = layout.bank_va_shift
        self._bank0_upper = struct.unpack_from("<I", data, self._bank0_offset + 4)[0]
        self._next_offset = layout.word_of("DEPENDENT_QMD0_POINTER")
        chained = bytearray(data)
        for name, value in (("ENABLE", 1), ("ACTION", 1), ("PREFETCH", 1)):  # ACTION 1: QMD_SCHEDULE
            layout.set(chained, f"DEPENDENT_QMD0_{name}", value)
        self._next_word = struct.unpack_from("<I", chained, self._next_offset + 4)[0]

    @property
    def nbytes(self) -> int:
        return self.layout.size_bytes

    def _shape(self, data: bytearray, spec: QmdSpec) -> None:
        layout = self.layout
        layout.set(data, "QMD_MAJOR_VERSION", layout.version[0])
        layout.set(data, layout.minor_version, layout.version[1])
        for name, value in zip((*layout.grid, *layout.block), (*spec.grid, *spec.block), strict=True):
            if isinstance(value, int):
                layout.set(data, name, value)
            else:
                msb, lsb = layout.position(name)
                self.symbols.append((lsb // 8, {32: "I", 16: "H", 8: "B"}[msb - lsb + 1], value))

    def _resources(self, data: bytearray, spec: QmdSpec) -> None:
        layout = self.layout
        va = spec.program_va >> layout.program_va_shift
        layout.set(data, layout.program_va[0], va & 0xFFFF_FFFF)
        layout.set(data, layout.program_va[1], va >> 32)
        layout.set(data, layout.registers, spec.registers)
        layout.set(data, "BARRIER_COUNT", spec.barriers)
        layout.set(data, "SASS_VERSION", spec.sass_version)
        layout.set(data, layout.shared_size, spec.shared_bytes >> layout.shared_size_shift)
        for name, value in zip(("MIN", "TARGET", "MAX"), spec.sm_configs, strict=True):
            layout.set(data, f"{name}_SM_CONFIG_SHARED_MEM_SIZE", value)
        layout.set(data, layout.local_low, spec.local_low >> layout.local_shift)
        layout.set(data, layout.local_high, spec.local_high >> layout.local_shift)

    def _bank(self, data: bytearray, number: int, va: int, nbytes: int) -> None:
        layout = self.layout
        address = va >> layout.bank_va_shift
        layout.set(data, "CONSTANT_BUFFER_VALID", 1, number)
        layout.set(data, "CONSTANT_BUFFER_INVALIDATE", 1, number)
        layout.set(data, layout.bank_va[0], address & 0xFFFF_FFFF, number)
        layout.set(data, layout.bank_va[1], address >> 32, number)
        layout.set(data, "CONSTANT_BUFFER_SIZE_SHIFTED4", -(-nbytes // 16), number)

    def bank0_words(self, va: int) -> tuple[int, int]:
        address = va >> self._bank0_shift
        return address & 0xFFFF_FFFF, self._bank0_upper | address >> 32

    @property
    def bank0_offset(self) -> int:
        return self._bank0_offset

    def store_bank0(self, mv: memoryview, start: int, va: int) -> None:
        """Point bank 0 of the QMD at `start` to the arguments at `va`."""
        address = va >> self._bank0_shift
        PAIR.pack_into(mv, start + self._bank0_offset, address & 0xFFFF_FFFF, self._bank0_upper | address >> 32)

    def store_dependent(self, mv: memoryview, start: int, next_va: int) -> None:
        """Make the QMD at `start` schedule the one at `next_va` when it completes."""
        PAIR.pack_into(mv, start + self._next_offset, next_va >> 8, self._next_word)

    def with_release(self, signal_va: int) -> tuple[bytes, int]:
        """The QMD with release slot 0 aimed at a signal, and the byte offset of its 64-bit payload."""
        if is_symbolic(signal_va) or signal_va >= POINTER_LIMIT:
            raise LaunchError(f"a release to {signal_va!r}: signals lie below 2**40")
        data = bytearray(self.data)
        slot = self.layout.release_offsets[0]
        PAIR.pack_into(data, slot, signal_va & 0xFFFF_FFFF, self.layout.release_flags | signal_va >> 32)
        return bytes(data), slot + 8
