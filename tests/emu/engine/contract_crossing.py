"""The operations in which lanes of a warp see each other, for all lanes of a case at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from contract_harness import THREADS, Case
from contract_reference import WORD, Outcome, signed

from hcqrt.emu.engine import uops

Held = tuple[int, int, int]
Rule = Callable[[Case, range, int], Outcome]
RULES: dict[str, Callable[[Case, int], list[Held]]] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Register a rule that is told the threads of the warp's lanes and which of them it speaks for."""

    def register(function: Rule) -> Rule:
        def whole(case: Case, lanes: int) -> list[Held]:
            held = []
            for lane in range(THREADS):
                first = lane - lane % lanes
                warp = range(first, first + lanes)
                held.append(case.after(lane, function(case, warp, lane) if case.passes(lane) else Outcome()))
            return held

        RULES[name] = whole
        return function

    return register


def running(case: Case, warp: range) -> list[int]:
    return [lane for lane in warp if lane < THREADS and case.passes(lane)]


@rule("BCAST")
def bcast(case: Case, warp: range, lane: int) -> Outcome:
    return Outcome(case.operand(running(case, warp)[0], 0) & WORD)


@rule("VOTE")
def vote(case: Case, warp: range, lane: int) -> Outcome:
    asked = running(case, warp)
    yes = [other for other in asked if case.holds(other, "p")]
    result = (len(yes) == len(asked), bool(yes), len(yes) in (0, len(asked)))[case.mod]
    mask = sum(1 << other - warp[0] for other in yes)
    return Outcome(mask >> 32 * case.imm & WORD, pd=result)


@rule("SHFL")
def shfl(case: Case, warp: range, lane: int) -> Outcome:
    """Segments and clamps as PTX describes shfl."""
    count = len(warp)
    own, by, c = lane - warp[0], case.operand(lane, 1) % count, case.operand(lane, 2)
    clamp, segment = c % count, (c >> 8) % count
    highest = own & segment | clamp & ~segment
    if case.mod == uops.SHFL_IDX:
        source = own & segment | by & ~segment
    else:
        source = {uops.SHFL_UP: own - by, uops.SHFL_DOWN: own + by, uops.SHFL_BFLY: own ^ by}[case.mod]
    inside = source >= highest if case.mod == uops.SHFL_UP else source <= highest
    return Outcome(case.operand(warp[source if inside else own], 0) & WORD, pd=inside)


@rule("MATCH")
def match(case: Case, warp: range, lane: int) -> Outcome:
    same = [n for n in running(case, warp) if (case.operand(n, 0) ^ case.operand(lane, 0)) & WORD == 0]
    return Outcome(sum(1 << n - warp[0] for n in same))


@rule("REDUX")
def redux(case: Case, warp: range, lane: int) -> Outcome:
    values = [case.operand(n, 0) & WORD for n in running(case, warp)]
    if case.flags & uops.SIGNED:
        values = [signed(value, 32) for value in values]
    functions: list[Callable[[int, int], int]] = [
        lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: x + y, min, max,
    ]  # fmt: skip
    return Outcome(reduce(functions[case.mod], values) & WORD)
