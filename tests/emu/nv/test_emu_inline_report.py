"""Inline-to-memory and report semaphores of the emulated compute class."""

from __future__ import annotations

import pytest
from gpu_bench import (
    DATA_VA,
    SETUP,
    Bench,
)

from hcqrt.emu.refusal import EmulatorRefusal

SEM = DATA_VA


# inline to memory


def inline(va: int, length: int, lines: int, pitch: int, launch: int, *words: int) -> list[int]:
    return [
        *(0x20052060, length, lines, va >> 32, va & 0xFFFFFFFF, pitch), 0x2001206C, launch,
        0x60000000 | len(words) << 16 | 0x206D, *words,
    ]  # fmt: skip


def test_inline_data_lands_in_memory(bench: Bench) -> None:
    channel = bench.channel()
    bench.space.write(SEM, b"\xff" * 16)
    bench.submit(channel, *SETUP, *inline(DATA_VA + 0x101, 7, 1, 0, 1, 0x04030201, 0xFF070605))
    assert bench.space.read(DATA_VA + 0x100, 10) == bytes([0, 1, 2, 3, 4, 5, 6, 7, 0, 0])
    words = inline(DATA_VA + 0x200, 4, 2, 16, 1 | 2 << 4, 0x11111111, 0x22222222)
    bench.submit(channel, 0x20032077, SEM >> 32, SEM & 0xFFFFFFFF, 77, *words)
    assert bench.u32(DATA_VA + 0x200) == 0x11111111 and bench.u32(DATA_VA + 0x210) == 0x22222222
    assert bench.u64(SEM) == 77 and bench.u64(SEM + 8) != (1 << 64) - 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0x2001206D, 5], "LOAD_INLINE_DATA = 0x5: no transfer is open"),
        ([*inline(DATA_VA, 8, 1, 0, 1, 1), 0x20012040, 0], "1 of 2 data words came"),
        ([*inline(DATA_VA, 8, 1, 0, 1, 1), 0x2001001E, 1], "1 of 2 data words came"),
        (inline(DATA_VA, 4, 1, 0, 1, 1, 2), "LOAD_INLINE_DATA = 0x2"),
        (inline(DATA_VA, 8, 1, 0, 0, 1), "LAUNCH_DMA = 0x0: a block-linear"),
        (inline(DATA_VA, 8, 1, 0, 3, 1), "LAUNCH_DMA = 0x3: REDUCTION_ENABLE"),
        (inline(DATA_VA, 0, 1, 0, 1, 1), "1 lines of 0 bytes"),
        (inline(DATA_VA, 6, 2, 8, 1, 1), "no whole number of words"),
        (inline(DATA_VA, 8, 2, 4, 1, 1), "PITCH_OUT 0x4"),
        ([0x2001206C, 0x31], "COMPLETION_TYPE = 0x3"),
    ],
)
def test_wrong_inline_transfers_are_refused(bench: Bench, words: list[int], text: str) -> None:
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(bench.channel(), *SETUP, *words)


# report semaphores


def test_old_report_semaphores(bench: Bench) -> None:
    channel = bench.channel()
    bench.space.write(SEM, b"\xff" * 32)

    def report(va: int, d: int) -> list[int]:
        return [0x200426C0, va >> 32, va & 0xFFFFFFFF, 6, d]

    bench.submit(channel, *SETUP, *report(SEM, 0), *report(SEM + 16, 1 << 28 | 1 << 20))
    assert bench.u64(SEM) == 6 and bench.u64(SEM + 8) != (1 << 64) - 1
    assert bench.u64(SEM + 16) == 0xFFFFFFFF_00000006
    for va, d, text in (
        (SEM + 8, 0, f"{SEM + 8:#x} is not 16-byte"),
        (SEM, 3, "D = 0x3: operation 3"),
        (SEM, 8, "four-word"),
    ):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), *SETUP, *report(va, d))


def test_new_report_semaphores(bench: Bench) -> None:
    def report(va: int, payload: int, execute: int) -> list[int]:
        return [0x20052056, payload & 0xFFFFFFFF, payload >> 32, va & 0xFFFFFFFF, va >> 32, execute]

    bench.space.write(SEM, b"\xff" * 64)
    bench.submit(
        bench.channel(), *SETUP, *report(SEM, 3 << 32 | 1, 1 << 12), *report(SEM + 16, 3 << 32 | 1, 1 << 12 | 2 << 3),
        *report(SEM + 32, 5, 1 << 3), *report(SEM + 32, 7, 1 << 3 | 1 << 6),
    )  # fmt: skip
    assert bench.u64(SEM) == 3 << 32 | 1 and bench.u64(SEM + 8) != (1 << 64) - 1
    assert bench.u64(SEM + 16) == 3 << 32 | 1 and bench.u64(SEM + 24) == (1 << 64) - 1
    assert bench.u32(SEM + 32) == 12
    for execute, text in (
        (1, "EXECUTE = 0x1: operation 1"),
        (1 << 13, "trap type 1"),
        (3 << 3, "STRUCTURE_SIZE = 0x3"),
        (1 << 12 | 1 << 3, "64-bit payload in a structure of 4"),
    ):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), *SETUP, *report(SEM, 1, execute))


def test_a100_has_no_new_report_semaphores(bench: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match="0xc6c0 has no method 0x158"):
        bench.submit(bench.channel(classes=(0xC6C0,)), 0x20012000, 0xC6C0, 0x20012056, 0)
