"""Fields of a word that are no operands: flags, numbers, enums. Each reads, writes, prints and parses itself."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .model import Ir3Error, Value
from .names import WRITE_MASKS

UNSET = -1  # "there is no such bit"
Pieces = tuple[tuple[int, int], ...]  # (lsb, width) of each piece, low bits first


def bits(word: int, lsb: int, width: int) -> int:
    return word >> lsb & ((1 << width) - 1)


def ones(lsb: int, width: int = 1) -> int:
    return 0 if lsb == UNSET else ((1 << width) - 1) << lsb


def put(what: str, value: int, lsb: int, width: int) -> int:
    if not 0 <= value < 1 << width:
        raise Ir3Error(f"{what} = {value:#x} does not fit bits {lsb + width - 1}:{lsb}")
    return value << lsb


def sign_extend(value: int, width: int) -> int:
    return value - (value >> (width - 1) << width)


def unsign(what: str, value: int, width: int) -> int:
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise Ir3Error(f"{what} = {value} does not fit {width} signed bits")
    return value & ((1 << width) - 1)


def parse_integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError as bad:
        raise Ir3Error(f"{text!r} is no number") from bad


@dataclass(frozen=True)
class Mod(ABC):
    """Base: `name` in Instruction.mods, and where its bits lie."""

    name: str
    pieces: Pieces

    @property
    def mask(self) -> int:
        return sum(ones(lsb, width) for lsb, width in self.pieces)

    @property
    def width(self) -> int:
        return sum(width for _, width in self.pieces)

    def read(self, word: int) -> int:
        code, shift = 0, 0
        for lsb, width in self.pieces:
            code |= bits(word, lsb, width) << shift
            shift += width
        return code

    def write(self, code: int) -> int:
        if not 0 <= code < 1 << self.width:
            raise Ir3Error(f"{self.name} = {code} does not fit {self.width} bits")
        word = 0
        for lsb, width in self.pieces:
            word |= bits(code, 0, width) << lsb
            code >>= width
        return word

    @abstractmethod
    def decode(self, word: int) -> Value: ...

    @abstractmethod
    def encode(self, value: Value) -> int: ...

    @abstractmethod
    def text(self, value: Value) -> str: ...

    def exact_text(self, value: Value) -> str:
        """Like `text`, but shows what the usual text leaves out though the word differs."""
        return self.text(value)

    @property
    @abstractmethod
    def pattern(self) -> str:
        """Regular expression of everything `text` can print, and what else may be written."""

    @abstractmethod
    def parse(self, text: str) -> Value: ...

    def wrong(self, value: object) -> Ir3Error:
        return Ir3Error(f"{self.name} = {value!r} is not possible here")


@dataclass(frozen=True)
class Flag(Mod):
    shown: str = ""
    inverted: bool = False  # the text shows it when the bit is clear, and that is what True means
    only: bool | None = None  # the one value that this row allows

    def decode(self, word: int) -> bool:
        value = bool(self.read(word)) != self.inverted
        if self.only is not None and value != self.only:
            raise self.wrong(value)
        return value

    def encode(self, value: Value) -> int:
        if not isinstance(value, bool) or (self.only is not None and value != self.only):
            raise self.wrong(value)
        return self.write(int(value != self.inverted))

    def text(self, value: Value) -> str:
        return self.shown if value else ""

    @property
    def pattern(self) -> str:
        return f"(?:{re.escape(self.shown)})?"

    def parse(self, text: str) -> bool:
        return bool(text)


@dataclass(frozen=True)
class Number(Mod):
    """An integer; value = code + plus, `signed` codes are two's complement.

    `style`: plain, offset (`+5`, `-5`, nothing for 0), power (value = 2 << code). `optional`: another row lacks it.
    """

    signed: bool = False
    plus: int = 0
    style: str = "plain"
    only: int | None = None
    optional: bool = False

    def decode(self, word: int) -> int:
        code = self.read(word)
        if self.style == "power":
            return 2 << code
        value = (sign_extend(code, self.width) if self.signed else code) + self.plus
        self.check(value)
        return value

    def check(self, value: int) -> None:
        if self.only is not None and value != self.only:
            raise self.wrong(value)

    def encode(self, value: Value) -> int:
        if isinstance(value, (bool, str)):
            raise self.wrong(value)
        self.check(value)
        if self.style == "power":
            code = value.bit_length() - 2
            if code < 0 or 2 << code != value:
                raise self.wrong(value)
            return self.write(code)
        value -= self.plus
        return self.write(unsign(self.name, value, self.width) if self.signed else value)

    def text(self, value: Value) -> str:
        if self.style == "offset":
            return f"{value:+d}" if value else ""
        return str(value)

    def exact_text(self, value: Value) -> str:
        return f"{value:+d}" if self.optional else self.text(value)

    @property
    def pattern(self) -> str:
        return r"(?:\s*[+-]\s*\w+)?" if self.style == "offset" else r"-?\w+"

    def parse(self, text: str) -> int:
        text = re.sub(r"\s", "", text)
        return parse_integer(text) if text else 0


@dataclass(frozen=True)
class Words(Number):
    """Wave size in lanes: value = (code + 1) * 32."""

    def decode(self, word: int) -> int:
        return (self.read(word) + 1) * 32

    def encode(self, value: Value) -> int:
        if isinstance(value, (bool, str)) or value % 32:
            raise self.wrong(value)
        return self.write(value // 32 - 1)


@dataclass(frozen=True)
class WriteMask(Mod):
    """One bit a component, x lowest."""

    def decode(self, word: int) -> int:
        return self.read(word)

    def encode(self, value: Value) -> int:
        if isinstance(value, (bool, str)):
            raise self.wrong(value)
        return self.write(value)

    def text(self, value: Value) -> str:
        return WRITE_MASKS[int(value)]

    @property
    def pattern(self) -> str:
        return "[xyzw]*"

    def parse(self, text: str) -> int:
        if text not in WRITE_MASKS:
            raise self.wrong(text)
        return WRITE_MASKS.index(text)


@dataclass(frozen=True)
class Enum(Mod):
    names: Mapping[int, str] = field(default_factory=dict)
    frame: str = "{}"  # around a name that is not empty

    @cached_property
    def codes(self) -> dict[str, int]:
        return {name: code for code, name in self.names.items()}

    def decode(self, word: int) -> str:
        code = self.read(word)
        if code not in self.names:
            where = " and ".join(f"{lsb + width - 1}:{lsb}" for lsb, width in self.pieces)
            raise Ir3Error(f"{self.name} = {code} at bits {where} has no meaning")
        return self.names[code]

    def encode(self, value: Value) -> int:
        if not isinstance(value, str) or value not in self.codes:
            raise Ir3Error(f"{self.name} = {value!r}: possible are {', '.join(map(repr, self.codes))}")
        return self.write(self.codes[value])

    def text(self, value: Value) -> str:
        return self.frame.format(str(value).removesuffix("_a1")) if value else ""

    @property
    def pattern(self) -> str:
        texts = sorted((self.text(name) for name in self.codes), key=len, reverse=True)
        return f"(?:{'|'.join(map(re.escape, texts))})"

    def parse(self, text: str) -> str:
        for name in self.codes:
            if self.text(name) == text:
                return name
        raise self.wrong(text)
