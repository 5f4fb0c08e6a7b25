"""What the driver says of each chip, and which objects can be made on it: classes, counts, tokens, usermode pages."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from rm_client import CTXSHARE, SYSMEM, TSG, VASPACE, VIDMEM, Buffer, Machine, RmClient, call, channel_params
from rm_client import va_space_params as va_params

from hcqrt.emu.nv.chips import CHIPS

LONG, MIDDLE = "580.65.06", "575.51.02"
# chip -> architecture, implementation, SM version, warps, SMs, PCI device, entries of the list in 580.65.06 and before,
# channel, compute and copy class (nv-driver.md §3, §4.11, §9; nv-engine.md §6), bits of an address
FACTS: dict[str, tuple[Any, ...]] = {
    "sm_75": (0x160, 2, 0x705, 32, 68, 0x1E07, 91, 45, 0xC46F, 0xC5C0, 0xC5B5, 49),
    "sm_80": (0x170, 0, 0x802, 64, 108, 0x20B0, 93, 38, 0xC56F, 0xC6C0, 0xC6B5, 49),
    "sm_86": (0x170, 2, 0x806, 48, 68, 0x2206, 106, 50, 0xC56F, 0xC7C0, 0xC7B5, 49),
    "sm_87": (0x170, 0xB, 0x807, 48, 16, 0x0000, 106, 50, 0xC56F, 0xC7C0, 0xC7B5, 49),
    "sm_89": (0x190, 2, 0x809, 48, 128, 0x2684, 107, 51, 0xC56F, 0xC9C0, 0xC7B5, 49),
    "sm_90": (0x180, 0, 0x900, 64, 132, 0x2330, 101, 41, 0xC86F, 0xCBC0, 0xC8B5, 57),
    "sm_100": (0x1A0, 0, 0xA00, 64, 148, 0x2901, 102, 42, 0xC96F, 0xCDC0, 0xC9B5, 57),
    "sm_103": (0x1A0, 3, 0xA03, 64, 148, 0x3182, 102, 42, 0xC96F, 0xCDC0, 0xC9B5, 57),
    "sm_120": (0x1B0, 2, 0xA04, 48, 170, 0x2B85, 117, 57, 0xCA6F, 0xCEC0, 0xCAB5, 57),
    "sm_121": (0x1B0, 0xB, 0xC01, 48, 48, 0x2E12, 125, 60, 0xCA6F, 0xCEC0, 0xCAB5, 57),
}
# Products' data sheets: cores, and megabytes behind BAR1
BOARDS = {
    "sm_75": (4352, 256), "sm_80": (6912, 65536), "sm_86": (8704, 256), "sm_87": (2048, 256), "sm_89": (16384, 256),
    "sm_90": (16896, 131072), "sm_100": (18944, 262144), "sm_103": (18944, 524288), "sm_120": (21760, 256),
    "sm_121": (6144, 256),
}  # fmt: skip
# GPCs of the whole die, TPCs of one
SHAPES = {
    "sm_75": (6, 6), "sm_80": (8, 8), "sm_86": (7, 6), "sm_87": (2, 4), "sm_89": (12, 6), "sm_90": (8, 9),
    "sm_100": (8, 10), "sm_103": (8, 10), "sm_120": (12, 8), "sm_121": (3, 8),
}  # fmt: skip
USERMODE = (0xC361, 0xC461, 0xC561, 0xC661, 0xC761)
USERMODES = {0x160: 2, 0x170: 3, 0x190: 3, 0x180: 4, 0x1A0: 4, 0x1B0: 5}  # how many of them, by architecture
COMPUTES = {0xC5C0, 0xC6C0, 0xC7C0, 0xC9C0, 0xCBC0, 0xCDC0, 0xCEC0}
COPIES = {0xC5B5, 0xC6B5, 0xC7B5, 0xC8B5, 0xC9B5, 0xCAB5}
FIRST_DRIVERS = {"sm_100": "560.28.03", "sm_103": "575.51.02", "sm_120": "570.86.15", "sm_121": "575.51.02"}


def test_every_chip_has_its_facts() -> None:
    assert list(CHIPS) == list(FACTS)


def class_list(client: RmClient) -> list[int]:
    status, out = client.control(client.device, 0x800201, struct.pack("<I4xQ", 0, 0))
    assert status == 0
    count = out.u32(0)
    room = Buffer(bytes(4 * count))
    status, _ = client.control(client.device, 0x800201, struct.pack("<I4xQ", count, room.address))
    assert status == 0
    return [room.u32(4 * index) for index in range(count)]


def gr_info(client: RmClient, *indices: int) -> list[int]:
    rows = Buffer(b"".join(struct.pack("<II", index, 0xFFFFFFFF) for index in indices))
    status, _ = client.control(client.subdevice, 0x20801201, struct.pack("<I4xQ16x", len(indices), rows.address))
    assert status == 0
    return [rows.u32(8 * row + 4) for row in range(len(indices))]


@pytest.fixture
def opened(machine: Machine) -> Any:
    clients: list[RmClient] = []

    def make(nv: Any, **options: Any) -> RmClient:
        clients.append(RmClient(machine(nv, **options)))
        clients[-1].open_device()
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("chip", FACTS)
def test_what_the_driver_says_of_a_chip(opened: Any, chip: str) -> None:
    arch, impl, sm_version, warps, sms, pci, *_ = FACTS[chip]
    client = opened(chip)
    status, out = client.control(client.subdevice, 0x20801701, bytes(16))
    assert (status, out.u32(0), out.u32(4)) == (0, arch, impl)
    gpcs, per_gpc, per_tpc = gr_info(client, 20, 23, 32)
    cards = call(client.ctl, 200, bytes(72))
    assert (gr_info(client, 29)[0], cards.u64(48) >> 20) == BOARDS[chip]
    assert gr_info(client, 12, 13) == [sm_version, warps]
    status, out = client.control(client.subdevice, 0x2080122A, bytes(24))
    assert status == 0
    masks = []
    for gpc in range(bin(out.u32(16)).count("1")):
        status, tpc = client.control(client.subdevice, 0x2080122B, struct.pack("<16xII", gpc, 0))
        assert status == 0
        masks.append(tpc.u32(20))
    assert sum(bin(mask).count("1") for mask in masks) * per_tpc == sms
    assert len(masks) <= gpcs and max(masks).bit_length() <= per_gpc
    assert (gpcs, per_gpc) == SHAPES[chip]
    assert client.system.read_text("/sys/bus/pci/devices/0000:01:00.0/device") == f"{pci:#06x}\n"


@pytest.mark.parametrize("chip", FACTS)
def test_class_lists(opened: Any, chip: str) -> None:
    *_, long, short, channel, compute, copy, _ = FACTS[chip]
    client = opened(chip, nv_driver=LONG)
    classes = class_list(client)
    assert len(classes) == long == len(set(classes)) and classes == sorted(classes)
    assert set(classes) & COMPUTES == {compute}
    assert max(set(classes) & COPIES) == copy
    assert max(number for number in classes if number & 0xFF == 0x6F) == channel
    assert tuple(number for number in classes if number & 0xFF == 0x61) == USERMODE[: USERMODES[FACTS[chip][0]]]
    assert 0xC461 in classes and 0x90F1 in classes and 0xA06C in classes and 0x9067 in classes
    before = class_list(opened(chip, nv_driver=MIDDLE))
    assert len(before) == short and set(before) < set(classes)


@pytest.mark.parametrize(("chip", "first"), FIRST_DRIVERS.items())
def test_a_driver_older_than_the_chip(machine: Machine, chip: str, first: str) -> None:
    before = {"560.28.03": "555.58.02", "575.51.02": "570.211.01", "570.86.15": "565.77"}[first]
    with pytest.raises(ValueError, match=rf"driver {before} does not know {chip}: {first} was"):
        machine(chip, nv_driver=before)
    client = RmClient(machine(chip, nv_driver=first))
    client.close()


def group_of(client: RmClient, engine: int) -> tuple[int, int]:
    space = 0 if engine == 1 else client.va_space
    params = struct.pack("<IIIIB3x", 0, 0, space, engine, 0)
    return client.alloc_raw(client.root, client.device, TSG, params)


def open_channel(client: RmClient, number: int) -> tuple[int, int]:
    """(status, channel) of a class in a new graphics group."""
    _, client.group = group_of(client, 1)
    share = client.alloc(client.group, CTXSHARE, struct.pack("<III", client.va_space, 1, 0))
    status, ring = client.memory(VIDMEM, 2 << 20)
    assert status == 0
    status, notifier = client.memory(SYSMEM, 4096)
    assert status == 0
    params = channel_params(notifier, 1 << 36, 1024, share, ring, 8192)
    return client.alloc_raw(client.root, client.group, number, params)


@pytest.mark.parametrize("chip", FACTS)
def test_objects_of_a_chip_and_its_tokens(opened: Any, chip: str) -> None:
    *_, channel_class, compute, copy, _ = FACTS[chip]
    client = opened(chip)
    status, channel = open_channel(client, channel_class)
    assert status == 0
    for number in COMPUTES | COPIES:
        status, _ = client.alloc_raw(client.root, channel, number, None)
        both = {0xC9B5} if chip == "sm_121" else set()
        assert status == (0 if number in {compute, copy} | both else 0x22), hex(number)
    status, out = client.control(channel, 0xC36F0108, bytes(4))
    bits = 1 << 30 if chip in ("sm_120", "sm_121") else 0
    assert (status, out.u32(0)) == (0, bits)  # runlist 0, channel 0
    newer = {0xC46F: 0xC56F, 0xC56F: 0xC86F, 0xC86F: 0xC96F, 0xC96F: 0xCA6F}.get(channel_class)
    if newer is not None:
        assert open_channel(client, newer)[0] == 0x22


@pytest.mark.parametrize(
    ("chip", "last"), [("sm_75", 13), ("sm_80", 18), ("sm_90", 18), ("sm_100", 0x3D), ("sm_120", 16)]
)
def test_copy_engines(opened: Any, chip: str, last: int) -> None:
    client = opened(chip)
    after = {18: 0x34, 0x3D: 0x3E}.get(last, last + 1)
    assert group_of(client, 9)[0] == 0
    assert group_of(client, last)[0] == 0
    assert group_of(client, after)[0] == 0x1F


@pytest.mark.parametrize(
    ("chip", "engine", "token"), [("sm_75", 9, 0x10000), ("sm_100", 0x3D, 0x140000), ("sm_120", 10, 0x40020000)]
)
def test_tokens_of_copy_channels(opened: Any, chip: str, engine: int, token: int) -> None:
    """Runlist in bits 22:16, here numbered by engine; bit 30 on GB20x."""
    client = opened(chip)
    status, group = group_of(client, engine)
    assert status == 0
    status, ring = client.memory(VIDMEM, 2 << 20)
    assert status == 0
    status, notifier = client.memory(SYSMEM, 4096)
    assert status == 0
    channel = client.alloc(group, FACTS[chip][8], channel_params(notifier, 1 << 36, 1024, 0, ring, 8192))
    client.alloc(channel, FACTS[chip][10])
    status, out = client.control(channel, 0xC36F0108, bytes(4))
    assert (status, out.u32(0)) == (0, token)


@pytest.mark.parametrize("chip", FACTS)
def test_width_of_an_address(opened: Any, chip: str) -> None:
    bits = FACTS[chip][-1]
    client = opened(chip)
    fits = va_params(base=0x1000, size=(1 << bits) - 0x1000)
    assert client.alloc_raw(client.root, client.device, VASPACE, fits)[0] == 0
    too_wide = va_params(base=0x2000, size=(1 << bits) - 0x1000)
    assert client.alloc_raw(client.root, client.device, VASPACE, too_wide)[0] == 0x1F
    out = Buffer(va_params(base=0x1000, size=0), 4096)
    assert client.alloc_raw(client.root, client.device, VASPACE, out)[0] == 0
    assert out.u64(8) == (1 << bits) - 0x1000  # the chip's maximum


@pytest.mark.parametrize("number", [0xC661, 0xC761])
def test_usermode_parameters_of_hopper_and_later(opened: Any, number: int) -> None:
    client = opened("sm_120")
    make = client.alloc_raw
    assert make(client.root, client.subdevice, number, None)[0] == 0
    assert make(client.root, client.subdevice, number, bytes((0, 1)))[0] == 0x3B
    assert make(client.root, client.subdevice, number, bytes((1, 1)))[0] == 0x1B
    status, page = make(client.root, client.subdevice, number, bytes((1, 0)))
    assert status == 0
    view = client.map(page, 65536)
    plain = client.map(client.alloc(client.subdevice, number), 65536)
    assert bytes(view[0x80:0x88]) == bytes(8) != bytes(plain[0x80:0x88])  # the timer is not read through BAR1


def test_older_usermode_classes_read_no_parameters(opened: Any) -> None:
    client = opened("sm_120")
    assert client.alloc_raw(client.root, client.subdevice, 0xC461, bytes((1, 1)))[0] == 0
    view = client.map(client.alloc(client.subdevice, 0xC461), 65536)
    assert bytes(view[0x80:0x88]) != bytes(8)
    ampere = opened("sm_86")
    assert ampere.alloc_raw(ampere.root, ampere.subdevice, 0xC661, None)[0] == 0x22


def test_sm_states_of_a_large_gpu_come_in_two_parts(opened: Any) -> None:
    client = opened("sm_90")
    status, channel = open_channel(client, 0xC86F)
    assert status == 0
    compute = client.alloc(channel, 0xCBC0)
    debugger = client.alloc(client.device, 0x83DE, struct.pack("<III", 0, client.root, compute))
    size = 4824

    def read(start: int, count: int) -> int:
        data = bytearray(size)
        struct.pack_into("<II", data, 0, 0, count)
        struct.pack_into("<I", data, 4820, start)
        return client.control(debugger, 0x83DE030C, bytes(data))[0]

    assert [read(0, 100), read(100, 32), read(100, 33), read(0, 101)] == [0, 0, 0x1F, 0x1F]
