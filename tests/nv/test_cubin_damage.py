"""Whatever bytes a program file holds, the worst is a BinaryError, soon and in little memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest
from cubins import cubin, kernel
from gen.cubin_writer import Module, Reloc, Writer, attribute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_nak import blob

from hcqrt.errors import BinaryError, HCQError
from hcqrt.nv.loader import load
from hcqrt.nv.nak import load_nak

VA = 0x71_2340_0000
MIB = 1 << 20


def full_cubin(abi: int = 8, sm: int = 86) -> bytes:
    """Everything the loader looks at, in a few KiB."""
    return cubin(
        kernel("first", params=(8, 4, 12), shared=64, stack=32, constant2=bytes(24), max_threads=(64, 1, 1)),
        kernel("second", externs=("vprintf",), barriers=2, required_block=(8, 8, 1), extra_info=attribute(3, 0xF7)),
        abi=abi,
        sm=sm,
        globals={"zeros": 64},
        initialised={"array": bytes(16), "pointer": bytes(8)},
        constant3=bytes(40),
        constant4=bytes(16),
        undefined=("vprintf",),
        relocs=[
            Reloc(".nv.global.init", 16, 4, "array", 4),
            Reloc(".nv.constant4", 0, 2, "zeros"),
            Reloc(".nv.constant4", 8, 2, "vprintf"),
            Reloc(".text.first", 0, 56, "pointer"),
        ],
    )


BINARIES = [full_cubin(8), full_cubin(7), full_cubin(8, 90), blob(), blob(scratch=64, shared=1000)]


def use(data: bytes) -> None:
    """All that a program does with a file before it reaches the device."""
    try:
        image = load(data)
        image.at(VA)
    except BinaryError:
        return
    for name in image.kernels:
        try:
            found = image.pick(name)
        except BinaryError:
            continue
        assert 0 <= found.entry < len(image.data)
        assert all(0 <= at <= at + size <= len(image.data) for at, size in found.banks.values())
        assert 1 <= found.registers <= 255
        assert 0 <= found.barriers <= 16


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FUZZ
@given(st.binary(max_size=400))
def test_random_bytes(data):
    use(data)
    use(b"\x7fELF" + data)
    use(BINARIES[0][:64] + data)


@FUZZ
@given(
    st.sampled_from(BINARIES),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=6),
)
def test_changed_bytes(binary, changes):
    data = bytearray(binary)
    for place, mask in changes:
        data[place % len(data)] ^= mask
    use(bytes(data))


@FUZZ
@given(st.sampled_from(BINARIES), st.integers(0, 1 << 16), st.sampled_from([2, 4, 8]), st.integers(0, (1 << 64) - 1))
def test_a_changed_field(binary, place, width, value):
    data = bytearray(binary)
    place = place % (len(data) // width) * width
    data[place : place + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    use(bytes(data))


def test_every_field_of_every_header_at_its_extremes():
    """Section headers and symbols are few: each word, at values that are often wrong."""
    binary = BINARIES[0]
    start = struct.unpack_from("<Q", binary, 40)[0]
    begun = time.monotonic()
    for place in (*range(0, 64, 4), *range(start, len(binary), 4)):
        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(binary)):
            data = bytearray(binary)
            struct.pack_into("<I", data, place, value)
            use(bytes(data))
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("index", range(len(BINARIES)))
def test_cut_short_at_every_place(index):
    binary = BINARIES[index]
    for end in range(0, len(binary), 7):
        with pytest.raises(BinaryError):
            load(binary[:end])


def test_a_nak_block_of_random_fields():
    rng = random.Random(3)
    for _ in range(500):
        data = bytearray(blob())
        data[0:56] = rng.randbytes(56)
        try:
            found = load_nak(bytes(data), None).pick(None)
        except BinaryError:
            continue
        assert found.local_low <= 1 << 19


def costs(data: bytes) -> tuple[float, int]:
    """Seconds and peak bytes of reading a file."""
    tracemalloc.start()
    begun = time.monotonic()
    use(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return time.monotonic() - begun, peak


def elf_of(sections: list[tuple[int, int, int, int]], body: bytes, names: int = 1) -> bytes:
    """A cubin's header, `body` at 64, and a header per (name, kind, offset, size)."""
    head = bytearray(full_cubin()[:64])
    table = 64 + len(body)
    struct.pack_into("<Q", head, 40, table)
    struct.pack_into("<2H", head, 60, len(sections), names)
    rows = (struct.pack("<2I4Q2I2Q", name, kind, 0, 0, at, size, 0, 0, 1, 0) for name, kind, at, size in sections)
    return bytes(head) + body + b"".join(rows)


def test_sections_that_share_their_bytes_do_not_multiply_memory():
    body = bytes(1 << 18)
    binary = elf_of([(0, 1, 64, len(body))] * 4000, body)
    seconds, peak = costs(binary)
    assert peak < 16 * len(binary)
    assert seconds < 5
    with pytest.raises(BinaryError, match="sections overlap"):
        load(binary)


def test_names_that_share_their_bytes_do_not_multiply_memory():
    body = b"x" * (1 << 18) + b"\0"
    binary = elf_of([(at, 8, 64, 0) if at != 1 else (0, 3, 64, len(body)) for at in range(4000)], body)
    seconds, peak = costs(binary)
    assert peak < 64 * len(binary)
    assert seconds < 5


def test_a_variable_of_a_terabyte_is_refused_before_it_is_made():
    for size in ((256 << 20) + 1, 1 << 40, 1 << 62):
        seconds, peak = costs(cubin(globals={"huge": size}))
        assert peak < MIB
        assert seconds < 2
    with pytest.raises(BinaryError, match=r"section \.nv\.global of 1099511627776 bytes"):
        load(cubin(globals={"huge": 1 << 40}))


def test_an_alignment_that_is_no_power_of_two_or_huge_is_damage():
    for align in (3, 1 << 40):
        writer = Writer(Module(86, [kernel()], constant3=bytes(8)))
        binary = bytearray(writer.build())
        head = struct.unpack_from("<Q", binary, 40)[0] + 64 * writer.index[".nv.constant3"]
        struct.pack_into("<Q", binary, head + 48, align * 512 + 8 if align == 3 else align)
        with pytest.raises(BinaryError, match=r"\.nv\.constant3 is aligned to"):
            load(bytes(binary))


def test_a_bank_number_of_thousands_of_digits():
    writer = Writer(Module(86, [kernel()]))
    writer.add(f".nv.constant{'7' * 5000}", 1, bytes(16), flags=2, align=4)
    with pytest.raises(BinaryError, match="banks are 1 to 7"):
        load(writer.build())


def test_many_kernels_take_linear_time():
    few, many = (cubin(*(kernel(f"k{n}", params=(8,)) for n in range(count))) for count in (50, 800))
    (short, _), (long, _) = costs(few), costs(many)
    assert long < 16 * 4 * max(short, 0.01)


def test_two_kernels_in_one_section_are_damage():
    writer = Writer(Module(86, [kernel()]))
    make = writer._texts

    def with_twin() -> None:
        make()
        writer.symbol("twin", 2, 1, writer.index[".text.k"], 0, 16, 0x10)

    writer._texts = with_twin
    with pytest.raises(BinaryError, match="kernels k and twin share a section"):
        load(writer.build())


def test_a_device_that_loads_damaged_files_raises_nothing_else_and_keeps_nothing(dev, system):
    rng, before = random.Random(5), system.live_objects()
    for _ in range(400):
        data = bytearray(rng.choice([*BINARIES[:2], *BINARIES[3:]]))
        place, width = rng.randrange(len(data) - 8), rng.choice((1, 2, 4))
        data[place : place + width] = rng.choice((bytes(width), b"\xff" * width, rng.randbytes(width)))
        try:
            prg = dev.program(bytes(data), "first" if data[:4] == b"\x7fELF" else None)
            prg.template((1, 1, 1), prg.kernel.required_block or (1, 1, 1), 0)
        except HCQError:
            continue
        prg.close()
    dev.program(BINARIES[0], "first").close()
    assert len(system.live_objects()) <= len(before) + 8  # local memory, and what the cache keeps
