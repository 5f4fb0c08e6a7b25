"""RM: escapes, the object tree, controls and the statuses of each step (nv-driver.md §2 to §4, §9, §10)."""

from __future__ import annotations

import errno
import struct

import pytest
from rm_client import (
    COMPUTE,
    CTXSHARE,
    DEBUGGER,
    DEVICE,
    POISON,
    SUBDEVICE,
    USERMODE,
    VASPACE,
    Buffer,
    Machine,
    RmClient,
    call,
    request,
    va_space_params,
)


def fails(status: int, got: tuple[int, object] | int) -> None:
    assert (got if isinstance(got, int) else got[0]) == status


def device_params(instance: int = 0, mode: int = 2, flags: int = 0) -> bytes:
    return struct.pack("<II8xI28xI4x", instance, 0, flags, mode)


@pytest.mark.parametrize("nr", [0x27, 0x29, 0x2A, 0x2B, 0x34, 0x4E, 0x4F, 201, 210, 218])
def test_an_escape_of_the_wrong_size_is_einval(client: RmClient, nr: int) -> None:
    for size in (12, 132):
        with pytest.raises(OSError) as failure:
            call(client.ctl, nr, bytes(size))
        assert failure.value.errno == errno.EINVAL


def test_each_escape_wants_its_node(client: RmClient) -> None:
    for file, nr, size in (
        (client.gpu, 0x29, 16), (client.gpu, 0x2A, 32), (client.gpu, 0x2B, 32), (client.gpu, 0x4E, 56),
        (client.gpu, 200, 72), (client.gpu, 210, 72), (client.ctl, 0x27, 56), (client.ctl, 201, 4),
        (client.ctl, 218, 8),
    ):  # fmt: skip
        with pytest.raises(OSError) as failure:
            call(file, nr, bytes(size))
        assert failure.value.errno == errno.EINVAL
    assert call(client.gpu, 218, b"\xff" * 8).bytes(0, 8) == bytes(8)


def test_version_query_strict_and_relaxed(client: RmClient) -> None:
    out = call(client.ctl, 210, struct.pack("<II64s", 0x32, 0, b""))
    assert out.u32(4) == 1 and out.bytes(8, 10) == b"580.95.05\0"
    assert call(client.ctl, 210, struct.pack("<II64s", 0, 0, b"580.95.05")).u32(4) == 1
    assert call(client.ctl, 210, struct.pack("<II64s", 0x31, 0, b"580.1")).u32(4) == 1
    for cmd, text in ((0, b"580.95.06"), (0x31, b"570.95.05"), (0x33, b"580.95.05")):
        buffer = Buffer(struct.pack("<II64s", cmd, 0, text))
        with pytest.raises(OSError):
            client.ctl.ioctl(request(210, 72), buffer.address)
        assert cmd == 0x33 or buffer.bytes(8, 9) == b"580.95.05"


def test_card_info_needs_room_and_lists_uninitialised_cards(machine: Machine) -> None:
    system = machine(["sm_86", {"minor": 7, "gpu_id": 0x4100, "pci": "0000:41:00.0"}])
    ctl = system.open("/dev/nvidiactl")
    with pytest.raises(OSError) as failure:
        call(ctl, 200, b"\xff" * 72)
    assert failure.value.errno == errno.EINVAL
    out = call(ctl, 200, b"\xff" * 72 * 32)
    assert [out.bytes(72 * i, 1) for i in range(3)] == [b"\1", b"\1", b"\0"]
    assert (out.u32(72 + 16), out.u32(72 + 56), out.bytes(72 + 8, 1)) == (0x4100, 7, b"\x41")
    assert struct.unpack_from("<HH", out.raw, 72 + 12) == (0x10DE, 0x2206) and out.u64(48) == 256 << 20
    assert out.bytes(144, 72 * 30) == bytes(72 * 30)
    ctl.close()


def test_register_fd_once_and_with_a_control_file(client: RmClient) -> None:
    file = client.system.open("/dev/nvidia0")
    for fd in (client.uvm.fd, client.gpu.fd, 999, -1):
        with pytest.raises(OSError):
            call(file, 201, struct.pack("<i", fd))
    call(file, 201, struct.pack("<i", client.ctl.fd))
    with pytest.raises(OSError):
        call(file, 201, struct.pack("<i", client.ctl.fd))
    file.close()


def test_a_gpu_must_be_open_or_attached(machine: Machine) -> None:
    client = RmClient(machine())
    query = struct.pack("<I28x", 1 << 8)
    assert client.control(client.root, 0x205, query)[0] == 0
    client.gpu.close()
    assert client.control(client.root, 0x205, query)[0] == 0x1F
    fails(0x1F, client.alloc_raw(client.root, client.root, DEVICE, device_params()))
    with pytest.raises(OSError):
        call(client.ctl, 212, struct.pack("<I", 0xBAD))
    call(client.ctl, 212, struct.pack("<I", 1 << 8))
    with pytest.raises(OSError):
        call(client.ctl, 212, struct.pack("<I", 1 << 8))
    assert client.control(client.root, 0x205, query)[0] == 0
    assert client.control(client.root, 0x205, struct.pack("<I28x", 7))[0] == 0x1F
    client.close()


def test_handles_are_given_or_chosen_and_unique(machine: Machine) -> None:
    client = RmClient(machine())
    assert client.root >= 0xC1D00000
    assert client.alloc(client.root, DEVICE, device_params()) >= 0xCAF00000
    assert client.alloc(client.root, DEVICE, device_params(), handle=5) == 5
    fails(0x19, client.alloc_raw(client.root, client.root, DEVICE, device_params(), handle=5))
    assert client.alloc_raw(client.root, 5, SUBDEVICE, None, wide=True)[0] == 0
    fails(0x57, client.alloc_raw(client.root, 0x77, SUBDEVICE, None))
    fails(0x36, client.alloc_raw(client.root, client.root, SUBDEVICE, None))
    fails(0x23, client.alloc_raw(0xC1D0FFFF, client.root, DEVICE, device_params()))
    fails(0x22, client.alloc_raw(client.root, 5, 0x1234, None))
    fails(0x1F, client.alloc_raw(client.root, client.root, DEVICE, None))
    assert "0x1234" in client.system.refusals[0]
    client.close()


def test_device_rules(machine: Machine) -> None:
    client = RmClient(machine())
    fails(0x22, client.alloc_raw(client.root, client.root, DEVICE, device_params(instance=1)))
    fails(0x1F, client.alloc_raw(client.root, client.root, DEVICE, device_params(mode=3)))
    single = client.alloc(client.root, DEVICE, device_params(mode=1))
    fails(0x40, client.alloc_raw(client.root, single, VASPACE, va_space_params()))
    client.close()


def test_clients_belong_to_the_file_that_made_them(machine: Machine) -> None:
    system = machine()
    first, second = RmClient(system), RmClient(system)
    second.root, own = first.root, second.root
    fails(0x23, second.alloc_raw(first.root, first.root, DEVICE, device_params()))
    fails(0x23, second.control(first.root, 0x205, bytes(32)))
    fails(0x23, second.free(first.root))
    second.root = own
    first.close()
    assert second.free(own) == 0
    assert second.free(own) == 0x23
    second.close()


def test_freeing_a_parent_frees_its_descendants(client: RmClient) -> None:
    channel = client.open_channel()
    client.alloc(channel, COMPUTE)
    fails(0x36, client.free(client.group, parent=client.root))
    count = len(client.system.live_objects())
    assert client.free(client.group, parent=client.device) == 0
    assert len(client.system.live_objects()) == count - 4
    fails(0x57, client.free(channel))
    assert client.free(client.device) == 0
    fails(0x57, client.control(client.subdevice, 0x20801701, bytes(16)))
    handles = [item for item in client.system.live_objects() if item.kind == "handle"]
    assert len(handles) == 1


def test_va_space_rules(client: RmClient) -> None:
    def attempt(**changes: int) -> int:
        return client.alloc_raw(client.root, client.device, VASPACE, va_space_params(**changes))[0]

    assert attempt() == 0 and attempt(size=0) == 0
    assert attempt(base=1 << 48, size=1 << 49) == 0x1F
    assert attempt(flags=0x10000) == 0x1F and attempt(index=1) == 0x1F
    assert any("0x10000" in text for text in client.system.refusals)


def test_usermode_ignores_parameters_and_needs_a_subdevice(client: RmClient) -> None:
    client.alloc(client.subdevice, USERMODE, b"\xff" * 16)
    client.alloc(client.subdevice, 0xC561)
    fails(0x36, client.alloc_raw(client.root, client.device, USERMODE, None))
    fails(0x22, client.alloc_raw(client.root, client.subdevice, 0xC661, None))


def test_the_class_list_wants_its_count_first(client: RmClient) -> None:
    status, out = client.control(client.device, 0x800201, struct.pack("<I4xQ", 0, 0))
    count = out.u32(0)
    assert status == 0 and count == 106
    small = Buffer(bytes(400))
    status, out = client.control(client.device, 0x800201, struct.pack("<I4xQ", 100, small.address))
    assert status == 0x3A and out.u32(0) == 100 and small.bytes(0, 400) == bytes(400)
    room = Buffer(bytes(4 * count))
    status, out = client.control(client.device, 0x800201, struct.pack("<I4xQ", count, room.address))
    classes = struct.unpack(f"<{count}I", room.bytes(0, 4 * count))
    assert status == 0 and {0xC56F, 0xC7C0, 0xC7B5, 0xC461, 0x90F1, 0xA06C} <= set(classes)
    assert not {0xC86F, 0xCBC0, 0xC9C0, 0xC661} & set(classes)


@pytest.mark.parametrize("size", [0, 1, 15, 17, 4096])
def test_a_control_of_the_wrong_size_is_0x1f(client: RmClient, size: int) -> None:
    fails(0x1F, client.control(client.subdevice, 0x20801701, bytes(size)))


def test_an_unknown_control_is_0x56_and_recorded(client: RmClient) -> None:
    fails(0x56, client.control(client.subdevice, 0x2080FFFE, bytes(4)))
    fails(0x56, client.control(client.device, 0x20801701, bytes(16)))
    assert any("0x2080fffe" in text for text in client.system.refusals)


def test_identity_controls(client: RmClient) -> None:
    board = client.system.drivers[0].boards[0]  # type: ignore[attr-defined]  # an NvDriver
    assert client.uuid == board.uuid
    fails(0x1F, client.control(client.subdevice, 0x2080014A, struct.pack("<III256x", 0, 6, 0)))
    _, out = client.control(client.subdevice, 0x2080014A, struct.pack("<III256x", 0, 0, 0))
    assert out.bytes(12, 4) == b"GPU-" and out.u32(8) == 41
    _, out = client.control(client.subdevice, 0x20801701, bytes(16))
    assert (out.u32(0), out.u32(4)) == (0x170, 2)
    _, out = client.control(client.subdevice, 0x20800110, bytes(132))
    assert out.bytes(4, 24) == b"NVIDIA GeForce RTX 3080\0"
    _, out = client.control(client.subdevice, 0x20801801, bytes(16))
    assert out.u32(0) == 0x220610DE
    first = client.control(client.subdevice, 0x20800403, bytes(8))[1].u64(0)
    second = client.control(client.subdevice, 0x20800403, bytes(8))[1].u64(0)
    assert first <= second and first % 32 == 0
    info = struct.pack("<I", 2) + struct.pack("<4I", 8, 0, 0x16, 0)
    _, out = client.control(client.subdevice, 0x20801303, info.ljust(1028, b"\0"))
    assert out.u32(8) == 8 << 20 and 0 < out.u32(16) <= 8 << 20
    assert client.control(client.subdevice, 0x2080200A, struct.pack("<II", 0x52, 0xFFFFFFFF))[0] == 0
    fails(0x1F, client.control(client.subdevice, 0x2080200A, struct.pack("<II", 0x52, 3601)))
    fails(0x1F, client.control(client.subdevice, 0x2080200A, struct.pack("<II", 3, 1)))


def gr_info(client: RmClient, *indices: int) -> tuple[int, list[int]]:
    rows = Buffer(b"".join(struct.pack("<II", index, POISON) for index in indices))
    params = struct.pack("<I4xQ16x", len(indices), rows.address)
    status, _ = client.control(client.subdevice, 0x20801201, params)
    return status, [rows.u32(8 * i + 4) for i in range(len(indices))]


@pytest.mark.parametrize(("tpcs", "warps"), [(2, 48), (72, 64), (34, 48)])
def test_graphics_info_and_masks_follow_the_board(machine: Machine, tpcs: int, warps: int) -> None:
    client = RmClient(machine({"chip": "sm_86", "tpcs": tpcs, "warps_per_sm": warps}))
    client.open_device()
    status, values = gr_info(client, 12, 13, 32, 20, 23)
    assert status == 0 and values[:3] == [0x806, warps, 2] and values[3] * values[4] >= tpcs
    _, out = client.control(client.subdevice, 0x2080122A, bytes(24))
    masks = []
    for gpc in range(32):
        if out.u32(16) >> gpc & 1:
            masks.append(client.control(client.subdevice, 0x2080122B, struct.pack("<16xII", gpc, 0))[1].u32(20))
    assert sum(mask.bit_count() for mask in masks) == tpcs
    fails(0x1F, client.control(client.subdevice, 0x2080122B, struct.pack("<16xII", 31, 0)))
    fails(0x1F, gr_info(client, 0x7F))
    assert any("0x7f" in text for text in client.system.refusals)
    client.close()


def debugger_params(client: RmClient, target: int, obsolete: int = 0) -> bytes:
    return struct.pack("<III", obsolete, client.root, target)


def test_debugger_rules(client: RmClient) -> None:
    channel = client.open_channel()
    compute = client.alloc(channel, COMPUTE)
    fails(0x1F, client.alloc_raw(client.root, client.device, DEBUGGER, debugger_params(client, compute, 1)))
    fails(0x31, client.alloc_raw(client.root, client.device, DEBUGGER, debugger_params(client, channel)))
    fails(0x36, client.alloc_raw(client.root, client.device, DEBUGGER, debugger_params(client, 0x99)))
    debugger = client.alloc(client.device, DEBUGGER, debugger_params(client, compute))
    status, out = client.control(debugger, 0x83DE0328, bytes(72))
    assert status == 0 and out.u32(64) == 0
    fails(0x1F, client.control(debugger, 0x83DE030C, struct.pack("<II", channel, 101).ljust(4824, b"\0")))
    fails(0x1F, client.control(debugger, 0x83DE030C, struct.pack("<II", channel, 69).ljust(4824, b"\0")))
    fails(0x57, client.control(debugger, 0x83DE030C, struct.pack("<II", 0x99, 1).ljust(4824, b"\0")))
    status, out = client.control(debugger, 0x83DE030C, struct.pack("<II", channel, 68).ljust(4824, b"\0"))
    assert status == 0 and out.bytes(4812, 1) == b"\0"
    assert client.control(debugger, 0x83DE0310, struct.pack("<II", channel, 68))[0] == 0
    assert client.control(debugger, 0x83DE0309, bytes(4))[0] == 0
    fails(0x36, client.alloc_raw(client.root, client.device, CTXSHARE, bytes(12)))


@pytest.mark.parametrize(
    ("version", "count", "status"),
    [
        ("535.54.03", 47, 0x3A),
        ("535.129.03", 48, 0x3A),
        ("535.161.07", 48, 0x1F),
        ("545.29.06", 48, 0x3A),
        ("550.40.07", 49, 0x3A),
        ("550.54.14", 49, 0x1F),
        ("560.28.03", 50, 0x1F),
        ("570.195.03", 50, 0x1F),
        ("580.65.06", 106, 0x1F),
        ("580.126.09", 108, 0x1F),
        ("590.44.01", 106, 0x1F),
        ("595.45.04", 109, 0x1F),
    ],
)
def test_older_drivers_list_fewer_classes_and_check_sizes_otherwise(
    machine: Machine, version: str, count: int, status: int
) -> None:
    client = RmClient(machine(nv_driver=version))
    device = client.alloc(client.root, DEVICE, device_params())
    assert client.control(device, 0x800201, bytes(16))[1].u32(0) == count
    fails(status, client.control(device, 0x800201, bytes(12)))
    assert call(client.ctl, 210, struct.pack("<II64s", 0x32, 0, b"")).bytes(8, len(version)) == version.encode()
    client.close()
