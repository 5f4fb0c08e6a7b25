"""Descriptors of textures, writable images, samplers and UBOs, written dword by dword from qcom.md §4."""

from __future__ import annotations

import ctypes
import struct

import pytest
from adreno_bench import DATA_VA, SIGNAL_VA, UNMAPPED_VA, Bench, dispatch, lo_hi, type7

from hcqrt.emu.engine.launch import ImageShape, Launch, Result, SamplerShape
from hcqrt.emu.qcom import images
from hcqrt.emu.qcom.trouble import PAGE_FAULT, Refused
from hcqrt.emu.refusal import EmulatorRefusal

IMAGE_VA = DATA_VA + 0x10000
TEXTURES_VA, SAMPLERS_VA, IBOS_VA = DATA_VA, DATA_VA + 0x1000, DATA_VA + 0x2000
BORDER_VA = DATA_VA + 0x4000
XYZW = 0 << 4 | 1 << 7 | 2 << 10 | 3 << 13
RGBA16F, RGBA32F, UINT32 = 0x62, 0x82, 0x4B
# 65 x 33 texels of RGBA16F in rows of 0x240 bytes, and the same as RGBA32F in rows of 0x440
HALF = (XYZW | RGBA16F << 22, 65 | 33 << 15, 0x240 << 7 | 1 << 29, 0, *lo_hi(IMAGE_VA))
FLOAT = (XYZW | RGBA32F << 22, 65 | 33 << 15, 0x440 << 7 | 1 << 29, 0, *lo_hi(IMAGE_VA))
IBO = (RGBA32F << 22, *FLOAT[1:])
SAMPLER = (0x1B60, 0x30, 0, 0)  # border, nearest, unnormalised: what one client sends


def raw(words: tuple[int, ...], change: dict[int, int] | None = None) -> bytes:
    filled = [*words, *[0] * (16 - len(words))]
    for index, value in (change or {}).items():
        filled[index] = value
    return struct.pack("<16I", *filled)


def test_a_texture() -> None:
    image = images.decode_image(raw(HALF), False)
    assert image.shape == ImageShape(RGBA16F, "2d", (0, 1, 2, 3), 0, False)
    assert struct.unpack("<8I", image.row) == (*lo_hi(IMAGE_VA), 65, 33, 1, 0x240, 0, 0)
    assert image.nbytes == 32 * 0x240 + 65 * 8


def test_a_texture_with_what_the_vendor_sets_besides() -> None:
    """Bit 3, a plane pitch and half a flag address mean nothing without planes and compression."""
    known = images.decode_image(raw(HALF), False)
    assert images.decode_image(raw(HALF, {0: HALF[0] | 8, 6: 0x40000000, 7: 13}), False) == known


def test_a_writable_image() -> None:
    image = images.decode_image(raw(IBO), True)
    assert image.shape == ImageShape(RGBA32F, "2d", (0, 1, 2, 3), 0, False)


def test_swizzle_swap_and_srgb() -> None:
    d0 = 4 << 4 | 5 << 7 | 2 << 10 | 0 << 13 | 0x30 << 22 | 2 << 30 | 1 << 2
    shape = images.decode_image(raw((d0, 4 | 4 << 15, 64 << 7 | 1 << 29, 0, *lo_hi(IMAGE_VA))), False).shape
    assert shape == ImageShape(0x30, "2d", (4, 5, 2, 0), 2, True)


def test_a_raw_buffer() -> None:
    """100 000 words: width holds the lower 15 bits of the count, and so does its row."""
    d1 = 100_000 & 0x7FFF | 100_000 >> 15 << 15
    image = images.decode_image(raw((UINT32 << 22, d1, 4 << 29 | 1 << 4, 0, *lo_hi(IMAGE_VA))), True)
    assert (image.shape.kind, image.width, image.height, image.nbytes) == ("buffer", 1696, 3, 400_000)


def test_a_volume_has_layers() -> None:
    d5 = IMAGE_VA >> 32 | 5 << 17
    words = (XYZW | RGBA32F << 22, 4 | 4 << 15, 64 << 7 | 3 << 29, 1 | 1 << 23, IMAGE_VA & 0xFFFFFFFF, d5)
    image = images.decode_image(raw(words), False)
    assert (image.shape.kind, image.depth, image.layer_bytes, image.nbytes) == ("3d", 5, 4096, 4 * 4096 + 3 * 64 + 64)


@pytest.mark.parametrize(
    ("fmt", "texel"),
    [
        (0x03, 1), (0x05, 1), (0x06, 1), (0x15, 2), (0x17, 2), (0x18, 2), (0x19, 2), (0x30, 4), (0x33, 4), (0x34, 4),
        (0x36, 4), (0x42, 4), (0x45, 4), (0x4A, 4), (0x4B, 4), (0x4C, 4), (0x60, 8), (0x62, 8), (0x63, 8), (0x64, 8),
        (0x67, 8), (0x74, 12), (0x82, 16), (0x83, 16), (0x84, 16),
    ],
)  # fmt: skip
def test_every_format_of_the_sheet(fmt: int, texel: int) -> None:
    words = (XYZW | fmt << 22, 16 | 1 << 15, 256 << 7 | 1 << 29, 0, *lo_hi(IMAGE_VA))
    assert images.decode_image(raw(words), False).nbytes == 16 * texel


@pytest.mark.parametrize(
    ("change", "writable", "text"),
    [
        ({0: HALF[0] | 2}, False, "tile mode 2"),
        ({0: HALF[0] | 3}, False, "tile mode 3"),
        ({0: XYZW | 0x07 << 22}, False, "format 0x7"),
        ({0: XYZW | 0xFF << 22}, False, "format 0xff"),
        ({0: HALF[0] | 6 << 4}, False, "swizzle 6"),
        ({0: HALF[0] | 1 << 16}, False, "2 levels"),
        ({0: HALF[0] | 1 << 20}, False, "2 samples"),
        ({0: HALF[0] | 4}, False, "sRGB with format 0x62"),
        ({}, True, "swizzle 0, 1, 2, 3 must be 0 in a writable image"),
        ({0: RGBA16F << 22 | 8}, True, "bit 3 must be 0"),
        ({1: HALF[1] | 1 << 30}, False, "d1: upper bits 0x1"),
        ({1: 0}, False, "0 x 0 texels"),
        ({1: 16385 | 1 << 15}, False, "16385 x 1 texels"),
        ({2: 0x240 << 7 | 5 << 29}, False, "type 5"),
        ({2: 0x200 << 7 | 1 << 29}, False, "pitch 0x200 for rows of 0x208 bytes"),
        ({2: 0x250 << 7 | 1 << 29}, False, "pitch 0x250 for rows of 0x208 bytes, a multiple of 0x40"),
        ({2: 0x240 << 7 | 1 << 29 | 3}, False, "a multiple of 0x200"),
        ({2: 0x240 << 7 | 1 << 29 | 1 << 4}, False, "bits 0x10"),
        ({2: 0x240 << 7}, False, "a 1D image has height 1, not 33"),
        ({3: 1 << 28}, False, "tiled or compressed"),
        ({3: 1 << 27}, False, "tiled or compressed"),
        ({3: 1 << 29}, False, "d3: upper bits 0x1"),
        ({3: 1}, False, "array pitch 0x1000 is less than 33 rows of 0x240"),
        ({4: HALF[4] | 32}, False, "is not 64-byte aligned"),
        ({5: HALF[5] | 2 << 17}, False, "2 layers"),
        ({5: HALF[5] | 1 << 30}, False, "d5: upper bits 0x1"),
        ({2: 0x240 << 7 | 3 << 29}, False, "a 3D image without depth"),
        ({3: 1 << 23}, False, "a minimum layer size without layers"),
        ({3: 1 << 20}, False, "array pitch 0x100000000 is over 4 GiB"),
        ({11: 1}, False, "d11 = 0x1"),
        ({15: 0x80000000}, False, "d15 = 0x80000000"),
    ],
)
def test_images_that_are_not_modelled_are_refused(change: dict[int, int], writable: bool, text: str) -> None:
    with pytest.raises(Refused) as failure:
        images.decode_image(raw(HALF, change), writable)
    assert text in str(failure.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({1: 0}, "0x0 texels"),
        ({1: 0x3FFFFFFF}, "0x3fffffff texels"),
        ({2: 4 << 29 | 2 << 4}, "struct size 2"),
        ({2: 4 << 29 | 1 << 4 | 3 << 16}, "start 3"),
        ({2: 4 << 29 | 1 << 4 | 1 << 22}, "a buffer has no pitch"),
        ({3: 1}, "a buffer has no layers"),
    ],
)
def test_buffers_that_are_not_modelled_are_refused(change: dict[int, int], text: str) -> None:
    words = (UINT32 << 22, 10, 4 << 29 | 1 << 4, 0, *lo_hi(IMAGE_VA))
    with pytest.raises(Refused) as failure:
        images.decode_image(raw(words, change), True)
    assert text in str(failure.value)


def test_a_sampler() -> None:
    sampler = images.decode_sampler(struct.pack("<4I", *SAMPLER))
    assert sampler.shape == SamplerShape(True, (3, 3, 3), (0, 0))
    assert sampler.border == 0
    edge = images.decode_sampler(struct.pack("<4I", 1 << 5 | 1 << 8 | 2 << 11 | 1 << 1 | 1 << 3, 0, 3 << 7, 0))
    assert edge == images.Sampler(SamplerShape(False, (1, 1, 2), (1, 1)), None)
    assert images.decode_sampler(struct.pack("<4I", *SAMPLER[:2], 3 << 7, 0)).border == 384


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((5 << 5, 0x20, 0, 0), "wrap modes (5, 0, 0)"), ((2 << 3, 0x20, 0, 0), "filters 2, 0"),
        ((3 << 1, 0x20, 0, 0), "filters 0, 3"), ((1 << 14, 0x20, 0, 0), "anisotropy"),
        ((1 << 17, 0x20, 0, 0), "anisotropy"), ((1 << 19, 0x20, 0, 0), "level bias"), ((0, 0x22, 0, 0), "comparison"),
        ((0, 0xA0, 0, 0), "bit 7"), ((0, 0x20, 1, 0), "reduction"), ((0, 0x20, 0, 1), "d3 = 0x1"),
    ],
)  # fmt: skip
def test_samplers_that_are_not_modelled_are_refused(words: tuple[int, ...], text: str) -> None:
    with pytest.raises(Refused) as failure:
        images.decode_sampler(struct.pack("<4I", *words))
    assert text in str(failure.value)


def test_a_ubo() -> None:
    assert images.decode_ubo(struct.pack("<2I", 0x3000, 0x10 | 4 << 17)) == (0x10_0000_3000, 64)
    for words in ((0x3008, 4 << 17), (0x3000, 0)):
        with pytest.raises(Refused, match="UBO at"):
            images.decode_ubo(struct.pack("<2I", *words))


def load(kind: int, block: int, units: int, va: int, first: int = 0) -> list[int]:
    return type7(0x34, first | kind << 14 | 2 << 16 | block << 18 | units << 22, *lo_hi(va))


# One texture, one sampler, one writable image, as the registers say it
COUNTS = {0xA9BB: 0x100 | 1 << 9 | 1 << 17 | 1 << 22, 0xA9BA: 1, 0xAA00: 1}
BASES = {
    0xA9E2: SAMPLERS_VA & 0xFFFFFFFF, 0xA9E3: SAMPLERS_VA >> 32, 0xA9E6: TEXTURES_VA & 0xFFFFFFFF,
    0xA9E7: TEXTURES_VA >> 32, 0xA9F2: IBOS_VA & 0xFFFFFFFF, 0xA9F3: IBOS_VA >> 32,
    0xB180: BORDER_VA & 0xFFFFFFFF, 0xB181: BORDER_VA >> 32,
}  # fmt: skip
LOADS = [*load(0, 5, 1, SAMPLERS_VA), *load(1, 5, 1, TEXTURES_VA), *load(3, 13, 1, IBOS_VA)]


@pytest.fixture
def stage(bench: Bench) -> Bench:
    bench.space.write(TEXTURES_VA, raw(HALF) + raw(FLOAT))
    bench.space.write(SAMPLERS_VA, struct.pack("<8I", *SAMPLER, *SAMPLER))
    bench.space.write(IBOS_VA, raw(IBO))
    return bench


def refused(bench: Bench, words: list[int]) -> str:
    with pytest.raises(EmulatorRefusal) as failure:
        bench.submit(*words)
    assert bench.launches == []
    return str(failure.value)


def watch(bench: Bench, number: int) -> list[tuple[int, ...]]:
    """What a bank holds at each launch from now on."""
    seen: list[tuple[int, ...]] = []

    def look(launch: Launch) -> Result:
        pointer, nbytes = launch.constants[number]
        seen.append(struct.unpack(f"<{nbytes // 4}I", ctypes.string_at(pointer, nbytes)))
        return Result(1)

    bench.on_launch = look
    return seen


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, (*lo_hi(IMAGE_VA), 65, 33, 1, 0x240, 0, 0)),
        (2, (*lo_hi(IMAGE_VA), 65, 33, 1, 0x440, 0, 0)),
    ],
)
def test_loaded_descriptors_become_rows_and_shapes(stage: Bench, number: int, expected: tuple[int, ...]) -> None:
    seen = watch(stage, number)
    stage.submit(*dispatch(COUNTS | BASES, before=LOADS))
    assert seen == [expected]
    setup = stage.launches[0].setup
    assert setup is not None
    assert setup.textures == (ImageShape(RGBA16F, "2d", (0, 1, 2, 3), 0, False),)
    assert setup.images == (ImageShape(RGBA32F, "2d", (0, 1, 2, 3), 0, False),)
    assert setup.samplers == (SamplerShape(True, (3, 3, 3), (0, 0)),)
    assert set(stage.launches[0].constants) == {0, 1, 2}


def test_descriptors_that_were_not_loaded_come_from_the_table(stage: Bench) -> None:
    seen = watch(stage, 1)
    counts = {0xA9BB: 0x100 | 2 << 9 | 1 << 17 | 1 << 22, 0xA9BA: 2, 0xAA00: 1}
    stage.submit(*dispatch(counts | BASES, before=LOADS))
    assert seen == [(*lo_hi(IMAGE_VA), 65, 33, 1, 0x240, 0, 0, *lo_hi(IMAGE_VA), 65, 33, 1, 0x440, 0, 0)]


def test_a_sampler_that_never_wraps_to_the_border_needs_no_color(stage: Bench) -> None:
    stage.space.write(SAMPLERS_VA, struct.pack("<4I", 1 << 5 | 1 << 8 | 1 << 11, 0x20, 0, 0))
    stage.submit(*dispatch(COUNTS | BASES | {0xB180: 0, 0xB181: 0}, before=LOADS))
    assert len(stage.launches) == 1


def test_ubos_have_rows_by_slot(stage: Bench) -> None:
    seen = watch(stage, 3)
    inline = type7(0x34, 1 | 2 << 14 | 13 << 18 | 1 << 22, 0, 0, IMAGE_VA & 0xFFFFFFFF, IMAGE_VA >> 32 | 4 << 17, 0, 0)
    stage.submit(*dispatch(before=inline))
    assert seen == [(0, 0, 0, 0, *lo_hi(IMAGE_VA), 64, 0)]
    setup = stage.launches[0].setup
    assert setup is not None
    assert setup.ubos == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {0xA9E6: (TEXTURES_VA & 0xFFFFFFFF) + 64},
            f"textures 0 was loaded from {TEXTURES_VA:#x}, not from that table",
        ),
        ({0xA9E6: (TEXTURES_VA & 0xFFFFFFFF) + 16}, "not 64-byte aligned"),
        ({0xA9E2: (SAMPLERS_VA & 0xFFFFFFFF) + 8}, "SP_CS_TEX_SAMP (0xa9e2) = 0x1001001008: not 16-byte aligned"),
        ({0xA9F2: 0, 0xA9F3: 0}, "SP_CS_IBO (0xa9f2) = 0x0: never set"),
        ({0xB180: 0, 0xB181: 0}, "SP_PS_TP_BORDER_COLOR_BASE_ADDR (0xb180) = 0x0: samplers 0 needs border colors"),
        ({0xB180: (BORDER_VA & 0xFFFFFFFF) + 64}, "128-byte aligned"),
        ({0xA9BB: 0x100 | 1 << 17 | 1 << 22, 0xA9BA: 0}, "textures up to 0 were loaded, SP_CS_CONFIG counts 0"),
        ({0xA9BB: 0x100 | 1 << 9 | 1 << 22}, "samplers up to 0 were loaded, SP_CS_CONFIG counts 0"),
        ({0xA9BB: 0x100 | 1 << 9 | 1 << 17, 0xAA00: 0}, "IBOs up to 0 were loaded, SP_CS_CONFIG counts 0"),
        ({0xA9BA: 2}, "SP_CS_TEX_COUNT (0xa9ba) = 0x2: SP_CS_CONFIG says 1"),
    ],
)
def test_tables_and_counts_must_agree(stage: Bench, change: dict[int, int], text: str) -> None:
    assert text in refused(stage, dispatch(COUNTS | BASES | change, before=LOADS))


def test_a_descriptor_is_refused_with_its_slot(stage: Bench) -> None:
    stage.space.write(IBOS_VA, raw(IBO, {0: 0x07 << 22}))
    assert "IBOs 0: d0 = 0x01c00000: format 0x7" in refused(stage, dispatch(COUNTS | BASES, before=LOADS))


def test_an_image_that_leaves_its_memory_is_a_page_fault(stage: Bench) -> None:
    stage.space.write(TEXTURES_VA, raw(HALF, {4: UNMAPPED_VA & 0xFFFFFFFF}))
    stage.submit(*dispatch(COUNTS | BASES, before=LOADS))
    assert (stage.faults[0].kind, stage.faults[0].address) == (PAGE_FAULT, UNMAPPED_VA)
    assert stage.u32(SIGNAL_VA) == 0


def test_a_border_color_other_than_zero_is_refused(stage: Bench) -> None:
    stage.space.write_u32(BORDER_VA + 16, 1)
    assert "the border color of samplers 0 is not zero" in refused(stage, dispatch(COUNTS | BASES, before=LOADS))


def test_images_are_dropped_by_their_own_bit(stage: Bench) -> None:
    """Bit 6 of HLSQ_INVALIDATE_CMD; bit 5 drops textures and samplers with the rest of the shader's state."""
    stage.submit(*dispatch(COUNTS | BASES, before=LOADS))
    stage.submit(0x40BB0801, 0x40)
    tables = stage.context.cp.state.tables
    assert [len(tables[kind]) for kind in ("textures", "samplers", "IBOs")] == [1, 1, 0]
    stage.submit(0x40BB0801, 0x20)
    assert [len(tables[kind]) for kind in ("textures", "samplers", "IBOs")] == [0, 0, 0]
