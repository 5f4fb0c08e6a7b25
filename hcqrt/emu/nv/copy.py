"""The copy engine: transfers, two-dimensional and remapped ones, and the semaphores it releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hcqrt.emu.nv import semaphore
from hcqrt.emu.nv.classes import class_table, names
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.remap import Remap, fill, remap_row
from hcqrt.emu.nv.trouble import Refused, copy_error

if TYPE_CHECKING:
    from hcqrt.emu.nv.fifo import Host

TRANSFERS = (1, 2)  # LAUNCH_DMA_DATA_TRANSFER_TYPE: pipelined or not
NON_BLOCKING = 2  # LAUNCH_DMA_INTERRUPT_TYPE
PITCH = 1  # LAUNCH_DMA_SRC/DST_MEMORY_LAYOUT
NO_TIMESTAMP, WITH_TIMESTAMP, CONDITIONAL_INTERRUPT = 1, 2, 3  # LAUNCH_DMA_SEMAPHORE_TYPE
# LAUNCH_DMA fields that this engine acts on, or whose effect cannot be seen here (PLC: compression)
HANDLED = names(
    "DATA_TRANSFER_TYPE FLUSH_ENABLE FLUSH_TYPE SEMAPHORE_TYPE SEMAPHORE_PAYLOAD_SIZE INTERRUPT_TYPE SRC_MEMORY_LAYOUT"
    " DST_MEMORY_LAYOUT MULTI_LINE_ENABLE REMAP_ENABLE DISABLE_PLC"
)
STORED = names(
    "OFFSET_IN_UPPER OFFSET_IN_LOWER OFFSET_OUT_UPPER OFFSET_OUT_LOWER PITCH_IN PITCH_OUT LINE_LENGTH_IN LINE_COUNT"
    " SET_SEMAPHORE_A SET_SEMAPHORE_B SET_SEMAPHORE_PAYLOAD SET_SEMAPHORE_PAYLOAD_UPPER"
    " SET_REMAP_CONST_A SET_REMAP_CONST_B SET_REMAP_COMPONENTS"
)
NO_OPERATION = frozenset({"NOP"})


@dataclass(frozen=True)
class CopyRecord:
    """One transfer that an engine made; `src_va` is None for a fill."""

    channel: int
    dst_va: int
    src_va: int | None
    line_bytes: int
    lines: int

    @property
    def nbytes(self) -> int:
        return self.line_bytes * self.lines


class CopyEngine:
    """A copy object of one channel."""

    def __init__(self, host: Host, channel: Channel, number: int) -> None:
        self.code = copy_error(channel.group.engine_type)
        table = class_table(number)
        if table is None:
            raise Refused(self.code, f"copy class {number:#x} is not modelled")
        self.host, self.channel, self.table = host, channel, table
        self.registers: dict[str, int] = {}
        self.interrupts = 0
        self.unflushed = False  # data of earlier transfers may not be visible yet

    def run(self, offset: int, data: int) -> None:
        """Execute one method. Raises Refused and MmuFault."""
        method = self.table.method(offset, self.code)
        fields = self.table.decode(method, data, self.code)
        if method.name == "LAUNCH_DMA":
            self.launch(data, fields)
        elif method.name in STORED:
            self.registers[method.name] = data
        elif method.name not in NO_OPERATION:
            raise Refused(
                self.code, f"class {self.table.number:#x} {method.text} ({offset:#x}) = {data:#x} is not modelled"
            )

    def finish(self) -> None:
        """Every transfer is complete when its launch returns; a wait by the host also makes its data visible."""
        self.unflushed = False

    def register(self, name: str, launch: int) -> int:
        """A register the launch needs; one never written is refused instead of being zero."""
        if name not in self.registers:
            raise Refused(self.code, f"LAUNCH_DMA = {launch:#010x}: {name} was never set on this channel")
        return self.registers[name]

    def address(self, name: str, launch: int) -> int:
        return self.register(f"{name}_UPPER", launch) << 32 | self.register(f"{name}_LOWER", launch)

    def launch(self, data: int, fields: dict[str, int]) -> None:
        for name, value in fields.items():
            if value and name not in HANDLED:
                raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: {name} = {value:#x} is not supported")
        if fields["INTERRUPT_TYPE"] not in (0, NON_BLOCKING):
            raise Refused(
                self.code, f"LAUNCH_DMA = {data:#010x}: interrupt type {fields['INTERRUPT_TYPE']} is not supported"
            )
        if fields["DATA_TRANSFER_TYPE"] not in (0, *TRANSFERS):
            kind = fields["DATA_TRANSFER_TYPE"]
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: transfer type {kind} is not supported")
        if fields["DATA_TRANSFER_TYPE"]:
            self.transfer(data, fields)
            self.unflushed = True
        if fields["FLUSH_ENABLE"]:
            self.unflushed = False
        if fields["SEMAPHORE_TYPE"]:
            self.release(data, fields)
        if fields["INTERRUPT_TYPE"]:
            self.interrupts += 1

    def transfer(self, data: int, fields: dict[str, int]) -> None:
        for side in ("SRC", "DST"):
            if fields[f"{side}_MEMORY_LAYOUT"] != PITCH:
                raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: {side} block-linear layout is not supported")
        length = self.register("LINE_LENGTH_IN", data)
        lines = self.register("LINE_COUNT", data) if fields["MULTI_LINE_ENABLE"] else 1
        if not length or not lines:
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: {lines} lines of length {length}")
        remap = self.remap(data) if fields["REMAP_ENABLE"] else None
        dst_bytes = length * (remap.dst_bytes if remap else 1)
        src_bytes = length * (remap.src_bytes if remap else 1)
        dst = self.address("OFFSET_OUT", data)
        src = self.address("OFFSET_IN", data) if remap is None or remap.reads_source else None
        pitch_in = self.register("PITCH_IN", data) if lines > 1 and src is not None else src_bytes
        pitch_out = self.register("PITCH_OUT", data) if lines > 1 else dst_bytes
        if pitch_out < dst_bytes:
            raise Refused(
                self.code, f"LAUNCH_DMA = {data:#010x}: PITCH_OUT {pitch_out:#x} < line of {dst_bytes:#x} bytes"
            )
        space = self.channel.address_space
        if pitch_in == src_bytes and pitch_out == dst_bytes:  # lines that touch are one long one
            length, lines, src_bytes, dst_bytes = length * lines, 1, src_bytes * lines, dst_bytes * lines
        for line in range(lines):
            to, source = dst + line * pitch_out, None if src is None else src + line * pitch_in
            if remap is None:
                assert source is not None, "a plain copy has a source"
                space.copy(to, source, dst_bytes)
            elif source is None and not remap.keeps_bytes:
                fill(space, to, remap.constant_element(), length)
            else:
                remap_row(space, remap, to, source, length)
        self.host.gpu.stats["copies"] += 1
        self.host.copy_log.append(CopyRecord(self.channel.token, dst, src, dst_bytes, lines))

    def remap(self, data: int) -> Remap:
        value = self.register("SET_REMAP_COMPONENTS", data)
        method = self.table.method(0x708, self.code)
        remap = Remap.decode(self.table.decode(method, value, self.code), self.registers)
        if problem := remap.problem():
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: SET_REMAP_COMPONENTS = {value:#010x}: {problem}")
        return remap

    def release(self, data: int, fields: dict[str, int]) -> None:
        kind = fields["SEMAPHORE_TYPE"]
        if kind == CONDITIONAL_INTERRUPT:
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: semaphore type {kind} is not supported")
        if self.unflushed:
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: releases a semaphore while data is not flushed")
        wide = bool(fields.get("SEMAPHORE_PAYLOAD_SIZE", 0))
        va = self.register("SET_SEMAPHORE_A", data) << 32 | self.register("SET_SEMAPHORE_B", data)
        payload = self.register("SET_SEMAPHORE_PAYLOAD", data)
        if wide:
            payload |= self.register("SET_SEMAPHORE_PAYLOAD_UPPER", data) << 32
        nbytes = 8 if wide else 4
        alignment = 16 if kind == WITH_TIMESTAMP else nbytes
        if va % alignment:
            raise Refused(self.code, f"LAUNCH_DMA = {data:#010x}: semaphore at {va:#x} is not {alignment}-byte aligned")
        stamp = self.channel.gpu.timer_ns() if kind == WITH_TIMESTAMP else None
        semaphore.release(self.channel.address_space, va, payload, nbytes, stamp)
