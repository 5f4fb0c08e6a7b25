"""Adreno 7xx, experimental: limits, commands, chips. Source: qcom facts 1.10, 2, 3.2; Mesa 25.0.7's device table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hcqrt.autogen.qcom import a7xx
from hcqrt.qcom.arch import Chip
from hcqrt.qcom.arch.a6xx import A6XX, MIB
from hcqrt.qcom.dispatch import Shape, group_counts, ndrange, register_ids, thread_size
from hcqrt.qcom.events import CacheEvents
from hcqrt.qcom.pm4 import RegisterSet, command, payload, write
from hcqrt.qcom.shader import ABSENT, Shader

TILE_WIDTH = 4
WORKITEMRASTORDER_LINEAR = 0  # a7xx_workitem_rast_order: threads of a group in the order of their numbers


def tile_height(local_y: Any) -> Any:
    """WGTILEHEIGHT: 3, 5, 9 or 17 where the local size's y is a multiple of 8, 4, 2 or odd. `local_y` may be a symbol.

    Each of its three low bits that is set makes all larger powers of two no divisor of it.
    """
    odd, twos = local_y & 1, local_y & 1 | local_y >> 1 & 1
    return 3 + 2 * (twos | local_y >> 2 & 1) + 4 * twos + 8 * odd


def sizes(chip: Chip, shader: Shader, shape: Shape) -> list[Any]:
    """Every group is whole: the last one has the size of all."""
    reg, (x, y, z) = chip.arch.registers, shape.local
    linear = dict(LINEARLOCALIDREGID=shader.linear_id, THREADSIZE=thread_size(shader))
    tiles = dict(WORKGROUPRASTORDERZFIRSTEN=1, WGTILEWIDTH=TILE_WIDTH, WGTILEHEIGHT=tile_height(y))
    last = reg.HLSQ_CS_LAST_LOCAL_SIZE(LOCALSIZEX=x - 1, LOCALSIZEY=y - 1, LOCALSIZEZ=z - 1)
    order = reg.SP_CS_CNTL_1(**linear, WORKITEMRASTORDER=WORKITEMRASTORDER_LINEAR)
    return [
        *write(*ndrange(reg, shape), reg.HLSQ_CS_CNTL_1(**linear, **tiles), *group_counts(reg, shader, shape), last),
        *write(register_ids(reg.SP_CS_CNTL_0, shader), order),
    ]


def fixed(reg: RegisterSet) -> list[Any]:
    """Registers that compute wants idle: those of fragment shaders name no register. Source: qcom facts 3.2."""
    absent = [
        register(**dict.fromkeys(register.fields, ABSENT))
        for register in (reg.HLSQ_CONTROL_2_REG, reg.HLSQ_CONTROL_3_REG, reg.HLSQ_CONTROL_4_REG)
    ]
    return [
        *write(reg.SP_CS_UNKNOWN_A9BE(0)),
        *write(reg.SP_CS_VGPR_CONFIG(0), reg.HLSQ_FS_CNTL_0(THREADSIZE=0)),
        *write(*absent, reg.HLSQ_CONTROL_5_REG(LINELENGTHREGID=0, FOVEATIONQUALITYREGID=ABSENT)),
    ]


def begin() -> tuple[int, ...]:
    """Commands are for the command processor's thread for rendering alone.

    The driver starts a submission on that and the one for visibility, which waits for no shader and would set a signal
    before its time.
    """
    thread = payload(
        "CP_THREAD_CONTROL", 0, THREAD=a7xx.ENUMS["cp_thread"]["CP_SET_THREAD_BR"], CONCURRENT_BIN_DISABLE=1
    )
    return tuple(command("CP_THREAD_CONTROL", thread))


A7XX = replace(
    A6XX,
    name="a7xx",
    const_vec4=512,
    registers=RegisterSet(a7xx.REGISTERS),
    events=CacheEvents(
        "CP_EVENT_WRITE7",
        flush=a7xx.EVENTS["CACHE_CLEAN"],  # 0x31, which a6xx calls CACHE_INVALIDATE
        invalidate=a7xx.EVENTS["CACHE_INVALIDATE7"],
        storing={
            "WRITE_SRC": a7xx.ENUMS["event_write_src"]["EV_WRITE_USER_32B"],
            "WRITE_DST": a7xx.ENUMS["event_write_dst"]["EV_DST_RAM"],
            "WRITE_ENABLED": 1,
        },
    ),
    sizes=sizes,
    begin=begin(),
    fixed=fixed,
    preloads_code=False,
    opencl_binaries=False,
    locks_at_end=True,
    experimental=True,
)

# Other patch levels are other chips: Mesa lists 0x07030002 as an A725 and 0x43050a00 as an A32
A730 = Chip("a730", 0x070300, A7XX, 4, 4096, 127, True, 2 * MIB, 96, 0x0100_0000, patch=0x01)
A740 = Chip("a740", 0x43050A, A7XX, 6, 4096, 127, True, 3 * MIB, 96, 0x1110_0000, patch=0x01)
A750 = Chip("a750", 0x430514, A7XX, 6, 4096, 127, True, 3 * MIB, 96, 0x1110_0000, patch=0x01)
CHIPS = (A730, A740, A750)
