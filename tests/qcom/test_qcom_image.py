"""Images: pitch rules, limits, row copies, and descriptors word by word against qcom facts 4."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.qcom.image import FORMATS, layout_for, sampler, storage, texture

F16, F32 = "FMT6_16_16_16_16_FLOAT", "FMT6_32_32_32_32_FLOAT"
VA = 0x7F_1234_5680  # above 4 GiB, 64-byte aligned

# qcom facts 4, "Formats": number and bytes of a texel
NUMBERS = {
    "FMT6_8_UNORM": (0x03, 1), "FMT6_8_UINT": (0x05, 1), "FMT6_8_SINT": (0x06, 1),
    "FMT6_16_UNORM": (0x15, 2), "FMT6_16_FLOAT": (0x17, 2), "FMT6_16_UINT": (0x18, 2), "FMT6_16_SINT": (0x19, 2),
    "FMT6_8_8_8_8_UNORM": (0x30, 4), "FMT6_8_8_8_8_UINT": (0x33, 4), "FMT6_8_8_8_8_SINT": (0x34, 4),
    "FMT6_10_10_10_2_UNORM": (0x36, 4), "FMT6_11_11_10_FLOAT": (0x42, 4), "FMT6_16_16_FLOAT": (0x45, 4),
    "FMT6_32_FLOAT": (0x4A, 4), "FMT6_32_UINT": (0x4B, 4), "FMT6_32_SINT": (0x4C, 4),
    "FMT6_16_16_16_16_UNORM": (0x60, 8), F16: (0x62, 8), "FMT6_16_16_16_16_UINT": (0x63, 8),
    "FMT6_16_16_16_16_SINT": (0x64, 8), "FMT6_32_32_FLOAT": (0x67, 8), "FMT6_32_32_32_FLOAT": (0x74, 12),
    F32: (0x82, 16), "FMT6_32_32_32_32_UINT": (0x83, 16), "FMT6_32_32_32_32_SINT": (0x84, 16),
}  # fmt: skip


def words(descriptor):
    return struct.unpack("<16I", descriptor)


def test_the_formats_are_those_of_the_facts():
    assert set(FORMATS) == set(NUMBERS)
    for name, (number, texel_bytes) in NUMBERS.items():
        layout = layout_for((4, 4, name))
        assert layout.texel_bytes == texel_bytes
        assert words(storage(layout, VA))[0] >> 22 & 0xFF == number


def test_sizes_may_be_numpy_integers_and_nothing_but_integers():
    numpy = pytest.importorskip("numpy")
    assert layout_for((numpy.int64(5), numpy.uint16(300), F16)) == layout_for((5, 300, F16))
    assert type(layout_for((numpy.int64(5), 1, F16)).pitch) is int
    for image in ((1.5, 1, F16), ("4", 1, F16), (1, None, F16)):
        with pytest.raises(ValueError, match="allowed are 1 to 16384"):
            layout_for(image)
    with pytest.raises(ValueError, match=r"format \[\] is not supported"):
        layout_for((1, 1, []))


@pytest.mark.parametrize("name", sorted(NUMBERS))
@pytest.mark.parametrize("width", [1, 3, 63, 64, 65, 257, 16384])
def test_pitch_obeys_both_rules(name, width):
    """A multiple of 64 bytes and of 1 << (6 + PITCHALIGN); at least Mesa's minimum for layouts made by hand."""
    layout = layout_for((width, 2, name))
    align = words(texture(layout, VA))[2] & 0xF
    texel = NUMBERS[name][1]
    least = {1: 64, 2: 64, 4: 64, 8: 128, 12: 256, 16: 256}[texel]
    assert layout.pitch % 64 == layout.pitch % (1 << 6 + align) == layout.pitch % least == 0
    assert width * texel <= layout.pitch < width * texel + least
    assert layout.nbytes == 2 * layout.pitch


def test_a_half_float_texture_word_by_word():
    layout = layout_for((201, 31, F16))
    assert layout.pitch == 1664  # 1608 rounded up to 128
    assert words(texture(layout, VA)) == (
        0x62 << 22 | 3 << 13 | 2 << 10 | 1 << 7,  # linear, xyzw
        201 | 31 << 15,
        1 << 29 | 1664 << 7 | 1,  # 2D, PITCHALIGN 1
        0,
        0x1234_5680,
        0x7F | 1 << 17,  # one layer
        *[0] * 10,
    )


def test_a_stored_image_has_no_swizzle():
    layout = layout_for((16, 4, F32))
    head = (0x82 << 22, 16 | 4 << 15, 1 << 29 | 256 << 7 | 2, 0, 0x1234_5680, 0x7F | 1 << 17)
    assert words(storage(layout, VA)) == (*head, *[0] * 10)


@pytest.mark.parametrize(
    ("name", "swizzle"),
    [("FMT6_32_FLOAT", (0, 4, 4, 5)), ("FMT6_16_16_FLOAT", (0, 1, 4, 5)), ("FMT6_32_32_32_FLOAT", (0, 1, 2, 5)),
     ("FMT6_8_8_8_8_UNORM", (0, 1, 2, 3))],
)  # fmt: skip
def test_components_that_a_format_lacks_read_as_zero_and_one(name, swizzle):
    first = words(texture(layout_for((4, 4, name)), VA))[0]
    assert tuple(first >> 4 + 3 * component & 7 for component in range(4)) == swizzle


def test_the_sampler_is_the_one_of_the_facts():
    assert struct.unpack("<4I", sampler()) == (0x1B60, 0x30, 0, 0)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ((0, 1, F16), "width 0"),
        ((1, 0, F16), "height 0"),
        ((16385, 1, F16), "width 16385.*16384"),
        ((1, 16385, F32), "height 16385"),
        ((1.5, 1, F16), "width 1.5"),
        ((4, 4, "RGBA16"), "'RGBA16' is not supported; supported are FMT6_8_UNORM"),
        ((4, 4), "give .width, height, format."),
        (7, "give .width, height, format."),
    ],
)
def test_what_the_hardware_has_no_image_of_is_refused(image, text):
    with pytest.raises(ValueError, match=text):
        layout_for(image)


def test_the_largest_image_fits_its_descriptor():
    layout = layout_for((16384, 16384, F32))
    assert words(texture(layout, VA))[1:3] == (16384 | 16384 << 15, 1 << 29 | 262144 << 7 | 2)


def test_descriptors_need_their_alignment():
    with pytest.raises(ValueError, match="64"):
        texture(layout_for((4, 4, F16)), VA + 32)


@given(st.integers(1, 70), st.integers(1, 9), st.sampled_from(sorted(NUMBERS)), st.integers(0, 1 << 30))
def test_rows_spread_and_gathered_are_the_same(width, height, name, seed):
    layout = layout_for((width, height, name))
    data = random.Random(seed).randbytes(layout.tight_bytes)
    memory = layout.spread(data)
    assert len(memory) == layout.nbytes
    for row in range(height):
        expected = data[row * layout.row_bytes : (row + 1) * layout.row_bytes]
        assert memory[row * layout.pitch :][: layout.row_bytes] == expected
    assert layout.gather(memory) == data
    for wrong in (data + b"x", data[:-1]):
        with pytest.raises(ValueError, match=str(layout.tight_bytes)):
            layout.spread(wrong)
    with pytest.raises(ValueError, match=f"takes {layout.nbytes} bytes"):
        layout.gather(memory + b"x")


def test_formats_have_the_numbers_of_the_projects_copy_of_the_facts():
    copy = Path(__file__).resolve().parents[1] / "facts" / "adreno.json"
    enum = json.loads(copy.read_text())["enums"]["a6xx_format"]
    assert {name: enum[name] for name in NUMBERS} == {name: number for name, (number, _) in NUMBERS.items()}
