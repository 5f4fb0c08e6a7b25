"""The launch path: arguments, QMD and command words of one launch shape, packed once and patched per call."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.core.launch import PackedLaunch, gapped_format
from hcqrt.core.program import Param
from hcqrt.core.queue import PackedQueue
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import Variable

if TYPE_CHECKING:
    from hcqrt.nv.device import NVDevice
    from hcqrt.nv.program import NVProgram
    from hcqrt.nv.qmd import QmdTemplate


def pack_launch_words(dev: NVDevice) -> PackedQueue:
    """The command words of every launch. Left open: the QMD's address, the timeline's values before and after it.

    The value after it is open only where the host sets it, since the chip's QMDs cannot.
    """
    qmd_va, before, after, progress = map(Variable, ("qmd_va", "before", "after", "progress"))
    queue = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier().launch(qmd_va)
    if dev.qmd_layout.releases:
        return PackedQueue(queue, dev.compute_fifo, (qmd_va, before), progress)
    queue.signal(dev.timeline_signal, after)
    return PackedQueue(queue, dev.compute_fifo, (qmd_va, before, after), progress)


def launch_of(prg: NVProgram, template: QmdTemplate) -> PackedLaunch:
    return (QmdLaunch if template.release_count else HostReleaseLaunch)(prg, template)


class QmdLaunch(PackedLaunch):
    """Launches one program in one shape.

    A slot of the kernel-argument ring holds, in this order: what the constant bank has before the parameters, the
    parameters, padding to 256 bytes, the QMD with the timeline's release in it.
    """

    __slots__ = ("_base", "_pack_into", "_packed", "_parts", "_qmd_offset", "_template")

    def __init__(self, prg: NVProgram, template: QmdTemplate) -> None:
        super().__init__(prg, prg.dev.compute_fifo, prg.slot_bytes)
        self._template, self._packed = template, prg.dev.launch_words
        self._base, self._qmd_offset = prg.param_base, prg.qmd_offset
        self._parts = (template.bank0_prefix, *self._qmd_parts())
        self._pack_into: Any = None

    def _qmd_parts(self) -> tuple[bytes, ...]:
        """The QMD around the release's payload and the address of bank 0."""
        template = self._template
        qmd, payload = template.with_release(self._prg.dev.timeline_signal.value_va)
        bank0 = template.bank0_offset
        return qmd[:payload], qmd[payload + 8 : bank0], qmd[bank0 + 8 :]

    def _qmd_format(self) -> str:
        _, qmd_a, qmd_b, qmd_c = self._parts
        return f"{len(qmd_a)}sQ{len(qmd_b)}s2I{len(qmd_c)}s"

    def _prepare(self, params: Sequence[Param]) -> None:
        end = max((param.offset + param.size for param in params), default=0)
        gap = f"{self._qmd_offset - self._base - end}x"
        whole = f"<{self._base}s{gapped_format(params)}{gap}{self._qmd_format()}"
        self._pack_into = struct.Struct(whole).pack_into

    def _pack(self, mv: memoryview, offset: int, va: int, value: int, args: Sequence[Any]) -> None:
        prefix, qmd_a, qmd_b, qmd_c = self._parts
        lower, upper = self._template.bank0_words(va)
        self._pack_into(mv, offset, prefix, *args, qmd_a, value, qmd_b, lower, upper, qmd_c)

    def _submit(self, va: int, value: int) -> int:
        return self._channel.submit_packed(self._packed, va + self._qmd_offset, value - 1 & MASK64)


class HostReleaseLaunch(QmdLaunch):
    """Where a QMD cannot set the timeline: the host does, once the engine is idle."""

    __slots__ = ()

    def _qmd_parts(self) -> tuple[bytes, ...]:
        template = self._template
        return template.data[: template.bank0_offset], template.data[template.bank0_offset + 8 :]

    def _qmd_format(self) -> str:
        _, qmd_a, qmd_b = self._parts
        return f"{len(qmd_a)}s2I{len(qmd_b)}s"

    def _pack(self, mv: memoryview, offset: int, va: int, value: int, args: Sequence[Any]) -> None:
        prefix, qmd_a, qmd_b = self._parts
        lower, upper = self._template.bank0_words(va)
        self._pack_into(mv, offset, prefix, *args, qmd_a, lower, upper, qmd_b)

    def _submit(self, va: int, value: int) -> int:
        return self._channel.submit_packed(self._packed, va + self._qmd_offset, value - 1 & MASK64, value)
