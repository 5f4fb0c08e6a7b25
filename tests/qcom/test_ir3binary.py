"""ir3 images: fields where the facts put them, what Mesa's compiler really makes, damage, other vendors' files."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir3_corpus import ir3_kernels
from ir3image import ir3_image
from nak_corpus import missing_packages

from hcqrt.errors import BinaryError
from hcqrt.qcom import loader
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.shader import ConstRange, DriverParams

CODE = bytes(range(128)) * 4


def load(data, name=None, arch=A6XX):
    return loader.load(data, name, arch)


def test_every_field_of_an_image():
    shader = load(
        ir3_image(
            CODE,
            immediates=[1, 2, 3, 4, 5],
            ranges=((0, 0, 64, 0), (0, 64, 96, 80)),
            allocations={3: (7, 4), 4: (0, 7)},
            max_const=11,
            tex_to_image=(1, 0),
            max_reg=6,
            max_half_reg=2,
            double_threadsize=1,
            branchstack=5,
            instrlen=3,
            constlen=16,
            pvtmem_size=130,
            pvtmem_per_wave=1,
            early_preamble=1,
            shared_size=4096,
            num_tex=2,
            num_uavs=5,
            mergedregs=1,
            local_invocation_id=1,
            work_group_id=0xC4,
        ),
        "k",
    )
    assert (shader.name, shader.code, shader.instrlen, shader.entry) == ("k", CODE, 3, 0)
    assert (shader.full_regs, shader.half_regs, shader.branch_stack, shader.constlen) == (7, 3, 3, 16)
    assert shader.ranges == (ConstRange(0, 64, 0), ConstRange(64, 96, 80))
    assert shader.block == bytes(96)
    assert shader.constants == ((176, struct.pack("<5I12x", 1, 2, 3, 4, 5)),)
    assert shader.driver_params == DriverParams(112, 64)
    assert (shader.private_bytes, shader.private_per_wave, shader.shared_bytes) == (130, True, 4096)
    assert (shader.textures, shader.images, shader.samplers) == ((1, 0), 3, 2)
    ids = (shader.group_id, shader.group_size, shader.group_offset, shader.local_id, shader.linear_id)
    assert ids == (0xC4, 0xFC, 0xFC, 1, 0xFC)
    assert (shader.merged_regs, shader.double_threads, shader.early_preamble) == (True, True, True)
    assert (shader.opencl_launch, shader.isam_cl, shader.constant_demotion) == (False, False, True)
    assert shader.arguments is None
    assert shader.required_local is None


def test_a_fixed_local_size_is_kept_and_no_registers_are_none():
    shader = load(
        ir3_image(local_size_variable=0, local_x=8, local_y=4, local_z=2, max_reg=-1, local_invocation_id=0xFC), None
    )
    assert shader.required_local == (8, 4, 2)
    assert (shader.full_regs, shader.half_regs, shader.name) == (0, 0, "main")


def test_numbers_that_just_fit_their_registers():
    assert load(ir3_image(work_group_id=0xDD, local_invocation_id=13)).local_id == 13
    assert load(ir3_image(work_group_id=0xFC, local_invocation_id=0xFC)).group_id == 0xFC


@pytest.mark.parametrize(("nesting", "field"), [(0, 0), (1, 1), (2, 1), (3, 2), (63, 32), (64, 32), (1000, 32)])
def test_the_branch_stack_is_half_of_the_nesting(nesting, field):
    """ceil(min(nesting, 64) / 2): qcom facts 3, item 8."""
    assert load(ir3_image(branchstack=nesting)).branch_stack == field


def test_immediates_beyond_constlen_are_not_loaded():
    """Mesa cuts CONSTLEN where nothing reads the rest."""
    shader = load(ir3_image(immediates=range(1, 21), max_const=4, constlen=8))
    assert shader.constants == ((64, struct.pack("<16I", *range(1, 17))),)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(stage=4), "stage 4"),
        (dict(bindless_tex=1), "bindless_tex"),
        (dict(bindless_ubo=1), "bindless_ubo"),
        (dict(num_ssbos=1), "1 SSBOs"),
        (dict(constant_data=64), "64 bytes of constant data"),
        (dict(max_reg=48), "max_reg is 48"),
        (dict(max_half_reg=-2), "max_half_reg is -2"),
        (dict(constlen=260), "constlen is 260"),
        (dict(constlen=6), "constlen 6"),
        (dict(instrlen=3), "instrlen is 3"),
        (dict(instrlen=0), "instrlen is 0"),
        (dict(code=bytes(192)), "192 bytes of code"),
        (dict(shared_size=32769), "shared_size is 32769"),
        (dict(pvtmem_size=65537), "pvtmem_size is 65537"),
        (dict(num_tex=1, num_uavs=0), "of 0 images"),
        (dict(num_tex=1, num_uavs=1, tex_to_image=(1,)), r"\(1,\) of 1"),
        (dict(num_uavs=128), "num_uavs is 128"),
        (dict(work_group_id=0x100), "work_group_id is 256"),
        (dict(work_group_id=0xBF), "work_group_id in register 0xbf"),
        (dict(work_group_id=0xDE), "work_group_id in register 0xde"),
        (dict(local_invocation_id=14), "three registers from 0xe, the shader has 16"),
        (dict(max_reg=-1), "three registers from 0x0, the shader has 0"),
        (dict(local_size_variable=0), r"local size \(0, 0, 0\)"),
        (dict(local_size_variable=0, local_x=1024, local_y=2, local_z=1), "local size"),
        (dict(ranges=((1, 0, 64, 0),)), "uniform buffer 1"),
        (dict(ranges=((0, 0, 80, 0),)), "arguments 0 to 80 at 0 of 64"),
        (dict(ranges=((0, 0, 60, 0),)), "arguments 0 to 60"),
        (dict(ranges=((0, 64, 0, 0),)), "arguments 64 to 0"),
        (dict(allocations={3: (4, 4)}), "64 bytes of driver parameters at 64"),
        (dict(allocations={8: (0, 1)}), "constants of kind 8"),
        (dict(immediates=[1], max_const=4), "immediates at 64 of 64"),
    ],
)
def test_what_cannot_be_launched_is_named(change, text):
    with pytest.raises(BinaryError, match=text):
        load(ir3_image(**change))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 8))
def test_damaged_images_raise_nothing_but_binary_errors(seed, count):
    rng = random.Random(seed)
    data = bytearray(ir3_image(immediates=[1, 2], constlen=8, tex_to_image=(0,), num_tex=1, num_uavs=2))
    for _ in range(count):
        place = rng.randrange(len(data) - 4)
        data[place : place + 4] = struct.pack(
            "<I", rng.choice([0, 1, 0xFF, 0x8000_0000, 0xFFFF_FFFF, rng.getrandbits(32)])
        )
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    try:
        load(bytes(data))
    except BinaryError as error:
        assert str(error)


@pytest.mark.skipif(bool(missing_packages()), reason="needs the extra `mesa`")
def test_what_mesa_makes_is_read_whole():
    """The offsets hold for the installed build: sizes add up, and every field is in its range, for the whole corpus."""
    kernels = ir3_kernels()
    assert len(kernels) >= 300
    for kernel in kernels:
        shader = load(kernel.blob)
        code = struct.pack(f"<{len(kernel.words)}Q", *kernel.words)
        assert shader.code == code
        (size,) = struct.unpack_from("<I", kernel.blob, 224)
        assert size == len(code)
        used = len(code.rstrip(b"\0"))
        assert used <= shader.instrlen * 128 <= len(code)
        assert shader.required_local is not None
        assert shader.group_id in (0xC0, 0xFC)
        assert shader.ranges or shader.images or shader.textures


FILES = [
    (b"", "empty"),
    (b"\x7fELF" + bytes(14) + b"\xbe\x00" + bytes(400), "cubin for machine 190"),
    (b"\x7fELF" + bytes(14) + b"\xb7\x00" + bytes(400), "AArch64"),
    (b"\x7fELF" + bytes(14) + b"\xe0\x00" + bytes(400), "AMD"),
    (b"// comment\n.version 8.0\n", "PTX"),
    (b".version 8.0\n.target sm_86\n", "PTX"),
    (b"\n\n__kernel void f() {}", "OpenCL source"),
    (b"kernel void f() {}", "OpenCL source"),
    (b"int main() { return 0; }", "source text"),
    (b"\x03\x02\x23\x07" + bytes(64), "SPIR-V"),
    (b"BC\xc0\xde" + bytes(64), "LLVM bitcode"),
    (b"\x50\xed\x55\xba" + bytes(64), "fatbin"),
    (b"MTLB" + bytes(64), "Metal"),
    (b"\x1f\x8b\x08" + bytes(64), "gzip"),
    (bytes(4096), "neither"),
    (bytes(range(256)) * 20, "neither"),
]


@pytest.mark.parametrize(("data", "text"), FILES, ids=[text for _, text in FILES])
def test_other_files_are_called_by_their_name(data, text):
    with pytest.raises(BinaryError, match=text):
        load(data)


def test_a_nak_shader_is_no_ir3_shader():
    """The other compiler of the same package: its record starts with stage and sm, 728 bytes before the code."""
    with pytest.raises(BinaryError, match="neither"):
        load(struct.pack("<I3B5xI", 5, 86, 16, 0, 4).ljust(728, b"\0") + bytes(64))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=6000))
def test_random_bytes_are_a_binary_error(data):
    with pytest.raises(BinaryError):
        load(data)
