"""Operations in which lanes see each other, and special registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import uops
from .records import Rec, handles
from .rounding import U32, Array, Bool
from .unit import Stop, TooOrdered, Unit

BITS: U32 = np.uint32(1) << np.arange(32, dtype=np.uint32)
CLOCKS = (uops.SR_CLOCK_LO, uops.SR_CLOCK_HI, uops.SR_TIME_LO, uops.SR_TIME_HI)


def ballots(u: Unit, mask: Bool) -> U32:
    """The truth values of each warp as a row of words."""
    packed = np.packbits(mask.reshape(-1, u.wave), axis=1, bitorder="little")
    words: U32 = np.ascontiguousarray(packed).view("<u4")
    return words


def ballot(u: Unit, mask: Bool) -> U32:
    """The truth values of each warp as one word: where warps have 32 lanes."""
    return ballots(u, mask)[:, 0]


def _passing(u: Unit, r: Rec) -> Bool:
    """The group's lanes that passed the guard, of all lanes of the unit."""
    mask: Bool
    if u.passing is None:
        mask = u.live.copy()
    else:
        mask = np.zeros(u.n, np.bool_)
        mask[u.passing] = True
    if u.wide and u.group is not None:
        outside = np.ones(u.n, np.bool_)
        outside[u.group] = False
        members = np.repeat(mask.reshape(-1, u.wave).any(axis=1), u.wave)
        if (members & u.live & outside).any():
            raise TooOrdered(f"a diverged warp communicates at {r.pc:#x}")
    return mask


def spread(u: Unit, per_warp: Array) -> Array:
    """One value a warp to the running lanes."""
    lanes = np.repeat(per_warp, u.wave)
    return lanes if u.run is None else lanes[u.run]


def _all_lanes(u: Unit, r: Rec) -> U32:
    """Source a of every lane, running or not."""
    run, k = u.run, u.k
    u.run, u.k = None, u.n
    values = u.word(r, 0)
    u.run, u.k = run, k
    return values


@handles("BCAST")
def bcast(u: Unit, r: Rec) -> None:
    mask = _passing(u, r)
    first = np.argmax(mask.reshape(-1, u.wave), axis=1)
    values = _all_lanes(u, r).reshape(-1, u.wave)[np.arange(first.size), first]
    u.put(r.d, spread(u, values))


def _any(u: Unit, mask: Bool) -> Bool:
    """Of each warp, whether the mask has a lane of it."""
    found: Bool = np.logical_or.reduce(mask.reshape(-1, u.wave), axis=1)
    return found


@handles("VOTE")
def vote(u: Unit, r: Rec) -> None:
    mask = _passing(u, r)
    always = r.p in (uops.PT, uops.UPT)
    holds = np.full(u.n, not r.p_neg) if always else u.predicates[r.p] ^ r.p_neg
    yes = mask & holds
    some, missing = _any(u, yes), _any(u, mask & ~yes)
    result = some if r.mod == uops.VOTE_ANY else ~missing
    if r.mod == uops.VOTE_EQ:
        result = ~some | ~missing
    words = ballots(u, yes)
    u.put(r.d, spread(u, words[:, r.imm] if r.imm < words.shape[1] else np.zeros(len(words), np.uint32)))
    u.put_predicate(r.pd, spread(u, result))


@handles("SHFL")
def shfl(u: Unit, r: Rec) -> None:
    if u.wide:
        _passing(u, r)
        if not u.all_live:
            raise TooOrdered("a shuffle among lanes of which some have ended")
    values = _all_lanes(u, r)
    lanes = u.lanes().astype(np.int64)
    most = u.wave - 1
    lane = lanes & most
    b, c = u.word(r, 1).astype(np.int64) & most, u.word(r, 2).astype(np.int64)
    clamp, segment = c & most, c >> 8 & most
    low = lane & segment
    highest = low | (clamp & ~segment)
    if r.mod == uops.SHFL_UP:
        source = lane - b
        valid = source >= highest
    else:
        source = {uops.SHFL_IDX: low | (b & ~segment), uops.SHFL_DOWN: lane + b, uops.SHFL_BFLY: lane ^ b}[r.mod]
        valid = source <= highest
    u.put(r.d, values[lanes - lane + (np.where(valid, source, lane) & most)])
    u.put_predicate(r.pd, valid)


@handles("MATCH")
def match(u: Unit, r: Rec) -> None:
    if u.wide:
        raise TooOrdered("a match")
    mask, values = _passing(u, r), _all_lanes(u, r)
    same = (values[:, None] == values[None, :]) & mask[None, :]
    u.put(r.d, _running(u, (same * BITS).sum(axis=1).astype(np.uint32)))


def _running(u: Unit, values: Array) -> Array:
    return values if u.run is None else values[u.run]


_REDUCTIONS: dict[int, Callable[[int, int], int]] = {
    uops.RED_AND: lambda x, y: x & y,
    uops.RED_OR: lambda x, y: x | y,
    uops.RED_XOR: lambda x, y: x ^ y,
    uops.RED_SUM: lambda x, y: (x + y) & 0xFFFFFFFF,
    uops.RED_MIN: min,
    uops.RED_MAX: max,
}


@handles("REDUX")
def redux(u: Unit, r: Rec) -> None:
    if u.wide:
        raise TooOrdered("a reduction")
    turn = 1 << 31 if r.has(uops.SIGNED) and r.mod in (uops.RED_MIN, uops.RED_MAX) else 0
    terms = [int(value) ^ turn for value in _all_lanes(u, r)[_passing(u, r)]]
    total = terms[0]
    for term in terms[1:]:
        total = _REDUCTIONS[r.mod](total, term)
    u.put(r.d, np.full(u.k, total ^ turn, np.uint32))


def _numbers(u: Unit, r: Rec, access: str) -> U32:
    """The register that each running lane names; a number outside the record's range is a fault."""
    numbers: U32 = u.word(r, 0) + np.uint32(r.imm & 0xFFFFFFFF)
    outside = (numbers < (r.mod & 0xFFFF)) | (numbers > r.mod >> 16)
    if u.run is None and not r.full:
        outside &= u.live
    if outside.any():
        at = int(np.argmax(outside))
        raise Stop("register", at if u.run is None else int(u.run[at]), r.pc, int(numbers[at]), access)
    return numbers


@handles("RGET")
def rget(u: Unit, r: Rec) -> None:
    numbers = _numbers(u, r, "read")
    values = np.zeros(u.k, np.uint32)
    for number in np.unique(numbers).tolist():
        if r.mod & 0xFFFF <= number <= r.mod >> 16:
            values = np.where(numbers == number, u.register(number), values)
    u.put(r.d, values)


@handles("RPUT")
def rput(u: Unit, r: Rec) -> None:
    values = u.word(r, 1)
    numbers = _numbers(u, r, "write")
    for number in np.unique(numbers).tolist():
        if r.mod & 0xFFFF <= number <= r.mod >> 16:
            u.put(number, np.where(numbers == number, values, u.register(number)))


@handles("S2R")
def s2r(u: Unit, r: Rec) -> None:
    n = r.imm
    if uops.SR_TID_X <= n <= uops.SR_CTAID_Z:
        u.put(r.d, _running(u, u.coordinates[n - uops.SR_TID_X]))
    elif n == uops.SR_WARP_ID:
        u.put(r.d, _running(u, u.coordinates[6]))
    elif n == uops.SR_LANE or uops.SR_MASK_EQ <= n <= uops.SR_MASK_GE:
        u.put(r.d, _running(u, np.tile(_lane_values(u, n), u.n // u.wave)))
    else:
        u.put(r.d, np.full(u.k, _constant_register(u, n), np.uint32))


def _lane_values(u: Unit, n: int) -> U32:
    """Of one warp; the masks are asked for where it has 32 lanes."""
    below: U32 = BITS - np.uint32(1)
    rows: dict[int, U32] = {
        uops.SR_LANE: np.arange(u.wave, dtype=np.uint32),
        uops.SR_MASK_EQ: BITS,
        uops.SR_MASK_LT: below,
        uops.SR_MASK_LE: below | BITS,
        uops.SR_MASK_GT: ~(below | BITS),
        uops.SR_MASK_GE: ~below,
    }
    return rows[n]


def _constant_register(u: Unit, n: int) -> int:
    if u.wide and n in CLOCKS:
        raise TooOrdered("a clock")
    launch, count = u.launch, u.counter.executed
    time = launch.clock_ns + count
    values = {
        uops.SR_CLOCK_LO: count, uops.SR_CLOCK_HI: count >> 32, uops.SR_TIME_LO: time, uops.SR_TIME_HI: time >> 32,
        uops.SR_SMEM_SIZE: launch.shared_bytes, uops.SR_SM_ID: 0, uops.SR_ZERO: 0,
        uops.SR_SHARED_WINDOW_LO: launch.shared_window_va, uops.SR_SHARED_WINDOW_HI: launch.shared_window_va >> 32,
        uops.SR_LOCAL_WINDOW_LO: launch.local_window_va, uops.SR_LOCAL_WINDOW_HI: launch.local_window_va >> 32,
    }  # fmt: skip
    for axis in range(3):
        values[uops.SR_NTID_X + axis] = launch.block[axis]
        values[uops.SR_NCTAID_X + axis] = launch.grid[axis]
    return values[n] & 0xFFFFFFFF
