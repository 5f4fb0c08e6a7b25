"""The Adreno command queue: waits, signals, clock, barriers and dispatches as PM4 packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hcqrt.core.program import HCQArgsState, Size
from hcqrt.core.queue import Channel, HWQueue
from hcqrt.core.sints import Sint, as_sint
from hcqrt.qcom import pm4

if TYPE_CHECKING:
    from typing_extensions import Self

    from hcqrt.core.signal import HCQSignal


class QCOMComputeQueue(HWQueue):
    """Kernel launches of one context. Signal values are 32 bits here: the GPU compares and writes no more."""

    dev: Any

    def __init__(self, dev: Any) -> None:
        super().__init__(dev)
        self.words += dev.chip.arch.begin  # a bound queue is a submission of its own

    def _channel(self, dev: Any) -> Channel:
        channel: Channel = dev.channel
        return channel

    def setup(self) -> Self:
        """Once per context: nothing that an earlier owner of the GPU left in its caches may be read."""
        return self.q(*self.dev.chip.arch.events.forget(), *pm4.wait_for_idle())

    def wait(self, signal: HCQSignal, value: Sint) -> Self:
        low = self.dev.low_word(signal, as_sint(value))
        return self.q(*pm4.wait_memory(signal.value_va, low))

    def signal(self, signal: HCQSignal, value: Sint) -> Self:
        low = self.dev.low_word(signal, as_sint(value))
        return self.q(
            *pm4.wait_for_idle(),
            *pm4.store_clock(signal.timestamp_va),
            *pm4.command("CP_WAIT_MEM_WRITES"),  # the clock is there before the value says so
            *self.dev.chip.arch.events.flush_and_write(signal.value_va, low),
        )

    def timestamp(self, signal: HCQSignal) -> Self:
        return self.signal(signal, 0)

    def memory_barrier(self) -> Self:
        """Write back, forget, wait: between dependent dispatches, and before what the host wrote is read."""
        events = self.dev.chip.arch.events
        return self.q(
            *events.flush_and_write(self.dev.flush_va, 0),
            *events.forget(),
            *pm4.command("CP_WAIT_MEM_WRITES"),
            *pm4.wait_for_idle(),
        )

    def _exec(self, prg: Any, args_state: HCQArgsState, groups: Size, local: Size, dynamic_shared: int) -> None:
        template = prg.template(groups, local, dynamic_shared)
        if template.in_slot and args_state.used:  # the slot's dimensions belong to an earlier launch
            with self.dev.lock:
                args_state = args_state.copy_of(self.dev.kernargs, prg.slot_bytes)
        args_state.used = True
        self.bind_args_state(args_state)
        for patch in template.store(args_state.mv, args_state.offset):
            self._patch(patch)
        self.q(*template.words(args_state.va))
