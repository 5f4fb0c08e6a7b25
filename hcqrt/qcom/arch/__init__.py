"""What differs between chips: one `Chip` value each, with its generation's `Arch` in it; chips by their id."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcqrt.bits import align_up
from hcqrt.errors import NO_HARDWARE, DeviceNotFound

if TYPE_CHECKING:
    from hcqrt.qcom.dispatch import Shape
    from hcqrt.qcom.events import CacheEvents
    from hcqrt.qcom.pm4 import RegisterSet
    from hcqrt.qcom.shader import Shader

PRIVATE_UNIT = 512  # SP_CS_PVT_MEM_PARAM counts private memory of a fibre in these
PRIVATE_SP_ALIGN = 4096  # SP_CS_PVT_MEM_SIZE counts that of a shader processor in these


@dataclass(frozen=True)
class Arch:
    """A generation: what all its chips share. Sizes in bytes, registers and constants in vectors of four."""

    name: str
    const_vec4: int  # a compute shader's constant file
    local_bytes: int  # of a workgroup
    threads_max: int  # of a workgroup
    waves_max: int  # of a shader processor
    wave_threads: int  # of an ordinary wave; a double one has twice as many
    groups_max: int  # workgroups along an axis
    code_align: int
    textures_preload: int  # textures that one load of state may bring; the rest is fetched through the table
    textures_max: int
    samplers_max: int
    images_max: int  # writable ones
    image_axis_max: int  # texels
    # commands
    registers: RegisterSet
    events: CacheEvents
    sizes: Callable[[Chip, Shader, Shape], list[Any]]  # words: sizes of a launch, registers that get its numbers
    begin: tuple[int, ...] = ()  # words in front of whatever the driver is given
    fixed: Callable[[RegisterSet], list[Any]] = lambda _: []  # words: what else its registers must say, always
    preloads_code: bool = True
    # code
    opencl_binaries: bool = True  # whether the vendor's files are known
    locks_at_end: bool = False  # compute shaders take and leave a lock before they end
    experimental: bool = False  # written from descriptions, never run on hardware


@dataclass(frozen=True)
class PrivateLayout:
    """Private memory of a kernel: bytes of one fibre as the hardware spaces them, of a shader processor, of all."""

    per_fibre: int
    per_sp: int
    total: int


@dataclass(frozen=True)
class Chip:
    """A chip of a generation. `id_prefix` is what its ids share: core << 16 | major << 8 | minor.

    Where other patch levels are other chips, `patch` is the last byte of the one id that it has.
    """

    name: str
    id_prefix: int
    arch: Arch
    sps: int
    fibres_per_sp: int
    icache_units: int  # instruction cache, in units of 128 bytes: more must never be preloaded
    lpac: bool  # has a second compute pipe, whose copies of some registers must be set too
    gmem_bytes: int | None  # None: no source names it
    reg_vec4: int  # register file of a fibre slot
    tpl1_dbg_eco_cntl: int  # what the texture unit's TPL1_DBG_ECO_CNTL must hold
    known: bool = True  # False: a sibling with the family's values, never tried
    patch: int | None = None

    def has_id(self, chip_id: int) -> bool:
        return chip_id >> 8 == self.id_prefix and self.patch in (None, chip_id & 0xFF)

    def private_layout(self, bytes_per_fibre: int) -> PrivateLayout:
        """How much private memory a kernel takes whose fibres use that many bytes. Source: qcom facts 3, item 9."""
        if not bytes_per_fibre:
            return PrivateLayout(0, 0, 0)
        per_fibre = 1 << (align_up(bytes_per_fibre, PRIVATE_UNIT) - 1).bit_length()
        per_sp = align_up(per_fibre * self.fibres_per_sp, PRIVATE_SP_ALIGN)
        return PrivateLayout(per_fibre, per_sp, per_sp * self.sps)

    def max_threads(self, full_regs: int, half_regs: int, merged: bool) -> int:
        """Threads of a workgroup that the register file holds. Heuristic of the vendor's users: qcom facts 5.1."""
        halves = -(-half_regs // 2)
        used = max(1, full_regs, halves) if merged else max(1, full_regs + halves)
        double_wave = 2 * self.arch.wave_threads
        return min(self.arch.threads_max, self.reg_vec4 // used * double_wave)


def chip_for(chip_id: int) -> Chip:
    """The chip with this KGSL chip id. Warns of an untried one; raises DeviceNotFound for every other id."""
    from hcqrt.qcom.arch import a6xx, a7xx

    chips = (*a6xx.CHIPS, *a7xx.CHIPS)
    chip = next((chip for chip in chips if chip.has_id(chip_id)), None)
    if chip is None:
        names = ", ".join(chip.name + " (experimental)" * chip.arch.experimental for chip in chips if chip.known)
        what = "this Adreno 7xx or later is" if chip_id >> 16 >= 0x0703 else "this Adreno is"
        raise DeviceNotFound(
            f"chip id {chip_id:#010x}: {what} not supported; supported are {names}. Use another GPU, {NO_HARDWARE}"
        )
    if chip.arch.experimental or not chip.known:
        text = "it is driven like the rest of its family"
        if chip.arch.experimental:
            text = f"support of {chip.arch.name} is experimental, written from register descriptions alone"
        warnings.warn(
            f"Adreno {chip.name} (chip id {chip_id:#010x}) was never tried with hcqrt; {text}. "
            "Check its results before you rely on them",
            RuntimeWarning,
            stacklevel=2,
        )
    return chip
