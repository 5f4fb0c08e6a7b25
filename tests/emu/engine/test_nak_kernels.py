"""Kernels that Mesa's NAK compiled, run on the engine and compared with tinygrad's PYTHON device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cores import CORES, execute
from kernel_cases import NEEDS_MESA, kernel_cases
from nak import CODE_VA, ArrayMemory, Shader, arguments, differs

from hcqrt.emu.engine.launch import Launch


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return kernel_cases("nak")


def run_case(case: dict[str, Any], core: str) -> str:
    """What differs in the outputs of one launch; empty when all is right."""
    shader = Shader(case["blob"])
    assert shader.block == case["block"]
    arrays = [np.frombuffer(bytearray(content), np.uint8) for _, content in case["buffers"]]
    memory = ArrayMemory(arrays)
    bank = arguments(memory.addresses, case["vals"])
    launch = Launch(
        fetch=lambda va, nbytes: shader.code[va - CODE_VA : va - CODE_VA + nbytes],
        entry_va=CODE_VA,
        memory=memory,
        grid=case["grid"],
        block=case["block"],
        registers=shader.registers,
        shared_bytes=shader.shared_bytes,
        local_low_bytes=(shader.local_bytes + 15) // 16 * 16,
        constants={0: (bank.ctypes.data, bank.nbytes)},
        barriers=shader.barriers,
        budget=50_000_000,
    )
    result = execute(launch, core)
    if result.fault is not None:
        return f"fault {result.fault}"
    found = [(case["buffers"][i][0], arrays[i].tobytes(), wanted) for i, wanted in case["outputs"].items()]
    return "; ".join(filter(None, (differs(*one) for one in found)))


@NEEDS_MESA
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_the_python_device(cases: list[dict[str, Any]], core: str) -> None:
    assert len({case["blob"] for case in cases}) >= 300
    wrong = {case["label"]: text for case in cases if (text := run_case(case, core))}
    assert not wrong, "\n".join(f"{label}: {text}" for label, text in wrong.items())
