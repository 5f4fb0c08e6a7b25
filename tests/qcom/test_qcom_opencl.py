"""OpenCL binaries run on the emulated Adreno: ids in their registers, constants, images, shared and private memory."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from clwriter import BUFFER, IMAGE, TEXTURE, ClBinary

import hcqrt
from hcqrt.isa.ir3 import assemble, pack

F16, F32 = "FMT6_16_16_16_16_FLOAT", "FMT6_32_32_32_32_FLOAT"

# group id r51.w, size r48.x, offset r51.x, local id r0.x (qcom facts 3, item 6); c0: out, width, height in fibres
IDS = """
    add.u r1.x, r0.x, r51.x
    add.u r1.y, r0.y, r51.y
    add.u r1.z, r0.z, r51.z
    mul.u24 r1.w, r1.z, c0.w
    add.u r1.w, r1.w, r1.y
    mul.u24 r1.w, r1.w, c0.z
    add.u r1.w, r1.w, r1.x
    mul.u24 r1.w, r1.w, 48
    add.u r2.x, r1.w, c0.x
    mov.u32u32 r2.y, c0.y
    mov.u32u32 r3.x, r51.w
    mov.u32u32 r3.y, r52.x
    mov.u32u32 r3.z, r52.y
    mov.u32u32 r4.x, r48.x
    mov.u32u32 r4.y, r48.y
    mov.u32u32 r4.z, r48.z
    mov.u32u32 r5.x, r51.x
    mov.u32u32 r5.y, r51.y
    mov.u32u32 r5.z, r51.z
    (rpt5)nop
    stg.u32 g[r2.x], r3.x, 3
    stg.u32 g[r2.x+12], r4.x, 3
    stg.u32 g[r2.x+24], r5.x, 3
    stg.u32 g[r2.x+36], r0.x, 3
    end
"""
# image k of those written takes what texture 1 - k shows
SWAP = """
    add.u r0.x, r0.x, r51.x
    add.u r0.y, r0.y, r51.y
    (rpt5)nop
    isam ({type})(xyzw){half}r1.x, r0.x, s#0, t#1
    isam ({type})(xyzw){half}r2.x, r0.x, s#1, t#0
    (sy)(rpt5)nop
    stib.b.typed.2d.{type}.4.imm {half}r1.x, r0.x, 0
    stib.b.typed.2d.{type}.4.imm {half}r2.x, r0.x, 1
    end
"""
# out[id] = constant at c8.x + the half constant in the low half of c8.y, widened; half slot 66 is hc16.z
CONSTANTS = """
    add.u r0.x, r0.x, r51.x
    shl.b r0.y, r0.x, 2
    (rpt2)nop
    add.u r1.x, r0.y, c0.x
    mov.u32u32 r1.y, c0.y
    cov.u16u32 r0.z, hc16.z
    (rpt2)nop
    add.u r0.z, r0.z, c8.x
    (rpt5)nop
    stg.u32 g[r1.x], r0.z, 1
    end
"""


def code_of(source, **values):
    return pack(assemble(source.format(**values) if values else source))


@pytest.mark.parametrize(
    ("groups", "local"), [((2, 3, 2), (4, 2, 3)), ((5, 1, 1), (96, 1, 1)), ((1, 1, 3), (1, 64, 2))]
)
def test_ids_and_sizes_come_in_their_registers(qcom, groups, local):
    binary = ClBinary(code_of(IDS), "ids", [(0, BUFFER), (8, BUFFER), (12, BUFFER)], full_regs=7).build()
    size = tuple(g * n for g, n in zip(groups, local, strict=True))
    with qcom.alloc(48 * size[0] * size[1] * size[2]) as out:
        program = qcom.program(binary, "ids")
        program(out, vals=(size[0], size[1]), global_size=groups, local_size=local)
        rows = np.frombuffer(bytes(out.copyout()), np.uint32).reshape(size[2], size[1], size[0], 4, 3)
        program.close()
    for z, y, x in itertools.product(*(range(n) for n in reversed(size))):
        at = (x, y, z)
        group = [a // n for a, n in zip(at, local, strict=True)]
        offset = [g * n for g, n in zip(group, local, strict=True)]
        inside = [a - o for a, o in zip(at, offset, strict=True)]
        assert rows[z, y, x].tolist() == [group, list(local), offset, inside]


@pytest.mark.parametrize(
    ("name", "dtype", "kind", "half"), [(F16, np.float16, "f16", "h"), (F32, np.float32, "f32", "")]
)
def test_images_are_bound_by_their_place_among_their_kind(qcom, name, dtype, kind, half):
    arguments = [(0, TEXTURE), (0, IMAGE), (0, IMAGE), (0, TEXTURE)]
    binary = ClBinary(code_of(SWAP, type=kind, half=half), "swap", arguments, samplers=1, half_regs=3).build()
    program = qcom.program(binary, "swap")
    made = [qcom.alloc(image=(19, 5, name)) for _ in range(4)]
    data = [np.random.default_rng(n).integers(-99, 99, (5, 19, 4)).astype(dtype) for n in range(2)]
    made[0].copyin(data[0])
    made[3].copyin(data[1])
    program(*made, global_size=(5, 3, 1), local_size=(4, 2, 1))  # some fibres lie beyond the image
    assert bytes(made[1].copyout()) == data[1].tobytes()
    assert bytes(made[2].copyout()) == data[0].tobytes()
    for thing in (*made, program):
        thing.close()


def test_constants_of_both_widths_are_read_as_opencl_reads_them(qcom):
    """No demotion: hc16.z is the low half of the 32-bit slot c8.y, unit 66 of 16 bits."""
    constants = [(1_000_000, 32, 1), (0xBEEF, 66, 0), (0x5555, 67, 0)]
    program = qcom.program(ClBinary(code_of(CONSTANTS), "k", [(0, BUFFER)], constants, half_regs=1).build(), "k")
    with qcom.alloc(256) as out:
        program(out, global_size=(2, 1, 1), local_size=(32, 1, 1))
        assert (np.frombuffer(bytes(out.copyout()), np.uint32) == 1_000_000 + 0xBEEF).all()
    program.close()


# shared[local id] = local id; barrier; out[id] = shared[63 - local id]; the same through private memory
REVERSE = """
    add.u r0.y, r0.x, r51.x
    shl.b r0.z, r0.x, 2
    mov.u32u32 r0.w, {base}
    (rpt5)nop
    add.u r1.x, r0.z, r0.w
    (rpt5)nop
    stl.u32 l[r1.x], r0.x, 1
    bar
    sub.u r1.y, 252, r0.z
    (rpt5)nop
    add.u r1.y, r1.y, r0.w
    (rpt5)nop
    ldl.u32 r1.z, l[r1.y], 1
    mov.u32u32 r3.x, 508
    (sy)(ss)(rpt5)nop
    stp.u32 p[r3.x], r1.z, 1
    (rpt5)nop
    ldp.u32 r1.w, p[r3.x], 1
    shl.b r2.x, r0.y, 2
    (sy)(ss)(rpt5)nop
    add.u r2.x, r2.x, c0.x
    mov.u32u32 r2.y, c0.y
    (rpt5)nop
    stg.u32 g[r2.x], r1.w, 1
    end
"""


@pytest.mark.parametrize("chip", ["a630", "a640", "a650"])
@pytest.mark.parametrize(("static", "dynamic", "base"), [(256, 0, 0), (32768, 0, 32512), (1024, 2048, 2816)])
def test_shared_and_private_memory_up_to_their_last_byte(adreno_machine, chip, static, dynamic, base):
    with hcqrt.open_device("QCOM", adreno_machine(chip)) as dev:
        binary = ClBinary(code_of(REVERSE, base=base), "r", [(0, BUFFER)], shared=static, private=512).build()
        program = dev.program(binary, "r")
        assert (program.resources.shared_bytes, program.resources.local_bytes) == (static, 512)
        with dev.alloc(4 * 640) as out:
            program(out, global_size=(10, 1, 1), local_size=(64, 1, 1), dynamic_shared=dynamic)
            result = np.frombuffer(bytes(out.copyout()), np.uint32).reshape(10, 64)
        assert (result == 63 - np.arange(64)).all()
        program.close()


def test_the_first_instruction_may_lie_behind_others(qcom):
    """The first-exec offset: what stands before it is not run."""
    end = struct.pack("<Q", 0x0300_0000_0000_0000)
    body = code_of(CONSTANTS)
    binary = ClBinary(end * 16 + body, "k", [(0, BUFFER)], [(7, 32, 1)], half_regs=1, first_exec=128).build()
    program = qcom.program(binary, "k")
    with qcom.alloc(256) as out:
        program(out, global_size=(2, 1, 1), local_size=(32, 1, 1))
        assert (np.frombuffer(bytes(out.copyout()), np.uint32) == 7).all()
    program.close()
