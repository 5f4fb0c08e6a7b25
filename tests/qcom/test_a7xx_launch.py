"""Launches on emulated Adreno 7xx devices, whose command processor checks each dispatch against its own reading."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest

import hcqrt
from hcqrt import Variable
from hcqrt.errors import DeviceFault, LaunchError
from hcqrt.tools.check_frame import shipped_kernel

pytestmark = pytest.mark.filterwarnings("ignore:.*never tried")
LOCALS = [(4, 1, 2), (4, 2, 1), (2, 3, 1), (4, 4, 3), (2, 6, 2), (8, 8, 1), (1, 12, 2), (1, 1024, 1), (32, 16, 2)]


@pytest.fixture(params=["a730", "a740", "a750"])
def seventh(request, adreno_machine):
    system = adreno_machine(request.param)
    with hcqrt.open_device("QCOM", system) as device:
        yield device
    assert system.refusals == []


@pytest.fixture
def ids(seventh):
    program = seventh.program(shipped_kernel(seventh.arch, "ids"))
    yield program
    program.close()


def indices(groups, local):
    """What the kernel `ids` stores: thread, group, local size, groups; each thread's 12 words, x fastest."""
    z, y, x, tz, ty, tx = np.indices((*groups[::-1], *local[::-1]), np.uint32)
    sizes = [np.full_like(x, n) for n in (*local, *groups)]
    return np.stack([tx, ty, tz, x, y, z, *sizes], axis=-1).ravel()


@pytest.mark.parametrize("local", LOCALS)
def test_every_thread_gets_its_numbers_whatever_the_local_size(seventh, ids, local):
    """The tile's height follows local y: 3, 5, 9 or 17, else the emulated GPU refuses the dispatch."""
    groups = (3, 2, 2)
    wanted = indices(groups, local)
    with seventh.alloc(wanted.nbytes) as buffer:
        ids(buffer, global_size=groups, local_size=local, wait=True)
        assert np.array_equal(np.frombuffer(buffer.copyout(), np.uint32), wanted)


def test_sizes_that_are_known_only_at_submission(seventh, ids):
    x, y, n = Variable("x", 1, 8), Variable("y", 1, 16), Variable("n", 1, 4)
    largest = indices((4, 1, 1), (8, 16, 1))
    with seventh.alloc(largest.nbytes) as buffer:
        value = Variable("value")
        queue = seventh.compute_queue().wait(seventh.timeline_signal, value - 1).memory_barrier()
        queue.exec(ids, ids.fill_kernargs((buffer,)), (n, 1, 1), (x, y, 1))
        queue.signal(seventh.timeline_signal, value).bind(seventh)
        for sizes in itertools.product((1, 8), (1, 6, 8, 12, 16), (1, 3)):
            wanted = indices((sizes[2], 1, 1), (*sizes[:2], 1))
            queue.submit(seventh, {x: sizes[0], y: sizes[1], n: sizes[2], value: seventh.next_timeline()})
            seventh.synchronize()
            assert np.array_equal(np.frombuffer(buffer.copyout(), np.uint32)[: wanted.size], wanted)


def test_a_store_to_nowhere_is_a_fault_and_the_device_opens_again(adreno_machine):
    system = adreno_machine("a750")
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(64) as buffer:
        fill = dev.program(shipped_kernel("a750", "fill"))
        with pytest.raises(DeviceFault, match=r"QCOM:0.*last launch: main"):
            fill(buffer, vals=(1, 1 << 30), global_size=(65535, 1, 1), local_size=(64, 1, 1), wait=True)
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(64) as buffer:
        buffer.fill(5)
        assert buffer.copyout() == b"\5" * 64


def test_limits_name_the_chip(seventh, ids):
    with seventh.alloc(4096) as buffer:
        with pytest.raises(LaunchError, match="2048 threads in a workgroup, the limit is 1024"):
            ids(buffer, global_size=(1, 1, 1), local_size=(1024, 2, 1))
        with pytest.raises(LaunchError, match=rf"shared memory.*{seventh.arch} has 32768"):
            ids(buffer, local_size=(1, 1, 1), dynamic_shared=40000)


def test_whatever_the_driver_is_given_begins_on_the_rendering_thread(monkeypatch, adreno_machine):
    """A submission starts on both threads: the other one would store a signal without waiting for shaders."""
    monkeypatch.setenv("HCQRT_CMD_BYTES", "16384")
    system = adreno_machine("a750")
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(4096) as buffer:
        channel, begins = dev.channel, []
        kick, ring = channel._kick, channel._cmd

        def keep(va, nwords):
            inside = ring.va <= va < ring.va + len(ring.mv)
            begins.append(
                struct.unpack_from("<2I", ring.mv if inside else bound._bound.mv, va - ring.va if inside else 0)
            )
            kick(va, nwords)

        channel._kick = keep
        ids = dev.program(shipped_kernel("a750", "ids"))
        ids(buffer, local_size=(8, 1, 1))  # packed
        value = dev.next_timeline()
        bound = dev.compute_queue().wait(dev.timeline_signal, value - 1).signal(dev.timeline_signal, value).bind(dev)
        bound.submit(dev)
        bound.submit(dev)
        args = ids.fill_kernargs((buffer,))
        queue = dev.compute_queue()
        for _ in range(40):  # in pieces
            queue.memory_barrier().exec(ids, args, (1, 1, 1), (8, 1, 1))
        queue.submit(dev)
        dev.synchronize()
        del channel._kick
    assert len(begins) > 5
    assert set(begins) == {(0x70970001, 0x08000001)}
