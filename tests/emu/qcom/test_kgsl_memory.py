"""Memory objects of the emulated KGSL: sizes, flags and what is kept of them, addresses, mmap, freeing."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from kgsl_client import (
    CPU_MAP,
    FORCE_32,
    GPU_READ_ONLY,
    GUARD,
    IOCOHERENT,
    NODE,
    PAGE,
    WRITEBACK,
    Kgsl,
    MakeKgsl,
    Stream,
    errno_of,
)


def kept(kgsl: Kgsl, flags: int) -> int:
    return kgsl.call("alloc", size=PAGE, flags=flags)["flags"]


@pytest.mark.parametrize(("size", "rounded"), [(1, 4096), (4096, 4096), (4097, 8192), (0xFFFFF, 1 << 20)])
def test_sizes_are_whole_pages(kgsl: Kgsl, size: int, rounded: int) -> None:
    got = kgsl.call("alloc", size=size)
    assert (got["size"], got["mmapsize"], got["id"], got["va_len"]) == (rounded, rounded, 1, 0)
    info = kgsl.call("info", id=1)
    assert (info["size"], info["va_len"], info["va_addr"], info["id"]) == (rounded, rounded, 0, 1)
    assert 0x40_0000_0000 <= info["gpuaddr"] < 0x80_0000_0000


def test_sizes_end_below_4_gib(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(memory_bytes=16 << 30)
    assert kgsl.error("alloc", size=0) == errno.EINVAL and kgsl.error("alloc", size=1 << 32) == errno.EINVAL
    assert kgsl.call("alloc", size=0xFFFFFFFF)["size"] == 1 << 32


def test_memory_runs_out_and_comes_back(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(memory_bytes=1 << 20)
    number = kgsl.alloc(1 << 19, WRITEBACK)
    assert kgsl.error("alloc", size=(1 << 19) + 1) == errno.ENOMEM
    kgsl.call("free", id=number)
    kgsl.alloc(1 << 20)


def test_flags_are_masked_and_echoed(kgsl: Kgsl) -> None:
    assert kept(kgsl, 1 << 24 | 16 << 8 | 3 << 26) == 1 << 24 | 16 << 8 | 3 << 26
    assert kept(kgsl, 1 << 25 | 1 << 29 | 1 << 30 | 7 << 34 | 7 << 5) == 0, "bits that no allocation has"
    assert kept(kgsl, 2 << 26) == WRITEBACK, "write-through becomes write-back"
    assert kept(kgsl, 1 << 26) == 1 << 26
    assert kept(kgsl, 20 << 16) == 20 << 16 and kept(kgsl, 31 << 16) == 21 << 16
    assert kept(kgsl, FORCE_32 | GUARD) == FORCE_32 | GUARD
    assert kgsl.error("alloc", size=1, flags=1 << 3) == errno.EOPNOTSUPP


def test_io_coherency_is_the_machines_choice(make_kgsl: MakeKgsl) -> None:
    for choice, asked, unasked, uncached in (
        (False, WRITEBACK, WRITEBACK, 0),
        (True, WRITEBACK | IOCOHERENT, WRITEBACK, 0),
        ("always", WRITEBACK | IOCOHERENT, WRITEBACK | IOCOHERENT, 0),
    ):
        kgsl = make_kgsl(iocoherent=choice)
        assert (kept(kgsl, WRITEBACK | IOCOHERENT), kept(kgsl, WRITEBACK), kept(kgsl, 0)) == (asked, unasked, uncached)


@pytest.mark.parametrize(("log2", "align"), [(0, 12), (12, 12), (16, 16), (19, 16), (20, 20), (21, 21), (24, 21)])
def test_alignment_of_addresses(kgsl: Kgsl, log2: int, align: int) -> None:
    kgsl.alloc()
    assert kgsl.va(kgsl.alloc(PAGE, log2 << 16)) % (1 << align) == 0


def test_ranges_of_addresses(kgsl: Kgsl) -> None:
    assert 0 < kgsl.va(kgsl.alloc(PAGE, FORCE_32)) < 1 << 32
    one, two = kgsl.alloc(), kgsl.alloc()
    first = kgsl.va(one)
    assert kgsl.va(two) == first + PAGE
    kgsl.call("free", id=one)
    three = kgsl.alloc()
    assert three == 4 and kgsl.va(three) == first + 2 * PAGE, "neither ids nor addresses are used again at once"
    assert kgsl.error("info", id=one) == errno.EINVAL


def test_the_older_calls_speak_of_the_same_objects(kgsl: Kgsl) -> None:
    got = kgsl.call("alloc_id", size=100, flags=WRITEBACK)
    assert got["gpuaddr"] == kgsl.va(got["id"]) and (got["size"], got["mmapsize"]) == (PAGE, PAGE)
    by_id, by_va = kgsl.call("get_info", id=got["id"]), kgsl.call("get_info", gpuaddr=got["gpuaddr"] + 5)
    assert by_id == by_va and by_id["flags"] == WRITEBACK and by_id["useraddr"] == 0
    assert kgsl.error("get_info") == errno.EINVAL and kgsl.error("get_info", gpuaddr=5) == errno.EINVAL
    kgsl.call("free_id", id=got["id"])
    assert kgsl.error("free_id", id=got["id"]) == errno.EINVAL
    va = kgsl.va(kgsl.alloc())
    kgsl.call("sharedmem_free", gpuaddr=va)
    assert kgsl.error("sharedmem_free", gpuaddr=va) == errno.EINVAL


def test_labels(kgsl: Kgsl) -> None:
    number = kgsl.alloc(PAGE, WRITEBACK)
    kgsl.call("set_info", id=number, flags=2, type=16)
    assert kgsl.call("info", id=number)["flags"] == WRITEBACK | 16 << 8
    assert kgsl.error("set_info", id=number, flags=2, type=256) == errno.EINVAL
    kgsl.call("set_info", id=number, flags=1, metadata=kgsl.pointer("5s", b"label"), metadata_len=5)
    assert kgsl.error("set_info", id=99, flags=0) == errno.EINVAL
    kgsl.call("alloc", size=1, metadata=3, metadata_len=5)  # a label that cannot be read is no error


# mmap


def test_mmap_shows_what_the_gpu_writes(kgsl: Kgsl) -> None:
    stream = Stream(kgsl)
    number, va, view = kgsl.memory()
    kgsl.submit(kgsl.context(), stream.write(0xCAFE, va=va + 8))
    assert view.view(fmt="I")[2] == 0xCAFE
    second = kgsl.mmap(number)
    assert second.addr != view.addr and second.view(fmt="I")[2] == 0xCAFE, "an object may be mapped twice"


def test_mmap_lengths_and_offsets(kgsl: Kgsl) -> None:
    guarded = kgsl.call("alloc", size=2 * PAGE, flags=GUARD)
    assert (guarded["size"], guarded["mmapsize"]) == (2 * PAGE, 3 * PAGE)
    number = guarded["id"]
    kgsl.mmap(number, 2 * PAGE)
    kgsl.mmap(number, 3 * PAGE)
    for nbytes in (PAGE, 4 * PAGE):
        assert errno_of(kgsl.mmap, number, nbytes) == "ERANGE"
    kgsl.maps.append(kgsl.file.mmap(2 * PAGE, kgsl.va(number)))  # an offset that is no id is tried as an address
    assert errno_of(kgsl.mmap, 99) == "EINVAL"
    assert errno_of(kgsl.file.mmap, PAGE, 0) == "EINVAL"


def test_the_guard_page_is_not_there_for_the_gpu(kgsl: Kgsl) -> None:
    number = kgsl.alloc(PAGE, GUARD)
    after = kgsl.alloc()
    va = kgsl.va(number)
    assert kgsl.va(after) == va + 2 * PAGE
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.write(1, va=va + PAGE))
    assert errno_of(kgsl.wait, context, 1) == "EPROTO"


def test_a_shared_address_comes_from_the_first_mmap(kgsl: Kgsl) -> None:
    number = kgsl.alloc(2 * PAGE, CPU_MAP | GUARD)
    assert kgsl.va(number) == 0
    for nbytes in (PAGE, 2 * PAGE):
        assert errno_of(kgsl.mmap, number, nbytes) == "ERANGE"
    view = kgsl.mmap(number, 3 * PAGE)
    assert kgsl.va(number) == view.addr and 0x10_0000_0000 <= view.addr < 0x40_0000_0000
    assert errno_of(kgsl.mmap, number, 3 * PAGE) == "EBUSY"
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.write(5, va=view.addr + 4))
    assert view.view(fmt="I")[1] == 5


def test_a_chosen_shared_address(kgsl: Kgsl) -> None:
    place = kgsl.system.reserve(1 << 20, 1 << 20, 0x40_0000_0000, 0x20_0000_0000)
    number, other = kgsl.alloc(PAGE, CPU_MAP), kgsl.alloc(PAGE, CPU_MAP)
    assert kgsl.mmap(number, PAGE, address=place + PAGE).addr == place + PAGE == kgsl.va(number)
    assert errno_of(kgsl.mmap, other, address=place + PAGE) == "EBUSY"
    outside = kgsl.system.anonymous(PAGE)
    assert errno_of(kgsl.mmap, other, address=outside.addr) == "EINVAL"
    kgsl.system.unmap(outside.addr, PAGE)
    kgsl.maps.clear()
    kgsl.system.unmap(place, 1 << 20)


def test_two_machines_share_the_window(make_kgsl: MakeKgsl) -> None:
    """Addresses that the CPU has taken are passed over, also by another machine's mappings."""
    one, two = make_kgsl(), make_kgsl()
    views = [kgsl.mmap(kgsl.alloc(PAGE, CPU_MAP)) for kgsl in (one, two, one, two)]
    assert len({view.addr for view in views}) == 4


# free


def test_freed_memory_is_gone_for_the_gpu_and_stays_for_the_cpu(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    view[0] = 9
    kgsl.call("free", id=number)
    assert view[0] == 9 and kgsl.error("free", id=number) == errno.EINVAL
    kgsl.submit(context, stream.write(1, va=va))
    assert errno_of(kgsl.wait, context, 1) == "EPROTO" and view[0] == 9


def test_free_on_a_timestamp(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number, va, view = kgsl.memory()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(77, va=va))
    event = {"flags": 1, "type": 1, "priv": kgsl.pointer("II", context, 1), "len": 8}
    assert kgsl.error("free", id=number, **event | {"priv": kgsl.pointer("II", context, 2)}) == errno.EINVAL
    assert kgsl.error("free", id=number, **event | {"priv": kgsl.pointer("II", 99, 1)}) == errno.EINVAL
    assert kgsl.error("free", id=number, **event | {"type": 3}) == errno.EINVAL
    kgsl.call("free", id=number, **event)
    assert kgsl.va(number) == va
    assert kgsl.error("free", id=number) == errno.EBUSY and kgsl.error("free", id=number, **event) == errno.EBUSY
    kgsl.system.resume()
    assert view.view(fmt="I")[0] == 77 and kgsl.error("info", id=number) == errno.EINVAL
    past = kgsl.alloc()
    kgsl.call("free", id=past, **event)
    assert kgsl.error("info", id=past) == errno.EINVAL, "an event that is over frees at once"


def test_free_on_a_fence(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    number = kgsl.alloc()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(1))
    target = kgsl.pointer("i", -1)
    kgsl.call("timestamp_event", type=2, context=context, timestamp=1, priv=target, len=4)
    (fd,) = struct.unpack("<i", kgsl.keep[-1].raw[:4])
    assert kgsl.error("free", id=number, flags=1, type=2, priv=kgsl.pointer("i", -1), len=4) == errno.EINVAL
    kgsl.call("free", id=number, flags=1, type=2, priv=target, len=4)
    os.close(fd)  # the driver keeps what it waits for
    assert kgsl.va(number)
    kgsl.system.resume()
    assert kgsl.error("info", id=number) == errno.EINVAL


def test_every_open_file_is_a_process(kgsl: Kgsl) -> None:
    other = Kgsl(kgsl.system)
    number, va, view = kgsl.memory()
    assert other.alloc() == number and other.va(number) == va, "ids and addresses are per process"
    assert other.error("info", id=2) == errno.EINVAL
    stream = Stream(other)
    context = other.context()
    other.submit(context, stream.write(3, va=va))
    assert view[0] == 0, "the other process's object has that address there"
    mine = kgsl.context()
    assert mine != context and other.error("context_destroy", id=mine) == errno.EINVAL
    assert sorted(item.kind for item in kgsl.system.live_objects()).count("context") == 2
    other.close()
    assert sorted(item.kind for item in kgsl.system.live_objects()).count("context") == 1


def test_what_lives_is_listed_with_its_maker(kgsl: Kgsl) -> None:
    kgsl.memory(PAGE, WRITEBACK | GPU_READ_ONLY)
    kgsl.context()
    kgsl.call("timeline_create")
    items = kgsl.system.live_objects()
    assert sorted(item.kind for item in items) == ["context", "fd", "gpuobj", "mapping", "timeline"]
    assert all("kgsl_client.py" in str(item) for item in items) and any(NODE in item.name for item in items)


def test_the_gpu_cannot_write_read_only_memory(kgsl: Kgsl) -> None:
    _, va, view = kgsl.memory(PAGE, GPU_READ_ONLY)
    view.view(fmt="I")[0] = 42
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.submit(context, stream.copy(va, stream.data_va))
    assert stream.out[0] == 42
    kgsl.submit(context, stream.write(1, va=va))
    assert errno_of(kgsl.wait, context, 2) == "EPROTO" and view.view(fmt="I")[0] == 42


def test_larger_pages_count_ids_in_pages(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(options={"page_size": 16384})
    got = kgsl.call("alloc", size=1)
    assert got["mmapsize"] == 16384
    kgsl.maps.append(kgsl.file.mmap(16384, got["id"] * 16384))
    assert errno_of(kgsl.file.mmap, 16384, got["id"] << 12) == "EINVAL"


def test_addresses_run_out_and_come_back(make_kgsl: MakeKgsl) -> None:
    """Below 4 GiB there is room for two objects of 1.75 GiB, whatever the memory."""
    kgsl = make_kgsl(memory_bytes=16 << 30)
    large = {"size": 7 << 28, "flags": FORCE_32}
    first, second = kgsl.call("alloc", **large)["id"], kgsl.call("alloc", **large)["id"]
    assert kgsl.error("alloc", **large) == errno.ENOMEM
    va = kgsl.va(first)
    kgsl.call("free", id=first)
    assert kgsl.va(kgsl.call("alloc", **large)["id"]) == va != kgsl.va(second)
    assert kgsl.va(kgsl.call("alloc", size=PAGE, flags=FORCE_32)["id"]) >= 2 * (7 << 28)


def test_a_failed_mapping_leaves_the_address_open(kgsl: Kgsl) -> None:
    number = kgsl.alloc(PAGE, CPU_MAP)
    kgsl.system.inject("mmap", NODE, errno=errno.ENOMEM)
    assert errno_of(kgsl.mmap, number) == "ENOMEM" and kgsl.va(number) == 0
    assert kgsl.mmap(number).addr == kgsl.va(number)


def test_a_guard_page_gives_its_address_back(kgsl: Kgsl) -> None:
    """An object that takes all addresses below 4 GiB, guard page included, twice."""
    for _ in range(2):
        number = kgsl.call("alloc", size=0xF000_0000 - 0x30_0000 - PAGE, flags=FORCE_32 | GUARD)["id"]
        assert kgsl.error("alloc", size=1, flags=FORCE_32) == errno.ENOMEM
        kgsl.call("free", id=number)
