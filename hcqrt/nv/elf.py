"""Just enough ELF for cubins: sections, symbols, relocations, every offset checked. Source: elf.h, 64 bits."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hcqrt.errors import BinaryError

HEADER = struct.Struct("<4s5B7x2HI3QI6H")
SECTION = struct.Struct("<2I4Q2I2Q")
SYMBOL = struct.Struct("<I2BH2Q")
REL, RELA = struct.Struct("<2Q"), struct.Struct("<2Qq")

ELFCLASS64, ELFDATA2LSB = 2, 1
SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 3, 4, 8, 9
SHN_UNDEF, SHN_LORESERVE, SHN_ABS = 0, 0xFF00, 0xFFF1
STT_FUNC, STB_LOCAL, STB_WEAK = 2, 0, 2
# Contents and names may share bytes of the file, but not so that a small file takes gigabytes to read
CONTENT_SHARE, NAME_SHARE = 2, 16


@dataclass(frozen=True)
class Section:
    index: int
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    data: bytes  # empty for SHT_NOBITS


@dataclass(frozen=True)
class Symbol:
    index: int
    name: str
    kind: int
    binding: int
    other: int  # the raw st_other byte
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class ElfRelocation:
    target: int  # index of the section that is patched
    offset: int
    kind: int
    symbol: Symbol
    addend: int


def take(data: bytes, offset: int, size: int, what: str) -> bytes:
    """Bytes [offset, offset + size); raises BinaryError when the file ends before."""
    if offset < 0 or size < 0 or offset + size > len(data):
        raise BinaryError(f"damaged file: {what} [{offset:#x}, +{size:#x}) leaves its {len(data):#x} bytes")
    return data[offset : offset + size]


def text_at(table: bytes, offset: int, what: str, longest: int) -> str:
    end = table.find(b"\0", offset, offset + longest + 1) if offset < len(table) else -1
    if end < 0:
        raise BinaryError(f"damaged file: the name of {what} at {offset:#x} leaves its string table")
    return table[offset:end].decode("utf-8", errors="replace")


class Elf:
    """A parsed file: `sections`, `symbols`, and `relocations()`."""

    def __init__(self, data: bytes) -> None:
        self._content_left, self._names_left = CONTENT_SHARE * len(data), NAME_SHARE * len(data)
        fields = HEADER.unpack(take(data, 0, HEADER.size, "the ELF header"))
        _, elf_class, encoding, _, self.osabi, self.abi_version, self.type, self.machine, *rest = fields
        if (elf_class, encoding) != (ELFCLASS64, ELFDATA2LSB):
            raise BinaryError(f"an ELF file of class {elf_class}, encoding {encoding}: cubins are 64-bit little endian")
        _, _, _, section_table, self.flags, _, _, _, entry_size, count, names = rest
        if count and entry_size != SECTION.size:
            raise BinaryError(f"damaged file: section headers of {entry_size} bytes, expected {SECTION.size}")
        heads = [
            SECTION.unpack(take(data, section_table + i * SECTION.size, SECTION.size, f"section header {i}"))
            for i in range(count)
        ]
        strings = self._raw(data, heads, names, "the section names") if count else b""
        self.sections = [self._section(data, index, head, strings) for index, head in enumerate(heads)]
        self.symbols = self._symbols()

    @staticmethod
    def _raw(data: bytes, heads: list[tuple[int, ...]], index: int, what: str) -> bytes:
        if not 0 <= index < len(heads):
            raise BinaryError(f"damaged file: {what} are in section {index}, there are {len(heads)}")
        return take(data, heads[index][4], heads[index][5], what)

    def _name(self, table: bytes, offset: int, what: str) -> str:
        name = text_at(table, offset, what, self._names_left)
        self._names_left -= len(name)
        return name

    def _section(self, data: bytes, index: int, head: tuple[int, ...], strings: bytes) -> Section:
        name_at, kind, flags, _, offset, size, link, info, align, _ = head
        name = self._name(strings, name_at, f"section {index}")
        content = b""
        if kind not in (0, SHT_NOBITS):
            self._content_left -= size
            if self._content_left < 0:
                raise BinaryError(f"damaged file: its sections overlap, {name} for one")
            content = take(data, offset, size, f"section {name}")
        return Section(index, name, kind, flags, offset, size, link, info, align, content)

    def section(self, index: int, what: str) -> Section:
        if not 0 <= index < len(self.sections):
            raise BinaryError(f"damaged file: {what} names section {index}, there are {len(self.sections)}")
        return self.sections[index]

    def _symbols(self) -> list[Symbol]:
        table = next((s for s in self.sections if s.kind == SHT_SYMTAB), None)
        if table is None:
            return []
        strings = self.section(table.link, "the symbol table").data
        found = []
        for index in range(len(table.data) // SYMBOL.size):
            name_at, info, other, section, value, size = SYMBOL.unpack_from(table.data, index * SYMBOL.size)
            name = self._name(strings, name_at, f"symbol {index}")
            found.append(Symbol(index, name, info & 15, info >> 4, other, section, value, size))
        return found

    def symbol(self, index: int, what: str) -> Symbol:
        if not 0 <= index < len(self.symbols):
            raise BinaryError(f"damaged file: {what} names symbol {index}, there are {len(self.symbols)}")
        return self.symbols[index]

    def relocations(self, section: Section) -> list[ElfRelocation]:
        """The entries of one SHT_REL or SHT_RELA section."""
        form = RELA if section.kind == SHT_RELA else REL
        if len(section.data) % form.size:
            raise BinaryError(f"damaged file: {section.name} has {len(section.data)} bytes, no multiple of {form.size}")
        found = []
        for entry in form.iter_unpack(section.data):
            offset, info, addend = (*entry, 0)[:3]
            symbol = self.symbol(info >> 32, section.name)
            found.append(ElfRelocation(section.info, offset, info & 0xFFFF_FFFF, symbol, addend))
        return found
