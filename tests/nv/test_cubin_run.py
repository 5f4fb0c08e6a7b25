"""Cubins of both ABI forms on the emulated GPU: what the loader read is what the code finds when it runs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cubins import ABIS, cubin, dump_parameters, kernel
from gen.cubin_writer import Reloc, attribute, param_layout

from hcqrt.errors import BinaryError
from hcqrt.tools.check_frame import shipped_kernel

OUT = "MOV R2, c[0x0][0x160]\nMOV R3, c[0x0][0x164]\n"  # R2:R3 = the first parameter, a pointer
KIB = 1024


def words(buf, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", buf.copyout()[: 4 * count])


@pytest.mark.parametrize("abi", ABIS)
def test_field_report_23_parameters_of_every_size_arrive(dev, abi):
    sizes = (1, 2, 4, 8, 84, 1, 12, 8)
    prg = dev.program(cubin(dump_parameters(sizes), abi=abi))
    out = dev.alloc(256)
    struct_a, struct_b = bytes(range(1, 85)), b"twelve bytes"
    prg(vals=(0xAB, 0xCDEF, 0x01234567, 0x89ABCDEF01234567, struct_a, 0x7F, struct_b, out.va_addr))
    expected = bytearray(param_layout(sizes)[-1] + 8)
    for offset, piece in (
        (0, b"\xab"),
        (2, b"\xef\xcd"),
        (4, b"\x67\x45\x23\x01"),
        (8, bytes.fromhex("67452301efcdab89")),
        (16, struct_a),
        (100, b"\x7f"),
        (104, struct_b),
        (120, struct.pack("<Q", out.va_addr)),
    ):
        expected[offset : offset + len(piece)] = piece
    assert out.copyout()[: len(expected)] == expected


@pytest.mark.parametrize("base", [0x160, 0x210, 0x380])
def test_field_report_23_the_base_is_the_files(dev, base):
    """Later chips' bases: the code below asks there, on a chip of this generation."""
    lines = [f"MOV R2, c[0x0][{base:#x}]", f"MOV R3, c[0x0][{base + 4:#x}]", f"MOV R0, c[0x0][{base + 8:#x}]"]
    source = "\n".join([*lines, "STG.E [R2], R0", "EXIT"])
    prg = dev.program(cubin(kernel(source=source, params=(8, 4)), param_base=base))
    out = dev.alloc(4)
    for value in (17, 0xDEADBEEF):
        prg(out, vals=(value,))
        assert words(out, 1) == (value,)


@pytest.mark.parametrize("form", [1, 2, 3, 4])
@pytest.mark.parametrize("abi", ABIS)
def test_field_report_23_a_kernel_with_an_unknown_attribute_runs(dev, abi, form):
    info = attribute(form, 0xF7, 3, payload=b"newer" if form == 4 else b"")
    prg = dev.program(cubin(dump_parameters((8,), extra_info=info), abi=abi))
    out = dev.alloc(8)
    prg(out)
    assert struct.unpack("<Q", out.copyout()) == (out.va_addr,)


def test_field_report_23_launch_dimensions_are_what_a_kernel_reads(dev):
    grid, block = (3, 2, 2), (4, 2, 3)
    prg = dev.program(shipped_kernel("sm_86", "ids"))
    count = int(np.prod(grid) * np.prod(block))
    out = dev.alloc(48 * count)
    prg(out, global_size=grid, local_size=block)
    rows = np.frombuffer(out.copyout(), np.uint32).reshape(count, 4, 3)
    expected = [
        ((tx, ty, tz), (bx, by, bz), block, grid)
        for bz in range(grid[2]) for by in range(grid[1]) for bx in range(grid[0])
        for tz in range(block[2]) for ty in range(block[1]) for tx in range(block[0])
    ]  # fmt: skip
    assert np.array_equal(rows, np.array(expected, np.uint32))


def test_field_report_23_a_file_importing_vprintf_errors_with_that_name_and_its_other_kernels_run(dev):
    binary = cubin(
        dump_parameters((8,), "plain"),
        kernel("prints", externs=("vprintf",)),
        undefined=("vprintf",),
        constant4=bytes(8),
        relocs=[Reloc(".nv.constant4", 0, 2, "vprintf")],
    )
    with pytest.raises(BinaryError, match="kernel prints needs vprintf"):
        dev.program(binary, "prints")
    out = dev.alloc(8)
    dev.program(binary, "plain")(out)
    assert struct.unpack("<Q", out.copyout()) == (out.va_addr,)


@pytest.mark.parametrize("abi", ABIS)
def test_constant_banks_variables_and_pointers_between_them(dev, abi):
    """c[2] and c[3] hold data, c[4] the addresses of a zeroed variable and of a pointer to array[1]."""
    source = OUT + "\n".join(
        [
            "MOV R0, c[0x2][0x4]",
            "STG.E [R2], R0",
            "MOV R0, c[0x3][0x8]",
            "STG.E [R2+0x4], R0",
            "MOV R4, c[0x4][0x0]",
            "MOV R5, c[0x4][0x4]",
            "LDG.E R0, [R4]",
            "STG.E [R2+0x8], R0",
            "MOV R6, 0x77",
            "STG.E [R4], R6",  # seen by the next launch
            "MOV R4, c[0x4][0x8]",
            "MOV R5, c[0x4][0xc]",
            "LDG.E.64 R4, [R4]",
            "LDG.E R0, [R4]",
            "STG.E [R2+0xc], R0",
            "EXIT",
        ]
    )
    binary = cubin(
        kernel("other", constant2=b"not this one"),
        kernel("reader", source, params=(8,), constant2=struct.pack("<2I", 1, 2)),
        abi=abi,
        constant3=struct.pack("<4I", 30, 31, 32, 33),
        constant4=bytes(16),
        globals={"pad": 40, "counter": 4},
        initialised={"array": struct.pack("<4I", 10, 11, 12, 13), "pointer": bytes(8)},
        relocs=[
            Reloc(".nv.constant4", 0, 2, "counter"),
            Reloc(".nv.constant4", 8, 2, "pointer"),
            Reloc(".nv.global.init", 16, 4, "array", 4),
        ],
    )
    out, prg = dev.alloc(16), dev.program(binary, "reader")
    prg(out)
    assert words(out, 4) == (2, 32, 0, 11)
    prg(out)
    assert words(out, 4) == (2, 32, 0x77, 11)
    again = dev.program(binary, "reader")  # a module loaded anew has its own variables
    again(out)
    assert words(out, 4) == (2, 32, 0, 11)


REVERSE = """
    S2R R0, SR_TID.X
    SHF.L.U32 R1, R0, 0x2, RZ
    MOV R4, 0x4
    IMAD.WIDE.U32 R6, R0, R4, c[0x0][0x168]
    LDG.E R5, [R6]
    STS [R1+{static}], R5
    BAR.SYNC 0x0
    MOV R8, c[0x0][0x2c]
    IADD3 R8, R8, -0x4, -R1
    LDS R5, [R8+{static}]
    IMAD.WIDE.U32 R6, R0, R4, c[0x0][0x160]
    STG.E [R6], R5
    EXIT
"""


@pytest.mark.parametrize("static", [0, 16])
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_field_report_19_dynamic_shared_memory_is_there_and_its_size_in_bank_0(dev, threads, static):
    """Each thread stores a word, then loads the one that lies as far from the end that bank 0 tells."""
    source = REVERSE.format(static=hex(static))
    prg = dev.program(cubin(kernel("reverse", source, params=(8, 8), shared=static, barriers=1)))
    given = np.arange(threads, dtype=np.uint32) * 7 + 1
    out, into = dev.alloc(4 * threads), dev.alloc(4 * threads)
    into.copyin(given)
    prg(out, into, local_size=(threads, 1, 1), dynamic_shared=4 * threads)
    assert np.array_equal(np.frombuffer(out.copyout(), np.uint32), given[::-1])


TOP = OUT + "MOV R4, c[0x0][0x168]\nMOV R0, 0x5a5a\nSTS [R4], R0\nLDS R5, [R4]\nSTG.E [R2], R5\nEXIT"


@pytest.mark.parametrize("dynamic", [48 * KIB, 99 * KIB])
def test_field_report_19_the_last_word_of_shared_memory_is_usable(dev, dynamic):
    prg = dev.program(cubin(kernel("top", TOP, params=(8, 4))))
    out = dev.alloc(4)
    prg(out, vals=(dynamic - 4,), dynamic_shared=dynamic)
    assert words(out, 1) == (0x5A5A,)


def test_barriers_of_a_kernel_reach_the_launch(dev):
    """A kernel that uses barrier 3 declares 4."""
    source = OUT + "BAR.SYNC 0x3\nMOV R0, 0x1\nSTG.E [R2], R0\nEXIT"
    for abi in ABIS:
        out = dev.alloc(4)
        dev.program(cubin(kernel(source=source, params=(8,), barriers=4), abi=abi))(out, local_size=(64, 1, 1))
        assert words(out, 1) == (1,)
