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
class ImageShape:
    """What code for a texture or a writable image depends on; sizes and addresses are in the launch's banks."""

    format: int  # as the a6xx descriptor numbers it
    kind: str  # "1d" "2d" "3d" "cube" "buffer"
    swizzle: tuple[int, int, int, int]  # per component: 0-3 xyzw, 4 zero, 5 one
    swap: int  # order of the components in memory
    srgb: bool


@dataclass(frozen=True)
class SamplerShape:
    """What reading a texel may depend on; the launcher checks the rest."""

    unnormalized: bool
    wrap: tuple[int, int, int]
    filter: tuple[int, int]  # min, mag


@dataclass(frozen=True)
class Ir3Setup:
    """Everything that lowering ir3 must know besides the code: what the dispatch's state registers said.

    Register numbers are 4 * vec + component as the state writes them, 0xFC: absent.
    """

    merged: bool  # half registers are the halves of the full ones
    constant_demotion: bool  # hcN is the word cN, narrowed; else half N of the constant file
    isam_gl: bool  # ISAMMODE GL, else CL
    full_regs: int  # footprints in vec4; registers beyond them are refused
    half_regs: int
    group_id: int
    group_size: int
    group_offset: int
    local_id: int
    linear_id: int
    textures: tuple[ImageShape | None, ...] = ()
    samplers: tuple[SamplerShape | None, ...] = ()
    images: tuple[ImageShape | None, ...] = ()
    ubos: int = 0
    generation: int = 6  # of the instructions: a6xx, a7xx
    first_group: Dim3 = (0, 0, 0)  # number of the launch's first group: it may be a part of a larger grid


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
    lanes: int = 32  # of a warp: one of uops.WAVES
    setup: Ir3Setup | None = None


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
    "budget", "deadlock", "register",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Thread-instructions executed, and the fault that ended the launch, if one did."""

    instructions: int
    fault: EngineFault | None = None
