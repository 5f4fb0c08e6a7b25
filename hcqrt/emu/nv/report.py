"""Report semaphores of the compute class: the old 32-bit form and the 64-bit form of c7c0 and later."""

from __future__ import annotations

from hcqrt.emu.nv import semaphore
from hcqrt.emu.nv.gpu import Channel
from hcqrt.emu.nv.semaphore import FOUR_WORDS, RECORD_BYTES, RED_REDUCTIONS
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

RELEASE = 0  # OPERATION of both forms


def write_record(
    channel: Channel,
    what: str,
    va: int,
    payload: int,
    structure: int,
    payload64: bool,
    reduction: int | None,
    signed: bool,
) -> None:
    """Release or reduce one record of a structure size. Raises Refused and MmuFault.

    Shared by report semaphores and the release slots of a QMD: both number structures and reductions alike.
    """
    nbytes = 8 if payload64 else 4
    size = RECORD_BYTES[structure]
    if va % size:
        raise Refused(GR_EXCEPTION, f"{what}: semaphore at {va:#x} is not {size}-byte aligned")
    if structure != FOUR_WORDS and size != nbytes:
        raise Refused(GR_EXCEPTION, f"{what}: a {8 * nbytes}-bit payload in a structure of {size} bytes")
    if reduction is None:
        stamp = channel.gpu.timer_ns() if structure == FOUR_WORDS else None
        semaphore.release(channel.address_space, va, payload, nbytes, stamp)
        return
    if structure == FOUR_WORDS:
        raise Refused(GR_EXCEPTION, f"{what}: reduction {reduction} in a four-word structure")
    semaphore.reduce(channel.address_space, va, RED_REDUCTIONS[reduction], payload, nbytes, signed)


class ReportSemaphores:
    """Their registers are the engine's; the last method of either form acts."""

    def __init__(self, channel: Channel, registers: dict[str, int]) -> None:
        self.channel, self.registers = channel, registers
        self.interrupts = 0

    def register(self, what: str, name: str) -> int:
        if name not in self.registers:
            raise Refused(GR_EXCEPTION, f"{what}: {name} was never set on this channel")
        return self.registers[name]

    def old_form(self, data: int, fields: dict[str, int]) -> None:
        """SET_REPORT_SEMAPHORE_D."""
        what = f"SET_REPORT_SEMAPHORE_D = {data:#x}"
        if fields["OPERATION"] != RELEASE or fields["CONDITIONAL_TRAP"]:
            raise Refused(GR_EXCEPTION, f"{what}: operation {fields['OPERATION']} is not supported")
        va = self.register(what, "SET_REPORT_SEMAPHORE_A") << 32 | self.register(what, "SET_REPORT_SEMAPHORE_B")
        reduction = fields["REDUCTION_OP"] if fields["REDUCTION_ENABLE"] else None
        write_record(
            self.channel, what, va, self.register(what, "SET_REPORT_SEMAPHORE_C"), fields["STRUCTURE_SIZE"], False,
            reduction, bool(fields["REDUCTION_FORMAT"]),
        )  # fmt: skip
        self.interrupts += fields["AWAKEN_ENABLE"]

    def new_form(self, data: int, fields: dict[str, int]) -> None:
        """REPORT_SEMAPHORE_EXECUTE."""
        what = f"REPORT_SEMAPHORE_EXECUTE = {data:#x}"
        if fields["OPERATION"] != RELEASE:
            raise Refused(GR_EXCEPTION, f"{what}: operation {fields['OPERATION']} is not supported")
        if fields["TRAP_TYPE"]:
            raise Refused(GR_EXCEPTION, f"{what}: trap type {fields['TRAP_TYPE']} is not supported")

        def get(name: str) -> int:
            return self.register(what, f"SET_REPORT_SEMAPHORE_{name}")

        wide = bool(fields["PAYLOAD_SIZE64"])
        payload = get("PAYLOAD_LOWER") | (get("PAYLOAD_UPPER") << 32 if wide else 0)
        va = get("ADDRESS_UPPER") << 32 | get("ADDRESS_LOWER")
        reduction = fields["REDUCTION_OP"] if fields["REDUCTION_ENABLE"] else None
        write_record(
            self.channel, what, va, payload, fields["STRUCTURE_SIZE"], wide, reduction, bool(fields["REDUCTION_FORMAT"])
        )
        self.interrupts += fields["AWAKEN_ENABLE"]
