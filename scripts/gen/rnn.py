"""Read a register database in the rules-ng XML dialect, and resolve it for one chip generation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gen.clang import GeneratorError

_NAMESPACE = "{http://nouveau.freedesktop.org/}"
CHIPS = "chip"  # the enum of generations, and the name of the variant set that means them

# Types of a value that are neither an enum nor a bitset.
PLAIN_TYPES = {"a3xx_regid", "boolean", "uint", "hex", "int", "fixed", "ufixed", "float", "address", "waddress"}

# Element -> its attributes. What is not listed here is refused, so nothing is passed over unread.
_PLACE = {"varset", "variants"}
_BITS = {"name", "low", "high", "pos", "shr", "type", "radix", "addvariant"} | _PLACE
_REGISTER = (_BITS | {"offset", "align", "usage", "stride", "length"}) - {"addvariant"}
_KNOWN = {
    "import": {"file"},
    "domain": {"name", "width", "prefix"} | _PLACE,
    "stripe": {"prefix"} | _PLACE,
    "array": {"name", "offset", "offsets", "doffsets", "index", "stride", "length", "usage"} | _PLACE,
    "reg32": _REGISTER,
    "reg64": _REGISTER,
    "bitset": {"name", "inline", "varset"},
    "bitfield": _BITS,
    "enum": {"name", "bare", "varset"},
    "value": {"name", "value"} | _PLACE,
}
_TEXT = {"doc", "brief", "copyright"}


@dataclass(frozen=True)
class Field:
    """Bits msb..lsb hold the value >> shr. `name` is empty where the register is the field."""

    name: str
    msb: int
    lsb: int
    shr: int
    type: str  # "" where the database says none; fixed-point types carry their number of fraction bits: fixed.8
    when: tuple[str, ...] = ()  # values of another field under which this one counts; () is always


@dataclass(frozen=True)
class Register:
    name: str
    offset: int
    bits: int
    fields: tuple[Field, ...]
    prefix: str  # what its name begins with in the vendor's headers
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Array:
    """`length` groups of registers, `stride` dwords apart. Offsets of the registers count from their group."""

    name: str
    offset: int
    stride: int
    length: int
    registers: tuple[Register, ...]
    prefix: str


@dataclass
class Domain:
    registers: list[Register] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)


@dataclass(frozen=True)
class _Placed:
    """A definition, and the variant set that holds where it stands."""

    element: ET.Element
    varset: str


class Database:
    """One file and all that it imports: enums, bitsets and domains by name."""

    def __init__(self, root: Path, file: str) -> None:
        self.root = root
        self.read: dict[str, bytes] = {}  # path below root -> content
        self.enums: dict[str, _Placed] = {}
        self.bitsets: dict[str, _Placed] = {}
        self.domains: dict[str, _Placed] = {}
        self._load(file)

    def _load(self, file: str) -> None:
        if file in self.read:
            return
        try:
            self.read[file] = (self.root / file).read_bytes()
            top = ET.fromstring(self.read[file])
        except (OSError, ET.ParseError) as error:
            raise GeneratorError(f"{self.root / file}: {error}") from error
        self._collect(top, "")

    def _collect(self, parent: ET.Element, varset: str) -> None:
        """Note every definition below `parent`; enums and bitsets may stand inside domains."""
        tables = {"enum": self.enums, "bitset": self.bitsets, "domain": self.domains}
        for child in children(parent):
            kind = tag(child)
            if kind == "import":
                self._load(child.attrib["file"])
                continue
            inner = child.get("varset", varset)
            if kind in tables:
                name = child.attrib["name"]
                if name in tables[kind]:
                    raise GeneratorError(f"{kind} {name} is defined twice")
                tables[kind][name] = _Placed(child, inner)
            if kind not in ("enum", "bitset"):
                self._collect(child, inner)

    def chips(self) -> dict[str, int]:
        return {child.attrib["name"]: int(child.attrib["value"], 0) for child in children(self.enums[CHIPS].element)}


def tag(element: ET.Element) -> str:
    return element.tag.removeprefix(_NAMESPACE)


def children(parent: ET.Element) -> Iterator[ET.Element]:
    """The elements below `parent` that say something; each is checked for being known."""
    for child in parent:
        kind = tag(child)
        if kind in _TEXT:
            continue
        unknown = set(child.attrib) - _KNOWN.get(kind, set())
        if kind not in _KNOWN or unknown:
            raise GeneratorError(f"unknown in {dict(parent.attrib)}: <{kind}> {' '.join(sorted(unknown))}".rstrip())
        yield child


def number(element: ET.Element, name: str, default: int | None = None) -> int:
    text = element.get(name)
    if text is None:
        if default is None:
            raise GeneratorError(f"<{tag(element)} {element.get('name')}> has no {name}")
        return default
    try:
        return int(text, 0)
    except ValueError:
        raise GeneratorError(f"<{tag(element)} {element.get('name')}>: {name} is {text!r}") from None


class View:
    """A database as one chip generation has it."""

    def __init__(self, database: Database, chip: str) -> None:
        self.database = database
        self.chips = database.chips()
        self.chip = chip
        if chip not in self.chips:
            raise GeneratorError(f"{chip} is none of {', '.join(self.chips)}")

    def applies(self, element: ET.Element, varset: str) -> tuple[str, ...] | None:
        """None where the element is not of this chip, else the values of another field under which it counts."""
        variants = element.get("variants")
        if variants is None:
            return ()
        if not varset:
            raise GeneratorError(f"<{tag(element)} {element.get('name')}>: variants {variants} of no set")
        if varset == CHIPS:
            return () if any(self._inside(part) for part in variants.split(",")) else None
        known = self._names(varset)
        wanted = tuple(variants.split(","))
        if set(wanted) - set(known):
            raise GeneratorError(f"<{tag(element)} {element.get('name')}>: {variants} is not of {varset}")
        return wanted if set(wanted) & set(self.enum(varset)) else None

    def _inside(self, part: str) -> bool:
        """Whether this chip is in `A6XX`, `A6XX-` or `A4XX-A6XX`."""
        first, dash, last = part.partition("-")
        if first not in self.chips or (last and last not in self.chips):
            raise GeneratorError(f"variants {part}: no such chip")
        low = self.chips[first]
        high = max(self.chips.values()) if dash and not last else self.chips[last or first]
        return low <= self.chips[self.chip] <= high

    def _names(self, enum: str) -> list[str]:
        if enum not in self.database.enums:
            raise GeneratorError(f"no enum {enum}")
        return [child.attrib["name"] for child in children(self.database.enums[enum].element)]

    def enum(self, name: str) -> dict[str, int]:
        """Names and values; a value that is not given follows the one before it."""
        self._names(name)
        placed = self.database.enums[name]
        values: dict[str, int] = {}
        following = 0
        for child in children(placed.element):
            value = number(child, "value", following)
            following = value + 1
            if self.applies(child, child.get("varset", placed.varset)) is None:
                continue
            if values.setdefault(child.attrib["name"], value) != value:
                raise GeneratorError(f"{name}.{child.attrib['name']} has two values for {self.chip}")
        return values

    def domain(self, name: str) -> Domain | None:
        """Registers and arrays of a domain; None where this chip does not have it."""
        if name not in self.database.domains:
            raise GeneratorError(f"no domain {name}")
        placed = self.database.domains[name]
        if self.applies(placed.element, placed.varset) is None:
            return None
        found = Domain()
        self._fill(found, placed.element, placed.varset, name, ())
        return found

    def _fill(self, found: Domain, parent: ET.Element, varset: str, prefix: str, when: tuple[str, ...]) -> None:
        for child in children(parent):
            kind = tag(child)
            if kind in ("enum", "bitset"):
                continue
            inner = child.get("varset", varset)
            condition = self.applies(child, inner)
            if condition is None:
                continue
            if condition and when:
                raise GeneratorError(f"<{kind} {child.get('name')}>: a condition inside a condition")
            if kind == "stripe":
                self._fill(found, child, inner, prefix, condition or when)
            elif kind == "array":
                found.arrays.append(self._array(child, inner, prefix))
            else:
                found.registers.append(self._register(child, inner, prefix, condition or when))

    def _array(self, element: ET.Element, varset: str, prefix: str) -> Array:
        name = element.get("name", "")
        inner = Domain()
        self._fill(inner, element, varset, prefix, ())
        if inner.arrays or element.get("offset") is None:
            return Array(name, -1, -1, -1, (), prefix)  # arrays in arrays and lists of offsets: named, not resolved
        at, stride, length = (number(element, key) for key in ("offset", "stride", "length"))
        return Array(name, at, stride, length, tuple(inner.registers), self._prefix(element, varset, prefix))

    def _prefix(self, element: ET.Element, varset: str, prefix: str) -> str:
        """Vendor headers call what only some chips have by the first of them."""
        variants = element.get("variants")
        return variants.split(",")[0].split("-")[0] if variants and varset == CHIPS else prefix

    def _register(self, element: ET.Element, varset: str, prefix: str, when: tuple[str, ...]) -> Register:
        name, bits = element.attrib["name"], int(tag(element).removeprefix("reg"))
        kind = element.get("type", "")
        fields = self._fields(element, varset, bits)
        if kind in self.database.bitsets:
            placed = self.database.bitsets[kind]
            fields = self._fields(placed.element, placed.varset or varset, bits) + fields
        elif kind and fields:
            raise GeneratorError(f"{name} is of type {kind} and has fields")
        elif not any(tag(child) == "bitfield" for child in children(element)):
            fields = (self._field(element, bits, "", ()),)
        if len({entry.name for entry in fields}) != len(fields):
            raise GeneratorError(f"{name} has a field twice")
        return Register(name, number(element, "offset"), bits, fields, self._prefix(element, varset, prefix), when)

    def _fields(self, parent: ET.Element, varset: str, bits: int) -> tuple[Field, ...]:
        found: dict[str, Field] = {}
        for child in children(parent):
            if tag(child) != "bitfield":
                continue
            condition = self.applies(child, child.get("varset", varset))
            if condition is None:
                continue
            entry = self._field(child, bits, child.attrib["name"], condition)
            if entry.name in found:
                raise GeneratorError(f"{parent.get('name')}.{entry.name} is there twice for {self.chip}")
            found[entry.name] = entry
        return tuple(found.values())

    def _field(self, element: ET.Element, bits: int, name: str, when: tuple[str, ...]) -> Field:
        where = f"<{tag(element)} {element.get('name')}>"
        pos = number(element, "pos", -1)
        lsb = pos if pos >= 0 else number(element, "low", 0)
        msb = pos if pos >= 0 else number(element, "high", bits - 1)
        shr = number(element, "shr", 0)
        kind = element.get("type", "")
        if not 0 <= lsb <= msb < bits or shr < 0:
            raise GeneratorError(f"{where}: bits {msb}..{lsb} of {bits}, shifted by {shr}")
        if kind and kind not in PLAIN_TYPES and kind not in self.database.enums:
            raise GeneratorError(f"{where}: unknown type {kind}")
        if kind == "boolean" and msb != lsb:
            raise GeneratorError(f"{where}: a boolean of {msb - lsb + 1} bits")
        if kind in ("fixed", "ufixed"):
            kind += f".{number(element, 'radix')}"
        return Field(name, msb, lsb, shr, kind, when)
