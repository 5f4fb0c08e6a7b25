"""The worked dispatch of the facts, word by word, with other addresses: a kernel for tests that need no program loader.

out[i] = in[i] + `addend` on u32 or u8 items in groups of 64. Source: qcom facts 3.3.
"""

from __future__ import annotations

from typing import Any

from hcqrt import Variable

TIMELINE = Variable("timeline")
GROUP = 64
CODE = {  # by bytes of an item; the second is the same without the shift, with u8 loads and stores of a half register
    4: (
        0x46D8_0803_2006_00C0, 0x4218_0803_0000_0003, 0x46D8_0803_2002_0003, 0x4210_0004_1002_0003,
        0x202C_C005_0000_0003, 0x4210_0008_1000_0003, 0x202C_C009_0000_0001, 0x0000_0500_0000_0000,
        0xC006_0006_0181_0001, 0x5210_0006_2000_0006, 0x0000_0500_0000_0000, 0xC0C6_1100_0180_000C,
        0x0300_0000_0000_0000,
    ),
    1: (
        0x46D8_0803_2006_00C0, 0x4218_0803_0000_0003, 0x4218_0804_1002_0003, 0x202C_C005_0000_0003,
        0x4218_0808_1000_0003, 0x202C_C009_0000_0001, 0x0000_0500_0000_0000, 0xC00C_0000_0181_0001,
        0x5200_0000_2000_0000, 0x0000_0500_0000_0000, 0xC0CC_1100_0180_0000, 0x0300_0000_0000_0000,
    ),
}  # fmt: skip
ADD = {4: 9, 1: 8}  # which word is (sy) add.u with an immediate, an integer from bit 16 on
HALF_REGS = {4: 0, 1: 1 << 1}  # what SP_CS_CTRL_REG0 says of them


def code_bytes(addend: int, item_bytes: int = 4) -> bytes:
    words = list(CODE[item_bytes])
    words[ADD[item_bytes]] |= addend << 16
    return b"".join(word.to_bytes(8, "little") for word in words).ljust(256, b"\0")


def split(value: int) -> tuple[int, int]:
    return value & 0xFFFF_FFFF, value >> 32


def constants(out_va: int, in_va: int) -> bytes:
    return out_va.to_bytes(8, "little") + in_va.to_bytes(8, "little")


def dispatch(code_va: int, constants_va: int, groups: int, half_regs: int = 0) -> list[int]:
    """Command words up to CP_EXEC_CS and the wait for it; a signal is the caller's."""
    code, const = split(code_va), split(constants_va)
    return [
        0x70E50001, 8, 0x40BB0801, 0x60, 0x40AB0001, 5, 0x48AE0401, 0, 0x40AE0F01, 0x20, 0x40B30901, 2,
        0x40B60001, 0x00108000, 0x70268000, 0x40B98701, 0x101, 0x48A9BB02, 0x100, 1,
        0x40A9B08A, 0x180 | half_regs, 1, 0, 0, *code, 0, 0, 0, 0, 0x48A9BD01, 0,
        0x40B9908C, 0xFF, groups * GROUP, 0, 1, 0, 1, 0, 0x00FCFCC0, 0xFC, 1, 1, 1,
        0x70348003, 0x00764000, *const, 0x70348003, 0x00760000, *code,
        0x70B30004, 0, groups, 1, 1, 0x70268000,
    ]  # fmt: skip


class Adder:
    """Adds to items in place, in one device's memory."""

    def __init__(self, dev: Any, addend: int = 1, item_bytes: int = 4) -> None:
        self.dev, self.code, self.item_bytes = dev, dev.alloc(256, cpu_access=True), item_bytes
        self.code.copyin(code_bytes(addend, item_bytes))
        self.constants: list[Any] = []

    def _queue(self, out_va: int, in_va: int, groups: int, value: Any) -> Any:
        """A queue that takes the timeline to `value`."""
        dev = self.dev
        block = dev.alloc(16, cpu_access=True)
        block.copyin(constants(out_va, in_va))
        self.constants.append(block)
        queue = dev.compute_queue().wait(dev.timeline_signal, value - 1).memory_barrier()
        queue.q(*dispatch(self.code.va_addr, block.va_addr, groups, HALF_REGS[self.item_bytes]))
        return queue.signal(dev.timeline_signal, value)

    def run(self, out_va: int, in_va: int, groups: int) -> None:
        self._queue(out_va, in_va, groups, self.dev.next_timeline()).submit(self.dev)

    def bound(self, out_va: int, in_va: int, groups: int) -> Any:
        """For `run_bound`, any number of times."""
        return self._queue(out_va, in_va, groups, TIMELINE).bind(self.dev)

    def run_bound(self, queue: Any) -> None:
        queue.submit(self.dev, {TIMELINE: self.dev.next_timeline()})

    def close(self) -> None:
        for buffer in (self.code, *self.constants):
            buffer.close()
