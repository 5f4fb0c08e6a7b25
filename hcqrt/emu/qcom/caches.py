"""The model of CPU caches: memory that does not snoop them has two copies, and only cache maintenance moves lines.

Hardware shows the difference sometimes; here it always shows, both ways, in whole lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from hcqrt.emu.memory import Block, copy_block
from hcqrt.emu.qcom.kgsl.user import UserMemory

LINE_BYTES = 64


@dataclass(eq=False)
class Views:
    """What the CPU sees of an object, and what lies in DRAM for the GPU: one block where they are coherent.

    `pinned`: the CPU's side is private memory of the process, which may unmap or protect it at any time.
    """

    cpu: Block
    dram: Block
    user: UserMemory
    pinned: bool = False

    @property
    def coherent(self) -> bool:
        return self.cpu is self.dram

    def clean(self, offset: int, nbytes: int) -> None:
        """Write the CPU's lines back: DRAM becomes what the CPU sees."""
        if self.coherent:
            return
        start, length = lines(offset, nbytes)
        if self.pinned:  # pages that the owner took away keep what DRAM has
            self.user.load(self.dram.host_ptr + start, self.cpu.host_ptr + start, length)
        else:
            copy_block(self.dram, start, self.cpu, start, length)

    def invalidate(self, offset: int, nbytes: int) -> None:
        """Drop the CPU's lines: the CPU sees what is in DRAM."""
        if self.coherent:
            return
        start, length = lines(offset, nbytes)
        if self.pinned:
            self.user.store(self.cpu.host_ptr + start, self.dram.host_ptr + start, length)
        else:
            copy_block(self.cpu, start, self.dram, start, length)

    def drop(self) -> None:
        self.dram.drop()
        if not self.coherent:
            self.cpu.drop()


def lines(offset: int, nbytes: int) -> tuple[int, int]:
    """The whole cache lines that a range touches, as (offset, nbytes). Objects are whole pages, so none sticks out."""
    start = offset // LINE_BYTES * LINE_BYTES
    return start, -(-(offset + nbytes) // LINE_BYTES) * LINE_BYTES - start
