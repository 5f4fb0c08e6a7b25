"""Field reports 12 to 15: memory that is only cached, leaks, failing mmap and large pages, copies above 4 GiB."""

from __future__ import annotations

import errno
import gc
import warnings

import numpy as np
import pytest

import hcqrt
from hcqrt.tools.check_frame import shipped_kernel

MIB = 1 << 20


def sizes_in_use(system) -> int:
    return len(system.live_objects())


def test_field_report_12_cached_memory_is_dropped_before_memory_runs_out(machine):
    system = machine(nv=[dict(chip="sm_86", memory_bytes=64 * MIB)])
    with hcqrt.open_device("NV", system) as dev:
        for step in range(20):
            dev.alloc(3 * MIB + step * 65536).close()
        assert dev.memory_stats()["cached"] > 0
        dev.alloc(48 * MIB).close()
        with pytest.raises(MemoryError, match=r"\d+ bytes asked, \d+ in use, \d+ cached, \d+ in all") as failure:
            dev.alloc(80 * MIB)
        assert isinstance(failure.value, hcqrt.OutOfMemory)
        with dev.alloc(MIB) as small:
            dev.program(shipped_kernel("sm_86", "fill"))(small, vals=(7, 256), local_size=(256, 1, 1))
            assert np.frombuffer(small.copyout(), np.uint32)[:256].tolist() == [7] * 256


def test_field_report_13_no_file_is_kept_per_mapping(machine):
    system = machine(fd_limit=64)
    with hcqrt.open_device("NV", system) as dev:
        held = [dev.alloc(4096, cpu_access=True) for _ in range(500)]
        for number, buf in enumerate(held):
            buf.cpu_view()[0] = number & 0xFF
        assert [buf.cpu_view()[0] for buf in held] == [number & 0xFF for number in range(500)]
        for buf in held:
            buf.close()


def test_field_report_13_launches_leave_nothing_behind(dev, system):
    prg = dev.program(shipped_kernel("sm_86", "fill"))
    with dev.alloc(4096) as buf:
        args = dict(vals=(1, 32), global_size=(1, 1, 1), local_size=(32, 1, 1))
        gc.collect()
        gc.disable()
        try:
            for _ in range(2000):
                prg(buf, **args)
            dev.synchronize()
            before = sizes_in_use(system), len(gc.get_objects())
            for _ in range(20_000):
                prg(buf, **args)
            dev.synchronize()
            after = sizes_in_use(system), len(gc.get_objects())
        finally:
            gc.enable()
        assert after[0] == before[0]
        assert abs(after[1] - before[1]) <= 100


def test_field_report_13_programs_that_are_dropped_give_their_memory_back(dev):
    binary = shipped_kernel("sm_86", "spill")
    dev.program(binary).close()
    dev.synchronize()
    dev.alloc(4096).close()
    before = dev.memory_stats()["in_use"]
    for number in range(300):
        prg = dev.program(binary)
        if number % 2:
            prg.close()
        del prg
    gc.collect()
    dev.synchronize()
    dev.alloc(4096).close()
    assert dev.memory_stats()["in_use"] == before


def test_a_buffer_that_is_dropped_warns_and_gives_its_memory_back(dev):
    before = dev.memory_stats()["in_use"]
    buf = dev.alloc(1 << 16)
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del buf
        gc.collect()
    dev.alloc(4096).close()
    assert dev.memory_stats()["in_use"] == before


@pytest.mark.parametrize("nth", range(1, 12))
def test_field_report_14_a_failing_mmap_is_an_error_and_leaves_nothing(machine, nth):
    system = machine()
    system.inject("mmap", nth=nth, errno=errno.ENOMEM)
    try:
        with hcqrt.open_device("NV", system) as dev:
            dev.alloc(4096, cpu_access=True).close()
    except hcqrt.HCQError as error:
        assert "ENOMEM" in str(error) and "bytes" in str(error)
    assert system.live_objects() == []


def test_field_report_14_a_failing_mmap_of_a_buffer_leaves_the_device_usable(dev, system):
    dev.alloc(4096, cpu_access=True).close()
    before = sizes_in_use(system)
    system.inject("mmap", nth=1, errno=errno.ENOMEM)
    with pytest.raises(hcqrt.HCQError, match=r"ENOMEM.*\d+ bytes.*ulimit"):
        dev.alloc(7 * MIB, cpu_access=True)
    assert sizes_in_use(system) == before
    dev.alloc(7 * MIB, cpu_access=True).close()


def test_field_report_14_large_host_pages_are_honoured(machine):
    system = machine(page_size=65536)
    with hcqrt.open_device("NV", system) as dev:
        buf = dev.alloc(5000, host=True)
        assert buf.memory.nbytes == 65536
        buf.copyin(bytes(range(200)) * 25)
        assert bytes(buf.copyout()) == bytes(range(200)) * 25
        buf.close()
    lengths = [obj.nbytes for obj in getattr(system, "mappings", [])]
    assert all(length % 65536 == 0 for length in lengths)


def test_field_report_15_copies_above_4_gib_are_whole(machine):
    system = machine(nv=[dict(chip="sm_86", memory_bytes=24 << 30)])
    size = (4 << 30) + 5
    marks = (0, (4 << 30) - 3, 4 << 30, size - 4)
    with hcqrt.open_device("NV", system) as dev, dev.alloc(size) as src, dev.alloc(size) as dest:
        for number, place in enumerate(marks):
            src.offset(place, 4).copyin(bytes([number + 1] * 4))
        queue = dev.copy_queue()
        value = dev.next_timeline()
        queue.wait(dev.timeline_signal, value - 1).copy(dest, src, size).signal(dev.timeline_signal, value).submit(dev)
        dev.synchronize()
        lengths = [m.data for m in decode_copy(queue.words) if m.name == "LINE_LENGTH_IN"]
        assert sum(lengths) == size and all(0 < length <= 0xFFFFFFFF for length in lengths)
        with dev.alloc(4) as _:
            for place in marks:
                assert bytes(dest.offset(place, 4).copyout()) == bytes(src.offset(place, 4).copyout())
        assert bytes(dest.offset(4 << 30, 4).copyout()) == bytes([3, 4, 4, 4])


def decode_copy(words):
    from hcqrt.decode.pushbuffer import decode

    return decode(words)


def test_no_warning_is_raised_when_everything_is_closed(machine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hcqrt.open_device("NV", machine()) as dev, dev.alloc(4096) as buf:
            buf.copyin(b"abc")
            assert bytes(buf.copyout()[:3]) == b"abc"
        gc.collect()


def test_a_buffer_that_outlives_its_device_does_not_warn(machine):
    with hcqrt.open_device("NV", machine()) as dev:
        buf = dev.alloc(64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del buf
        gc.collect()
