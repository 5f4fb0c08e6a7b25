"""OpenCL binaries of the tests' own writer: every field lands where it belongs, damaged files say so and no more."""

from __future__ import annotations

import random
import struct

import pytest
from clwriter import BUFFER, IMAGE, TEXTURE, ClBinary
from hypothesis import given, settings
from hypothesis import strategies as st

from hcqrt.errors import BinaryError
from hcqrt.qcom import loader
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.shader import Argument, ConstRange

CODE = bytes(range(256)) * 3
FULL = dict(
    code=CODE,
    name="copy_image",
    arguments=[(0, BUFFER), (0, TEXTURE), (16, BUFFER), (0, IMAGE), (20, BUFFER), (0, TEXTURE)],
    constants=[(0x3F80_0000, 8, 1), (0xBEEF, 18, 0), (0x1234, 19, 0)],
    full_regs=9,
    half_regs=5,
    first_exec=64,
    private=600,
    shared=2048,
    samplers=1,
    branch_stack=6,
)


def load(data, name=None, arch=A6XX):
    return loader.load(data, name, arch)


def test_every_field_of_a_binary():
    shader = load(ClBinary(**FULL).build(), "copy_image")
    assert (shader.name, shader.code, shader.entry) == ("copy_image", CODE, 64)
    assert (shader.full_regs, shader.half_regs, shader.branch_stack) == (9, 5, 3)
    assert (shader.private_bytes, shader.shared_bytes) == (600, 2048)
    assert shader.instrlen == 6  # 768 bytes
    assert shader.samplers == 2  # one in the file, and one more like it
    assert shader.images == 1
    assert shader.textures == (0, 1)
    assert shader.arguments == (
        Argument("buffer", 0, 8),
        Argument("texture"),
        Argument("buffer", 16, 4),
        Argument("image"),
        Argument("buffer", 20, 8),
        Argument("texture"),
    )
    # 32-bit constant 8 at byte 32; 16-bit constants 18 and 19 at bytes 36 and 38
    assert shader.block == bytes(32) + struct.pack("<IHH", 0x3F80_0000, 0xBEEF, 0x1234) + bytes(8)
    assert shader.ranges == (ConstRange(0, 48, 0),)
    assert shader.constlen == 256
    ids = (shader.group_id, shader.group_size, shader.group_offset, shader.local_id, shader.linear_id)
    assert ids == (0xCF, 0xC0, 0xCC, 0x00, 0xFC)
    assert (shader.opencl_launch, shader.isam_cl, shader.constant_demotion) == (True, True, False)
    assert (shader.merged_regs, shader.double_threads, shader.required_local) == (False, False, None)


def test_a_kernel_without_registers_has_the_one_that_the_local_id_comes_in():
    shader = load(ClBinary(full_regs=0).build(), "kernel")
    assert (shader.full_regs, shader.local_id) == (1, 0)


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd", "vector_add", "f0", "abcd0", "_x", "k" * 63])
@pytest.mark.parametrize("samplers", [0, 1, 3])
def test_the_argument_table_moves_with_the_name_and_the_samplers(name, samplers):
    binary = ClBinary(name=name, samplers=samplers, arguments=[(0, BUFFER), (8, BUFFER), (16, BUFFER)]).build()
    for asked in (name, None):
        shader = load(binary, asked)
        assert shader.name == name
        assert [argument.offset for argument in shader.arguments] == [0, 8, 16]


def test_records_of_another_length_and_a_table_that_ends_with_the_file():
    binary = ClBinary(arguments=[(0, BUFFER), (8, BUFFER)], record_bytes=64).build()
    assert len(load(binary, "kernel").arguments) == 2
    assert len(load(binary[:-4], "kernel").arguments) == 2


def test_a_wrong_name_lists_the_one_there():
    binary = ClBinary(name="vector_add").build()
    with pytest.raises(BinaryError, match=r"no kernel 'vector_sub' in the file; it has: vector_add"):
        load(binary, "vector_sub")


def test_constants_beyond_two_kib_have_their_place():
    """tinygrad's argument block has its tables at byte 2048; ours starts them behind the last constant."""
    binary = ClBinary(arguments=[(0, BUFFER), (2048, BUFFER)], constants=[(7, 1000, 1)]).build()
    shader = load(binary, "kernel")
    assert len(shader.block) == 4016
    assert shader.block[4000:4004] == struct.pack("<I", 7)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(full_regs=64), "64 full and 0 half registers"),
        (dict(half_regs=100), "0x64|100 half"),
        (dict(shared=32769), "32769 bytes of local memory"),
        (dict(private=65537), "65537 bytes of private memory"),
        (dict(samplers=31), "31 samplers"),
        (dict(branch_stack=127), "127 levels"),
        (dict(first_exec=8), "8 bytes before the first instruction"),
        (dict(code=bytes(12)), "12 bytes of code"),
        (dict(code=b""), "neither|0 bytes of code"),
        (dict(arguments=[(0, 3)]), "kind 3"),
        (dict(arguments=[(0, BUFFER)], record_bytes=32 + 4097), "record of 4129 bytes"),
        (dict(arguments=[(4096, BUFFER)]), "argument at 0x1000"),
        (dict(arguments=[(0, BUFFER), (0, BUFFER)]), "argument at 0x0"),
        (dict(arguments=[(4, BUFFER)], constants=[(1, 1, 1)]), "argument at 0x4"),
        (dict(arguments=[(0, BUFFER)], constants=[(1, 1, 0)]), "argument at 0x0"),
        (dict(constants=[(1, 1024, 1)]), "at 0x1000 of 0x1000"),
        (dict(constants=[(0x10000, 0, 0)]), "0x10000 of 2 bytes"),
        (dict(constants=[(1, 0, 2)]), "width 2"),
        (dict(arguments=[(0, IMAGE)] * 128), "more images"),
    ],
)
def test_what_the_hardware_cannot_have_is_named(change, text):
    with pytest.raises(BinaryError, match=text):
        load(ClBinary(**change).build(), "kernel")


def test_a_file_cut_anywhere_is_a_binary_error_or_whole():
    whole = ClBinary(**FULL).build()
    for length in range(len(whole)):
        try:
            shader = load(whole[:length], "copy_image")
        except BinaryError:
            continue
        assert len(shader.arguments) < 6 or length >= len(whole) - 4  # a file may end between two records


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_damaged_files_raise_nothing_but_binary_errors(seed, count):
    rng = random.Random(seed)
    binary = ClBinary(**FULL)
    data = bytearray(binary.build())
    interesting = [0x34, 0xAC, 0xB0, 0xC0, 0x100, 0x110, *range(binary.places["kernel"] + 0xC4, len(data))]
    for _ in range(count):
        place = rng.choice(interesting) if rng.random() < 0.7 else rng.randrange(len(data))
        if rng.random() < 0.5:
            data[place] = rng.randrange(256)
        else:
            value = rng.choice([0, 1, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, len(data), len(data) - 4])
            data[place : place + 4] = struct.pack("<I", value)
    for name in ("copy_image", None):
        try:
            load(bytes(data), name)
        except BinaryError as error:
            assert str(error)
