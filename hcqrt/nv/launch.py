"""The launch path: arguments, QMD and command words of one launch shape, packed once and patched per call."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.core.program import UNSIGNED, Param, item_format, scalar_bits
from hcqrt.core.queue import PackedQueue
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import Variable, is_symbolic
from hcqrt.errors import LaunchError

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.nv.device import NVDevice
    from hcqrt.nv.program import NVProgram
    from hcqrt.nv.qmd import QmdTemplate


def pack_launch_words(dev: NVDevice) -> PackedQueue:
    """The command words of every launch, with the QMD's address and the timeline value to wait for left open."""
    qmd_va, before, progress = Variable("qmd_va"), Variable("before"), Variable("progress")
    queue = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier().launch(qmd_va)
    return PackedQueue(queue, dev.compute_fifo, (qmd_va, before), progress)


def gapped_format(params: Sequence[Param]) -> str:
    """struct format of parameters at their offsets, padding between them."""
    text, end = "", 0
    for param in params:
        if param.offset < end:
            raise LaunchError(f"the parameter at offset {param.offset} overlaps the one before")
        text += f"{param.offset - end}x{item_format(param)}"
        end = param.offset + param.size
    return text


class PackedLaunch:
    """Launches one program in one shape.

    A slot of the kernel-argument ring holds, in this order: what the constant bank has before the parameters, the
    parameters, padding to 256 bytes, the QMD with the timeline's release in it.
    """

    __slots__ = ("_buf_count", "_compute", "_dev", "_has_structs", "_pack_into", "_packed", "_parts", "_prg",
                 "_slot_bytes", "_template", "_val_count")  # fmt: skip

    def __init__(self, prg: NVProgram, template: QmdTemplate) -> None:
        self._prg, self._dev, self._template = prg, prg.dev, template
        self._compute = prg.dev.compute_fifo
        self._packed = prg.dev.launch_words
        qmd, payload = template.with_release(prg.dev.timeline_signal.value_va)
        bank0 = template.bank0_offset
        self._parts = (template.bank0_prefix, qmd[:payload], qmd[payload + 8 : bank0], qmd[bank0 + 8 :])
        self._slot_bytes = prg.slot_bytes
        self._buf_count = self._val_count = -1
        self._has_structs = False
        self._pack_into: Any = None

    def __call__(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> None:
        dev = self._dev
        with dev.lock:
            try:
                addresses = [buf.va_addr for buf in bufs if buf.dev is dev]
            except AttributeError:  # something that is no buffer
                addresses = self._reshape(bufs, vals)
            if len(addresses) != self._buf_count or len(vals) != self._val_count or len(bufs) != self._buf_count:
                addresses = self._reshape(bufs, vals)
            ring = dev.kernargs
            offset = ring.cursor
            if offset + self._slot_bytes > ring.limit:
                ring.turn(self._slot_bytes)
                offset = ring.cursor
            if self._has_structs:
                vals = self._convert(bufs, vals)
            va = ring.va + offset
            value = dev.timeline_value
            prefix, qmd_a, qmd_b, qmd_c = self._parts
            lower, upper = self._template.bank0_words(va)
            try:
                self._pack_into(ring.mv, offset, prefix, *addresses, *vals, qmd_a, value, qmd_b, lower, upper, qmd_c)
            except struct.error:
                vals = self._convert(bufs, vals)
                self._pack_into(ring.mv, offset, prefix, *addresses, *vals, qmd_a, value, qmd_b, lower, upper, qmd_c)
            compute = self._compute
            submitted = compute.submitted
            try:
                dev.timeline_value = value + 1 & MASK64
                ring.cursor = offset + self._slot_bytes
                dev.last_launch = self._prg.name
                ring.segment.fence = compute.submit_packed(self._packed, va + self._prg.qmd_offset, value - 1 & MASK64)
            except BaseException:  # also Ctrl-C: what was submitted stays counted, what was not must not be waited for
                if compute.submitted == submitted:
                    dev.timeline_value = value
                else:
                    ring.segment.fence = compute.submitted
                raise

    def _reshape(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> list[int]:
        """Check number, owner and kind of the arguments, and make the struct for this number of buffers and values."""
        prg = self._prg
        prg.check_buffers(bufs)
        params = prg.params_for(len(bufs), len(vals))
        end = max((param.offset + param.size for param in params), default=0)
        _, qmd_a, qmd_b, qmd_c = self._parts
        tail = f"{prg.qmd_offset - prg.param_base - end}x{len(qmd_a)}sQ{len(qmd_b)}s2I{len(qmd_c)}s"
        self._pack_into = struct.Struct(f"<{prg.param_base}s{gapped_format(params)}{tail}").pack_into
        self._buf_count, self._val_count = len(bufs), len(vals)
        self._has_structs = any(param.size not in UNSIGNED for param in params)  # struct.pack would cut them silently
        return [buf.va_addr for buf in bufs]

    def _convert(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> list[int]:
        """Negative and floating-point values as bits; raises LaunchError for what does not fit."""
        name = self._prg.name
        if any(is_symbolic(buf.va_addr) for buf in bufs):
            raise LaunchError(f"{name}: a buffer's address is a symbol; build a queue and submit it with values")
        params = self._prg.params_for(len(bufs), len(vals))[len(bufs) :]
        try:
            return [scalar_bits(value, param.size) for param, value in zip(params, vals, strict=True)]
        except LaunchError as error:
            raise LaunchError(f"{name}: {error}") from None
