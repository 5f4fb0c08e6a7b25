"""The operations in which lanes of a warp see each other, for all lanes of a case at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from contract_harness import LANES, Case
from contract_reference import WORD, Outcome, signed

from hcqrt.emu.engine import uops

Held = tuple[int, int, int]
RULES: dict[str, Callable[[Case], list[Held]]] = {}


def rule(name: str) -> Callable[[Callable[[Case, list[int], int], Outcome]], Callable[[Case, list[int], int], Outcome]]:
    """Register a rule that is told the warp's lanes and which of them it speaks for."""

    def register(function: Callable[[Case, list[int], int], Outcome]) -> Callable[[Case, list[int], int], Outcome]:
        def whole(case: Case) -> list[Held]:
            held = []
            for lane in range(LANES):
                first = lane - lane % 32
                warp = list(range(first, first + 32))
                held.append(case.after(lane, function(case, warp, lane) if case.passes(lane) else Outcome()))
            return held

        RULES[name] = whole
        return function

    return register


def running(case: Case, warp: list[int]) -> list[int]:
    return [lane for lane in warp if case.passes(lane)]


@rule("BCAST")
def bcast(case: Case, warp: list[int], lane: int) -> Outcome:
    return Outcome(case.operand(running(case, warp)[0], 0) & WORD)


@rule("VOTE")
def vote(case: Case, warp: list[int], lane: int) -> Outcome:
    asked = running(case, warp)
    yes = [other for other in asked if case.holds(other, "p")]
    result = (len(yes) == len(asked), bool(yes), len(yes) in (0, len(asked)))[case.mod]
    return Outcome(sum(1 << other % 32 for other in yes), pd=result)


@rule("SHFL")
def shfl(case: Case, warp: list[int], lane: int) -> Outcome:
    """Segments and clamps as PTX describes shfl."""
    own, by, c = lane % 32, case.operand(lane, 1) & 31, case.operand(lane, 2)
    clamp, segment = c & 31, c >> 8 & 31
    highest = own & segment | clamp & ~segment
    if case.mod == uops.SHFL_IDX:
        source = own & segment | by & ~segment
    else:
        source = {uops.SHFL_UP: own - by, uops.SHFL_DOWN: own + by, uops.SHFL_BFLY: own ^ by}[case.mod]
    inside = source >= highest if case.mod == uops.SHFL_UP else source <= highest
    return Outcome(case.operand(warp[source if inside else own], 0) & WORD, pd=inside)


@rule("MATCH")
def match(case: Case, warp: list[int], lane: int) -> Outcome:
    same = [n for n in running(case, warp) if (case.operand(n, 0) ^ case.operand(lane, 0)) & WORD == 0]
    return Outcome(sum(1 << n % 32 for n in same))


@rule("REDUX")
def redux(case: Case, warp: list[int], lane: int) -> Outcome:
    values = [case.operand(n, 0) & WORD for n in running(case, warp)]
    if case.flags & uops.SIGNED:
        values = [signed(value, 32) for value in values]
    functions: list[Callable[[int, int], int]] = [
        lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: x + y, min, max,
    ]  # fmt: skip
    return Outcome(reduce(functions[case.mod], values) & WORD)
