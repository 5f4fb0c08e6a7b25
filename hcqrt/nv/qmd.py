"""QMD, the launch descriptor: a template for each launch shape, patched in place for each launch."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hcqrt.core.sints import Sint, is_symbolic
from hcqrt.errors import LaunchError
from hcqrt.nv.qmd_layout import QmdLayout, Release, Set

WORD, PAIR = struct.Struct("<I"), struct.Struct("<2I")


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


class ReleasePlace(NamedTuple):
    """Where a release slot is filled in. All words are those of the template with this slot and those before it on."""

    offset: int  # of the address' lower word; the upper one and the payload follow
    upper: int  # what the upper word holds besides the address
    flags_offset: int  # of the word that enables the slot, which may be the upper word
    flags: int


class QmdTemplate:
    """A finished QMD but for bank 0's address, the releases and the successor, which differ per launch."""

    __slots__ = ("_bank0_shift", "_bank0_upper", "_next_flags", "_next_flags_offset", "_next_offset", "_releases",
                 "bank0_offset", "bank0_prefix", "bank0_symbols", "data", "layout", "release_count",
                 "symbols")  # fmt: skip

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
        self.bank0_offset = layout.word_of(layout.bank_va[0])
        self._bank0_shift = layout.bank_va_shift
        self._bank0_upper = word_at(data, self.bank0_offset + 4)
        self._next_offset = layout.word_of(layout.successor.pointer)
        self._next_flags_offset = layout.word_of(layout.successor.enable[0][0])
        self._next_flags = word_at(self._with(data, layout.successor.enable), self._next_flags_offset)
        self.release_count = len(layout.releases)
        self._releases = tuple(self._release_places(data, layout.releases))

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
        self._pair(data, layout.program_va, shifted(spec.program_va, layout.program_va_shift))
        layout.set(data, layout.registers, spec.registers)
        layout.set(data, "BARRIER_COUNT", spec.barriers)
        layout.set(data, "SASS_VERSION", spec.sass_version)
        layout.set(data, layout.shared_size, shifted(spec.shared_bytes, layout.shared_size_shift))
        for name, value in zip(("MIN", "TARGET", "MAX"), spec.sm_configs, strict=True):
            layout.set(data, f"{name}_SM_CONFIG_SHARED_MEM_SIZE", value)
        layout.set(data, layout.local_low, shifted(spec.local_low, layout.local_shift))
        layout.set(data, layout.local_high, shifted(spec.local_high, layout.local_shift))

    def _bank(self, data: bytearray, number: int, va: int, nbytes: int) -> None:
        layout = self.layout
        layout.set(data, "CONSTANT_BUFFER_VALID", 1, number)
        layout.set(data, "CONSTANT_BUFFER_INVALIDATE", 1, number)
        self._pair(data, layout.bank_va, shifted(va, layout.bank_va_shift), number)
        layout.set(data, "CONSTANT_BUFFER_SIZE_SHIFTED4", -(-nbytes // 16), number)

    def _pair(self, data: bytearray, names: tuple[str, str], value: int, index: int = 0) -> None:
        self.layout.set(data, names[0], value & 0xFFFF_FFFF, index)
        self.layout.set(data, names[1], value >> 32, index)

    def _with(self, data: bytearray, enable: Iterable[Set]) -> bytearray:
        changed = bytearray(data)
        for name, index, value in enable:
            self.layout.set(changed, name, value, index)
        return changed

    def _release_places(self, data: bytearray, releases: Iterable[Release]) -> Iterable[ReleasePlace]:
        enabled = data
        for release in releases:
            enabled = self._with(enabled, release.enable)
            offset = self.layout.word_of(release.address[0])
            flags_offset = self.layout.word_of(*release.enable[0][:2])
            yield ReleasePlace(offset, word_at(enabled, offset + 4), flags_offset, word_at(enabled, flags_offset))

    def bank0_words(self, va: int) -> tuple[int, int]:
        address = va >> self._bank0_shift
        return address & 0xFFFF_FFFF, self._bank0_upper | address >> 32

    def store_bank0(self, mv: memoryview, start: int, va: int) -> None:
        """Point bank 0 of the QMD at `start` to the arguments at `va`."""
        address = va >> self._bank0_shift
        PAIR.pack_into(mv, start + self.bank0_offset, address & 0xFFFF_FFFF, self._bank0_upper | address >> 32)

    def store_dependent(self, mv: memoryview, start: int, next_va: int) -> None:
        """Make the QMD at `start` schedule the one at `next_va` when it completes."""
        WORD.pack_into(mv, start + self._next_offset, next_va >> 8)
        WORD.pack_into(mv, start + self._next_flags_offset, self._next_flags)

    def payload_offset(self, slot: int) -> int:
        """Byte offset of a release slot's 64-bit payload."""
        return self._releases[slot].offset + 8

    def store_release(self, mv: memoryview | bytearray, start: int, slot: int, signal_va: int) -> None:
        """Aim a release slot of the QMD at `start`, of which those before are in use, at a signal."""
        offset, upper, flags_offset, flags = self._releases[slot]
        WORD.pack_into(mv, start + flags_offset, flags)
        PAIR.pack_into(mv, start + offset, signal_va & 0xFFFF_FFFF, upper | signal_va >> 32)

    def with_release(self, signal_va: int) -> tuple[bytes, int]:
        """The QMD with release slot 0 aimed at a signal, and the byte offset of its 64-bit payload."""
        if is_symbolic(signal_va) or signal_va >= self.layout.release_va_limit:
            raise LaunchError(f"a release to {signal_va!r}: signals lie below {self.layout.release_va_limit:#x}")
        data = bytearray(self.data)
        self.store_release(data, 0, 0, signal_va)
        return bytes(data), self.payload_offset(0)


def word_at(data: bytearray, offset: int) -> int:
    (word,) = WORD.unpack_from(data, offset)
    return int(word)


def shifted(value: int, shift: int) -> int:
    """`value` in units of `1 << shift`. Raises ValueError when it is no multiple."""
    if value & (1 << shift) - 1:
        raise ValueError(f"{value:#x} in a QMD is no multiple of {1 << shift}")
    return value >> shift
