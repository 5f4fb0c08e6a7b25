"""Adreno 7xx, experimental: limits, commands, chips. Source: qcom facts 1.10, 2, 3.2; Mesa 25.0.7's device table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hcqrt.autogen.qcom import a7xx
from hcqrt.qcom.arch import Chip
from hcqrt.qcom.arch.a6xx import A6XX, MIB
from hcqrt.qcom.dispatch import Shape, group_counts, ndrange, register_ids, thread_size
from hcqrt.qcom.events import CacheEvents
from hcqrt.qcom.pm4 import Register, command, payload, write
from hcqrt.qcom.shader import ABSENT, Shader

NDRANGE = tuple(Register(f"HLSQ_CS_NDRANGE_{index}", a7xx.REGISTERS) for index in range(7))
GROUPS = tuple(Register(f"HLSQ_CS_KERNEL_GROUP_{axis}", a7xx.REGISTERS) for axis in "XYZ")
HLSQ_CS_CNTL_1 = Register("HLSQ_CS_CNTL_1", a7xx.REGISTERS)
HLSQ_CS_LAST_LOCAL_SIZE = Register("HLSQ_CS_LAST_LOCAL_SIZE", a7xx.REGISTERS)
SP_CS_CNTL_0, SP_CS_CNTL_1 = Register("SP_CS_CNTL_0", a7xx.REGISTERS), Register("SP_CS_CNTL_1", a7xx.REGISTERS)
SP_CS_UNKNOWN_A9BE = Register("SP_CS_UNKNOWN_A9BE", a7xx.REGISTERS)
SP_CS_VGPR_CONFIG, HLSQ_FS_CNTL_0 = (
    Register("SP_CS_VGPR_CONFIG", a7xx.REGISTERS),
    Register("HLSQ_FS_CNTL_0", a7xx.REGISTERS),
)
HLSQ_CONTROL = tuple(Register(f"HLSQ_CONTROL_{index}_REG", a7xx.REGISTERS) for index in range(2, 6))
TILE_WIDTH = 4
WORKITEMRASTORDER_LINEAR = 0  # a7xx_workitem_rast_order: threads of a group in the order of their numbers


def tile_height(local_y: Any) -> Any:
    """WGTILEHEIGHT: 3, 5, 9 or 17 where the local size's y is a multiple of 8, 4, 2 or odd. `local_y` may be a symbol.

    Each of its three low bits that is set makes all larger powers of two no divisor of it.
    """
    odd, twos = local_y & 1, local_y & 1 | local_y >> 1 & 1
    return 3 + 2 * (twos | local_y >> 2 & 1) + 4 * twos + 8 * odd


def sizes(_: Chip, shader: Shader, shape: Shape) -> list[Any]:
    """Every group is whole: the last one has the size of all."""
    x, y, z = shape.local
    linear = HLSQ_CS_CNTL_1(
        LINEARLOCALIDREGID=shader.linear_id,
        THREADSIZE=thread_size(shader),
        WORKGROUPRASTORDERZFIRSTEN=1,
        WGTILEWIDTH=TILE_WIDTH,
        WGTILEHEIGHT=tile_height(y),
    )
    last = HLSQ_CS_LAST_LOCAL_SIZE(LOCALSIZEX=x - 1, LOCALSIZEY=y - 1, LOCALSIZEZ=z - 1)
    ranges = ndrange(NDRANGE[0], NDRANGE[1:], shape)
    order = SP_CS_CNTL_1(
        LINEARLOCALIDREGID=shader.linear_id,
        THREADSIZE=thread_size(shader),
        WORKITEMRASTORDER=WORKITEMRASTORDER_LINEAR,
    )
    return [
        *write(*ranges, linear, *group_counts(GROUPS, shader, shape), last),
        *write(register_ids(SP_CS_CNTL_0, shader), order),
    ]


def fixed() -> tuple[int, ...]:
    """Registers that compute wants idle: those of fragment shaders name no register. Source: qcom facts 3.2."""
    names = [list(register.fields) for register in HLSQ_CONTROL[:3]]
    absent = [register(**dict.fromkeys(fields, ABSENT)) for register, fields in zip(HLSQ_CONTROL, names, strict=False)]
    return (
        *write(SP_CS_UNKNOWN_A9BE(0)),
        *write(SP_CS_VGPR_CONFIG(0), HLSQ_FS_CNTL_0(THREADSIZE=0)),
        *write(*absent, HLSQ_CONTROL[3](LINELENGTHREGID=0, FOVEATIONQUALITYREGID=ABSENT)),
    )


def begin() -> tuple[int, ...]:
    """Commands are for the rendering half of the command processor, which has another for visibility."""
    thread = payload(
        "CP_THREAD_CONTROL", 0, THREAD=a7xx.ENUMS["cp_thread"]["CP_SET_THREAD_BR"], CONCURRENT_BIN_DISABLE=1
    )
    return tuple(command("CP_THREAD_CONTROL", thread))


A7XX = replace(
    A6XX,
    name="a7xx",
    const_vec4=512,
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
    invalidate=Register("HLSQ_INVALIDATE_CMD", a7xx.REGISTERS),
    constants=Register("HLSQ_CS_CNTL", a7xx.REGISTERS),
    sizes=sizes,
    begin=begin(),
    fixed=fixed(),
    preloads_code=False,
    opencl_binaries=False,
    locks_at_end=True,
    experimental=True,
)

# other patch levels are other chips: 0x07030002 and 0x43050a00 are sold as something else
A730 = Chip("a730", 0x070300, A7XX, 4, 4096, 127, True, 2 * MIB, 96, 0x0100_0000, patch=0x01)
A740 = Chip("a740", 0x43050A, A7XX, 6, 4096, 127, True, 3 * MIB, 96, 0x1110_0000, patch=0x01)
A750 = Chip("a750", 0x430514, A7XX, 6, 4096, 127, True, 3 * MIB, 96, 0x1110_0000, patch=0x01)
CHIPS = (A730, A740, A750)
