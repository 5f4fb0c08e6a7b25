"""The packets of type 7, one by one, with words written by hand; what is refused is refused with its number."""

from __future__ import annotations

import struct

import pytest
from adreno_bench import (
    COMMAND_VA,
    DATA_VA,
    FLUSH,
    READ_ONLY_VA,
    SIGNAL_VA,
    UNMAPPED_VA,
    WAIT_FOR_IDLE,
    Bench,
    lo_hi,
    type4,
    type7,
)

from hcqrt.emu.qcom.trouble import PAGE_FAULT
from hcqrt.emu.refusal import EmulatorRefusal

DATA = lo_hi(DATA_VA)
# Golden headers of qcom.md §2
GOLDEN = {
    0x70268000: (7, 0x26, 0), 0x70928000: (7, 0x12, 0), 0x70138000: (7, 0x13, 0), 0x70108000: (7, 0x10, 0),
    0x70E50001: (7, 0x65, 1), 0x70460004: (7, 0x46, 4), 0x70460001: (7, 0x46, 1), 0x703E8003: (7, 0x3E, 3),
    0x70BC8006: (7, 0x3C, 6), 0x70348003: (7, 0x34, 3), 0x70B30004: (7, 0x33, 4), 0x70310001: (7, 0x31, 1),
    0x703D8003: (7, 0x3D, 3), 0x70BF8003: (7, 0x3F, 3), 0x40BB0801: (4, 0xBB08, 1), 0x40B9908C: (4, 0xB990, 12),
    0x40A9B08A: (4, 0xA9B0, 10), 0x48B98385: (4, 0xB983, 5), 0x48A9BB01: (4, 0xA9BB, 1),
}  # fmt: skip


def refused(bench: Bench, *words: int) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    assert bench.refused == [str(failure.value)]
    assert [fault.kind for fault in bench.faults] == ["bad_packet"]
    return str(failure.value)


def test_the_golden_headers_say_what_the_facts_say() -> None:
    from hcqrt.emu.qcom.cp import decode_header

    for header, (kind, target, count) in GOLDEN.items():
        assert decode_header(header) == (kind, target, count), hex(header)
        encode = type4 if kind == 4 else type7
        assert encode(target, *[0] * count)[0] == header


@pytest.mark.parametrize("bit", [1 << 15, 1 << 23])
def test_a_packet_of_wrong_parity_is_refused_with_its_header(bench: Bench, bit: int) -> None:
    assert f"{0x70268000 ^ bit:#010x}: wrong parity" in refused(bench, 0x70268000 ^ bit)


@pytest.mark.parametrize("bit", [1 << 7, 1 << 27])
def test_a_register_write_of_wrong_parity_is_refused_with_its_header(bench: Bench, bit: int) -> None:
    assert f"{0x40BB0801 ^ bit:#010x}: wrong parity" in refused(bench, 0x40BB0801 ^ bit, 0x60)


@pytest.mark.parametrize("header", [0, 0x10000000, 0x80000000, 0xC0012200])
def test_other_packet_types_are_refused(bench: Bench, header: int) -> None:
    assert f"{header:#010x}: type {header >> 28}" in refused(bench, header)


@pytest.mark.parametrize("header", [0x70268000 | 1 << 24, 0x70268000 | 1 << 14, 0x40BB0801 | 1 << 26])
def test_reserved_bits_of_headers_are_refused(bench: Bench, header: int) -> None:
    assert f"{header:#010x}: reserved bits" in refused(bench, header, 0)


def test_a_count_one_too_large_is_refused(bench: Bench) -> None:
    text = refused(bench, type7(0x46, 4, 0, 0, 0)[0], 4, *DATA)
    assert "0x70460004: count 4 spills past the buffer, which has 3 dwords left" in text


def test_a_write_of_no_registers_is_refused(bench: Bench) -> None:
    assert "no registers" in refused(bench, type4(0xBB08)[0])


@pytest.mark.parametrize(
    ("opcode", "name"),
    [(0x53, "CP_SMMU_TABLE_UPDATE"), (0x5F, "CP_SET_PROTECTED_MODE"), (0x38, "CP_DRAW_INDX_OFFSET"), (0x7F, "unknown")],
)
def test_unknown_and_privileged_packets_are_refused_with_their_number(bench: Bench, opcode: int, name: str) -> None:
    text = refused(bench, *type7(opcode, 1, 2, 3, 4))
    assert name in text
    assert f"{opcode:#x}" in text


def test_nop_carries_any_data(bench: Bench) -> None:
    bench.submit(*type7(0x10, 0xDEADBEEF, 0, 0xFFFFFFFF), *FLUSH, 7)
    assert bench.u32(SIGNAL_VA) == 7
    assert bench.retired == [1]


@pytest.mark.parametrize("opcode", [0x12, 0x13, 0x26])
def test_waits_take_no_payload(bench: Bench, opcode: int) -> None:
    bench.submit(*type7(opcode))
    assert "1 dwords, it takes 0" in refused(bench, *type7(opcode, 0))


def test_mem_write_stores_its_dwords(bench: Bench) -> None:
    bench.submit(0x703D8005, *DATA, 1, 2, 3)
    assert bench.space.read(DATA_VA, 16) == struct.pack("<4I", 1, 2, 3, 0)


def test_mem_write_without_data_or_alignment_is_refused(bench: Bench) -> None:
    assert "2 dwords" in refused(bench, *type7(0x3D, *DATA))


def test_an_address_off_its_alignment_is_refused(bench: Bench) -> None:
    assert f"{DATA_VA + 2:#x} is not 4-byte aligned" in refused(bench, *type7(0x3D, *lo_hi(DATA_VA + 2), 1))


@pytest.mark.parametrize(("va", "reason"), [(UNMAPPED_VA, "PDE"), (READ_ONLY_VA, "RO"), (1 << 49, "VA_LIMIT")])
def test_a_write_to_where_nothing_may_be_written_is_a_page_fault(bench: Bench, va: int, reason: str) -> None:
    bench.submit(*type7(0x3D, *lo_hi(va), 1))
    fault = bench.faults[0]
    assert (fault.kind, fault.address, fault.access, fault.reason) == (PAGE_FAULT, va, "write", reason)
    assert f"{va:#x}" in fault.text
    assert (fault.timestamp, bench.retired, bench.refused) == (1, [], [])
    assert bench.gpu.stats["faults"] == 1


def test_reg_to_mem_of_the_counter_writes_eight_bytes_of_19_2_mhz(bench: Bench) -> None:
    bench.space.write(DATA_VA, b"\xff" * 24)
    bench.submit(
        0x703E8003, 0x980 | 2 << 18 | 1 << 30, *DATA, 0x703E8003, 0x980 | 2 << 18 | 1 << 30, *lo_hi(DATA_VA + 8)
    )
    first, second, behind = struct.unpack("<3Q", bench.space.read(DATA_VA, 24))
    assert first == 10_000_001_000 * 192 // 10_000
    assert second > first
    assert behind == (1 << 64) - 1


def test_half_of_the_counter_can_be_read(bench: Bench) -> None:
    bench.now_ns = 2**32 * 10_000 // 192 * 3
    bench.submit(*type7(0x3E, 0x981 | 1 << 18, *DATA))
    assert bench.u32(DATA_VA) == 3


def test_192_ticks_are_10_microseconds(bench: Bench) -> None:
    assert bench.gpu.ticks(10_000) == 192
    assert bench.gpu.ticks(10**9) == 19_200_000


def test_reg_to_mem_and_mem_to_reg_move_what_was_written(bench: Bench) -> None:
    bench.space.write(DATA_VA, struct.pack("<2I", 0x40000001, 5))
    bench.submit(
        *type7(0x42, 0x884 | 2 << 19, *DATA),
        *type7(0x42, 0x883 | 1 << 30, *DATA),  # count 0 is one register; shifted left by 2
        *type7(0x3E, 0x883 | 3 << 18, *lo_hi(DATA_VA + 16)),
    )
    assert struct.unpack("<3I", bench.space.read(DATA_VA + 16, 12)) == (4, 0x40000001, 5)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (type7(0x3E, 0x980 | 1 << 31, *DATA), "0x80000980"),
        (type7(0x3E, 0x980 | 1 << 18 | 1 << 30, *DATA), "1 words are no pairs"),
        (type7(0x3E, 0x12345, *DATA), "0x12345"),
        (type7(0x3E, 0x4A6 | 2 << 18, *DATA), "RBBM_PERFCTR_SP[0] (0x4a6)"),
        (type7(0x3E, 0x980 | 2 << 18 | 1 << 30, DATA[0] + 4, DATA[1]), f"{DATA_VA + 4:#x} is not 8-byte aligned"),
        (type7(0x42, 0x884 | 1 << 31, *DATA), "0x80000000"),
        (type7(0x42, 0x980, *DATA), "CP_ALWAYS_ON_COUNTER (0x980)"),
    ],
)
def test_register_moves_that_mean_nothing_are_refused(bench: Bench, words: list[int], number: str) -> None:
    assert number in refused(bench, *words)


@pytest.mark.parametrize(
    ("flags", "wide", "expected"),
    [(0, False, 108), (0b010, False, (1 << 32) - 92 + 0), (1 << 29 | 0b100, True, 5 + 100 - 3 & (1 << 64) - 1)],
)
def test_mem_to_mem_adds_and_negates(bench: Bench, flags: int, wide: bool, expected: int) -> None:
    bench.space.write(DATA_VA, struct.pack("<3Q", 5, 100, 3))
    vas = [lo_hi(DATA_VA + at) for at in (64, 0, 8, 16)]
    bench.submit(*type7(0x73, flags, *(half for va in vas for half in va)))
    assert int.from_bytes(bench.space.read(DATA_VA + 64, 8 if wide else 4), "little") == expected


def test_mem_to_mem_refuses_unknown_flags_and_counts(bench: Bench) -> None:
    assert "bits 0x2 are not known" in refused(bench, *type7(0x73, 2, *DATA, *DATA))


@pytest.mark.parametrize(
    ("function", "value", "ref", "mask", "goes_on"),
    [
        (0, 1, 2, 0xFFFFFFFF, True),
        (1, 1, 2, 0xFFFFFFFF, True), (1, 2, 2, 0xFFFFFFFF, False),
        (2, 2, 2, 0xFFFFFFFF, True), (2, 3, 2, 0xFFFFFFFF, False),
        (3, 0x1234, 0x34, 0xFF, True), (3, 0x1234, 0x34, 0xFFFF, False),
        (4, 1, 2, 0xFFFFFFFF, True), (4, 2, 2, 0xFFFFFFFF, False),
        (5, 0xFFFFFFFF, 1, 0xFFFFFFFF, True), (5, 0, 1, 0xFFFFFFFF, False),
        (6, 2, 1, 0xFFFFFFFF, True), (6, 1, 1, 0xFFFFFFFF, False),
        (5 | 8, 0xFFFFFFFF, 1, 0xFFFFFFFF, False), (5 | 8, 1, 0xFFFFFFFF, 0xFFFFFFFF, True),
    ],
)  # fmt: skip
def test_wait_reg_mem_compares(bench: Bench, function: int, value: int, ref: int, mask: int, goes_on: bool) -> None:
    bench.space.write_u32(DATA_VA, value)
    bench.submit(0x70BC8006, function | 1 << 4, *DATA, ref, mask, 32)
    assert bench.retired == ([1] if goes_on else [])
    assert not bench.faults


def test_wait_reg_mem_looks_at_registers_and_scratch(bench: Bench) -> None:
    bench.submit(*type4(0x885, 77), *type7(0x3C, 3, 0x885, 0, 77, 0xFFFFFFFF, 0))
    bench.submit(*type7(0x3C, 3 | 2 << 4, 2, 0, 77, 0xFFFFFFFF, 0))
    assert bench.retired == [1, 2]


@pytest.mark.parametrize(
    ("word", "number"), [(7 | 1 << 4, "function 7"), (3 | 3 << 4, "poll 3"), (3 | 1 << 8, "0x100")]
)
def test_wait_reg_mem_refuses_unknown_forms(bench: Bench, word: int, number: str) -> None:
    assert number in refused(bench, 0x70BC8006, word, *DATA, 0, 0xFFFFFFFF, 0)


@pytest.mark.parametrize(("value", "goes_on"), [(6, True), (5, True), (4, False), (0x80000000, False)])
def test_wait_mem_gte_compares_signed(bench: Bench, value: int, goes_on: bool) -> None:
    bench.space.write_u32(DATA_VA, value)
    bench.submit(*type7(0x14, 0, *DATA, 5))
    assert bench.retired == ([1] if goes_on else [])


def test_cond_write_writes_only_when_it_holds(bench: Bench) -> None:
    bench.space.write_u32(DATA_VA, 9)
    there = lo_hi(DATA_VA + 64)
    bench.submit(*type7(0x45, 3 | 1 << 4 | 1 << 8, *DATA, 8, 0xFFFFFFFF, *there, 111))
    assert bench.u32(DATA_VA + 64) == 0
    bench.submit(*type7(0x45, 3 | 1 << 4 | 1 << 8, *DATA, 9, 0xFFFFFFFF, *there, 222))
    assert bench.u32(DATA_VA + 64) == 222
    bench.submit(*type7(0x45, 3 | 1 << 4, *DATA, 9, 0xFFFFFFFF, 0x886, 0, 333), *type7(0x3E, 0x886 | 1 << 18, *there))
    assert bench.u32(DATA_VA + 64) == 333


@pytest.mark.parametrize("event", [4, 0x16, 8, 0x1D, 0x1C])
def test_events_with_timestamp_always_write_their_dword(bench: Bench, event: int) -> None:
    bench.space.write(DATA_VA, b"\xff" * 8)
    bench.submit(0x70460004, event, *DATA, 0x12345678)
    assert bench.space.read(DATA_VA, 8) == struct.pack("<2I", 0x12345678, 0xFFFFFFFF)
    assert "1 dwords, it takes 4" in refused(bench, 0x70460001, event)


@pytest.mark.parametrize("event", [0x31, 0x19, 0x18])
def test_events_that_only_invalidate_have_one_dword(bench: Bench, event: int) -> None:
    bench.submit(0x70460001, event)
    assert bench.retired == [1]
    assert f"{event:#x}): 4 dwords, it takes 1" in refused(bench, 0x70460004, event, *DATA, 1)


def test_the_timestamp_bit_writes_the_counter_and_the_interrupt_bit_counts(bench: Bench) -> None:
    bench.space.write(DATA_VA, b"\xff" * 8)
    bench.submit(0x70460004, 4 | 1 << 30 | 1 << 31, *DATA, 5)
    ticks = 10_000_001_000 * 192 // 10_000
    assert bench.space.read(DATA_VA, 8) == struct.pack("<2I", ticks & 0xFFFFFFFF, 0xFFFFFFFF)
    assert bench.gpu.stats["interrupts"] == 1


def test_an_event_that_writes_nothing_cannot_interrupt(bench: Bench) -> None:
    assert "neither timestamp nor interrupt" in refused(bench, 0x70460001, 0x31 | 1 << 31)


@pytest.mark.parametrize(("word", "number"), [(0x15, "0x15"), (0x32, "0x32"), (4 | 1 << 20, "0x100000")])
def test_unknown_events_and_bits_are_refused(bench: Bench, word: int, number: str) -> None:
    assert number in refused(bench, 0x70460004, word, *DATA, 1)


def test_an_indirect_buffer_runs_before_what_follows(bench: Bench) -> None:
    inner = bench.store(*type7(0x3D, *DATA, 1))
    bench.submit(0x70BF8003, *lo_hi(inner), 4, *type7(0x73, 0, *lo_hi(DATA_VA + 8), *DATA, *DATA))
    assert bench.u32(DATA_VA + 8) == 2


def test_a_third_level_of_buffers_is_refused(bench: Bench) -> None:
    third = bench.store(0x70108000)
    second = bench.store(0x70BF8003, *lo_hi(third), 1)
    assert f"{third:#x}: more than 2 levels" in refused(bench, 0x70BF8003, *lo_hi(second), 4)


@pytest.mark.parametrize(
    ("words", "text"),
    [((*lo_hi(COMMAND_VA), 0), "empty"), ((*lo_hi(COMMAND_VA + 2), 1), "aligned"), ((*DATA, 1 << 20), "0x100000")],
)
def test_buffers_that_cannot_be_are_refused(bench: Bench, words: tuple[int, ...], text: str) -> None:
    assert text in refused(bench, 0x70BF8003, *words)


def test_a_buffer_that_is_not_mapped_is_a_page_fault(bench: Bench) -> None:
    bench.submit(0x70BF8003, *lo_hi(UNMAPPED_VA), 1)
    assert (bench.faults[0].kind, bench.faults[0].address, bench.faults[0].access) == (PAGE_FAULT, UNMAPPED_VA, "read")


def test_markers(bench: Bench) -> None:
    bench.submit(0x70E50001, 8, 0x70E50001, 0x101, *WAIT_FOR_IDLE)
    assert bench.retired == [1]
    assert "mode 9" in refused(bench, 0x70E50001, 9)


@pytest.mark.parametrize("word", [0x18, 0x102, 0x200])
def test_marker_bits_that_compute_has_not_are_refused(bench: Bench, word: int) -> None:
    assert f"{word:#010x}" in refused(bench, 0x70E50001, word)


def test_invalidate_state_with_a_mask_is_refused(bench: Bench) -> None:
    bench.submit(*type7(0x3B, 0))
    assert "the mask is 0x1000" in refused(bench, *type7(0x3B, 0x1000))
