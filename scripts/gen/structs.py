"""C records as ctypes: ctypeslib2 makes the classes, libclang's own layout checks them, a printer writes them."""

from __future__ import annotations

import ctypes
import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gen.clang import Clang, GeneratorError

# (dotted path, byte offset, byte size) or (dotted path, bit offset, bit width, "bits")
Leaf = tuple[Any, ...]


def layout_of_cursor(clang: Clang, ctype: Any, prefix: str = "", base_bits: int = 0) -> Iterator[Leaf]:
    """Every member of a record, nested ones too, as libclang lays it out."""
    kinds = clang.cindex.TypeKind
    for field in ctype.get_canonical().get_fields():
        offset = base_bits + field.get_field_offsetof()
        name = prefix + field.spelling
        if field.is_bitfield():
            yield (name, offset, field.get_bitfield_width(), "bits")
            continue
        named = field.spelling.isidentifier()  # libclang describes a member without a name in words
        if named:
            yield (name, offset // 8, field.type.get_size())
        inner = field.type.get_canonical()
        if inner.kind == kinds.RECORD:
            yield from layout_of_cursor(clang, inner, f"{name}." if named else prefix, offset)


def layout_of_class(cls: Any, prefix: str = "", base: int = 0) -> Iterator[Leaf]:
    """As layout_of_cursor, of a ctypes class made by ctypeslib2 (its padding members are left out)."""
    anonymous = getattr(cls, "_anonymous_", ())
    for entry in cls._fields_:
        name, member = entry[0], entry[1]
        descriptor = getattr(cls, name)
        if name.startswith("PADDING_"):
            continue
        if len(entry) == 3:
            yield (prefix + name, base * 8 + descriptor.offset * 8 + (descriptor.size & 0xFFFF), entry[2], "bits")
            continue
        hidden = name in anonymous
        if not hidden:
            yield (prefix + name, base + descriptor.offset, ctypes.sizeof(member))
        if issubclass(member, ctypes.Structure | ctypes.Union):
            yield from layout_of_class(member, prefix if hidden else f"{prefix}{name}.", base + descriptor.offset)


def ctypes_of(clang: Clang, text: str, names: Sequence[str]) -> dict[str, Any]:
    """The ctypes classes of `names` (typedefs in the C text), made by ctypeslib2."""
    from ctypeslib.codegen import config, typedesc
    from ctypeslib.codegen.codegenerator import CodeTranslator

    logging.getLogger("ctypeslib").setLevel(logging.ERROR)
    settings = config.CodegenConfig()
    settings.symbols = list(names)
    settings.types = [typedesc.Structure, typedesc.Union, typedesc.Typedef, typedesc.Enumeration, typedesc.Alias]
    settings.clang_opts = list(clang.args)
    settings.local_platform_triple = "x86_64-linux-gnu"
    translator = CodeTranslator(settings)
    source = clang.scratch / "records.c"  # a file: ctypeslib2 drops the compiler options for text in memory
    source.write_text(text)
    translator.parse_input_file(str(source))
    out = io.StringIO()
    translator.generate_code(out)
    namespace: dict[str, Any] = {}
    exec(compile(out.getvalue(), "<ctypeslib2>", "exec"), namespace)
    missing = [name for name in names if name not in namespace]
    if missing:
        raise GeneratorError(f"ctypeslib2 made no class for {', '.join(missing)}")
    return namespace


def records(clang: Clang, text: str, wanted: Sequence[str]) -> tuple[dict[str, Any], dict[Any, str]]:
    """Curated records that exist in the C text, each checked against libclang.

    Returns: typedef name -> ctypes class, and class -> the name it goes by (curated names first).
    """
    unit = clang.checked(text)
    kinds = clang.cindex.CursorKind
    types = {c.spelling: c.type for c in unit.cursor.get_children() if c.kind == kinds.TYPEDEF_DECL}
    present = [name for name in wanted if name in types]
    namespace = ctypes_of(clang, text, present)
    for name in present:
        check(clang, name, types[name], namespace[name])
    names: dict[Any, str] = {}
    for name in (*present, *types):
        cls = namespace.get(name)
        if isinstance(cls, type) and issubclass(cls, ctypes.Structure | ctypes.Union):
            names.setdefault(cls, name)
    return {name: namespace[name] for name in present}, names


def check(clang: Clang, name: str, ctype: Any, cls: Any) -> None:
    """ctypeslib2's class must agree with libclang on the size and on every member, nested ones too."""
    size, expected = ctype.get_canonical().get_size(), sorted(layout_of_cursor(clang, ctype))
    got = sorted(layout_of_class(cls))
    if ctypes.sizeof(cls) != size or got != expected:
        odd = sorted(set(map(str, expected)) ^ set(map(str, got)))[:4]
        raise GeneratorError(f"{name}: ctypeslib2 says {ctypes.sizeof(cls)} bytes, libclang {size}; {'; '.join(odd)}")


_SCALARS = {
    (1, False): "c_uint8", (2, False): "c_uint16", (4, False): "c_uint32", (8, False): "c_uint64",
    (1, True): "c_int8", (2, True): "c_int16", (4, True): "c_int32", (8, True): "c_int64",
}  # fmt: skip


def scalar_text(cls: Any) -> str:
    """A fixed-width ctypes name. Pointers become 64-bit integers: they are addresses, never followed by Python."""
    if issubclass(cls, ctypes._Pointer | ctypes.CFUNCTYPE(None).__base__) or cls in (ctypes.c_void_p, ctypes.c_char_p):
        return "c_uint64"
    if cls is ctypes.c_char:
        return "c_char"
    if cls is ctypes.c_bool:
        return "c_bool"
    if not issubclass(cls, ctypes._SimpleCData) or cls._type_ in "fdg":
        raise GeneratorError(f"no fixed-width name for {cls!r}")
    return _SCALARS[ctypes.sizeof(cls), cls(-1).value < 0]


@dataclass(frozen=True)
class Field:
    """One printed member; `type` is the text of its ctypes type."""

    name: str
    type: str
    offset: int
    size: int
    align: int


@dataclass
class Record:
    """One printed class."""

    name: str
    kind: str
    size: int
    fields: tuple[Field, ...]
    uses: tuple[str, ...]  # the records that its members are made of
    anonymous: tuple[str, ...] = ()

    @property
    def align(self) -> int:
        """Natural alignment of the printed class."""
        return max(field.align for field in self.fields)

    @property
    def body(self) -> str:
        """The text without the class line, so equal layouts compare equal; holes are spelled out."""
        lines, end, padding, union = [], 0, 0, self.kind == "Union"
        for field in self.fields:
            if not union and field.offset != -(-end // field.align) * field.align:
                lines.append(f'("_pad{padding}", c_uint8 * {field.offset - end}),')
                padding += 1
            lines.append(f'("{field.name}", {field.type}),')
            end = max(end, field.size) if union else field.offset + field.size
        if self.size != -(-end // self.align) * self.align:
            if union:
                raise GeneratorError(f"{self.name}: a union with {self.size} bytes is wider than its widest member")
            lines.append(f'("_pad{padding}", c_uint8 * {self.size - end}),')
        body = f"    _anonymous_ = {self.anonymous!r}\n" if self.anonymous else ""
        return body + "    _fields_ = (\n" + "".join(f"        {line}\n" for line in lines) + "    )\n"


class Printer:
    """Turns ctypes classes into class statements; nested records first."""

    def __init__(self, names: dict[Any, str]) -> None:
        self.names = dict(names)  # class -> name of the typedef
        self.done: dict[str, Record] = {}

    def add(self, cls: Any, name: str) -> str:
        name = self.names.setdefault(cls, name)
        if name not in self.done:
            self.done[name] = self._record(cls, name)
        return name

    def _record(self, cls: Any, name: str) -> Record:
        fields, uses = [], []
        for entry in cls._fields_:
            field, member = entry[0], entry[1]
            if field.startswith("PADDING_"):
                continue
            if len(entry) == 3:
                raise GeneratorError(f"{name}.{field} is a bit field: not printed yet")
            text, natural, used = self._member(member, f"{name}_{field.strip('_')}")
            uses += used
            fields.append(Field(field, text, getattr(cls, field).offset, ctypes.sizeof(member), natural))
        kind = "Union" if issubclass(cls, ctypes.Union) else "Structure"
        anonymous = tuple(getattr(cls, "_anonymous_", ()))
        return Record(name, kind, ctypes.sizeof(cls), tuple(fields), tuple(uses), anonymous)

    def _member(self, cls: Any, name: str) -> tuple[str, int, list[str]]:
        """Text of a member's type, the alignment ctypes will give it, and the records it uses."""
        if issubclass(cls, ctypes.Array):
            text, natural, uses = self._member(cls._type_, name)
            return f"{text} * {cls._length_}", natural, uses
        if issubclass(cls, ctypes.Structure | ctypes.Union):
            used = self.add(cls, name)
            return used, self.done[used].align, [used]
        return scalar_text(cls), ctypes.sizeof(cls), []
