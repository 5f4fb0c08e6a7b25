"""What kernels do wrong, as notifier and debugger show it; endless kernels; stale caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gpu_bench import (
    CODE_VA,
    CONST_VA,
    DATA_VA,
    QMD_VA,
    SETUP,
    UNMAPPED_VA,
    Bench,
    semaphore,
)
from qmd_words import qmd

from hcqrt.emu.engine.launch import EngineFault, Result
from hcqrt.emu.refusal import EmulatorRefusal

SEM = DATA_VA
LAUNCH3 = [0x200120AD, QMD_VA >> 8, 0x200120B0, 3]


def put_qmd(bench: Bench, va: int = QMD_VA, **fields: Any) -> None:
    bench.space.write(va, qmd(**fields))


# what goes wrong inside a kernel

PC = CODE_VA + 0x120


@pytest.mark.parametrize(
    ("fault", "code", "mmu", "esr"),
    [
        (EngineFault("global", PC, 0xDEAD0000, "write"), 31, [(0xDEAD0000, 0, 1)], (0, 0)),
        (EngineFault("global", PC, 0xDEAD0000, "read"), 31, [(0xDEAD0000, 0, 0)], (0, 0)),
        (EngineFault("global", PC, 1 << 50, "atomic"), 31, [(1 << 50, 3, 2)], (0, 0)),
        (EngineFault("read_only", PC, 0x0400_0010, "write"), 31, [(0x0400_0010, 6, 1)], (0, 0)),
        (EngineFault("illegal_instruction", PC), 13, [], (9, 0)),
        (EngineFault("shared", PC, 0x5000, "read"), 13, [], (0xE, 0)),
        (EngineFault("local", PC, 0x5000, "write"), 13, [], (0xE, 0)),
        (EngineFault("misaligned", PC, 0x5001, "read"), 13, [], (0xF, 0)),
        (EngineFault("constant", PC, 0x5000, "read"), 13, [], (0x12, 0)),
        (EngineFault("trap", PC), 13, [], (0, 1 << 4)),
    ],
)
def test_kernel_faults_reach_notifier_and_debugger(
    bench: Bench, fault: EngineFault, code: int, mmu: list[tuple[int, int, int]], esr: tuple[int, int]
) -> None:
    bench.on_launch = lambda launch: Result(
        100, EngineFault(fault.kind, fault.pc, fault.address, fault.access, (3, 1, 0), (4, 0, 0))
    )
    channel = bench.channel()
    put_qmd(bench, grid=(4, 2, 1), releases={0: {"va": SEM, "payload": 1, "structure": 0, "payload64": 1}})
    bench.submit(channel, *SETUP, *LAUNCH3, *semaphore(SEM + 16, 1, 1))
    assert bench.notifier(channel)[1:] == (code, 1, 0xFFFF)
    assert bench.gpu.faults.mmu == mmu
    state = bench.gpu.faults.sms[7]  # block (3, 1, 0) of 4 x 2
    assert (state.warp_esr, state.global_esr, state.pc, state.address) == (*esr, PC, fault.address)
    assert bench.u32(SEM) == bench.u32(SEM + 16) == 0
    assert "block (3, 1, 0), thread (4, 0, 0)" in channel.error and bench.gpu.stats["instructions"] == 100


def test_every_kind_of_engine_fault_has_a_number() -> None:
    from hcqrt.emu.engine.launch import FAULT_KINDS
    from hcqrt.emu.nv.launch import ENDLESS_KINDS, MMU_KINDS, WARP_ERRORS

    # No instruction of SASS chooses a register by a number in another.
    assert set(FAULT_KINDS) - {"register"} == {*WARP_ERRORS, *MMU_KINDS, *ENDLESS_KINDS, "trap"}


def test_a_fetch_from_unmapped_memory_faults_as_a_read(bench: Bench) -> None:
    bench.on_launch = lambda launch: Result(len(launch.fetch(UNMAPPED_VA, 16)))
    channel = bench.channel()
    put_qmd(bench)
    bench.submit(channel, *SETUP, *LAUNCH3)
    assert bench.notifier(channel)[1] == 31 and bench.gpu.faults.mmu == [(UNMAPPED_VA, 0, 0)]


@pytest.mark.parametrize("kind", ["budget", "deadlock"])
def test_an_endless_kernel_hangs_its_channel_and_nothing_says_so(bench: Bench, kind: str) -> None:
    bench.on_launch = lambda launch: Result(launch.budget, EngineFault(kind, PC))
    channel, other = bench.channel(), bench.channel()
    put_qmd(bench)
    bench.submit(channel, *SETUP, *LAUNCH3, *semaphore(SEM, 1, 1))
    bench.submit(channel, *semaphore(SEM, 1, 1))
    assert bench.u32(SEM) == 0 and bench.notifier(channel) == (0, 0, 0, 0) and not channel.error
    assert bench.launches[0].budget == 32 << 20 and not bench.gpu.run()
    assert f"{PC:#x}" in bench.gpu.log[-1]
    bench.submit(other, *semaphore(SEM, 2, 1))
    assert bench.u32(SEM) == 2


def test_an_injected_fault_stops_the_next_launch_only(bench: Bench) -> None:
    answers = iter([True, False])
    bench.gpu.injected_fault = lambda name: next(answers)
    channel, other = bench.channel(), bench.channel()
    put_qmd(bench)
    bench.submit(channel, *SETUP, *LAUNCH3)
    assert bench.notifier(channel)[1] == 13 and bench.gpu.faults.sms[0].warp_esr == 9 and bench.launches == []
    bench.submit(other, *SETUP, *LAUNCH3)
    assert len(bench.launches) == 1


# the model of caches


@pytest.fixture
def caching() -> Iterator[Bench]:
    made = Bench(check_caches=True)
    yield made
    made.close()


def test_stale_descriptors_constants_and_code_are_refused(caching: Bench) -> None:
    bench = caching
    pcas9 = [0x200120AD, QMD_VA >> 8, 0x200120B0, 9]
    fields: dict[str, Any] = {"constants": {0: (CONST_VA, 256)}}
    put_qmd(bench, **fields)
    channel = bench.channel()
    bench.submit(channel, *SETUP, *pcas9, *pcas9)
    put_qmd(bench, grid=(2, 1, 1), **fields)
    bench.submit(channel, *LAUNCH3)
    put_qmd(bench, grid=(3, 1, 1), **fields)
    bench.submit(channel, 0x200120A6, 1, *pcas9)
    bench.space.write(CONST_VA + 100, b"new")
    bench.space.write(CODE_VA + 32, b"new")
    bench.submit(channel, 0x200125A6, 0x1011, *LAUNCH3)
    for va, fields_now, text in (
        (CONST_VA, fields, f"constants at {CONST_VA:#x} changed while cached"),
        (CODE_VA, {}, f"code at {CODE_VA:#x} changed while cached"),
        (QMD_VA, None, f"QMD at {QMD_VA:#x} changed while cached"),
    ):
        channel = bench.channel()
        put_qmd(bench, **fields)
        bench.submit(channel, *SETUP, *LAUNCH3)
        if fields_now is None:
            put_qmd(bench, grid=(9, 1, 1), **fields)
        else:
            bench.space.write(va, bytes([bench.space.read(va, 1)[0] ^ 1]))
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(channel, *pcas9)


def test_bank_and_descriptor_flags_invalidate_too(caching: Bench) -> None:
    bench = caching
    channel = bench.channel()
    put_qmd(bench, constants={0: (CONST_VA, 256)}, invalidate_banks=(0,), invalidate_code=1)
    bench.submit(channel, *SETUP, *LAUNCH3)
    bench.space.write(CONST_VA, b"new")
    bench.space.write(CODE_VA, b"new")
    bench.submit(channel, *LAUNCH3)
    assert len(bench.launches) == 2
