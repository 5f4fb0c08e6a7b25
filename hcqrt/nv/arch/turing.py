"""Turing: TU10x (sm_75). Source: nv-engine facts 0, 3, 5-8."""

from __future__ import annotations

from types import MappingProxyType

from hcqrt.autogen.nv import clc5c0
from hcqrt.nv.arch.base import Arch, Chip
from hcqrt.nv.qmd_layout import QMD_V02_03

KIB = 1024
# Launch dimensions and what follows them, the same up to Hopper
BANK0 = MappingProxyType({
    "block_dim": (0x00,),
    "grid_dim": (0x0C,),
    "shared_window": (0x18,),
    "local_window": (0x20,),
    "stack_top": (0x28,),
    "dynamic_shared": (0x2C,),
})  # fmt: skip
INVALIDATE_AND_SCHEDULE = (
    clc5c0.NVC5C0_SEND_SIGNALING_PCAS_B_INVALIDATE_TRUE | clc5c0.NVC5C0_SEND_SIGNALING_PCAS_B_SCHEDULE_TRUE << 1
)

TURING = Arch(
    name="turing",
    channel_classes=("TURING_CHANNEL_GPFIFO_A",),
    compute_classes=("TURING_COMPUTE_A",),
    copy_classes=("TURING_DMA_COPY_A",),
    usermode_classes=("TURING_USERMODE_A",),
    qmd=QMD_V02_03,
    schedule=(clc5c0.NVC5C0_SEND_SIGNALING_PCAS_B, INVALIDATE_AND_SCHEDULE),
    bank0=BANK0,
    stack_top=0x1000000 - 0x240,  # the local window's size less what the vendor's driver keeps
    shared_window_va=0x7294_0000_0000,  # 4 GiB aligned, as sm_90 and later need; nothing is mapped there
    local_window_va=0x7293_0000_0000,
    shared_reserve=0,
    shared_unit=256,
)

CHIPS = (Chip(75, (0x705,), TURING, 0x75, (32, 64), 64 * KIB, 16),)
