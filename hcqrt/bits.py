"""Bit fields as headers write them, msb first: helpers on integers and buffers, and classes with named fields."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, overload

U32_MAX = 0xFFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF

T = TypeVar("T", bound="BitStruct")


def lo32(value: int) -> int:
    """Low 32 bits: one of the two places where hardware splits a value."""
    return value & U32_MAX


def hi32(value: int) -> int:
    """Bits 63:32. Raises ValueError when `value` does not fit 64 bits."""
    if not 0 <= value <= U64_MAX:
        raise ValueError(f"{value:#x} does not fit 64 bits")
    return value >> 32


def is_pow2(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def align_up(value: int, alignment: int) -> int:
    if alignment <= 0:
        raise ValueError(f"alignment {alignment} is not positive")
    return -(-value // alignment) * alignment


def align_down(value: int, alignment: int) -> int:
    if alignment <= 0:
        raise ValueError(f"alignment {alignment} is not positive")
    return value // alignment * alignment


def check_field(name: str, value: int, msb: int, lsb: int) -> int:
    """Return `value`, or raise ValueError when it does not fit bits msb:lsb."""
    if not 0 <= value < 1 << (msb - lsb + 1):
        raise ValueError(f"{name} = {value:#x} does not fit bits {msb}:{lsb} ({msb - lsb + 1} bits)")
    return value


def get_bits(buf: bytes | bytearray | memoryview, msb: int, lsb: int) -> int:
    """Bits msb:lsb of a little-endian structure (bit b is bit b & 7 of byte b >> 3)."""
    first, last = lsb >> 3, msb >> 3
    whole = int.from_bytes(bytes(buf[first : last + 1]), "little")
    return (whole >> (lsb & 7)) & ((1 << (msb - lsb + 1)) - 1)


def set_bits(buf: bytearray | memoryview, msb: int, lsb: int, value: int, name: str = "field") -> None:
    """Replace bits msb:lsb of a little-endian structure; a too-wide value raises ValueError and writes nothing."""
    check_field(name, value, msb, lsb)
    first, last = lsb >> 3, msb >> 3
    nbytes = last - first + 1
    whole = int.from_bytes(bytes(buf[first : last + 1]), "little")
    mask = ((1 << (msb - lsb + 1)) - 1) << (lsb & 7)
    whole = whole & ~mask | value << (lsb & 7)
    buf[first : last + 1] = whole.to_bytes(nbytes, "little")


class Field:
    """Descriptor of one field of a `BitStruct`: bits msb:lsb (one bit when only `msb` is given)."""

    def __init__(self, msb: int, lsb: int | None = None) -> None:
        self.msb = msb
        self.lsb = msb if lsb is None else lsb
        if self.lsb > self.msb or self.lsb < 0:
            raise ValueError(f"field {self.msb}:{self.lsb} is not msb:lsb")
        self.mask = ((1 << (self.msb - self.lsb + 1)) - 1) << self.lsb
        self.name = "field"

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Field: ...
    @overload
    def __get__(self, instance: BitStruct, owner: type) -> int: ...
    def __get__(self, instance: BitStruct | None, owner: type) -> Field | int:
        if instance is None:
            return self
        return (instance.value & self.mask) >> self.lsb

    def __set__(self, instance: BitStruct, value: int) -> None:
        check_field(f"{type(instance).__name__}.{self.name}", value, self.msb, self.lsb)
        instance.value = instance.value & ~self.mask | value << self.lsb


class BitStruct:
    """A value made of named fields: `int(X(a=1, b=2))`. Unknown names, too-wide values and unknown bits raise."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    __slots__ = ("value",)
    value: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.FIELDS = {**cls.FIELDS, **{k: v for k, v in vars(cls).items() if isinstance(v, Field)}}

    def __init__(self, **fields: int) -> None:
        self.value = 0
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise TypeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self.FIELDS)}")
            setattr(self, name, value)

    @classmethod
    def from_int(cls: type[T], value: int) -> T:
        """Decode; raises ValueError when a bit outside every field is set."""
        known = 0
        for field in cls.FIELDS.values():
            known |= field.mask
        if value & ~known or value < 0:
            raise ValueError(f"{cls.__name__} {value:#x}: bits {value & ~known:#x} belong to no field")
        new = cls()
        new.value = value
        return new

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, BitStruct) and other.value == self.value

    def __hash__(self) -> int:
        return hash((type(self), self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={getattr(self, k):#x}' for k in self.FIELDS)})"


class Reg(BitStruct):
    """A hardware register: its offset lives with its fields, so an address and a value can't be paired wrongly."""

    OFFSET: ClassVar[int]
    __slots__ = ()


def place(bits: tuple[int, int], value: int, name: str = "field") -> int:
    """`value` moved to a header's `(msb, lsb)` range. Raises ValueError when it is too wide."""
    msb, lsb = bits
    return check_field(name, value, msb, lsb) << lsb
