"""What a launch is and what comes out of it: the values that every core takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

# A mapping: va, nbytes, host pointer, writable, atomics allowed.
Range = tuple[int, int, int, bool, bool]
Dim3 = tuple[int, int, int]


class GpuMemory(Protocol):
    """The address space of the launch; host pointers stay valid while it runs, and a list once given never changes."""

    def ranges(self) -> Sequence[Range]: ...


@dataclass(frozen=True)
class Launch:
    """One grid. `fetch(va, nbytes)` reads machine code; sizes are in bytes; a window is the va of a 16 MiB aperture."""

    fetch: Callable[[int, int], bytes]
    entry_va: int
    memory: GpuMemory
    grid: Dim3
    block: Dim3
    isa: str = "sass"
    sm: int = 86
    registers: int = 255
    shared_bytes: int = 0
    local_low_bytes: int = 0
    local_high_bytes: int = 0
    local_window_va: int = 0
    shared_window_va: int = 0
    constants: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # bank -> host pointer, nbytes
    barriers: int = 16
    budget: int = 1 << 62
    clock_ns: int = 0


@dataclass(frozen=True)
class EngineFault:
    """Why a launch ended early: the first fault in the order of execution. `kind` is one of FAULT_KINDS."""

    kind: str
    pc: int
    address: int = 0
    access: str = ""  # "read", "write", "atomic" or nothing
    block: Dim3 = (0, 0, 0)
    thread: Dim3 = (0, 0, 0)
    detail: str = ""


FAULT_KINDS = (
    "misaligned", "global", "read_only", "atomic", "shared", "local", "constant", "illegal_instruction", "trap",
    "budget", "deadlock",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Thread-instructions executed, and the fault that ended the launch, if one did."""

    instructions: int
    fault: EngineFault | None = None
