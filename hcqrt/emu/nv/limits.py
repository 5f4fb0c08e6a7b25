"""What an SM can hold and how its memory windows lie: the numbers that a launch is checked against."""

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
LOCAL_WINDOW_BYTES = 1 << 24  # on every chip
PROGRAM_ALIGNMENT = 128
CONSTANT_ALIGNMENT = 64
MAX_CONSTANT_BYTES = 1 << 16
# Local memory, nv-engine.md §6
LOCAL_ALIGNMENT = 16
WARP_LOCAL_UNIT = 0x200
TPC_LOCAL_UNIT = 0x8000


@dataclass(frozen=True)
class SmLimits:
    """Shared memory of an SM and the windows of a channel. Source: nv-engine.md §6."""

    carve_outs_kib: tuple[int, ...]  # how the L1 can be split; an encoding is KiB / 4 + 1
    shared_unit: int = 128  # a block's size is a multiple of this
    shared_window_bytes: int = 1 << 24
    # From sm_90 on code makes a shared address of the window's upper half and an offset. The facts say so of the
    # shared window; the same is asked of the local one here, which is what every known driver does.
    window_alignment: int = 1
    largest_max: bool = False  # a launch whose MAX_SM_CONFIG is not the largest carve-out fails

    @property
    def encodings(self) -> dict[int, int]:
        """SM_CONFIG field value -> bytes."""
        return {kib // 4 + 1: kib * 1024 for kib in self.carve_outs_kib}

    @property
    def max_shared_bytes(self) -> int:
        """Most that one block can have, the reserved kibibyte included."""
        return self.carve_outs_kib[-1] * 1024


SMALL_KIB = (0, 8, 16, 32, 64, 100)
LARGE_KIB = (*SMALL_KIB, 132, 164)
LARGEST_KIB = (*LARGE_KIB, 196, 228)
FOUR_GIB = 1 << 32
TURING = SmLimits((32, 64), 256)
SMALL = SmLimits(SMALL_KIB)
LARGE = SmLimits(LARGE_KIB)
HOPPER = SmLimits(LARGEST_KIB, shared_window_bytes=FOUR_GIB, window_alignment=FOUR_GIB)
BLACKWELL = SmLimits(LARGEST_KIB, shared_window_bytes=FOUR_GIB, window_alignment=FOUR_GIB, largest_max=True)
BLACKWELL_RTX = SmLimits(SMALL_KIB, shared_window_bytes=FOUR_GIB, window_alignment=FOUR_GIB, largest_max=True)
