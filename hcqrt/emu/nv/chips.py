"""The chips that the emulated NVIDIA driver knows: one value each, and nothing else in the emulator asks which."""

from __future__ import annotations

from dataclasses import dataclass

from hcqrt.emu.nv import limits
from hcqrt.emu.nv.chip_classes import CHANNEL, COMPUTE, COPY, ENGINES, OTHERS, SAME_AS, USERMODE
from hcqrt.emu.nv.limits import SmLimits

MIB = 1 << 20
GIB = 1 << 30
GB202_TOKEN_BITS = 1 << 30  # dev_vm.h of gb202: NV_VIRTUAL_FUNCTION_DOORBELL_RUNLIST_DOORBELL_ENABLE


@dataclass(frozen=True)
class Chip:
    """What one chip is. `tpcs` and what follows describe a board, and an `EmulatedSystem` entry may change them."""

    name: str
    codename: str
    sm: int  # 86
    sm_version: int  # NV2080_CTRL_GR_INFO_INDEX_SM_VERSION
    sass_versions: tuple[int, ...]  # what a launch descriptor may say its code is for: this chip, older minor ones
    architecture: int  # MC_GET_ARCH_INFO
    implementation: int
    pci_device: int
    model: str
    limits: SmLimits
    copy_engines: int
    max_gpcs: int
    max_tpcs_per_gpc: int
    cores_per_sm: int
    tpcs: int
    warps_per_sm: int
    memory_bytes: int
    bar1_bytes: int = 256 * MIB
    peer_access: bool = False  # over PCIe: consumer drivers forbid it
    va_bits: int = 49
    token_bits: int = 0  # set in every work-submit token
    userd_with_ring: bool = False  # USERD in system memory wants the ring there too (nv-driver.md §8)
    first_driver: tuple[int, ...] = ()
    revision: int = 0xA1
    sms_per_tpc: int = 2
    max_subcontexts: int = 64
    max_channels: int = 2048
    nvlink: str = ""  # cards with the same name here are NVLink peers
    mig: bool = False  # cut into instances, to one of which a client must subscribe first
    confidential: str = ""  # mode of confidential computing: rm/confidential.py

    @property
    def engine_classes(self) -> tuple[int, ...]:
        """What every driver lists."""
        return ENGINES[SAME_AS.get(self.codename, self.codename)]

    @property
    def other_classes(self) -> tuple[int, ...]:
        """What drivers with the long list add."""
        return OTHERS[SAME_AS.get(self.codename, self.codename)]

    def classes(self, kind: int) -> tuple[int, ...]:
        return tuple(number for number in self.engine_classes if number & 0xFF == kind)

    @property
    def channel_classes(self) -> tuple[int, ...]:
        return self.classes(CHANNEL)

    @property
    def usermode_classes(self) -> tuple[int, ...]:
        return self.classes(USERMODE)

    @property
    def compute_classes(self) -> tuple[int, ...]:
        return self.classes(COMPUTE)

    @property
    def copy_classes(self) -> tuple[int, ...]:
        return self.classes(COPY)

    @property
    def gpcs(self) -> int:
        """GPCs that hold a TPC of this board."""
        return -(-self.tpcs // self.max_tpcs_per_gpc)

    @property
    def litter_gpcs(self) -> int:
        """GPCs that the architecture could hold: never fewer than this board has."""
        return max(self.max_gpcs, self.gpcs)

    def tpcs_of(self, gpc: int) -> int:
        """TPCs in one GPC: the first ones are full."""
        return min(max(self.tpcs - gpc * self.max_tpcs_per_gpc, 0), self.max_tpcs_per_gpc)

    @property
    def sms(self) -> int:
        return self.tpcs * self.sms_per_tpc


# Architecture numbers: ctrl2080mc.h. Classes and copy engines: nv-driver.md §3. Warps and carve-outs: nv-engine.md §6.
# PCI numbers and names: the supported products of the driver's README. Shapes of the boards: their data sheets.
ALL = (
    Chip(
        name="sm_75", codename="TU102", sm=75, sm_version=0x705, sass_versions=(0x75,), architecture=0x160,
        implementation=2, pci_device=0x1E07, model="NVIDIA GeForce RTX 2080 Ti", limits=limits.TURING, copy_engines=5,
        max_gpcs=6, max_tpcs_per_gpc=6, cores_per_sm=64, tpcs=34, warps_per_sm=32, memory_bytes=11 * GIB,
    ),
    Chip(
        name="sm_80", codename="GA100", sm=80, sm_version=0x802, sass_versions=(0x80,), architecture=0x170,
        implementation=0, pci_device=0x20B0, model="NVIDIA A100-SXM4-40GB", limits=limits.LARGE, copy_engines=10,
        max_gpcs=8, max_tpcs_per_gpc=8, cores_per_sm=64, tpcs=54, warps_per_sm=64, memory_bytes=40 * GIB,
        bar1_bytes=64 * GIB, peer_access=True,
    ),
    Chip(
        name="sm_86", codename="GA102", sm=86, sm_version=0x806, sass_versions=(0x80, 0x86), architecture=0x170,
        implementation=2, pci_device=0x2206, model="NVIDIA GeForce RTX 3080", limits=limits.SMALL, copy_engines=5,
        max_gpcs=7, max_tpcs_per_gpc=6, cores_per_sm=128, tpcs=34, warps_per_sm=48, memory_bytes=8 * GIB,
    ),
    Chip(  # soldered to a processor: no PCI number
        name="sm_87", codename="GA10B", sm=87, sm_version=0x807, sass_versions=(0x80, 0x86, 0x87), architecture=0x170,
        implementation=0xB, pci_device=0, model="NVIDIA Orin", limits=limits.LARGE, copy_engines=5,
        max_gpcs=2, max_tpcs_per_gpc=4, cores_per_sm=128, tpcs=8, warps_per_sm=48, memory_bytes=16 * GIB,
    ),
    Chip(
        name="sm_89", codename="AD102", sm=89, sm_version=0x809, sass_versions=(0x80, 0x86, 0x87, 0x89),
        architecture=0x190, implementation=2, pci_device=0x2684, model="NVIDIA GeForce RTX 4090", limits=limits.SMALL,
        copy_engines=5,
        max_gpcs=12, max_tpcs_per_gpc=6, cores_per_sm=128, tpcs=64, warps_per_sm=48, memory_bytes=24 * GIB,
    ),
    Chip(
        name="sm_90", codename="GH100", sm=90, sm_version=0x900, sass_versions=(0x90,), architecture=0x180,
        implementation=0, pci_device=0x2330, model="NVIDIA H100 80GB HBM3", limits=limits.HOPPER, copy_engines=10,
        max_gpcs=8, max_tpcs_per_gpc=9, cores_per_sm=128, tpcs=66, warps_per_sm=64, memory_bytes=80 * GIB,
        bar1_bytes=128 * GIB, peer_access=True, va_bits=57, userd_with_ring=True,
    ),
    Chip(
        name="sm_100", codename="GB100", sm=100, sm_version=0xA00, sass_versions=(0xA0,), architecture=0x1A0,
        implementation=0, pci_device=0x2901, model="NVIDIA B200", limits=limits.BLACKWELL, copy_engines=20,
        max_gpcs=8, max_tpcs_per_gpc=10, cores_per_sm=128, tpcs=74, warps_per_sm=64, memory_bytes=180 * GIB,
        bar1_bytes=256 * GIB, peer_access=True, va_bits=57, userd_with_ring=True, first_driver=(560, 28, 3),
    ),
    Chip(
        name="sm_103", codename="GB110", sm=103, sm_version=0xA03, sass_versions=(0xA0, 0xA3), architecture=0x1A0,
        implementation=3, pci_device=0x3182, model="NVIDIA B300 SXM6 AC", limits=limits.BLACKWELL, copy_engines=20,
        max_gpcs=8, max_tpcs_per_gpc=10, cores_per_sm=128, tpcs=74, warps_per_sm=64, memory_bytes=268 * GIB,
        bar1_bytes=512 * GIB, peer_access=True, va_bits=57, userd_with_ring=True, first_driver=(575, 51, 2),
    ),
    Chip(
        name="sm_120", codename="GB202", sm=120, sm_version=0xA04, sass_versions=(0xA4,), architecture=0x1B0,
        implementation=2, pci_device=0x2B85, model="NVIDIA GeForce RTX 5090", limits=limits.BLACKWELL_RTX,
        copy_engines=8, max_gpcs=12, max_tpcs_per_gpc=8, cores_per_sm=128, tpcs=85, warps_per_sm=48,
        memory_bytes=32 * GIB, va_bits=57, token_bits=GB202_TOKEN_BITS, userd_with_ring=True,
        first_driver=(570, 86, 15),
    ),
    Chip(
        name="sm_121", codename="GB20B", sm=121, sm_version=0xC01, sass_versions=(0xA4, 0xC1), architecture=0x1B0,
        implementation=0xB, pci_device=0x2E12, model="NVIDIA GB10", limits=limits.BLACKWELL_RTX,
        copy_engines=8, max_gpcs=3, max_tpcs_per_gpc=8, cores_per_sm=128, tpcs=24, warps_per_sm=48,
        memory_bytes=64 * GIB, va_bits=57, token_bits=GB202_TOKEN_BITS, userd_with_ring=True,
        first_driver=(575, 51, 2),
    ),
)  # fmt: skip
CHIPS = {chip.name: chip for chip in ALL}
