"""Registers: which may be written, what is kept and for whom, and what is refused with offset and value."""

from __future__ import annotations

import struct

import pytest
from adreno_bench import DATA_VA, Bench, dispatch, lo_hi, type4, type7

from hcqrt.emu.refusal import EmulatorRefusal


def refused(bench: Bench, *words: int) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    return str(failure.value)


def read(bench: Bench, register: int, count: int = 1) -> tuple[int, ...]:
    bench.submit(*type7(0x3E, register | count << 18, *lo_hi(DATA_VA)))
    return struct.unpack(f"<{count}I", bench.space.read(DATA_VA, 4 * count))


@pytest.mark.parametrize("register", [0x0000, 0xA9C5, 0xB99C, 0xBB09, 0x3FFFF])
def test_unknown_registers_are_refused_with_offset_and_value(bench: Bench, register: int) -> None:
    text = refused(bench, *type4(register, 0x1234))
    assert f"{register:#x}" in text
    assert "0x1234" in text


def test_a_count_that_reaches_past_known_registers_writes_none_of_them(bench: Bench) -> None:
    """B999..B99B are the group counts, and nothing is behind them."""
    assert "unknown register 0xb99c" in refused(bench, *type4(0xB999, 1, 2, 3, 4))
    assert bench.context.cp.registers.values == {}


@pytest.mark.parametrize(
    ("register", "name"),
    [
        (0x0980, "CP_ALWAYS_ON_COUNTER"), (0x0981, "CP_ALWAYS_ON_COUNTER"), (0x0210, "RBBM_STATUS"),
        (0x0500, "RBBM_PERFCTR_CNTL"), (0x08D0, "CP_PERFCTR_CP_SEL"), (0xB9A0, "HLSQ_LOAD_STATE_FRAG_CMD"),
        (0xF803, "RBBM_SECVID_TSB_CNTL"),
    ],
)  # fmt: skip
def test_protected_and_read_only_registers_are_refused(bench: Bench, register: int, name: str) -> None:
    text = refused(bench, *type4(register, 1))
    assert name in text
    assert f"({register:#x})" in text


@pytest.mark.parametrize(
    ("register", "value", "unknown"),
    [
        (0xA9B0, 1 << 24, 0x1000000), (0xA9B1, 0x80, 0x80), (0xA9BD, 1 << 19, 0x80000), (0xB987, 0x200, 0x200),
        (0xA9BB, 0x10, 0x10), (0xAB00, 0x10, 0x10), (0xAE04, 1, 1), (0xB998, 0x800, 0x800), (0xBB08, 1 << 20, 0x100000),
        (0xA9BA, 0x100, 0x100), (0xAA00, 0x80, 0x80), (0xA9BC, 1 << 28, 0x10000000),
        (0xA9B9, 1 << 18, 0x40000), (0xA9B6, 0x100, 0x100), (0xB309, 0x100, 0x100), (0xAE0F, 0x40, 0x40),
    ],
)  # fmt: skip
def test_bits_outside_every_field_are_refused(bench: Bench, register: int, value: int, unknown: int) -> None:
    text = refused(bench, *type4(register, value))
    assert f"({register:#x})" in text
    assert f"bits {unknown:#x}" in text


def test_values_persist_over_packets_and_submissions(bench: Bench) -> None:
    bench.submit(*type4(0xA9B4, 0x11111100, 0x22), *type4(0xA9B2, 3))
    assert read(bench, 0xA9B2, 4) == (3, 0, 0x11111100, 0x22)


def test_what_was_never_written_reads_as_zero(bench: Bench) -> None:
    assert read(bench, 0xB990, 12) == (0,) * 12


def test_every_context_has_its_own_registers(bench: Bench) -> None:
    other = bench.new_context()
    bench.submit(*type4(0x883, 1))
    bench.submit(*type4(0x883, 2), context=other)
    assert read(bench, 0x883) == (1,)


def test_a_reset_takes_the_registers_with_it(bench: Bench) -> None:
    bench.submit(*type4(0x883, 1))
    bench.submit(*type7(0x3D, 0, 0, 1))
    bench.context.resume_after_fault()
    assert read(bench, 0x883) == (0,)


@pytest.mark.parametrize("packet", [type4(0xA9BC, 1), type4(0xB999, 1), type7(0x34, 0x00764000, 0x20000, 0x10)])
def test_state_that_a_shader_may_still_use_is_left_alone_until_idle(bench: Bench, packet: list[int]) -> None:
    until_launch = dispatch()[:-6]  # without WAIT_FOR_IDLE and the signal
    assert "no CP_WAIT_FOR_IDLE" in refused(bench, *until_launch, *packet)


def test_modes_and_invalidation_need_no_idle(bench: Bench) -> None:
    until_launch = dispatch()[:-6]
    bench.submit(*until_launch, *type4(0xBB08, 0x60), *type4(0xAB00, 5))
    assert len(bench.launches) == 1
