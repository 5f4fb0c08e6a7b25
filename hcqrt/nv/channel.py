"""Channels: groups, rings, USERD, engine objects, registration and scheduling. Source: nv-driver facts 8."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from hcqrt.autogen.nv import consts
from hcqrt.autogen.nv.names import CLASS_NAMES
from hcqrt.bits import align_up
from hcqrt.errors import DriverError
from hcqrt.nv.memory import Owner, alloc_sysmem, alloc_vidmem

USERD_BYTES = 512  # clc56f.h, Nvc56fControl; aligned to its size
GP_PUT_WORD = 0x8C // 4
NOTIFIER_BYTES = 4096  # NvNotification[3] and more: [0] error, [1] work-submit token
NOTIFIER_STATUS_HALF = 14 // 2  # NvNotification.status, u16
CONTEXT_WINDOW_BYTES = 64 << 20  # addresses that UVM maps a channel's context buffers into
CTXSHARE_ASYNC = consts.NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC


def best_class(supported: Sequence[str], listed: set[int], rm_class: dict[str, int], what: str) -> str:
    """The first class name of `supported`, best first, that the driver lists. Raises DriverError with what it lists."""
    for name in supported:
        if rm_class[name] in listed:
            return name
    known = ", ".join(f"{CLASS_NAMES.get(number, 'unknown')} ({number:#x})" for number in sorted(listed))
    raise DriverError(
        f"this GPU has no {what} class that hcqrt knows ({', '.join(supported)}); the driver lists: {known}"
    )


@dataclass
class GroupSpec:
    """A channel group: which engine, and whether its address space comes through a context share (graphics groups)."""

    engine_type: int
    shared_context: bool


COMPUTE_GROUP = GroupSpec(consts.NV2080_ENGINE_TYPE_GR0, shared_context=True)
COPY_GROUP = GroupSpec(consts.NV2080_ENGINE_TYPE_COPY0, shared_context=False)


class Channel:
    """One channel in a group of its own, scheduled.

    `ring` has 64-bit items, `gp_put[0]` is the put index; `token` rings the doorbell. `notifier` has 16-bit items.
    """

    def __init__(
        self,
        owner: Owner,
        va_space: int,
        window_va: int,
        spec: GroupSpec,
        *,
        channel_class: str,
        engine_class: str,
        entries: int,
    ) -> None:
        self.owner, self.entries = owner, entries
        self.engine_class = engine_class
        with ExitStack() as undo:
            ring_bytes = align_up(entries * 8, USERD_BYTES)
            memory = alloc_vidmem(owner, ring_bytes + USERD_BYTES, cpu=True, contiguous=True)
            undo.callback(memory.close)
            notifier = alloc_sysmem(owner, NOTIFIER_BYTES, cached=True)
            undo.callback(notifier.close)
            assert memory.cpu is not None and notifier.cpu is not None
            memory.cpu.mv[: ring_bytes + USERD_BYTES] = bytes(ring_bytes + USERD_BYTES)
            notifier.cpu.mv[:NOTIFIER_BYTES] = bytes(NOTIFIER_BYTES)
            self.ring = memory.cpu.view(0, entries * 8, "Q").mv
            self.gp_put = memory.cpu.view(ring_bytes + GP_PUT_WORD * 4, 4, "I").mv
            self.notifier = notifier.cpu.view(fmt="H").mv
            rm = owner.rm
            group_va = 0 if spec.shared_context else va_space
            self.group = rm.alloc(
                "KEPLER_CHANNEL_GROUP_A", owner.device, hVASpace=group_va, engineType=spec.engine_type
            )
            undo.callback(rm.free, self.group, owner.device)
            share = 0
            if spec.shared_context:
                share = rm.alloc("FERMI_CONTEXT_SHARE_A", self.group, hVASpace=va_space, flags=CTXSHARE_ASYNC)
            self.handle = rm.alloc(
                channel_class,
                self.group,
                hObjectError=notifier.handle,
                gpFifoOffset=memory.va,
                gpFifoEntries=entries,
                hContextShare=share,
                hUserdMemory_0=memory.handle,
                userdOffset_0=ring_bytes,
                engineType=spec.engine_type,
            )
            self.engine = rm.alloc(engine_class, self.handle)
            owner.uvm.register_channel(owner.uuid, self.handle, window_va, CONTEXT_WINDOW_BYTES)
            undo.callback(owner.uvm.unregister_channel, owner.uuid, self.handle)
            rm.control(self.group, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", bEnable=1)
            token = rm.control(self.handle, "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN")
            self.token: int = token.workSubmitToken
            self._undo = undo.pop_all()

    @property
    def faulted(self) -> bool:
        """Whether the driver has filled the error notifier."""
        return self.notifier[NOTIFIER_STATUS_HALF] != 0

    def close(self) -> None:
        self._undo.close()
