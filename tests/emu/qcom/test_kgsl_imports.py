"""Memory of others in the emulated KGSL: pinned pages of the process, and dma-bufs, which a memfd stands for."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from typing import Any

import pytest
from kgsl_client import (
    CLEAN,
    CPU_MAP,
    GPU_READ_ONLY,
    INVALIDATE,
    IOCOHERENT,
    PAGE,
    WRITEBACK,
    Kgsl,
    MakeKgsl,
    Stream,
    errno_of,
)

USER, DMA_BUF = 2, 3
NOT_SUPPORTED = 524  # the kernel's own ENOTSUPP


class Pages:
    """Private anonymous pages of this process, as Python's allocators use them."""

    def __init__(self, nbytes: int = 2 * PAGE) -> None:
        self.map = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.words = (ctypes.c_uint32 * (nbytes // 4)).from_buffer(self.map)
        self.address = ctypes.addressof(self.words)

    def protect(self, prot: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(self.map)), prot) == 0

    def close(self) -> None:
        del self.words
        self.map.close()


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    yield made
    made.close()


@pytest.fixture
def memfd() -> Iterator[int]:
    fd = os.memfd_create("a dma-buf")
    os.ftruncate(fd, 2 * PAGE)
    yield fd
    os.close(fd)


def import_pages(kgsl: Kgsl, address: int, nbytes: int, flags: int = WRITEBACK) -> dict[str, int]:
    return kgsl.call("import", type=USER, priv=kgsl.pointer("Q", address), priv_len=nbytes, flags=flags)


def import_fd(kgsl: Kgsl, fd: int, flags: int = 0) -> dict[str, int]:
    return kgsl.call("import", type=DMA_BUF, priv=kgsl.pointer("i", fd), priv_len=4, flags=flags)


def test_pages_are_pinned_and_need_maintenance(kgsl: Kgsl, pages: Pages) -> None:
    pages.words[0], pages.words[1024] = 11, 12
    got = import_pages(kgsl, pages.address, 2 * PAGE)
    number, va = got["id"], kgsl.va(got["id"])
    assert got["flags"] == WRITEBACK | (USER + 1) << 5
    assert kgsl.call("info", id=number)["size"] == 2 * PAGE
    assert [item.kind for item in kgsl.system.live_objects()].count("pinned") == 1
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.copy(va + PAGE, stream.data_va))
    assert stream.out[0] == 12, "pages are cleaned once at the import"
    pages.words[0] = 13
    kgsl.submit(context, stream.copy(va, stream.data_va), stream.write(99, va=va + 4))
    assert stream.out[0] == 11 and pages.words[1] == 0
    kgsl.sync((number, CLEAN, 0, 4))
    kgsl.submit(context, stream.copy(va, stream.data_va), stream.write(99, va=va + 4))
    kgsl.sync((number, INVALIDATE))
    assert stream.out[0] == 13 and pages.words[1] == 99 and pages.words[1024] == 12
    kgsl.call("free", id=number)


def test_coherent_pages_are_shared(make_kgsl: MakeKgsl, pages: Pages) -> None:
    kgsl = make_kgsl(iocoherent=True)
    got = import_pages(kgsl, pages.address, PAGE, WRITEBACK | IOCOHERENT)
    assert got["flags"] & IOCOHERENT
    stream = Stream(kgsl)
    pages.words[0] = 5
    va = kgsl.va(got["id"])
    kgsl.submit(kgsl.context(), stream.copy(va, va + 4))
    assert pages.words[1] == 5


def test_memory_of_the_machine_can_be_imported(kgsl: Kgsl) -> None:
    view = kgsl.system.anonymous(PAGE)
    number = import_pages(kgsl, view.addr, PAGE)["id"]
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.write(5, va=kgsl.va(number)))
    kgsl.sync((number, INVALIDATE))
    assert view[0] == 5
    kgsl.system.unmap(view.addr, PAGE)
    kgsl.sync((number, CLEAN))  # pinned pages stay when the owner unmaps them
    kgsl.call("free", id=number)
    assert kgsl.system.memory.used_bytes == 0  # type: ignore[attr-defined]


def test_pages_that_the_owner_takes_away(kgsl: Kgsl) -> None:
    pages = Pages()
    number = import_pages(kgsl, pages.address, 2 * PAGE)["id"]
    address = pages.address
    pages.close()
    assert errno_of(import_pages, kgsl, address, 2 * PAGE) == "EFAULT"
    kgsl.sync((number, CLEAN | INVALIDATE))
    kgsl.call("free", id=number)


def test_read_only_pages_need_a_read_only_import(kgsl: Kgsl, pages: Pages) -> None:
    pages.words[0] = 21
    pages.protect(mmap.PROT_READ)
    assert errno_of(import_pages, kgsl, pages.address, PAGE) == "EFAULT"
    number = import_pages(kgsl, pages.address, PAGE, WRITEBACK | GPU_READ_ONLY)["id"]
    stream, context = Stream(kgsl), kgsl.context()
    va = kgsl.va(number)
    kgsl.submit(context, stream.copy(va, stream.data_va))
    assert stream.out[0] == 21
    kgsl.submit(context, stream.write(1, va=va))
    assert errno_of(kgsl.wait, context, 2) == "EPROTO"
    kgsl.sync((number, INVALIDATE))
    assert pages.words[0] == 21
    kgsl.call("free", id=number)
    pages.protect(mmap.PROT_READ | mmap.PROT_WRITE)


def test_bad_imports(kgsl: Kgsl, pages: Pages) -> None:
    assert errno_of(import_pages, kgsl, 1 << 44, PAGE) == "EFAULT"
    assert errno_of(import_pages, kgsl, pages.address + PAGE, 1 << 40) == "EFAULT"
    for nbytes in (0, 1, PAGE + 1):
        assert errno_of(import_pages, kgsl, pages.address, nbytes) == "EINVAL"
    _, _, view = kgsl.memory()
    assert errno_of(import_pages, kgsl, view.addr, PAGE) == "EFAULT", "memory of the GPU already"
    for kind in (0, 1, 4, 7):
        assert kgsl.error("import", type=kind, priv=kgsl.pointer("Q", pages.address), priv_len=PAGE) == NOT_SUPPORTED
    assert kgsl.error("import", type=USER, priv=0, priv_len=PAGE) == errno.EFAULT


def test_flags_of_imports(kgsl: Kgsl, pages: Pages) -> None:
    everything = (1 << 36) - 1 & ~CPU_MAP & ~(1 << 3)
    got = import_pages(kgsl, pages.address, PAGE, everything)["flags"]
    assert got == GPU_READ_ONLY | WRITEBACK | 0xFF00 | 1 << 32 | 3 << 5
    assert kgsl.va(1) < 1 << 32


def test_an_object_starts_with_the_page_of_its_pointer(kgsl: Kgsl, pages: Pages) -> None:
    pages.words[0] = 31
    number = import_pages(kgsl, pages.address + 64, PAGE)["id"]
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.copy(kgsl.va(number), stream.data_va))
    assert stream.out[0] == 31


def test_user_memory_is_not_mapped_again(kgsl: Kgsl, pages: Pages) -> None:
    number = import_pages(kgsl, pages.address, PAGE)["id"]
    assert errno_of(kgsl.mmap, number) == "EBUSY"


def test_python_pointers_are_outside_the_shared_window(kgsl: Kgsl, pages: Pages) -> None:
    assert errno_of(import_pages, kgsl, pages.address, PAGE, WRITEBACK | CPU_MAP) == "EINVAL"
    assert [item.kind for item in kgsl.system.live_objects()] == ["fd"]
    place = kgsl.system.reserve(PAGE, PAGE, 0x40_0000_0000, 0x30_0000_0000)
    view = kgsl.system.anonymous(PAGE, place)
    number = import_pages(kgsl, view.addr, PAGE, WRITEBACK | CPU_MAP)["id"]
    assert kgsl.va(number) == place
    kgsl.call("free", id=number)
    kgsl.system.unmap(place, PAGE)


def test_large_imports_are_aligned(kgsl: Kgsl) -> None:
    for nbytes, log2 in ((64 << 10, 16), (1 << 20, 20)):
        pages = Pages(nbytes)
        got = import_pages(kgsl, pages.address, nbytes)
        assert got["flags"] >> 16 & 0xFF == log2 and kgsl.va(got["id"]) % (1 << log2) == 0
        kgsl.call("free", id=got["id"])
        pages.close()


def test_the_older_call(kgsl: Kgsl, pages: Pages) -> None:
    pages.words[3] = 41
    got = kgsl.call("map_user_mem", hostptr=pages.address, len=PAGE, memtype=USER, flags=WRITEBACK)
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.copy(got["gpuaddr"] + 12, stream.data_va))
    assert stream.out[0] == 41
    kgsl.call("sharedmem_free", gpuaddr=got["gpuaddr"])
    assert kgsl.error("map_user_mem", hostptr=pages.address, len=PAGE, memtype=0) == NOT_SUPPORTED
    assert kgsl.error("map_user_mem", hostptr=pages.address, len=PAGE, memtype=2, offset=4096) == errno.EINVAL


# dma-bufs


@pytest.mark.parametrize("choice", [False, True])
def test_a_dma_buf(make_kgsl: MakeKgsl, memfd: int, choice: bool) -> None:
    kgsl = make_kgsl(iocoherent=choice)
    with mmap.mmap(memfd, 2 * PAGE) as view:
        view[:4] = b"abcd"
        got = import_fd(kgsl, memfd, IOCOHERENT)
        assert got["flags"] == WRITEBACK | 4 << 5 | (IOCOHERENT if choice else 0)
        number, va = got["id"], kgsl.va(got["id"])
        assert kgsl.call("info", id=number)["size"] == 2 * PAGE
        stream, context = Stream(kgsl), kgsl.context()
        kgsl.submit(context, stream.copy(va, stream.data_va), stream.write(0x64636261, va=va + PAGE))
        assert bytes(stream.data.mv[:4]) == b"abcd"
        assert view[PAGE : PAGE + 4] == (b"abcd" if choice else bytes(4))
        kgsl.sync((number, INVALIDATE))
        assert view[PAGE : PAGE + 4] == b"abcd"
    assert errno_of(kgsl.mmap, number, 2 * PAGE) == "EINVAL"
    kgsl.call("free", id=number)
    got = kgsl.call("map_user_mem", fd=memfd, memtype=DMA_BUF)
    assert (got["len"], got["flags"] & 0xE0) == (2 * PAGE, 4 << 5)
    kgsl.call("sharedmem_free", gpuaddr=got["gpuaddr"])


def test_the_driver_holds_a_dma_buf(kgsl: Kgsl) -> None:
    fd = os.memfd_create("a dma-buf")
    os.ftruncate(fd, PAGE)
    number = import_fd(kgsl, fd)["id"]
    os.close(fd)
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.write(1, va=kgsl.va(number)))
    kgsl.sync((number, INVALIDATE))
    before = len(os.listdir("/proc/self/fd"))
    kgsl.call("free", id=number)
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_bad_dma_bufs(kgsl: Kgsl, memfd: int) -> None:
    empty = os.memfd_create("empty")
    reading, writing = os.pipe()
    assert errno_of(import_fd, kgsl, -1) == "EINVAL" and errno_of(import_fd, kgsl, 1 << 20) == "EBADF"
    assert errno_of(import_fd, kgsl, empty) == "EINVAL" and errno_of(import_fd, kgsl, reading) == "EINVAL"
    assert errno_of(import_fd, kgsl, memfd, 1 << 3) == str(NOT_SUPPORTED)
    for fd in (empty, reading, writing):
        os.close(fd)


def test_a_large_dma_buf_stays_sparse(kgsl: Kgsl) -> None:
    fd = os.memfd_create("a dma-buf")
    os.ftruncate(fd, 16 << 30)
    os.pwrite(fd, b"abcd", 8 << 30)
    number = import_fd(kgsl, fd)["id"]
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.copy(kgsl.va(number) + (8 << 30), stream.data_va))
    assert bytes(stream.data.mv[:4]) == b"abcd"
    driver: Any = kgsl.system.drivers[0]
    assert driver.shadows.resident_bytes() < 1 << 20 and os.fstat(fd).st_blocks * 512 < 1 << 20
    kgsl.call("free", id=number)
    os.close(fd)


def test_the_memory_of_the_machine_is_no_dma_buf(kgsl: Kgsl) -> None:
    driver: Any = kgsl.system.drivers[0]
    assert errno_of(import_fd, kgsl, driver.dram.fd) == "EINVAL"
