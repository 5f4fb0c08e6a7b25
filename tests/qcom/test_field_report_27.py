"""Field report 27: zero-copy memory is stale. Imports at any address, with caches that nobody keeps coherent."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import time
import weakref

import numpy as np
import pytest
from words import entries, mem_write, nop, on_timeline
from worked_dispatch import GROUP, Adder

import hcqrt
from hcqrt.emu.engine.run import available_cores
from hcqrt.errors import DriverError, HCQError, OutOfMemory

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
ITEMS = 1_000_000
GUARD = 0xA5


@pytest.fixture
def nothing_is_kept(monkeypatch):
    """Freed memory goes back at once, so that the driver's objects can be counted."""
    monkeypatch.setenv("HCQRT_CACHE", "0")


def placed(nbytes: int, line_offset: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(whole memory full of guard bytes, the part to import, where in it that starts): a part at address % 64."""
    raw = np.full(nbytes + 256, GUARD, dtype=np.uint8)
    start = -raw.ctypes.data % 64 + 64 + line_offset
    return raw, raw[start : start + nbytes], start


def guards_intact(raw: np.ndarray, start: int, nbytes: int) -> bool:
    return bool((raw[:start] == GUARD).all() and (raw[start + nbytes :] == GUARD).all())


@pytest.mark.parametrize("line_offset", [0, 1, 63])
@pytest.mark.parametrize("iocoherent", [False, True])
def test_27_a_million_ones_become_twos_every_time(adreno_machine, line_offset, iocoherent):
    system = adreno_machine(iocoherent=iocoherent)
    times = 200 if "c" in available_cores() and not iocoherent else 10
    with hcqrt.open_device("QCOM", system) as dev:
        before = len(system.live_objects())
        adder = Adder(dev, addend=1, item_bytes=1)
        raw, ones, start = placed(ITEMS, line_offset)
        ones[:] = 1
        with dev.import_host(ones) as imported:
            queue = adder.bound(imported.va_addr, imported.va_addr, ITEMS // GROUP)
            for _ in range(times):
                ones[:] = 1
                adder.run_bound(queue)
                dev.synchronize()
                assert (ones == 2).all()
                assert guards_intact(raw, start, ITEMS)
            queue.close()
        adder.close()
        assert len(system.live_objects()) == before, "closing frees the import"


@pytest.mark.parametrize("nbytes", [1, 2, 3, 7, 62, 63, 64, 65, 127, 128, 129, 200, 4096, 5000])
@pytest.mark.parametrize("line_offset", [0, 1, 5, 32, 60, 63])
def test_every_size_at_every_place_is_seen_by_both_sides(qcom, nbytes, line_offset):
    """The GPU copies the import to memory of its own, and pattern back: word by word, with no kernel."""
    raw, part, start = placed(nbytes, line_offset)
    part[:] = np.arange(nbytes) % 251
    with qcom.import_host(part) as imported, qcom.alloc(8192, cpu_access=True) as seen:
        first = imported.va_addr & ~3
        words = range(first, min(imported.va_addr + nbytes, first + 256), 4)
        copy = [
            word
            for va in words
            for word in (0x7073_8005, 0, *halves(seen.va_addr + va - first), *halves(va))
        ]  # fmt: skip
        on_timeline(qcom, *copy).submit(qcom)
        qcom.synchronize()
        got = bytes(seen.cpu_view().mv)[imported.va_addr - first :][: min(nbytes, 250)]
        assert got == bytes(part[: len(got)])
        inside = [va for va in words if va >= imported.va_addr and va + 4 <= imported.va_addr + nbytes]
        on_timeline(qcom, *[word for va in inside for word in mem_write(va, 0x44332211)], *nop(0)).submit(qcom)
        qcom.synchronize()
        expected = np.arange(nbytes).astype(np.uint8) if nbytes < 251 else (np.arange(nbytes) % 251).astype(np.uint8)
        for va in inside:
            at = va - imported.va_addr
            expected[at : at + 4] = (0x11, 0x22, 0x33, 0x44)
        assert bytes(part) == bytes(expected)
        assert guards_intact(raw, start, nbytes)


def halves(value: int) -> tuple[int, int]:
    return value & 0xFFFF_FFFF, value >> 32


def test_a_neighbour_s_bytes_survive_that_change_while_the_gpu_works(qcom, adreno):
    raw, part, start = placed(96, 8)
    qcom.synchronize()
    with qcom.import_host(part) as imported:
        adreno.inject("stall")
        on_timeline(qcom, *mem_write(imported.va_addr, 0x01010101)).submit(qcom)
        raw[start - 1] = raw[start + 96] = 0x5C  # in the first and the last line of the import
        adreno.resume()
        qcom.synchronize()
        assert (raw[start - 1], raw[start + 96]) == (0x5C, 0x5C)
        assert bytes(part[:5]) == bytes([1, 1, 1, 1, GUARD])
        on_timeline(qcom, *mem_write(imported.va_addr + 4, 0x02020202)).submit(qcom)
        qcom.synchronize()
        assert bytes(part[:9]) == bytes([1] * 4 + [2] * 4 + [GUARD])
        assert (raw[start - 1], raw[start + 96]) == (0x5C, 0x5C)


def test_what_the_host_writes_between_submissions_is_seen(qcom):
    _, part, _ = placed(256, 0)
    with qcom.import_host(part) as imported, qcom.alloc(256, cpu_access=True) as seen:
        for value in (1, 2, 3):
            part[:] = value
            on_timeline(qcom, 0x7073_8005, 0, *halves(seen.va_addr), *halves(imported.va_addr)).submit(qcom)
            qcom.synchronize()
            assert seen.cpu_view().mv[0] == value


def test_without_maintenance_both_directions_are_stale(qcom):
    """The model of the caches has teeth: what the tests above rely on."""
    _, part, _ = placed(256, 0)
    part[:] = 1
    with qcom.import_host(part) as imported, qcom.alloc(256, cpu_access=True) as seen:
        table, kept = qcom.imports, qcom.imports.here
        table.here = []  # the device forgets that it has an import
        part[:] = 2
        on_timeline(qcom, 0x7073_8005, 0, *halves(seen.va_addr), *halves(imported.va_addr)).submit(qcom)
        on_timeline(qcom, *mem_write(imported.va_addr + 64, 0x09090909)).submit(qcom)
        qcom.synchronize()
        assert seen.cpu_view().mv[0] == 1, "not what the host has written last"
        assert part[64] == 2, "not what the GPU has written"
        table.here = kept


def test_the_copy_calls_work_on_imports(qcom):
    raw, part, start = placed(300, 3)
    with qcom.import_host(part) as imported:
        imported.copyin(bytes(range(200)))
        assert bytes(part[:200]) == bytes(range(200))
        on_timeline(qcom, *mem_write((imported.va_addr + 3) & ~3, 0xEEEEEEEE)).submit(qcom)
        at = -imported.va_addr % 4
        assert imported.copyout()[at : at + 4] == b"\xee" * 4
        imported.fill(7)
        assert (part == 7).all() and guards_intact(raw, start, 300)
        assert imported.cpu_view().nbytes == 300
        assert imported.offset(10, 5).copyout() == b"\7" * 5


def test_the_owner_is_kept_alive_until_the_import_is_closed(qcom):
    class Owned(bytearray):
        pass

    owner = Owned(b"\1" * 4096)
    gone = weakref.ref(owner)
    imported = qcom.import_host(owner)
    del owner
    gc.collect()
    assert gone() is not None and imported.copyout(bytearray(4)) == b"\1" * 4
    imported.close()
    gc.collect()
    assert gone() is None


def test_closing_an_import_waits_for_the_gpu_and_brings_its_writes(qcom, adreno):
    _, part, _ = placed(512, 1)
    qcom.synchronize()
    imported = qcom.import_host(part)
    at = -imported.va_addr % 4
    on_timeline(qcom, *mem_write(imported.va_addr + at, 0x03030303)).submit(qcom)
    imported.close()
    assert bytes(part[at : at + 4]) == b"\3" * 4
    assert not qcom.imports.here and not qcom.imports.away
    with pytest.raises(HCQError, match="closed"):
        imported.copyout()


def test_closing_the_device_brings_the_gpu_s_writes_too(adreno):
    _, part, _ = placed(512, 0)
    with hcqrt.open_device("QCOM", adreno) as dev:
        imported = dev.import_host(part)
        on_timeline(dev, *mem_write(imported.va_addr, 0x04040404)).submit(dev)
    assert bytes(part[:4]) == b"\4" * 4
    imported.close()


def test_the_gpu_cannot_write_to_read_only_memory(qcom):
    data = bytes(range(256)) * 16
    with qcom.import_host(data) as imported:
        assert imported.copyout() == data
        with pytest.raises(HCQError, match="not mapped for the host"):
            imported.cpu_view()
        on_timeline(qcom, *mem_write(imported.va_addr & ~3, 1)).submit(qcom)
        with pytest.raises(hcqrt.DeviceFault):
            qcom.synchronize()
    assert data == bytes(range(256)) * 16


def test_no_cache_is_touched_where_the_driver_keeps_it_coherent(adreno_machine):
    system = adreno_machine(iocoherent=True)
    with hcqrt.open_device("QCOM", system) as dev:
        _, part, _ = placed(512, 1)
        with dev.import_host(part) as imported:
            at = -imported.va_addr % 4
            on_timeline(dev, *mem_write(imported.va_addr + at, 0x05050505)).submit(dev)
            dev.synchronize()
            assert bytes(part[at : at + 4]) == b"\5" * 4
        assert not entries(system, "GPUOBJ_SYNC")


def test_an_import_that_the_driver_refuses_says_so_and_leaves_nothing(qcom, adreno):
    _, part, _ = placed(512, 1)
    before = len(adreno.live_objects())
    adreno.inject("ioctl", "IOCTL_KGSL_GPUOBJ_IMPORT", errno=14)
    with pytest.raises(DriverError, match=r"GPUOBJ_IMPORT.*EFAULT.*bytes of host memory at 0x"):
        qcom.import_host(part)
    adreno.inject("ioctl", "IOCTL_KGSL_GPUOBJ_IMPORT", errno=12)
    with pytest.raises(OutOfMemory, match="ulimit -l"):
        qcom.import_host(part)
    adreno.inject("ioctl", "IOCTL_KGSL_GPUOBJ_INFO", errno=22)
    with pytest.raises(DriverError, match="GPUOBJ_INFO"):
        qcom.import_host(part)
    with pytest.raises(ValueError, match="no bytes"):
        qcom.import_host(b"")
    with pytest.raises(ValueError, match="contiguous"):
        qcom.import_host(np.zeros((8, 8), dtype=np.uint8)[:, :4])
    assert len(adreno.live_objects()) == before


def dma_buf(nbytes: int) -> int:
    fd = os.memfd_create("frames")
    os.ftruncate(fd, nbytes)
    return fd


def test_a_dma_buf_is_used_in_place(qcom, adreno):
    before = len(adreno.live_objects())
    fd = dma_buf(8192)
    host = mmap.mmap(fd, 8192)
    host[:8] = b"\1\1\1\1\2\2\2\2"
    imported = qcom.import_dmabuf(fd, 8192)
    os.close(fd)
    with qcom.alloc(64, cpu_access=True) as seen:
        words = [0x7073_8005, 0, *halves(seen.va_addr), *halves(imported.va_addr + 4)]
        on_timeline(qcom, *words, *mem_write(imported.va_addr + 4096, 0x06060606)).submit(qcom)
        qcom.synchronize()
        assert bytes(seen.cpu_view().mv[:4]) == b"\2" * 4
    assert host[4096:4100] == b"\6" * 4
    assert imported.copyout()[4096:4100] == b"\6" * 4
    imported.copyin(b"\x0a" * 16)
    assert host[:16] == b"\x0a" * 16
    imported.close()
    host.close()
    assert len(adreno.live_objects()) == before


def test_a_dma_buf_that_is_too_small_or_none_is_refused(qcom, adreno):
    before = len(adreno.live_objects())
    fds = len(os.listdir("/proc/self/fd"))
    fd = dma_buf(4096)
    with pytest.raises(ValueError, match="8192 bytes asked of a buffer that has 4096"):
        qcom.import_dmabuf(fd, 8192)
    with pytest.raises(ValueError, match="at least 1 byte"):
        qcom.import_dmabuf(fd, 0)
    os.close(fd)
    for closed in (fd, -1):
        with pytest.raises(DriverError, match=rf"dup on dma-buf {closed}: .*\[EBADF\].*descriptor that is open"):
            qcom.import_dmabuf(closed, 4096)
    assert len(adreno.live_objects()) == before and len(os.listdir("/proc/self/fd")) == fds


def test_a_dma_buf_that_the_host_cannot_map_says_so(qcom, adreno):
    fd = dma_buf(4096)
    before = len(adreno.live_objects())
    memory = qcom.import_dmabuf(fd, 4096)
    os.close(fd)

    def refuse(*args, **options):
        raise OSError(errno.ENODEV, "no such device")

    memory.memory._file.mmap = refuse
    with pytest.raises(DriverError, match=r"mmap on dma-buf \d+: .*\[ENODEV\]; 4096 bytes"):
        memory.copyout()
    memory.close()
    assert len(adreno.live_objects()) == before


def test_the_mapping_of_a_gpu_buffer_cannot_be_imported(qcom):
    buffer = qcom.alloc(4096, cpu_access=True)
    with pytest.raises(DriverError, match=r"EFAULT.*mapping of a GPU buffer"):
        qcom.import_host(buffer.cpu_view().mv)
    buffer.close()


def test_close_does_not_wait_again_for_imports_of_a_stuck_gpu(adreno):
    _, part, _ = placed(512, 0)
    dev = hcqrt.open_device("QCOM", adreno)
    dev.import_host(part)
    dev.compute_queue().wait(dev.new_signal(), 1).signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
    with pytest.raises(hcqrt.SignalTimeout):
        dev.synchronize(50)
    start = time.monotonic()
    dev.close()
    assert time.monotonic() - start < 1.5
