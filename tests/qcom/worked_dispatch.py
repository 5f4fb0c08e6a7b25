"""The worked dispatch of the facts, word by word, with other addresses: a kernel for tests that need no program loader.

out[i] = in[i] + `addend` on u32 items in groups of 64. Source: qcom facts 3.3.
"""

from __future__ import annotations

from typing import Any

GROUP = 64
ADD = 0x5210_0006_2000_0006  # (sy) add.u r1.z, r1.z, immediate: bits 45:32 of the source are an integer
CODE = (
    0x46D8_0803_2006_00C0, 0x4218_0803_0000_0003, 0x46D8_0803_2002_0003, 0x4210_0004_1002_0003, 0x202C_C005_0000_0003,
    0x4210_0008_1000_0003, 0x202C_C009_0000_0001, 0x0000_0500_0000_0000, 0xC006_0006_0181_0001, ADD,
    0x0000_0500_0000_0000, 0xC0C6_1100_0180_000C, 0x0300_0000_0000_0000,
)  # fmt: skip


def code_bytes(addend: int) -> bytes:
    words = [ADD | addend << 16 if word == ADD else word for word in CODE]
    return b"".join(word.to_bytes(8, "little") for word in words).ljust(256, b"\0")


def split(value: int) -> tuple[int, int]:
    return value & 0xFFFF_FFFF, value >> 32


def constants(out_va: int, in_va: int) -> bytes:
    return out_va.to_bytes(8, "little") + in_va.to_bytes(8, "little")


def dispatch(code_va: int, constants_va: int, groups: int) -> list[int]:
    """Command words up to CP_EXEC_CS and the wait for it; a signal is the caller's."""
    code, const = split(code_va), split(constants_va)
    return [
        0x70E50001, 8, 0x40BB0801, 0x60, 0x40AB0001, 5, 0x48AE0401, 0, 0x40AE0F01, 0x20, 0x40B30901, 2,
        0x40B60001, 0x00108000, 0x70268000, 0x40B98701, 0x101, 0x48A9BB02, 0x100, 1,
        0x40A9B08A, 0x180, 1, 0, 0, *code, 0, 0, 0, 0, 0x48A9BD01, 0,
        0x40B9908C, 0xFF, groups * GROUP, 0, 1, 0, 1, 0, 0x00FCFCC0, 0xFC, 1, 1, 1,
        0x70348003, 0x00764000, *const, 0x70348003, 0x00760000, *code,
        0x70B30004, 0, groups, 1, 1, 0x70268000,
    ]  # fmt: skip


class Adder:
    """Adds to u32 items in place, in one device's memory."""

    def __init__(self, dev: Any, addend: int = 1) -> None:
        self.dev, self.code = dev, dev.alloc(256, cpu_access=True)
        self.code.copyin(code_bytes(addend))
        self.constants: list[Any] = []

    def queue(self, out_va: int, in_va: int, groups: int) -> Any:
        """A queue on the timeline, not submitted."""
        dev = self.dev
        block = dev.alloc(16, cpu_access=True)
        block.copyin(constants(out_va, in_va))
        self.constants.append(block)
        value = dev.next_timeline()
        queue = dev.compute_queue().wait(dev.timeline_signal, value - 1).memory_barrier()
        queue.q(*dispatch(self.code.va_addr, block.va_addr, groups))
        return queue.signal(dev.timeline_signal, value)

    def run(self, out_va: int, in_va: int, groups: int) -> None:
        self.queue(out_va, in_va, groups).submit(self.dev)

    def close(self) -> None:
        for buffer in (self.code, *self.constants):
            buffer.close()
