"""Programs on an emulated Adreno: limits, arguments, kinds, descriptors; nothing is submitted when one is wrong."""

from __future__ import annotations

import struct
import warnings
from dataclasses import replace

import numpy as np
import pytest
from clwriter import BUFFER, IMAGE, TEXTURE, ClBinary
from ir3image import ir3_image

import hcqrt
from hcqrt.errors import BinaryError, DeviceNotFound, HCQError, LaunchError
from hcqrt.isa.ir3 import assemble, pack
from hcqrt.qcom.arch import chip_for
from hcqrt.qcom.arch.a6xx import A630, A650

F16 = "FMT6_16_16_16_16_FLOAT"

# qcom facts 3.3: out[i] = in[i] + 5, u32, groups of 64; pointers to out and in are c0.x and c0.z
ADD_FIVE = (
    0x46D80803200600C0, 0x4218080300000003, 0x46D8080320020003, 0x4210000410020003, 0x202CC00500000003,
    0x4210000810000003, 0x202CC00900000001, 0x0000050000000000, 0xC006000601810001, 0x5210000620050006,
    0x0000050000000000, 0xC0C611000180000C, 0x0300000000000000,
)  # fmt: skip
# as OpenCL binaries have it: the group id is in r51.w, register number 0xCF in the first word's low byte
CL_ADD_FIVE = struct.pack("<13Q", ADD_FIVE[0] | 0xF, *ADD_FIVE[1:])
IR3_ADD_FIVE = struct.pack("<13Q", *ADD_FIVE).ljust(256, b"\0")


def cl_add(**more):
    return ClBinary(code=CL_ADD_FIVE, name="add_five", arguments=[(0, BUFFER), (8, BUFFER)], **more).build()


def submissions(system):
    return sum(1 for call in system.ioctl_log if "GPU_COMMAND" in str(call))


@pytest.fixture
def nothing_submitted(qcom, adreno):
    """Fails the test when it submits anything."""
    qcom.synchronize()
    before = submissions(adreno)
    assert before > 0  # the log does show submissions
    yield
    assert submissions(adreno) == before


@pytest.fixture
def buffers(qcom):
    made = [qcom.alloc(1024) for _ in range(2)]
    yield made
    for buf in made:
        buf.close()


def run_add_five(qcom, binary, name="add_five", groups=4):
    data = np.random.default_rng(7).integers(0, 1 << 32, 64 * groups, dtype=np.uint32)
    out, source = (qcom.alloc(data.nbytes) for _ in range(2))
    source.copyin(data)
    program = qcom.program(binary, name)
    program(out, source, global_size=(groups, 1, 1), local_size=(64, 1, 1))
    result = np.frombuffer(bytes(out.copyout()), np.uint32)
    assert (result == data + np.uint32(5)).all()
    for thing in (out, source, program):
        thing.close()


def test_an_opencl_binary_runs(qcom):
    run_add_five(qcom, cl_add())


def test_an_ir3_image_runs(qcom):
    run_add_five(qcom, ir3_image(IR3_ADD_FIVE, max_reg=2))


def test_constants_of_an_opencl_binary_reach_the_constant_file_beyond_two_kib(qcom):
    """c0.w of the output address is the compiler's constant; another one lies at 3200 bytes: tables do not hit it."""
    run_add_five(qcom, cl_add(constants=[(0x1234, 800, 1), (7, 5, 1)]))
    program = qcom.program(cl_add(constants=[(0x1234, 800, 1), (7, 5, 1)]), "add_five")
    out = qcom.alloc(64)
    args = program.fill_kernargs([out, out])
    slot = bytes(args.mv[args.offset : args.offset + program.slot_bytes])
    assert slot[:24] == struct.pack("<QQII", out.va_addr, out.va_addr, 0, 7)
    assert slot[3200:3204] == struct.pack("<I", 0x1234)
    assert program.slot_bytes == 3328
    out.close()
    program.close()


def test_immediates_and_split_arguments_of_an_ir3_image_reach_their_constants(qcom):
    """out in c0.x, in behind the immediates in c6.x; the addend is the second immediate, c4.y."""
    source = """
        shl.b r0.w, r48.x, 6
        add.u r0.w, r0.w, r0.x
        shl.b r0.w, r0.w, 2
        add.u r1.x, r0.w, c6.x
        mov.u32u32 r1.y, c6.y
        add.u r2.x, r0.w, c0.x
        mov.u32u32 r2.y, c0.y
        (rpt5)nop
        ldg.u32 r1.z, g[r1.x], 1
        (sy)add.u r1.z, r1.z, c4.y
        (rpt5)nop
        stg.u32 g[r2.x], r1.z, 1
        end
    """
    ranges = ((0, 0, 16, 0), (0, 32, 48, 96))  # the fifth pointer is what the second part starts with
    image = ir3_image(
        pack(assemble(source)).ljust(256, b"\0"), ranges=ranges, immediates=[1, 1000, 3], constlen=8, max_reg=2
    )
    program = qcom.program(image, "k")
    bufs = [qcom.alloc(256) for _ in range(5)]
    bufs[4].copyin(np.arange(64, dtype=np.uint32))
    program(*bufs, global_size=(1, 1, 1), local_size=(64, 1, 1))
    assert (np.frombuffer(bytes(bufs[0].copyout()), np.uint32) == np.arange(1000, 1064)).all()
    for thing in (*bufs, program):
        thing.close()


# field reports F: limits


@pytest.mark.parametrize(
    ("groups", "local", "text"),
    [
        ((65536, 1, 1), (64, 1, 1), "global_size x = 65536, allowed are 1 to 65535"),
        ((1, 65536, 1), (64, 1, 1), "global_size y = 65536"),
        ((1, 1, 65536), (64, 1, 1), "global_size z = 65536"),
        ((0, 1, 1), (64, 1, 1), "global_size x = 0"),
        ((1, 1, -1), (64, 1, 1), "global_size z = -1"),
        ((1, 1, 1), (1025, 1, 1), "local_size x = 1025, allowed are 1 to 1024"),
        ((1, 1, 1), (1, 1, 0), "local_size z = 0"),
        ((1, 1, 1), (32, 33, 1), "1056 threads"),
        ((1, 1, 1, 1), (1, 1, 1), "4 axes"),
    ],
)
def test_18_sizes_beyond_the_limits_name_axis_value_and_limit(qcom, buffers, nothing_submitted, groups, local, text):
    program = qcom.program(cl_add(), "add_five")
    with pytest.raises(LaunchError, match=text):
        program(*buffers, global_size=groups, local_size=local)
    args = program.fill_kernargs(buffers)
    with pytest.raises(LaunchError, match=text):
        qcom.compute_queue().exec(program, args, groups, local)
    program.close()


@pytest.mark.parametrize(
    ("full", "half", "merged", "chip", "threads"),
    [
        (4, 0, False, A630, 1024),
        (12, 0, False, A630, 1024),
        (12, 1, False, A630, 896),  # 12 + 2 / 2: 96 // 13 = 7 double waves
        (13, 0, False, A630, 896),
        (24, 0, False, A630, 512),
        (48, 0, False, A630, 256),
        (47, 2, False, A630, 256),
        (48, 48, False, A630, 128),
        (0, 0, False, A630, 1024),
        (12, 24, True, A630, 1024),
        (12, 0, False, A650, 640),  # a file of 64: 64 // 12 = 5 double waves
        (48, 0, False, A650, 128),
        (48, 24, False, A650, 128),
    ],
)
def test_18_registers_limit_the_threads_by_the_chips_file(full, half, merged, chip, threads):
    assert chip.max_threads(full, half, merged) == threads


def test_18_the_error_says_how_many_threads_would_fit(qcom, buffers, nothing_submitted):
    program = qcom.program(cl_add(full_regs=24), "add_five")
    assert program.resources.max_threads == 512
    with pytest.raises(LaunchError, match=r"513 threads with 24 full and 0 half.*a630 \(96 vectors\); 512 threads"):
        program(*buffers, local_size=(513, 1, 1))
    program.close()


def test_19_shared_memory_up_to_32_kib_static_and_dynamic(qcom, buffers):
    program = qcom.program(cl_add(shared=1024), "add_five")
    program(*buffers, local_size=(64, 1, 1), dynamic_shared=31 * 1024)
    with pytest.raises(LaunchError, match=r"needs 32769 bytes.*1024 static \+ 31745 dynamic.*32768"):
        program(*buffers, local_size=(64, 1, 1), dynamic_shared=31 * 1024 + 1)
    with pytest.raises(LaunchError, match="-1"):
        program(*buffers, local_size=(64, 1, 1), dynamic_shared=-2049 + 1024)
    qcom.synchronize()
    program.close()


def test_20_number_size_kind_and_owner_of_arguments(qcom, buffers, adreno_machine, nothing_submitted):
    a, b = buffers
    binary = ClBinary(code=CL_ADD_FIVE, name="k", arguments=[(0, BUFFER), (8, BUFFER), (16, BUFFER), (20, BUFFER)])
    program = qcom.program(binary.build(), "k")
    size = dict(local_size=(64, 1, 1))
    for bufs, vals, text in (
        ((a,), (1, 2), "takes 4 buffers and values, 3 were given .1 buffers, 2 values"),
        ((a, b), (1, 2, 3), "takes 4 buffers and values, 5 were given"),
        ((a, b, b), (1,), "argument 2 has 4 bytes and is no pointer"),
        ((a, b), (1 << 32, 0), "4294967296 does not fit its parameter of 4 bytes"),
        ((a, b), (-(1 << 31) - 1, 0), "does not fit"),
        ((a, b), ("x", 0), "neither an integer nor a float"),
        ((a, 3), (1, 2), "argument 1 is int, not a buffer"),
    ):
        with pytest.raises(LaunchError, match=text):
            program(*bufs, vals=vals, **size)
        with pytest.raises(LaunchError, match=text):
            program.fill_kernargs(bufs, vals)
    with hcqrt.open_device("QCOM", adreno_machine()) as other:
        foreign = other.alloc(64)
        with pytest.raises(LaunchError, match="a buffer of QCOM"):
            program(a, foreign, vals=(1, 2), **size)
        foreign.close()
    closed = qcom.alloc(64)
    closed.close()
    with pytest.raises(LaunchError, match="argument 1 is a buffer that was closed"):
        program(a, closed, vals=(1, 2), **size)
    program.close()


def test_20_an_ir3_shader_takes_no_more_than_its_block_holds(qcom, buffers, nothing_submitted):
    """The image does not list arguments: those behind the ones it reads are let pass, up to what fits the slot."""
    program = qcom.program(ir3_image(IR3_ADD_FIVE, max_reg=2), "add")
    args = program.fill_kernargs([*buffers, *buffers * 8], (1, 2))
    assert args.mv[args.offset + 144 : args.offset + 152] == struct.pack("<2I", 1, 2)
    with pytest.raises(LaunchError, match="328 bytes of arguments, it reads at most 64"):
        program.fill_kernargs([*buffers, *buffers], range(74))
    only_images = qcom.program(ir3_image(IR3_ADD_FIVE, ranges=(), num_uavs=1), "img")
    picture = qcom.alloc(0, image=(4, 4, F16))
    with pytest.raises(LaunchError, match="reads images alone; 1 buffers and 0 values"):
        only_images.fill_kernargs([picture, buffers[0]])
    for thing in (picture, program, only_images):
        thing.close()


def test_20_images_and_buffers_are_not_mixed_up(qcom, buffers, nothing_submitted):
    picture = qcom.alloc(0, image=(8, 8, F16))
    plain = buffers[0]
    copy = ClBinary(name="copy", arguments=[(0, IMAGE), (0, TEXTURE), (0, BUFFER)], samplers=1)
    program = qcom.program(copy.build(), "copy")
    for bufs, text in (
        ((plain, picture, plain), "buffer 0 is a plain buffer, the kernel takes an image"),
        ((picture, picture, picture), "3 buffers with an image were given"),
        ((picture, plain, picture), "buffer 1 is a plain buffer, the kernel takes an image"),
        ((picture, plain), "buffer 1 is a plain buffer"),
        ((picture,), "takes 1 images to write and 1 to read, 1 buffers with an image"),
    ):
        with pytest.raises(LaunchError, match=text):
            program(*bufs)
        with pytest.raises(LaunchError, match=text):
            program.fill_kernargs(bufs)
    adder = qcom.program(ir3_image(IR3_ADD_FIVE), "add")
    with pytest.raises(LaunchError, match="takes 0 images to write and 0 to read, 1 buffers with an image"):
        adder(picture, plain)
    for thing in (picture, program, adder):
        thing.close()


def test_descriptors_lie_in_the_slot_in_the_order_of_their_kinds(qcom):
    """OpenCL: positional by kind. ir3: written images first, textures through tex_to_image."""
    made = [qcom.alloc(0, image=(4 + n, 3, F16)) for n in range(4)]
    cl = ClBinary(name="k", arguments=[(0, TEXTURE), (0, IMAGE), (0, TEXTURE), (0, IMAGE)], samplers=1)
    ir3 = ir3_image(ranges=(), constlen=0, num_uavs=4, num_tex=2, tex_to_image=(1, 0))
    for binary, order in ((cl.build(), [1, 3, 0, 2]), (ir3, [0, 1, 3, 2])):
        program = qcom.program(binary, "k")
        args = program.fill_kernargs(made)
        start = args.offset + program.images_offset
        descriptors = [struct.unpack_from("<16I", args.mv, start + 64 * n) for n in range(4)]
        assert [d[4] | (d[5] & 0x1FFFF) << 32 for d in descriptors] == [made[n].va_addr for n in order]
        assert [d[1] & 0x7FFF for d in descriptors] == [4 + n for n in order]
        assert [d[0] >> 13 & 7 for d in descriptors] == [0, 0, 3, 3]  # swizzles only where it is sampled
        assert program.textures_offset == program.images_offset + 128
        assert start % 64 == 0
        program.close()
    for picture in made:
        picture.close()


def test_a_fixed_local_size_is_insisted_on(qcom, buffers, nothing_submitted):
    program = qcom.program(ir3_image(IR3_ADD_FIVE, local_size_variable=0, local_x=32, local_y=2, local_z=1), "add")
    assert program.resources.max_threads == 64
    with pytest.raises(LaunchError, match=r"compiled for local_size \(32, 2, 1\), \(64, 1, 1\) was given"):
        program(*buffers, local_size=(64, 1, 1))
    program.close()


@pytest.mark.parametrize("bad", [0, 1025, 2048, 1 << 32, -1])
@pytest.mark.parametrize("axis", range(3))
def test_a_symbolic_local_size_that_its_field_cannot_hold_is_refused(qcom, buffers, nothing_submitted, bad, axis):
    """Three of them share a register: one that is too large must not change the next."""
    program = qcom.program(cl_add(), "add_five")
    n = hcqrt.Variable("n", -5, 1 << 40)
    local = [1, 1, 1]
    local[axis] = n
    queue = qcom.compute_queue().exec(program, program.fill_kernargs(buffers), (1, 1, 1), local)
    for bound in (False, True):
        if bound:
            queue.bind(qcom)
        with pytest.raises(ValueError, match="does not fit"):
            queue.submit(qcom, {n: bad})
    with pytest.raises(LaunchError, match="a size is a symbol"):
        program(*buffers, local_size=local)
    queue.close()
    program.close()


def test_scalars_may_stand_between_buffers_in_an_opencl_kernel(qcom, buffers):
    """(pointer, value, image, pointer): buffers in their order, then the values that are left."""
    picture = qcom.alloc(image=(8, 8, F16))
    kinds = [(0, BUFFER), (8, BUFFER), (0, IMAGE), (16, BUFFER)]
    program = qcom.program(ClBinary(name="k", arguments=kinds).build(), "k")
    args = program.fill_kernargs([buffers[0], buffers[1], picture], (7,))
    assert args.mv[args.offset : args.offset + 20] == struct.pack("<2QI", buffers[0].va_addr, buffers[1].va_addr, 7)
    with pytest.raises(LaunchError, match="buffer 1 is an image, the kernel takes a plain one"):
        program.fill_kernargs([buffers[0], picture, buffers[1]], (7,))
    args = program.fill_kernargs([buffers[0], picture], (7, 9))
    assert args.mv[args.offset + 8 : args.offset + 12] == struct.pack("<I", 7)
    assert args.mv[args.offset + 16 : args.offset + 20] == struct.pack("<I", 9)
    picture.close()
    program.close()


def test_private_memory_beyond_the_register_is_refused(adreno_machine):
    """64 KiB a fibre on the chip with 8192 fibres a processor: 512 MiB each, and the field counts 4 KiB in 18 bits."""
    assert A630.private_layout(65536).per_sp == 128 << 20
    chip = replace(A630, fibres_per_sp=16384)
    assert chip.private_layout(65536).per_sp >> 12 == 1 << 18
    with hcqrt.open_device("QCOM", adreno_machine()) as dev:
        dev.chip = chip
        before = dev.memory_stats()["in_use"]
        with pytest.raises(BinaryError, match="wants 65536 bytes of private memory per fibre"):
            dev.program(ir3_image(pvtmem_size=65536), "k")
        assert dev.memory_stats()["in_use"] == before


def test_other_devices_programs_and_closed_ones_are_refused(qcom, buffers, nothing_submitted):
    program, twin = (qcom.program(cl_add(), "add_five") for _ in range(2))
    args = program.fill_kernargs(buffers)
    with pytest.raises(LaunchError, match="with arguments of add_five"):
        qcom.compute_queue().exec(twin, args, (1, 1, 1), (64, 1, 1))
    program.close()
    program.close()
    with pytest.raises(HCQError, match="program add_five was closed"):
        program(*buffers, local_size=(64, 1, 1))
    with pytest.raises(HCQError, match="was closed"):
        program.fill_kernargs(buffers)
    twin.close()


# field reports H


@pytest.mark.parametrize("chip_id", [0x06030000, 0x06030001, 0x060300FF])
def test_24_a_known_chip_needs_no_warning(chip_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chip_for(chip_id) is A630


def test_24_a_sibling_warns_and_has_its_familys_values():
    """0x06030500 carries a630's digits and is a660's sibling: 64 registers, a second pipe, a larger cache."""
    with pytest.warns(RuntimeWarning, match=r"a635 \(chip id 0x06030500\) was never tried") as caught:
        chip = chip_for(0x06030500)
    assert len(caught) == 1
    assert (chip.sps, chip.reg_vec4, chip.icache_units, chip.lpac) == (2, 64, 127, True)


@pytest.mark.parametrize(
    ("chip_id", "name"),
    [(0x07030001, "a730"), (0x43050A01, "a740"), (0x43051401, "a750")],
    ids=lambda value: str(value),
)
def test_24_a_chip_of_an_experimental_generation_warns_so(chip_id, name):
    with pytest.warns(RuntimeWarning, match=rf"{name} \(chip id {chip_id:#010x}\).*a7xx is experimental") as caught:
        assert chip_for(chip_id).name == name
    assert len(caught) == 1


# 0x07030002 and 0x43050A00 differ from a730 and a740 in the patch level alone and are other parts; 0x43050C01 is X1-85
@pytest.mark.parametrize(
    "chip_id",
    [0x43030B00, 0x43050C01, 0x07030002, 0x43050A00, 0x43050B00, 0x44000001, 0x44050A01, 0xE0010203, 0x07030000,
     0x05030002, 0x06010000, 0, 0xFFFFFFFF],
)  # fmt: skip
def test_24_every_other_chip_is_an_error_with_its_id_and_the_list(chip_id):
    with pytest.raises(
        DeviceNotFound, match=rf"{chip_id:#010x}.*a630, a640, a650, a660, a690, a730 \(experimental\), a740"
    ):
        chip_for(chip_id)
