"""Kernels that Mesa compiled to ir3, run on the engine and compared with tinygrad's PYTHON device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cores import CORES, execute
from ir3 import launch_of
from kernel_cases import NEEDS_MESA, kernel_cases
from nak import differs

# One minus a product near one: each rounding of a half counts, and the device orders them differently.
CANCELLATION = {"erf float16": 2e-3}
LANES = {"c": 64, "numpy": 128}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return kernel_cases("ir3")


def run_case(case: dict[str, Any], core: str) -> str:
    """What differs in the outputs of one launch; empty when all is right."""
    arrays = [np.frombuffer(bytearray(content), np.uint8) for _, content in case["buffers"]]
    launch, _banks = launch_of(case, arrays, LANES[core], budget=50_000_000)
    result = execute(launch, core)
    if result.fault is not None:
        return f"fault {result.fault}"
    absolute = CANCELLATION.get(case["label"].partition(":")[0], 0.0)
    found = [(case["buffers"][i][0], arrays[i].tobytes(), wanted) for i, wanted in case["outputs"].items()]
    return "; ".join(filter(None, (differs(*one, absolute) for one in found)))


@NEEDS_MESA
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_the_python_device(cases: list[dict[str, Any]], core: str) -> None:
    assert len({case["blob"] for case in cases}) >= 450
    assert sum(any(case["images"]) for case in cases) >= 20
    # The cores give the same bits, as other tests show for every operation; a quarter here will do for the second.
    chosen = cases if core == CORES[0] else cases[::4]
    wrong = {case["label"]: text for case in chosen if (text := run_case(case, core))}
    assert not wrong, "\n".join(f"{label}: {text}" for label, text in wrong.items())
