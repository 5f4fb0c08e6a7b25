"""Hopper: GH100 (sm_90): QMDs of 384 bytes, 57-bit addresses, clusters. Source: nv-engine facts 0, 3, 5-8, 13."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hcqrt.nv.arch.ampere import AMPERE, LARGE
from hcqrt.nv.arch.base import Chip
from hcqrt.nv.arch.turing import BANK0, KIB
from hcqrt.nv.qmd_layout import QMD_V04_00

HUGE = (*LARGE, 196, 228)

HOPPER = replace(
    AMPERE,
    name="hopper",
    channel_classes=("HOPPER_CHANNEL_GPFIFO_A",),
    compute_classes=("HOPPER_COMPUTE_A",),
    copy_classes=("HOPPER_DMA_COPY_A",),
    usermode_classes=("HOPPER_USERMODE_A", "TURING_USERMODE_A"),
    qmd=QMD_V04_00,
    bank0=MappingProxyType({
        **BANK0,
        "shared_reserve": (0x114,),
        "shared_reserve_end": (0x68,),
        "shared_total": (0x13C,),
        "cluster_dim": (0x144,),
        "cluster_inverse": (0x150,),
        "cluster_count": (0x15C,),
        "cluster_size": (0x188,),
    }),
    reserve_first=True,
    nak_refusal="this compiler emits sm_8x code for it, which a Hopper runs wrongly",
    confidential=True,
)  # fmt: skip

CHIPS = (Chip(90, (0x900,), HOPPER, 0x90, HUGE, 227 * KIB, 32),)
