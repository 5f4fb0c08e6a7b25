"""LD, ST and ATOM on the running lanes."""

from __future__ import annotations

import numpy as np

from .. import uops
from . import floats
from .access import SIZES, Part
from .records import Rec, handles
from .rounding import RN, U32, Array
from .unit import TooOrdered, Unit

_SIGN_BITS = {uops.W_S8: np.int8, uops.W_S16: np.int16}
_WIDE_TYPES = (uops.AT_U64, uops.AT_S64)
_TOP_BIT = {4: 1 << 31, 8: 1 << 63}


def _note(u: Unit, r: Rec, part: Part, nbytes: int, writes: bool) -> None:
    """Tell the watchers of a wide run about an access."""
    journal, shadow = u.memory.journal, u.memory.shadow
    some, place, space = part
    if journal is None or shadow is None or space not in (uops.S_GLOBAL, uops.S_SHARED):
        return
    lanes = u.lanes()
    if some is not None:
        lanes = lanes[some]
    if space == uops.S_GLOBAL:
        (journal.store if writes else journal.load)(r.index, place, nbytes, lanes)
    else:
        (shadow.store if writes else shadow.load)(place.offset, nbytes, lanes // u.wave)


@handles("LD")
def load(u: Unit, r: Rec) -> None:
    nbytes = SIZES[r.width]
    parts = u.memory.parts(u, r, "read", nbytes)
    count = max(nbytes // 4, 1)
    words: list[U32] = []
    for part in parts:
        _note(u, r, part, nbytes, False)
        some, place, _ = part
        loaded = place.load(nbytes)
        if some is None:
            words = loaded
            continue
        words = words or [np.zeros(u.k, np.uint32) for _ in range(count)]
        for word, value in zip(words, loaded, strict=True):
            word[some] = value
    if r.width in _SIGN_BITS:
        words = [words[0].astype(_SIGN_BITS[r.width]).astype(np.int32).view(np.uint32)]
    if r.d == uops.NO_REG:
        return
    for k, word in enumerate(words):
        u.put(r.d + k, word)


def _stored(u: Unit, r: Rec, count: int) -> list[U32]:
    if count == 1:
        return [u.word(r, 2)]
    if r.kind[2] == uops.REG:
        return [u.register(r.src[2] + k) for k in range(count)]
    pair = u.pair(r, 2)
    halves = [pair.astype(np.uint32), (pair >> np.uint64(32)).astype(np.uint32)]
    return halves + [u.full(0)] * (count - 2)


@handles("ST")
def store(u: Unit, r: Rec) -> None:
    nbytes = SIZES[r.width]
    parts = u.memory.parts(u, r, "write", nbytes)
    words = _stored(u, r, max(nbytes // 4, 1))
    if len(parts) > 1 and not u.wide:
        _store_by_lane(u, parts, nbytes, words)
        return
    for part in parts:
        _note(u, r, part, nbytes, True)
        some, place, _ = part
        place.store(nbytes, words if some is None else [word[some] for word in words])


def _store_by_lane(u: Unit, parts: list[Part], nbytes: int, words: list[U32]) -> None:
    """In lane order across mappings: two of them may show the same bytes."""
    where = {int(lane): (place, i) for some, place, _ in parts if some is not None for i, lane in enumerate(some)}
    for lane in sorted(where):
        place, i = where[lane]
        place.one(i, nbytes).store(nbytes, [word[lane : lane + 1] for word in words])


@handles("ATOM")
def atomic(u: Unit, r: Rec) -> None:
    if u.wide:
        raise TooOrdered("an atomic")
    operation, kind = r.mod & 15, r.mod >> uops.ATOMIC_TYPE_SHIFT & 15
    nbytes = 8 if kind in _WIDE_TYPES else 4
    parts = u.memory.parts(u, r, "atomic", nbytes)
    operands, swaps = _integers(u, r, 2, nbytes), _integers(u, r, 3, nbytes)
    where = {}
    for some, place, _ in parts:
        for i, lane in enumerate(range(u.k) if some is None else some.tolist()):
            where[lane] = (place, i)
    old = np.zeros(u.k, np.uint64)
    for lane in range(u.k):
        place, i = where[lane]
        cell = place.one(i, nbytes)
        before = sum(int(word[0]) << 32 * k for k, word in enumerate(cell.load(nbytes)))
        after = _combine(operation, kind, before, operands[lane], swaps[lane], nbytes)
        cell.store(nbytes, [np.array([after >> 32 * k & 0xFFFFFFFF], np.uint32) for k in range(nbytes // 4)])
        old[lane] = before
    if nbytes == 8:
        u.put_pair(r.d, old)
    else:
        u.put(r.d, old.astype(np.uint32))


def _integers(u: Unit, r: Rec, slot: int, nbytes: int) -> list[int]:
    if r.kind[slot] == uops.ZERO:
        return [0] * u.k
    values: Array = u.pair(r, slot) if nbytes == 8 else u.word(r, slot)
    return [int(value) for value in values]


def _combine(operation: int, kind: int, old: int, value: int, swap: int, nbytes: int) -> int:
    """The new contents of one cell; all values are unsigned patterns."""
    mask = (1 << 8 * nbytes) - 1
    if kind == uops.AT_F32 and operation == uops.AT_ADD:
        pair = (np.array([old], np.uint32), np.array([value], np.uint32))
        return int(floats.add(*pair, RN, True, False)[0])
    # A signed order is the unsigned one of the patterns with the top bit turned.
    turn = _TOP_BIT[nbytes] if kind in (uops.AT_S32, uops.AT_S64) else 0
    results = {
        uops.AT_ADD: old + value & mask,
        uops.AT_MIN: min(old ^ turn, value ^ turn) ^ turn,
        uops.AT_MAX: max(old ^ turn, value ^ turn) ^ turn,
        uops.AT_INC: 0 if old >= value else old + 1,
        uops.AT_DEC: value if old == 0 or old > value else old - 1,
        uops.AT_AND: old & value,
        uops.AT_OR: old | value,
        uops.AT_XOR: old ^ value,
        uops.AT_EXCH: value,
        uops.AT_CAS: swap if old == value else old,
    }
    return results[operation]
