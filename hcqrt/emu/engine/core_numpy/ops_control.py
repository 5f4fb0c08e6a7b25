"""Branches, reconvergence, barriers, exits: operations that move lanes, and the barrier registers they use."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from .. import uops
from .ops_warp import BITS, ballot, spread
from .records import Rec, controls, handles
from .rounding import U32, U64, Array, Bool
from .unit import BAR, DEAD, RUN, SYNC, WARP, Stop, TooOrdered, Unit


def _stop(u: Unit, r: Rec, kind: str, detail: str = "", pc: int | None = None) -> NoReturn:
    raise Stop(kind, u.first_lane(), r.pc if pc is None else pc, 0, "", detail)


@controls("TRAP")
def trap(u: Unit, r: Rec) -> None:
    if u.k:
        _stop(u, r, "trap")
    u.advance(r.index + 1)


@controls("ILLEGAL")
def illegal(u: Unit, r: Rec) -> None:
    if u.k:
        _stop(u, r, "illegal_instruction")
    u.advance(r.index + 1)


@controls("BRA")
def bra(u: Unit, r: Rec) -> None:
    _go(u, r, np.full(u.n, r.target, np.int64))


@controls("BRX")
def brx(u: Unit, r: Rec) -> None:
    if not u.k:
        u.advance(r.index + 1)
        return
    wanted: U64 = u.pair(r, 0) + np.uint64(r.imm & (1 << 64) - 1)
    targets = np.zeros(u.n, np.int64)
    lanes = range(u.n) if u.run is None else u.run.tolist()
    for lane, address in zip(lanes, wanted.tolist(), strict=True):
        if u.live[lane]:
            position = u.memory.positions.get(address)
            if position is None:
                raise Stop("illegal_instruction", lane, address, 0, "", f"a jump from {r.pc:#x} to where no code is")
            targets[lane] = position
    _go(u, r, targets)


def _go(u: Unit, r: Rec, targets: Array) -> None:
    """Running lanes go to their target, the rest of the group to the next record."""
    if not u.k:
        u.advance(r.index + 1)
        return
    lanes = u.lanes()
    first = int(targets[lanes[0]])
    whole = lanes.size == (int(u.live.sum()) if u.group is None else u.group.size)
    back = targets[lanes] <= r.index
    if u.together and whole and (targets[lanes] == first).all():
        u.here = first
        return
    u.part()
    u.position[u.group] = r.index + 1
    u.position[lanes] = targets[lanes]
    if back.any() and _turn_over(u):
        _switch(u, lanes[back])


def _turn_over(u: Unit) -> bool:
    """Whether lanes that branch backwards sit out the next choice. A wide run does not count for each of its warps."""
    if u.wide:
        return True
    u.turns += 1
    over = u.turns > u.patience
    if over:
        u.turns = 0
    return over


def _switch(u: Unit, lanes: Array) -> None:
    """These lanes sit out the next pick."""
    if u.wide:
        _refuse_to_switch(u, lanes)
        return
    u.skip = np.zeros(u.n, np.bool_)
    u.skip[lanes] = True


def _refuse_to_switch(u: Unit, lanes: Array) -> None:
    """A wide run keeps the order of a warp's groups only where no group is passed over."""
    chosen = np.zeros(u.n, np.bool_)
    chosen[lanes] = True
    warps = np.repeat(chosen.reshape(-1, u.wave).any(axis=1), u.wave)
    if u.crosses_lanes and (warps & (u.status == RUN) & ~chosen).any():
        raise TooOrdered("groups of a warp take turns")


@controls("YIELD")
def yield_(u: Unit, r: Rec) -> None:
    lanes = u.lanes() if u.k else np.zeros(0, np.int64)
    u.advance(r.index + 1)
    if lanes.size and not u.together:
        _switch(u, lanes)


@handles("BSSY")
def bssy(u: Unit, r: Rec) -> None:
    group = np.zeros(u.n, np.bool_)
    group[u.group if u.group is not None else u.live] = True
    _put_barrier(u, r.imm, spread(u, ballot(u, group)))


@handles("BCLR")
def bclr(u: Unit, r: Rec) -> None:
    _put_barrier(u, r.imm, np.zeros(u.k, np.uint32))


def _put_barrier(u: Unit, number: int, values: U32) -> None:
    whole = u.barriers[number].copy()
    whole[slice(None) if u.run is None else u.run] = values
    u.barriers[number] = whole


@controls("BREAK")
def break_(u: Unit, r: Rec) -> None:
    if u.k:
        leaving = np.zeros(u.n, np.bool_)
        leaving[u.lanes()] = True
        masks = u.barriers[r.imm].reshape(-1, u.wave)
        kept = masks.copy()
        for lane in range(u.wave):
            goes = leaving.reshape(-1, u.wave)[:, lane]
            theirs = (masks[:, lane : lane + 1] >> np.arange(u.wave, dtype=np.uint32)) & np.uint32(1)
            kept = np.where(goes[:, None] & (theirs != 0), kept & ~BITS[lane], kept)
        u.barriers[r.imm] = np.ascontiguousarray(kept.reshape(-1))
    u.advance(r.index + 1)
    _judge(u)


@controls("BSYNC")
def bsync(u: Unit, r: Rec) -> None:
    _wait(u, r, SYNC, r.imm)


@controls("WARPSYNC")
def warpsync(u: Unit, r: Rec) -> None:
    if u.k:
        masks = np.zeros(u.n, np.uint32) if u.wait_mask is None else u.wait_mask.copy()
        masks[slice(None) if u.run is None else u.run] = u.word(r, 0)
        u.wait_mask = masks
    _wait(u, r, WARP, 0)


def _wait(u: Unit, r: Rec, status: int, number: int) -> None:
    lanes = u.lanes()
    if not u.k or (u.together and lanes.size == int(u.live.sum())):
        u.advance(r.index + 1)  # nobody, or everybody who lives: no one to wait for
        return
    u.part()
    u.position[u.group] = r.index + 1
    u.position[lanes] = r.index
    u.status[lanes] = status
    u.waits_on[lanes] = number
    _judge(u)


def _whole(u: Unit, mask: Bool) -> U32:
    """Each lane's view of its warp's mask."""
    return np.repeat(ballot(u, mask), u.wave)


def _judge(u: Unit) -> None:
    """Let waiting lanes go on whose whole mask waits likewise or has ended."""
    at_sync, at_warp = u.status == SYNC, u.status == WARP
    if u.together or not (at_sync | at_warp).any():
        return
    free = np.zeros(u.n, np.bool_)
    alive = _whole(u, u.status != DEAD)
    for number in np.unique(u.waits_on[at_sync]):
        here = at_sync & (u.waits_on == number)
        free |= here & ((u.barriers[number] & alive & ~_whole(u, here)) == 0)
    if u.wait_mask is not None and at_warp.any():
        free |= at_warp & ((u.wait_mask & alive & ~_whole(u, at_warp)) == 0)
    u.position[free] += 1
    u.status[free] = RUN


@controls("EXIT")
def exit_(u: Unit, r: Rec) -> None:
    if not u.k:
        u.advance(r.index + 1)
        return
    lanes = u.lanes()
    u.live = u.live.copy()
    u.live[lanes] = False
    u.all_live = False
    u.status[lanes] = DEAD
    u.advance(r.index + 1)
    _judge(u)


@controls("BAR")
def bar(u: Unit, r: Rec) -> None:
    if not u.k:
        u.advance(r.index + 1)
        return
    lanes = u.lanes()
    number, count = int(u.word(r, 0)[0]) & 15, int(u.word(r, 1)[0])
    if u.wide:
        _wide_barrier(u, r, lanes, count)
        return
    u.part()
    u.position[u.group] = r.index + 1
    u.arrivals[number, lanes] = True
    u.expected[number] = count
    if r.mod == uops.BAR_SYNC:
        u.position[lanes] = r.index
        u.status[lanes] = BAR
        u.waits_on[lanes] = number


def _wide_barrier(u: Unit, r: Rec, lanes: Array, count: int) -> None:
    """Barriers for all threads of a block, one number at a time; anything else needs the narrow run."""
    same = u.k < 2 or all((u.word(r, slot) == u.word(r, slot)[0]).all() for slot in (0, 1))
    # A count of threads is met by whole warps only, so a warp that has ended is missed.
    whole = count == 0 or (count == u.block_lanes and u.all_live)
    if not same or not whole or r.mod != uops.BAR_SYNC or u.memory.shadow is None:
        raise TooOrdered("a barrier of some of the threads")
    if u.together and lanes.size == int(u.live.sum()):
        u.memory.shadow.barrier(np.arange(u.n // u.block_lanes))
        u.advance(r.index + 1)
        return
    u.part()
    u.position[u.group] = r.index + 1
    u.position[lanes] = r.index
    u.status[lanes] = BAR
    waits = (u.status == BAR) & (u.position == r.index)
    complete = (waits | (u.status == DEAD)).reshape(-1, u.block_lanes).all(axis=1)
    freed = np.repeat(complete, u.block_lanes) & waits
    u.position[freed] += 1
    u.status[freed] = RUN
    u.memory.shadow.barrier(complete)
