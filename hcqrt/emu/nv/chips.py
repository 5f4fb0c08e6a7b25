"""The chips that the emulated NVIDIA driver knows: one value each."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30

# What NV0080_CTRL_CMD_GPU_GET_CLASSLIST lists for GA102: g_gpu_class_list.c of release 580.65.06. The classes of
# engines are listed by every driver, the engine-less and the generic ones only from that release on.
GA102_ENGINE_CLASSES = (
    0x0040, 0x0060, 0x0070, 0x0073, 0x007D, 0x00DE, 0x503B, 0x503C, 0x5080, 0x50A0, 0x844C, 0x902D, 0x9067, 0x9072,
    0x9074, 0x9096, 0x90E6, 0x90E7, 0x90EC, 0x90F1, 0xA06C, 0xA080, 0xA081, 0xA084, 0xA140, 0xC076, 0xC361, 0xC365,
    0xC369, 0xC36F, 0xC372, 0xC461, 0xC46F, 0xC561, 0xC56F, 0xC670, 0xC671, 0xC673, 0xC67A, 0xC67B, 0xC67D, 0xC67E,
    0xC77F, 0xC797, 0xC7B0, 0xC7B5, 0xC7B7, 0xC7C0, 0xC7FA, 0xCB33,
)  # fmt: skip
GA102_OTHER_CLASSES = (
    0x0000, 0x0001, 0x0002, 0x0004, 0x0005, 0x000F, 0x0020, 0x003E, 0x003F, 0x0041, 0x0050, 0x0071, 0x0076, 0x0078,
    0x0079, 0x007E, 0x0080, 0x0081, 0x0082, 0x0083, 0x0090, 0x0092, 0x00B1, 0x00C2, 0x00DA, 0x00DB, 0x00E0, 0x00F1,
    0x00F3, 0x00F8, 0x00F9, 0x00FB, 0x00FE, 0x0100, 0x0101, 0x2080, 0x2081, 0x2082, 0x208F, 0x30F1, 0x402C, 0x83DE,
    0x900E, 0x9010, 0x906F, 0x90CC, 0x90CD, 0x90CE, 0xB1CC, 0xB2CC, 0xC574, 0xC637, 0xC638, 0xC639, 0xC640, 0xC763,
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """What one chip is. `tpcs` and what follows describe a board, and an `EmulatedSystem` entry may change them."""

    name: str
    sm: int  # 86
    sm_version: int  # NV2080_CTRL_GR_INFO_INDEX_SM_VERSION
    architecture: int  # MC_GET_ARCH_INFO
    implementation: int
    revision: int
    pci_device: int
    model: str
    channel_classes: tuple[int, ...]
    compute_class: int
    copy_class: int
    usermode_classes: tuple[int, ...]
    engine_classes: tuple[int, ...]
    other_classes: tuple[int, ...]
    copy_engines: int
    max_gpcs: int
    max_tpcs_per_gpc: int
    sms_per_tpc: int
    cores_per_sm: int
    max_subcontexts: int
    max_channels: int
    va_bits: int
    peer_access: bool  # between cards of this kind: consumer drivers forbid it
    bar1_bytes: int
    tpcs: int
    warps_per_sm: int
    memory_bytes: int

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


CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            name="sm_86",
            sm=86,
            sm_version=0x806,
            architecture=0x170,
            implementation=2,
            revision=0xA1,
            pci_device=0x2206,
            model="NVIDIA GeForce RTX 3080",
            channel_classes=(0xC36F, 0xC46F, 0xC56F),
            compute_class=0xC7C0,
            copy_class=0xC7B5,
            usermode_classes=(0xC361, 0xC461, 0xC561),
            engine_classes=GA102_ENGINE_CLASSES,
            other_classes=GA102_OTHER_CLASSES,
            copy_engines=5,
            max_gpcs=7,
            max_tpcs_per_gpc=6,
            sms_per_tpc=2,
            cores_per_sm=128,
            max_subcontexts=64,
            max_channels=2048,
            va_bits=49,
            peer_access=False,
            bar1_bytes=256 * MIB,
            tpcs=34,
            warps_per_sm=48,
            memory_bytes=8 * GIB,
        ),
    )
}
