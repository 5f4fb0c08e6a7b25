"""Dispatches by shape: their words with the argument slot's address left open, and the launch path that fills it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hcqrt.core.launch import MASK32, PackedLaunch
from hcqrt.core.patch import MemoryPatch
from hcqrt.core.program import Param, item_format
from hcqrt.core.queue import PackedQueue
from hcqrt.core.sints import Variable, compile_sints, is_symbolic
from hcqrt.qcom.dispatch import KERNEL_DIMS, Shape, dispatch

if TYPE_CHECKING:
    from hcqrt.core.buffer import HCQBuffer
    from hcqrt.qcom.program import QCOMProgram

DRIVER_PARAMS = struct.Struct("<12I16x")  # 64 bytes


class DispatchTemplate:
    """The words of one program in one shape, and what the shape puts into the argument slot.

    `symbols`: a size is known only at submission.
    """

    def __init__(self, prg: QCOMProgram, shape: Shape) -> None:
        self._prg, self._shape = prg, shape
        self.symbols = any(map(is_symbolic, (*shape.groups, *shape.local)))
        self.in_slot = prg.shader.driver_params is not None
        # the same as bytes, where no symbol is in it
        self.slot_part = DRIVER_PARAMS.pack(*self.driver_params()) if self.in_slot and not self.symbols else b""
        slot = Variable("slot_va")
        self._compiled = None if self.symbols else compile_sints(self._dispatch(slot), [slot])

    def words(self, slot_va: Any) -> Sequence[Any]:
        """The dispatch with its arguments at `slot_va`, which may be a symbol."""
        if self._compiled is None or is_symbolic(slot_va):
            return self._dispatch(slot_va)
        words: tuple[Any, ...] = self._compiled(slot_va)
        return words

    def _dispatch(self, slot_va: Any) -> list[Any]:
        prg = self._prg
        return dispatch(prg.dev.chip, prg.shader, self._shape, prg.place(slot_va), prg.private)

    def driver_params(self) -> list[Any]:
        """What ir3 shaders of variable size expect in their constants. Source: qcom facts 5.2."""
        subgroup = 128 if self._prg.shader.double_threads else 64
        groups, local = self._shape.groups, self._shape.local
        return [*groups, KERNEL_DIMS, 0, 0, 0, subgroup, *local, subgroup.bit_length() - 1]

    def store(self, mv: memoryview, slot: int) -> Iterator[MemoryPatch]:
        """Write the shape's part of the slot. Yields the stores that must wait for symbols."""
        if not self.symbols:
            mv[slot : slot + len(self.slot_part)] = self.slot_part
        elif self.in_slot:
            for index, value in enumerate(self.driver_params()):
                yield MemoryPatch(mv, slot + 4 * index, "I", value, None)


class DispatchLaunch(PackedLaunch):
    """Launches one program in one shape: wait, barrier, dispatch and signal are packed once."""

    __slots__ = ("_initial", "_packed", "_program", "_runs")

    def __init__(self, prg: QCOMProgram, template: DispatchTemplate) -> None:
        super().__init__(prg, prg.dev.channel, prg.slot_bytes)
        self._program = prg
        slot, before, value, progress = (Variable(name) for name in ("slot_va", "before", "value", "progress"))
        dev = prg.dev
        queue = dev.compute_queue().wait(dev.timeline_signal, before).memory_barrier().q(*template.words(slot))
        queue.signal(dev.timeline_signal, value)
        self._packed = PackedQueue(queue, dev.channel, (slot, before, value), progress)
        self._initial = template.slot_part + prg.shader.block
        self._runs: list[tuple[int, Any, int, int]] = []  # (offset in the slot, pack_into, first and last argument)

    def _params(self, bufs: Sequence[HCQBuffer], vals: Sequence[Any]) -> Sequence[Param]:
        plain, _ = self._program.split(bufs)
        return self._program.params_for(len(plain), len(vals))

    def _places(self, bufs: Sequence[HCQBuffer]) -> list[Any]:
        dev = self._dev
        return [buf.va_addr for buf in bufs if buf.dev is dev and buf.image is None]

    def _prepare(self, params: Sequence[Param]) -> None:
        self._runs = []
        first = 0
        for last in range(1, len(params) + 1):
            end = params[last - 1].offset + params[last - 1].size
            if last == len(params) or params[last].offset != end:
                form = "".join(item_format(param) for param in params[first:last])
                start = self._program.param_base + params[first].offset
                self._runs.append((start, struct.Struct(f"<{form}").pack_into, first, last))
                first = last

    def _pack(self, mv: memoryview, offset: int, va: int, value: int, args: Sequence[Any]) -> None:
        initial = self._initial
        mv[offset : offset + len(initial)] = initial
        for start, pack_into, first, last in self._runs:
            pack_into(mv, offset + start, *args[first:last])

    def _submit(self, va: int, value: int) -> int:
        return self._channel.submit_packed(self._packed, va, value - 1 & MASK32, value & MASK32)


class ImageLaunch(DispatchLaunch):
    """As `DispatchLaunch`, for programs that take images: their descriptors follow the argument block.

    The items that are packed are pointers, descriptors in the order of their tables, then values.
    """

    __slots__ = ("_images", "_table_count")

    def __init__(self, prg: QCOMProgram, template: DispatchTemplate) -> None:
        super().__init__(prg, template)
        self._images = prg.images_offset
        self._table_count = prg.shader.images + len(prg.shader.textures)

    def _places(self, bufs: Sequence[HCQBuffer]) -> list[Any]:
        dev = self._dev
        if any(buf.dev is not dev for buf in bufs):
            return []
        plain, descriptors = self._program.split(bufs)
        return [*(buf.va_addr for buf in plain), *descriptors]

    def _pack(self, mv: memoryview, offset: int, va: int, value: int, args: Sequence[Any]) -> None:
        last = self._buf_count
        first = last - self._table_count
        tables = b"".join(args[first:last])
        super()._pack(mv, offset, va, value, (*args[:first], *args[last:]))
        mv[offset + self._images : offset + self._images + len(tables)] = tables
