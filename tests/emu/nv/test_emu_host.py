"""Host semaphores, waits and scheduling of the emulated GPU."""

from __future__ import annotations

import random

import pytest
from gpu_bench import COPY0, DATA_VA, READ_ONLY_VA, SETUP, UNMAPPED_VA, Bench, semaphore

from hcqrt.emu.refusal import EmulatorRefusal

SEM = DATA_VA
DONE = DATA_VA + 0x100
RELEASE32, RELEASE64 = 0x00000001, 0x01000001
RELEASE_WFI_64_STAMP = 0x03100001
EQ, STRICT_GEQ, CIRC_GEQ, AND, NOR = 0, 2, 3, 4, 5
WIDE = 1 << 24


def test_a_release_with_timestamp_writes_the_sixteen_byte_record(bench: Bench) -> None:
    channel = bench.channel()
    before = bench.gpu.timer_ns()
    bench.submit(channel, *semaphore(SEM, 0x1122334455667788, RELEASE_WFI_64_STAMP))
    assert bench.u64(SEM) == 0x1122334455667788
    stamp = bench.u64(SEM + 8)
    assert before <= stamp <= bench.gpu.timer_ns() and stamp % 32 == 0


def test_32_bit_releases_write_a_word_or_clear_the_upper_half(bench: Bench) -> None:
    channel = bench.channel()
    bench.space.write(SEM, b"\xff" * 32)
    bench.submit(channel, *semaphore(SEM, 5, RELEASE32), *semaphore(SEM + 16, 6, 0x02000001))
    assert bench.u64(SEM) == 0xFFFFFFFF_00000005 and bench.u64(SEM + 8) == (1 << 64) - 1
    assert bench.u64(SEM + 16) == 6 and bench.u64(SEM + 24) != (1 << 64) - 1


@pytest.mark.parametrize(
    ("execute", "payload", "no", "yes"),
    [
        (EQ, 7, (0, 6, 8), (7,)),
        (EQ | WIDE, 1 << 40, (0, 1 << 41), (1 << 40,)),
        (STRICT_GEQ, 7, (0, 6), (7, 8, 0xFFFFFFFF)),
        (STRICT_GEQ | WIDE, 1 << 33, (5, 0xFFFFFFFF), (1 << 33, 1 << 63)),
        (CIRC_GEQ, 3, (2, 0xFFFFFFF0, 0x80000003), (3, 4, 0x80000002)),
        (CIRC_GEQ, 0xFFFFFFF0, (0xFFFFFFEF,), (0xFFFFFFF0, 0, 5)),
        (CIRC_GEQ | WIDE, 3, ((1 << 64) - 1,), (3, 1 << 62)),
        (AND, 0b0110, (0, 0b1001), (0b0010, 0b1111)),
        (NOR, 0xFFFFFFFE, (1, 0xFFFFFFFF), (0, 0xFFFFFFFE)),
        (NOR | WIDE, 0xFFFFFFFF, ((1 << 64) - 1, 0xFFFFFFFF << 32), (0, 1 << 40)),
        (STRICT_GEQ | 1 << 12, 7, (6,), (7,)),
    ],
)
def test_acquires_compare_as_their_operation_says(
    bench: Bench, execute: int, payload: int, no: tuple[int, ...], yes: tuple[int, ...]
) -> None:
    channel = bench.channel()
    for step, good in enumerate(yes):
        bench.space.write_u64(SEM, no[0])
        bench.submit(channel, *semaphore(SEM, payload, execute), *semaphore(DONE, step + 1, RELEASE32))
        for bad in no:
            bench.space.write_u64(SEM, bad)
            assert not bench.gpu.run() and bench.u32(DONE) == step
        bench.space.write_u64(SEM, good)
        assert bench.gpu.run() and bench.u32(DONE) == step + 1


@pytest.mark.parametrize(
    ("execute", "start", "payload", "end"),
    [
        (0, 5, 0xFFFFFFFF, 0xFFFFFFFF),  # IMIN signed: -1
        (0 | 1 << 31, 5, 0xFFFFFFFF, 5),
        (1 << 27, 5, 0xFFFFFFFF, 5),  # IMAX signed
        (2 << 27, 0b1100, 0b1010, 0b0110),
        (3 << 27, 0b1100, 0b1010, 0b1000),
        (4 << 27, 0b1100, 0b1010, 0b1110),
        (5 << 27 | 1 << 31, 0xFFFFFFFF, 2, 1),
        (6 << 27 | 1 << 31, 7, 7, 0),  # INC wraps at the payload
        (7 << 27 | 1 << 31, 0, 9, 9),  # DEC wraps to the payload
        (5 << 27 | 1 << 31 | WIDE, (1 << 64) - 1, 2, 1),
        (1 << 27 | WIDE, 5, (1 << 64) - 1, 5),
    ],
)
def test_reductions(bench: Bench, execute: int, start: int, payload: int, end: int) -> None:
    channel = bench.channel()
    bench.space.write_u64(SEM, start)
    bench.submit(channel, *semaphore(SEM, payload, 6 | execute))
    assert bench.u64(SEM) == end


@pytest.mark.parametrize(
    ("execute", "va", "text"),
    [
        (RELEASE64, SEM + 4, f"{SEM + 4:#x} is not 8-byte"),
        (RELEASE_WFI_64_STAMP, SEM + 8, f"{SEM + 8:#x} is not 16-byte"),
        (0x02000001, SEM + 4, "not 16-byte"),
        (STRICT_GEQ | WIDE, SEM + 4, "not 8-byte"),
        (7, SEM, "OPERATION = 0x7"),
        (EQ | 1 << 20, SEM, "0x00100000: RELEASE_WFI must be 0 for ACQUIRE"),
        (EQ | 1 << 25, SEM, "RELEASE_TIMESTAMP must be 0"),
        (RELEASE32 | 1 << 12, SEM, "ACQUIRE_SWITCH_TSG must be 0 for RELEASE"),
        (RELEASE32 | 5 << 27, SEM, "REDUCTION must be 0 for RELEASE"),
        (6 | 6 << 27 | WIDE, SEM, "no 64-bit signed reduction INC"),
        (6 | 5 << 27 | WIDE, SEM, "no 64-bit signed reduction ADD"),
        (RELEASE32 | 1 << 5, SEM, "0x00000021.*bits 0x20 belong to no field"),
    ],
)
def test_ill_formed_semaphores_are_refused_with_their_number(bench: Bench, execute: int, va: int, text: str) -> None:
    channel = bench.channel()
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, *semaphore(va, 1, execute))
    assert bench.notifier(channel)[1] == 32


def test_address_bits_outside_their_fields_are_refused(bench: Bench) -> None:
    for words, text in (
        ([0x20010017, 0x1002], "0x00001002.*bits 0x2"),
        ([0x20010018, 0x100], "0x00000100.*bits 0x100"),
    ):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), *words)


def test_a_semaphore_outside_every_mapping_is_an_mmu_fault(bench: Bench) -> None:
    for va, execute, access, kind in (
        (UNMAPPED_VA, RELEASE32, 1, 0),
        (UNMAPPED_VA, EQ, 0, 0),
        (READ_ONLY_VA, RELEASE32, 1, 6),
        (READ_ONLY_VA, 6 | 5 << 27 | 1 << 31, 2, 6),
    ):
        bench.gpu.faults.mmu.clear()
        channel = bench.channel()
        bench.submit(channel, *semaphore(va, 1, execute))
        time_ns, info32, info16, status = bench.notifier(channel)
        assert (info32, info16, status) == (31, 1, 0xFFFF) and time_ns > 0
        assert bench.gpu.faults.mmu == [(va, kind, access)]
        assert f"{va:#x}" in channel.error


def test_the_legacy_semaphore_has_an_inverted_wfi_and_its_own_operations(bench: Bench) -> None:
    channel = bench.channel()

    def legacy(va: int, payload: int, d: int) -> list[int]:
        return [0x20040004, va >> 32, va & 0xFFFFFFFF, payload, d]

    bench.space.write(SEM, b"\xff" * 16)
    bench.submit(channel, *legacy(SEM, 9, 2), *legacy(DONE, 4, 2 | 1 << 24 | 1 << 20))
    assert bench.u64(SEM) == 9 and bench.u64(SEM + 8) != (1 << 64) - 1 and bench.u64(DONE) == 4
    bench.submit(channel, *legacy(SEM, 10, 4), *legacy(DONE, 1, 16 | 5 << 27))
    assert bench.u32(DONE) == 4
    bench.space.write_u32(SEM, 10)
    bench.gpu.run()
    assert bench.u32(DONE) == 5
    for d, text in ((3, "OPERATION = 0x3"), (1 | 1 << 24, "RELEASE_SIZE must be 0"), (2 | 1 << 31, "FORMAT must be 0")):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), *legacy(SEM, 1, d))


def test_wfi_interrupt_reference_nop_and_yield(bench: Bench) -> None:
    channel = bench.channel()
    bench.submit(
        channel, 0x2001001E, 1, 0x20010008, 0x1234, 0x20010002, 5, 0x20010014, 0xABCD, 0x20010020, 3, 0x80000020
    )
    assert bench.userd(channel, 0x48) == 0xABCD
    assert channel.engine_state.registers.interrupts == 1
    assert bench.userd(channel, 0x88) == 1
    for words, text in (([0x2001001E, 2], "WFI.*0x00000002"), ([0x20010020, 1], "OP = 0x1")):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), *words)


def test_only_membars_of_mem_op_are_for_users(bench: Bench) -> None:
    channel = bench.channel()
    for kind in (0, 1):
        bench.submit(channel, 0x2004000A, 0, 0, kind, 5 << 27)
    for words, text in (
        ((0, 0, 1, 9 << 27), "operation 0x9 is privileged"),
        ((0, 0, 0, 0x10 << 27), "operation 0x10 is privileged"),
        ((0, 0, 2, 5 << 27), "MEM_OP_C .0x30. = 0x00000002"),
    ):
        with pytest.raises(EmulatorRefusal, match=text):
            bench.submit(bench.channel(), 0x2004000A, *words)


def test_the_illegal_method_faults_as_hardware_does(bench: Bench) -> None:
    channel = bench.channel()
    bench.submit(channel, 0x20010001, 0)  # not a refusal: it does what it is for
    assert bench.notifier(channel)[1] == 32 and not bench.gpu.refusals


def test_a_blocked_channel_lets_others_go_on_and_is_woken_by_them(bench: Bench) -> None:
    first, second = bench.channel(), bench.channel(COPY0)
    bench.submit(first, *semaphore(SEM, 1, STRICT_GEQ), *semaphore(SEM, 2, RELEASE32))
    bench.submit(second, *semaphore(SEM, 2, STRICT_GEQ), *semaphore(DONE, 1, RELEASE32))
    assert bench.u32(DONE) == 0
    bench.submit(bench.channel(), *semaphore(SEM, 1, RELEASE32))
    assert bench.u32(DONE) == 1 and bench.u32(SEM) == 2


def test_channels_take_turns_entry_by_entry(bench: Bench) -> None:
    first, second = bench.channel(), bench.channel()
    for number in range(3):
        for channel, value in ((first, 1), (second, 2)):
            # append the channel's digit: reduction cannot, so each entry writes its own slot with the time
            bench.push(channel, *semaphore(DATA_VA + 0x200 + (value * 3 + number) * 16, value, 0x02000001))
    bench.host.doorbell(first.token)
    bench.host.doorbell(second.token)
    bench.gpu.run()
    stamps = {(v, n): bench.u64(DATA_VA + 0x200 + (v * 3 + n) * 16 + 8) for v in (1, 2) for n in range(3)}
    assert sorted(stamps, key=lambda k: stamps[k]) == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]


def test_a_given_random_order_still_respects_semaphores() -> None:
    for seed in range(8):
        bench = Bench(order=random.Random(seed))
        channels = [bench.channel(entries=64) for _ in range(3)]
        for value in range(12):
            channel = channels[value % 3]
            bench.push(channel, *semaphore(SEM, value, EQ), *semaphore(SEM, value + 1, RELEASE32))
        for channel in channels:
            bench.host.doorbell(channel.token)
        bench.gpu.run()
        assert bench.u32(SEM) == 12
        bench.close()


def test_an_acquire_times_out_only_when_the_channel_asked_for_it(bench: Bench) -> None:
    patient, hasty = bench.channel(), bench.channel()
    hasty.acquire_timeout = True
    for channel in (patient, hasty):
        bench.submit(channel, *semaphore(SEM, 1, EQ))
    bench.now_ns += 3_000_000_000
    bench.gpu.run()
    assert not patient.error and bench.notifier(hasty)[1:] == (8, 1, 0xFFFF) and "timed out" in hasty.error


def test_a_removed_channel_is_forgotten(bench: Bench) -> None:
    channel = bench.channel()
    bench.submit(channel, *SETUP, *semaphore(SEM, 1, EQ))
    bench.host.channel_removed(channel)
    bench.space.write_u32(SEM, 1)
    assert not bench.gpu.run() and channel.engine_state is None
