"""Queues against the other reading of the headers: what hcqrt encodes, the emulated GPU reads as it was meant."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import hcqrt
from hcqrt.emu.system import EmulatedSystem
from hcqrt.nv.queue import NVComputeQueue, NVCopyQueue

VA = st.integers(0, (1 << 40) // 16 - 1).map(lambda n: 16 * n)
U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
STEPS = st.one_of(
    st.tuples(st.just("wait"), VA, U64),
    st.tuples(st.just("signal"), VA, U64),
    st.tuples(st.just("barrier")),
    st.tuples(st.just("launch"), st.integers(0, (1 << 32) - 1)),
    st.tuples(st.just("local"), VA, U32),
)
BUFFER = st.integers(0, 3)
COPIES = st.tuples(VA, VA, st.integers(1, 5 << 31))


class Signal:
    def __init__(self, va: int) -> None:
        self.value_va = va


def build(queue: Any, steps: list[tuple[Any, ...]]) -> list[tuple[int, int, int]]:
    """Put the steps on a queue; returns the method writes they mean, taken from the facts' tables by hand."""
    wanted: list[tuple[int, int, int]] = []
    for name, *args in steps:
        if name in ("wait", "signal"):
            va, value = args
            (queue.wait if name == "wait" else queue.signal)(Signal(va), value)
            execute = 0x01001003 if name == "wait" else 0x03100001
            halves = (va & 0xFFFFFFFF, va >> 32, value & 0xFFFFFFFF, value >> 32, execute)
            wanted += [(0, 0x5C + 4 * i, half) for i, half in enumerate(halves)]
        elif name == "barrier":
            queue.memory_barrier()
            wanted.append((1, 0x1698, 0x1011))
        elif name == "launch":
            queue.launch(args[0] << 8)
            wanted += [(1, 0x2B4, args[0]), (1, 0x2C0, 3)]
        else:
            queue.local_memory(args[0], args[1], 0x1FF)
            wanted += [(1, 0x790, args[0] >> 32), (1, 0x794, args[0] & 0xFFFFFFFF)]
            wanted += [(1, 0x2E4, 0), (1, 0x2E8, args[1]), (1, 0x2EC, 0x1FF)]
    return wanted


def parsed(words: list[int]) -> list[tuple[int, int, int]]:
    """Method writes by the emulator's own parser."""
    from hcqrt.emu.nv.pushbuffer import methods

    return [(subchannel, offset, data) for subchannel, offset, data in methods(words)]


class NoDevice:
    compute_class, copy_class = 0xC7C0, 0xC7B5
    schedule_word = 0x8003_20B0  # immediate 3 to method 0x2C0 of subchannel 1

    def check_signal(self, signal):
        """Every signal is this device's own."""


@given(st.lists(STEPS, max_size=20))
def test_compute_words_are_read_as_they_were_meant(steps):
    queue = NVComputeQueue(NoDevice())
    wanted = build(queue, steps)
    assert parsed(queue.words) == wanted


@given(COPIES)
def test_copies_cover_the_range_without_gaps(copy):
    dest, src, nbytes = copy
    queue = NVCopyQueue(NoDevice()).copy(dest, src, nbytes)
    writes, done = parsed(queue.words), 0
    for start in range(0, len(writes), 6):
        piece = {offset: data for _, offset, data in writes[start : start + 6]}
        assert (piece[0x400] << 32 | piece[0x404], piece[0x408] << 32 | piece[0x40C]) == (src + done, dest + done)
        assert 0 < piece[0x418] < 1 << 32 and piece[0x300] == 0x186
        done += piece[0x418]
    assert done == nbytes


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(BUFFER, BUFFER, st.integers(1, 4000)), min_size=1, max_size=15), st.integers(0, 1 << 30))
def test_random_copies_and_fills_do_what_a_model_does(work, seed):
    random = Random(seed)
    system = EmulatedSystem(nv=["sm_86"])
    with hcqrt.open_device("NV", system) as dev:
        model = [bytearray(random.randbytes(4096)) for _ in range(4)]
        bufs = [dev.alloc(4096) for _ in model]
        for buf, data in zip(bufs, model, strict=True):
            buf.copyin(data)
        for dest, src, nbytes in work:
            value = dev.next_timeline()
            queue = dev.copy_queue().wait(dev.timeline_signal, value - 1)
            if dest == src:
                queue.fill(bufs[dest], nbytes, nbytes & 0xFF)
                model[dest][:nbytes] = bytes([nbytes & 0xFF]) * nbytes
            else:
                queue.copy(bufs[dest], bufs[src], nbytes)
                model[dest][:nbytes] = model[src][:nbytes]
            queue.signal(dev.timeline_signal, value).submit(dev)
        assert [bytes(buf.copyout()) for buf in bufs] == [bytes(data) for data in model]
        for buf in bufs:
            buf.close()
    assert system.live_objects() == []
