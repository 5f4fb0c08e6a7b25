"""A KGSL client for tests: records packed by hand at the offsets of the facts, nothing shared with the runtime."""

from __future__ import annotations

import ctypes
import errno as errno_codes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adreno_bench import type7

from hcqrt.emu.system import EmulatedSystem
from hcqrt.mmio import MMIOInterface

NODE = "/dev/kgsl-3d0"
MakeKgsl = Callable[..., "Kgsl"]
# name: (request, layout, fields): qcom.md §1.2 and §1.3, typed by hand
CALLS: dict[str, tuple[int, str, str]] = {
    "getproperty": (0xC0180902, "I4xQQ", "type value size"),
    "waittimestamp": (0x400C0907, "III", "context timestamp timeout"),
    "context_create": (0xC0080913, "II", "flags id"),
    "context_destroy": (0x40040914, "I", "id"),
    "map_user_mem": (0xC0300915, "i4xQQQQII", "fd gpuaddr len offset hostptr memtype flags"),
    "sharedmem_free": (0x40080921, "Q", "gpuaddr"),
    "readtimestamp": (0xC00C0916, "III", "context type timestamp"),
    "setproperty": (0x40180932, "I4xQQ", "type value size"),
    "timestamp_event": (0xC0200933, "III4xQQ", "type timestamp context priv len"),
    "alloc_id": (0xC0300934, "IIQQQ16x", "id flags size mmapsize gpuaddr"),
    "free_id": (0xC0080935, "I4x", "id"),
    "get_info": (0xC0480936, "QIIQQQ32x", "gpuaddr id flags size mmapsize useraddr"),
    "sync_cache": (0x40200937, "QIIQQ", "gpuaddr id op offset length"),
    "sync_bulk": (0xC018093C, "QII8x", "id_list count op"),
    "counter_get": (0xC0140938, "IIII4x", "group countable offset offset_hi"),
    "counter_put": (0x40100939, "II8x", "group countable"),
    "counter_query": (0xC020093A, "I4xQII8x", "group countables count max_counters"),
    "counter_read": (0xC018093B, "QI12x", "reads count"),
    "alloc": (0xC0300945, "QQQQIIQ", "size flags va_len mmapsize id metadata_len metadata"),
    "free": (0x40200946, "QQIII4x", "flags priv id type len"),
    "info": (0xC0300947, "QQQQQI4x", "gpuaddr flags size va_len va_addr id"),
    "import": (0xC0200948, "QQQII", "priv priv_len flags type id"),
    "sync": (0x40100949, "QII", "objs obj_len count"),
    "set_info": (0x4020094C, "QQIII4x", "flags metadata id metadata_len type"),
    "command": (
        0xC040094A, "QQIIQIIQIIII",
        "flags cmdlist cmdsize numcmds objlist objsize numobjs synclist syncsize numsyncs context timestamp",
    ),
    "timeline_create": (0xC0100958, "QI4x", "seqno id"),
    "timeline_wait": (0x40280959, "qqQIII4x", "sec nsec list count elemsize flags"),
    "timeline_query": (0xC010095A, "QI4x", "seqno timeline"),
    "timeline_signal": (0x4010095B, "QII", "list count elemsize"),
    "timeline_fence": (0xC010095C, "QIi", "seqno timeline handle"),
    "timeline_destroy": (0x4004095D, "I", "id"),
    "fault_report": (0xC018095E, "QIII4x", "faultlist faultnents faultsize context"),
}  # fmt: skip
PREAMBLE, NO_GMEM, USER_TS, NO_FT, FAULT_INFO = 0x10, 0x2, 0x80, 0x200, 0x40000000
PLAIN = PREAMBLE | NO_GMEM
WRITEBACK = 3 << 26
GPU_READ_ONLY, CPU_MAP, IOCOHERENT, FORCE_32, GUARD = 1 << 24, 1 << 28, 1 << 31, 1 << 32, 1 << 33
CLEAN, INVALIDATE, RANGE = 1, 2, 1 << 31
CONSUMED, RETIRED, QUEUED = 1, 2, 3
PAGE = 4096
GEQUAL = 5  # function of WAIT_REG_MEM


class Buffer:
    """Memory of this process that a record points to."""

    def __init__(self, data: bytes) -> None:
        self.raw = ctypes.create_string_buffer(data, max(len(data), 1))
        self.address = ctypes.addressof(self.raw)

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack_from("<" + layout, self.raw)


class Kgsl:
    """An open node of a machine; what it maps is unmapped at the end."""

    def __init__(self, system: EmulatedSystem) -> None:
        self.system = system
        self.file: Any = system.open(NODE)
        self.maps: list[MMIOInterface] = []
        self.keep: list[Buffer] = []

    def call(self, name: str, **given: int) -> dict[str, int]:
        """One ioctl; returns all fields as they are afterwards. Raises OSError."""
        request, layout, names = CALLS[name]
        fields = dict.fromkeys(names.split(), 0) | given
        assert len(fields) == len(names.split()), f"{name} has no such field: {given}"
        buffer = Buffer(struct.pack("<" + layout, *fields.values()))
        assert len(buffer.raw) == request >> 16 & 0x3FFF, name
        self.file.ioctl(request, buffer.address)
        return dict(zip(fields, buffer.unpack(layout), strict=True))

    def error(self, name: str, **given: int) -> int:
        """errno of a call that must fail."""
        try:
            got = self.call(name, **given)
        except OSError as error:
            return error.errno or 0
        raise AssertionError(f"{name} {given} succeeded: {got}")

    def pointer(self, layout: str, *values: Any) -> int:
        """The address of a small record, kept until the end."""
        self.keep.append(Buffer(struct.pack("<" + layout, *values)))
        return self.keep[-1].address

    # memory

    def alloc(self, nbytes: int = PAGE, flags: int = 0) -> int:
        return self.call("alloc", size=nbytes, flags=flags)["id"]

    def va(self, number: int) -> int:
        return self.call("info", id=number)["gpuaddr"]

    def mmap(self, number: int, nbytes: int = PAGE, **options: Any) -> MMIOInterface:
        view: MMIOInterface = self.file.mmap(nbytes, number << 12, **options)
        self.maps.append(view)
        return view

    def unmap(self, view: MMIOInterface) -> None:
        self.maps.remove(view)
        self.system.unmap(view.addr, view.nbytes)

    def memory(self, nbytes: int = PAGE, flags: int = 0) -> tuple[int, int, MMIOInterface]:
        """A mapped object: (id, GPU address, view)."""
        number = self.alloc(nbytes, flags)
        view = self.mmap(number, nbytes)
        return number, self.va(number), view

    def sync(self, *entries: tuple[int, int] | tuple[int, int, int, int]) -> None:
        """GPUOBJ_SYNC; an entry is (id, op) or (id, op, offset, length), the latter with the range bit."""
        raw = b"".join(
            struct.pack("<QQII", entry[2], entry[3], entry[0], entry[1] | RANGE)
            if len(entry) == 4
            else struct.pack("<QQII", 0, 0, *entry)
            for entry in entries
        )
        self.call("sync", objs=self.pointer(f"{len(raw)}s", raw), obj_len=24, count=len(entries))

    # work

    def context(self, flags: int = PLAIN) -> int:
        return self.call("context_create", flags=flags)["id"]

    def command_fields(
        self, context: int, ibs: Sequence[tuple[int, int]], ib_flags: int = 1, **more: int
    ) -> dict[str, int]:
        """Fields of GPU_COMMAND for command buffers given as (va, bytes)."""
        raw = b"".join(struct.pack("<QQQII", 0, va, nbytes, ib_flags, 0) for va, nbytes in ibs)
        fields = {"context": context, "numcmds": len(ibs)}
        if ibs:
            fields |= {"cmdlist": self.pointer(f"{len(raw)}s", raw), "cmdsize": 32}
        return fields | more

    def submit(self, context: int, *ibs: tuple[int, int], **more: int) -> int:
        """The timestamp."""
        return self.call("command", **self.command_fields(context, ibs, **more))["timestamp"]

    def stamp(self, context: int, kind: int = RETIRED) -> int:
        return self.call("readtimestamp", context=context, type=kind)["timestamp"]

    def wait(self, context: int, timestamp: int, timeout: int = 5000) -> None:
        self.call("waittimestamp", context=context, timestamp=timestamp, timeout=timeout)

    def property(self, number: int, layout: str, *given: Any, nbytes: int | None = None) -> tuple[Any, ...]:
        """GETPROPERTY into a record of this layout."""
        size = struct.calcsize("<" + layout)
        buffer = Buffer(struct.pack("<" + layout, *given) if given else bytes(size))
        self.call("getproperty", type=number, value=buffer.address, size=size if nbytes is None else nbytes)
        return buffer.unpack(layout)

    def close(self) -> None:
        self.file.close()
        for view in list(self.maps):
            self.unmap(view)


def errno_of(call: Callable[..., Any], *given: Any, **more: Any) -> str:
    """Name of the errno of a call that must fail."""
    try:
        got = call(*given, **more)
    except OSError as error:
        name = errno_codes.errorcode.get(error.errno or 0, str(error.errno))
        return name.replace("EDEADLOCK", "EDEADLK")  # Linux has two names for 35
    raise AssertionError(f"it succeeded: {got}")


class Stream:
    """A command buffer in a write-combined object, with a page of memory that its packets write."""

    def __init__(self, kgsl: Kgsl, nbytes: int = PAGE) -> None:
        self.kgsl = kgsl
        self.id, self.va, self.view = kgsl.memory(nbytes)
        self.data_id, self.data_va, self.data = kgsl.memory()
        self.words = self.view.view(fmt="I")
        self.out = self.data.view(fmt="I")
        self.used = 0

    def put(self, words: Iterable[int]) -> tuple[int, int]:
        """Words in the next free place, as (va, bytes)."""
        words = list(words)
        start, self.used = self.used, self.used + len(words)
        self.words[start : self.used] = memoryview(struct.pack(f"<{len(words)}I", *words)).cast("I")
        return self.va + 4 * start, 4 * len(words)

    def write(self, value: int, index: int = 0, va: int | None = None) -> tuple[int, int]:
        """A command buffer that writes a word, to `index` of the data page or to a GPU address."""
        target = self.data_va + 4 * index if va is None else va
        return self.put(type7(0x3D, target & 0xFFFFFFFF, target >> 32, value))

    def wait(self, value: int, index: int) -> tuple[int, int]:
        """A command buffer that waits until a word of the data page is at least `value`."""
        target = self.data_va + 4 * index
        return self.put(type7(0x3C, 1 << 4 | GEQUAL, target & 0xFFFFFFFF, target >> 32, value, 0xFFFFFFFF, 16))

    def copy(self, source_va: int, target_va: int) -> tuple[int, int]:
        """A command buffer that copies one word."""
        lo = 0xFFFFFFFF
        return self.put(type7(0x73, 0, target_va & lo, target_va >> 32, source_va & lo, source_va >> 32))
