"""Relocations of cubins: which numbers there are, and what each means for an image. Source: nv-engine facts 8.5."""

from __future__ import annotations

from hcqrt.errors import BinaryError
from hcqrt.nv.elf import SHN_ABS, SHN_LORESERVE, SHN_UNDEF, SHT_REL, SHT_RELA, STB_WEAK, Elf, ElfRelocation, Section
from hcqrt.nv.image import Relocation

# number -> (name, kind of patch)
KINDS = {
    1: ("R_CUDA_32", "data32"),
    2: ("R_CUDA_64", "data64"),
    3: ("R_CUDA_G32", "data32"),
    4: ("R_CUDA_G64", "data64"),
    34: ("R_CUDA_FUNC_DESC_32", "data32"),
    35: ("R_CUDA_FUNC_DESC_64", "data64"),
    55: ("R_CUDA_ABS32_32", "abs32"),
    56: ("R_CUDA_ABS32_LO_32", "lo32"),
    57: ("R_CUDA_ABS32_HI_32", "hi32"),
    58: ("R_CUDA_ABS47_34", "field47"),
    62: ("R_CUDA_FUNC_DESC32_LO_32", "lo32"),
    63: ("R_CUDA_FUNC_DESC32_HI_32", "hi32"),
    70: ("R_CUDA_32_LO", "data32_lo"),
    71: ("R_CUDA_32_HI", "data32_hi"),
    72: ("R_CUDA_UNUSED_CLEAR32", "clear32"),
    73: ("R_CUDA_UNUSED_CLEAR64", "clear64"),
    75: ("R_CUDA_ABS55_16_34", "field55"),
    **{76 + k: (f"R_CUDA_8_{8 * k}", f"byte{k}") for k in range(8)},
}
# bytes that a patch needs; others need 4, or 1
WIDTHS = {"data64": 8, "clear64": 8, "field47": 16, "field55": 16, "abs32": 8, "lo32": 8, "hi32": 8}
TEXTURES = {*range(6, 10), *range(19, 24), 29, 30, 51, 52, 65}
SHARED, BANK0 = ".nv.shared.", ".nv.constant0"
RESERVED_SHARED = ".nv.reservedSmem.offset0"  # weak, resolves to 0


def why_refused(kind: int) -> str:
    if kind in TEXTURES:
        return "textures, samplers and surfaces bound at load time are not supported; use plain pointers"
    if kind >= 102:
        return "the unified function table belongs to unlinked code; link the object with nvlink"
    return "hcqrt does not know it"


def link_values(elf: Elf, places: dict[int, int]) -> tuple[list[Relocation], dict[int, set[str]]]:
    """Every relocation of the loaded sections, and the undefined names per section that refers to them."""
    found: list[Relocation] = []
    missing: dict[int, set[str]] = {}
    for section in elf.sections:
        if section.kind not in (SHT_REL, SHT_RELA) or not is_loaded(elf, places, section):
            continue
        for entry in elf.relocations(section):
            if entry.symbol.section == SHN_UNDEF and entry.symbol.index and not is_harmless(entry):
                missing.setdefault(entry.target, set()).add(entry.symbol.name)
                continue
            found.append(one(elf, places, entry))
    return found, missing


def is_loaded(elf: Elf, places: dict[int, int], section: Section) -> bool:
    """Whether these relocations count: those of debug and side sections do not."""
    target = elf.section(section.info, section.name)
    if target.name.startswith(BANK0):
        raise BinaryError(f"{section.name} changes constant bank 0, which hcqrt fills itself")
    return target.index in places


def is_harmless(entry: ElfRelocation) -> bool:
    clears = entry.kind in (72, 73)
    return clears or (entry.symbol.binding == STB_WEAK and entry.symbol.name == RESERVED_SHARED)


def one(elf: Elf, places: dict[int, int], entry: ElfRelocation) -> Relocation:
    target = elf.section(entry.target, "a relocation")
    if entry.kind not in KINDS:
        raise BinaryError(f"{target.name}+{entry.offset:#x}: relocation {entry.kind}: {why_refused(entry.kind)}")
    name, kind = KINDS[entry.kind]
    width = 1 if kind.startswith("byte") else WIDTHS.get(kind, 4)
    if entry.offset + width > target.size:
        raise BinaryError(f"damaged file: {name} at {target.name}+{entry.offset:#x} leaves the section")
    symbol = entry.symbol
    absolute = symbol.section in (SHN_ABS, SHN_UNDEF)
    if not absolute and symbol.section >= SHN_LORESERVE:
        raise BinaryError(f"symbol {symbol.name} lies in reserved section {symbol.section:#x}")
    value = symbol.value + entry.addend
    if not absolute and symbol.section in places:
        if symbol.value > elf.sections[symbol.section].size:
            raise BinaryError(f"damaged file: symbol {symbol.name} lies behind its section")
        value += places[symbol.section]
    elif not absolute:  # shared memory and bank 0 are not loaded: their symbols are offsets, not addresses
        home = elf.section(symbol.section, f"symbol {symbol.name}").name
        if not home.startswith((SHARED, BANK0)):
            raise BinaryError(f"damaged file: {target.name} refers to {symbol.name} in {home}, which is not loaded")
        absolute = True
    return Relocation(places[entry.target] + entry.offset, kind, value, absolute)
