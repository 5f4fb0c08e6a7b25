"""Finding and remembering programs: only what is reached is lowered, content decides, garbage faults when reached."""

from __future__ import annotations

import pytest

from hcqrt.emu.engine import program
from hcqrt.emu.engine.launch import Launch
from hcqrt.emu.engine.program import ProgramCache
from hcqrt.emu.engine.uops import NAMES
from hcqrt.emu.memory import MmuFault
from hcqrt.isa.sass import assemble

GARBAGE = b"\xff" * 16


class Nothing:
    def ranges(self):
        return []


def job(code: bytes, entry: int = 0x1000) -> Launch:
    def fetch(va: int, nbytes: int) -> bytes:
        if va < entry or va + nbytes > entry + len(code):
            raise MmuFault(va, "fetch", "PTE", nbytes)
        return code[va - entry : va - entry + nbytes]

    return Launch(fetch, entry, Nothing(), (1, 1, 1), (1, 1, 1), registers=32)


def names(found) -> list[str]:
    return [NAMES[op] for op in found.records["op"]]


def test_what_is_not_reached_may_be_garbage():
    found = ProgramCache().get(job(assemble("BRA end\nNOP\nend: EXIT", 86)[:16] + GARBAGE + assemble("EXIT", 86)))
    assert sorted(found.positions) == [0x1000, 0x1020] and "ILLEGAL" not in names(found)


def test_garbage_that_is_reached_becomes_a_fault_with_its_reason():
    found = ProgramCache().get(job(assemble("NOP", 86) + GARBAGE))
    assert names(found)[-1] == "ILLEGAL" and "fff" in found.reasons[0x1010]


def test_running_off_the_mapped_code_is_a_fault():
    found = ProgramCache().get(job(assemble("NOP", 86)))
    assert names(found)[-1] == "ILLEGAL" and "no code is mapped at 0x1010" in found.reasons[0x1010]


def test_the_same_code_elsewhere_is_lowered_once(monkeypatch):
    cache, lowered = ProgramCache(), []
    real = program.discover
    monkeypatch.setattr(program, "discover", lambda *args: lowered.append(1) or real(*args))
    code = assemble("start: NOP\n@P0 BRA start\nEXIT", 86)
    first, second, third = (cache.get(job(code, entry)) for entry in (0x1000, 0x1000, 0x77000))
    assert len(lowered) == 1 and first.records["pc"].tolist() == second.records["pc"].tolist()
    assert [pc - 0x76000 for pc in third.positions] == list(first.positions)
    assert (third.records["pc"] - first.records["pc"] == 0x76000).all()
    cache.get(job(assemble("NOP\nEXIT", 86)))
    assert len(lowered) == 2


def test_endless_code_is_cut_with_a_reason(monkeypatch):
    monkeypatch.setattr(program, "MAX_INSTRUCTIONS", 10)
    found = ProgramCache().get(job(assemble("NOP\n" * 30 + "EXIT", 86)))
    assert len(found.positions) <= 11
    assert any("reachable" in text for text in found.reasons.values())


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_never_break_discovery(seed):
    import random

    data = random.Random(seed).randbytes(512)
    found = ProgramCache().get(job(data))
    assert len(found.records) >= 1
