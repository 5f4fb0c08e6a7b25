"""Every check of smoke, counts reduced, on sm_86 under each driver release that matters."""

from __future__ import annotations

import json
import warnings

import pytest
from nv_bench import Machine

from hcqrt.tools.check_frame import Context
from hcqrt.tools.checks import CHECKS
from hcqrt.tools.cli import main

DRIVERS = (
    "535.54.03", "535.161.07", "535.261.03", "550.54.14", "550.163.01", "555.58", "560.35.03", "565.77",
    "570.86.15", "570.195.03", "575.51.02", "580.65.06", "580.95.05", "590.48.01", "595.45.04", "610.43.02",
)  # fmt: skip


@pytest.mark.parametrize("driver", DRIVERS)
def test_smoke_passes_under_every_driver(machine: Machine, driver: str) -> None:
    system = machine(nv_driver=driver)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        context = Context(system, "NV", True)
        try:
            for check in CHECKS.values():
                check(context)
        finally:
            context.close()
    assert system.refusals == []


def test_the_command_plays_a_driver_by_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--emulated", "sm_86@535.54.03", "--json"]) == 0
    (info,) = json.loads(capsys.readouterr().out)["devices"]
    assert (info["usable"], info["driver"], info["abi"]) == (True, "535.54.03", "535.54.03")
