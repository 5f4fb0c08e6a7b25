"""Buffers on an emulated device: what may be copied in and out, parts, symbols, sharing, and use after close."""

from __future__ import annotations

import array
import ctypes
import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hcqrt
from hcqrt import HCQError, Variable

KINDS = [{}, {"cpu_access": True}, {"host": True}, {"host": True, "uncached": True}, {"uncached": True}]
SOURCES = {
    "bytes": b"12345678", "bytearray": bytearray(b"12345678"), "readonly": memoryview(b"12345678"),
    "array": array.array("I", [1, 2]), "ctypes": (ctypes.c_int * 2)(3, 4), "words": memoryview(bytearray(8)).cast("I"),
    "float32": np.arange(2, dtype=np.float32), "rows": np.arange(8, dtype=np.uint8).reshape(2, 4),
    "record": np.zeros(1, [("a", "i4"), ("b", "f4")]), "big endian": np.arange(1, dtype=">f8"),
    "scalar": np.array(3.0), "bools": np.ones(8, bool), "empty": b"", "empty rows": np.empty((0, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_memory_takes_and_gives_bytes(dev, kind):
    with dev.alloc(5000, **kind) as buf:
        data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
        buf.copyin(data)
        assert buf.copyout() == data.tobytes()
        visible = kind.get("host") or kind.get("cpu_access")
        if visible:
            assert buf.cpu_view().tobytes() == data.tobytes()
        else:
            with pytest.raises(HCQError, match=r"not mapped for the host: alloc\(cpu_access=True\)"):
                buf.cpu_view()


@pytest.mark.parametrize("name", SOURCES)
def test_anything_with_the_buffer_protocol_can_be_copied_in(dev, name):
    with dev.alloc(64) as buf:
        buf.fill(0xEE)
        buf.copyin(SOURCES[name])
        raw = memoryview(SOURCES[name]).tobytes()
        assert buf.copyout() == raw + b"\xee" * (64 - len(raw))


@pytest.mark.parametrize("data", [np.arange(8)[::2], np.ones((2, 3)).T], ids=["strided", "columns first"])
def test_memory_in_another_order_is_refused(dev, data):
    with dev.alloc(64) as buf, pytest.raises(ValueError, match="not contiguous"):
        buf.copyin(data)


def test_copyout_fills_what_it_is_given(dev):
    with dev.alloc(64) as buf:
        buf.copyin(np.arange(16, dtype=np.float32))
        into = np.zeros((2, 4), np.float32)
        assert buf.copyout(into) is into
        assert into.ravel().tolist() == list(range(8))
        assert buf.copyout(bytearray()) == b""
        with pytest.raises(ValueError, match="writable"):
            buf.copyout(bytes(4))
        with pytest.raises(ValueError, match="65 bytes asked of a buffer of 64"):
            buf.copyout(bytearray(65))
        with pytest.raises(ValueError, match="65 bytes do not fit the buffer of 64"):
            buf.copyin(bytes(65))


@pytest.mark.parametrize(("byte", "error"), [(-1, ValueError), (256, ValueError), (1.0, TypeError)])
def test_a_fill_takes_a_byte(dev, byte, error):
    with dev.alloc(8) as buf, pytest.raises(error):
        buf.fill(byte)


@pytest.mark.parametrize(("nbytes", "error"), [(0, ValueError), (-4, ValueError), (1.5, TypeError), ("8", TypeError)])
def test_a_size_is_a_positive_integer(dev, nbytes, error):
    with pytest.raises(error):
        dev.alloc(nbytes)
    with pytest.raises(ValueError, match="no images"):
        dev.alloc(64, image=(4, 4, "RGBA"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.sampled_from([int, np.int64, np.uint8])),
                min_size=1, max_size=6), st.binary(min_size=300, max_size=300))  # fmt: skip
def test_parts_of_parts_name_the_same_bytes(dev, steps, data):
    with dev.alloc(300) as whole:
        whole.copyin(data)
        part, shadow = whole, memoryview(data)
        for offset, size, integer in steps:
            start, length = integer(offset % 256), integer(size % 256)
            if int(start) + int(length) > part.size:
                with pytest.raises(ValueError, match="leaves the buffer"):
                    part.offset(start, length)
                continue
            part, shadow = part.offset(start, length), shadow[int(start) : int(start) + int(length)]
            assert type(part.va_addr) is int and part.size == len(shadow)
            assert part.copyout() == shadow.tobytes()


def test_a_part_is_closed_with_its_parent_and_frees_nothing(dev):
    whole = dev.alloc(64)
    part = whole.offset(16)
    assert part.size == 48
    whole.offset(0, 8).close()
    whole.copyin(b"alive")
    whole.close()
    whole.close()
    for buf in (whole, part):
        for use in (buf.copyout, buf.cpu_view, lambda b=buf: b.copyin(b"x"), lambda b=buf: b.offset(0)):
            with pytest.raises(HCQError, match="was closed"):
                use()


def test_the_host_cannot_touch_what_only_a_submission_knows(dev):
    with dev.alloc(64, host=True) as buf:
        for part in (buf.offset(Variable("o", 0, 8), 8), buf.offset(0, Variable("n", 0, 8))):
            for use in (part.copyout, part.cpu_view, lambda p=part: p.copyin(b"x"), lambda p=part: p.fill(1)):
                with pytest.raises(HCQError, match="is a symbol"):
                    use()


def test_arrays_and_capsules_keep_a_dropped_buffer(dev):
    arrays = [np.from_dlpack(dev.alloc(64, host=True)), dev.alloc(64, host=True).as_numpy("u1", (64,))]
    gc.collect()
    for value, kept in enumerate(arrays, 1):
        kept[:] = value
    with dev.alloc(64, host=True) as other:
        other.fill(9)
        dev.synchronize()
        assert [kept.tolist() for kept in arrays] == [[1] * 64, [2] * 64]
    before = dev.memory_stats()["in_use"]
    with pytest.warns(ResourceWarning, match="dropped without close"):
        arrays.clear()
        kept = None
        gc.collect()
    dev.alloc(64, host=True).close()
    assert dev.memory_stats()["in_use"] < before


def test_a_capsule_is_taken_after_the_work_before_it(dev, system):
    with dev.alloc(64, host=True) as buf:
        system.inject("stall")
        buf.fill(7)
        assert buf.cpu_view()[0] == 0
        system.resume()
        assert np.from_dlpack(buf).tolist() == [7] * 64


def test_arrays_have_the_shape_asked_for(dev):
    with dev.alloc(64, cpu_access=True) as buf:
        assert buf.as_numpy("f4", (4, 4)).shape == (4, 4)
        assert buf.as_numpy("f4", (0,)).size == 0
        with pytest.raises(ValueError, match="needs 80 bytes, the buffer has 64"):
            buf.as_numpy("f4", (4, 5))
        with pytest.raises(ValueError, match="is negative"):
            buf.as_numpy("f4", (-4, -4))


def test_memory_is_counted(dev):
    stats = dev.memory_stats()
    assert set(stats) == {"in_use", "cached", "total", "peak"}
    with dev.alloc(1 << 20):
        assert dev.memory_stats()["in_use"] - stats["in_use"] >= 1 << 20
    after = dev.memory_stats()
    assert after["in_use"] == stats["in_use"] and after["cached"] >= 1 << 20 and after["peak"] > after["in_use"]


def test_copies_name_memory_of_their_own_device_only(machine):
    system = machine(nv=["sm_86", "sm_86"])
    with hcqrt.open_device("NV:0", system) as dev, hcqrt.open_device("NV:1", system) as other:
        here, there, closed = dev.alloc(64), other.alloc(64), dev.alloc(64)
        closed.close()
        with pytest.raises(hcqrt.LaunchError, match=r"is of NV:1, the queue is of NV:0"):
            dev.copy_queue().copy(here, there, 8)
        with pytest.raises(HCQError, match="was closed; allocate another"):
            dev.copy_queue().copy(closed, here, 8)
        with pytest.raises(ValueError, match="leave the buffer"):
            dev.copy_queue().copy(here, here, 65)
        with pytest.raises(ValueError, match="leave the buffer"):
            dev.copy_queue().copy_2d(here, here, 8, 3, 32, 32)
        with pytest.raises(ValueError, match="-1 bytes"):
            dev.copy_queue().fill(here, -1, 0)
        with pytest.raises(HCQError, match="made on NV:0, it cannot go to NV:1"):
            dev.copy_queue().submit(other)
        here.close()
        there.close()


def test_a_fill_that_is_interrupted_once_it_runs_is_waited_for(dev, monkeypatch):
    kick, value = dev.copy_fifo._kick, dev.timeline_value

    def interrupted(va, nwords):
        kick(va, nwords)
        raise KeyboardInterrupt

    with dev.alloc(64) as buf:
        with monkeypatch.context() as patch:
            patch.setattr(dev.copy_fifo, "_kick", interrupted)
            with pytest.raises(KeyboardInterrupt):
                buf.fill(1)
        assert dev.timeline_value == value + 1  # else the next work would not wait for it
        assert buf.copyout() == b"\1" * 64
