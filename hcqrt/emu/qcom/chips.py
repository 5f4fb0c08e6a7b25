"""The Adreno chips that the emulated driver knows: one value each. Source: qcom.md §1.10."""

from __future__ import annotations

from dataclasses import dataclass

from hcqrt.emu.qcom.generation import A6XX, A7XX, Generation

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class EmuChip:
    """What one chip is, as its driver reports it and as its shader processors behave."""

    name: str
    chip_id: int  # core << 24 | major << 16 | minor << 8 | patch
    gpu_id: int  # what kernels of its time put into devinfo
    sps: int
    fibers_per_sp: int
    icache_units: int  # of 128 bytes: the most that one code load may bring
    lpac: bool  # mirrors of some compute registers must be written as well
    gmem_bytes: int  # 0: no source says
    reg_vec4: int  # register file of a pair of waves
    highest_bank_bit: int
    eco_cntl: int  # TPL1_DBG_ECO_CNTL as the open driver sets it
    const_vec4: int = 256  # constant file of a compute shader
    shared_bytes: int = 32 * KIB
    max_waves: int = 16
    wave_pair: int = 2  # waves are given registers in this number
    max_group_fibers: int = 1024
    model: str = ""
    generation: Generation = A6XX
    hwsched: bool = False  # its kernels leave scheduling to the GPU's own controller


def seventh(name: str, chip_id: int, sps: int, gmem_bytes: int, eco_cntl: int, model: str) -> EmuChip:
    """A chip of a7xx. Kernels of its time leave gpu_id at 0: the chip id tells."""
    return EmuChip(
        name, chip_id, 0, sps, 4096, 127, True, gmem_bytes, 96, 16, eco_cntl,
        const_vec4=512, model=model, generation=A7XX, hwsched=True,
    )  # fmt: skip


CHIPS = {
    chip.name: chip
    for chip in (
        EmuChip("a630", 0x06030001, 630, 2, 2048, 64, False, MIB, 96, 15, 0x00108000, model="Adreno630v2"),
        EmuChip("a640", 0x06040001, 640, 2, 8192, 64, False, MIB, 96, 15, 0x00008000, model="Adreno640v1"),
        EmuChip("a650", 0x06050002, 650, 3, 4096, 127, False, 1152 * KIB, 64, 16, 0x01008000, model="Adreno650v2"),
        EmuChip("a660", 0x06060001, 660, 3, 4096, 127, True, 1536 * KIB, 64, 16, 0x05008000, model="Adreno660v2"),
        EmuChip("a690", 0x06090000, 690, 8, 4096, 127, True, 0, 64, 16, 0x04C00000, model="Adreno690v1"),
        seventh("a730", 0x07030001, 4, 2 * MIB, 0x01000000, "Adreno730v2"),
        seventh("a740", 0x43050A01, 6, 3 * MIB, 0x11100000, "Adreno740v2"),
        seventh("a750", 0x43051401, 6, 3 * MIB, 0x11100000, "Adreno750v2"),
    )
}
