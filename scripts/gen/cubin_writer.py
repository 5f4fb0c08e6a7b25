"""Writes cubins of both ABI generations from code and metadata: for the shipped kernels, and for tests of the loader.

It shares nothing with the loader; section and attribute numbers come from the same facts (nv-engine facts 8).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL, CUDA_INFO = 1, 2, 3, 4, 8, 9, 0x70000000
CUDA_COMPAT = 0x70000086
NOP = struct.pack("<2Q", 0x7918, 0x000FC00000000000)  # opcode 918, always, waiting for nothing (sass facts)
ENTRY_BYTES = {SYMTAB: 24, RELA: 24, REL: 16}  # sh_entsize
WRITE, ALLOC, EXEC = 1, 2, 4
OBJECT, FUNC, SECTION = 1, 2, 3
LOCAL, GLOBAL, WEAK = 0, 1, 2
ENTRY = 0x10  # st_other of a kernel
PARAM_BASE = {
    75: 0x160,
    80: 0x160,
    86: 0x160,
    87: 0x160,
    89: 0x160,
    90: 0x210,
    **dict.fromkeys((100, 103, 120, 121), 0x380),
}
DRIVER = {7: (0x33, 128), 8: (0x41, 1)}  # ABI -> EI_OSABI, e_version


@dataclass
class KernelSource:
    """One kernel: its code and what its attributes say. Sizes in bytes."""

    name: str
    code: bytes
    registers: int
    params: Sequence[int] = ()  # size of each, in order
    shared: int = 0
    stack: int = 0
    frame: int | None = None
    barriers: int = 0
    max_threads: tuple[int, int, int] | None = None
    required_block: tuple[int, int, int] | None = None
    externs: Sequence[str] = ()
    constant2: bytes = b""
    extra_info: bytes = b""  # further records of .nv.info.K


@dataclass
class Reloc:
    """A relocation of section `section` at `offset` against symbol `symbol`."""

    section: str
    offset: int
    kind: int
    symbol: str
    addend: int = 0


@dataclass
class Module:
    """A whole file. `globals` are zeroed variables, `initialised` ones with data, both by name."""

    sm: int
    kernels: Sequence[KernelSource]
    abi: int = 8
    globals: Mapping[str, int] = field(default_factory=dict)
    initialised: Mapping[str, bytes] = field(default_factory=dict)
    constant3: bytes = b""
    constant4: bytes = b""
    relocs: Sequence[Reloc] = ()
    undefined: Sequence[str] = ()
    param_base: int | None = None
    elf_type: int = 2
    accelerated: bool = False
    compat: bytes = b""  # .nv.compat, of CUDA 13


def attribute(form: int, number: int, value: int = 0, payload: bytes = b"") -> bytes:
    """One EIATTR record."""
    if form == 4:
        return struct.pack("<2BH", 4, number, len(payload)) + payload + bytes(-len(payload) % 4)
    return struct.pack("<2BH", form, number, value)


def param_layout(sizes: Sequence[int]) -> list[int]:
    """Offsets of parameters, each aligned to its own size (structs to 8)."""
    offsets, end = [], 0
    for size in sizes:
        align = size if size in (1, 2, 4, 8) else 8
        end = -(-end // align) * align
        offsets.append(end)
        end += size
    return offsets


def kernel_info(module: Module, kernel: KernelSource, bank0_symbol: int, extern_symbols: Sequence[int]) -> bytes:
    """The .nv.info.K section of a kernel."""
    offsets = param_layout(kernel.params)
    total = offsets[-1] + kernel.params[-1] if kernel.params else 0
    base = PARAM_BASE[module.sm] if module.param_base is None else module.param_base
    info = attribute(4, 0x37, payload=struct.pack("<I", 0x82 if module.abi == 8 else 0x80))
    info += attribute(4, 0x0A, payload=struct.pack("<I2H", bank0_symbol, base, total))
    info += attribute(3, 0x19, total)
    for ordinal in reversed(range(len(kernel.params))):
        bits = kernel.params[ordinal] << 18 | 0x1F000
        info += attribute(4, 0x17, payload=struct.pack("<I2HI", 0, ordinal, offsets[ordinal], bits))
    info += attribute(3, 0x1B, 0xFF)
    if module.abi == 8 and kernel.barriers:
        info += attribute(2, 0x4C, kernel.barriers)
    if kernel.max_threads:
        info += attribute(4, 0x05, payload=struct.pack("<3I", *kernel.max_threads))
    if kernel.required_block:
        info += attribute(4, 0x10, payload=struct.pack("<3I", *kernel.required_block))
    if extern_symbols:
        info += attribute(4, 0x0F, payload=struct.pack(f"<{len(extern_symbols)}I", *extern_symbols))
    return info + kernel.extra_info


class Writer:
    """Collects sections and symbols, then lays the file out."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = b"\0"
        self.sections: list[dict[str, int | bytes | str]] = []
        self.index: dict[str, int] = {}
        self.symbols: list[tuple[str, int, int, int, int, int]] = []  # name, info, other, section, value, size
        self.add("", 0)

    def add(self, name: str, kind: int, data: bytes = b"", **fields: int) -> int:
        """Append a section; `size` of NOBITS sections, `flags`, `link`, `info`, `align` as in the header."""
        self.index[name] = len(self.sections)
        self.sections.append({"name": name, "kind": kind, "data": data, **fields})
        return self.index[name]

    def symbol(
        self, name: str, kind: int, binding: int, section: int, value: int = 0, size: int = 0, other: int = 0
    ) -> int:
        self.symbols.append((name, binding << 4 | kind, other, section, value, size))
        return len(self.symbols)  # symbol 0 is the empty one

    def symbol_index(self, name: str) -> int:
        return next(i for i, entry in enumerate(self.symbols, 1) if entry[0] == name)

    def build(self) -> bytes:
        self._texts()
        self._data()
        self._infos()
        self._relocations()
        return self._file()

    def _texts(self) -> None:
        for number, kernel in enumerate(self.module.kernels):
            code = kernel.code + NOP * (-len(kernel.code) % 128 // len(NOP))
            flags = ALLOC | EXEC | (kernel.barriers << 20 if self.module.abi == 7 else 0)
            symbol = len(self.module.kernels) + number + 1  # section symbols come first
            info = symbol | (kernel.registers << 24 if self.module.sm < 90 else 0)
            self.add(f".text.{kernel.name}", PROGBITS, code, flags=flags, info=info, align=128)
        for kernel in self.module.kernels:
            self.symbol(f".nv.constant0.{kernel.name}", SECTION, LOCAL, 0)  # its section is set below
        for kernel in self.module.kernels:
            text = self.index[f".text.{kernel.name}"]
            self.symbol(kernel.name, FUNC, GLOBAL, text, 0, len(kernel.code), ENTRY)
        for name in self.module.undefined:
            self.symbol(name, FUNC, GLOBAL, 0)

    def _data(self) -> None:
        module = self.module
        for position, kernel in enumerate(module.kernels):
            text = self.index[f".text.{kernel.name}"]
            offsets = param_layout(kernel.params)
            base = PARAM_BASE[module.sm] if module.param_base is None else module.param_base
            total = base + (offsets[-1] + kernel.params[-1] if kernel.params else 0)
            bank = self.add(f".nv.constant0.{kernel.name}", PROGBITS, bytes(total), flags=ALLOC, info=text, align=4)
            name, info, other, _, value, size = self.symbols[position]
            self.symbols[position] = (name, info, other, bank, value, size)
            shared = kernel.shared + (0x400 if module.sm >= 90 else 0)
            if shared:
                self.add(f".nv.shared.{kernel.name}", NOBITS, size=shared, flags=WRITE | ALLOC, info=text, align=16)
            if kernel.constant2:
                name2 = f".nv.constant2.{kernel.name}"
                self.add(name2, PROGBITS, kernel.constant2, flags=ALLOC, info=text, align=4)
        for number, data in ((3, module.constant3), (4, module.constant4)):
            if data:
                self.add(f".nv.constant{number}", PROGBITS, data, flags=ALLOC, align=8)
        self._variables()

    def _variables(self) -> None:
        data = b"".join(value + bytes(-len(value) % 8) for value in self.module.initialised.values())
        if data:
            section, place = self.add(".nv.global.init", PROGBITS, data, flags=WRITE | ALLOC, align=8), 0
            for name, value in self.module.initialised.items():
                self.symbol(name, OBJECT, GLOBAL, section, place, len(value))
                place += len(value) + -len(value) % 8
        if self.module.globals:
            total = sum(-(-size // 8) * 8 for size in self.module.globals.values())
            section, place = self.add(".nv.global", NOBITS, size=total, flags=WRITE | ALLOC, align=8), 0
            for name, size in self.module.globals.items():
                self.symbol(name, OBJECT, GLOBAL, section, place, size)
                place += -(-size // 8) * 8

    def _infos(self) -> None:
        common = b""
        for kernel in self.module.kernels:
            symbol = self.symbol_index(kernel.name)
            frame = kernel.stack if kernel.frame is None else kernel.frame
            for number, value in ((0x2F, kernel.registers), (0x11, frame), (0x12, kernel.stack)):
                common += attribute(4, number, payload=struct.pack("<2I", symbol, value))
        self.add(".nv.info", CUDA_INFO, common, align=4)
        if self.module.compat:
            self.add(".nv.compat", CUDA_COMPAT, self.module.compat, align=4)
        for kernel in self.module.kernels:
            externs = [self.symbol_index(name) for name in kernel.externs]
            bank0 = self.symbol_index(f".nv.constant0.{kernel.name}")
            info = kernel_info(self.module, kernel, bank0, externs)
            self.add(f".nv.info.{kernel.name}", CUDA_INFO, info, info=self.index[f".text.{kernel.name}"], align=4)

    def _relocations(self) -> None:
        for section in dict.fromkeys(reloc.section for reloc in self.module.relocs):
            entries = [reloc for reloc in self.module.relocs if reloc.section == section]
            with_addend = self.module.sm >= 90 or any(reloc.addend for reloc in entries)
            data = b""
            for reloc in entries:
                pair = struct.pack("<2Q", reloc.offset, self.symbol_index(reloc.symbol) << 32 | reloc.kind)
                data += pair + (struct.pack("<q", reloc.addend) if with_addend else b"")
            name = (".rela" if with_addend else ".rel") + section
            self.add(name, RELA if with_addend else REL, data, info=self.index[section], align=8)

    def _file(self) -> bytes:
        strings, table = b"\0", bytes(24)
        for name, info, other, section, value, size in self.symbols:
            table += struct.pack("<I2BH2Q", len(strings), info, other, section, value, size)
            strings += name.encode() + b"\0"
        strtab = self.add(".strtab", STRTAB, strings, align=1)
        locals_count = 1 + sum(info >> 4 == LOCAL for _, info, *_ in self.symbols)
        self.add(".symtab", SYMTAB, table, link=strtab, info=locals_count, align=8)
        symtab = self.index[".symtab"]
        for section in self.sections:
            if section["kind"] in (REL, RELA):
                section["link"] = symtab
        names = self.add(".shstrtab", STRTAB, b"", align=1)
        places, blob = [], b"\0"
        for section in self.sections:
            places.append(len(blob) if section["name"] else 0)
            blob += str(section["name"]).encode() + b"\0" if section["name"] else b""
        self.sections[names]["data"] = blob
        return self._layout(places, names)

    def _layout(self, places: Sequence[int], names: int) -> bytes:
        body, heads = bytearray(64), b""
        for place, section in zip(places, self.sections, strict=True):
            data = section["data"]
            assert isinstance(data, bytes)
            align = int(section.get("align", 1)) or 1
            body += bytes(-len(body) % align)
            size = int(section.get("size", len(data)))
            numbers = (section["kind"], section.get("flags", 0), 0, len(body) if section["kind"] else 0, size)
            links = (section.get("link", 0), section.get("info", 0), align if section["kind"] else 0)
            entry = ENTRY_BYTES.get(int(section["kind"]), 0)
            heads += struct.pack("<2I4Q2I2Q", place, *numbers, *links, entry)
            body += data
        body += bytes(-len(body) % 8)
        osabi, version = DRIVER[self.module.abi]
        ident = struct.pack("<4s5B7x", b"\x7fELF", 2, 1, 1, osabi, self.module.abi)
        rest = (
            self.module.elf_type,
            190,
            version,
            0,
            0,
            len(body),
            self.flags,
            64,
            0,
            0,
            64,
            len(self.sections),
            names,
        )
        body[:64] = ident + struct.pack("<2HI3QI6H", *rest)
        return bytes(body) + heads

    @property
    def flags(self) -> int:
        sm = self.module.sm
        if self.module.abi == 7:
            return sm | 5 << 8 | sm << 16 | (0x800 if self.module.accelerated else 0)
        return 0x06000000 | sm << 8 | (2 if sm >= 100 else 4) | (8 if self.module.accelerated else 0)


def write_cubin(module: Module) -> bytes:
    """The bytes of a cubin with these kernels and data."""
    return Writer(module).build()
