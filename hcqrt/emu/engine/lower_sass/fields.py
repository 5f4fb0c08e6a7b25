"""The fields of one SASS instruction, each handed out once: whatever no handler took is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ....isa.sass import Instruction
from ....isa.sass.model import Operand, Value
from ...refusal import EmulatorRefusal

T = TypeVar("T")


class LoweringError(EmulatorRefusal):
    """The engine has no meaning for this instruction or for one of its fields."""


class Fields:
    """Modifiers and operands of `instruction` at byte offset `pc` of the program.

    A handler takes what it implements; `finish` refuses the rest, also where it holds its default. So a field that a
    decoder row gains later, or that a handler forgot, stops the program instead of being ignored.
    """

    def __init__(self, instruction: Instruction, pc: int) -> None:
        self.instruction = instruction
        self.pc = pc
        self._mods: dict[str, Value] = dict(instruction.mods)
        self._args: dict[str, Operand] = dict(instruction.args)

    def refuse(self, what: str) -> LoweringError:
        i = self.instruction
        return LoweringError(f"sm_{i.sm} instruction {i.mnemonic} (opcode {i.opcode:#05x}) at pc {self.pc:#x}: {what}")

    def mod(self, name: str, meanings: Mapping[Any, T], absent: Value | None = None) -> T:
        """Take an enumeration. `meanings`: every value that is implemented; `absent`: that of a row without it."""
        if name not in self._mods and absent is None:
            raise self.refuse(f"has no modifier {name!r}")
        value = self._mods.pop(name, absent)
        if value not in meanings:
            raise self.refuse(f"modifier {name} = {value!r} is not implemented")
        return meanings[value]

    def flag(self, name: str) -> bool:
        """Take a flag; a row without the field never has it set."""
        value = self._mods.pop(name, False)
        if not isinstance(value, bool):
            raise self.refuse(f"modifier {name!r} is {value!r}, not a flag")
        return value

    def unset(self, *names: str) -> None:
        """Take flags that are only implemented when they are clear."""
        for name in names:
            if self.flag(name):
                raise self.refuse(f"modifier {name} = True is not implemented")

    def no_effect(self, *names: str) -> None:
        """Take modifiers that steer caches, ordering or timing: one thread sees the same values whatever they hold."""
        for name in names:
            self._mods.pop(name, None)

    def arg(self, name: str) -> Operand:
        if name not in self._args:
            raise self.refuse(f"has no operand {name!r}")
        return self._args.pop(name)

    def optional(self, name: str) -> Operand | None:
        return self._args.pop(name, None)

    def finish(self) -> None:
        for name, value in self._mods.items():
            raise self.refuse(f"modifier {name} = {value!r} is not consumed")
        for name, operand in self._args.items():
            raise self.refuse(f"operand {name} = {operand!r} is not consumed")
