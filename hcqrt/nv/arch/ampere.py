"""Ampere: GA100 (sm_80), GA10x (sm_86), Orin (sm_87). Source: nv-engine facts 0, 5-7."""

from __future__ import annotations

from hcqrt.nv.arch import Arch, Chip, bank0_places
from hcqrt.nv.qmd import QMD_V03_00

BANK0 = bank0_places(
    block_dim=0x00,
    grid_dim=0x0C,
    shared_window=0x18,
    local_window=0x20,
    stack_top=0x28,
    dynamic_shared=0x2C,
    shared_reserve=0x114,
)
KIB = 1024

AMPERE = Arch(
    name="ampere",
    channel_classes=("AMPERE_CHANNEL_GPFIFO_A",),
    compute_classes=("AMPERE_COMPUTE_B", "AMPERE_COMPUTE_A"),
    copy_classes=("AMPERE_DMA_COPY_B", "AMPERE_DMA_COPY_A"),
    usermode_classes=("TURING_USERMODE_A",),
    qmd=QMD_V03_00,
    bank0=BANK0,
    stack_top=0x1000000 - 0x240,  # the local window's size less what the vendor's driver keeps
    shared_window_va=0x7294_0000_0000,  # 4 GiB aligned, nothing is mapped there
    local_window_va=0x7293_0000_0000,
)

CHIPS = (
    Chip(80, (0x800, 0x802), AMPERE, (0, 8, 16, 32, 64, 100, 132, 164), 163 * KIB, KIB, 128, 64, 32),
    Chip(86, (0x806,), AMPERE, (0, 8, 16, 32, 64, 100), 99 * KIB, KIB, 128, 48, 16),
    Chip(87, (0x807,), AMPERE, (0, 8, 16, 32, 64, 100, 132, 164), 163 * KIB, KIB, 128, 48, 16),
)
