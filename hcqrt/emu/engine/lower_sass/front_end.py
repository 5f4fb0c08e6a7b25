"""SASS for discovery: 16 bytes an instruction, and nothing in front of the first."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any

from ....isa.sass import decode
from ..launch import Launch
from . import lower


class SassFrontEnd:
    instruction_bytes = 16
    patience = 0  # lanes meet at barrier registers, so they need not run in step before

    def key(self, launch: Launch) -> Hashable:
        return launch.sm, launch.registers

    def prologue(self, launch: Launch) -> list[Any]:
        return []

    def lower(self, code: bytes, pc: int, launch: Launch, state: int) -> tuple[list[Any], int]:
        lo, hi = struct.unpack("<QQ", code)
        return lower(decode(lo, hi, launch.sm), pc, launch.registers), state
