"""What the generations of Adreno differ in, as one value each: tables, events, and rules of a dispatch.

Sources: qcom.md §2, §3 and §3.2; names and numbers are those of the generated tables.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from hcqrt.autogen.qcom import a6xx, a7xx, adreno

Fields = dict[str, tuple[int, int, int]]
NO_ID = 0xFC
NO_IDS = 0xFCFCFCFC  # no register for any of four ids
TILE_WIDTH = 4


@dataclass(frozen=True, eq=False)
class Events:
    """What the event packet may say. Whether and what one writes is for the packet of the generation to say."""

    numbers: Mapping[str, int]
    stamps: tuple[str, ...]  # with a place to write to, when earlier work is done
    quiet: tuple[str, ...]
    invalidating: tuple[str, ...]  # those of them after which UCHE reads memory again

    @functools.cached_property
    def names(self) -> dict[int, str]:
        return {self.numbers[name]: name for name in (*self.quiet, *self.stamps)}


@dataclass(frozen=True, eq=False)
class Generation:
    """One generation; registers of a dispatch are named where their names or meanings are not common to all."""

    name: str
    isa: int  # of ir3
    registers: Mapping[str, tuple[int, Fields]]
    arrays: Mapping[str, tuple[int, int, int, Fields]]
    opcodes: Mapping[str, int]
    events: Events
    markers: frozenset[int]
    ids: str  # register that says where group and local ids go
    required: tuple[str, ...] = ()  # registers that only here must have been written
    optional: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)  # the one value that is modelled, or has a meaning
    zero_fields: tuple[tuple[str, str], ...] = ()  # (register, field) for what is not modelled
    agreeing: tuple[tuple[str, str, str], ...] = ()  # (field, register, register that says it first)
    lpac_mirrors: tuple[tuple[str, str], ...] = ()  # (copy, register) where a chip has LPAC
    last_size: str = ""  # register with the local size of the last group of an axis, minus one
    tile_heights: tuple[tuple[int, int], ...] = ()  # (divisor of the local size in y, height of a tile of groups)
    loads_code: bool = True  # CP_LOAD_STATE6 may fill the instruction cache ahead
    first_thread: int | None = None  # of the CP, at the start of a submission (None: it has one only)
    compute_thread: int | None = None  # which CP_THREAD_CONTROL must have chosen
    idle_d1: int = 0  # bits of a texture's d1 that mean nothing to linear images

    @functools.cached_property
    def offsets(self) -> dict[str, int]:
        return {name: offset for name, (offset, _) in self.registers.items()}


THREAD_SIZES = ("THREADSIZE", "HLSQ_CS_CNTL_1", "SP_CS_CTRL_REG0")

A6XX = Generation(
    name="a6xx",
    isa=6,
    registers=a6xx.REGISTERS,
    arrays=a6xx.ARRAYS,
    opcodes=a6xx.OPCODES,
    events=Events(
        a6xx.EVENTS,
        # Only the first also writes caches back, which shows nothing here
        stamps=("CACHE_FLUSH_TS", "RB_DONE_TS", "WT_DONE_TS", "PC_CCU_FLUSH_COLOR_TS", "PC_CCU_FLUSH_DEPTH_TS"),
        quiet=("CACHE_INVALIDATE", "PC_CCU_INVALIDATE_COLOR", "PC_CCU_INVALIDATE_DEPTH", "START_COMPUTE_CTRS",
               "STOP_COMPUTE_CTRS", "LABEL"),
        invalidating=("CACHE_INVALIDATE",),
    ),
    markers=frozenset(a6xx.ENUMS["a6xx_marker"].values()),
    ids="HLSQ_CS_CNTL_0",
    optional=("HLSQ_SHARED_CONSTS",),
    fixed={"SP_CS_BRANCH_COND": 0, "HLSQ_SHARED_CONSTS": 0},
    zero_fields=(("HLSQ_CS_CNTL_1", "SINGLE_SP_CORE"), ("HLSQ_CS_CNTL_1", "THREADSIZE_SCALAR")),
    agreeing=(THREAD_SIZES,),
    lpac_mirrors=(("SP_CS_CNTL_0", "HLSQ_CS_CNTL_0"), ("SP_CS_CNTL_1", "HLSQ_CS_CNTL_1"),
                  ("HLSQ_CS_CTRL_REG1", "SP_CS_CTRL_REG1")),
)  # fmt: skip

A7XX = Generation(
    name="a7xx",
    isa=7,
    registers=a7xx.REGISTERS,
    arrays=a7xx.ARRAYS,
    opcodes=a7xx.OPCODES,
    events=Events(
        a7xx.EVENTS,
        stamps=("CACHE_FLUSH_TS", "RB_DONE_TS", "WT_DONE_TS"),
        quiet=("CACHE_CLEAN", "CACHE_FLUSH7", "CACHE_INVALIDATE7", "CCU_INVALIDATE_DEPTH", "CCU_INVALIDATE_COLOR",
               "CCU_CLEAN_DEPTH", "CCU_CLEAN_COLOR", "CCU_FLUSH_DEPTH", "CCU_FLUSH_COLOR", "CCU_RESOLVE_CLEAN",
               "START_COMPUTE_CTRS", "STOP_COMPUTE_CTRS", "LABEL", "DUMMY_EVENT"),
        invalidating=("CACHE_FLUSH7", "CACHE_INVALIDATE7"),
    ),
    markers=frozenset(a7xx.ENUMS["a6xx_marker"].values()),
    ids="SP_CS_CNTL_0",
    required=("SP_CS_CNTL_1", "HLSQ_CS_LAST_LOCAL_SIZE", "SP_CS_VGPR_CONFIG", "SP_CS_UNKNOWN_A9BE",
              "HLSQ_CONTROL_2_REG", "HLSQ_CONTROL_3_REG", "HLSQ_CONTROL_4_REG", "HLSQ_CONTROL_5_REG"),
    fixed={"SP_CS_BRANCH_COND": 0, "SP_CS_VGPR_CONFIG": 0, "SP_CS_UNKNOWN_A9BE": 0, "HLSQ_CONTROL_2_REG": NO_IDS,
           "HLSQ_CONTROL_3_REG": NO_IDS, "HLSQ_CONTROL_4_REG": NO_IDS, "HLSQ_CONTROL_5_REG": NO_ID << 8},
    zero_fields=(("HLSQ_CS_CNTL", "READ_IMM_SHARED_CONSTS"), ("SP_CS_CNTL_1", "THREADSIZE_SCALAR"),
                 ("SP_CS_CNTL_1", "WORKITEMRASTORDER")),
    agreeing=(THREAD_SIZES, ("THREADSIZE", "SP_CS_CNTL_1", "SP_CS_CTRL_REG0"),
              ("LINEARLOCALIDREGID", "SP_CS_CNTL_1", "HLSQ_CS_CNTL_1")),
    last_size="HLSQ_CS_LAST_LOCAL_SIZE",
    tile_heights=((8, 3), (4, 5), (2, 9), (1, 17)),
    loads_code=False,
    idle_d1=1 << 31,  # MUTABLEEN: views in other formats share the compression
    first_thread=adreno.ENUMS["cp_thread"]["CP_SET_THREAD_BOTH"],
    compute_thread=adreno.ENUMS["cp_thread"]["CP_SET_THREAD_BR"],
)  # fmt: skip
