"""Kernels that Mesa's NAK compiled, run on the engine and compared with tinygrad's PYTHON device."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
from cores import CORES, execute
from kernel_cases import NEEDS_MESA, kernel_cases
from nak import CODE_VA, ArrayMemory, Shader, arguments, differs
from nak_corpus import NAK_CHIPS

from hcqrt.emu.engine.launch import Launch
from hcqrt.isa.sass import decode, encode, parse, text

HOPPER_EVERY = 7  # of the cases, one is assembled for sm_90


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return kernel_cases("nak")


def run_case(case: dict[str, Any], shader: Shader, core: str) -> str:
    """What differs in the outputs of one launch; empty when all is right."""
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
        sm=shader.sm,
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


def check(cases: list[dict[str, Any]], shaders: list[Shader], core: str) -> None:
    pairs = zip(cases, shaders, strict=True)
    wrong = {case["label"]: text for case, shader in pairs if (text := run_case(case, shader, core))}
    assert not wrong, "\n".join(f"{label}: {text}" for label, text in wrong.items())


@NEEDS_MESA
@pytest.mark.parametrize("core", CORES)
def test_outputs_are_those_of_the_python_device(cases: list[dict[str, Any]], core: str) -> None:
    assert len({case["blob"] for case in cases}) >= 300
    check(cases, [Shader(case["blob"]) for case in cases], core)


@NEEDS_MESA
@pytest.mark.parametrize("chip", NAK_CHIPS[1:])
def test_other_chips_give_the_same_outputs(cases: list[dict[str, Any]], chip: str) -> None:
    chosen = [case for case in cases if case["other"][0] == chip]
    assert len(chosen) >= 60
    shaders = [Shader(case["other"][1]) for case in chosen]
    assert {shader.sm for shader in shaders} == {int(chip[3:])}
    check(chosen, shaders, CORES[0])


@cache
def for_hopper(word: tuple[int, int], pc: int) -> tuple[int, int]:
    """A word of sm_86 in the encoding of sm_90, by way of its text."""
    return encode(parse(text(decode(*word, 86), pc), 90, pc))


@NEEDS_MESA
def test_hoppers_own_encoding_gives_the_same_outputs(cases: list[dict[str, Any]]) -> None:
    """NAK writes no code for sm_90, so what it writes for sm_86 is assembled again."""
    chosen = cases[::HOPPER_EVERY]
    shaders = [Shader(case["blob"]) for case in chosen]
    for shader in shaders:
        words = [for_hopper(word, 16 * at) for at, word in enumerate(struct.iter_unpack("<QQ", shader.code))]
        shader.sm, shader.code = 90, b"".join(struct.pack("<QQ", *word) for word in words)
    check(chosen, shaders, CORES[0])
