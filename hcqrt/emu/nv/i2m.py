"""Inline-to-memory: data that travels in the pushbuffer and lands in GPU memory."""

from __future__ import annotations

from hcqrt.emu.nv import semaphore
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

PITCH = 1  # LAUNCH_DMA_DST_MEMORY_LAYOUT
RELEASE_SEMAPHORE = 2  # LAUNCH_DMA_COMPLETION_TYPE
ONE_WORD = 1  # LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE
# The largest inline transfer; hardware has no such limit, but a pushbuffer segment (8 MiB) has
MAX_BYTES = 1 << 23


class InlineToMemory:
    """One transfer at a time: LAUNCH_DMA opens it, LOAD_INLINE_DATA fills it, the last word writes it."""

    def __init__(self, channel: Channel, registers: dict[str, int]) -> None:
        self.channel, self.registers = channel, registers
        self.loading: list[int] | None = None
        self.launched = 0
        self.fields: dict[str, int] = {}
        self.interrupts = 0

    def register(self, name: str) -> int:
        if name not in self.registers:
            raise Refused(GR_EXCEPTION, f"I2M LAUNCH_DMA = {self.launched:#x}: {name} was never set on this channel")
        return self.registers[name]

    def refuse(self, why: str) -> None:
        raise Refused(GR_EXCEPTION, f"I2M LAUNCH_DMA = {self.launched:#x}: {why}")

    def launch(self, data: int, fields: dict[str, int]) -> None:
        self.finish()
        self.launched, self.fields = data, fields
        if fields["DST_MEMORY_LAYOUT"] != PITCH:
            self.refuse("a block-linear destination is not supported")
        for name in ("REDUCTION_ENABLE", "REDUCTION_OP", "REDUCTION_FORMAT"):
            if fields[name]:
                self.refuse(f"{name} = {fields[name]:#x} is not supported")
        length, lines = self.register("LINE_LENGTH_IN"), self.register("LINE_COUNT")
        if not 0 < length * lines <= MAX_BYTES:
            self.refuse(f"{lines} lines of {length} bytes")
        if lines > 1 and length % 4:
            self.refuse(f"{lines} lines of {length} bytes, which is no whole number of words")
        if lines > 1 and self.register("PITCH_OUT") < length:
            self.refuse(f"PITCH_OUT {self.register('PITCH_OUT'):#x} < line of {length:#x} bytes")
        self.loading = []

    def load(self, data: int) -> None:
        if self.loading is None:
            raise Refused(GR_EXCEPTION, f"LOAD_INLINE_DATA = {data:#x}: no transfer is open")
        self.loading.append(data)
        if len(self.loading) == self.words:
            words, self.loading = self.loading, None
            self.complete(b"".join(word.to_bytes(4, "little") for word in words))

    @property
    def words(self) -> int:
        return -(-self.registers["LINE_LENGTH_IN"] * self.registers["LINE_COUNT"] // 4)

    def finish(self) -> None:
        """Nothing else may come before the last word."""
        if self.loading is not None:
            self.refuse(f"{len(self.loading)} of {self.words} data words came")

    def complete(self, data: bytes) -> None:
        length, lines = self.register("LINE_LENGTH_IN"), self.register("LINE_COUNT")
        va = self.register("OFFSET_OUT_UPPER") << 32 | self.register("OFFSET_OUT")
        pitch = self.register("PITCH_OUT") if lines > 1 else length
        space = self.channel.address_space
        for line in range(lines):
            space.write(va + line * pitch, data[line * length : (line + 1) * length])
        if self.fields["COMPLETION_TYPE"] == RELEASE_SEMAPHORE:
            self.release()
        self.interrupts += self.fields["INTERRUPT_TYPE"]

    def release(self) -> None:
        va = self.register("SET_I2M_SEMAPHORE_A") << 32 | self.register("SET_I2M_SEMAPHORE_B")
        one_word = self.fields["SEMAPHORE_STRUCT_SIZE"] == ONE_WORD
        if va % (4 if one_word else 16):
            self.refuse(f"semaphore at {va:#x} is not {4 if one_word else 16}-byte aligned")
        stamp = None if one_word else self.channel.gpu.timer_ns()
        semaphore.release(self.channel.address_space, va, self.register("SET_I2M_SEMAPHORE_C"), 4, stamp)
