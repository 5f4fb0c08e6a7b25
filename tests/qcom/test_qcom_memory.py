"""Memory: which flags each kind asks for, what the host's caches need, images row by row, running out."""

from __future__ import annotations

import errno
import gc
import os
import threading

import numpy as np
import pytest
from words import entries, mem_write, on_timeline

import hcqrt
from hcqrt.errors import DriverError, HCQError, OutOfMemory

WRITEBACK, IOCOHERENT, READ_ONLY = 3 << 26, 1 << 31, 1 << 24
COPY = 0x70738005  # CP_MEM_TO_MEM: flags, destination, source


def halves(value):
    return value & 0xFFFF_FFFF, value >> 32


def flags_asked(system, work):
    before = len(entries(system, "GPUOBJ_ALLOC"))
    work()
    return [entry[4]["flags"] for entry in entries(system, "GPUOBJ_ALLOC")[before:]]


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, WRITEBACK | IOCOHERENT),  # only our own copies look at it
        (dict(cpu_access=True), 0),  # write-combined: no maintenance
        (dict(host=True), 0),
        (dict(host=True, uncached=True), 1 << 26),
        (dict(uncached=True), 1 << 26),
    ],
)
def test_each_kind_of_memory_asks_for_its_cache_mode(qcom, adreno, options, mode):
    [flags] = flags_asked(adreno, lambda: qcom.alloc(4096, **options).close())
    assert flags & (0xC000000 | IOCOHERENT | READ_ONLY) == mode
    assert not flags & 1 << 28, "the kernel chooses the address: no USE_CPU_MAP"


@pytest.mark.parametrize(("nbytes", "log2"), [(4096, 0), (64 << 10, 16), (1 << 20, 20), (2 << 20, 21), (3 << 20, 21)])
def test_larger_memory_asks_for_larger_pages(qcom, adreno, nbytes, log2):
    [flags] = flags_asked(adreno, lambda: qcom.alloc(nbytes).close())
    assert flags >> 16 & 0xFF == log2


def test_code_is_read_only_for_the_gpu(qcom, adreno):
    made = []
    [flags] = flags_asked(adreno, lambda: made.append(qcom.load_code(b"\1\2\3\4" * 100)))
    assert flags & READ_ONLY and made[0].va % 128 == 0
    on_timeline(qcom, *mem_write(made[0].va, 9)).submit(qcom)
    with pytest.raises(hcqrt.DeviceFault):
        qcom.synchronize()
    assert bytes(made[0].host()[:4]) == b"\1\2\3\4"
    qcom.free(made[0])


def test_memory_that_would_need_maintenance_but_gets_none_is_refused(adreno_machine, monkeypatch):
    """A driver that makes write-combined memory cached and does not keep it coherent."""
    system = adreno_machine()
    from hcqrt.qcom.kgsl import KgslClient

    alloc = KgslClient.alloc

    def cached(self, nbytes, flags):
        made = alloc(self, nbytes, flags)
        made.flags = flags & ~0xC000000 | WRITEBACK
        return made

    monkeypatch.setattr(KgslClient, "alloc", cached)
    with pytest.raises(DriverError, match="asked write-combined, the driver gave cached memory"):
        hcqrt.open_device("QCOM", system)
    assert system.live_objects() == []


@pytest.mark.parametrize("iocoherent", [False, True, "always"])
@pytest.mark.parametrize(("offset", "nbytes"), [(0, 1), (0, 64), (5, 3), (60, 8), (63, 66), (64, 128), (1, 4000)])
def test_copies_see_the_gpu_and_the_gpu_sees_copies(adreno_machine, iocoherent, offset, nbytes):
    system = adreno_machine(iocoherent=iocoherent)
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(8192) as plain, dev.alloc(8192, cpu_access=True) as seen:
        plain.fill(0x11)
        for va in range(plain.va_addr, plain.va_addr + 256, 32):  # results of the GPU all over the first lines
            on_timeline(dev, *mem_write(va, 0x22222222)).submit(dev)
        expected = bytearray(b"\x11" * 8192)
        for at in range(0, 256, 32):
            expected[at : at + 4] = b"\x22" * 4
        data = os.urandom(nbytes)
        plain.offset(offset, nbytes).copyin(data)
        expected[offset : offset + nbytes] = data
        words = [
            word
            for at in range(0, 512, 4)
            for word in (COPY, 0, *halves(seen.va_addr + at), *halves(plain.va_addr + at))
        ]
        on_timeline(dev, *words).submit(dev)
        assert plain.copyout() == expected, "what the host sees"
        assert bytes(seen.cpu_view().mv[:512]) == expected[:512], "what the GPU sees"
        assert plain.offset(offset, nbytes).copyout() == data
        assert bool(entries(system, "GPUOBJ_SYNC")) == (iocoherent is False)


def test_a_copy_of_whole_lines_invalidates_nothing(qcom, adreno):
    with qcom.alloc(4096) as plain:
        plain.copyin(b"\1" * 4096)
        before = len(entries(adreno, "GPUOBJ_SYNC"))
        plain.offset(64, 128).copyin(b"\2" * 128)
        [clean] = entries(adreno, "GPUOBJ_SYNC")[before:]
        assert clean[4]["count"] == 1
        assert plain.copyout() == b"\1" * 64 + b"\2" * 128 + b"\1" * (4096 - 192)


@pytest.mark.parametrize("copyin", [False, True])
def test_copies_wait_for_earlier_work(qcom, copyin):
    with qcom.alloc(64) as plain, qcom.alloc(64, cpu_access=True) as seen:
        plain.fill(0)
        gate, value = qcom.new_signal(), qcom.next_timeline()
        queue = qcom.compute_queue().wait(gate, 1).q(*mem_write(plain.va_addr, 0x33333333))
        queue.signal(qcom.timeline_signal, value).submit(qcom)
        threading.Timer(0.1, setattr, (gate, "value", 1)).start()
        assert plain.copyout()[:8] == b"\x33" * 4 + b"\0" * 4
        value = qcom.next_timeline()
        queue = qcom.compute_queue().wait(gate, 2).q(COPY, 0, *halves(seen.va_addr), *halves(plain.va_addr))
        queue.signal(qcom.timeline_signal, value).submit(qcom)
        threading.Timer(0.1, setattr, (gate, "value", 2)).start()
        plain.copyin(b"\x44" * 4) if copyin else plain.fill(0x44)
        assert bytes(seen.cpu_view().mv[:4]) == b"\x33" * 4, "the GPU read what was there before"


def test_sizes_and_places_that_do_not_fit_are_refused(qcom):
    with qcom.alloc(100) as plain:
        with pytest.raises(ValueError, match="101 bytes do not fit the buffer of 100"):
            plain.copyin(bytes(101))
        with pytest.raises(ValueError, match="101 bytes asked of a buffer of 100"):
            plain.copyout(bytearray(101))
        with pytest.raises(HCQError, match="not mapped for the host"):
            plain.cpu_view()
        with pytest.raises(ValueError, match="at least 1 byte"):
            qcom.alloc(0)
        assert qcom.copy_queue() is None
        plain.copyin(b"")
        assert plain.copyout(bytearray(0)) == b""


@pytest.mark.parametrize("width", [1, 3, 16, 63, 64, 65])
@pytest.mark.parametrize("height", [1, 2, 31])
@pytest.mark.parametrize(("format", "texel"), [("FMT6_16_16_16_16_FLOAT", 8), ("FMT6_32_32_32_32_FLOAT", 16)])
def test_image_rows_are_tight_for_the_host_and_pitched_for_the_gpu(qcom, width, height, format, texel):
    tight = width * height * texel
    with qcom.alloc(tight, image=(width, height, format)) as image:
        assert image.size == tight and image.image.pitch % 64 == 0
        assert image.memory.nbytes >= image.image.pitch * height
        image.fill(0xEE)
        data = os.urandom(tight)
        image.copyin(data)
        assert image.copyout() == data
        raw = image.memory.host()
        for row in range(height):
            place = row * image.image.pitch
            assert bytes(raw[place : place + width * texel]) == data[row * width * texel :][: width * texel]
        part = tight // 2 + 1
        image.copyin(b"\5" * part)
        assert image.copyout() == b"\5" * part + data[part:]
        assert image.copyout(bytearray(part)) == b"\5" * part
        with pytest.raises(ValueError, match="image"):
            image.offset(0, 1)


def test_an_image_says_what_it_takes(qcom):
    with qcom.alloc(image=(4, 4, "FMT6_32_32_32_32_FLOAT")) as image:
        assert image.size == 256
    with pytest.raises(ValueError, match="100 bytes asked for an image"):
        qcom.alloc(100, image=(4, 4, "FMT6_32_32_32_32_FLOAT"))
    assert qcom.has_images


def test_12_cached_memory_is_given_back_before_memory_runs_out(adreno_machine):
    """Field report 12: out of memory although much is only cached."""
    system = adreno_machine(memory_bytes=64 << 20)
    with hcqrt.open_device("QCOM", system) as dev:
        for index in range(20):
            dev.alloc((3 << 20) - index * 4096).close()
        big = dev.alloc(40 << 20)
        with pytest.raises(OutOfMemory, match=r"QCOM:0: \d+ bytes asked, \d+ in use, \d+ cached, \d+ in all"):
            dev.alloc(80 << 20)
        with dev.alloc(1 << 20) as small:
            small.fill(1)
            assert small.copyout(bytearray(4)) == b"\1" * 4
        big.close()


def test_14_a_page_size_of_64_kib_is_asked_of_the_machine(machine):
    """Field report 14: host page size assumed to be 4096."""
    system = machine((), qcom="a630", page_size=65536)
    with hcqrt.open_device("QCOM", system) as dev, dev.alloc(5000, host=True) as buffer:
        assert buffer.memory.nbytes == 65536
        buffer.copyin(b"\7" * 5000)
        assert buffer.copyout() == b"\7" * 5000
        raw = np.full(70000, 9, dtype=np.uint8)
        with dev.import_host(raw[1:]) as imported:
            on_timeline(dev, *mem_write(imported.va_addr + 3, 0x01010101)).submit(dev)
            dev.synchronize()
            assert list(raw[:9]) == [9, 9, 9, 9, 1, 1, 1, 1, 9]


def test_private_memory_grows_and_stays_where_it_was(qcom, adreno):
    first = qcom.scratch_va(1 << 20)
    assert qcom.scratch_va(4096) == first == qcom.scratch_va(1 << 20)
    larger = qcom.scratch_va(4 << 20)
    assert larger != first and qcom.scratch_va(4 << 20) == larger and first % 4096 == larger % 4096 == 0
    on_timeline(qcom, *mem_write(first, 1), *mem_write(larger + (4 << 20) - 4, 1)).submit(qcom)
    qcom.synchronize()


def test_border_colors_are_transparent_black_and_aligned(qcom):
    assert qcom.border_color_va % 128 == 0
    with qcom.alloc(4096, cpu_access=True) as seen:
        seen.fill(0xFF)
        places = range(0, 32 * 128, 124)
        words = [
            word
            for at in places
            for word in (COPY, 0, *halves(seen.va_addr + at), *halves(qcom.border_color_va + at))
        ]  # fmt: skip
        on_timeline(qcom, *words).submit(qcom)
        qcom.synchronize()
        assert all(bytes(seen.cpu_view().mv[at : at + 4]) == bytes(4) for at in places)


def ours() -> int:
    """Python objects of the runtime's own classes."""
    return sum(str(type(found).__module__).startswith(("hcqrt.core", "hcqrt.qcom")) for found in gc.get_objects())


def test_13_many_buffers_and_submissions_leave_nothing(adreno_machine):
    """Field report 13: leaks."""
    system = adreno_machine()
    with hcqrt.open_device("QCOM", system) as dev:
        held = [dev.alloc(4096, cpu_access=True) for _ in range(300)]
        for buffer in held:
            buffer.close()
        objects = len(system.live_objects())
        gc.collect()
        gc.disable()
        try:
            before = ours()
            for index in range(1000):
                with dev.alloc(4096, cpu_access=True) as buffer:
                    on_timeline(dev, *mem_write(buffer.va_addr, index)).submit(dev)
            dev.synchronize()
            assert abs(ours() - before) < 100
        finally:
            gc.enable()
        assert abs(len(system.live_objects()) - objects) < 200


def test_an_allocation_that_fails_half_way_leaves_nothing(qcom, adreno):
    qcom.synchronize()
    before = len(adreno.live_objects())
    adreno.inject("ioctl", "IOCTL_KGSL_GPUOBJ_INFO", errno=errno.EINVAL)
    with pytest.raises(DriverError, match="GPUOBJ_INFO"):
        qcom.alloc(12288)
    adreno.inject("mmap", errno=errno.ENOMEM, times=2)
    with pytest.raises(OutOfMemory, match=r"mmap of object.*ulimit"):
        qcom.alloc(12288, cpu_access=True)
    assert len(adreno.live_objects()) == before
    with qcom.alloc(12288, cpu_access=True) as buffer:
        buffer.fill(1)


def test_an_import_is_freed_at_once_and_never_kept_for_reuse(qcom, adreno):
    data = bytearray(4096)
    before = len(entries(adreno, "GPUOBJ_FREE"))
    qcom.import_host(data).close()
    assert len(entries(adreno, "GPUOBJ_FREE")) == before + 1
    assert qcom.memory_stats()["cached"] == 0
