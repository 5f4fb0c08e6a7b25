"""The emulated compute class: setup, launches, local memory, releases, chaining."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from gpu_bench import (
    CODE_VA,
    CONST_VA,
    DATA_VA,
    LOCAL_VA,
    LOCAL_WINDOW,
    QMD_VA,
    SETUP,
    SHARED_WINDOW,
    UNMAPPED_VA,
    Bench,
)
from qmd_words import qmd

from hcqrt.emu.engine.launch import Launch, Result
from hcqrt.emu.nv.trouble import MmuFault
from hcqrt.emu.refusal import EmulatorRefusal

SEM = DATA_VA
LAUNCH3 = [0x200120AD, QMD_VA >> 8, 0x200120B0, 3]
# 0x490 bytes x 32 lanes = 0x9200 per warp, x 48 warps x 2 SMs = 0x36c000, rounded up to 0x8000
LOCAL_PER_TPC = 0x370000


def put_qmd(bench: Bench, va: int = QMD_VA, **fields: Any) -> None:
    bench.space.write(va, qmd(**fields))


def run(bench: Bench, **fields: Any) -> None:
    put_qmd(bench, **fields)
    bench.submit(bench.channel(), *SETUP, *LAUNCH3)


def test_a_launch_hands_the_descriptor_to_the_executor(bench: Bench) -> None:
    bench.space.write(CONST_VA, b"constants!")
    run(
        bench,
        grid=(5, 6, 7),
        block=(32, 2, 3),
        registers=40,
        barriers=2,
        shared=0x1400,
        constants={0: (CONST_VA, 0x160), 3: (DATA_VA, 64)},
    )
    (launch,) = bench.launches
    assert (launch.grid, launch.block) == ((5, 6, 7), (32, 2, 3))
    assert (launch.registers, launch.barriers, launch.shared_bytes) == (40, 2, 0x1400)
    assert (launch.entry_va, launch.isa, launch.sm) == (CODE_VA, "sass", 86)
    assert (launch.shared_window_va, launch.local_window_va) == (SHARED_WINDOW, LOCAL_WINDOW)
    assert set(launch.constants) == {0, 3} and launch.constants[0][1] == 0x160
    assert ctypes.string_at(launch.constants[0][0], 10) == b"constants!"
    bench.space.write(CODE_VA + 16, b"\x11" * 16)
    assert launch.fetch(CODE_VA + 16, 16) == b"\x11" * 16
    with pytest.raises(MmuFault):
        launch.fetch(UNMAPPED_VA, 16)
    assert launch.memory.ranges() == bench.space.ranges()
    assert bench.gpu.stats["launches"] == 1 and bench.gpu.stats["instructions"] == 32


def test_a_constant_bank_over_two_mappings_is_gathered(bench: Bench) -> None:
    edge = CONST_VA + 0x10000
    bench.map(edge, 0x10000)  # replaces a part of the data mapping
    bench.space.write(edge - 64, bytes(range(128)))
    seen: list[bytes] = []
    bench.on_launch = lambda launch: seen.append(ctypes.string_at(launch.constants[0][0], 128)) or Result(0)
    run(bench, constants={0: (edge - 64, 128)})
    assert seen == [bytes(range(128))]


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ([0x200120B0, 0], 0),
        ([0x200120B0, 1], 0),
        ([0x200120B0, 2], 1),
        ([0x800320B0], 1),
        ([0x200120B0, 8], 0),
        ([0x200120B0, 9], 1),
        ([0x200120B0, 10], 1),
        ([0x200120AF, 3], 1),
        ([0x200120AF, 2], 1),
        ([0x200120AF, 1], 0),
    ],
)
def test_the_actions_that_schedule(bench: Bench, words: list[int], runs: int) -> None:
    put_qmd(bench)
    bench.submit(bench.channel(), *SETUP, 0x200120AD, QMD_VA >> 8, *words)
    assert len(bench.launches) == runs


@pytest.mark.parametrize(
    ("words", "text"),
    [
        *(([0x200120B0, action], f"action {action:#x} is not supported") for action in (6, 7, 11, 12, 13)),
        ([0x200120B0, 4], "PCAS_ACTION = 0x4 is no known value"),
        ([0x200120B0, 0x103], "SELECT = 0x1"),
        ([0x200120B0, 0x4003], "OFFSET_MINUS_ONE = 0x1"),
        ([0x200120B0, 0x13], "0x00000013: bits 0x10"),
        ([0x200120AE, 1], "SEND_PCAS_B .0x2b8. = 0x1 is not modelled"),
        ([0x200120C8, 1], r"LOAD_INLINE_QMD_DATA\(0\) .0x320."),
        ([0x20012046, 1], "LOAD_MME_INSTRUCTION_RAM .0x118."),
        ([0x200125A6, 0x1013], "0x00001013: bits 0x2 belong"),
        ([0x200120C4, 0x0900], "SET_SPA_VERSION = 0x900: this chip is sm_86"),
        ([0x20012651, 2], "SET_RENDER_ENABLE_OVERRIDE = 0x2"),
        ([0x200120A8, 0x20000], "bits 0x20000"),
    ],
)
def test_methods_and_data_that_are_refused_with_their_number(bench: Bench, words: list[int], text: str) -> None:
    channel = bench.channel()
    put_qmd(bench)
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, *SETUP, 0x200120AD, QMD_VA >> 8, *words)
    assert bench.notifier(channel)[1] == 13 and bench.launches == []


def test_methods_without_visible_effect_are_taken(bench: Bench) -> None:
    words = [
        *(0x20012040, 0), *(0x20012044, 0), *(0x200125A6, 0x1011), *(0x20012087, 0x1017), *(0x200120A6, 1),
        *(0x200124A2, 0), *(0x2001254A, 1), *(0x200120C4, 0x0806), *(0x20012365, 1), *(0x20012651, 1), *(0x2001268B, 0),
        *(0x20032557, 0, 0, 0), *(0x20012982, 1),
    ]  # fmt: skip
    channel = bench.channel()
    bench.submit(channel, *SETUP, *words)
    assert not channel.error


@pytest.mark.parametrize(
    ("setup", "text"),
    [
        (SETUP[:2], "shared memory window was never programmed"),
        (SETUP[:5], "local memory window was never programmed"),
        ([*SETUP, 0x200220A8, LOCAL_WINDOW >> 32, LOCAL_WINDOW & 0xFFFFFFFF], "overlap"),
        ([*SETUP, 0x200220A8, 0, CODE_VA], f"memory at {DATA_VA:#x} lies in the shared window"),
    ],
)
def test_windows_must_be_programmed_and_free(bench: Bench, setup: list[int], text: str) -> None:
    put_qmd(bench)
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(bench.channel(), *setup, *LAUNCH3)


def test_sending_without_an_address_is_refused(bench: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match="SEND_PCAS_A was never sent"):
        bench.submit(bench.channel(), *SETUP, 0x800320B0)


# local memory


def local_words(base: int = LOCAL_VA, per_tpc: int = LOCAL_PER_TPC, sms: int = 0xFF) -> list[int]:
    return [0x200221E4, base >> 32, base & 0xFFFFFFFF, 0x200320B9, per_tpc >> 32, per_tpc & 0xFFFFFFFF, sms]


def test_local_memory_that_is_large_enough_runs(bench: Bench) -> None:
    bench.map(LOCAL_VA, LOCAL_PER_TPC * bench.gpu.chip.tpcs)
    put_qmd(bench, local_low=0x240, local_high=0x250)
    bench.submit(bench.channel(), *SETUP, *local_words(), *LAUNCH3)
    assert (bench.launches[0].local_low_bytes, bench.launches[0].local_high_bytes) == (0x240, 0x250)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "0x490 bytes of local memory per thread, none is programmed"),
        (
            local_words(per_tpc=LOCAL_PER_TPC - 0x8000),
            f"{LOCAL_PER_TPC:#x} per TPC, programmed are .*scratch out of range",
        ),
        (local_words(per_tpc=LOCAL_PER_TPC + 16), "not a multiple of 0x8000"),
        (local_words(sms=67), "programmed for 67 SMs, this chip has 68"),
    ],
)
def test_local_memory_that_is_too_small_is_refused(bench: Bench, words: list[int], text: str) -> None:
    put_qmd(bench, local_high=0x490)
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(bench.channel(), *SETUP, *words, *LAUNCH3)


def test_local_memory_that_is_not_mapped_to_its_end_faults(bench: Bench) -> None:
    bench.map(LOCAL_VA, LOCAL_PER_TPC * (bench.gpu.chip.tpcs - 1))
    put_qmd(bench, local_high=0x490)
    channel = bench.channel()
    bench.submit(channel, *SETUP, *local_words(), *LAUNCH3)
    assert bench.notifier(channel)[1] == 31 and bench.gpu.faults.mmu[0][2] == 1


# releases and chaining


@pytest.mark.parametrize(
    ("release", "low", "high", "stamped"),
    [
        (dict(structure=0, payload64=1), 5, 9, True),
        (dict(structure=0, payload64=0, payload=5), 5, 0, True),
        (dict(structure=1, payload64=0, payload=5), 5, 0xFFFFFFFF, False),
        (dict(structure=2, payload64=1), 5, 9, False),
    ],
)
@pytest.mark.parametrize("slot", [0, 1, 2])
def test_release_slots(bench: Bench, slot: int, release: dict[str, int], low: int, high: int, stamped: bool) -> None:
    bench.space.write(SEM, b"\xff" * 16)
    run(bench, releases={slot: {"va": SEM, "payload": 9 << 32 | 5, **release}})
    assert (bench.u32(SEM), bench.u32(SEM + 4)) == (low, high)
    stamp = bench.u64(SEM + 8)
    assert (stamp != (1 << 64) - 1) == stamped and (not stamped or stamp % 32 == 0)


def test_several_releases_and_a_reduction(bench: Bench) -> None:
    bench.space.write_u64(SEM + 32, 40)
    run(
        bench,
        releases={
            0: {"va": SEM, "payload": 1, "structure": 0, "payload64": 1},
            1: {"va": SEM + 32, "payload": 2, "structure": 2, "payload64": 1, "reduction": 0},
        },
    )
    assert bench.u64(SEM) == 1 and bench.u64(SEM + 32) == 42


def test_a_release_outside_every_mapping_faults_after_the_kernel(bench: Bench) -> None:
    channel = bench.channel()
    put_qmd(bench, releases={0: {"va": UNMAPPED_VA, "payload": 1, "structure": 0, "payload64": 1}})
    bench.submit(channel, *SETUP, *LAUNCH3)
    assert len(bench.launches) == 1 and bench.gpu.faults.mmu == [(UNMAPPED_VA, 0, 1)]


@pytest.mark.parametrize("action", [1, 3])
def test_dependents_run_in_their_order_after_the_release(bench: Bench, action: int) -> None:
    seen: list[tuple[int, int]] = []

    def watch(launch: Launch) -> Result:
        seen.append((launch.grid[0], bench.u32(SEM)))
        return Result(0)

    bench.on_launch = watch
    for number in range(3):
        put_qmd(
            bench,
            QMD_VA + 0x100 * number,
            grid=(number + 1, 1, 1),
            dependent=(QMD_VA + 0x100 * (number + 1), action) if number < 2 else None,
            releases={0: {"va": SEM, "payload": number + 1, "structure": 0, "payload64": 1}},
        )
    bench.submit(bench.channel(), *SETUP, *LAUNCH3)
    assert seen == [(1, 0), (2, 1), (3, 2)] and bench.u32(SEM) == 3


def test_a_chain_without_an_end_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcqrt.emu.nv.launch.MAX_CHAIN", 50)
    with pytest.raises(EmulatorRefusal, match="chain of more than 50"):
        run(bench, dependent=(QMD_VA, 1))
