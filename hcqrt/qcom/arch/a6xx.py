"""Adreno 6xx: the generation's limits and its chips. Source: qcom facts 1.10, 4 and 5.1; Mesa 25.0.7's device table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hcqrt.autogen.qcom import a6xx
from hcqrt.qcom.arch import Arch, Chip
from hcqrt.qcom.dispatch import Shape, group_counts, ndrange, register_ids, shared_and_constants, thread_size
from hcqrt.qcom.events import CacheEvents
from hcqrt.qcom.pm4 import RegisterSet, write
from hcqrt.qcom.shader import Shader

KIB, MIB = 1 << 10, 1 << 20


def sizes(chip: Chip, shader: Shader, shape: Shape) -> list[Any]:
    """A second pipe, where a chip has one, wants copies of what the first is told."""
    reg = chip.arch.registers
    linear = dict(LINEARLOCALIDREGID=shader.linear_id, THREADSIZE=thread_size(shader))
    numbers = register_ids(reg.HLSQ_CS_CNTL_0, shader), reg.HLSQ_CS_CNTL_1(**linear)
    words = write(*ndrange(reg, shape), *numbers, *group_counts(reg, shader, shape))
    if chip.lpac:
        words += write(register_ids(reg.SP_CS_CNTL_0, shader), reg.SP_CS_CNTL_1(**linear))
        words += write(shared_and_constants(reg.HLSQ_CS_CTRL_REG1, shader, shape))
    return words


A6XX = Arch(
    name="a6xx",
    const_vec4=256,
    local_bytes=32 * KIB,
    threads_max=1024,
    waves_max=16,
    wave_threads=64,
    groups_max=65535,
    code_align=128,
    textures_preload=16,
    textures_max=255,  # SP_CS_CONFIG.NTEX, 8 bits
    samplers_max=31,  # SP_CS_CONFIG.NSAMP, 5 bits
    images_max=127,  # SP_CS_CONFIG.NIBO, 7 bits
    image_axis_max=16384,
    registers=RegisterSet(a6xx.REGISTERS),
    events=CacheEvents(
        "CP_EVENT_WRITE", flush=a6xx.EVENTS["CACHE_FLUSH_TS"], invalidate=a6xx.EVENTS["CACHE_INVALIDATE"]
    ),
    sizes=sizes,
)

A630 = Chip("a630", 0x060300, A6XX, 2, 2048, 64, False, 1 * MIB, 96, 0x0010_8000)
A640 = Chip("a640", 0x060400, A6XX, 2, 8192, 64, False, 1 * MIB, 96, 0x0000_8000)
A650 = Chip("a650", 0x060500, A6XX, 3, 4096, 127, False, 1152 * KIB, 64, 0x0100_8000)
A660 = Chip("a660", 0x060600, A6XX, 3, 4096, 127, True, 1536 * KIB, 64, 0x0500_8000)
A690 = Chip("a690", 0x060900, A6XX, 8, 4096, 127, True, None, 64, 0x04C0_0000)


def sibling(name: str, id_prefix: int, of: Chip, **differs: Any) -> Chip:
    """A chip that nobody tried, with what Mesa says of it where its family's known chip differs."""
    return replace(of, name=name, id_prefix=id_prefix, gmem_bytes=None, known=False, **differs)


CHIPS = (
    A630,
    A640,
    A650,
    A660,
    A690,
    sibling("a615", 0x060105, A630, sps=1),
    sibling("a616", 0x060106, A630, sps=1),
    sibling("a618", 0x060108, A630, sps=1),
    sibling("a619", 0x060109, A630, sps=1),
    sibling("a635", 0x060305, A660, sps=2),  # a sibling of a660, whatever its number says
    sibling("a662", 0x060602, A660, fibres_per_sp=8192),
    sibling("a663", 0x060603, A660, fibres_per_sp=8192),
    sibling("a680", 0x060800, A640, sps=4, tpl1_dbg_eco_cntl=0x0010_8000),
)
