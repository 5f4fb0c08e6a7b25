"""CP_EVENT_WRITE: cache events, and those that write a dword when earlier work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hcqrt.emu.qcom.trouble import Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor

WORD = 0xFFFFFFFF
TIMESTAMP, IRQ, EVENT_BITS = 1 << 30, 1 << 31, 0xFF


def event_of(cp: CommandProcessor, packet: str, payload: list[int], flags: int) -> tuple[str, str]:
    """(name of the event, text for refusals). Raises Refused: no dwords, an unknown event, or bits outside `flags`."""
    if not payload:
        raise Refused(f"{packet}: no dwords, it takes at least 1")
    word = payload[0]
    name = cp.generation.events.names.get(word & EVENT_BITS, "unknown")
    what = f"{packet} = {word:#010x} (event {name}, {word & EVENT_BITS:#x})"
    if name == "unknown":
        raise Refused(f"{what}: not modelled")
    if word & ~(EVENT_BITS | flags):
        raise Refused(f"{what}: bits {word & ~(EVENT_BITS | flags):#x} are not known")
    return name, what


def expect(what: str, payload: list[int], count: int) -> None:
    if len(payload) != count:
        raise Refused(f"{what}: {len(payload)} dwords, it takes {count}")


def place(what: str, lo: int, hi: int, nbytes: int) -> int:
    """Where an event writes so many bytes."""
    va = hi << 32 | lo
    if va % nbytes:
        raise Refused(f"{what}: address {va:#x} is not {nbytes}-byte aligned")
    return va


def carry_out(cp: CommandProcessor, name: str, word: int) -> None:
    """What an event does beside writing: its caches, and its interrupt."""
    if name in cp.generation.events.invalidating:
        cp.state.stale.invalidate_memory()
    if word & IRQ:
        cp.gpu.stats["interrupts"] += 1


def event_write(cp: CommandProcessor, payload: list[int]) -> None:
    """Raises Refused: unknown events and bits, or a count that does not suit the event."""
    name, what = event_of(cp, "CP_EVENT_WRITE", payload, TIMESTAMP | IRQ)
    word = payload[0]
    if name not in cp.generation.events.stamps:
        expect(what, payload, 1)
        if word & (TIMESTAMP | IRQ):
            raise Refused(f"{what}: an event that writes nothing has neither timestamp nor interrupt")
        carry_out(cp, name, word)
        return
    expect(what, payload, 4)
    va = place(what, payload[1], payload[2], 4)
    cp.drain()
    # The counter does not fit: whoever asks for it here gets its lower half (qcom.md §2, Timestamps)
    cp.space.write_u32(va, cp.gpu.ticks() & WORD if word & TIMESTAMP else payload[3])
    carry_out(cp, name, word)
