"""CP_EVENT_WRITE of a6xx: cache events, and those that write a dword when earlier work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import a6xx
from hcqrt.emu.qcom.trouble import Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor

WORD = 0xFFFFFFFF
TIMESTAMP, IRQ, EVENT_BITS = 1 << 30, 1 << 31, 0xFF
NAMES = {number: name for name, number in a6xx.EVENTS.items()}
# Each waits for what came before, then writes; only the first also writes caches back, which shows nothing here
WRITING = ("CACHE_FLUSH_TS", "RB_DONE_TS", "WT_DONE_TS", "PC_CCU_FLUSH_COLOR_TS", "PC_CCU_FLUSH_DEPTH_TS")
QUIET = ("CACHE_INVALIDATE", "PC_CCU_INVALIDATE_COLOR", "PC_CCU_INVALIDATE_DEPTH", "START_COMPUTE_CTRS",
         "STOP_COMPUTE_CTRS", "LABEL")  # fmt: skip


def event_write(cp: CommandProcessor, payload: list[int]) -> None:
    """Raises Refused: unknown events and bits, or a count that does not suit the event."""
    if not payload:
        raise Refused("CP_EVENT_WRITE: no dwords, it takes 1 or 4")
    word = payload[0]
    name = NAMES.get(word & EVENT_BITS, "unknown")
    what = f"CP_EVENT_WRITE = {word:#010x} (event {name}, {word & EVENT_BITS:#x})"
    if name not in WRITING and name not in QUIET:
        raise Refused(f"{what}: not modelled")
    if word & ~(EVENT_BITS | TIMESTAMP | IRQ):
        raise Refused(f"{what}: bits {word & ~(EVENT_BITS | TIMESTAMP | IRQ):#x} are not known")
    expected = 4 if name in WRITING else 1
    if len(payload) != expected:
        raise Refused(f"{what}: {len(payload)} dwords, it takes {expected}")
    if name in WRITING:
        write(cp, what, payload)
    elif word & (TIMESTAMP | IRQ):
        raise Refused(f"{what}: an event that writes nothing has neither timestamp nor interrupt")
    elif name == "CACHE_INVALIDATE":
        cp.state.stale.invalidate_memory()


def write(cp: CommandProcessor, what: str, payload: list[int]) -> None:
    word, lo, hi, data = payload
    va = hi << 32 | lo
    if va % 4:
        raise Refused(f"{what}: address {va:#x} is not 4-byte aligned")
    cp.drain()
    # The counter does not fit: whoever asks for it here gets its lower half (qcom.md §2, Timestamps)
    cp.space.write_u32(va, cp.gpu.ticks() & WORD if word & TIMESTAMP else data)
    if word & IRQ:
        cp.gpu.stats["interrupts"] += 1
