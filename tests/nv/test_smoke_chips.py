"""Every check of smoke, counts reduced, on every chip under each driver release that knew it, and on odd machines."""

from __future__ import annotations

import warnings

import pytest
from nv_bench import Machine
from test_smoke_drivers import DRIVERS

from hcqrt.emu.system import EmulatedSystem
from hcqrt.tools.check_frame import Context
from hcqrt.tools.checks import CHECKS

# chip -> the first driver that knew it (sm_86 is test_smoke_drivers.py's)
CHIPS = {
    "sm_75": "535.54.03", "sm_80": "535.54.03", "sm_87": "535.54.03", "sm_89": "535.54.03", "sm_90": "535.54.03",
    "sm_100": "560.28.03", "sm_103": "575.51.02", "sm_120": "570.86.15", "sm_121": "575.51.02",
}  # fmt: skip
MATRIX = [(chip, driver) for chip, first in CHIPS.items() for driver in DRIVERS if driver >= first]


def passes(system: EmulatedSystem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        context = Context(system, "NV", True)
        try:
            for check in CHECKS.values():
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
def test_smoke_passes_on_machines_of_different_chips(machine: Machine, cards: tuple[str, ...]) -> None:
    passes(machine(cards))


def test_smoke_passes_on_nvlink_peers_and_on_pcie_peers(machine: Machine) -> None:
    linked = {"chip": "sm_90", "nvlink": "switch"}
    passes(machine((linked, linked)))
    passes(machine(("sm_80", "sm_80")))
