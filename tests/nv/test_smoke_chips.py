"""Every check of smoke, counts reduced, on every chip under each driver release that knew it, and on odd machines."""

from __future__ import annotations

import warnings
from contextlib import ExitStack

import pytest
from nv_bench import Machine
from test_smoke_drivers import DRIVERS

from hcqrt.emu.system import EmulatedSystem
from hcqrt.opening import open_device
from hcqrt.tools.check_frame import Context
from hcqrt.tools.checks import CHECKS

# chip -> the first driver that knew it (sm_86 is test_smoke_drivers.py's)
CHIPS = {
    "sm_75": "535.54.03", "sm_80": "535.54.03", "sm_87": "535.54.03", "sm_89": "535.54.03", "sm_90": "535.54.03",
    "sm_100": "560.28.03", "sm_103": "575.51.02", "sm_120": "570.86.15", "sm_121": "575.51.02",
}  # fmt: skip
MATRIX = [(chip, driver) for chip, first in CHIPS.items() for driver in DRIVERS if driver >= first]


def passes(system: EmulatedSystem, name: str = "NV", *, alone: bool = True) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        context = Context(system, name, True)
        try:
            for check in CHECKS.values():
                if alone or check is not CHECKS["clean_close"]:  # that one wants a driver without objects
                    check(context)
        finally:
            context.close()
    assert system.refusals == []


@pytest.mark.parametrize(("chip", "driver"), MATRIX)
def test_smoke_passes_on_every_chip_and_driver(machine: Machine, chip: str, driver: str) -> None:
    passes(machine(chip, nv_driver=driver))


@pytest.mark.parametrize("chip", CHIPS)
def test_smoke_passes_with_caches_checked_and_a_gpu_thread(machine: Machine, chip: str) -> None:
    passes(machine(chip, check=("caches",), threads=2, seed=7))


@pytest.mark.parametrize("cards", [("sm_75", "sm_120"), ("sm_90", "sm_80", "sm_100"), ("sm_121", "sm_89", "sm_86")])
def test_smoke_passes_on_each_card_of_a_mixed_machine(machine: Machine, cards: tuple[str, ...]) -> None:
    system = machine(cards)
    with ExitStack() as others:
        for index in range(len(cards)):
            passes(system, f"NV:{index}", alone=index == 0)
            others.enter_context(open_device(f"NV:{index}", system))  # stays open beside the next ones


@pytest.mark.parametrize("card", [{"chip": "sm_90", "nvlink": "switch"}, {"chip": "sm_80"}, {"chip": "sm_89"}])
def test_smoke_passes_beside_a_card_of_the_same_kind(machine: Machine, card: dict[str, str]) -> None:
    system = machine((card, card))
    with open_device("NV:0", system):
        passes(system, "NV:1", alone=False)
