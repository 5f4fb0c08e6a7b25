"""Whatever bytes a client sends, the emulated driver answers with a status or an errno, and frees all at the end."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
from rm_client import Buffer, Machine, RmClient, call, request

from hcqrt.autogen.nv.ioctls import CLASSES, CONTROLS, ESCAPES, UVM
from hcqrt.emu.nv.abi import Abi

ABI = Abi("580.95.05")
WITH_POINTERS = {"NV0080_CTRL_CMD_GPU_GET_CLASSLIST", "NV2080_CTRL_CMD_GR_GET_INFO"}  # random ones crash any process
SMALL = (0, 0, 1, 2, 3, 4, 9, 16, 512, 4096, 1 << 21, 0x1000000000, 0xFFFFFFFF)


def noise(rng: random.Random, nbytes: int, handles: list[int]) -> bytes:
    """Words that are often plausible: small numbers and handles that exist."""
    pool = [*SMALL, *handles]
    words = [rng.choice(pool) if rng.random() < 0.9 else rng.getrandbits(64) for _ in range(-(-nbytes // 4))]
    return b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)[:nbytes]


def handles_of(client: RmClient) -> list[int]:
    found = client.system.drivers[0].clients.get(client.root)  # type: ignore[attr-defined]  # an NvDriver
    return list(found.objects) if found is not None else []


@pytest.mark.parametrize("seed", range(6))
def test_garbage_gets_an_answer(machine: Machine, seed: int) -> None:
    rng = random.Random(seed)
    client = RmClient(machine({"memory_bytes": 64 << 20}, fd_limit=64))
    client.open_device()
    client.open_uvm()
    client.alloc(client.open_channel(), 0xC7C0)
    controls = [item for name, item in CONTROLS.items() if name not in WITH_POINTERS]
    for _ in range(400):
        handles = handles_of(client)
        some = rng.choice(handles or [0])
        with contextlib.suppress(OSError):
            match rng.randrange(4):
                case 0:
                    client.alloc_raw(client.root, some, rng.choice(list(CLASSES.values()))[0], noise(rng, 512, handles))
                case 1:
                    number, name = rng.choice(controls)
                    client.control(some, number, noise(rng, ABI.size(name or ""), handles))
                case 2:
                    number, name = rng.choice(list(UVM.values()))
                    size = ABI.size(name) if name else 16
                    argument = Buffer(noise(rng, size, handles), size + 64)
                    client.uvm.ioctl(number, argument.address)
                case _:
                    escape(client, rng, handles)
    client.close()


def escape(client: RmClient, rng: random.Random, handles: list[int]) -> None:
    """Any escape but those whose struct holds a pointer, and but freeing, which would end the fun too soon."""
    names = [n for n in ESCAPES if n not in ("NV_ESC_RM_ALLOC", "NV_ESC_RM_CONTROL", "NV_ESC_IOCTL_XFER_CMD")]
    name = rng.choice(names)
    if name == "NV_ESC_RM_FREE" and rng.random() < 0.8:
        return
    nr, struct_name = ESCAPES[name]
    data = noise(rng, ABI.size(struct_name) if struct_name else 8, handles)
    data = struct.pack("<I", client.root) + data[4:] if name.startswith("NV_ESC_RM") else data
    call(rng.choice([client.ctl, client.gpu]), nr, data)


def test_a_transfer_by_pointer_is_the_same_call(machine: Machine) -> None:
    client = RmClient(machine())
    inner = Buffer(b"\xff" * 72 * 2)
    outer = Buffer(struct.pack("<IIQ", 200, 144, inner.address))
    client.ctl.ioctl(request(211, 16), outer.address)
    assert inner.bytes(0, 1) == b"\1" and inner.bytes(72, 72) == bytes(72)
    for nr, size in ((99, 144), (200, 143)):
        outer = Buffer(struct.pack("<IIQ", nr, size, inner.address))
        with pytest.raises(OSError):
            client.ctl.ioctl(request(211, 16), outer.address)
    client.close()
