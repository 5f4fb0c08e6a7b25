"""The driver of a7xx machines, whose kernels leave scheduling to the GPU's own controller (qcom.md §1.7, 1.8, 1.10)."""

from __future__ import annotations

import struct

import pytest
from kgsl_client import PLAIN, QUEUED, MakeKgsl, Stream, errno_of

from hcqrt.emu.qcom.kgsl.options import parse_options

SYSFS = "/sys/class/kgsl/kgsl-3d0"
UNMAPPED = 0x70_0000_0000
LPAC = 0x20000000
CHIPS = {
    "a730": (0x07030001, 2 << 20, "Adreno730v2"),
    "a740": (0x43050A01, 3 << 20, "Adreno740v2"),
    "a750": (0x43051401, 3 << 20, "Adreno750v2"),
}


@pytest.mark.parametrize("chip", CHIPS)
def test_what_a_machine_says_of_its_chip(make_kgsl: MakeKgsl, chip: str) -> None:
    """The chip id tells all: gpu_id is 0."""
    chip_id, gmem, model = CHIPS[chip]
    kgsl = make_kgsl(chip)
    assert kgsl.property(1, "IIIxxxxQI4xQ") == (1, chip_id, 1, 0, 0, gmem)
    assert kgsl.property(0x29, "32s")[0].rstrip(b"\0").decode() == model
    assert kgsl.system.read_text(f"{SYSFS}/gpu_model") == f"{model}\n"
    assert (kgsl.property(0x17, "I"), kgsl.property(0x2B, "I"), kgsl.property(0x2A, "I")) == ((16,), (1,), (chip_id,))


@pytest.mark.parametrize(
    ("chip_id", "name"), [(0x43051401, "a750"), (0x43050A00, "a740"), (0x07030001, "a730"), (0x06090001, "a690")]
)
def test_a_chip_may_be_named_by_its_id(chip_id: int, name: str) -> None:
    options = parse_options({"chip_id": chip_id})
    assert (options.chip.name, options.chip_id) == (name, chip_id)


def test_an_unknown_id_alone_names_no_chip() -> None:
    with pytest.raises(ValueError, match=r"no chip has the id 0x44050001; known are .*0x43051401 \(a750\)"):
        parse_options({"chip_id": 0x44050001})
    assert parse_options({"chip": "a750", "chip_id": 0x44050001}).chip.name == "a750"


def test_a_low_priority_context_is_accepted(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl("a740")
    kgsl.call("context_destroy", id=kgsl.context(PLAIN | LPAC))


def test_a_queue_holds_126_commands(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl("a750", queue_timeout_ms=20)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    for value in range(1, 127):
        assert kgsl.submit(context, stream.write(value)) == value
    assert errno_of(kgsl.submit, context, stream.write(127)) == "ETIMEDOUT"
    assert kgsl.stamp(context, QUEUED) == 126
    kgsl.system.resume()
    kgsl.wait(context, 126)
    assert stream.out[0] == 126


@pytest.mark.parametrize(("chip", "window_ms"), [("a630", 3000), ("a730", 2000)])
@pytest.mark.parametrize(("late_ns", "last"), [(1, "EPROTO"), (-1, "EDEADLK")])
def test_faults_count_together_within_this_time(
    make_kgsl: MakeKgsl, chip: str, window_ms: int, late_ns: int, last: str
) -> None:
    """Three are recovered from, and the fourth within the window loses the context."""
    kgsl = make_kgsl(chip)
    stream, context = Stream(kgsl), kgsl.context()
    now = [0]
    kgsl.system.clock_ns = lambda: now[0]  # type: ignore[method-assign]  # a clock that the test moves
    for number in range(1, 4):
        kgsl.submit(context, stream.write(1, va=UNMAPPED))
        assert errno_of(kgsl.wait, context, number) == "EPROTO"
    now[0] = window_ms * 1_000_000 + late_ns
    kgsl.submit(context, stream.write(1, va=UNMAPPED))
    assert errno_of(kgsl.wait, context, 4) == last
    assert kgsl.system.read_text(f"{SYSFS}/dispatch/fault_throttle_time") == f"{window_ms}\n"


def test_options_of_an_entry_win(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl("a750", queue_depth=2, queue_timeout_ms=1)
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1))
    kgsl.submit(context, stream.write(2))
    assert errno_of(kgsl.submit, context, stream.write(3)) == "ETIMEDOUT"
    kgsl.system.resume()


def test_an_event_of_a7xx_through_the_node(make_kgsl: MakeKgsl) -> None:
    """64 bits, written by CP_EVENT_WRITE7, seen through the mapping."""
    kgsl = make_kgsl("a740")
    stream, context = Stream(kgsl), kgsl.context()
    words = (0x70468005, 1 << 27 | 1 << 20 | 4, stream.data_va & 0xFFFFFFFF, stream.data_va >> 32, 7, 9)
    kgsl.wait(context, kgsl.submit(context, stream.put(words)))
    assert struct.unpack("<2I", stream.data.mv[:8]) == (7, 9)
