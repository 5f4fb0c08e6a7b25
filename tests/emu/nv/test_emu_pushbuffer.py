"""Rings, GP entries and method headers of the emulated host."""

from __future__ import annotations

import pytest
from gpu_bench import COPY0, DATA_VA, PUSH_VA, SET_COMPUTE, SET_COPY, UNMAPPED_VA, Bench, gp_entry, semaphore
from hypothesis import given, settings
from hypothesis import strategies as st

from hcqrt.emu.nv.pushbuffer import decode_entry, methods
from hcqrt.emu.nv.trouble import Refused
from hcqrt.emu.refusal import EmulatorRefusal

RELEASE32 = 0x00000001
ACQUIRE_EQ = 0x00000000


def test_the_golden_gp_entry_decodes() -> None:
    entry = decode_entry(0x00002A1234567890, 0)
    assert (entry.va, entry.words, entry.sync) == (0x12_3456_7890, 10, False)
    assert decode_entry(0x00002A1234567890 | 1 << 63, 0).sync


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([0x20050017, 1, 2, 3, 4, 5], [(0, 0x5C + 4 * i, 1 + i) for i in range(5)]),
        ([0x60032000 | 0x1B4 >> 2, 7, 8, 9], [(1, 0x1B4, 7), (1, 0x1B4, 8), (1, 0x1B4, 9)]),
        ([0x800320B0], [(1, 0x2C0, 3)]),
        ([0xA0030017, 7, 8, 9], [(0, 0x5C, 7), (0, 0x60, 8), (0, 0x60, 9)]),
        ([0, 0x20000017, 0x20010008, 0, 0], [(0, 0x20, 0)]),
        ([0x20010008, 0, 0xE0000000, 0xFFFFFFFF], [(0, 0x20, 0)]),
        ([0x20018000, 0xC7B5], [(4, 0, 0xC7B5)]),
    ],
)
def test_every_header_form_yields_its_methods(words: list[int], found: list[tuple[int, int, int]]) -> None:
    assert list(methods(words)) == found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0xC0010008, 0], "0xc0010008.*sec_op 6"),
        ([0x40010008, 0], "0x40010008.*sec_op 2"),
        ([0x00010008, 0], "0x00010008.*sec_op 0"),
        ([0x20011008, 0], "0x20011008.*bit 12"),
        ([0xE0000001], "0xe0000001.*END_PB_SEGMENT"),
        ([0x20020008, 0], "0x20020008.*count 2 spills.* 1 words left"),
        ([0x3FFF0008], "count 8191 spills.* 0 words left"),
    ],
)
def test_headers_of_no_known_form_are_refused_with_their_number(bench: Bench, words: list[int], text: str) -> None:
    channel = bench.channel()
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, *words)
    assert bench.notifier(channel)[1:] == (32, 1, 0xFFFF)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (gp_entry(PUSH_VA, 1) | 1, "conditional fetch"),
        (gp_entry(PUSH_VA, 1) | 2, "reserved bits 0x2"),
        (gp_entry(PUSH_VA, 1) | 1 << 40, "reserved bits 0x10000000000"),
        (gp_entry(0xFF_FFFF_FFF0, 4), "0xfffffffff0"),
        (2 << 32, "opcode 0x2"),
        (3 << 32, "opcode 0x3"),
        (9 << 32, "opcode 0x9"),
        (PUSH_VA & 0xFFFFFFFC, "no words"),
    ],
)
def test_bad_gp_entries_are_refused_with_their_number(bench: Bench, entry: int, text: str) -> None:
    channel = bench.channel()
    bench.push_raw(channel, entry)
    with pytest.raises(EmulatorRefusal, match=f"GP entry 0 = {entry:#018x}.*{text}"):
        bench.ring(channel)
    assert bench.notifier(channel)[1] == 32


def test_control_entries_nop_and_illegal(lenient: Bench) -> None:
    channel = lenient.channel()
    lenient.push_raw(channel, 0)
    lenient.submit(channel, *semaphore(DATA_VA, 5, RELEASE32))
    assert lenient.u32(DATA_VA) == 5
    lenient.push_raw(channel, 1 << 32)
    lenient.ring(channel)
    assert lenient.notifier(channel)[1] == 32 and "ILLEGAL" in channel.error


def test_get_follows_put_around_the_ring(bench: Bench) -> None:
    channel = bench.channel(entries=4)
    for value in range(1, 12):
        bench.submit(channel, *semaphore(DATA_VA, value, RELEASE32))
        assert bench.u32(DATA_VA) == value
        assert bench.userd(channel, 0x88) == bench.userd(channel, 0x8C) == value % 4


def test_nothing_runs_without_a_doorbell_and_unknown_tokens_are_ignored(bench: Bench) -> None:
    channel = bench.channel()
    bench.push(channel, *semaphore(DATA_VA, 1, RELEASE32))
    assert not bench.gpu.run() and bench.u32(DATA_VA) == 0
    bench.host.doorbell(0x9999)
    assert bench.host.unknown_tokens == 1 and not bench.gpu.run()
    bench.ring(channel)
    assert bench.u32(DATA_VA) == 1
    bench.ring(channel)  # a doorbell with nothing new is harmless
    assert not channel.error


def test_put_outside_the_ring_or_past_get_is_refused(bench: Bench) -> None:
    channel = bench.channel(entries=8)
    bench.set_put(channel, 8)
    with pytest.raises(EmulatorRefusal, match=r"GP_PUT 0x8 .*8 entries"):
        bench.ring(channel)
    other = bench.channel(entries=8)
    for _ in range(5):
        bench.push(other, *semaphore(DATA_VA, 1, ACQUIRE_EQ))
    bench.ring(other)
    bench.set_put(other, 3)
    with pytest.raises(EmulatorRefusal, match="GP_PUT went from 5 to 3, past GP_GET 0"):
        bench.ring(other)


def test_an_unscheduled_channel_waits_until_it_is_scheduled(bench: Bench) -> None:
    channel = bench.channel()
    channel.group.scheduled = False
    bench.submit(channel, *semaphore(DATA_VA, 1, RELEASE32))
    assert bench.u32(DATA_VA) == 0
    channel.group.scheduled = True
    assert bench.gpu.run() and bench.u32(DATA_VA) == 1


def test_a_stalled_gpu_fetches_nothing(bench: Bench) -> None:
    channel = bench.channel()
    bench.gpu.stalled = True
    bench.submit(channel, *semaphore(DATA_VA, 1, RELEASE32))
    assert bench.u32(DATA_VA) == bench.userd(channel, 0x88) == 0
    bench.gpu.stalled = False
    assert bench.gpu.run() and bench.u32(DATA_VA) == 1


def test_words_are_read_ahead_unless_sync_says_to_wait(bench: Bench) -> None:
    """Command words patched by the GPU or CPU while an earlier entry waits are seen only with SYNC."""
    for sync, expected in ((False, 1), (True, 2)):
        channel = bench.channel()
        bench.space.write(DATA_VA, bytes(16))
        bench.push(channel, *semaphore(DATA_VA, 7, ACQUIRE_EQ))
        va = bench.push(channel, *semaphore(DATA_VA + 4, 1, RELEASE32), sync=sync)
        bench.ring(channel)
        bench.space.write_u32(va + 12, 2)  # the payload of the second entry
        bench.space.write_u32(DATA_VA, 7)
        bench.gpu.run()
        assert bench.u32(DATA_VA + 4) == expected


def test_unmapped_ring_and_unmapped_words_are_mmu_faults(lenient: Bench) -> None:
    channel = lenient.channel()
    lenient.push_raw(channel, gp_entry(UNMAPPED_VA, 4))
    lenient.ring(channel)
    assert lenient.notifier(channel)[1] == 31
    assert lenient.gpu.faults.mmu == [(UNMAPPED_VA, 0, 0)]
    other = lenient.channel()
    other.gpfifo_va = UNMAPPED_VA
    lenient.set_put(other, 1)
    lenient.ring(other)
    assert lenient.notifier(other)[1] == 31


def test_entries_before_a_bad_one_still_run(lenient: Bench) -> None:
    channel = lenient.channel()
    lenient.push(channel, *semaphore(DATA_VA, 1, RELEASE32))
    lenient.push_raw(channel, gp_entry(UNMAPPED_VA, 4))
    lenient.ring(channel)
    assert lenient.u32(DATA_VA) == 1 and lenient.notifier(channel)[1] == 31


def test_a_dead_channel_ignores_doorbells_and_its_group_dies_with_it(lenient: Bench) -> None:
    channel = lenient.channel()
    sibling = lenient.channel(group=channel.group)
    stranger = lenient.channel()
    lenient.submit(channel, 0xC0000000)
    for dead in (channel, sibling):
        lenient.submit(dead, *semaphore(DATA_VA, 1, RELEASE32))
        assert lenient.u32(DATA_VA) == 0 and dead.error
    assert lenient.notifier(sibling)[1:] == (45, 1, 0xFFFF)
    lenient.submit(stranger, *semaphore(DATA_VA, 2, RELEASE32))
    assert lenient.u32(DATA_VA) == 2
    assert lenient.gpu.stats["faults"] == 1


# objects and subchannels


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([0x20012000, 0xC7B5], 69, "0xc7b5 on subchannel 1"),
        ([0x20018000, 0xC7C0], 69, "0xc7c0 on subchannel 4"),
        ([0x20012000, 0xC6C0], 69, "0xc6c0.*no such object.*0xc7c0"),
        ([0x20012000, 0x1FC7C0], 32, "engine 0x1f"),
        ([0x20012000, 0x8000C7C0], 32, "0x80000000 belong to no field"),
        ([0x20012040, 0], 69, "0x100 on subchannel 1: no object"),
        ([*SET_COMPUTE, 0x20010040, 0], 69, "0x100 on subchannel 0: no object"),
        ([*SET_COMPUTE, 0x2001A040, 0], 32, "0x100 on subchannel 5"),
        ([*SET_COMPUTE, 0x200127FF, 0], 69, "0xc7c0 has no method 0x1ffc"),
        ([*SET_COPY, 0x200187FF, 0], 39, "0xc7b5 has no method 0x1ffc"),
        ([0x20010003, 0], 32, "0xc56f has no method 0xc"),
        ([0x20010009, 0], 32, "FB_FLUSH .0x24"),
        ([0x20010021, 0], 32, "CLEAR_FAULTED .0x84"),
    ],
)
def test_wrong_objects_and_unknown_methods_are_refused(bench: Bench, words: list[int], code: int, text: str) -> None:
    channel = bench.channel()
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, *words)
    assert bench.notifier(channel)[1] == code
    assert channel.error and bench.gpu.refusals


def test_a_copy_channel_takes_copy_classes_on_any_subchannel(bench: Bench) -> None:
    channel = bench.channel(COPY0 + 2)
    bench.submit(channel, *SET_COPY, 0x20010040, 0)  # NOP on subchannel 0
    with pytest.raises(EmulatorRefusal, match=r"0xc7c0.*copy classes only"):
        bench.submit(channel, *SET_COMPUTE)
    assert bench.notifier(channel)[1:] == (41, COPY0 + 2, 0xFFFF)  # ROBUST_CHANNEL_CE2_ERROR


def test_a_count_one_too_large_writes_into_an_unknown_method(bench: Bench) -> None:
    channel = bench.channel()
    with pytest.raises(EmulatorRefusal, match=r"SCG_HYSTERESIS_CONTROL .0x2a8. = 0xffff0000"):
        bench.submit(channel, *SET_COMPUTE, 0x200320A8, 0, 0, 0xFFFF0000)


# property: words without meaning end in the designed error and nothing else

headers = st.one_of(
    st.integers(0, 0xFFFFFFFF),
    st.builds(
        lambda op, count, sub, method: op << 29 | count << 16 | sub << 13 | method,
        st.sampled_from([1, 3, 4, 5, 7]), st.integers(0, 6), st.integers(0, 5),
        st.one_of(st.integers(0, 0x1FF), st.sampled_from([0x17, 0x1B, 0xAD, 0xB0, 0xC0, 0x100, 0x106, 0x6C, 0x6D])),
    ),
)  # fmt: skip
streams = st.lists(st.one_of(headers, st.integers(0, 0xFFFFFFFF), st.integers(0, 64)), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(streams=st.lists(streams, min_size=1, max_size=4), copy=st.booleans())
def test_random_words_end_in_a_refusal_a_fault_or_nothing(streams: list[list[int]], copy: bool) -> None:
    bench = Bench()
    try:
        channel = bench.channel(COPY0 if copy else 1)
        bench.submit(channel, *(SET_COPY if copy else [*SET_COMPUTE, *SET_COPY]))
        for words in streams:
            try:
                bench.submit(channel, *words)
            except EmulatorRefusal:
                assert channel.error and bench.notifier(channel)[3] == 0xFFFF
    finally:
        bench.close()


@settings(max_examples=300, deadline=None)
@given(entry=st.integers(0, (1 << 64) - 1))
def test_random_gp_entries_decode_or_are_refused(entry: int) -> None:
    try:
        decoded = decode_entry(entry, 3)
    except Refused as refusal:
        assert f"{entry:#018x}" in refusal.detail
    else:
        assert decoded.va < 1 << 40 and decoded.words < 1 << 21
