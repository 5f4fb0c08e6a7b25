"""Descriptors on a7xx: the same as on a6xx but for one bit, and images read and written through them."""

from __future__ import annotations

import struct

import pytest
from adreno_a7xx import dispatch7
from adreno_bench import CODE_VA, DATA_VA, Bench, lo_hi, type7

from hcqrt.emu.engine import run
from hcqrt.emu.qcom import images
from hcqrt.emu.qcom.trouble import Refused
from hcqrt.emu.refusal import EmulatorRefusal
from hcqrt.isa.ir3 import assemble

IN_VA, OUT_VA = DATA_VA + 0x10000, DATA_VA + 0x20000
TEXTURES_VA, SAMPLERS_VA, IBOS_VA, BORDER_VA = DATA_VA, DATA_VA + 0x1000, DATA_VA + 0x2000, DATA_VA + 0x4000
XYZW, RGBA32F = 1 << 7 | 2 << 10 | 3 << 13, 0x82 << 22
SHAPE, PITCH = 60 | 2 << 15, 1024
MUTABLE = 1 << 31
COPY = """
mov.u32u32 r1.x, r0.x
mov.u32u32 r1.y, r48.x
isam (f32)(xyzw)r2.x, r1.x, s#0, t#0
(sy)stib.b.typed.2d.f32.4.imm r2.x, r1.x, 0
(sy)(ss)(jp)lock
unlock
end
"""
STATE = {
    0xA9BB: 0x100 | 1 << 9 | 1 << 17 | 1 << 22, 0xA9BA: 1, 0xAA00: 1, 0xA9B0: 4 << 7, 0xA9BC: 1,
    0xA9E2: SAMPLERS_VA & 0xFFFFFFFF, 0xA9E3: SAMPLERS_VA >> 32, 0xA9E6: TEXTURES_VA & 0xFFFFFFFF,
    0xA9E7: TEXTURES_VA >> 32, 0xA9F8: IBOS_VA & 0xFFFFFFFF, 0xA9F9: IBOS_VA >> 32,
    0xB180: BORDER_VA & 0xFFFFFFFF, 0xB181: BORDER_VA >> 32,
}  # fmt: skip


def descriptor(swizzle: int, d1: int, va: int) -> bytes:
    return struct.pack("<16I", swizzle | RGBA32F, d1, PITCH << 7 | 1 << 29, 0, *lo_hi(va), *[0] * 10)


def put(bench: Bench, texture: bytes, ibo: bytes) -> None:
    code = assemble(COPY, 7)
    bench.space.write(CODE_VA, struct.pack("<16Q", *code, *[0] * (16 - len(code))))
    bench.space.write(TEXTURES_VA, texture)
    bench.space.write(IBOS_VA, ibo)
    bench.space.write(SAMPLERS_VA, struct.pack("<4I", 0x1B60, 0x30, 0, 0))


@pytest.mark.parametrize("flag", [0, MUTABLE])
@pytest.mark.parametrize("core", run.available_cores())
def test_an_image_is_copied_texel_by_texel(core: str, flag: int) -> None:
    """60 x 2 texels, one group a row; loads ahead as on a6xx, the code without."""
    bench = Bench("a750", launch=lambda job: run.launch(job, core), budget=1 << 20)
    put(bench, descriptor(XYZW, SHAPE | flag, IN_VA), descriptor(0, SHAPE | flag, OUT_VA))
    rows = [[float(x + 100 * y + c / 4) for x in range(60) for c in range(4)] for y in range(2)]
    for y, row in enumerate(rows):
        bench.space.write(IN_VA + y * PITCH, struct.pack("<240f", *row))
    loads = [
        *type7(0x34, 2 << 16 | 5 << 18 | 1 << 22, *lo_hi(SAMPLERS_VA)),
        *type7(0x34, 1 << 14 | 2 << 16 | 5 << 18 | 1 << 22, *lo_hi(TEXTURES_VA)),
        *type7(0x34, 3 << 14 | 2 << 16 | 13 << 18 | 1 << 22, *lo_hi(IBOS_VA)),
    ]
    bench.submit(*dispatch7(STATE, before=loads))
    assert bench.faults == []
    for y, row in enumerate(rows):
        assert list(struct.unpack("<240f", bench.space.read(OUT_VA + y * PITCH, 960))) == row
        assert bench.space.read(OUT_VA + y * PITCH + 960, 64) == bytes(64)
    bench.close()


def test_the_bit_is_unknown_to_a6xx() -> None:
    with pytest.raises(Refused, match="d1: upper bits 0x2 are in no known field"):
        images.decode_image(descriptor(XYZW, SHAPE | MUTABLE, IN_VA), False)


def test_the_bit_beside_it_is_unknown_to_a7xx(bench7: Bench) -> None:
    put(bench7, descriptor(XYZW, SHAPE | 1 << 30, IN_VA), descriptor(0, SHAPE, OUT_VA))
    with pytest.raises(EmulatorRefusal, match="textures 0: d1: upper bits 0x1 are in no known field"):
        bench7.submit(*dispatch7(STATE))


def test_a_ubo_is_read_on_a7xx() -> None:
    """Inline descriptor of 32 bytes; its sixth word is stored."""
    bench = Bench("a740", launch=run.launch, budget=1 << 20)
    bench.space.write(DATA_VA, struct.pack("<8I", *range(50, 58)))
    code = assemble("""
    mov.u32u32 r1.x, 1
    ldc.offset1.1.imm r1.z, r1.x, 0
    mov.u32u32 r2.x, c0.x
    mov.u32u32 r2.y, c0.y
    (sy)stg.u32 g[r2.x], r1.z, 1
    end
    """, 7)  # fmt: skip
    bench.space.write(CODE_VA, struct.pack("<16Q", *code, *[0] * (16 - len(code))))
    load = type7(0x34, 2 << 14 | 13 << 18 | 1 << 22, 0, 0, DATA_VA & 0xFFFFFFFF, DATA_VA >> 32 | 2 << 17, 0, 0)
    bench.submit(*dispatch7(before=load))
    assert bench.faults == []
    assert bench.u32(0x10_0003_0000) == 55
    bench.close()
