"""Damaged and random command words: every one ends in a refusal, a fault or a launch, never in another error."""

from __future__ import annotations

import random

import pytest
from adreno_bench import COMMAND_VA, DATA_VA, Bench, dispatch, lo_hi, type4, type7

from hcqrt.autogen.qcom import a6xx
from hcqrt.emu.qcom.generation import A6XX
from hcqrt.emu.qcom.registers import table
from hcqrt.emu.refusal import EmulatorRefusal

ROUNDS = 400


def run(bench: Bench, words: list[int]) -> None:
    """One damaged submission in a context of its own."""
    bench.command_va = COMMAND_VA
    context = bench.new_context()
    retired, faults = len(bench.retired), len(bench.faults)
    try:
        bench.submit(*words, context=context)
    except EmulatorRefusal as refusal:
        assert bench.faults[-1].text == str(refusal)
    assert len(bench.retired) - retired + len(bench.faults) - faults == (0 if context.cp.parked else 1)
    context.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_dispatch(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        words = dispatch()
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(words))
            words[at] = rng.choice((words[at] ^ 1 << rng.randrange(32), rng.getrandbits(32), 0, 0xFFFFFFFF))
        run(bench, words)


@pytest.mark.parametrize("seed", range(4))
def test_random_packets_with_good_headers(bench: Bench, seed: int) -> None:
    rng = random.Random(100 + seed)
    opcodes, registers = sorted(a6xx.OPCODES.values()), sorted(table(A6XX))
    for _ in range(ROUNDS):
        words: list[int] = []
        for _ in range(rng.randint(1, 6)):
            payload = [rng.choice((rng.getrandbits(32), rng.getrandbits(4), 0)) for _ in range(rng.randint(0, 9))]
            if rng.random() < 0.5 and len(payload) > 2:
                payload[1:3] = lo_hi(DATA_VA)
            if rng.random() < 0.3 and payload:
                words += type4(rng.choice(registers), *payload)
            else:
                words += type7(rng.choice(opcodes) & 0x7F, *payload)
        run(bench, words)


def test_every_register_alone_with_every_bit(bench: Bench) -> None:
    for offset in sorted(table(A6XX)):
        run(bench, dispatch({offset: 0xFFFFFFFF}))
        run(bench, dispatch({offset: 1 << offset % 32}))


@pytest.mark.parametrize("seed", range(2))
def test_random_words(bench: Bench, seed: int) -> None:
    rng = random.Random(200 + seed)
    for _ in range(ROUNDS):
        run(bench, [rng.getrandbits(32) for _ in range(8)])
