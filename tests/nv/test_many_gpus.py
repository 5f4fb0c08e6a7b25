"""As many GPUs as machines have, open in one process at a time: each has addresses enough for all its memory."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import hcqrt
from hcqrt import OutOfMemory
from hcqrt.nv.memory import VA_LIMIT, Reservation
from hcqrt.tools.check_frame import shipped_kernel

BIG = 180 << 30  # what the largest board holds, and a bit


def test_sixteen_large_gpus_are_open_at_a_time(machine):
    system = machine(nv=[dict(chip="sm_100", memory_bytes=192 << 30)] * 16)
    with ExitStack() as stack:
        devices = [stack.enter_context(hcqrt.open_device(f"NV:{index}", system)) for index in range(16)]
        for index in (0, 7, 15):
            dev = devices[index]
            buf = stack.enter_context(dev.alloc(BIG))
            last = buf.offset(BIG - 64, 64)
            dev.program(shipped_kernel("sm_100", "fill"))(last, vals=(index, 16), local_size=(32,))
            assert last.copyout() == bytes([index, 0, 0, 0]) * 16
    assert system.live_objects() == []


@pytest.mark.parametrize("chip", ["sm_75", "sm_86", "sm_90", "sm_120"])
def test_only_what_has_40_bit_addresses_lies_below_2_to_the_40(machine, chip):
    """nv-engine facts: GP entries, semaphores of the host class and QMD pointers; the rest has 49 bits or more."""
    with hcqrt.open_device("NV", machine(nv=[chip])) as dev, ExitStack() as stack:
        bound = dev.compute_queue().signal(dev.new_signal(), 1).bind(dev)
        rings = [*dev.kernargs.memories, *dev.compute_fifo._cmd.memories, *dev.copy_fifo._cmd.memories]
        low = [*rings, *dev._signals.pages, bound._bound.memory]
        assert all(memory.va + memory.nbytes <= VA_LIMIT for memory in low)
        kinds = ({}, {"cpu_access": True}, {"host": True})
        assert all(stack.enter_context(dev.alloc(64, **kind)).va_addr >= VA_LIMIT for kind in kinds)


def test_a_process_without_addresses_left_says_so(machine):
    system = machine()
    match = r"below 2\*\*40 .* close devices that this process has open"
    with ExitStack() as stack, pytest.raises(OutOfMemory, match=match):
        while True:
            stack.callback(Reservation(system).close)
