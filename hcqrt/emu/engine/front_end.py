"""What discovery must know of one ISA: how long an instruction is, what it becomes, what comes before the first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from .launch import Launch


class FrontEnd(Protocol):
    """One ISA. Instructions that cannot be decoded or lowered raise a subclass of HCQError."""

    @property
    def instruction_bytes(self) -> int: ...

    @property
    def patience(self) -> int:
        """Program.patience: how many turns of a loop the rest of a divergent warp waits for."""

    def key(self, launch: Launch) -> Hashable:
        """Everything of a launch, but for the code, that decides what the code becomes."""

    def prologue(self, launch: Launch) -> list[Any]:
        """Records that run once before the first instruction. They count as no instruction."""

    def lower(self, code: bytes, pc: int, launch: Launch, state: int) -> tuple[list[Any], int]:
        """The records of one instruction, and the state in which the next ones run.

        A BRA carries the address of its target in `imm`. A state is what may have happened on a way to this
        instruction, as bits: where ways meet, discovery joins them with `|`. The first instruction has state 0.
        """
