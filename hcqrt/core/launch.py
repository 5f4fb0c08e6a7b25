"""The launch path: one program in one shape, its command words packed once, its arguments written per call."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.core.program import UNSIGNED, Param, item_format, scalar_bits
from hcqrt.core.signal import MASK64
from hcqrt.core.sints import is_symbolic
from hcqrt.errors import LaunchError

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.core.program import HCQProgram
    from hcqrt.core.queue import Channel

MASK32 = (1 << 32) - 1


def gapped_format(params: Sequence[Param]) -> str:
    """struct format of parameters at their offsets, padding between them."""
    text, end = "", 0
    for param in params:
        if param.offset < end:
            raise LaunchError(f"the parameter at offset {param.offset} overlaps the one before")
        text += f"{param.offset - end}x{item_format(param)}"
        end = param.offset + param.size
    return text


class PackedLaunch(ABC):
    """Launches one program in one shape: fills a slot of the kernel-argument ring and submits packed words."""

    __slots__ = ("_buf_count", "_channel", "_dev", "_has_structs", "_prg", "_slot_bytes", "_val_count")

    def __init__(self, prg: HCQProgram, channel: Channel, slot_bytes: int) -> None:
        self._prg, self._dev, self._channel, self._slot_bytes = prg, prg.dev, channel, slot_bytes
        self._buf_count = self._val_count = -1
        self._has_structs = False

    @abstractmethod
    def _prepare(self, params: Sequence[Param]) -> None:
        """Get ready to pack arguments of these sizes and places."""

    @abstractmethod
    def _pack(self, mv: memoryview, offset: int, va: int, value: int, args: Sequence[Any]) -> None:
        """Fill the slot at `offset` of `mv`, which the GPU sees at `va`, for the launch of timeline value `value`.

        Raises struct.error when an argument is not as its parameter; the slot may then be half filled.
        """

    @abstractmethod
    def _submit(self, va: int, value: int) -> int:
        """Run the words for the filled slot; returns the channel's progress value."""

    def _places(self, bufs: Sequence[HCQBuffer]) -> list[Any]:
        """What is packed for each buffer. Fewer items than buffers, or AttributeError: something is wrong with one."""
        dev = self._dev
        return [buf.va_addr for buf in bufs if buf.dev is dev]

    def _params(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> Sequence[Param]:
        """The parameters that these arguments go to, those of `vals` last. Raises LaunchError."""
        return self._prg.params_for(len(bufs), len(vals))

    def __call__(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> None:
        dev = self._dev
        with dev.lock:
            if dev.broken is not None:  # asked with the lock: the device may be closed by another thread
                dev.check_usable()
            try:
                places = self._places(bufs)
            except AttributeError:  # something that is no buffer
                places = self._reshape(bufs, vals)
            if len(places) != self._buf_count or len(vals) != self._val_count or len(bufs) != self._buf_count:
                places = self._reshape(bufs, vals)
            ring = dev.kernargs
            offset = ring.cursor
            if offset + self._slot_bytes > ring.limit:
                ring.turn(self._slot_bytes)
                offset = ring.cursor
            if self._has_structs:
                vals = self._convert(bufs, vals)
            va = ring.va + offset
            value = dev.timeline_value
            if not value & MASK32:  # GPUs whose signals have 32 bits start anew
                value = dev.upcoming()
            try:
                self._pack(ring.mv, offset, va, value, (*places, *vals))
            except struct.error:
                self._pack(ring.mv, offset, va, value, (*places, *self._convert(bufs, vals)))
            channel = self._channel
            submitted = channel.submitted
            try:
                dev.timeline_value = value + 1 & MASK64
                ring.cursor = offset + self._slot_bytes
                dev.last_launch = self._prg.name
                ring.segment.fence = self._submit(va, value)
            except BaseException:  # also Ctrl-C: what was submitted stays counted, what was not must not be waited for
                if channel.submitted == submitted:
                    dev.timeline_value = value
                else:
                    ring.segment.fence = channel.submitted
                raise

    def _reshape(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> list[Any]:
        """Check number, owner and kind of the arguments, and get ready for this number of buffers and values."""
        self._prg.check_buffers(bufs)
        params = self._params(bufs, vals)
        self._prepare(params)
        self._buf_count, self._val_count = len(bufs), len(vals)
        self._has_structs = any(param.size not in UNSIGNED for param in params)  # struct.pack would cut them silently
        return self._places(bufs)

    def _convert(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> list[int]:
        """Negative and floating-point values as bits; raises LaunchError for what does not fit."""
        name = self._prg.name
        if any(is_symbolic(buf.va_addr) for buf in bufs):
            raise LaunchError(f"{name}: a buffer's address is a symbol; build a queue and submit it with values")
        params = self._params(bufs, vals)
        params = params[len(params) - len(vals) :]
        try:
            return [scalar_bits(value, param.size) for param, value in zip(params, vals, strict=True)]
        except LaunchError as error:
            raise LaunchError(f"{name}: {error}") from None
