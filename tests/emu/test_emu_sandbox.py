"""A sandbox in front of the emulated driver: what it refuses is EINVAL with nothing written (nv-driver.md §14)."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest
from rm_client import COMPUTE, POISON, SYSMEM, USERMODE, VIDMEM, Buffer, Machine, RmClient, call, request

MIB = 1 << 20


@pytest.fixture
def boxed(machine: Machine) -> Iterator[RmClient]:
    client = RmClient(machine(restricted=True))
    client.open_device()
    client.open_uvm()
    yield client
    client.close()


def refused(client: RmClient, nr: int, data: bytes) -> None:
    buffer = Buffer(data)
    with pytest.raises(OSError, match="refused by the sandbox") as failure:
        client.ctl.ioctl(request(nr, len(data)), buffer.address)
    assert failure.value.errno == errno.EINVAL and buffer.bytes(0, len(data)) == data


def alloc_words(client: RmClient, parent: int, number: int) -> bytes:
    return struct.pack("<IIIIQII", client.root, parent, 0, number, 0, 0, POISON)


def control_words(client: RmClient, target: int, command: int, params: Buffer, size: int) -> bytes:
    return struct.pack("<IIIIQII", client.root, target, command, 0, params.address, size, POISON)


@pytest.mark.parametrize(
    ("nr", "size"),
    [(0x34 + 1, 24), (0x52, 40), (0x57, 64), (0x58, 48), (206, 16), (207, 16), (214, 8), (215, 40), (218, 8)],
)
def test_escapes_off_the_list_are_refused(boxed: RmClient, nr: int, size: int) -> None:
    """Sharing, event data, RM's own mappings, OS events, system parameters, NUMA info, waiting for an open."""
    refused(boxed, nr, b"\xee" * size)


@pytest.mark.parametrize("number", [0xC361, 0xC561, 0x70, 0x00, 0x503B, 0xB2CC, 0x5])
def test_classes_off_the_list_are_refused(boxed: RmClient, number: int) -> None:
    """Volta's and Ampere's usermode pages among them: Turing's is what is left."""
    refused(boxed, 0x2B, alloc_words(boxed, boxed.subdevice, number))
    boxed.alloc(boxed.subdevice, USERMODE)


@pytest.mark.parametrize(
    ("command", "size"),
    [(0x13E, 1032), (0x83DE0328, 72), (0x906F0106, 104), (0x2080130E, 4024), (0x800292, 804), (0x20801228, 488)],
)
def test_controls_off_the_list_are_refused(boxed: RmClient, command: int, size: int) -> None:
    """The build version, MMU fault records of debugger and channel, cache flushes, and the V2 forms of lists."""
    params = Buffer(b"\xee" * size)
    refused(boxed, 0x2A, control_words(boxed, boxed.subdevice, command, params, size))
    assert params.bytes(0, size) == b"\xee" * size


def test_what_compute_needs_passes(boxed: RmClient) -> None:
    channel = boxed.open_channel()
    boxed.alloc(channel, COMPUTE)
    assert boxed.register_channel(channel, 0x7100000000, 64 * MIB) == 0
    assert boxed.schedule(boxed.group) == 0
    assert boxed.control(channel, 0xC36F0108, bytes(4))[0] == 0
    for kind in (VIDMEM, SYSMEM):
        status, memory = boxed.memory(kind, MIB)
        assert status == 0 and boxed.create_range(kind << 36, MIB) == 0
        assert boxed.map_external(kind << 36, MIB, memory) == 0
        assert boxed.uvm_free(kind << 36, MIB) == 0
    assert boxed.control(boxed.subdevice, 0x20801701, bytes(16))[0] == 0
    assert boxed.system.refusals == []


def test_uvm_calls_off_the_list_are_refused_and_the_mm_file_has_nothing_to_do(boxed: RmClient) -> None:
    for number in (68, 72, 74):  # semaphore pools, validation, sparse mappings
        with pytest.raises(OSError, match="refused by the sandbox") as failure:
            boxed.uvm.ioctl(number, Buffer(bytes(16384)).address)
        assert failure.value.errno == errno.EINVAL
    second = boxed.system.open("/dev/nvidia-uvm")
    boxed.files.append(second)
    buffer = Buffer(struct.pack("<iI", boxed.uvm.fd, POISON))
    second.ioctl(75, buffer.address)
    assert buffer.u32(4) == 0x10006


def test_the_version_is_asked_since_no_file_tells_it(boxed: RmClient) -> None:
    assert (
        not boxed.system.exists("/proc/driver/nvidia") and boxed.system.read_text("/sys/module/nvidia/version") is None
    )
    assert call(boxed.ctl, 210, struct.pack("<II64s", 0x32, 0, b"")).bytes(8, 9) == b"580.95.05"
