"""A driver client for tests: structs packed by hand at the offsets of the facts, nothing shared with the runtime."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from hcqrt.emu.system import EmulatedSystem
from hcqrt.fileio import FileIOInterface

Machine = Callable[..., EmulatedSystem]  # the fixture that makes machines
ROOT, DEVICE, SUBDEVICE, VASPACE, TSG, CTXSHARE, CHANNEL = 0x41, 0x80, 0x2080, 0x90F1, 0xA06C, 0x9067, 0xC56F
SYSMEM, VIDMEM, OSDESC, USERMODE, COMPUTE, COPY, DEBUGGER = 0x3E, 0x40, 0x71, 0xC461, 0xC7C0, 0xC7B5, 0x83DE
SLACK = 512  # UVM structs and alloc parameters lie in more room than they need
POISON = 0xFFFFFFFF


def request(nr: int, size: int) -> int:
    return 3 << 30 | size << 16 | ord("F") << 8 | nr


class Buffer:
    """Memory of this process with a size that a call may not exceed."""

    def __init__(self, data: bytes, room: int = 0) -> None:
        self.raw = ctypes.create_string_buffer(data, max(len(data), room))
        self.address = ctypes.addressof(self.raw)

    def u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.raw, offset)[0])

    def u64(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.raw, offset)[0])

    def bytes(self, offset: int, nbytes: int) -> bytes:
        return self.raw.raw[offset : offset + nbytes]


def call(file: FileIOInterface, nr: int, data: bytes) -> Buffer:
    """One RM escape whose size is that of `data`."""
    buffer = Buffer(data)
    file.ioctl(request(nr, len(data)), buffer.address)
    return buffer


class RmClient:
    """Opens the nodes and makes objects; each method returns the driver's status, or what it made."""

    def __init__(self, system: EmulatedSystem, minor: int = 0) -> None:
        self.system, self.node = system, f"/dev/nvidia{minor}"
        self.ctl = system.open("/dev/nvidiactl")
        self.uvm = system.open("/dev/nvidia-uvm")
        self.files = [self.ctl, self.uvm]
        self.maps: list[tuple[int, int]] = []
        self.status, self.root = self.alloc_raw(0, 0, ROOT, None)
        self.gpu = self.device_file()

    def device_file(self) -> FileIOInterface:
        file = self.system.open(self.node)
        self.files.append(file)
        call(file, 201, struct.pack("<i", self.ctl.fd))
        return file

    def alloc_raw(
        self, root: int, parent: int, number: int, params: bytes | Buffer | None, *, handle: int = 0, wide: bool = False
    ) -> tuple[int, int]:
        """(status, handle). `wide` takes NVOS64 instead of NVOS21."""
        scratch = Buffer(params, 4096) if isinstance(params, bytes) else params
        pointer = scratch.address if scratch is not None else 0
        if wide:
            out = call(self.ctl, 0x2B, struct.pack("<IIIIQQIIII", root, parent, handle, number, pointer, 0, 0, 0, 0, 0))
            return out.u32(40), out.u32(8)
        out = call(self.ctl, 0x2B, struct.pack("<IIIIQII", root, parent, handle, number, pointer, 0, POISON))
        return out.u32(28), out.u32(8)

    def alloc(self, parent: int, number: int, params: bytes | Buffer | None = None, handle: int = 0) -> int:
        status, made = self.alloc_raw(self.root, parent, number, params, handle=handle)
        assert status == 0, f"class {number:#x}: status {status:#x}, {self.system.last_refusal}"
        return made

    def free(self, handle: int, parent: int = 0) -> int:
        return call(self.ctl, 0x29, struct.pack("<IIII", self.root, parent, handle, POISON)).u32(12)

    def control(self, target: int, cmd: int, params: bytes = b"") -> tuple[int, Buffer]:
        inner = Buffer(params)
        pointer = inner.address if params else 0
        data = struct.pack("<IIIIQII", self.root, target, cmd, 0, pointer, len(params), POISON)
        return call(self.ctl, 0x2A, data).u32(28), inner

    # objects

    def open_device(self, va_mode: int = 2) -> None:
        """Device, subdevice, address space."""
        self.device = self.alloc(self.root, DEVICE, struct.pack("<II8xI28xI4x", 0, self.root, 0, va_mode))
        self.subdevice = self.alloc(self.device, SUBDEVICE)
        self.va_space = self.alloc(self.device, VASPACE, va_space_params())
        status, gid = self.control(self.subdevice, 0x2080014A, struct.pack("<III256x", 0, 2, 0))
        assert status == 0 and gid.u32(8) == 16
        self.uuid = gid.bytes(12, 16)

    def memory(self, number: int, nbytes: int, **changes: int) -> tuple[int, int]:
        return self.alloc_raw(self.root, self.device, number, memory_params(number, nbytes, self.root, **changes))

    def pin(
        self, address: int, nbytes: int, *, flags: int = 0x40000010, handle: int = 0, parent: int | None = None
    ) -> tuple[int, int]:
        where = self.device if parent is None else parent
        data = struct.pack("<IIIII4xQQI4xi4x", self.root, where, handle, OSDESC, flags, address, nbytes - 1, POISON, -1)
        out = call(self.gpu, 0x27, data)
        return out.u32(40), out.u32(8)

    def map_status(self, memory: int, nbytes: int, fd: int, *, offset: int = 0, flags: int = 0) -> tuple[int, int]:
        """(status, pLinearAddress) of RM_MAP_MEMORY."""
        data = struct.pack("<III4xQQQIIi4x", self.root, self.subdevice, memory, offset, nbytes, 0, POISON, flags, fd)
        out = call(self.ctl, 0x4E, data)
        return out.u32(40), out.u64(32)

    def unmap_status(self, memory: int, linear: int) -> int:
        return call(self.ctl, 0x4F, struct.pack("<III4xQII", self.root, self.subdevice, memory, linear, POISON, 0)).u32(
            24
        )

    def map(self, memory: int, nbytes: int, *, bar: bool = True, address: int | None = None) -> Any:
        """RM_MAP_MEMORY on a fresh file, mmap, and the file closed again."""
        file = self.system.open(self.node if bar else "/dev/nvidiactl")
        status, _ = self.map_status(memory, nbytes, file.fd)
        assert status == 0, self.system.last_refusal
        view = file.mmap(nbytes, address=address)
        file.close()
        self.maps.append((view.addr, nbytes))
        return view

    # UVM

    def uvm_call(self, number: int, data: bytes, status_at: int) -> int:
        buffer = Buffer(data, len(data) + SLACK)
        struct.pack_into("<I", buffer.raw, status_at, POISON)
        self.uvm.ioctl(number, buffer.address)
        return buffer.u32(status_at)

    def open_uvm(self) -> None:
        assert self.uvm_call(0x30000001, struct.pack("<QI4x", 0, 0), 8) == 0
        assert self.register_gpu() == 0
        assert self.register_va_space(self.va_space) == 0

    def register_gpu(self, uuid: bytes | None = None) -> int:
        return self.uvm_call(37, (uuid or self.uuid) + struct.pack("<B3xiiIII", 0, 0, -1, 0, 0, 0), 36)

    def register_va_space(self, handle: int, uuid: bytes | None = None) -> int:
        return self.uvm_call(25, (uuid or self.uuid) + struct.pack("<iIII", self.ctl.fd, self.root, handle, 0), 28)

    def unregister_va_space(self) -> int:
        return self.uvm_call(26, self.uuid + bytes(4), 16)

    def create_range(self, base: int, nbytes: int) -> int:
        return self.uvm_call(73, struct.pack("<QQI4x", base, nbytes, 0), 16)

    def map_external(
        self, base: int, nbytes: int, memory: int, *, offset: int = 0, kind: int = 1, count: int = 1, caching: int = 0,
        uuid: bytes | None = None,
    ) -> int:  # fmt: skip
        entry = (uuid or self.uuid) + struct.pack("<IIIII", kind, caching, 0, 0, 0)
        data = struct.pack("<QQQ", base, nbytes, offset) + (entry * min(count, 256)).ljust(9216, b"\0")
        return self.uvm_call(33, data + struct.pack("<QiIII", count, self.ctl.fd, self.root, memory, 0), 9260)

    def unmap_external(self, base: int, nbytes: int) -> int:
        return self.uvm_call(66, struct.pack("<QQ", base, nbytes) + self.uuid + bytes(8), 32)

    def uvm_free(self, base: int, nbytes: int) -> int:
        return self.uvm_call(34, struct.pack("<QQI4x", base, nbytes, 0), 16)

    def register_channel(self, channel: int, base: int, nbytes: int, uuid: bytes | None = None) -> int:
        tail = struct.pack("<iIIxxxxQQII", self.ctl.fd, self.root, channel, base, nbytes, 0, 0)
        return self.uvm_call(27, (uuid or self.uuid) + tail, 48)

    def unregister_channel(self, channel: int) -> int:
        return self.uvm_call(28, self.uuid + struct.pack("<III", self.root, channel, 0), 24)

    # channels

    def open_channel(self, *, engine: int = 1, entries: int = 1024) -> int:
        """Group, context share, a 2 MiB block with ring and USERD, notifier, channel."""
        self.group = self.alloc(
            self.device, TSG, struct.pack("<IIIIB3x", 0, 0, 0 if engine == 1 else self.va_space, engine, 0)
        )
        self.share = self.alloc(self.group, CTXSHARE, struct.pack("<III", self.va_space, 1, 0)) if engine == 1 else 0
        status, self.ring = self.memory(VIDMEM, 2 << 20)
        assert status == 0
        status, self.notifier = self.memory(SYSMEM, 4096)
        assert status == 0
        params = channel_params(self.notifier, 1 << 36, entries, self.share, self.ring, entries * 8)
        return self.alloc(self.group, CHANNEL, params)

    def schedule(self, group: int, size: int = 3) -> int:
        return self.control(group, 0xA06C0101, bytes((1, 0, 0))[:size])[0]

    def close(self) -> None:
        for address, nbytes in self.maps:
            self.system.unmap(address, nbytes)
        for file in reversed(self.files):
            file.close()


def va_space_params(*, flags: int = 0x48, base: int = 0x1000, size: int = 0x1FFFFFB000000, index: int = 0) -> bytes:
    return struct.pack("<IIQ16xI4xQII", index, flags, size, 0, base, 0, 0)


def memory_params(
    number: int, nbytes: int, owner: int, *, attr: int | None = None, attr2: int | None = None,
    flags: int | None = None, alignment: int = 0, internal: int = 0, va_space: int = 0,
) -> bytes:  # fmt: skip
    """NV_MEMORY_ALLOCATION_PARAMS with the recipes of nv-driver.md §5."""
    video = number == VIDMEM
    huge = video and nbytes >= 2 << 20
    attr = (3 << 27 | (3 << 23 if huge else 0) if video else 3 << 27 | 1 << 25) if attr is None else attr
    attr2 = (1 << 2 | (1 << 20 if huge else 0) | 1 if video else 2 << 2 | 1) if attr2 is None else attr2
    flags = (0x1C101 if video else 0xC101) if flags is None else flags
    alignment = alignment or ((2 << 20) if huge else 4096)
    out = bytearray(128)
    struct.pack_into("<III", out, 0, owner, 0 if video else 0xD, flags)
    struct.pack_into("<II", out, 24, attr, attr2)
    struct.pack_into("<QQ", out, 64, nbytes, alignment)
    struct.pack_into("<II", out, 108, va_space, internal)
    return bytes(out)


def channel_params(
    notifier: int, ring_va: int, entries: int, share: int, userd: int, userd_offset: int, *, va_space: int = 0,
    engine: int = 0, flags: int = 0,
) -> bytes:  # fmt: skip
    out = bytearray(368)
    struct.pack_into("<IIQIIII", out, 0, notifier, 0, ring_va, entries, flags, share, va_space)
    struct.pack_into("<I", out, 32, userd)
    struct.pack_into("<Q", out, 64, userd_offset)
    struct.pack_into("<I", out, 128, engine)
    return bytes(out)
