"""The descriptors of a dispatch: from loads or from tables in memory to the banks and shapes that a launch takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hcqrt.emu.engine.launch import ImageShape, SamplerShape
from hcqrt.emu.memory import READ
from hcqrt.emu.qcom import images
from hcqrt.emu.qcom.config import Config
from hcqrt.emu.qcom.images import Sampler
from hcqrt.emu.qcom.state import IBOS, SAMPLERS, TEXTURES, UBOS
from hcqrt.emu.qcom.trouble import Refused

if TYPE_CHECKING:
    from hcqrt.emu.qcom.cp import CommandProcessor

TEXTURE_BANK, IMAGE_BANK, UBO_BANK = 1, 2, 3
BORDER_BASE, BORDER_ALIGNMENT = "SP_PS_TP_BORDER_COLOR_BASE_ADDR", 128
# kind -> (register with the base of its table, alignment, bytes of a descriptor)
TABLES = {
    SAMPLERS: ("SP_CS_TEX_SAMP", 16, images.SAMPLER_BYTES),
    TEXTURES: ("SP_CS_TEX_CONST", 64, images.TEXTURE_BYTES),
    IBOS: ("SP_CS_IBO", 16, images.TEXTURE_BYTES),
}
Decoded = TypeVar("Decoded")


@dataclass(frozen=True)
class Descriptors:
    """What `descriptor_banks` found; shapes by slot."""

    banks: dict[int, bytes]
    textures: tuple[ImageShape | None, ...]
    samplers: tuple[SamplerShape | None, ...]
    images: tuple[ImageShape | None, ...]
    ubos: int


def descriptor_banks(cp: CommandProcessor, config: Config) -> Descriptors:
    """Every descriptor that the configuration counts. Raises Refused and MmuFault."""
    check_counts(cp, config)
    if not (config.textures or config.samplers or config.images or cp.state.tables[UBOS]):
        return Descriptors({}, (), (), (), 0)
    idle_d1 = cp.generation.idle_d1
    textures = decoded(cp, TEXTURES, config.textures, lambda raw: images.decode_image(raw, False, idle_d1))
    writable = decoded(cp, IBOS, config.images, lambda raw: images.decode_image(raw, True, idle_d1))
    samplers = decoded(cp, SAMPLERS, config.samplers, images.decode_sampler)
    for image in (*textures, *writable):
        cp.space.pieces(image.va, image.nbytes, READ)  # the whole image: pitch and size must suit its memory
    check_borders(cp, samplers)
    ubos = ubo_rows(cp)
    banks = {
        TEXTURE_BANK: b"".join(image.row for image in textures),
        IMAGE_BANK: b"".join(image.row for image in writable),
        UBO_BANK: b"".join(ubos),
    }
    return Descriptors(
        {bank: raw for bank, raw in banks.items() if raw},
        tuple(image.shape for image in textures),
        tuple(sampler.shape for sampler in samplers),
        tuple(image.shape for image in writable),
        len(ubos),
    )


def check_counts(cp: CommandProcessor, config: Config) -> None:
    """What was loaded for this launch must be counted, or the shader does not see it."""
    counts = ((TEXTURES, config.textures), (SAMPLERS, config.samplers), (IBOS, config.images))
    for kind, count in counts:
        loaded = cp.state.tables[kind]
        if loaded and max(loaded) >= count:
            raise Refused(f"{kind} up to {max(loaded)} were loaded, SP_CS_CONFIG counts {count}")


def decoded(cp: CommandProcessor, kind: str, count: int, decode: Callable[[bytes], Decoded]) -> list[Decoded]:
    """The first `count` descriptors of a kind."""
    found = []
    for index, raw in enumerate(raw_descriptors(cp, kind, count)):
        try:
            found.append(decode(raw))
        except Refused as refusal:
            raise Refused(f"{kind} {index}: {refusal}") from None
    return found


def raw_descriptors(cp: CommandProcessor, kind: str, count: int) -> list[bytes]:
    """Loaded ones, and those behind them from the table in memory, whose base register both must agree with."""
    if not count:
        return []
    name, alignment, nbytes = TABLES[kind]
    base = cp.registers.get64(name)
    what = f"{cp.registers.text(name)} = {base:#x}"
    if not cp.registers.written(name) or not base:
        raise Refused(f"{what}: never set, and SP_CS_CONFIG counts {count} {kind}")
    if base % alignment:
        raise Refused(f"{what}: not {alignment}-byte aligned")
    cp.space.pieces(base, count * nbytes, READ)
    table, origins = cp.state.tables[kind], cp.state.origins[kind]
    for index in range(count):
        origin = origins.get(index)
        if origin is not None and origin != base + index * nbytes:
            raise Refused(f"{what}: {kind} {index} was loaded from {origin:#x}, not from that table")
    return [table.get(index) or from_table(cp, kind, base + index * nbytes, nbytes) for index in range(count)]


def from_table(cp: CommandProcessor, kind: str, va: int, nbytes: int) -> bytes:
    """One that was not loaded ahead."""
    raw = cp.space.read(va, nbytes)
    cp.state.stale.loaded(va, raw, kind)
    return raw


def check_borders(cp: CommandProcessor, samplers: list[Sampler]) -> None:
    """Where a coordinate wraps to the border its colour must be there; only zero is modelled."""
    for index, sampler in enumerate(samplers):
        if sampler.border is None:
            continue
        base = cp.registers.get64(BORDER_BASE)
        what = f"{cp.registers.text(BORDER_BASE)} = {base:#x}"
        if not base or base % BORDER_ALIGNMENT:
            raise Refused(f"{what}: samplers {index} needs border colors, {BORDER_ALIGNMENT}-byte aligned")
        if any(cp.space.read(base + sampler.border, BORDER_ALIGNMENT)):
            raise Refused(f"{what}: the border color of samplers {index} is not zero, which is not modelled")


def ubo_rows(cp: CommandProcessor) -> list[bytes]:
    """Rows up to the last UBO that was loaded; slots between that were not are empty."""
    loaded = cp.state.tables[UBOS]
    rows = []
    for index in range(max(loaded, default=-1) + 1):
        va, nbytes = images.decode_ubo(loaded[index]) if index in loaded else (0, 0)
        if nbytes:
            cp.space.pieces(va, nbytes, READ)
        rows.append(images.ubo_row(va, nbytes))
    return rows
