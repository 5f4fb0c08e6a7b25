"""UVM: initialisation, registrations, external ranges and mappings (nv-driver.md §2, §4, §7, §8)."""

from __future__ import annotations

import struct

import pytest
from rm_client import COMPUTE, SYSMEM, VASPACE, VIDMEM, Buffer, Machine, RmClient, va_space_params

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import MmuFault
from hcqrt.fileio import FileIOInterface

BASE, MIB, WINDOW = 0x7000000000, 1 << 20, 0x7100000000


def space_of(client: RmClient) -> GpuAddressSpace:
    found: GpuAddressSpace = client.system.drivers[0].clients[client.root].objects[client.va_space].space  # type: ignore[attr-defined]
    return found


def mm_initialize(file: FileIOInterface, fd: int) -> int:
    buffer = Buffer(struct.pack("<iI", fd, 0xFFFFFFFF), 512)
    file.ioctl(75, buffer.address)
    return buffer.u32(4)


def test_nothing_works_before_initialize(machine: Machine) -> None:
    client = RmClient(machine())
    client.open_device()
    assert client.register_gpu() == 0x16
    assert client.create_range(BASE, MIB) == 0x16
    assert client.uvm_call(0x30000001, struct.pack("<QI4x", 4, 0), 8) == 0x1F
    assert client.uvm_call(0x30000001, struct.pack("<QI4x", 2, 0), 8) == 0
    assert client.uvm_call(0x30000001, struct.pack("<QI4x", 2, 0), 8) == 0
    assert client.uvm_call(0x30000001, struct.pack("<QI4x", 0, 0), 8) == 0x1F
    client.uvm.ioctl(0x30000002, 0)
    client.close()


def test_the_mm_file_is_a_second_one_and_its_close_ends_the_space(client: RmClient) -> None:
    second, third = client.system.open("/dev/nvidia-uvm"), client.system.open("/dev/nvidia-uvm")
    assert mm_initialize(second, client.ctl.fd) == 0x1F
    assert mm_initialize(client.uvm, client.uvm.fd) == 0x1F
    assert mm_initialize(second, third.fd) == 0x1F
    assert mm_initialize(second, client.uvm.fd) == 0
    assert mm_initialize(third, client.uvm.fd) == 0x40
    assert client.create_range(BASE, 2 * MIB) == 0
    second.close()
    _, memory = client.memory(VIDMEM, 2 * MIB)
    assert client.map_external(BASE, 2 * MIB, memory) == 0x5D
    third.close()


def test_gpu_registration(machine: Machine) -> None:
    client = RmClient(machine())
    client.open_device()
    assert client.uvm_call(0x30000001, bytes(16), 8) == 0
    assert client.register_gpu(b"x" * 16) == 0x12
    assert client.register_va_space(client.va_space) == 0x26
    assert client.register_gpu() == 0 and client.register_gpu() == 0x26
    plain = client.alloc(client.device, VASPACE, va_space_params(flags=0x40))
    assert client.register_va_space(plain) == 0x29
    assert client.register_va_space(client.device) == 0x33
    assert client.register_va_space(client.va_space) == 0
    assert client.register_va_space(client.va_space) == 0x26
    assert client.unregister_va_space() == 0 and client.unregister_va_space() == 0x26
    assert client.uvm_call(38, client.uuid + bytes(4), 16) == 0
    assert client.uvm_call(38, client.uuid + bytes(4), 16) == 0x26
    client.close()


def test_a_gpu_that_is_not_open_has_no_uuid(machine: Machine) -> None:
    client = RmClient(machine())
    client.open_device()
    assert client.uvm_call(0x30000001, bytes(16), 8) == 0
    client.gpu.close()
    assert client.register_gpu() == 0x12
    client.close()


def test_external_ranges(client: RmClient) -> None:
    assert client.create_range(BASE, 2 * MIB) == 0
    for base, nbytes, status in (
        (BASE + MIB, 4096, 0x68), (BASE - 4096, 8192, 0x68), (0, 4096, 0x1E), (BASE * 2, 0, 0x1E),
        (BASE * 2 + 1, 4096, 0x1E), (BASE * 2, 100, 0x1E), (BASE + 2 * MIB, 4096, 0),
    ):  # fmt: skip
        assert client.create_range(base, nbytes) == status
    assert client.uvm_call(72, struct.pack("<QQI4x", BASE, 4096, 0), 16) == 0
    assert client.uvm_call(72, struct.pack("<QQI4x", BASE * 3, 4096, 0), 16) == 0x1E
    assert client.uvm_free(BASE, MIB) == 0x1E and client.uvm_free(BASE + 4096, 2 * MIB) == 0x1E
    assert client.uvm_free(BASE, 2 * MIB) == 0 and client.uvm_free(BASE, 2 * MIB) == 0x1E
    assert client.create_range(BASE, 2 * MIB) == 0


def test_mapping_rules(client: RmClient) -> None:
    _, memory = client.memory(VIDMEM, 4 * MIB)
    assert client.map_external(BASE, 4 * MIB, memory) == 0x1E  # no range yet
    assert client.create_range(BASE, 8 * MIB) == 0
    assert client.map_external(BASE, 16 * MIB, memory) == 0x1E
    assert client.map_external(BASE + 5, 4096, memory) == 0x1E
    assert client.map_external(BASE, 0, memory) == 0x1E
    assert client.map_external(BASE, 4096, memory, offset=100) == 0x1E
    assert client.map_external(BASE, 8 * MIB, memory) == 0x37
    assert client.map_external(BASE, 4 * MIB, memory, offset=4096) == 0x37
    assert client.map_external(BASE, 4096, memory, count=0) == 0x1F
    assert client.map_external(BASE, 4096, memory, count=257) == 0x1F
    assert client.map_external(BASE, 4096, memory, kind=4) == 0x1F
    assert client.map_external(BASE, 4096, memory, caching=3) == 0x1F
    assert client.map_external(BASE, 4096, memory, uuid=b"y" * 16) == 0x26
    assert client.map_external(BASE, 4096, 0x99) == 0x57
    assert client.create_range(1 << 50, MIB) == 0
    assert client.map_external(1 << 50, MIB, memory) == 0x5B
    assert client.map_external(BASE, 4 * MIB, memory) == 0


def test_what_the_gpu_sees_is_what_was_mapped(client: RmClient) -> None:
    space = space_of(client)
    _, video = client.memory(VIDMEM, 4 * MIB)
    _, plain = client.memory(SYSMEM, MIB)
    cpu = client.map(video, 4 * MIB)
    cpu[MIB] = 0x42
    assert client.create_range(BASE, 8 * MIB) == 0
    assert client.map_external(BASE, 3 * MIB, video, offset=MIB) == 0
    assert space.read(BASE, 1) == b"\x42"
    assert client.map_external(BASE + MIB, MIB, plain, kind=3) == 0  # replaces the middle
    with pytest.raises(MmuFault, match="RO"):
        space.write_u32(BASE + MIB, 1)
    assert [nbytes for _, nbytes, *_ in space.ranges()] == [MIB, MIB, MIB]
    assert client.map_external(BASE + 4 * MIB, MIB, plain, kind=2) == 0
    with pytest.raises(MmuFault, match="ATOMIC"):
        space.pointer(BASE + 4 * MIB, 4, "atomic")
    assert client.free(video) == 0 and client.free(plain) == 0  # UVM keeps its own reference
    assert space.read(BASE, 1) == b"\x42"
    assert client.unmap_external(BASE, 4096) == 0
    with pytest.raises(MmuFault) as fault:
        space.read(BASE, 1)
    assert (fault.value.kind, fault.value.address) == ("PTE", BASE)
    assert client.uvm_free(BASE, 8 * MIB) == 0 and space.ranges() == []
    with pytest.raises(MmuFault, match="PDE"):
        space.read(BASE, 1)


def test_unregistering_the_address_space_unmaps_everything(client: RmClient) -> None:
    _, video = client.memory(VIDMEM, 4 * MIB)
    assert client.create_range(BASE, 4 * MIB) == 0 and client.map_external(BASE, 4 * MIB, video) == 0
    space = space_of(client)
    assert client.unregister_va_space() == 0 and space.ranges() == []
    assert client.map_external(BASE, 4 * MIB, video) == 0x26
    assert client.register_va_space(client.va_space) == 0 and client.map_external(BASE, 4 * MIB, video) == 0


def test_freeing_the_rm_address_space_first_is_survived(client: RmClient) -> None:
    _, video = client.memory(VIDMEM, 4 * MIB)
    assert client.create_range(BASE, 4 * MIB) == 0 and client.map_external(BASE, 4 * MIB, video) == 0
    assert client.free(client.va_space) == 0
    assert client.map_external(BASE, 4 * MIB, video) == 0x26
    assert client.unregister_va_space() == 0x26


def test_channel_registration(client: RmClient) -> None:
    channel = client.open_channel()
    client.alloc(channel, COMPUTE)
    assert client.register_channel(channel, 0, 64 * MIB) == 0x1E
    assert client.register_channel(channel, WINDOW + 1, 64 * MIB) == 0x1E
    assert client.register_channel(channel, WINDOW, 8 * MIB) == 0x1E
    assert client.register_channel(0x99, WINDOW, 64 * MIB) == 0x33
    assert client.register_channel(channel, WINDOW, 64 * MIB, b"z" * 16) == 0x26
    assert client.register_channel(channel, 1 << 49, 64 * MIB) == 0x5B
    assert client.register_channel(channel, WINDOW, 64 * MIB) == 0
    assert client.register_channel(channel, WINDOW, 64 * MIB) == 0x21
    assert client.create_range(WINDOW, MIB) == 0x68
    assert client.unregister_channel(channel) == 0 and client.unregister_channel(channel) == 0x21
    assert client.create_range(WINDOW, MIB) == 0


def test_channels_of_one_group_share_a_window(client: RmClient) -> None:
    for _ in range(2):
        channel = client.open_channel()
        client.alloc(channel, COMPUTE)
        assert client.register_channel(channel, WINDOW, 64 * MIB) == 0
    assert client.free(client.group) == 0
    channel_ranges = [item for item in client.system.live_objects() if "UVM channel" in item.name]
    assert len(channel_ranges) == 2


def test_a_channel_of_another_address_space_is_refused(client: RmClient) -> None:
    registered = client.va_space
    client.va_space = client.alloc(client.device, VASPACE, va_space_params())
    channel = client.open_channel()
    client.alloc(channel, COMPUTE)
    assert client.register_channel(channel, WINDOW, 64 * MIB) == 0x21
    client.va_space = registered


def peer(client: RmClient, number: int, other: bytes) -> int:
    return client.uvm_call(number, client.uuid + other + bytes(4), 32)


@pytest.mark.parametrize("allowed", [True, False])
def test_peers(machine: Machine, allowed: bool) -> None:
    system = machine([{"peer_access": allowed}, {"peer_access": allowed}])
    client, other = RmClient(system, 0), RmClient(system, 1)
    client.open_device()
    client.open_uvm()
    uuid = system.drivers[0].boards[1].uuid  # type: ignore[attr-defined]  # an NvDriver
    assert peer(client, 29, uuid) == 0x26
    assert client.register_gpu(uuid) == 0
    assert peer(client, 29, client.uuid) == 0x26
    assert peer(client, 29, uuid) == (0 if allowed else 0x56)
    assert peer(client, 29, uuid) == (0x26 if allowed else 0x56)
    assert peer(client, 30, uuid) == (0 if allowed else 0x26)
    other.close()
    client.close()


def test_unknown_uvm_calls_are_named(client: RmClient) -> None:
    assert client.uvm_call(74, bytes(40), 32) == 0x56
    assert client.system.refusals == ["UVM_MAP_EXTERNAL_SPARSE on /dev/nvidia-uvm"]
