"""Ampere: GA100 (sm_80), GA10x (sm_86), Orin (sm_87). Source: nv-engine facts 0, 3, 5-8."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hcqrt.autogen.nv import clc7c0
from hcqrt.nv.arch.base import Chip
from hcqrt.nv.arch.turing import BANK0, KIB, TURING
from hcqrt.nv.qmd_layout import QMD_V03_00

SMALL = (0, 8, 16, 32, 64, 100)  # KiB of shared memory that an SM can be set to
LARGE = (*SMALL, 132, 164)

AMPERE = replace(
    TURING,
    name="ampere",
    channel_classes=("AMPERE_CHANNEL_GPFIFO_A",),
    compute_classes=("AMPERE_COMPUTE_B", "AMPERE_COMPUTE_A"),
    copy_classes=("AMPERE_DMA_COPY_B", "AMPERE_DMA_COPY_A"),
    qmd=QMD_V03_00,
    schedule=(
        clc7c0.NVC7C0_SEND_SIGNALING_PCAS2_B,
        clc7c0.NVC7C0_SEND_SIGNALING_PCAS2_B_PCAS_ACTION_INVALIDATE_COPY_SCHEDULE,
    ),
    bank0=MappingProxyType({**BANK0, "shared_reserve": (0x114,), "shared_reserve_end": (0x120,)}),
    shared_reserve=KIB,
    shared_unit=128,
)

CHIPS = (
    Chip(80, (0x800, 0x802), AMPERE, 0x80, LARGE, 163 * KIB, 32),
    Chip(86, (0x806,), AMPERE, 0x86, SMALL, 99 * KIB, 16),
    Chip(87, (0x807,), AMPERE, 0x87, LARGE, 163 * KIB, 16),
)
