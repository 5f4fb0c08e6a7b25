"""ir3 for discovery: 8 bytes an instruction, and in front of the first what the dispatch puts into registers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ....isa.ir3 import decode
from ..launch import Ir3Setup, Launch
from . import lower, state_after
from .prologue import prologue


def setup_of(launch: Launch) -> Ir3Setup:
    if launch.setup is None:
        raise ValueError("a launch of ir3 code needs its setup")
    return launch.setup


class Ir3FrontEnd:
    instruction_bytes = 8
    # Nothing but their addresses brings fibres together, so the lowest runs first; one that spins waits for others.
    patience = 1024

    def key(self, launch: Launch) -> Hashable:
        return setup_of(launch), launch.lanes

    def prologue(self, launch: Launch) -> list[Any]:
        return prologue(setup_of(launch), launch.entry_va)

    def lower(self, code: bytes, pc: int, launch: Launch, state: int) -> tuple[list[Any], int]:
        setup = setup_of(launch)
        instruction = decode(int.from_bytes(code, "little"), setup.generation)
        return lower(instruction, pc, setup, bool(state)), state_after(instruction, state)
