"""The dispatcher of the emulated KGSL: numbers, sizes, directions, bad pointers, the log, injected failures."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest
from kgsl_client import NODE, PLAIN, Buffer, Kgsl, MakeKgsl, Stream, errno_of


def raw_call(kgsl: Kgsl, request: int, data: bytes) -> bytes:
    buffer = Buffer(data)
    kgsl.file.ioctl(request, buffer.address)
    return buffer.raw.raw


def test_the_node_greets(kgsl: Kgsl) -> None:
    assert kgsl.file.read(64).endswith(b"\0") and len(kgsl.file.read(3)) == 3


@pytest.mark.parametrize("nr", [0x01, 0x4B, 0x56, 0x57, 0x5F, 0xFF])
def test_a_number_without_a_handler_is_enotty_and_reported(kgsl: Kgsl, nr: int) -> None:
    assert errno_of(raw_call, kgsl, 0xC0180900 | nr, bytes(24)) == "ENOTTY"
    assert f"{nr:#x}" in kgsl.system.refusals[0] and len(kgsl.system.refusals) == 1


def test_a_kernel_may_lack_calls(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl(missing_ioctls=["GPUOBJ_IMPORT", 0x49])
    assert kgsl.error("import", type=2) == errno.ENOTTY and kgsl.error("sync", count=1) == errno.ENOTTY
    assert kgsl.system.refusals == []


def test_dispatch_looks_at_the_number_alone(kgsl: Kgsl) -> None:
    """GPUOBJ_ALLOC with another type byte, and with a size that only holds the first two fields and the next two."""
    reply = raw_call(kgsl, 0xC0305545, struct.pack("<QQ", 100, 0) + bytes(32))
    assert struct.unpack_from("<QQQQI", reply) == (4096, 0, 0, 4096, 1)
    short = raw_call(kgsl, 0xC0200945, struct.pack("<QQQQ", 5000, 0, 0, 0) + b"\xee" * 8)
    assert short[:32] == struct.pack("<QQQQ", 8192, 0, 0, 8192) and short[32:] == b"\xee" * 8
    long = raw_call(kgsl, 0xC0380945, struct.pack("<QQ", 1, 0) + bytes(32) + b"\xee" * 8)
    assert struct.unpack_from("<I", long, 32) == (3,) and long[48:56] == b"\xee" * 8


def test_directions_decide_what_is_copied(kgsl: Kgsl) -> None:
    """A request that only writes gets no results; one that only reads passes nothing in, so its size is 0."""
    unread = raw_call(kgsl, 0x40300945, struct.pack("<QQ", 100, 0) + bytes(32))
    assert struct.unpack_from("<Q", unread) == (100,)
    assert errno_of(raw_call, kgsl, 0x80300945, struct.pack("<QQ", 100, 0) + bytes(32)) == "EINVAL"


def test_results_come_back_only_on_success(kgsl: Kgsl) -> None:
    data = struct.pack("<QQQQIIQ", 0, 3 << 26, 7, 7, 7, 0, 0)
    buffer = Buffer(data)
    with pytest.raises(OSError, match="size 0"):
        kgsl.file.ioctl(0xC0300945, buffer.address)
    assert buffer.raw.raw == data


@pytest.mark.parametrize("address", [0, 8, 1 << 40, (1 << 64) - 4096])
def test_bad_pointers_are_efault(kgsl: Kgsl, address: int) -> None:
    assert errno_of(kgsl.file.ioctl, 0xC0300945, address) == "EFAULT"
    context = kgsl.context()
    assert kgsl.error("getproperty", type=1, value=address, size=40) == errno.EFAULT
    assert kgsl.error("command", context=context, numcmds=1, cmdsize=32, cmdlist=address or 1) == errno.EFAULT
    assert kgsl.error("sync", count=1, obj_len=24, objs=address) == errno.EFAULT
    assert kgsl.error("timestamp_event", type=2, context=context, timestamp=0, priv=address, len=4) == errno.EFAULT


def test_the_log_names_calls_and_fields(kgsl: Kgsl) -> None:
    kgsl.property(0x29, "32s")
    stream = Stream(kgsl)
    kgsl.submit(kgsl.context(), stream.write(1))
    entries = [entry for entry in kgsl.system.ioctl_log if "PROPERTY" in entry[2] or "GPU_COMMAND" in entry[2]]
    prop, command = entries
    assert prop[1:4] == (NODE, "IOCTL_KGSL_DEVICE_GETPROPERTY", "KGSL_PROP_GPU_MODEL")
    assert prop[5]["gpu_model"] == b"Adreno630v2" and prop[6] == 0
    assert command[4]["numcmds"] == 1 and command[4]["gpuaddr"] == stream.va and command[5]["timestamp"] == 1
    kgsl.error("alloc", size=0)
    assert kgsl.system.ioctl_log[-1][6] == errno.EINVAL
    assert "size 0" in kgsl.system.last_refusal


def test_injected_failures_by_name_and_number(kgsl: Kgsl) -> None:
    system = kgsl.system
    system.inject("ioctl", "GPUOBJ_ALLOC", errno=errno.ENOMEM)
    assert kgsl.error("alloc", size=1) == errno.ENOMEM
    system.inject("ioctl", "IOCTL_KGSL_DRAWCTXT_CREATE", nth=2, errno=errno.EINTR)
    kgsl.context()
    assert kgsl.error("context_create", flags=PLAIN) == errno.EINTR
    system.inject("ioctl", 0x16, errno=errno.EAGAIN)
    assert kgsl.error("readtimestamp", context=1, type=1) == errno.EAGAIN
    system.inject("ioctl", "GPU_MODEL", errno=errno.EINVAL)
    assert kgsl.error("getproperty", type=0x29, size=32) == errno.EINVAL
    system.inject("ioctl", "DEVICE_GETPROPERTY", status=5)
    with pytest.raises(OSError, match="reports no status"):
        kgsl.property(0x29, "32s")
    system.inject("mmap", NODE, errno=errno.ENOMEM)
    assert errno_of(kgsl.mmap, kgsl.alloc()) == "ENOMEM"
    system.inject("open", NODE, errno=errno.EACCES)
    assert errno_of(system.open, NODE) == "EACCES"


def test_an_injected_eproto_comes_after_the_work(kgsl: Kgsl) -> None:
    """qcom.md §1.8: from GPU_COMMAND the command was queued all the same, and only the timestamp is lost."""
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("ioctl", "GPU_COMMAND", errno=errno.EPROTO)
    fields: dict[str, Any] = kgsl.command_fields(context, [stream.write(7)])
    assert kgsl.error("command", **fields) == errno.EPROTO
    assert stream.out[0] == 7 and kgsl.stamp(context, 3) == 1


def test_an_injected_edeadlk_is_an_invalidated_context(kgsl: Kgsl) -> None:
    stream, context = Stream(kgsl), kgsl.context()
    kgsl.system.inject("stall")
    kgsl.submit(context, stream.write(7))
    kgsl.system.inject("ioctl", "DEVICE_WAITTIMESTAMP_CTXTID", errno=errno.EDEADLK)
    assert kgsl.error("waittimestamp", context=context, timestamp=1) == errno.EDEADLK
    assert kgsl.stamp(context) == 1 and stream.out[0] == 0, "the trap: retired, and never run"
    assert kgsl.error("command", context=context) == errno.EDEADLK
    assert kgsl.property(9, "I", context) == (1,) and kgsl.property(9, "I", context) == (0,)
    kgsl.system.resume()


def test_a_closed_file_is_gone(kgsl: Kgsl) -> None:
    kgsl.file.close()
    kgsl.file.close()
    assert errno_of(kgsl.call, "context_create", flags=PLAIN) == "EBADF"


def test_open_failures_of_the_node(make_kgsl: MakeKgsl) -> None:
    kgsl = make_kgsl()
    kgsl.system.nodes[NODE] = (0o660, errno.EACCES)
    assert errno_of(kgsl.system.open, NODE) == "EACCES"
    del kgsl.system.nodes[NODE]
    assert errno_of(kgsl.system.open, NODE) == "ENOENT"
