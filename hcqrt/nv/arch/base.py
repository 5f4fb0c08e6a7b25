"""What a generation and a chip are: every difference between them is a field here, or in the tables named here."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from hcqrt.nv.qmd_layout import QmdLayout

# What the toolkit's code finds in constant bank 0 before the parameters, as struct formats (nv-engine facts 7).
BANK0_FORMATS = {
    "block_dim": "3I",
    "grid_dim": "3I",
    "shared_window": "Q",
    "local_window": "Q",
    "stack_top": "I",
    "dynamic_shared": "I",
    "shared_reserve": "I",
    "shared_reserve_end": "I",
    "shared_total": "I",
    "cluster_dim": "3I",
    "cluster_inverse": "3I",  # float32
    "cluster_count": "3I",
    "cluster_size": "I",
}


@dataclass(frozen=True)
class Arch:
    """A generation. Classes are best first; the driver's class list decides."""

    name: str
    channel_classes: tuple[str, ...]
    compute_classes: tuple[str, ...]
    copy_classes: tuple[str, ...]
    usermode_classes: tuple[str, ...]
    qmd: QmdLayout
    schedule: tuple[int, int]  # byte offset of the method that starts the QMD of SEND_PCAS_A, and its data
    bank0: Mapping[str, tuple[int, ...]]  # a name of BANK0_FORMATS -> byte offsets of its copies
    stack_top: int
    shared_window_va: int
    local_window_va: int
    shared_reserve: int  # bytes per block that the toolkit's ABI takes on top of what the kernel asks
    reserve_first: bool = False  # the reserve lies before the kernel's own, and `.nv.shared.K` has it in its size
    shared_unit: int = 128
    nak_refusal: str = ""  # why shaders of Mesa's NAK for this generation must not run
    confidential: bool = False  # its GPUs may be in confidential computing mode
    # class -> number, struct of its allocation parameters: of a generation that the generated tables do not know
    own_classes: Mapping[str, tuple[int, str | None]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        unknown = self.bank0.keys() - BANK0_FORMATS.keys()
        if unknown:
            raise ValueError(f"{self.name}: constant bank 0 has no {', '.join(sorted(unknown))}")


@dataclass(frozen=True)
class Chip:
    """A chip of a generation. `sm_versions` are the driver's SM_VERSION numbers for it."""

    sm: int
    sm_versions: tuple[int, ...]
    arch: Arch
    sass_version: int  # as QMDs name it
    smem_kib: tuple[int, ...]  # carve-outs of shared memory per SM
    shared_max: int  # bytes of one block, with no opt-in
    blocks_per_sm: int

    @property
    def name(self) -> str:
        return f"sm_{self.sm}"

    @property
    def driver_area_bytes(self) -> int:
        """Where what the toolkit's code expects in bank 0 ends: parameters start behind it."""
        sizes = {name: struct.calcsize(text) for name, text in BANK0_FORMATS.items()}
        return max((max(starts) + sizes[name] for name, starts in self.arch.bank0.items()), default=0)

    def carve_out(self, shared_bytes: int, threads: int, warps_per_sm: int) -> tuple[int, int, int]:
        """SM_CONFIG_SHARED_MEM_SIZE fields (min, target, max) as KiB / 4 + 1 for blocks of this size.

        The target holds as many blocks as the warps of the SM allow; max is the largest there is, since a smaller one
        makes launches fail on some chips (nv-engine facts 5.2, 6).
        """
        kib = -(-shared_bytes // 1024)
        least = next(size for size in self.smem_kib if size >= kib)
        by_warps = max(1, min(self.blocks_per_sm, warps_per_sm // max(1, -(-threads // 32))))
        blocks = max(1, min(by_warps, self.smem_kib[-1] // kib if kib else by_warps))
        target = next(size for size in self.smem_kib if size >= kib * blocks)
        return least // 4 + 1, target // 4 + 1, self.smem_kib[-1] // 4 + 1
