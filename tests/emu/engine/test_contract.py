"""Every micro-op, on every core, against a reference on Python integers and fractions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import contract_crossing
import contract_formats as formats
import pytest
from contract_harness import THREADS, Case, Run
from contract_reference import RULES
from cores import CORES, direct

from hcqrt.emu.engine import uops
from hcqrt.emu.engine.verify import ONE_WORD

FORMS = 16  # of each operation: flags, sources and operands drawn anew
FORMS_OF_WIDE_WAVES = 4  # what a lane does alone is the same code in all
MORE_FORMS = {"F2F": 40, "F2I": 80, "I2F": 40}  # of those with many formats
MOVES_LANES = {"BRA", "BRX", "BSSY", "BSYNC", "BREAK", "BCLR", "WARPSYNC", "EXIT", "BAR", "YIELD", "TRAP", "ILLEGAL"}
IN_MEMORY = {"LD", "ST", "ATOM"}
BY_NUMBER = {"RGET", "RPUT"}  # registers: test_waves


@pytest.fixture(params=CORES)
def run(request: pytest.FixtureRequest) -> Run:
    return direct(request.param)


@cache
def drawn(name: str, form: int) -> tuple[Case, list[tuple[int, int, int]]]:
    """A case and what must come out, made once for all cores."""
    case = Case(name, form)
    return case, case.wanted()


@cache
def drawn_across(name: str, form: int, lanes: int) -> tuple[Case, list[tuple[int, int, int]]]:
    case = Case(name, form)
    rule: Callable[[Case, int], list[tuple[int, int, int]]] = contract_crossing.RULES[name]
    return case, rule(case, lanes)


def check(case: Case, got: list[tuple[int, int, int]], want: list[tuple[int, int, int]]) -> None:
    for lane in range(THREADS):
        assert got[lane] == want[lane], (
            f"{case.record()} lane {lane}, {case.view(lane)}: "
            f"got {[hex(x) for x in got[lane]]}, want {[hex(x) for x in want[lane]]}"
        )


@pytest.mark.parametrize("name", sorted(RULES))
@pytest.mark.parametrize("lanes", uops.WAVES)
def test_an_operation_gives_what_the_contract_says(run: Run, name: str, lanes: int) -> None:
    forms = MORE_FORMS.get(name, FORMS) if lanes == 32 else FORMS_OF_WIDE_WAVES
    for form in range(forms):
        case, want = drawn(name, form)
        check(case, case.run(run, lanes), want)


def close_addend(case: Case, form: formats.Format, a: int, b: int) -> int:
    """An addend that makes a fused sum hard: it cancels the product, nearly does, or only tips a tie."""
    product = formats.multiply(formats.number(a, form), formats.number(b, form))
    if product.kind != formats.FINITE:
        return 0
    near = formats.pattern(product._replace(negative=not product.negative), form)
    steps = case.draw.choice((0, 0, 1, -1, 2, -3))
    scale = case.draw.choice((0, 0, 0, 24, 25, 26, 52, 53, 54, 55, 106, 107, 108, 160)) << form.mantissa
    flip = case.draw.choice((0, 0, 1)) << form.width - 1
    return (near + steps - case.draw.choice((1, -1)) * scale) % (1 << form.width) ^ flip


@pytest.mark.parametrize(("name", "form"), [("FFMA", formats.F32), ("DFMA", formats.F64)])
@pytest.mark.parametrize("mode", (formats.RN, formats.RM, formats.RP, formats.RZ))
def test_fused_sums_that_cancel_or_hang_on_one_bit_are_exact(
    run: Run, name: str, form: formats.Format, mode: int
) -> None:
    mantissas = (0, 1, 2, 3, (1 << form.mantissa) - 1, 1 << form.mantissa - 1)
    for seed in range(8):
        case = Case(name, seed)
        case.flags, case.sources = mode << uops.ROUND_SHIFT, [(uops.REG, 0)] * 3
        for lane in range(THREADS):
            a, b = (
                case.draw.getrandbits(form.width) if case.draw.random() < 0.5 else case.draw.choice(mantissas)
                | case.draw.randrange(1, (1 << form.exponent) - 1) << form.mantissa
                for _ in range(2)
            )  # fmt: skip
            case.lanes[lane] = [a, b, close_addend(case, form, a, b)]
        check(case, case.run(run, 32), case.wanted())


@pytest.mark.parametrize("name", sorted(contract_crossing.RULES))
@pytest.mark.parametrize("lanes", uops.WAVES)
def test_an_operation_across_lanes_gives_what_the_contract_says(run: Run, name: str, lanes: int) -> None:
    if lanes != 32 and name in ONE_WORD:
        with pytest.raises(uops.InvalidProgram, match=f"32 lanes, not {lanes}"):
            Case(name, 0).run(run, lanes)
        return
    for form in range(FORMS):
        case, want = drawn_across(name, form, lanes)
        check(case, case.run(run, lanes), want)


def test_every_operation_of_the_contract_has_a_reference_or_tests_of_its_own() -> None:
    elsewhere = MOVES_LANES | IN_MEMORY | BY_NUMBER | {"S2R", "NOP"}
    assert set(uops.NAMES) == set(RULES) | set(contract_crossing.RULES) | elsewhere
