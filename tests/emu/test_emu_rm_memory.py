"""RM memory: allocation rules, pinning, CPU mappings and the finite sizes behind them (nv-driver.md §5, §6)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import struct

import pytest
from rm_client import SYSMEM, USERMODE, VIDMEM, Buffer, Machine, RmClient, call, memory_params

from hcqrt.emu.refusal import EmulatorRefusal

MIB = 1 << 20


@pytest.mark.parametrize(
    ("number", "changes", "status"),
    [
        (VIDMEM, {"internal": 1}, 0x1F),
        (VIDMEM, {"va_space": 5}, 0x1F),
        (VIDMEM, {"attr": 3 << 27 | 1 << 25}, 0x1F),  # system memory through the vidmem class
        (SYSMEM, {"attr": 3 << 27}, 0x1F),  # and the reverse
        (VIDMEM, {"alignment": 3 << 12}, 0x1F),
        (VIDMEM, {"flags": 0x1C101 | 0x80000}, 0x56),
        (VIDMEM, {"attr": 3 << 27 | 1 << 12}, 0x56),  # compression
        (VIDMEM, {"attr2": 1 << 31}, 0x56),
    ],
)
def test_allocation_rules(client: RmClient, number: int, changes: dict[str, int], status: int) -> None:
    assert client.memory(number, MIB, **changes)[0] == status


def test_size_owner_and_parent(client: RmClient) -> None:
    assert client.memory(VIDMEM, 0)[0] == 0x1F
    root = client.root
    assert client.alloc_raw(root, client.device, VIDMEM, memory_params(VIDMEM, MIB, 0))[0] == 0x39
    assert client.alloc_raw(root, client.subdevice, VIDMEM, memory_params(VIDMEM, MIB, root))[0] == 0x36


def test_a_full_card_is_0x51_and_freeing_helps(machine: Machine) -> None:
    client = RmClient(machine({"memory_bytes": 64 * MIB}))
    client.open_device()
    status, first = client.memory(VIDMEM, 48 * MIB)
    assert status == 0 and client.memory(VIDMEM, 17 * MIB)[0] == 0x51
    assert client.memory(VIDMEM, 4096)[0] == 0
    assert client.memory(VIDMEM, 16 * MIB)[0] == 0x51  # 4 KiB took a 64 KiB unit
    assert client.free(first) == 0
    assert client.memory(VIDMEM, 32 * MIB)[0] == 0
    client.close()


def test_outputs_say_what_was_allocated(client: RmClient) -> None:
    params = Buffer(memory_params(VIDMEM, 3 * MIB, client.root), 4096)
    client.alloc(client.device, VIDMEM, params)
    assert params.u64(64) == 4 * MIB and params.u64(88) == 4 * MIB - 1
    params = Buffer(memory_params(SYSMEM, 5000, client.root), 4096)
    client.alloc(client.device, SYSMEM, params)
    assert params.u64(64) == 8192


def test_cpu_mappings_show_the_memory(client: RmClient) -> None:
    status, memory = client.memory(VIDMEM, 2 * MIB)
    assert status == 0
    first, second = client.map(memory, 2 * MIB), client.map(memory, 2 * MIB)
    first[12345] = 0x5A
    assert second[12345] == 0x5A and first.addr != second.addr
    base = client.system.reserve(4 * MIB, 2 * MIB, 1 << 46)
    placed = client.map(memory, 2 * MIB, address=base + 2 * MIB)
    assert placed.addr == base + 2 * MIB and placed[12345] == 0x5A
    client.maps.append((base, 2 * MIB))


def test_map_memory_rules(client: RmClient) -> None:
    system = client.system
    _, video = client.memory(VIDMEM, 2 * MIB)
    _, plain = client.memory(SYSMEM, MIB)
    gpu, ctl = system.open("/dev/nvidia0"), system.open("/dev/nvidiactl")
    assert client.map_status(video, 4096, ctl.fd)[0] == 0x1F
    assert client.map_status(plain, 4096, gpu.fd)[0] == 0x1F
    assert client.map_status(video, 4096, 77)[0] == 0x1F
    assert client.map_status(video, 0, gpu.fd)[0] == 0x2E
    assert client.map_status(video, 2 * MIB + 1, gpu.fd)[0] == 0x2E
    assert client.map_status(video, 4096, gpu.fd, offset=2 * MIB)[0] == 0x20
    assert client.map_status(client.va_space, 4096, gpu.fd)[0] == 0x31
    assert client.map_status(0x99, 4096, gpu.fd)[0] == 0x57
    assert client.map_status(video, MIB, gpu.fd)[0] == 0
    assert client.map_status(video, MIB, gpu.fd)[0] == 0x63
    for length, offset, number in ((MIB // 2, 0, errno.ENXIO), (2 * MIB, 0, errno.ENXIO), (MIB, 4096, errno.EINVAL)):
        with pytest.raises(OSError) as failure:
            gpu.mmap(length, offset)
        assert failure.value.errno == number
    assert client.map_status(plain, MIB, ctl.fd)[0] == 0
    with pytest.raises(OSError) as failure:
        ctl.mmap(2 * MIB)
    assert failure.value.errno == errno.ERANGE
    view = ctl.mmap(4096)
    ctl.close()
    view[0] = 9
    system.unmap(view.addr, 4096)
    with pytest.raises(OSError) as failure:
        client.gpu.mmap(4096)
    assert failure.value.errno == errno.EINVAL
    gpu.close()


def test_bar1_is_finite_and_given_back_by_unmap_or_free_not_munmap(machine: Machine) -> None:
    client = RmClient(machine({"bar1_bytes": 4 * MIB}))
    client.open_device()
    _, memory = client.memory(VIDMEM, 4 * MIB)
    _, other = client.memory(VIDMEM, 4 * MIB)
    file = client.device_file()
    status, linear = client.map_status(memory, 4 * MIB, file.fd)
    assert status == 0
    assert client.map_status(other, 4096, client.device_file().fd)[0] == 0x1A
    assert client.unmap_status(memory, linear + 1) == 0x57
    assert client.unmap_status(memory, linear) == 0
    with pytest.raises(OSError):
        file.mmap(4 * MIB)
    assert client.map_status(other, 4 * MIB, client.device_file().fd)[0] == 0
    assert client.free(other) == 0
    assert client.map_status(memory, 4 * MIB, client.device_file().fd)[0] == 0
    client.close()


def test_the_usermode_page_has_a_running_timer(client: RmClient) -> None:
    usermode = client.alloc(client.subdevice, USERMODE)
    page = client.map(usermode, 65536)
    times = []
    for _ in range(2):
        words = page.words
        times.append(words[0x80 // 4] | words[0x84 // 4] << 32)
    assert 0 < times[0] <= times[1] and times[0] % 32 == 0 and words[0x88 // 4] == 0
    with pytest.raises(EmulatorRefusal, match="0x94"):
        words[0x94 // 4] = 1
    words[0x90 // 4] = 0xDEAD
    assert client.system.stats()["doorbells"] == 1


def test_pinning_own_memory_follows_its_flags(client: RmClient) -> None:
    view = client.system.anonymous(MIB)
    for flags in (0x00000010, 0x80000010, 0x40000110, 0x40002010, 0x40000000, 0x48000010):
        assert client.pin(view.addr, MIB, flags=flags)[0] == 0x29, hex(flags)
    assert client.pin(view.addr + 1, 4096)[0] == 0x56
    assert client.pin(view.addr, 2 * MIB)[0] == 0x1E
    assert client.pin(view.addr, MIB, parent=client.subdevice)[0] == 0x31
    status, memory = client.pin(view.addr, MIB, flags=0x40045010)
    assert status == 0 and client.map_status(memory, 4096, client.system.open("/dev/nvidiactl").fd)[0] == 0x56
    client.files.append(client.system.fds[max(client.system.fds)])
    view[5] = 1
    client.system.unmap(view.addr, MIB)
    assert client.system.memory.used_bytes > 0  # the pages stay pinned until RM_FREE
    assert client.free(memory) == 0
    assert client.pin(0x10000, 4096)[0] == 0x1E


def test_pinning_memory_of_the_process(client: RmClient) -> None:
    space_base = 0x5000000000
    for shared in (True, False):
        raw = mmap.mmap(-1, 65536, mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
        pointer = ctypes.addressof(ctypes.c_char.from_buffer(raw))
        status, memory = client.pin(pointer, 65536)
        assert status == 0
        assert client.create_range(space_base, 65536) == 0
        assert client.map_external(space_base, 65536, memory) == 0
        raw[100] = 77
        space = client.system.drivers[0].clients[client.root].objects[client.va_space].space  # type: ignore[attr-defined]
        assert space.read(space_base + 100, 1) == bytes((77,))
        space.write(space_base + 200, b"gpu")
        assert raw[200:203] == b"gpu"
        assert client.uvm_free(space_base, 65536) == 0
        assert client.free(memory) == 0
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    read_only = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert client.pin(read_only, 4096)[0] == 0x1E
    libc.munmap(ctypes.c_void_p(read_only), 4096)


def test_dup_makes_a_second_handle_of_the_same_memory(client: RmClient) -> None:
    _, memory = client.memory(VIDMEM, 2 * MIB)
    data = struct.pack("<IIIIIII", client.root, client.device, 0, client.root, memory, 0, 0)
    out = call(client.ctl, 0x34, data)
    assert out.u32(24) == 0
    one, two = client.map(memory, 2 * MIB), client.map(out.u32(8), 2 * MIB)
    one[0] = 3
    assert client.free(memory) == 0 and two[0] == 3
