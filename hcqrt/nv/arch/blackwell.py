"""Blackwell: GB10x (sm_100, sm_103) and the RTX chips GB20x (sm_120, sm_121). Source: nv-engine facts 0, 3, 5-8."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hcqrt.nv.arch.ampere import SMALL
from hcqrt.nv.arch.base import Chip
from hcqrt.nv.arch.hopper import HOPPER, HUGE
from hcqrt.nv.arch.turing import KIB
from hcqrt.nv.qmd_layout import QMD_V05_00

CGA_STEP = 0xA0  # code finds these at their place less this many bytes times SR_CgaSize: both copies are filled


def by_cga_size(place: int) -> tuple[int, int]:
    return place, place - CGA_STEP


BLACKWELL = replace(
    HOPPER,
    name="blackwell",
    channel_classes=("BLACKWELL_CHANNEL_GPFIFO_A",),
    compute_classes=("BLACKWELL_COMPUTE_A",),
    copy_classes=("BLACKWELL_DMA_COPY_A",),
    usermode_classes=("BLACKWELL_USERMODE_A", "HOPPER_USERMODE_A", "TURING_USERMODE_A"),
    qmd=QMD_V05_00,
    bank0=MappingProxyType({
        "block_dim": (0x360,),
        "grid_dim": (0x370,),
        "shared_window": (0x2F0,),
        "local_window": (0x2F8,),
        "stack_top": (0x37C,),
        "dynamic_shared": by_cga_size(0x2AC),
        "shared_reserve": (0x16C,),
        "shared_reserve_end": by_cga_size(0x278),
        "shared_total": by_cga_size(0x2BC),
        "cluster_dim": by_cga_size(0x2A0),
        "cluster_inverse": by_cga_size(0x2B0),
        "cluster_count": by_cga_size(0x2C0),
        "cluster_size": by_cga_size(0x2CC),
    }),
    nak_refusal="",
)  # fmt: skip

BLACKWELL_RTX = replace(
    BLACKWELL,
    name="blackwell rtx",
    channel_classes=("BLACKWELL_CHANNEL_GPFIFO_B", "BLACKWELL_CHANNEL_GPFIFO_A"),
    compute_classes=("BLACKWELL_COMPUTE_B",),
    copy_classes=("BLACKWELL_DMA_COPY_B",),
)

CHIPS = (
    Chip(100, (0xA00,), BLACKWELL, 0xA0, HUGE, 227 * KIB, 32),
    Chip(103, (0xA03,), BLACKWELL, 0xA3, HUGE, 227 * KIB, 32),
    Chip(120, (0xA04, 0xC00), BLACKWELL_RTX, 0xA4, SMALL, 99 * KIB, 24),
    Chip(121, (0xC01,), BLACKWELL_RTX, 0xC1, SMALL, 99 * KIB, 24),
)
