"""What one SM can hold, by SM version: the numbers that a launch descriptor is checked against."""

from __future__ import annotations

from dataclasses import dataclass

WARP_THREADS = 32
MAX_BLOCK = (1024, 1024, 64)
MAX_BLOCK_THREADS = 1024
MAX_GRID_X = (1 << 31) - 1
MAX_REGISTERS = 255
MAX_BARRIERS = 16
REGISTERS_PER_SM = 65536
REGISTER_UNIT = 256  # registers of a warp are allocated in this unit, warps of a block four at a time
WARP_ALLOCATION = 4
WINDOW_BYTES = 1 << 24  # the shared and the local window, up to sm_89
PROGRAM_ALIGNMENT = 128
CONSTANT_ALIGNMENT = 64
MAX_CONSTANT_BYTES = 1 << 16
# Local memory, nv-engine.md §6
LOCAL_ALIGNMENT = 16
WARP_LOCAL_UNIT = 0x200
TPC_LOCAL_UNIT = 0x8000


@dataclass(frozen=True)
class SmLimits:
    """Shared memory of an SM. Source: nv-engine.md §6."""

    carve_outs_kib: tuple[int, ...]  # how the L1 can be split; an encoding is KiB / 4 + 1
    shared_unit: int  # a block's size is a multiple of this

    @property
    def encodings(self) -> dict[int, int]:
        """SM_CONFIG field value -> bytes."""
        return {kib // 4 + 1: kib * 1024 for kib in self.carve_outs_kib}

    @property
    def max_shared_bytes(self) -> int:
        """Most that one block can have, the reserved kibibyte included."""
        return self.carve_outs_kib[-1] * 1024


LARGE = SmLimits((0, 8, 16, 32, 64, 100, 132, 164), 128)
SMALL = SmLimits((0, 8, 16, 32, 64, 100), 128)
SM_LIMITS = {75: SmLimits((32, 64), 256), 80: LARGE, 87: LARGE, 86: SMALL, 89: SMALL}
