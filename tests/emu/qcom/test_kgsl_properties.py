"""Properties, power levels, performance counters and sysfs texts of the emulated KGSL."""

from __future__ import annotations

import errno
import struct

import pytest
from kgsl_client import PLAIN, Buffer, Kgsl, MakeKgsl, Stream

SYSFS = "/sys/class/kgsl/kgsl-3d0"
PWR_CONSTRAINT = 0x12


@pytest.mark.parametrize(
    ("chip", "chip_id", "gmem"),
    [("a630", 0x06030001, 1 << 20), ("a650", 0x06050002, 1152 << 10), ("a660", 0x06060001, 1536 << 10)],
)
def test_device_info(make_kgsl: MakeKgsl, chip: str, chip_id: int, gmem: int) -> None:
    kgsl = make_kgsl(chip)
    assert kgsl.property(1, "IIIxxxxQI4xQ") == (1, chip_id, 1, 0, int(chip[1:]), gmem)
    assert kgsl.property(0x29, "32s")[0].rstrip(b"\0").decode() == kgsl.system.read_text(f"{SYSFS}/gpu_model").strip()  # type: ignore[union-attr]


def test_a_machine_may_say_that_it_is_another_chip(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(chip_id=0x43050A01, gpu_id=0, model="Adreno740v2")
    assert kgsl.property(1, "IIIxxxxQI4xQ")[1:5] == (0x43050A01, 1, 0, 0)
    assert kgsl.property(0x29, "32s")[0].startswith(b"Adreno740v2\0")


@pytest.mark.parametrize(
    ("number", "layout", "expected"),
    [
        (6, "i", (1,)),
        (0x17, "I", (15,)),
        (0x18, "I", (48,)),
        (0x1A, "I", (32,)),
        (0x25, "I", (0,)),
        (0x2B, "I", (0,)),
        (0x2C, "Q", (0x40_0000_0000,)),
        (0x2D, "I", (0,)),
        (0x30, "I", (0,)),
        (8, "II8x", (3, 14)),
    ],
)
def test_plain_properties(kgsl: Kgsl, number: int, layout: str, expected: tuple[int, ...]) -> None:
    assert kgsl.property(number, layout) == expected


def test_lengths_of_properties(kgsl: Kgsl) -> None:
    for number, right in ((8, 16), (9, 4), (0x2C, 8)):
        for wrong in (right - 1, right + 1):
            buffer = Buffer(bytes(32))
            assert kgsl.error("getproperty", type=number, value=buffer.address, size=wrong) == errno.EINVAL
    half = Buffer(b"\xee" * 40)
    kgsl.call("getproperty", type=1, value=half.address, size=8)
    assert half.raw.raw[:12] == struct.pack("<II", 1, 0x06030001) + b"\xee" * 4
    kgsl.call("getproperty", type=1, value=kgsl.pointer("64x"), size=64)


def test_missing_properties(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(missing_properties=["GPU_MODEL", "KGSL_PROP_UCODE_VERSION", PWR_CONSTRAINT])
    buffer = Buffer(bytes(64))
    for number, size in ((0x29, 32), (0x15, 8)):
        assert kgsl.error("getproperty", type=number, value=buffer.address, size=size) == errno.EINVAL
    assert kgsl.error("setproperty", type=PWR_CONSTRAINT, value=buffer.address, size=24) == errno.EINVAL
    assert kgsl.error("getproperty", type=0x7F, value=buffer.address, size=4) == errno.ENODEV
    assert kgsl.property(0x18, "I") == (48,)


def test_capabilities_list_the_properties(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(missing_properties=[0x29])
    assert kgsl.call("getproperty", type=0x27)["size"] == 24
    inner = Buffer(struct.pack("<QI4x", 0, 0))
    assert kgsl.property(0x27, "QQI4x", 0, 0, 1)[1] == 16
    kgsl.property(0x27, "QQI4x", inner.address, 16, 1)
    (count,) = inner.unpack("8xI")
    numbers = Buffer(bytes(4 * count))
    inner = Buffer(struct.pack("<QI4x", numbers.address, count))
    kgsl.property(0x27, "QQI4x", inner.address, 16, 1)
    found = set(numbers.unpack(f"{count}I"))
    assert {1, 2, 8, 9, 0x13, 0x28, 0x2C} <= found and 0x29 not in found and len(found) == count
    buffer = Buffer(struct.pack("<QQI4x", 0, 0, 2))
    assert kgsl.error("getproperty", type=0x27, value=buffer.address, size=24) == errno.EOPNOTSUPP


# power


def constrain(kgsl: Kgsl, context: int, kind: int, level: int = 0, *, size: int = 4, outer: int = 24) -> None:
    value = kgsl.pointer("IIQQ", kind, context, kgsl.pointer("I", level), size)
    kgsl.call("setproperty", type=PWR_CONSTRAINT, value=value, size=outer)


def clock(kgsl: Kgsl) -> int:
    return int(kgsl.system.read_text(f"{SYSFS}/gpuclk") or "")


def test_a_power_level_acts_on_submissions_that_carry_it(kgsl: Kgsl) -> None:
    stream, context, flagged = Stream(kgsl), kgsl.context(), kgsl.context(PLAIN | 0x800)
    slow = clock(kgsl)
    constrain(kgsl, context, 1, 1)
    constrain(kgsl, flagged, 1, 1)
    kgsl.submit(context, stream.write(1))
    assert clock(kgsl) == slow, "neither the context nor the command asked for it"
    kgsl.submit(context, stream.write(1), flags=0x800)
    fast = clock(kgsl)
    assert fast == int(kgsl.system.read_text(f"{SYSFS}/max_gpuclk") or "") > slow
    constrain(kgsl, context, 0, size=0)
    assert clock(kgsl) == slow
    kgsl.submit(flagged, stream.write(1))
    assert clock(kgsl) == fast
    kgsl.call("context_destroy", id=flagged)
    assert clock(kgsl) == slow


@pytest.mark.parametrize(
    ("kind", "level", "size", "outer"), [(1, 2, 4, 24), (1, 1, 8, 24), (1, 1, 4, 16), (5, 1, 4, 24)]
)
def test_bad_power_levels(kgsl: Kgsl, kind: int, level: int, size: int, outer: int) -> None:
    with pytest.raises(OSError, match="SETPROPERTY") as failure:
        constrain(kgsl, kgsl.context(), kind, level, size=size, outer=outer)
    assert failure.value.errno == errno.EINVAL


def test_power_levels_are_a_contexts(kgsl: Kgsl) -> None:
    with pytest.raises(OSError, match="context 99"):
        constrain(kgsl, 99, 1, 1)
    assert kgsl.error("setproperty", type=1, value=8, size=40) == errno.EINVAL


# counters


def test_the_always_on_counter(kgsl: Kgsl) -> None:
    assert kgsl.error("counter_put", group=0x1B) == errno.EINVAL
    entry = struct.pack("<IIQ", 0x1B, 0, 0)
    reads = Buffer(entry * 2)
    assert kgsl.error("counter_read", reads=reads.address, count=2) == errno.EINVAL, "it was not taken"
    got = kgsl.call("counter_get", group=0x1B, countable=0)
    assert (got["offset"], got["offset_hi"]) == (0x980, 0x981)
    before = kgsl.system.clock_ns()
    kgsl.call("counter_read", reads=reads.address, count=2)
    _, _, one, _, _, two = reads.unpack("IIQIIQ")
    assert before * 12 // 625 <= one <= two <= kgsl.system.clock_ns() * 12 // 625
    kgsl.call("counter_put", group=0x1B)
    assert kgsl.error("counter_put", group=0x1B) == errno.EINVAL


def test_other_counters(kgsl: Kgsl) -> None:
    assert kgsl.error("counter_get", group=0x37) == errno.EINVAL
    assert kgsl.error("counter_get", group=0x1B, countable=1) == errno.EINVAL and kgsl.system.refusals == []
    assert kgsl.error("counter_get", group=0xA, countable=3) == errno.EBUSY and "0xa" in kgsl.system.refusals[0]
    assert kgsl.call("counter_query", group=0xA)["max_counters"] == 0
    listed = Buffer(b"\xee" * 8)
    assert kgsl.call("counter_query", group=0x1B, countables=listed.address, count=2)["max_counters"] == 1
    assert listed.raw.raw[:8] == bytes(4) + b"\xee" * 4
    assert kgsl.error("counter_query", group=0x37) == errno.EINVAL
    assert kgsl.error("counter_read", reads=8, count=0) == errno.EINVAL


def test_sysfs(kgsl: Kgsl) -> None:
    names = {"gpu_model", "gpuclk", "idle_timer", "max_pwrlevel", "min_pwrlevel", "devfreq", "force_clk_on", "dispatch"}
    assert names <= set(kgsl.system.listdir(SYSFS))
    assert kgsl.system.read_text(f"{SYSFS}/dispatch/fault_throttle_burst") == "3\n"
    assert kgsl.system.stat_text("/dev/kgsl-3d0").startswith("crw-rw-rw-")


def test_properties_of_a_context(kgsl: Kgsl) -> None:
    context = kgsl.context()
    assert kgsl.property(0x28, "QIII4x", 0, 0, 1, context)[1] == 8, "a size of 0 asks for the size"
    for record, expected in (((0, 8, 2, context), errno.EOPNOTSUPP), ((0, 8, 1, 99), errno.EINVAL)):
        value = kgsl.pointer("QIII4x", *record)
        assert kgsl.error("getproperty", type=0x28, value=value, size=24) == expected
    assert kgsl.error("getproperty", type=0x28, value=value, size=16) == errno.EINVAL


@pytest.mark.parametrize("context", [0, 99])
def test_reset_status_of_no_context(kgsl: Kgsl, context: int) -> None:
    assert kgsl.error("getproperty", type=9, value=kgsl.pointer("I", context), size=4) == errno.EINVAL


def test_memory_of_the_machine(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(memory_bytes=3 << 30)
    assert "MemTotal: 3145728 kB" in " ".join((kgsl.system.read_text("/proc/meminfo") or "").split())
