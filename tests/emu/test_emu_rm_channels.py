"""Channel groups, context shares, channels, engine objects, scheduling and tokens (nv-driver.md §8)."""

from __future__ import annotations

import struct

import pytest
from rm_client import (
    CHANNEL,
    COMPUTE,
    COPY,
    CTXSHARE,
    DEBUGGER,
    SYSMEM,
    TSG,
    VIDMEM,
    Buffer,
    Machine,
    RmClient,
    channel_params,
)

from hcqrt.emu.memory import MmuFault
from hcqrt.emu.nv.gpu import Gpu, SmError

WINDOW, WINDOW_BYTES = 0x7100000000, 64 << 20


def gpu_of(client: RmClient) -> Gpu:
    found: Gpu = client.system.drivers[0].boards[0].gpu  # type: ignore[attr-defined]  # an NvDriver
    return found


def group_params(engine: int, va_space: int = 0) -> bytes:
    return struct.pack("<IIIIB3x", 0, 0, va_space, engine, 0)


def attempt(client: RmClient, parent: int, **changes: int) -> int:
    fields = {
        "notifier": client.notifier, "ring_va": 1 << 36, "entries": 1024, "share": client.share, "userd": client.ring,
        "userd_offset": 1 << 20, **changes,
    }  # fmt: skip
    number = fields.pop("number", CHANNEL)
    return client.alloc_raw(client.root, parent, number, channel_params(**fields))[0]


@pytest.mark.parametrize("engine", [0, 2, 8, 14])
def test_a_group_needs_an_engine_of_this_chip(client: RmClient, engine: int) -> None:
    assert client.alloc_raw(client.root, client.device, TSG, group_params(engine))[0] == 0x1F


def test_context_shares_belong_to_graphics_groups(client: RmClient) -> None:
    copy = client.alloc(client.device, TSG, group_params(9, client.va_space))
    assert client.alloc_raw(client.root, copy, CTXSHARE, struct.pack("<III", client.va_space, 1, 0))[0] == 0x1F
    graphics = client.alloc(client.device, TSG, group_params(1))
    params = Buffer(struct.pack("<III", client.va_space, 1, 99), 4096)
    client.alloc(graphics, CTXSHARE, params)
    assert params.u32(8) == 1
    assert client.alloc_raw(client.root, graphics, CTXSHARE, struct.pack("<III", 0x77, 1, 0))[0] == 0x57


def test_channel_rules(client: RmClient) -> None:
    client.open_channel()
    other = client.alloc(client.device, TSG, group_params(1))
    foreign = client.alloc(other, CTXSHARE, struct.pack("<III", client.va_space, 1, 0))
    assert attempt(client, client.group, va_space=client.va_space) == 0x1F
    assert attempt(client, client.group, share=0) == 0x1F  # the first channel has a share
    assert attempt(client, client.group, share=foreign) == 0x36
    assert attempt(client, client.group, engine=9) == 0x1F
    assert attempt(client, client.group, entries=1000) == 0x1F
    assert attempt(client, client.group, entries=0) == 0x1F
    assert attempt(client, client.group, userd_offset=(1 << 20) + 256) == 0x1E
    assert attempt(client, client.group, userd_offset=2 << 20) == 0x1F
    assert attempt(client, client.group, userd=0x99) == 0x57
    assert attempt(client, client.group, userd=client.va_space) == 0x31
    assert attempt(client, client.group, flags=1 << 5) == 0x1F
    assert attempt(client, client.group, number=0xC86F) == 0x22
    assert attempt(client, client.root) in (0x22, 0x36)
    assert attempt(client, client.group, engine=1) == 0
    assert attempt(client, client.device, share=0, va_space=client.va_space, engine=1) == 0
    assert attempt(client, client.device, share=client.share) == 0x1F


def test_channel_ids_run_out(machine: Machine) -> None:
    client = RmClient(machine())
    client.open_device()
    client.open_channel()
    statuses = [attempt(client, client.group) for _ in range(2048)]
    assert statuses[:-1] == [0] * 2047 and statuses[-1] == 0x4F
    client.close()


def test_the_id_of_a_channel_comes_back(client: RmClient) -> None:
    client.open_channel()
    params = Buffer(channel_params(0, 1 << 36, 8, client.share, client.ring, 1 << 20), 4096)
    client.alloc(client.group, CHANNEL, params)
    assert params.u32(132) == 1


def test_engine_objects(client: RmClient) -> None:
    channel = client.open_channel()
    assert client.alloc_raw(client.root, channel, 0xC9C0, None)[0] == 0x22
    assert client.alloc_raw(client.root, channel, 0xC797, None)[0] == 0x22
    assert client.alloc_raw(client.root, client.group, COMPUTE, None)[0] == 0x36
    client.alloc(channel, COMPUTE)
    client.alloc(channel, COPY)
    assert sorted(gpu_of(client).channels[0].objects) == [COPY, COMPUTE]
    copy_channel = client.open_channel(engine=9)
    assert client.alloc_raw(client.root, copy_channel, COMPUTE, None)[0] == 0x22
    client.alloc(copy_channel, COPY, struct.pack("<II", 1, 9))


def test_a_graphics_context_needs_video_memory(machine: Machine) -> None:
    client = RmClient(machine({"memory_bytes": 4 << 20}))
    client.open_device()
    channel = client.open_channel()
    status, filler = client.memory(VIDMEM, 2 << 20)
    assert status == 0
    assert client.alloc_raw(client.root, channel, COMPUTE, None)[0] == 0x51
    assert client.free(filler) == 0
    client.alloc(channel, COMPUTE)
    client.close()


def test_the_order_is_object_registration_schedule(client: RmClient) -> None:
    channel = client.open_channel()
    assert client.control(channel, 0xC36F0108, bytes(4))[0] == 0x40  # no runlist yet
    client.alloc(channel, COMPUTE)
    assert client.schedule(client.group) == 0x40
    assert client.register_channel(channel, WINDOW, WINDOW_BYTES) == 0
    assert client.schedule(client.group, size=2) == 0x1F  # the struct of drivers before 575
    assert client.schedule(client.group) == 0
    gpu = gpu_of(client)
    status, out = client.control(channel, 0xC36F0108, bytes(4))
    assert status == 0 and gpu.channels[out.u32(0)].runnable
    assert client.unregister_channel(channel) == 0
    assert not gpu.channels[out.u32(0)].runnable and client.schedule(client.group) == 0x40


def test_a_copy_channel_schedules_without_registration(client: RmClient) -> None:
    channel = client.open_channel(engine=10)
    client.alloc(channel, COPY)
    assert client.schedule(client.group) == 0
    assert client.control(channel, 0xC36F0108, bytes(4))[1].u32(0) == 2 << 16


def test_the_token_lands_in_the_notifier_where_there_is_room(client: RmClient) -> None:
    channel = client.open_channel(engine=9)
    client.alloc(channel, COPY)
    view = client.map(client.notifier, 4096, bar=False)
    view[16 + 14] = 0xFF
    token = client.control(channel, 0xC36F0108, bytes(4))[1].u32(0)
    words = view.words
    assert words[(16 + 8) // 4] == token and view[16 + 14] == 0 and words[0] == words[2] == 0


def test_group_settings(client: RmClient) -> None:
    client.open_channel()
    assert client.control(client.group, 0xA06C0103, struct.pack("<Q", 5000))[0] == 0
    assert client.control(client.group, 0xA06C0104, bytes(8))[1].u64(0) == 5000
    assert client.control(client.group, 0xA06C0103, bytes(8))[0] == 0x1F
    assert client.control(client.group, 0xA06C0107, struct.pack("<I", 2))[0] == 0
    assert client.control(client.group, 0xA06C0108, bytes(4))[1].u32(0) == 2
    assert client.control(client.group, 0xA06C0107, struct.pack("<I", 3))[0] == 0x1F
    assert client.control(client.group, 0xA06C0105, bytes(8))[0] == 0


def test_a_fault_fills_notifiers_and_debugger_and_kills_the_group(client: RmClient) -> None:
    channel = client.open_channel()
    compute = client.alloc(channel, COMPUTE)
    status, second_notifier = client.memory(SYSMEM, 4096)
    assert status == 0
    params = channel_params(second_notifier, 1 << 36, 8, client.share, client.ring, 1 << 20)
    neighbour = client.alloc(client.group, CHANNEL, params)
    debugger = client.alloc(client.device, DEBUGGER, struct.pack("<III", 0, client.root, compute))
    gpu = gpu_of(client)
    view, other = client.map(client.notifier, 4096, bar=False), client.map(second_notifier, 4096, bar=False)
    victim = gpu.channels[0]
    fault = MmuFault(0xDEAD0000, "write", "PDE", 4)
    gpu.post_fault(victim, 31, "store by a test", mmu=fault, sm=SmError(sm=3, warp_esr=0xE, pc=0x700001230))
    gpu.post_fault(victim, 13, "a second one is not reported")
    assert struct.unpack("<QIHH", bytes(view.mv[:16]))[1:] == (31, 1, 0xFFFF)
    assert struct.unpack("<QIHH", bytes(other.mv[:16]))[1:] == (45, 1, 0xFFFF)
    _, out = client.control(debugger, 0x83DE0328, bytes(72))
    assert out.u32(64) == 1 and (out.u64(0), out.u32(8), out.u32(12)) == (0xDEAD0000, 0, 1)
    _, out = client.control(debugger, 0x83DE030C, struct.pack("<II", channel, 10).ljust(4824, b"\0"))
    row = 8 + 3 * 48
    assert out.u32(row + 4) == 0xE and out.u32(row + 8) == 0x1230 and out.u64(row + 32) == 0x700001230
    assert out.bytes(4812, 1) == b"\1" and out.u32(8) == 0
    _, out = client.control(neighbour, 0x906F0106, bytes(104))
    assert out.u32(4) == 0xDEAD0000
    assert client.schedule(client.group) == 0x60
    assert client.system.stats()["faults"] == 1 and "store by a test" in gpu.log[0]
    assert client.control(debugger, 0x83DE0310, struct.pack("<II", 0, 68))[0] == 0
    assert client.control(debugger, 0x83DE0328, bytes(72))[1].u32(64) == 0
