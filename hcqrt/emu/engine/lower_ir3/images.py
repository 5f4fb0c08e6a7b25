"""Reading texels of textures, reading, writing and changing those of images, and raw buffers that are bound as images.

A row of bank 1 (textures) or 2 (images) says where the texels are and how many; what their bits mean is the launch's
ImageShape. Coordinates are integers. Outside: reads give 0 in every component, writes and atomics do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....isa.ir3 import Imm, Operand, Reg
from .. import uops as u
from ..launch import ImageShape
from .convert import following
from .formats import FORMATS, SINT, UINT, components, decode, encode, insert, known_format, one
from .lowering import ALWAYS, ZERO, Lowering, PredSource, Source, immediate, lowers, register
from .memory import ELEMENTS, OPERATIONS, Address, Part, atomic, operation
from .registers import IMAGES, TEXTURES

ROW_BYTES = 32
WRAP_BORDER = 3  # A6XX_TEX_CLAMP_TO_BORDER; border colours are zeros
VA, WIDTH, HEIGHT, DEPTH, PITCH, LAYER = 0, 8, 12, 16, 20, 24  # byte offsets in a row
HEIGHT_SHIFT = 15  # a buffer's element count is height << 15 | width
# Type of an access -> whether its registers are half ones, and the kinds of format it goes with.
REAL, WHOLE = ("unorm", "float", "small float"), (UINT, SINT)
TYPES = {
    "f32": (False, REAL), "f16": (True, REAL), "u32": (False, WHOLE), "s32": (False, WHOLE), "u16": (True, WHOLE),
    "s16": (True, WHOLE),
}  # fmt: skip
KINDS = {"1d": 1, "2d": 2, "3d": 3, "buffer": 1}


class Texel(NamedTuple):
    """`inside`: the fibre takes part and its coordinates are in range; `address`: a register pair."""

    address: Source
    inside: PredSource


def row(bank: int, slot: int, offset: int) -> Source:
    return Source(u.CONST, bank << 16 | slot * ROW_BYTES + offset)


def shape_of(i: Lowering, shapes: tuple[ImageShape | None, ...], slot: int, what: str) -> ImageShape:
    shape = shapes[slot] if slot < len(shapes) else None
    if shape is None:
        raise i.refuse(f"{what} {slot}: the launch binds none there")
    if shape.kind not in KINDS:
        raise i.refuse(f"{what} {slot} of kind {shape.kind} is not implemented")
    return shape


def within(i: Lowering, checks: list[tuple[Source, Source]]) -> PredSource:
    """That the fibre takes part and each first value is below its second, unsigned."""
    inside, p = i.scratch_pred(), i.guard
    for value, limit in checks:
        i.emit("ISETP", u.NO_REG, value, limit, mod=u.C_LT, p=p, pd=inside, guard=ALWAYS)
        p = (inside, False)
    return p


def elements(i: Lowering, bank: int, slot: int) -> Source:
    d, total = i.temporary()
    i.emit("LEA", d, row(bank, slot, HEIGHT), row(bank, slot, WIDTH), imm=HEIGHT_SHIFT)
    return total


def locate(i: Lowering, bank: int, slot: int, shape: ImageShape, at: list[Source], nbytes: int) -> Texel:
    """`at`: x, y, z as far as the instruction gives them."""
    if shape.kind == "buffer":
        checks = [(at[0], elements(i, bank, slot)), *((y, immediate(1)) for y in at[1:])]
    else:
        checks = list(zip(at, (row(bank, slot, offset) for offset in (WIDTH, HEIGHT, DEPTH)), strict=False))
    inside = within(i, checks)
    steps = [(at[0], immediate(nbytes))]
    if shape.kind != "buffer":
        steps += list(zip(at[1:], (row(bank, slot, PITCH), row(bank, slot, LAYER)), strict=False))
    address, total = i.scratch(2), row(bank, slot, VA)
    for value, step in steps:
        i.emit("MADW", address, value, step, total)
        total = register(address)
    return Texel(total, inside)


def widest(nbytes: int) -> tuple[int, int]:
    """Width of one access to a texel, and how many it takes. Texels of 8 and 16 bytes are aligned: rows are, to 64."""
    width = {1: u.W_U8, 2: u.W_U16, 8: u.W_64, 16: u.W_128}.get(nbytes, u.W_32)
    return width, (nbytes + 3) // 4 if width == u.W_32 else 1


def fetch(i: Lowering, texel: Texel, nbytes: int) -> int:
    """The texel's words in scratch registers, zeros outside."""
    count = (nbytes + 3) // 4
    words = i.scratch(count)
    for k in range(count):
        i.emit("MOV", words + k, ZERO)
    width, accesses = widest(nbytes)
    for k in range(accesses):
        i.emit("LD", words + k, texel.address, ZERO, flags=u.A64, imm=4 * k, width=width, space=u.S_GLOBAL,
               guard=texel.inside)  # fmt: skip
    return words


def access_type(i: Lowering, shape: ImageShape) -> bool:
    """Whether the registers are half ones, of a type that goes with the image's format."""
    half, kinds = i.mod("type", TYPES)
    if known_format(i, shape).kind not in kinds:
        raise i.refuse(f"the type does not go with image format {shape.format:#x}")
    return half


def coordinates(i: Lowering, first: Operand, count: int) -> list[Source]:
    if not isinstance(first, Reg) or first.half:
        raise i.refuse(f"coordinates in {first!r} are not implemented")
    base = i.full(first.number, count)
    return [register(base + k) for k in range(count)]


def give(i: Lowering, shape: ImageShape, texel: Texel, words: int, half: bool, targets: dict[int, Operand]) -> None:
    """Decode, pick by the swizzle and write; `targets` by component."""
    parts = components(i, shape)
    constant = one(FORMATS[shape.format].kind, half)
    for component, operand in targets.items():
        choice = shape.swizzle[component]
        part = Part(i, operand)
        if choice in parts:
            decode(i, part.d, words, parts[choice], half)
        elif choice in (3, 5):  # w, where the format has none, is one
            inside = (texel.inside[0], texel.inside[1])
            i.emit("SEL", part.d, immediate(constant), ZERO, p=inside)
        elif choice in (1, 2, 4):
            i.emit("MOV", part.d, ZERO)
        else:
            raise i.refuse(f"swizzle {choice} is not implemented")
        part.place()


@lowers("isam")
def isam(i: Lowering) -> None:
    """The 1d flag changes nothing here: two coordinates are read for images of one and two dimensions alike.

    Component c of the mask goes to the destination's register plus c.
    """
    i.no_effect("1d")
    i.unset("a", "o", "p", "s", "v")
    slot, sampler = i.number("texture"), i.number("sampler")
    shape = shape_of(i, i.setup.textures, slot, "texture")
    check_sampler(i, sampler)
    deep = i.flag("3d")
    if deep != (shape.kind == "3d"):
        raise i.refuse(f"3d = {deep} on a texture of kind {shape.kind}")
    mask = i.number("wrmask")
    half = access_type(i, shape)
    at = coordinates(i, i.arg("src1"), 3 if deep else 2)
    texel = locate(i, TEXTURES, slot, shape, at, known_format(i, shape).nbytes)
    words = fetch(i, texel, known_format(i, shape).nbytes)
    registers = following(i, "dst", mask.bit_length())
    give(i, shape, texel, words, half, {c: reg for c, reg in enumerate(registers) if mask >> c & 1})


def check_sampler(i: Lowering, number: int) -> None:
    """The modes differ outside the image: GL reads zeros, CL what the sampler says, of which the border is known."""
    sampler = i.setup.samplers[number] if number < len(i.setup.samplers) else None
    if sampler is None:
        raise i.refuse(f"sampler {number}: the launch binds none there")
    if not i.setup.isam_gl and (not sampler.unnormalized or set(sampler.wrap) != {WRAP_BORDER}):
        raise i.refuse(
            f"sampler {number} in mode CL, wrap modes {sampler.wrap}: known are integer coordinates and the border"
        )


def image_slot(i: Lowering) -> tuple[int, ImageShape]:
    i.mod("mode", {"imm": None})
    slot = i.arg("slot")
    if not isinstance(slot, Imm):
        raise i.refuse(f"operand slot = {slot!r} is not implemented")
    return slot.value, shape_of(i, i.setup.images, slot.value, "image")


def is_typed(i: Lowering) -> bool:
    return i.mod("typed", {"typed": True, "untyped": False})


def dimensions(i: Lowering, shape: ImageShape) -> int:
    count = i.number("dims")
    if count != KINDS[shape.kind]:
        raise i.refuse(f"{count} coordinates for an image of kind {shape.kind} are not implemented")
    return count


def raw_element(i: Lowering, slot: int, shape: ImageShape, nbytes: int, x: Source, offset: int) -> Texel:
    """Element x + offset of a buffer of elements."""
    if shape.kind != "buffer" or known_format(i, shape).nbytes != nbytes:
        raise i.refuse(
            f"untyped elements of {nbytes} bytes of image {slot}, of kind {shape.kind}, format {shape.format:#x}"
        )
    d, at = i.temporary()
    i.emit("ADD3", d, x, imm=offset)
    return locate(i, IMAGES, slot, shape, [at], nbytes)


def raw_elements(i: Lowering, slot: int, shape: ImageShape, access: Callable[[Operand, Texel, int], None]) -> None:
    """`access` brings one register of an untyped access from or to its element; each is checked by itself."""
    nbytes, width = i.mod("type", ELEMENTS)
    i.mod("dims", {1: None})
    count = i.number("components")
    offset = i.number("offset") if "offset" in i.instruction.mods else 0
    (x,) = coordinates(i, i.arg("coord"), 1)
    registers = following(i, "value", count)
    d, kept = i.temporary()
    i.emit("MOV", d, x)  # a register of the access may be the coordinate's
    for k, operand in enumerate(registers):
        mark = i.mark()
        access(operand, raw_element(i, slot, shape, nbytes, kept, offset + k), width)
        i.settle(mark)


def raw_load(i: Lowering, operand: Operand, texel: Texel, width: int) -> None:
    target, (d, value) = i.target(operand), i.temporary()
    i.emit("MOV", d, ZERO)
    i.emit("LD", d, texel.address, ZERO, flags=u.A64, width=width, space=u.S_GLOBAL, guard=texel.inside)
    i.emit("MOV", target, value)


def raw_store(i: Lowering, operand: Operand, texel: Texel, width: int) -> None:
    assert isinstance(operand, Reg)
    data = i.read(operand)
    i.emit("ST", u.NO_REG, texel.address, ZERO, data, flags=u.A64, width=width, space=u.S_GLOBAL, guard=texel.inside)


@lowers("ldib.b")
def ldib(i: Lowering) -> None:
    slot, shape = image_slot(i)
    if not is_typed(i):
        raw_elements(i, slot, shape, lambda operand, texel, width: raw_load(i, operand, texel, width))
        return
    half = access_type(i, shape)
    at = coordinates(i, i.arg("coord"), dimensions(i, shape))
    texel = locate(i, IMAGES, slot, shape, at, known_format(i, shape).nbytes)
    words = fetch(i, texel, known_format(i, shape).nbytes)
    registers = following(i, "value", i.number("components"))
    give(i, shape, texel, words, half, dict(enumerate(registers)))


@lowers("stib.b")
def stib(i: Lowering) -> None:
    """A typed store must give every component that the format has."""
    slot, shape = image_slot(i)
    if not is_typed(i):
        raw_elements(i, slot, shape, lambda operand, texel, width: raw_store(i, operand, texel, width))
        return
    half, form, parts_of = access_type(i, shape), known_format(i, shape), components(i, shape)
    at = coordinates(i, i.arg("coord"), dimensions(i, shape))
    values = following(i, "value", i.number("components"))
    if len(values) <= max(parts_of):
        raise i.refuse(f"{len(values)} components for image format {shape.format:#x}")
    texel = locate(i, IMAGES, slot, shape, at, form.nbytes)
    words = i.scratch((form.nbytes + 3) // 4)
    for component, part in sorted(parts_of.items(), key=lambda item: item[1].lsb):
        operand, mark = values[component], i.mark()
        assert isinstance(operand, Reg)
        d, bits = i.temporary()
        encode(i, d, i.read(operand), part, half)
        insert(i, words, part, bits)
        i.settle(mark)
    width, accesses = widest(form.nbytes)
    for k in range(accesses):
        i.emit("ST", u.NO_REG, texel.address, ZERO, register(words + k), flags=u.A64, imm=4 * k, width=width,
               space=u.S_GLOBAL, guard=texel.inside)  # fmt: skip


@lowers(*(f"atomic.b.{name}" for name in (*OPERATIONS, "inc", "dec")))
def image_atomic(i: Lowering) -> None:
    """The register gets the old value; the operand lies behind it, of a compare-and-swap the new value comes first."""
    name, mod = operation(i)
    slot, shape = image_slot(i)
    i.mod("components", {1: None})
    if known_format(i, shape).widths != (32,) or known_format(i, shape).kind not in WHOLE:
        raise i.refuse(f"on image format {shape.format:#x} is not implemented")
    if is_typed(i):
        at = coordinates(i, i.arg("coord"), dimensions(i, shape))
        texel = locate(i, IMAGES, slot, shape, at, 4)
    else:
        i.mod("dims", {1: None})
        (x,) = coordinates(i, i.arg("coord"), 1)
        texel = raw_element(i, slot, shape, 4, x, 0)
    registers = following(i, "value", 3 if name == "cmpxchg" else 2)
    data = [i.read(reg) for reg in registers[1:] if isinstance(reg, Reg)]
    target = i.target(registers[0])
    (to_old, old) = i.temporary()
    i.emit("MOV", to_old, ZERO)
    outer, i.guard = i.guard, texel.inside
    atomic(i, Address(u.S_GLOBAL, texel.address, flags=u.A64), name, mod, data, to_old)
    i.guard = outer
    i.emit("MOV", target, old)
