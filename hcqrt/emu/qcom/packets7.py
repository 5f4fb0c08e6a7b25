"""The packets that came with a7xx: events with a choice of what they write, threads of the CP, waits for timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hcqrt.autogen.qcom import adreno
from hcqrt.emu.qcom.events import IRQ, carry_out, event_of, expect, place
from hcqrt.emu.qcom.trouble import Blocked, Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor

WORD, SIGN = 0xFFFFFFFF, 1 << 31
WRITE_SOURCE_LSB, WRITE_SOURCE_BITS = 20, 7 << 20
ON_CHIP, WRITE_ENABLED = 1 << 24, 1 << 27
USER_32, USER_64, ALWAYS_ON = 0, 1, 3  # event_write_src
# source -> (dwords of the packet, bytes written); the sum of timestamps and the contents of registers are not modelled
EVENT_SOURCES = {USER_32: (4, 4), USER_64: (5, 8), ALWAYS_ON: (3, 8)}
THREAD_BITS, NO_CONCURRENT_BINNING, SYNC_THREADS = 3, 1 << 27, 1 << 31
THREADS = adreno.ENUMS["cp_thread"].values()
WAIT_SOURCE_BITS, WAIT_ON_CHIP = 3, 1 << 4
WAIT_32, WAIT_64 = 0, 1  # ts_wait_value_src
WAIT_DWORDS = {WAIT_32: 4, WAIT_64: 5}


def event_write7(cp: CommandProcessor, payload: list[int]) -> None:
    """Any event may write, and says so; those that stand for an end of work must (rnndb: RB_DONE_TS requires it)."""
    flags = WRITE_SOURCE_BITS | ON_CHIP | WRITE_ENABLED | IRQ
    name, what = event_of(cp, "CP_EVENT_WRITE7", payload, flags)
    word = payload[0]
    source = (word & WRITE_SOURCE_BITS) >> WRITE_SOURCE_LSB
    if not word & WRITE_ENABLED:
        if name in cp.generation.events.stamps:
            raise Refused(f"{what}: it writes, and WRITE_ENABLED is not set")
        if word & (flags & ~IRQ):
            raise Refused(f"{what}: a source or a destination, and WRITE_ENABLED is not set")
        expect(what, payload, 1)
        carry_out(cp, name, word)
        return
    if word & ON_CHIP:
        raise Refused(f"{what}: writing on chip is not modelled")
    if source not in EVENT_SOURCES:
        raise Refused(f"{what}: source {source} is not modelled")
    count, nbytes = EVENT_SOURCES[source]
    expect(what, payload, count)
    va = place(what, payload[1], payload[2], nbytes)
    cp.drain()
    data = cp.gpu.ticks().to_bytes(8, "little") if source == ALWAYS_ON else words(payload[3:])
    cp.space.write(va, data)
    carry_out(cp, name, word)


def words(payload: list[int]) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in payload)


def thread_control(cp: CommandProcessor, payload: list[int]) -> None:
    """Later packets are for these threads of the CP. Nothing goes on in the other one: synchronising is no wait."""
    name = "CP_THREAD_CONTROL"
    expect(name, payload, 1)
    word = payload[0]
    unknown = word & ~(THREAD_BITS | NO_CONCURRENT_BINNING | SYNC_THREADS)
    if unknown or word & THREAD_BITS not in THREADS:
        raise Refused(f"{name} = {word:#010x}: thread {word & THREAD_BITS}, or bits {unknown:#x}, are not known")
    cp.thread = word & THREAD_BITS


def cche_invalidate(cp: CommandProcessor, payload: list[int]) -> None:
    """A cache below UCHE, which this model does not have."""
    expect("CP_CCHE_INVALIDATE", payload, 0)


def wait_timestamp(cp: CommandProcessor, payload: list[int]) -> None:
    """Until memory has reached a value: compared signed in 32 bits, unsigned in 64 (rnndb, CP_WAIT_TIMESTAMP)."""
    name = "CP_WAIT_TIMESTAMP"
    if not payload:
        raise Refused(f"{name}: no dwords, it takes 4 or 5")
    word = payload[0]
    source, unknown = word & WAIT_SOURCE_BITS, word & ~(WAIT_SOURCE_BITS | WAIT_ON_CHIP)
    if unknown or word & WAIT_ON_CHIP or source not in WAIT_DWORDS:
        raise Refused(f"{name} = {word:#010x}: source {source}, memory on chip or bits {unknown:#x} are not modelled")
    expect(name, payload, WAIT_DWORDS[source])
    if source == WAIT_64:
        reached = cp.space.read_u64(place(name, payload[1], payload[2], 8)) >= payload[4] << 32 | payload[3]
    else:
        value, ref = cp.space.read_u32(place(name, payload[1], payload[2], 4)), payload[3]
        reached = value - (value & SIGN) * 2 >= ref - (ref & SIGN) * 2
    if not reached:
        raise Blocked
