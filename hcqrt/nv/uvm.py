"""The unified-memory driver's client: registering GPUs and channels, mapping memory to GPU addresses."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any

from hcqrt.autogen.nv import consts, status
from hcqrt.errors import DriverError, UVMError
from hcqrt.fileio import FileIOInterface
from hcqrt.ioctl import fill
from hcqrt.nv.rm import RmClient

NODE = "/dev/nvidia-uvm"
SLACK_BYTES = 16 << 10  # the driver copies its own struct size both ways; never let it write past ours
POISON = 0xFFFF_FFFF  # a status that is still this after the call was never written: the layout is wrong
REMOVED = {"UVM_FREE": "length", "UVM_UNREGISTER_CHANNEL": "gpuUuid"}  # fields that 590.44.01 no longer has
MM_OPTIONAL = (status.NV_OK, status.NV_WARN_NOTHING_TO_DO, status.NV_ERR_INVALID_STATE)


class UvmClient:
    """Two files on the UVM node: the address space, and the one that keeps it tied to this process."""

    def __init__(self, rm: RmClient) -> None:
        self.rm = rm
        with ExitStack() as undo:
            self.fd = undo.enter_context(rm.system.open(NODE))
            self._mm_fd: FileIOInterface = undo.enter_context(rm.system.open(NODE))
            self.call("UVM_INITIALIZE")
            self.call("UVM_MM_INITIALIZE", fd=self._mm_fd, accept=MM_OPTIONAL, uvmFd=self.fd.fd)
            undo.pop_all()

    def call(
        self, name: str, *, fd: FileIOInterface | None = None, accept: tuple[int, ...] = (status.NV_OK,), **fields: Any
    ) -> int:
        """Issue a call and return its status. Raises UVMError for one not in `accept`, or a layout mismatch."""
        call = self.rm.abi.uvm(name)
        buffer = ctypes.create_string_buffer(ctypes.sizeof(call.struct) + SLACK_BYTES)
        argument = call.struct.from_buffer(buffer)
        if name in REMOVED and not hasattr(call.struct, REMOVED[name]):
            del fields[REMOVED[name]]
        for key in [key for key in fields if key.lower().endswith("uuid") or key in ("gpuUuidA", "gpuUuidB")]:
            ctypes.memmove(ctypes.addressof(getattr(argument, key)), fields.pop(key), 16)
        attributes = fields.pop("attributes", None)
        if attributes is not None:
            set_attributes(argument, **attributes)
        fill(argument, fields, name)
        argument.rmStatus = POISON
        self.rm.issue(call, argument, fd=fd or self.fd)
        code = int(argument.rmStatus)
        if code == POISON:
            raise UVMError(
                f"{name}: the driver wrote no status where it was expected; {self.rm.abi.text} does not fit: "
                "this driver has another ABI, set HCQRT_NV_ABI to the release whose layouts it has",
                request=name,
            )
        if code not in accept:
            shown = ", ".join(f"{k} {v:#x}" for k, v in fields.items() if isinstance(v, int) and v >= 0)
            raise self.rm.error(f"{name} on {NODE}", code, shown, kind=UVMError, request=name)
        return code

    def register_gpu(self, uuid: bytes) -> None:
        self.call("UVM_REGISTER_GPU", gpu_uuid=uuid, rmCtrlFd=-1)

    def unregister_gpu(self, uuid: bytes) -> None:
        self.call("UVM_UNREGISTER_GPU", gpu_uuid=uuid)

    def register_va_space(self, uuid: bytes, va_space: int) -> None:
        self.call(
            "UVM_REGISTER_GPU_VASPACE",
            gpuUuid=uuid,
            rmCtrlFd=self.rm.ctl.fd,
            hClient=self.rm.root,
            hVaSpace=va_space,
        )

    def unregister_va_space(self, uuid: bytes) -> None:
        self.call("UVM_UNREGISTER_GPU_VASPACE", gpuUuid=uuid)

    def register_channel(self, uuid: bytes, channel: int, base: int, nbytes: int) -> None:
        """After the engine object; [base, base + nbytes) is for the channel's context buffers."""
        self.call(
            "UVM_REGISTER_CHANNEL",
            gpuUuid=uuid,
            rmCtrlFd=self.rm.ctl.fd,
            hClient=self.rm.root,
            hChannel=channel,
            base=base,
            length=nbytes,
        )

    def unregister_channel(self, uuid: bytes, channel: int) -> None:
        self.call("UVM_UNREGISTER_CHANNEL", gpuUuid=uuid, hClient=self.rm.root, hChannel=channel)

    def enable_peers(self, uuid: bytes, other: bytes, accept: tuple[int, ...]) -> int:
        """Let two registered GPUs reach each other's memory over PCIe; returns the status."""
        return self.call("UVM_ENABLE_PEER_ACCESS", accept=accept, gpuUuidA=uuid, gpuUuidB=other)

    def map(self, uuid: bytes, va: int, nbytes: int, memory: int, client: RmClient | None = None) -> None:
        """Map an RM memory object, of another client when given, at `va`; undone by `unmap`.

        Read, write and atomics.
        """
        rm = client or self.rm
        self.call("UVM_CREATE_EXTERNAL_RANGE", base=va, length=nbytes)
        try:
            self.call(
                "UVM_MAP_EXTERNAL_ALLOCATION",
                base=va,
                length=nbytes,
                offset=0,
                attributes=dict(uuid=uuid, mapping=consts.UvmGpuMappingTypeReadWriteAtomic),
                gpuAttributesCount=1,
                rmCtrlFd=rm.ctl.fd,
                hClient=rm.root,
                hMemory=memory,
            )
        except DriverError:
            self.unmap(va, nbytes)
            raise

    def unmap(self, va: int, nbytes: int) -> None:
        """Unmap a range that `map` made and free its addresses; the caller knows that no work uses it."""
        self.call("UVM_FREE", base=va, length=nbytes)

    def close(self) -> None:
        """Close both files, the one that ties the address space to the process last but one."""
        self.fd.close()
        self._mm_fd.close()


def set_attributes(argument: Any, uuid: bytes, mapping: int) -> None:
    entry = argument.perGpuAttributes[0]
    ctypes.memmove(ctypes.addressof(entry.gpuUuid), uuid, 16)
    entry.gpuMappingType = mapping
