"""Fixtures of the Qualcomm tests: emulated Adreno machines and devices on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hcqrt
from hcqrt.emu.system import EmulatedSystem


@pytest.fixture
def adreno_machine(machine) -> Callable[..., EmulatedSystem]:
    """Makes machines with one Adreno; options are those of the emulated GPU."""

    def make(chip: str = "a630", **options: Any) -> EmulatedSystem:
        return machine((), qcom=dict(chip=chip, **options))

    return make


@pytest.fixture
def adreno(adreno_machine) -> EmulatedSystem:
    """A machine with an emulated Adreno 630 whose driver keeps no cache coherent."""
    return adreno_machine()


@pytest.fixture
def qcom(adreno) -> Iterator[Any]:
    """An open device on `adreno`, closed at the end."""
    with hcqrt.open_device("QCOM", adreno) as device:
        yield device
