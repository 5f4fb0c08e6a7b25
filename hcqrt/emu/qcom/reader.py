"""The registers of one configuration by name and field, and complaints about them."""

from __future__ import annotations

from hcqrt.emu.qcom.chips import EmuChip
from hcqrt.emu.qcom.registers import unpack
from hcqrt.emu.qcom.trouble import Refused


class Reader:
    """The registers of a configuration, by name and field; every complaint names register, offset and value."""

    def __init__(self, values: dict[str, int], chip: EmuChip, lenient: bool) -> None:
        self.values, self.chip, self.lenient = values, chip, lenient
        self.generation = chip.generation

    def fields(self, name: str) -> dict[str, int]:
        return unpack(self.generation.registers[name][1], self.values[name])

    def refuse(self, name: str, text: str) -> Refused:
        return Refused(f"{name} ({self.generation.offsets[name]:#x}) = {self.values[name]:#x}: {text}")

    def zero(self, name: str, *fields: str) -> None:
        found = self.fields(name)
        for field in fields:
            if found[field]:
                raise self.refuse(name, f"{field} = {found[field]:#x} is not modelled")
