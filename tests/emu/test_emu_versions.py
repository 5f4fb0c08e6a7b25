"""The emulated driver at each boundary of its ABI (nv-driver.md §11): sizes, statuses, and what goes wrong unseen.

Structs are packed by hand at the offsets that each release has them.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rm_client import CHANNEL, COMPUTE, POISON, SYSMEM, TSG, VASPACE, VIDMEM, Buffer, Machine, RmClient, call

from hcqrt.autogen.nv.releases import RELEASES

MIB = 1 << 20
BASE = 1 << 36
CANARY = b"\xa5" * 128
FINE = (0, 0x56)  # done, or another thing that this object or emulator does not do: the size was right
# Command -> the first release and the size, in order.
CONTROLS = {
    0xA06C0101: (("535.54.03", 2), ("575.51.02", 3)),
    0xA06F0103: (("535.54.03", 2), ("575.51.02", 3)),
    0x0000013E: (("535.54.03", 776), ("560.28.03", 1032)),
    0x00800292: (("535.54.03", 644), ("550.40.07", 700), ("555.42.02", 404), ("580.65.06", 804)),
    0x20801228: (("535.54.03", 448), ("545.23.06", 472), ("570.86.15", 488), ("590.44.01", 496), ("610.43.02", 528)),
    0x2080121B: (("535.54.03", 6168), ("575.51.02", 7192), ("580.65.06", 9240)),
    0x2080120F: (("535.54.03", 1176), ("560.28.03", 1944), ("610.43.02", 4120)),
    0x20801303: (("535.54.03", 436), ("545.23.06", 444), ("560.28.03", 460), ("580.65.06", 1028)),
    0x20800102: (("535.54.03", 516), ("545.23.06", 524), ("575.51.02", 532), ("580.65.06", 564), ("610.43.02", 580)),
    0x20800170: (("535.54.03", 252), ("545.23.06", 256), ("550.40.07", 260), ("560.28.03", 340)),
    0x20800110: (("535.54.03", 132), ("595.44.02", 68)),
    0x20802A0A: (("535.54.03", 68), ("545.23.06", 136)),
    0x00000214: (("535.54.03", 256), ("580.65.06", 384)),
    0x00000127: (("535.54.03", 168), ("550.40.07", 176)),
    0x0000012B: (("535.54.03", 4252), ("550.40.07", 8348)),
    0x906F0102: (("535.54.03", 12), ("550.40.07", 16)),
    0xCB330101: (("535.54.03", 5), ("550.40.07", 6)),
}
BOUNDARIES = [
    (command, first, before, after)
    for command, steps in CONTROLS.items()
    for before, (first, after) in zip((size for _, size in steps), steps[1:], strict=False)
]


def release_before(first: str) -> str:
    """The release that hcqrt knows right before this one."""
    known = [".".join([str(r[0]), *(f"{part:02}" for part in r[1:])]) for r in RELEASES]
    return known[known.index(first) - 1]


@contextmanager
def opened(machine: Machine, driver: str) -> Iterator[RmClient]:
    client = RmClient(machine(nv_driver=driver))
    try:
        client.open_device()
        client.open_uvm()
        yield client
    finally:
        client.close()


def size_status(driver: str) -> int:
    version = tuple(map(int, driver.split(".")))
    checked_first = version >= (535, 161, 7) if version[0] == 535 else version >= (550, 54, 14)
    return 0x1F if checked_first else 0x3A


# controls: exact sizes


@pytest.mark.parametrize(("command", "first", "before", "after"), BOUNDARIES)
def test_a_control_takes_its_releases_size_only(
    machine: Machine, command: int, first: str, before: int, after: int
) -> None:
    for driver, right, wrong in ((release_before(first), before, after), (first, after, before)):
        with opened(machine, driver) as client:
            target = client.subdevice if command >> 16 == 0x2080 else client.device
            target = client.root if command >> 16 == 0 else target
            head = struct.pack("<II", 1, 12) if command == 0x20801228 else b""
            assert client.control(target, command, head.ljust(right, b"\0"))[0] in FINE, client.system.last_refusal
            assert client.control(target, command, head.ljust(wrong, b"\0"))[0] == size_status(driver)
            assert f"{wrong} bytes sent, {right} expected" in client.system.last_refusal


@pytest.mark.parametrize(
    ("driver", "status"),
    [
        ("535.54.03", 0x3A), ("535.154.05", 0x3A), ("535.161.07", 0x1F), ("535.288.01", 0x1F), ("545.29.06", 0x3A),
        ("550.40.07", 0x3A), ("550.54.14", 0x1F), ("595.45.04", 0x1F), ("610.43.02", 0x1F),
    ],
)  # fmt: skip
def test_a_wrong_size_and_no_parameters_are_told_apart(machine: Machine, driver: str, status: int) -> None:
    with opened(machine, driver) as client:
        assert client.control(client.subdevice, 0x2080014A, bytes(269))[0] == status
        assert client.control(client.subdevice, 0x2080014A)[0] == status
        data = struct.pack("<IIIIQII", client.root, client.subdevice, 0x2080014A, 0, 0, 268, POISON)
        assert call(client.ctl, 0x2A, data).u32(28) == 0x1F


@pytest.mark.parametrize("command", [0xC36F0103, 0xC36F0104])
def test_voltas_channel_controls_are_gone_from_555_on(machine: Machine, command: int) -> None:
    for driver, there in (("550.163.01", True), ("555.42.02", False), ("580.95.05", False)):
        with opened(machine, driver) as client:
            channel = client.open_channel()
            client.alloc(channel, COMPUTE)
            assert client.register_channel(channel, 0x7100000000, 64 * MIB) == 0
            data = b"\1\0" if command == 0xC36F0103 else struct.pack("<I", 1)
            assert client.control(channel, command, data)[0] == (0 if there else 0x56)
            assert client.system.refusals == []
            assert client.control(channel, 0xC36F0108, bytes(4))[0] == 0


# escapes: exact sizes, errno


@pytest.mark.parametrize(
    ("nr", "first", "before", "after"),
    [(0x57, "580.65.06", 56, 64), (0x58, "550.40.07", 40, 48), (0xD9, "570.86.15", 2600, 2608)],
)
def test_an_escape_takes_its_releases_size_only(machine: Machine, nr: int, first: str, before: int, after: int) -> None:
    for driver, right, wrong in ((release_before(first), before, after), (first, after, before)):
        with opened(machine, driver) as client:
            with pytest.raises(OSError) as failure:
                call(client.ctl, nr, bytes(wrong))
            assert failure.value.errno == errno.EINVAL and "wrong size" in str(failure.value)
            try:
                status = call(client.ctl, nr, bytes(right)).u32(right - 8)
            except OSError as error:  # not emulated, and not for its size
                assert "wrong size" not in str(error)
            else:
                assert (nr, status) == (0x57, 0x56)


def test_waiting_for_an_open_came_with_550(machine: Machine) -> None:
    with opened(machine, "545.29.06") as client, pytest.raises(OSError) as failure:
        call(client.gpu, 218, bytes(8))
    assert failure.value.errno == errno.EINVAL
    with opened(machine, "550.40.07") as client:
        assert call(client.gpu, 218, b"\xff" * 8).bytes(0, 8) == bytes(8)


@pytest.mark.parametrize("driver", ["535.54.03", "559.99", "610.43.02", "470.223.02"])
def test_the_version_query_works_on_every_driver(machine: Machine, driver: str) -> None:
    client = RmClient(machine(nv_driver=driver))
    out = call(client.ctl, 210, struct.pack("<II64s", 0x32, 0, b""))
    assert out.u32(4) == 1 and out.bytes(8, len(driver) + 1) == driver.encode() + b"\0"
    client.close()


# allocation parameters: the driver's own size from the caller's pointer


def channel_bytes(client: RmClient, size: int, handle_at: int, offset_at: int, engine_at: int) -> bytes:
    """NV_CHANNEL_ALLOC_PARAMS with USERD at a release's offsets, and a canary behind it."""
    out = bytearray(size)
    struct.pack_into("<IIQIIII", out, 0, client.notifier, 0, BASE, 1024, 0, client.share, 0)
    struct.pack_into("<I", out, handle_at, client.ring)
    struct.pack_into("<Q", out, offset_at, 8192)
    struct.pack_into("<I", out, engine_at, 1)
    return bytes(out) + CANARY


def channel_memory(client: RmClient) -> None:
    client.group = client.alloc(client.device, TSG, struct.pack("<IIIIB3x", 0, 0, 0, 1, 0))
    client.share = client.alloc(client.group, 0x9067, struct.pack("<III", client.va_space, 1, 0))
    (_, client.ring), (_, client.notifier) = client.memory(VIDMEM, 2 * MIB), client.memory(SYSMEM, 4096)


@pytest.mark.parametrize(
    ("driver", "wiped"),
    [("535.54.03", 0), ("535.86.05", 56), ("565.77", 56), ("570.86.15", 56), ("595.45.04", 56)],
)
def test_a_short_channel_struct_is_written_past_its_end(machine: Machine, driver: str, wiped: int) -> None:
    """304 bytes of 535.54.03: from 535.86.05 on RM zeroes its 56 bytes of keys, which lie in whatever comes next."""
    with opened(machine, driver) as client:
        channel_memory(client)
        params = Buffer(channel_bytes(client, 304, 32, 64, 128))
        client.alloc(client.group, CHANNEL, params)
        assert params.bytes(304, 128) == bytes(wiped) + CANARY[wiped:]
        assert params.u32(132) < 2048  # cid


@pytest.mark.parametrize(("driver", "read"), [("565.77", False), ("570.86.15", True)])
def test_a_channel_struct_of_360_bytes_is_read_past_its_end(machine: Machine, driver: str, read: bool) -> None:
    """570.86.15 added tpcConfigID at 360: the driver takes whatever lies there."""
    with opened(machine, driver) as client:
        channel_memory(client)
        client.alloc(client.group, CHANNEL, Buffer(channel_bytes(client, 360, 32, 64, 128)))
        given = client.system.ioctl_log[-1][4]
        assert given.get("tpcConfigID") == (0xA5A5A5A5 if read else None)


def test_610_moves_userd_behind_a_handle_in_the_middle(machine: Machine) -> None:
    for driver, fits, wrong in (("595.45.04", (368, 32, 64, 128), (376, 36, 72, 136)),
                                ("610.43.02", (376, 36, 72, 136), (368, 32, 64, 128))):  # fmt: skip
        with opened(machine, driver) as client:
            channel_memory(client)
            good, bad = (Buffer(channel_bytes(client, *where)) for where in (fits, wrong))
            status, _ = client.alloc_raw(client.root, client.group, CHANNEL, bad)
            assert status in (0x1F, 0x57)  # no USERD memory, or a handle where none may be
            client.alloc(client.group, CHANNEL, good)
            assert good.u32(fits[3] + 4) < 2048  # cid lies behind engineType


@pytest.mark.parametrize(
    ("number", "size", "driver", "field", "read"),
    [
        (VASPACE, 48, "575.64.05", "pasid", False), (VASPACE, 48, "580.65.06", "pasid", True),
        (VIDMEM, 120, "535.288.01", "numaNode", False), (VIDMEM, 120, "545.23.06", "numaNode", True),
    ],
)  # fmt: skip
def test_a_short_tail_is_read_past_its_end(
    machine: Machine, number: int, size: int, driver: str, field: str, read: bool
) -> None:
    with opened(machine, driver) as client:
        if number == VASPACE:
            data = struct.pack("<IIQ16xI4xQ", 0, 0x48, 1 << 40, 0, 0x1000)
        else:
            data = bytearray(120)
            struct.pack_into("<III", data, 0, client.root, 0, 0x1C101)
            struct.pack_into("<II", data, 24, 3 << 27, 1 << 2 | 1)
            struct.pack_into("<QQ", data, 64, MIB, 4096)
        assert len(data) == size
        params = Buffer(bytes(data) + CANARY)
        client.alloc(client.device, number, params)
        assert (field in client.system.ioctl_log[-1][4]) == read
        assert not read or client.system.ioctl_log[-1][4][field] & 0xFFFFFFFF == 0xA5A5A5A5
        assert params.bytes(size, 128) == CANARY  # read only: the same bytes go back


# UVM: the driver's layout, whatever the caller's


def map_bytes(client: RmClient, memory: int, attributes: int) -> Buffer:
    entry = client.uuid + struct.pack("<IIIII", 1, 0, 0, 0, 0)
    head = struct.pack("<QQQ", BASE, MIB, 0) + entry.ljust(36 * attributes, b"\0")
    return Buffer(head + struct.pack("<QiIII", 1, client.ctl.fd, client.root, memory, POISON), 16384)


def test_external_mappings_have_256_attributes_from_550_54_14_on(machine: Machine) -> None:
    for driver, right, wrong in (("550.40.07", 32, 256), ("550.54.14", 256, 32)):
        with opened(machine, driver) as client:
            _, memory = client.memory(VIDMEM, MIB)
            assert client.create_range(BASE, MIB) == 0
            bad, good = map_bytes(client, memory, wrong), map_bytes(client, memory, right)
            size = {32: 1200, 256: 9264}
            client.uvm.ioctl(33, bad.address)
            assert bad.u32(size[wrong] - 4) == POISON  # nothing where the caller looks
            assert bad.u32(size[right] - 4) == 0x1F  # 0 GPUs
            client.uvm.ioctl(33, good.address)
            assert good.u32(size[right] - 4) == 0


def test_freeing_a_range_lost_its_length_at_590(machine: Machine) -> None:
    with opened(machine, "580.142") as client:
        assert client.create_range(BASE, MIB) == 0
        newer = Buffer(struct.pack("<QI", BASE, POISON), 64)
        client.uvm.ioctl(34, newer.address)
        assert newer.u32(8) == POISON and newer.u32(16) == 0x1E  # the poison was the length
        assert client.uvm_free(BASE, MIB) == 0
    with opened(machine, "590.44.01") as client:
        assert client.create_range(BASE, MIB) == 0
        older = Buffer(struct.pack("<QQI", BASE, MIB, POISON), 64)
        client.uvm.ioctl(34, older.address)
        assert older.u32(16) == POISON and older.u32(8) == 0  # freed, and the status lies in the length
        client.uvm.ioctl(34, older.address)
        assert older.u32(16) == POISON and older.u32(8) == 0x1E


def test_unregistering_a_channel_lost_its_uuid_at_590(machine: Machine) -> None:
    for driver, old in (("580.142", True), ("590.44.01", False)):
        with opened(machine, driver) as client:
            channel = client.open_channel()
            client.alloc(channel, COMPUTE)
            assert client.register_channel(channel, 0x7100000000, 64 * MIB) == 0
            handles = struct.pack("<III", client.root, channel, POISON)
            older, newer = Buffer(client.uuid + handles, 64), Buffer(handles, 64)
            right, wrong = (older, newer) if old else (newer, older)
            client.uvm.ioctl(28, wrong.address)
            mine, drivers = (8, 24) if old else (24, 8)
            assert wrong.u32(mine) == POISON and wrong.u32(drivers) == 0x21  # other handles: it stays registered
            client.uvm.ioctl(28, right.address)
            assert right.u32(drivers) == 0
