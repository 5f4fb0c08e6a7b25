"""Field reports 18, 19 and 20: a launch that the hardware would not survive is refused before any doorbell rings."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cubins import cubin, dump_parameters, kernel

import hcqrt
from hcqrt.decode.qmd import decode_qmd
from hcqrt.errors import BinaryError, LaunchError
from hcqrt.nv.arch import chip_for

KIB = 1024
BLOCK = (32, 1, 1)


@pytest.fixture
def refused(dev, system):
    """Calls a launch that must raise LaunchError with this text and ring nothing."""

    def check(text: str, launch) -> None:
        before = system.stats()["doorbells"]
        with pytest.raises(LaunchError, match=text):
            launch()
        assert system.stats()["doorbells"] == before

    return check


@pytest.fixture
def plain(dev):
    return dev.program(cubin(kernel("plain", registers=32)))


# 18


@pytest.mark.parametrize(
    ("grid", "block", "text"),
    [
        ((1, 65536, 1), BLOCK, "plain: global_size y = 65536, allowed are 1 to 65535"),
        ((1, 1, 65536), BLOCK, "plain: global_size z = 65536, allowed are 1 to 65535"),
        ((1 << 31, 1, 1), BLOCK, "plain: global_size x = 2147483648, allowed are 1 to 2147483647"),
        ((0, 1, 1), BLOCK, "plain: global_size x = 0, allowed are 1 to"),
        ((1, -1, 1), BLOCK, "plain: global_size y = -1, allowed are 1 to"),
        ((1, 1, 1), (32, 33, 1), "plain: 1056 threads in a block, the limit is 1024"),
        ((1, 1, 1), (1, 1, 65), "plain: local_size z = 65, allowed are 1 to 64"),
        ((1, 1, 1), (1025, 1, 1), "plain: local_size x = 1025, allowed are 1 to 1024"),
        ((1, 1, 1), (1, 1025, 1), "plain: local_size y = 1025, allowed are 1 to 1024"),
        ((1, 1, 1), (1, 0, 1), "plain: local_size y = 0, allowed are 1 to 1024"),
        ((1, 1, 1, 1), BLOCK, "global_size .* has 4 axes"),
        ((1, 1, 1), (), "local_size .* has 0 axes"),
    ],
)
def test_field_report_18_a_limit_names_axis_value_and_limit(dev, plain, refused, grid, block, text):
    refused(text, lambda: plain(global_size=grid, local_size=block))
    refused(text, lambda: plain(global_size=grid, local_size=block, wait=True))
    args = plain.fill_kernargs(())
    refused(text, lambda: dev.compute_queue().exec(plain, args, grid, block).submit(dev))


def test_field_report_18_what_is_within_the_limits_runs(dev, plain):
    for grid, block in (((1, 65535, 1), (1, 1, 1)), ((1, 1, 65535), (1, 1, 1)), ((1, 1, 1), (1, 1, 64))):
        plain(global_size=grid, local_size=block)
    for block in ((1024, 1, 1), (1, 1024, 1), (4, 4, 64), (32, 32, 1)):
        plain(local_size=block)
    dev.synchronize()


def test_field_report_18_registers_times_threads_fit_the_register_file(dev, refused):
    prg = dev.program(cubin(kernel("large", registers=255)))
    assert prg.resources.max_threads == 256
    for threads in (1024, 512, 257):
        text = f"large: {threads} threads with 255 registers each .* of 65536; 256 threads would fit"
        refused(text, lambda threads=threads: prg(local_size=(threads, 1, 1)))
    prg(local_size=(256, 1, 1))
    dev.synchronize()


@pytest.mark.parametrize(("registers", "fit"), [(1, 1024), (64, 1024), (65, 896), (72, 896), (128, 512), (255, 256)])
def test_field_report_18_how_many_threads_fit(dev, registers, fit):
    """Warps take registers in steps of 8 per thread, four warps at a time."""
    assert dev.program(cubin(kernel(registers=registers))).resources.max_threads == fit


def test_field_report_18_the_files_own_limits_hold(dev, refused):
    bounded = dev.program(cubin(kernel("bounded", max_threads=(64, 2, 1))))
    refused("bounded: 129 threads in a block, it was compiled for 128", lambda: bounded(local_size=(129, 1, 1)))
    bounded(local_size=(1, 128, 1))
    fixed = dev.program(cubin(kernel("fixed", required_block=(16, 4, 1))))
    refused(r"compiled for local_size \(16, 4, 1\), \(64, 1, 1\) was given", lambda: fixed(local_size=(64, 1, 1)))
    fixed(local_size=(16, 4, 1))
    dev.synchronize()


def test_sizes_may_be_numpy_integers_and_shorter_than_three(dev):
    prg, out = dev.program(cubin(dump_parameters((8,)))), dev.alloc(64)
    prg(out, global_size=(np.int64(2), np.int32(1), 1), local_size=(np.uint8(3),))
    prg(out, global_size=[2], local_size=[3, 1])
    assert struct.unpack("<Q", out.copyout()[:8]) == (out.va_addr,)


def test_a_size_that_is_no_integer_is_a_wrong_argument(plain, system):
    before = system.stats()["doorbells"]
    for grid in ((1.5, 1, 1), ("1", 1, 1)):
        with pytest.raises(TypeError):
            plain(global_size=grid)
    assert system.stats()["doorbells"] == before


# 19


def carve_outs(prg, dynamic: int, block=BLOCK) -> tuple[int, int]:
    """(shared bytes, smallest carve-out in bytes) of the launch descriptor."""
    qmd = decode_qmd(prg.template((1, 1, 1), block, dynamic).data)
    return qmd["SHARED_MEMORY_SIZE"], (qmd["MIN_SM_CONFIG_SHARED_MEM_SIZE"] - 1) * 4 * KIB


def test_field_report_19_48_kib_dynamic_and_16_bytes_static_work(dev):
    prg = dev.program(cubin(kernel("both", shared=16)))
    prg(local_size=BLOCK, dynamic_shared=48 * KIB)
    dev.synchronize()
    shared, carve_out = carve_outs(prg, 48 * KIB)
    assert shared == 48 * KIB + 128 + KIB  # 16 in steps of 128, and the reserve
    assert carve_out == 64 * KIB


@pytest.mark.parametrize("static", [0, 16, 48 * KIB])
def test_field_report_19_the_chips_maximum_works_and_a_byte_more_does_not(dev, refused, static):
    prg = dev.program(cubin(kernel("most", shared=static)))
    largest = 99 * KIB - static
    prg(local_size=BLOCK, dynamic_shared=largest)
    dev.synchronize()
    text = rf"most: needs 101377 bytes .*\({static} static \+ {largest + 1} dynamic\), sm_86 has 101376"
    refused(text, lambda: prg(local_size=BLOCK, dynamic_shared=largest + 1))


def test_field_report_19_the_carve_out_covers_the_request_and_the_reserve(dev):
    prg = dev.program(cubin(kernel()))
    for request in (0, 1, 128, 7 * KIB, 7 * KIB + 1, 15 * KIB, 32 * KIB, 63 * KIB, 63 * KIB + 1, 99 * KIB):
        shared, carve_out = carve_outs(prg, request)
        assert carve_out >= shared >= request + KIB
        assert shared % 128 == 0
    assert carve_outs(prg, 7 * KIB) == (8 * KIB, 8 * KIB)
    assert carve_outs(prg, 7 * KIB + 1)[1] == 16 * KIB


LIMITS = {  # SM_VERSION -> KiB of a block at most, KiB that the toolkit keeps besides, the largest carve-out
    0x705: (64, 0, 64), 0x800: (163, 1, 164), 0x802: (163, 1, 164), 0x806: (99, 1, 100), 0x807: (163, 1, 164),
    0x809: (99, 1, 100), 0x900: (227, 1, 228), 0xA00: (227, 1, 228), 0xA03: (227, 1, 228), 0xA04: (99, 1, 100),
    0xC00: (99, 1, 100), 0xC01: (99, 1, 100),
}  # fmt: skip


@pytest.mark.parametrize("sm_version", LIMITS)
def test_field_report_19_the_limit_is_the_chips(sm_version):
    chip = chip_for(sm_version)
    most, reserve, largest = LIMITS[sm_version]
    assert (chip.shared_max, chip.arch.shared_reserve) == (most * KIB, reserve * KIB)
    assert chip.carve_out(most * KIB + reserve * KIB, 32, 48) == (largest // 4 + 1,) * 3


def test_field_report_19_more_static_memory_than_the_chip_has_is_refused_at_load(dev):
    with pytest.raises(BinaryError, match=r"declares 101377 bytes of shared memory, NV:0 \(sm_86\) has 101376"):
        dev.program(cubin(kernel(shared=99 * KIB + 1)))


def test_field_report_19_a_negative_size_is_refused(plain, refused):
    refused("-1 bytes of dynamic shared memory", lambda: plain(dynamic_shared=-1))


# 20


@pytest.fixture
def three(dev):
    """A kernel (pointer, u32, pointer to where it stores all of its parameters)."""
    return dev.program(cubin(dump_parameters((8, 8, 4, 8), "three")))


def test_field_report_20_wrong_arguments(machine):
    system = machine(nv=("sm_86", "sm_86"))
    with hcqrt.open_device("NV:0", system) as dev, hcqrt.open_device("NV:1", system) as other:
        prg = dev.program(cubin(kernel("three", params=(8, 8, 4))))
        a, b, foreign, closed = dev.alloc(64), dev.alloc(64), other.alloc(64), dev.alloc(64)
        closed.close()
        cases = [
            ((a,), (1,), r"three takes 3 arguments, 2 were given \(1 buffers, 1 values\)"),
            ((a, b), (1, 2), r"three takes 3 arguments, 4 were given \(2 buffers, 2 values\)"),
            ((), (), "three takes 3 arguments, 0 were given"),
            ((a, b), (1 << 32,), "three: argument 4294967296 does not fit its parameter of 4 bytes"),
            ((a, b), (-(1 << 31) - 1,), "argument -2147483649 does not fit"),
            ((a, b), ("text",), "argument 'text' is neither an integer nor a float"),
            ((a, b), (b"1234",), "neither an integer nor a float"),
            ((a,), (1 << 64, 1), "argument 18446744073709551616 does not fit its parameter of 8 bytes"),
            ((a, b, a), (), "three: argument 2 has 4 bytes and is no pointer; pass it in vals"),
            ((a, foreign), (1,), "three: argument 1 is a buffer of NV:1, the kernel is on NV:0"),
            ((closed, b), (1,), "three: argument 0 is a buffer that was closed"),
            ((a, 5), (1,), "three: argument 1 is int, not a buffer; scalars go in vals"),
            ((None, b), (1,), "three: argument 0 is NoneType, not a buffer"),
        ]
        prg(a, b, vals=(7,))  # so that what is remembered of a good call does not let a bad one pass
        for bufs, vals, text in cases:
            before = system.stats()["doorbells"]
            for launch in (lambda b, v: prg(*b, vals=v), lambda b, v: prg(*b, vals=v, wait=True), prg.fill_kernargs):
                with pytest.raises(LaunchError, match=text):
                    launch(bufs, vals)
            assert system.stats()["doorbells"] == before
        prg(a, b, vals=(7,))


def test_field_report_20_values_of_any_fitting_form_arrive(dev, three):
    a, b, out = dev.alloc(64), dev.alloc(64), dev.alloc(64)
    for value, bits in (
        (5, 5),
        (-1, 0xFFFFFFFF),
        (np.uint16(9), 9),
        (1.5, 0x3FC00000),
        (True, 1),
        (0xFFFFFFFF, 0xFFFFFFFF),
    ):
        three(a, vals=(b.va_addr, value, out.va_addr))
        assert struct.unpack("<2QI4xQ", out.copyout()[:32]) == (a.va_addr, b.va_addr, bits, out.va_addr)


def test_field_report_20_a_struct_takes_its_bytes_and_no_others(dev, refused):
    prg, out = dev.program(cubin(dump_parameters((84, 8)))), dev.alloc(128)
    data = bytes(range(84))
    prg(vals=(data, out.va_addr))
    assert out.copyout()[:84] == data
    for wrong in (data[:-1], data + b"\0", 7, 1.0):
        refused("the parameter is a struct, pass its 84 bytes", lambda wrong=wrong: prg(vals=(wrong, out.va_addr)))


def test_parameters_of_a_file_that_lists_none_are_held_to_its_size(dev, refused):
    from gen.cubin_writer import attribute

    place = attribute(4, 0x0A, payload=struct.pack("<I2H", 1, 0x160, 24))
    prg, buf = dev.program(cubin(kernel("unlisted", extra_info=place))), dev.alloc(64)
    prg(buf, buf, vals=(1, 2))
    refused("unlisted: 28 bytes of arguments, it takes at most 24", lambda: prg(buf, buf, buf, vals=(1,)))
    refused("unlisted: 28 bytes of arguments", lambda: prg.fill_kernargs((buf, buf, buf), (1,)))


def test_parameters_inside_the_drivers_area_are_damage(dev):
    with pytest.raises(BinaryError, match="parameters at 0x80, where sm_86 keeps launch dimensions"):
        dev.program(cubin(kernel(), param_base=0x80))
