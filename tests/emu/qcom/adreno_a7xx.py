"""The worked dispatch of qcom.md §3.3 as an a750 takes it: words encoded by hand from §3.2 and the register sheet."""

from __future__ import annotations

from collections.abc import Iterable

from adreno_bench import SIGNAL_VA, dispatch

DISPATCH = (
    "70970001 00000001",  # CP_THREAD_CONTROL: BR
    "70e50001 00000008",
    "48ab1f01 00000060",  # HLSQ_INVALIDATE_CMD
    "40ab0001 00000005",
    "48ae0401 00000000",
    "40ae0f01 00000020",
    "40b30901 00000002",
    "40b60001 11100000",  # TPL1_DBG_ECO_CNTL of §1.10
    "70268000",
    "40a9cd01 00000101",  # HLSQ_CS_CNTL
    "48a9bb02 00000100 00000001",
    "40a9b08a 00000180 00000001 00000000 00000000 00010000 00000010 00000000 00000000 00000000 00000000",
    "48a9bd02 00000000 00000000",  # with SP_CS_UNKNOWN_A9BE
    "40a9c202 00fcfcc0 000000fc",  # SP_CS_CNTL_0, SP_CS_CNTL_1
    "48a9c501 00000000",  # SP_CS_VGPR_CONFIG
    "48a9c601 00000000",  # HLSQ_FS_CNTL_0
    "40a9c804 fcfcfcfc fcfcfcfc fcfcfcfc 0000fc00",  # HLSQ_CONTROL_2_REG to 5
    # NDRANGE, then HLSQ_CS_CNTL_1 with z first and tiles of 4 x 17 groups, group counts, and the last local size
    "48a9d48c 000000ff 00000080 00000000 00000001 00000000 00000001 00000000 444008fc 00000001 00000001 00000001"
    " 000000fc",
    "70348003 00764000 00020000 00000010",
    "70b30004 00000000 00000002 00000001 00000001",
    "70268000",
    "70460004 08000004 00050000 00000010 00000001",  # CACHE_FLUSH_TS, WRITE_ENABLED, 32 bits
)
TAIL_WORDS = 6  # CP_WAIT_FOR_IDLE and the signal
FLUSH = (0x70460004, 0x08000004, SIGNAL_VA & 0xFFFFFFFF, SIGNAL_VA >> 32)  # and the value


def dispatch7(
    change: dict[int, int] | None = None,
    *,
    drop: Iterable[int] = (),
    before: Iterable[int] = (),
    launch: Iterable[int] | None = None,
) -> list[int]:
    return dispatch(change, drop=drop, before=before, launch=launch, example=DISPATCH)
