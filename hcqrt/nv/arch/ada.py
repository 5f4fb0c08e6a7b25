"""Ada: AD10x (sm_89): Ampere's channel, copy and QMD with a compute class of its own. Source: nv-engine facts 0, 6."""

from __future__ import annotations

from dataclasses import replace

from hcqrt.nv.arch.ampere import AMPERE, SMALL
from hcqrt.nv.arch.base import Chip
from hcqrt.nv.arch.turing import KIB

ADA = replace(AMPERE, name="ada", compute_classes=("ADA_COMPUTE_A",), copy_classes=("AMPERE_DMA_COPY_B",))

CHIPS = (Chip(89, (0x809,), ADA, 0x89, SMALL, 99 * KIB, 24),)
