"""Channel, compute and copy classes of each generation, fed with words written from the facts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from gpu_bench import COPY0, DATA_VA, PUSH_VA, QMD_VA, Bench, gp_entry, semaphore
from qmd_words import qmd

from hcqrt.emu.memory import Mapping
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.trouble import copy_error
from hcqrt.emu.refusal import EmulatorRefusal

RELEASE64 = 0x01000001
FAR = 0x1_2345_0000_0000  # 49 bits
# chip, its newest channel class, compute class, copy class
CLASSES = [
    ("sm_75", 0xC46F, 0xC5C0, 0xC5B5),
    ("sm_80", 0xC56F, 0xC6C0, 0xC6B5),
    ("sm_86", 0xC56F, 0xC7C0, 0xC7B5),
    ("sm_87", 0xC56F, 0xC7C0, 0xC7B5),
    ("sm_89", 0xC56F, 0xC9C0, 0xC7B5),
    ("sm_90", 0xC86F, 0xCBC0, 0xC8B5),
    ("sm_100", 0xC96F, 0xCDC0, 0xC9B5),
    ("sm_103", 0xC96F, 0xCDC0, 0xC9B5),
    ("sm_120", 0xCA6F, 0xCEC0, 0xCAB5),
    ("sm_121", 0xCA6F, 0xCEC0, 0xCAB5),
]
HOSTS = sorted({(number, name) for name, number, *_ in CLASSES if name not in ("sm_87", "sm_103", "sm_121")})
OLD_HOSTS, NEW_HOSTS = (0xC46F, 0xC56F), (0xC86F, 0xC96F, 0xCA6F)
WITH_GP_GET = (0xC46F, 0xC56F, 0xC86F)


@pytest.fixture
def make() -> Iterator[Callable[[str], Bench]]:
    made: list[Bench] = []

    def build(name: str) -> Bench:
        made.append(Bench(name))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.mark.parametrize(("number", "name"), HOSTS)
def test_semaphores_reach_57_bits_from_c86f_on(make: Callable[[str], Bench], number: int, name: str) -> None:
    bench = make(name)
    channel = bench.channel(channel_class=number)
    if number in OLD_HOSTS:
        with pytest.raises(EmulatorRefusal, match=rf"SEM_ADDR_HI \(0x60\) = {FAR >> 32:#010x}: bits 0x12300"):
            bench.submit(channel, *semaphore(FAR, 1, RELEASE64))
        return
    bench.map(FAR, 0x1000)
    bench.submit(channel, *semaphore(FAR + 8, 0x1_0000_0002, RELEASE64))
    assert bench.u64(FAR + 8) == 0x1_0000_0002
    with pytest.raises(EmulatorRefusal, match=r"SEM_ADDR_HI \(0x60\) = 0x02000000: bits 0x2000000"):
        bench.submit(channel, *semaphore(1 << 57, 1, RELEASE64))


@pytest.mark.parametrize(("number", "name"), HOSTS)
def test_blackwell_writes_no_gp_get(make: Callable[[str], Bench], number: int, name: str) -> None:
    bench = make(name)
    channel = bench.channel(channel_class=number)
    for _ in range(3):
        bench.submit(channel, *semaphore(DATA_VA, 5, RELEASE64))
    assert bench.u64(DATA_VA) == 5
    assert bench.userd(channel, 0x88) == (3 if number in WITH_GP_GET else 0)


@pytest.mark.parametrize(("number", "name"), HOSTS)
def test_pushbuffers_beyond_40_bits_need_an_extended_base(make: Callable[[str], Bench], number: int, name: str) -> None:
    bench = make(name)
    channel = bench.channel(channel_class=number)
    base = 4 << 32 | 0x1012300  # opcode 4, operand bits 24:8 = VA bits 56:40
    bench.push_raw(channel, base)
    if number in OLD_HOSTS:
        with pytest.raises(EmulatorRefusal, match="control opcode 0x4 is not modelled"):
            bench.ring(channel)
        return
    bench.map(0x10123 << 40 | PUSH_VA, 0x1000)
    words = semaphore(DATA_VA, 9, RELEASE64)
    bench.space.write(0x10123 << 40 | PUSH_VA, struct.pack(f"<{len(words)}I", *words))
    bench.push_raw(channel, gp_entry(PUSH_VA, len(words)))
    bench.ring(channel)
    assert bench.u64(DATA_VA) == 9
    bench.push_raw(channel, base | 1 << 25)
    with pytest.raises(EmulatorRefusal, match="SET_PB_SEGMENT_EXTENDED_BASE has bits outside"):
        bench.ring(channel)


@pytest.mark.parametrize(("name", "host", "compute", "copy"), CLASSES)
def test_launch_methods(make: Callable[[str], Bench], name: str, host: int, compute: int, copy: int) -> None:
    bench = make(name)
    channel = bench.channel(classes=(compute,), channel_class=host)
    bench.submit(channel, 0x20012000, compute, 0x200120AD, QMD_VA >> 8, 0x200120AF, 0)  # PCAS_B, nothing to do
    words = [0x800020B0 | 1 << 16]  # PCAS2_B, action 1: invalidate
    if compute == 0xC5C0:
        with pytest.raises(EmulatorRefusal, match="class 0xc5c0 has no method 0x2c0"):
            bench.submit(channel, *words)
    else:
        bench.submit(channel, *words)
        with pytest.raises(EmulatorRefusal, match="action 0x7 is not supported"):
            bench.submit(channel, 0x200120B0, 7)


@pytest.mark.parametrize(("name", "host", "compute", "copy"), CLASSES)
def test_other_generations_classes_are_no_objects(
    make: Callable[[str], Bench], name: str, host: int, compute: int, copy: int
) -> None:
    bench = make(name)
    channel = bench.channel(classes=(compute, copy), channel_class=host)
    other = 0xC7C0 if compute != 0xC7C0 else 0xC9C0
    with pytest.raises(EmulatorRefusal, match=f"SET_OBJECT class {other:#x}"):
        bench.submit(channel, 0x20012000, other)


@pytest.mark.parametrize(("name", "host", "compute", "copy"), CLASSES)
def test_copies_and_their_semaphores(
    make: Callable[[str], Bench], name: str, host: int, compute: int, copy: int
) -> None:
    bench = make(name)
    channel = bench.channel(COPY0, classes=(copy,), channel_class=host)
    bench.space.write(DATA_VA + 4096, b"across")
    move = [0x20048100, 0, DATA_VA + 4096, 0, DATA_VA + 8192, 0x20018106, 6, 0x200180C0, 0x182]
    bench.submit(channel, 0x20018000, copy, *move, 0x20038090, 0, DATA_VA, 7, 0x200180C0, 0x14)
    assert bench.space.read(DATA_VA + 8192, 6) == b"across" and bench.u64(DATA_VA) == 7
    wide = [0x20048090, 0, DATA_VA, 7, 1, 0x200180C0, 0x08000014]
    if copy in (0xC5B5, 0xC6B5):
        with pytest.raises(EmulatorRefusal, match=f"class {copy:#x} has no method 0x24c"):
            bench.submit(channel, *wide)
        return
    bench.submit(channel, *wide)
    assert bench.u64(DATA_VA) == 0x1_0000_0007


@pytest.mark.parametrize(
    ("name", "copy", "launch", "text"),
    [
        ("sm_75", 0xC5B5, 0x08000014, "bits 0x8000000 belong to no field"),
        ("sm_75", 0xC5B5, 0x00100182, "SRC_BYPASS_L2 = 0x1 is not supported"),
        ("sm_80", 0xC6B5, 0x00100182, "bits 0x100000 belong to no field"),
        ("sm_90", 0xC8B5, 0x00100182, "COPY_TYPE = 0x1 is not supported"),
        ("sm_90", 0xC8B5, 0x00800182, "MEMORY_SCRUB_ENABLE = 0x1 is not supported"),
        ("sm_90", 0xC8B5, 0x00000982, "FORCE_RMWDISABLE = 0x1 is not supported"),
        ("sm_100", 0xC9B5, 0x00000982, "bits 0x800 belong to no field"),
        ("sm_100", 0xC9B5, 0x00000183, "DATA_TRANSFER_TYPE = 0x3 is no known value"),
        ("sm_120", 0xCAB5, 0x00000183, "transfer type 3 is not supported"),
    ],
)
def test_copy_launches_that_are_refused(
    make: Callable[[str], Bench], name: str, copy: int, launch: int, text: str
) -> None:
    bench = make(name)
    channel = bench.channel(COPY0, classes=(copy,), channel_class=bench.gpu.chip.channel_classes[-1])
    words = [0x20048100, 0, DATA_VA, 0, DATA_VA + 64, 0x20018106, 4, 0x200180C0, launch]
    with pytest.raises(EmulatorRefusal, match=text):
        bench.submit(channel, 0x20018000, copy, *words)


@pytest.mark.parametrize(("copy", "name", "reaches"), [(0xC7B5, "sm_86", 17), (0xC8B5, "sm_90", 25)])
def test_copy_addresses(make: Callable[[str], Bench], copy: int, name: str, reaches: int) -> None:
    bench = make(name)
    channel = bench.channel(COPY0, classes=(copy,), channel_class=bench.gpu.chip.channel_classes[-1])
    bench.submit(channel, 0x20018000, copy, 0x20018100, (1 << reaches) - 1)
    with pytest.raises(EmulatorRefusal, match=r"OFFSET_IN_UPPER \(0x400\)"):
        bench.submit(channel, 0x20018100, 1 << reaches)


def test_counts_of_gpcs_beside_the_most_sms_are_refused(make: Callable[[str], Bench]) -> None:
    bench = make("sm_90")
    channel = bench.channel(classes=(0xCBC0,), channel_class=0xC86F)
    bench.space.write(QMD_VA, qmd(config=(5, 5, 0x3A), local_low=16))
    windows = [0x200220A8, 0x7294, 0, 0x200221EC, 0x7293, 0]
    local = [0x200221E4, 1, 0, 0x200320B9, 0, 0x10000, 1 << 16 | 0x84]
    with pytest.raises(EmulatorRefusal, match="NON_THROTTLED_C = 0x10084: counts of GPCs"):
        bench.submit(channel, 0x20012000, 0xCBC0, *windows, *local, 0x200120AD, QMD_VA >> 8, 0x800320B0)


def test_turing_has_no_widened_local_memory_register(make: Callable[[str], Bench]) -> None:
    bench = make("sm_75")
    channel = bench.channel(classes=(0xC5C0,), channel_class=0xC46F)
    with pytest.raises(EmulatorRefusal, match="bits 0x10000 belong to no field"):
        bench.submit(channel, 0x20012000, 0xC5C0, 0x200120BB, 1 << 16)


@pytest.mark.parametrize(("name", "refused"), [("sm_89", False), ("sm_90", True), ("sm_120", True)])
def test_userd_in_system_memory_wants_the_ring_there(make: Callable[[str], Bench], name: str, refused: bool) -> None:
    bench = make(name)
    channel = system_userd(bench)
    words = semaphore(DATA_VA, 3, RELEASE64)
    if refused:
        with pytest.raises(EmulatorRefusal, match=f"the ring at {channel.gpfifo_va:#x} is in video memory"):
            bench.submit(channel, *words)
    else:
        bench.submit(channel, *words)
        assert bench.u64(DATA_VA) == 3
    channel.userd.drop()


def test_userd_in_system_memory_wants_the_pushbuffer_there_too(make: Callable[[str], Bench]) -> None:
    bench = make("sm_90")
    channel = system_userd(bench)
    ring = bench.elsewhere.allocate(4096)  # type: ignore[attr-defined]
    channel.gpfifo_va = 0x7100_0000
    bench.space.map(Mapping(channel.gpfifo_va, 4096, ring, 0))
    with pytest.raises(EmulatorRefusal, match=f"a pushbuffer at {bench.push_va:#x} is in video memory"):
        bench.submit(channel, *semaphore(DATA_VA, 3, RELEASE64))
    ring.drop()
    channel.userd.drop()


def system_userd(bench: Bench) -> Channel:
    """A channel whose USERD is in another memory than its ring."""
    channel = bench.channel(channel_class=bench.gpu.chip.channel_classes[-1])
    channel.userd.drop()
    bench.elsewhere = other = type(bench.memory)(bench.memory.libc, "elsewhere", 1 << 20)  # type: ignore[attr-defined]
    channel.userd = other.allocate(4096)
    channel.userd.hold()  # the bench drops it too
    bench.space.map(Mapping(0x7000_0000, 4096, channel.userd, 0))
    return channel


@pytest.mark.parametrize(("engine", "code"), [(9, 39), (11, 41), (12, 70), (18, 85), (0x34, 126), (0x3D, 135), (1, 39)])
def test_errors_of_twenty_copy_engines(engine: int, code: int) -> None:
    assert copy_error(engine) == code
