"""The emulated copy engine, fed with hand-written words."""

from __future__ import annotations

import pytest
from gpu_bench import COPY0, DATA_VA, MIB, READ_ONLY_VA, SET_COPY, UNMAPPED_VA, Bench, semaphore
from hypothesis import given, settings
from hypothesis import strategies as st

from hcqrt.emu.refusal import EmulatorRefusal

SRC, DST, SEM = DATA_VA, DATA_VA + MIB, DATA_VA + 2 * MIB
LAUNCH = 0x200180C0
PLAIN, TWO_D, FILL = 0x182, 0x382, 0x582


def offsets(src: int, dst: int) -> list[int]:
    return [0x20048100, src >> 32, src & 0xFFFFFFFF, dst >> 32, dst & 0xFFFFFFFF]


def copy(src: int, dst: int, nbytes: int, launch: int = PLAIN) -> list[int]:
    return [*offsets(src, dst), 0x20018106, nbytes, LAUNCH, launch]


def remap(components: int, a: int = 0, b: int = 0) -> list[int]:
    return [0x200381C0, a, b, components]


def test_a_plain_copy_moves_odd_sizes_and_nothing_else(bench: Bench) -> None:
    channel = bench.channel(COPY0)
    data = bytes(range(1, 252))
    bench.space.write(SRC + 3, data)
    bench.submit(channel, *SET_COPY, *copy(SRC + 3, DST + 5, len(data)))
    assert bench.space.read(DST, len(data) + 10) == bytes(5) + data + bytes(5)
    assert bench.gpu.stats["copies"] == 1


def test_the_engine_works_on_a_graphics_channel_too(bench: Bench) -> None:
    channel = bench.channel()
    bench.space.write(SRC, b"abcd")
    bench.submit(channel, *SET_COPY, *copy(SRC, DST, 4))
    assert bench.space.read(DST, 4) == b"abcd"


def test_two_dimensional_copies_use_both_pitches(bench: Bench) -> None:
    channel = bench.channel(COPY0)
    for row in range(5):
        bench.space.write(SRC + row * 64, bytes([row + 1] * 7))
    words = [*SET_COPY, *offsets(SRC, DST), 0x20048104, 64, 100, 7, 5, LAUNCH, TWO_D]
    bench.submit(channel, *words)
    for row in range(5):
        assert bench.space.read(DST + row * 100, 100) == bytes([row + 1] * 7) + bytes(93)
    record = bench.host.copy_log[-1]
    assert (record.src_va, record.dst_va, record.line_bytes, record.lines) == (SRC, DST, 7, 5)


@pytest.mark.parametrize(
    ("components", "a", "b", "count", "expected"),
    [
        (0x00000005, 0, 0xAB, 7, b"\xab" * 7),
        (0x00010005, 0, 0x1234, 3, b"\x34\x12" * 3),
        (0x00030005, 0, 0x12345678, 3, b"\x78\x56\x34\x12" * 3),
        (0x01030054, 0x03020100, 0x07060504, 2, bytes(range(8)) * 2),
        (0x00020005, 0, 0x00332211, 3, b"\x11\x22\x33" * 3),
        (0x03004545, 1, 2, 2, bytes([2, 1, 2, 1]) * 2),  # X = B, Y = A, Z = B, W = A
    ],
)
def test_fills_of_every_component_size(
    bench: Bench, components: int, a: int, b: int, count: int, expected: bytes
) -> None:
    channel = bench.channel(COPY0)
    bench.space.write(DST, b"\xee" * 64)
    words = [*SET_COPY, *offsets(0, DST + 1), *remap(components, a, b), 0x20018106, count, LAUNCH, FILL]
    bench.submit(channel, *words)
    assert bench.space.read(DST, 64) == b"\xee" + expected + b"\xee" * (63 - len(expected))
    assert bench.host.copy_log[-1].src_va is None


def test_a_remap_can_swizzle_leave_bytes_alone_and_mix_in_constants(bench: Bench) -> None:
    channel = bench.channel(COPY0)
    bench.space.write(SRC, bytes(range(1, 9)))  # elements of two components of two bytes
    bench.space.write(DST, b"\xee" * 12)
    # X = SRC_Y, Y = NO_WRITE, Z = CONST_A, two bytes each; two sources, three destinations
    components = 1 | 6 << 4 | 4 << 8 | 1 << 16 | 1 << 20 | 2 << 24
    words = [*SET_COPY, *offsets(SRC, DST), *remap(components, 0xBBAA, 0), 0x20018106, 2, LAUNCH, FILL]
    bench.submit(channel, *words)
    assert bench.space.read(DST, 12) == bytes([3, 4, 0xEE, 0xEE, 0xAA, 0xBB, 7, 8, 0xEE, 0xEE, 0xAA, 0xBB])


@pytest.mark.parametrize(
    ("launch", "payload_hi", "record"),
    [
        (0x00000014, None, (5, 0, True)),
        (0x0000000C, None, (5, 0xFFFFFFFF, False)),
        (0x08000014, 9, (5, 9, True)),
        (0x0800000C, 9, (5, 9, False)),
    ],
)
def test_semaphores_of_every_size(
    bench: Bench, launch: int, payload_hi: int | None, record: tuple[int, int, bool]
) -> None:
    channel = bench.channel(COPY0)
    bench.space.write(SEM, b"\xff" * 16)
    three = [0x20038090, SEM >> 32, SEM & 0xFFFFFFFF, 5]
    four = [0x20048090, SEM >> 32, SEM & 0xFFFFFFFF, 5, payload_hi or 0]
    bench.submit(channel, *SET_COPY, *(three if payload_hi is None else four), LAUNCH, launch)
    low, high, stamped = record
    assert (bench.u32(SEM), bench.u32(SEM + 4)) == (low, high)
    assert (bench.u64(SEM + 8) != (1 << 64) - 1) == stamped
    assert bench.gpu.stats["copies"] == 0


def test_a_copy_can_flush_and_release_in_one_launch(bench: Bench) -> None:
    channel = bench.channel(COPY0)
    bench.space.write(SRC, b"data")
    bench.submit(channel, *SET_COPY, 0x20038090, 0, SEM, 3, *copy(SRC, DST, 4, PLAIN | 0x14 | 2 << 5))
    assert bench.space.read(DST, 4) == b"data" and bench.u32(SEM) == 3
    assert channel.engine_state.engines[0xC7B5].interrupts == 1


def test_a_semaphore_before_its_data_is_flushed_is_refused_but_a_host_release_waits(bench: Bench) -> None:
    channel = bench.channel(COPY0)
    bench.submit(
        channel, *SET_COPY, *copy(SRC, DST, 4), *semaphore(SEM, 1, 0x00100001), 0x20038090, 0, SEM, 3, LAUNCH, 0x10
    )
    assert bench.u32(SEM) == 3
    other = bench.channel(COPY0)
    with pytest.raises(EmulatorRefusal, match="0x00000010: releases a semaphore while data is not flushed"):
        bench.submit(other, *SET_COPY, *copy(SRC, DST, 4), 0x20038090, 0, SEM, 3, LAUNCH, 0x10)


SETUP_1D = [*SET_COPY, *offsets(SRC, DST), 0x20048104, 64, 64, 16, 2, 0x20048090, 0, SEM, 1, 0]


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        (0x183, "DATA_TRANSFER_TYPE = 0x3"),
        (0x102, "SRC block-linear"),
        (0x082, "DST block-linear"),
        (PLAIN | 1 << 11, "FORCE_RMWDISABLE = 0x1"),
        (PLAIN | 1 << 12, "SRC_TYPE = 0x1"),
        (PLAIN | 1 << 13, "DST_TYPE = 0x1"),
        (PLAIN | 3 << 14, "SEMAPHORE_REDUCTION = 0x3"),
        (PLAIN | 1 << 19, "SEMAPHORE_REDUCTION_ENABLE = 0x1"),
        (PLAIN | 1 << 22, "VPRMODE = 0x1"),
        (PLAIN | 1 << 24, "RESERVED_START_OF_COPY = 0x1"),
        (PLAIN | 1 << 28, "RESERVED_ERR_CODE = 0x1"),
        (PLAIN | 1 << 20, "bits 0x100000 belong to no field"),
        (PLAIN | 1 << 5, "interrupt type 1"),
        (PLAIN | 4 | 3 << 3, "semaphore type 3"),
        (FILL, "SET_REMAP_COMPONENTS was never set"),
    ],
)
def test_launches_that_are_not_for_users_are_refused_with_their_number(bench: Bench, launch: int, text: str) -> None:
    channel = bench.channel(COPY0 + 1)
    with pytest.raises(EmulatorRefusal, match=f"{launch:#010x}.*{text}"):
        bench.submit(channel, *SETUP_1D, LAUNCH, launch)
    assert bench.notifier(channel)[1:] == (40, COPY0 + 1, 0xFFFF)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0x20018106, 0, LAUNCH, PLAIN], "1 lines of length 0"),
        ([0x20028106, 4, 0, LAUNCH, TWO_D], "0 lines of length 4"),
        ([0x20048104, 64, 15, 16, 2, LAUNCH, TWO_D], "PITCH_OUT 0xf < line of 0x10"),
        (
            [*remap(0x00000004), LAUNCH, FILL, *remap(0x1 | 0 << 20), LAUNCH, FILL],
            "component 0 wants source component 1 of 1",
        ),
        ([*remap(0x00000007), LAUNCH, FILL], "DST_X = 0x7"),
        ([0x200181C2, 0x5, LAUNCH, FILL], "constant B, which was never set"),
        ([0x20038090, 0, SEM + 8, 1, LAUNCH, 0x14], f"{SEM + 8:#x} is not 16-byte"),
        ([0x20048090, 0, SEM + 4, 1, 1, LAUNCH, 0x0800000C], "not 8-byte"),
        ([0x20018100, 0x20000], "OFFSET_IN_UPPER .0x400. = 0x00020000: bits 0x20000"),
        ([0x20018098, 0], "SET_SRC_PHYS_MODE .0x260. = 0x0 is not modelled"),
        ([0x200181C3, 0], "SET_DST_BLOCK_SIZE .0x70c"),
    ],
)
def test_wrong_parameters_are_refused_with_their_number(bench: Bench, words: list[int], text: str) -> None:
    channel = bench.channel(COPY0)
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, *SETUP_1D, *words)
    assert bench.notifier(channel)[1] == 39


def test_a_register_that_was_never_set_is_not_zero(bench: Bench) -> None:
    with pytest.raises(EmulatorRefusal, match="OFFSET_OUT_UPPER was never set"):
        bench.submit(bench.channel(COPY0), *SET_COPY, 0x20018106, 4, LAUNCH, PLAIN)


def test_a100s_copy_class_has_no_64_bit_payload(bench: Bench) -> None:
    channel = bench.channel(COPY0, classes=(0xC6B5,))
    with pytest.raises(EmulatorRefusal, match=r"0xc6b5.*0x24c"):
        bench.submit(channel, 0x20018000, 0xC6B5, 0x20048090, 0, SEM, 1, 0)
    other = bench.channel(COPY0, classes=(0xC6B5,))
    with pytest.raises(EmulatorRefusal, match=r"0xc6b5.*0x08000014.*bits 0x8000000"):
        bench.submit(other, 0x20018000, 0xC6B5, 0x20038090, 0, SEM, 1, LAUNCH, 0x08000014)


@pytest.mark.parametrize(
    ("src", "dst", "entry"),
    [
        (UNMAPPED_VA, DST, (UNMAPPED_VA, 0, 0)),
        (SRC, UNMAPPED_VA, (UNMAPPED_VA, 0, 1)),
        (SRC, READ_ONLY_VA, (READ_ONLY_VA, 6, 1)),
        (DATA_VA + 8 * MIB - 8, DST, (DATA_VA + 8 * MIB, 0, 0)),
    ],
)
def test_transfers_outside_their_mappings_fault(bench: Bench, src: int, dst: int, entry: tuple[int, int, int]) -> None:
    channel = bench.channel(COPY0 + 3)
    bench.submit(channel, *SET_COPY, *copy(src, dst, 16))
    assert bench.notifier(channel)[1:] == (31, COPY0 + 3, 0xFFFF)
    assert bench.gpu.faults.mmu == [entry] and bench.gpu.stats["copies"] == 0


def test_gigabytes_of_nothing_copy_and_fill_at_once() -> None:
    bench = Bench()
    big, other, huge = 0x10_0000_0000, 0x20_0000_0000, (2 << 30) - 4096
    bench.map(big, huge)
    bench.map(other, huge)
    bench.space.write(other + huge - 4, b"tail")
    channel = bench.channel(COPY0)
    bench.submit(channel, *SET_COPY, *copy(other + 4096, big, huge - 4096))
    assert bench.space.read(big + huge - 4100, 4) == b"tail"
    fill = [*offsets(0, big), *remap(0x00030005), 0x20018106, huge // 4, LAUNCH, FILL]
    bench.submit(channel, *fill)
    assert bench.space.read(big + huge - 4, 4) == bytes(4)
    assert bench.memory.resident_bytes() < 16 * MIB
    bench.close()


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 200), lines=st.integers(1, 6), extra_in=st.integers(0, 50), extra_out=st.integers(0, 50),
    data=st.binary(min_size=1600, max_size=1600),
)  # fmt: skip
def test_any_rectangle_arrives_where_it_should(
    length: int, lines: int, extra_in: int, extra_out: int, data: bytes
) -> None:
    bench = Bench()
    pitch_in, pitch_out = length + extra_in, length + extra_out
    bench.space.write(SRC, data)
    words = [*offsets(SRC, DST), 0x20048104, pitch_in, pitch_out, length, lines, LAUNCH, TWO_D]
    bench.submit(bench.channel(COPY0), *SET_COPY, *words)
    expected = bytearray(pitch_out * lines)
    for row in range(lines):
        expected[row * pitch_out : row * pitch_out + length] = data[row * pitch_in : row * pitch_in + length]
    assert bench.space.read(DST, len(expected)) == bytes(expected)
    bench.close()
