"""Chips whose launch descriptors cannot set a 64-bit signal: the host does, once the engine is idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_launch import packed, recorder, straight_line, without_addresses

import hcqrt
from hcqrt.decode.pushbuffer import decode
from hcqrt.decode.qmd import decode_qmd
from hcqrt.nv.arch import CHIPS
from hcqrt.tools.check_frame import shipped_kernel

__all__ = ["recorder"]  # a fixture
N = 1000


@pytest.fixture
def dev(monkeypatch, system) -> Iterator[Any]:
    """An sm_86 that is told to use no release of its descriptors, as Turing cannot."""
    chip = CHIPS["sm_86"]
    arch = replace(chip.arch, qmd=replace(chip.arch.qmd, releases=()))
    monkeypatch.setitem(CHIPS, "sm_86", replace(chip, arch=arch))
    with hcqrt.open_device("NV:0", system) as device:
        yield device


@pytest.fixture
def fill(dev):
    return dev.program(shipped_kernel("sm_86", "fill"))


def test_the_packed_launch_emits_what_the_queue_methods_emit(dev, recorder):
    bufs = [dev.alloc(4096), dev.alloc(4096), dev.alloc(4096)]
    prg = dev.program(shipped_kernel("sm_86", "vector_add"))
    slot_a, slot_b = packed(dev, prg, bufs, (9,)), straight_line(dev, prg, bufs, (9,))
    assert without_addresses(recorder.streams[0]) == without_addresses(recorder.streams[1])
    assert slot_a[: prg.bank0_bytes] == slot_b[: prg.bank0_bytes]
    first, second = (decode_qmd(slot[prg.qmd_offset :][:256]) for slot in (slot_a, slot_b))
    assert first.pop("CONSTANT_BUFFER_ADDR_LOWER[0]") != second.pop("CONSTANT_BUFFER_ADDR_LOWER[0]")
    assert first == second
    assert not [name for name in first if name.startswith("RELEASE")]
    executes = [method.data for method in decode(recorder.streams[0]) if method.name == "SEM_EXECUTE"]
    assert executes == [0x0100_1003, 0x0310_0001, 0x0110_0001]  # wait; set the timeline and its time; progress


def test_launches_set_the_timeline_in_order(dev, fill):
    buf, before = dev.alloc(4 * N), dev.timeline_value
    for value in range(50):
        fill(buf, vals=(value, N), global_size=(4, 1, 1), local_size=(256, 1, 1))
    dev.synchronize()
    assert dev.timeline_signal.value == before + 49
    assert (np.frombuffer(buf.copyout(), np.uint32) == 49).all()
    assert fill(buf, vals=(1, N), global_size=(4, 1, 1), local_size=(256, 1, 1), wait=True) > 0


def test_a_chain_with_signals_between(dev, fill):
    bufs, signals = [dev.alloc(4 * N) for _ in range(3)], [dev.new_signal() for _ in range(3)]
    queue = dev.compute_queue()
    for index, (buf, signal) in enumerate(zip(bufs, signals, strict=True)):
        args = fill.fill_kernargs((buf,), (index, N))
        queue.exec(fill, args, (4, 1, 1), (256, 1, 1))
        if index:  # the first two launches are chained
            queue.signal(signal, 1 << 40 | index)
    queue.submit(dev)
    signals[2].wait(1 << 40 | 2, 10_000)
    assert [signal.value for signal in signals] == [0, 1 << 40 | 1, 1 << 40 | 2]
    assert signals[1].timestamp <= signals[2].timestamp
    for index, buf in enumerate(bufs):
        assert (np.frombuffer(buf.copyout(), np.uint32) == index).all()
