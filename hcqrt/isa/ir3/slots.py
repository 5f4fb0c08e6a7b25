"""Where an operand lives in the 64-bit word: registers, predicates, targets. Slots read, write, print and parse."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .fields import UNSET, bits, ones, parse_integer, put, sign_extend, unsign
from .model import (
    A0_X,
    COMPONENTS,
    FIRST_PREDICATE,
    Ir3Error,
    Operand,
    Pred,
    Reg,
    Target,
    Value,
)
from .names import HALF_MOVE_TYPES, HALF_TYPES

REGISTER = re.compile(r"(h?)(r\d+|a0|p0|a1)\.([xyzw])$")
REGISTER_LIKE = r"h?[rap]\d+\.[xyzw]"


def _no_labels(name: str) -> int:
    raise Ir3Error(f"{name!r} is no branch target")


@dataclass
class Context:
    """What slots may depend on: the other fields, and whether sources and destination are 16 bits wide."""

    mods: Mapping[str, Value] = field(default_factory=dict)
    src_half: bool = False
    dst_half: bool = False
    resolve: Callable[[str], int] = _no_labels  # label -> distance in instructions
    exact: bool = False  # print floats so that no bit is lost

    def is_half(self, rule: str) -> bool:
        """`rule`: empty (never), src, dst, yes, or the name of the field that holds the type."""
        if rule in ("", "yes"):
            return rule == "yes"
        if rule in ("src", "dst"):
            return self.src_half if rule == "src" else self.dst_half
        return self.mods[rule] in (HALF_TYPES if rule == "type" else HALF_MOVE_TYPES)


def register_text(number: int) -> str:
    file = {A0_X >> 2: "a0", FIRST_PREDICATE >> 2: "p0"}.get(number >> 2, f"r{number >> 2}")
    return f"{file}.{COMPONENTS[number & 3]}"


def parse_register(text: str) -> tuple[int, bool]:
    """Number and halfness of `hr1.x`."""
    match = REGISTER.match(text)
    if match is None:
        raise Ir3Error(f"{text!r} is no register")
    files = {"a0": A0_X >> 2, "p0": FIRST_PREDICATE >> 2}
    if match[2] == "a1":
        if match[3] != "x":
            raise Ir3Error(f"{text!r}: a1 has one component, x")
        return A0_X + 1, bool(match[1])
    vec = files[match[2]] if match[2] in files else int(match[2][1:])
    if vec > 63:
        raise Ir3Error(f"{text}: no such register")
    return vec * 4 + COMPONENTS.index(match[3]), bool(match[1])


@dataclass(frozen=True)
class Slot(ABC):
    """Base: `name` in Instruction.args, lowest bit, and the rule for its width (Context.is_half)."""

    name: str
    lsb: int
    half: str = ""

    @property
    @abstractmethod
    def mask(self) -> int: ...

    @abstractmethod
    def decode(self, word: int, context: Context) -> Operand: ...

    @abstractmethod
    def encode(self, operand: Operand, context: Context) -> int: ...

    @abstractmethod
    def text(self, operand: Operand, context: Context) -> str: ...

    @property
    @abstractmethod
    def pattern(self) -> str:
        """Regular expression of everything `text` can print, and what else may be written."""

    @abstractmethod
    def parse(self, text: str, context: Context) -> Operand: ...

    def wrong(self, operand: object) -> Ir3Error:
        return Ir3Error(f"operand {self.name}: {operand!r} does not fit here")


@dataclass(frozen=True)
class RegSlot(Slot):
    """A general register. `hidden`: the text leaves the h out; `plain`: it also prints a0 and p0 by number."""

    hidden: bool = False
    plain: bool = False

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8)

    def is_half(self, number: int, context: Context) -> bool:
        return context.is_half(self.half) and not (self.half == "dst" and number >= FIRST_PREDICATE)

    def decode(self, word: int, context: Context) -> Reg:
        number = bits(word, self.lsb, 8)
        return Reg(number, self.is_half(number, context))

    def encode(self, operand: Operand, context: Context) -> int:
        if not isinstance(operand, Reg) or operand != Reg(operand.number, self.is_half(operand.number, context)):
            raise self.wrong(operand)
        return put(self.name, operand.number, self.lsb, 8)

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, Reg)
        if self.plain:
            return f"r{operand.number >> 2}.{COMPONENTS[operand.number & 3]}"
        return ("h" if operand.half and not self.hidden else "") + register_text(operand.number)

    @property
    def pattern(self) -> str:
        return REGISTER_LIKE

    def parse(self, text: str, context: Context) -> Operand:
        number, half = parse_register(text)
        if self.half in ("src", "dst"):
            return Reg(number, half)
        if (half and self.plain) or (half != context.is_half(self.half) and (half or not self.hidden)):
            raise Ir3Error(f"operand {self.name}: {text} has the wrong width")
        return Reg(number, context.is_half(self.half))


@dataclass(frozen=True)
class FixedReg(Slot):
    """A destination with one legal value, printed by its name of its own."""

    number: int = A0_X
    shown: str = "a0.x"

    @property
    def mask(self) -> int:
        return ones(self.lsb, 8)

    def decode(self, word: int, context: Context) -> Reg:
        if bits(word, self.lsb, 8) != self.number:
            raise Ir3Error(f"destination {register_text(bits(word, self.lsb, 8))} is not {self.shown}")
        return Reg(self.number, context.is_half(self.half))

    def encode(self, operand: Operand, context: Context) -> int:
        if operand != Reg(self.number, context.is_half(self.half)):
            raise self.wrong(operand)
        return self.number << self.lsb

    def text(self, operand: Operand, context: Context) -> str:
        return self.shown

    @property
    def pattern(self) -> str:
        return re.escape(self.shown)

    def parse(self, text: str, context: Context) -> Reg:
        if text != self.shown:
            raise Ir3Error(f"{text!r} is not {self.shown}")
        return Reg(self.number, context.is_half(self.half))


@dataclass(frozen=True)
class PredSlot(Slot):
    """Component of p0 at `lsb`, inverted by bit `inv_bit`."""

    inv_bit: int = UNSET

    @property
    def mask(self) -> int:
        return ones(self.lsb, 2) | ones(self.inv_bit)

    def decode(self, word: int, context: Context) -> Pred:
        return Pred(bits(word, self.lsb, 2), bool(bits(word, self.inv_bit, 1)))

    def encode(self, operand: Operand, context: Context) -> int:
        if not isinstance(operand, Pred):
            raise self.wrong(operand)
        return put(self.name, operand.component, self.lsb, 2) | put(self.name, int(operand.inv), self.inv_bit, 1)

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, Pred)
        return f"{'!' if operand.inv else ''}p0.{COMPONENTS[operand.component]}"

    @property
    def pattern(self) -> str:
        return r"!?p0\.[xyzw]"

    def parse(self, text: str, context: Context) -> Pred:
        match = re.match(r"(!?)p0\.([xyzw])$", text)
        if match is None:
            raise Ir3Error(f"{text!r} is no predicate")
        return Pred(COMPONENTS.index(match[2]), bool(match[1]))


@dataclass(frozen=True)
class TargetSlot(Slot):
    """32 signed bits, in instructions. Text: `#5` is relative, a name is a label."""

    @property
    def mask(self) -> int:
        return ones(self.lsb, 32)

    def decode(self, word: int, context: Context) -> Target:
        return Target(sign_extend(bits(word, self.lsb, 32), 32))

    def encode(self, operand: Operand, context: Context) -> int:
        if not isinstance(operand, Target):
            raise self.wrong(operand)
        return unsign(self.name, operand.relative, 32) << self.lsb

    def text(self, operand: Operand, context: Context) -> str:
        assert isinstance(operand, Target)
        return f"#{operand.relative}"

    @property
    def pattern(self) -> str:
        return r"#?[+-]?[\w.$]+"

    def parse(self, text: str, context: Context) -> Target:
        name = text.removeprefix("#")
        if text.startswith("#") and re.match(r"[+-]?\d", name):
            return Target(parse_integer(name))
        return Target(context.resolve(name))
