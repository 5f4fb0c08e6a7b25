"""What differs between chips: one `Chip` value each, with its generation's `Arch` in it; chips by their id."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from hcqrt.bits import align_up
from hcqrt.errors import NO_HARDWARE, DeviceNotFound

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


@dataclass(frozen=True)
class PrivateLayout:
    """Private memory of a kernel: bytes of one fibre as the hardware spaces them, of a shader processor, of all."""

    per_fibre: int
    per_sp: int
    total: int


@dataclass(frozen=True)
class Chip:
    """A chip of a generation. `id_prefix` is what its ids share: core << 16 | major << 8 | minor."""

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
    """The chip with this KGSL chip id. Warns of an untried sibling; raises DeviceNotFound for every other id."""
    from hcqrt.qcom.arch.a6xx import CHIPS

    for chip in CHIPS:
        if chip_id >> 8 == chip.id_prefix:
            if not chip.known:
                warnings.warn(
                    f"Adreno {chip.name} (chip id {chip_id:#010x}) was never tried with hcqrt; it is driven like the "
                    "rest of its family. Check its results before you rely on them",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return chip
    names = ", ".join(chip.name for chip in CHIPS if chip.known)
    what = "a7xx or later, whose packets differ, is" if chip_id >> 16 >= 0x0703 else "this Adreno is"
    raise DeviceNotFound(
        f"chip id {chip_id:#010x}: {what} not supported; supported are {names}. Use another GPU, {NO_HARDWARE}"
    )
