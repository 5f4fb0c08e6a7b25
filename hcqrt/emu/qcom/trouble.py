"""How work on the emulated Adreno ends early: refused words, faults that hardware reports, and waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from hcqrt.emu.engine.launch import Dim3

PAGE_FAULT, HANG, BAD_PACKET, BAD_SHADER = "page_fault", "hang", "bad_packet", "bad_shader"
KINDS = (PAGE_FAULT, HANG, BAD_PACKET, BAD_SHADER)


@dataclass(frozen=True)
class ShaderPlace:
    """Where a shader was when it failed; addresses are GPU addresses."""

    shader_va: int
    pc: int
    group: Dim3 = (0, 0, 0)
    fiber: Dim3 = (0, 0, 0)


@dataclass(frozen=True)
class GpuFault:
    """What ended a submission. A page fault is recovered from; the other kinds leave the GPU hanging."""

    kind: str  # one of KINDS
    text: str
    address: int = 0  # of a page fault
    access: str = ""  # "read", "write", "atomic" or "fetch" of a page fault
    reason: str = ""  # of a page fault: "PDE", "PTE", "VA_LIMIT" (nothing is mapped there), "RO", "ATOMIC"
    timestamp: int = 0
    launch: int = 0  # number of the context's launch, counted from 1; 0 when it was no shader
    place: ShaderPlace | None = None


class Refused(Exception):
    """Words that this GPU does not know or must not get. The text holds the number."""


class Blocked(Exception):
    """A packet has to wait: it runs again later."""


@dataclass
class WorkFault(Exception):
    """Correct words, and yet an error that hardware reports."""

    kind: str
    text: str
    address: int = 0
    access: str = ""
    reason: str = ""
    launch: int = 0
    place: ShaderPlace | None = field(default=None)

    def __post_init__(self) -> None:
        super().__init__(self.text)
