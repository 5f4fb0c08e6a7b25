"""The packets that a7xx has and a6xx has not, and the other way round; words by hand from qcom.md §2."""

from __future__ import annotations

import random

import pytest
from adreno_a7xx import FLUSH, dispatch7
from adreno_bench import CODE_VA, COMMAND_VA, CONST_VA, DATA_VA, SIGNAL_VA, Bench, lo_hi, type4, type7

from hcqrt.autogen.qcom import a7xx
from hcqrt.emu.qcom.generation import A7XX
from hcqrt.emu.qcom.registers import table
from hcqrt.emu.refusal import EmulatorRefusal

DATA = lo_hi(DATA_VA)
WRITE = 1 << 27
USER_64, SUM, ALWAYS_ON, REGISTERS = 1 << 20, 2 << 20, 3 << 20, 4 << 20
CLEAN, FLUSH7, INVALIDATE7 = (0x70460001, 0x31), (0x70460001, 0x32), (0x70460001, 0x33)


def refused(bench: Bench, *words: int) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    return str(failure.value)


def test_an_event_writes_32_bits(bench7: Bench) -> None:
    bench7.space.write_u64(SIGNAL_VA, 0xFFFFFFFF_FFFFFFFF)
    bench7.submit(*FLUSH, 0x12345678)
    assert bench7.space.read_u64(SIGNAL_VA) == 0xFFFFFFFF_12345678


@pytest.mark.parametrize("event", [0x04, 0x16, 0x08, 0x31, 0x32, 0x33, 0x3F])
def test_any_event_may_write_64_bits(bench7: Bench, event: int) -> None:
    bench7.submit(0x70468005, event | USER_64 | WRITE, *DATA, 0x89ABCDEF, 0x01234567)
    assert bench7.space.read_u64(DATA_VA) == 0x01234567_89ABCDEF


def test_an_event_writes_the_whole_counter(bench7: Bench) -> None:
    bench7.now_ns = 1 << 50
    before = bench7.gpu.ticks()
    bench7.submit(*type7(0x46, 0x16 | ALWAYS_ON | WRITE, *DATA))
    assert before < bench7.space.read_u64(DATA_VA) < bench7.gpu.ticks()
    assert before >> 32


def test_an_event_waits_for_the_shader_before_it_writes(bench7: Bench) -> None:
    """Without CP_WAIT_FOR_IDLE, from the launch straight to the signal."""
    bench7.submit(*dispatch7()[:-6], *FLUSH, 9)
    assert (len(bench7.launches), bench7.u32(SIGNAL_VA)) == (1, 9)


@pytest.mark.parametrize("event", [0x31, 0x32, 0x33, 0x18, 0x19, 0x20, 0x21, 0x0F, 0x10, 0x3F, 0x01])
def test_events_may_be_quiet(bench7: Bench, event: int) -> None:
    bench7.submit(0x70460001, event, *FLUSH, 1)
    assert bench7.u32(SIGNAL_VA) == 1


def test_an_interrupt_is_counted(bench7: Bench) -> None:
    bench7.submit(0x70460004, 1 << 31 | WRITE | 4, *DATA, 1)
    assert bench7.gpu.stats["interrupts"] == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((4, *DATA, 1), "CP_EVENT_WRITE7 = 0x00000004 (event CACHE_FLUSH_TS, 0x4): it writes, and WRITE_ENABLED"),
        ((4,), "it writes, and WRITE_ENABLED is not set"),
        ((0x31, *DATA, 1), "4 dwords, it takes 1"),
        ((4 | WRITE, *DATA), "3 dwords, it takes 4"),
        ((4 | WRITE, *DATA, 1, 2), "5 dwords, it takes 4"),
        ((4 | WRITE | USER_64, *DATA, 1), "4 dwords, it takes 5"),
        ((4 | WRITE | ALWAYS_ON, *DATA, 1), "4 dwords, it takes 3"),
        ((4 | WRITE | SUM, *DATA), "source 2 is not modelled"),
        ((4 | WRITE | REGISTERS, *DATA, 0x980, 2), "source 4 is not modelled"),
        ((4 | WRITE | 1 << 24, *DATA, 1), "on chip"),
        ((0x31 | USER_64,), "a source or a destination, and WRITE_ENABLED is not set"),
        ((4 | WRITE | 1 << 30, *DATA, 1), "bits 0x40000000 are not known"),  # the timestamp bit of a6xx
        ((4 | WRITE | 1 << 12, *DATA, 1), "bits 0x1000 are not known"),
        ((0x15 | WRITE, *DATA, 1), "event unknown, 0x15"),  # ZPASS_DONE, for graphics
        ((0x7F,), "event unknown, 0x7f"),
        ((4 | WRITE, DATA[0] + 2, DATA[1], 1), "is not 4-byte aligned"),
        ((4 | WRITE | USER_64, DATA[0] + 4, DATA[1], 1, 2), "is not 8-byte aligned"),
        ((), "no dwords"),
    ],
)
def test_what_an_event_cannot_say_is_refused(bench7: Bench, words: tuple[int, ...], text: str) -> None:
    assert text in refused(bench7, *type7(0x46, *words))


def test_the_signal_of_a7xx_is_refused_on_a6xx(bench: Bench) -> None:
    assert "CP_EVENT_WRITE = 0x08000004 (event CACHE_FLUSH_TS, 0x4): bits 0x8000000" in refused(bench, *FLUSH, 1)


@pytest.mark.parametrize("event", [0x32, 0x33])
def test_events_of_a7xx_are_unknown_on_a6xx(bench: Bench, event: int) -> None:
    assert f"event unknown, {event:#x}" in refused(bench, 0x70460001, event)


@pytest.mark.parametrize(("opcode", "words"), [(0x17, (1,)), (0x3A, ())])
def test_packets_of_a7xx_are_unknown_on_a6xx(bench: Bench, opcode: int, words: tuple[int, ...]) -> None:
    assert f"({opcode:#x})" in refused(bench, *type7(opcode, *words))


@pytest.mark.parametrize("word", [1, 2, 3, 1 << 31 | 3, 1 << 27 | 1])
def test_thread_control_takes_its_threads(bench7: Bench, word: int) -> None:
    bench7.submit(0x70970001, word, *FLUSH, 1)
    assert bench7.u32(SIGNAL_VA) == 1


@pytest.mark.parametrize("word", [0, 4, 1 << 31, 1 << 26 | 1])
def test_other_words_of_thread_control_are_refused(bench7: Bench, word: int) -> None:
    assert f"CP_THREAD_CONTROL = {word:#010x}" in refused(bench7, 0x70970001, word)


def test_cche_invalidate_takes_nothing(bench7: Bench) -> None:
    bench7.submit(*type7(0x3A), *FLUSH, 1)
    assert bench7.u32(SIGNAL_VA) == 1
    assert "1 dwords, it takes 0" in refused(bench7, *type7(0x3A, 0))


@pytest.mark.parametrize(("value", "passes"), [(4, False), (5, True), (0x7FFFFFFF, True), (0x80000000, False)])
def test_wait_timestamp_compares_32_bits_signed(bench7: Bench, value: int, passes: bool) -> None:
    bench7.space.write_u32(DATA_VA, value)
    bench7.submit(*type7(0x14, 0, *DATA, 5), *FLUSH, 1)
    assert bench7.u32(SIGNAL_VA) == passes
    bench7.space.write_u32(DATA_VA, 5)
    bench7.gpu.run()
    assert bench7.u32(SIGNAL_VA) == 1


@pytest.mark.parametrize(("value", "passes"), [(0x4_FFFFFFFF, False), (0x5_00000001, True), (1 << 63, True)])
def test_wait_timestamp_compares_64_bits_unsigned(bench7: Bench, value: int, passes: bool) -> None:
    bench7.space.write_u64(DATA_VA, value)
    bench7.submit(*type7(0x14, 1, *DATA, 1, 5), *FLUSH, 1)
    assert bench7.u32(SIGNAL_VA) == passes
    bench7.context.kill()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((2, *DATA, 1), "CP_WAIT_TIMESTAMP = 0x00000002: source 2"),
        ((0x10, *DATA, 1), "CP_WAIT_TIMESTAMP = 0x00000010"),
        ((4, *DATA, 1), "bits 0x4"),
        ((0, *DATA), "3 dwords, it takes 4"),
        ((1, *DATA, 1), "4 dwords, it takes 5"),
        ((), "no dwords"),
    ],
)
def test_other_waits_for_timestamps_are_refused(bench7: Bench, words: tuple[int, ...], text: str) -> None:
    assert text in refused(bench7, *type7(0x14, *words))


def changed_constants(bench: Bench, *events: int) -> list[int]:
    """A second dispatch after the constants' memory changed, behind some events, of a GPU that checks its caches."""
    return [*dispatch7(), *type7(0x3D, *lo_hi(CONST_VA), 0x00030010), *events, *dispatch7()]


@pytest.fixture
def cached() -> Bench:
    return Bench("a750", check_caches=True)


@pytest.mark.parametrize("events", [(), CLEAN])
def test_cleaning_is_no_invalidation(cached: Bench, events: tuple[int, ...]) -> None:
    """Event 0x31 invalidates on a6xx and only writes back on a7xx."""
    assert f"constants at {CONST_VA:#x} changed while cached" in refused(cached, *changed_constants(cached, *events))
    cached.close()


@pytest.mark.parametrize("events", [FLUSH7, INVALIDATE7])
def test_flush_and_invalidate_read_memory_again(cached: Bench, events: tuple[int, ...]) -> None:
    cached.submit(*changed_constants(cached, *events))
    assert len(cached.launches) == 2
    cached.close()


def test_code_is_dropped_by_the_moved_register(cached: Bench) -> None:
    """HLSQ_INVALIDATE_CMD with CS_STATE; the second dispatch leaves it out."""
    store = type7(0x3D, *lo_hi(CODE_VA + 0x60), 0)
    cached.submit(*dispatch7(), *store, *INVALIDATE7, *dispatch7())
    text = refused(cached, *type7(0x3D, *lo_hi(CODE_VA + 0x60), 1), *INVALIDATE7, *dispatch7(drop=(2,)))
    assert "no HLSQ_INVALIDATE_CMD with CS_STATE" in text
    cached.close()


@pytest.mark.parametrize("seed", range(3))
def test_damaged_words_end_in_a_refusal_a_fault_or_a_launch(bench7: Bench, seed: int) -> None:
    rng = random.Random(seed)
    opcodes, registers = sorted(a7xx.OPCODES.values()), sorted(table(A7XX))
    for _ in range(300):
        words = dispatch7()
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(words))
            words[at] = rng.choice((words[at] ^ 1 << rng.randrange(32), rng.getrandbits(32), 0, 0xFFFFFFFF))
        payload = [rng.choice((rng.getrandbits(32), rng.getrandbits(4), 0)) for _ in range(rng.randint(1, 6))]
        odd = (
            type7(rng.choice(opcodes) & 0x7F, *payload)
            if rng.random() < 0.5
            else type4(rng.choice(registers), *payload)
        )
        for stream in (words, [*odd, *dispatch7()]):
            bench7.command_va = COMMAND_VA
            context = bench7.new_context()
            ended = len(bench7.retired) + len(bench7.faults)
            try:
                bench7.submit(*stream, context=context)
            except EmulatorRefusal as refusal:
                assert bench7.faults[-1].text == str(refusal)
            assert len(bench7.retired) + len(bench7.faults) - ended == (0 if context.cp.parked else 1)
            context.close()
    assert len(bench7.launches) > 50 and len(bench7.faults) > 300
