"""What differs between chips: one `Chip` value each, the classes and the QMD layout of its generation in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hcqrt.errors import DriverError
from hcqrt.nv.qmd import QmdLayout


@dataclass(frozen=True)
class Arch:
    """A generation. Classes are best first; the driver's class list decides."""

    name: str
    channel_classes: tuple[str, ...]
    compute_classes: tuple[str, ...]
    copy_classes: tuple[str, ...]
    usermode_classes: tuple[str, ...]
    qmd: QmdLayout
    # byte offsets in constant bank 0 of what the toolkit's code expects there, None where it has no place
    bank0: Mapping[str, int | None]
    stack_top: int
    shared_window_va: int
    local_window_va: int


@dataclass(frozen=True)
class Chip:
    """A chip of a generation. `sm_versions` are the driver's SM_VERSION numbers for it."""

    sm: int
    sm_versions: tuple[int, ...]
    arch: Arch
    smem_kib: tuple[int, ...]  # carve-outs of shared memory per SM
    shared_max: int  # bytes of one block, with no opt-in
    shared_reserve: int  # bytes per block that the toolkit's ABI takes on top
    shared_unit: int
    warps_per_sm: int
    blocks_per_sm: int

    @property
    def name(self) -> str:
        return f"sm_{self.sm}"

    @property
    def sass_version(self) -> int:
        return self.sm // 10 << 4 | self.sm % 10

    @property
    def bank0(self) -> Mapping[str, int | None]:
        return self.arch.bank0

    @property
    def driver_area_bytes(self) -> int:
        """Where what the toolkit's code expects in bank 0 ends, at the latest: parameters start behind it."""
        return max(place or 0 for place in self.arch.bank0.values()) + 12  # three launch dimensions, or less

    @property
    def stack_top(self) -> int:
        return self.arch.stack_top

    def carve_out(self, shared_bytes: int, threads: int) -> tuple[int, int, int]:
        """SM_CONFIG_SHARED_MEM_SIZE fields (min, target, max) as KiB / 4 + 1 for blocks of this size.

        The target holds as many blocks as the warps of the SM allow; max is the largest there is, since a smaller one
        makes launches fail on some chips (nv-engine facts 5.2, 6).
        """
        kib = -(-shared_bytes // 1024)
        least = next(size for size in self.smem_kib if size >= kib)
        by_warps = max(1, min(self.blocks_per_sm, self.warps_per_sm // max(1, -(-threads // 32))))
        blocks = max(1, min(by_warps, self.smem_kib[-1] // kib if kib else by_warps))
        target = next(size for size in self.smem_kib if size >= kib * blocks)
        return least // 4 + 1, target // 4 + 1, self.smem_kib[-1] // 4 + 1


def chip_for(sm_version: int) -> Chip:
    """The chip with this SM_VERSION. Raises DriverError naming it and what is supported."""
    from hcqrt.nv.arch.ada import CHIPS as ADA_CHIPS
    from hcqrt.nv.arch.ampere import CHIPS as AMPERE_CHIPS

    chips = (*AMPERE_CHIPS, *ADA_CHIPS)
    for chip in chips:
        if sm_version in chip.sm_versions:
            return chip
    names = ", ".join(chip.name for chip in chips)
    raise DriverError(f"GPU architecture not supported: SM_VERSION {sm_version:#x}; supported are {names}")


def bank0_places(**places: int | None) -> Mapping[str, int | None]:
    return MappingProxyType(places)
