"""One compute dispatch, register by register. Source: qcom facts 3, whose worked dispatch these words are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hcqrt.core.sints import Sint, is_symbolic
from hcqrt.qcom import pm4, tables
from hcqrt.qcom.arch import Chip, PrivateLayout
from hcqrt.qcom.pm4 import Register, RegisterSet, RegisterWrite, write
from hcqrt.qcom.shader import CODE_UNIT, Shader

KERNEL_DIMS = 3
CONST_RAM_VEC4 = {"CONSTLEN_128": 128, "CONSTLEN_192": 192, "CONSTLEN_256": 256, "CONSTLEN_512": 512}


@dataclass(frozen=True)
class Place:
    """Where a kernel and what it reads lie. Addresses, some of which may be symbols; tables None when not used."""

    code: int
    private: int
    border: int
    samplers: Sint
    textures: Sint
    images: Sint
    constants: tuple[tuple[Sint, int, int], ...]  # (address, first vector of the constant file, vectors)


@dataclass(frozen=True)
class Shape:
    """Size of one launch: workgroups, threads of each, bytes of shared memory. Sizes may be symbols."""

    groups: tuple[Any, Any, Any]
    local: tuple[Any, Any, Any]
    shared_bytes: int


def dispatch(chip: Chip, shader: Shader, shape: Shape, place: Place, private: PrivateLayout) -> list[Any]:
    """The words of one dispatch."""
    arch, reg = chip.arch, chip.arch.registers
    marker = pm4.payload("CP_SET_MARKER", 0, MODE=tables.ENUMS["a6xx_marker"]["RM6_COMPUTE"])
    words = pm4.command("CP_SET_MARKER", beyond_limits(chip, shader, shape, marker))
    words += write(reg.HLSQ_INVALIDATE_CMD(CS_STATE=1, CS_IBO=1))
    words += modes(chip, shader)
    words += pm4.wait_for_idle()
    words += write(reg.HLSQ_CS_CNTL(CONSTLEN=shader.constlen, ENABLED=1))
    words += config(reg, shader)
    words += program(reg, shader, shape, place, private)
    words += arch.sizes(chip, shader, shape)
    words += arch.fixed(reg)
    for va, first, vectors in place.constants:
        words += pm4.load_state("SB6_CS_SHADER", "ST6_CONSTANTS", va, vectors, first)
    if arch.preloads_code:
        units = min(shader.instrlen, chip.icache_units)
        words += pm4.load_state("SB6_CS_SHADER", "ST6_SHADER", place.code, units)
    words += descriptors(chip, shader, place)
    if shader.opencl_launch:
        words += pm4.command("CP_RUN_OPENCL", 0)
    else:
        words += pm4.command("CP_EXEC_CS", 0, *shape.groups)
    return words + without_descriptors(reg, shader)


def beyond_limits(chip: Chip, shader: Shader, shape: Shape, word: Any) -> Any:
    """`word`; with sizes that are symbols one that is negative, and refused at submission, for a launch too large.

    Known sizes were checked before. No field is too narrow for what is asked here: counts of groups have 32 bits, and
    three sizes that fit may be too many threads together.
    """
    most = chip.max_threads(shader.full_regs, shader.half_regs, shader.merged_regs)
    for count in filter(is_symbolic, shape.groups):
        word = word | (count - 1 | chip.arch.groups_max - count) >> 64 << 32
    if any(map(is_symbolic, shape.local)):
        x, y, z = shape.local
        word = word | most - x * y * z >> 64 << 32
    return word


def modes(chip: Chip, shader: Shader) -> list[Any]:
    """How the shader's binary wants constants and image coordinates read; and what every dispatch needs set."""
    reg = chip.arch.registers
    isam = tables.ENUMS["a6xx_isam_mode"]["ISAMMODE_CL" if shader.isam_cl else "ISAMMODE_GL"]
    return [
        *write(reg.SP_MODE_CONTROL(CONSTANT_DEMOTION_ENABLE=int(shader.constant_demotion), ISAMMODE=isam)),
        *write(reg.SP_FLOAT_CNTL(F16_NO_INF=0)),
        *write(reg.SP_PERFCTR_ENABLE(CS=1)),
        *write(reg.SP_TP_MODE_CNTL(ISAMMODE=isam)),
        # as a whole: rnndb names bits 25:0 of it, the device table's values for a660 and a690 have bit 26 as well
        *write(RegisterWrite(reg.TPL1_DBG_ECO_CNTL, (chip.tpl1_dbg_eco_cntl,))),
    ]


def config(reg: RegisterSet, shader: Shader) -> list[Any]:
    counts = reg.SP_CS_CONFIG(ENABLED=1, NTEX=len(shader.textures), NSAMP=shader.samplers, NIBO=shader.images)
    return write(counts, reg.SP_CS_INSTRLEN(shader.instrlen))


def program(reg: RegisterSet, shader: Shader, shape: Shape, place: Place, private: PrivateLayout) -> list[Any]:
    """Registers, code, private memory."""
    if place.code % CODE_UNIT:
        raise ValueError(f"code at {place.code:#x} is not aligned to {CODE_UNIT} bytes")
    footprint = reg.SP_CS_CTRL_REG0(
        HALFREGFOOTPRINT=shader.half_regs,
        FULLREGFOOTPRINT=shader.full_regs,
        BRANCHSTACK=shader.branch_stack,
        THREADSIZE=thread_size(shader),
        EARLYPREAMBLE=int(shader.early_preamble),
        MERGEDREGS=int(shader.merged_regs),
    )
    packet = write(
        footprint,
        shared_and_constants(reg.SP_CS_CTRL_REG1, shader, shape),
        reg.SP_CS_BRANCH_COND(0),
        reg.SP_CS_OBJ_FIRST_EXEC_OFFSET(shader.entry),
        reg.SP_CS_OBJ_START(place.code),
        reg.SP_CS_PVT_MEM_PARAM(MEMSIZEPERITEM=private.per_fibre),
        reg.SP_CS_PVT_MEM_ADDR(place.private),
        reg.SP_CS_PVT_MEM_SIZE(
            TOTALPVTMEMSIZE=private.per_sp,
            PERWAVEMEMLAYOUT=int(shader.private_per_wave and private.total > 0),
        ),
    )
    return packet + write(reg.SP_CS_PVT_MEM_HW_STACK_OFFSET(OFFSET=private.per_sp))


def shared_and_constants(register: Register, shader: Shader, shape: Shape) -> RegisterWrite:
    """Shared memory in KiB less one, at least 1; the smallest constant memory that holds the shader's constants."""
    mode = next(name for name, vectors in CONST_RAM_VEC4.items() if vectors >= shader.constlen)
    return register(
        SHARED_SIZE=max(1, (shape.shared_bytes - 1) // 1024),
        CONSTANTRAMMODE=tables.ENUMS["a6xx_const_ram_mode"][mode],
    )


def ndrange(reg: RegisterSet, shape: Shape) -> list[RegisterWrite]:
    """Local size, then global size and offset along each axis."""
    x, y, z = shape.local
    axes = (
        (reg.HLSQ_CS_NDRANGE_1, reg.HLSQ_CS_NDRANGE_2),
        (reg.HLSQ_CS_NDRANGE_3, reg.HLSQ_CS_NDRANGE_4),
        (reg.HLSQ_CS_NDRANGE_5, reg.HLSQ_CS_NDRANGE_6),
    )
    writes = [reg.HLSQ_CS_NDRANGE_0(KERNELDIM=KERNEL_DIMS, LOCALSIZEX=x - 1, LOCALSIZEY=y - 1, LOCALSIZEZ=z - 1)]
    for (size, offset), groups, local in zip(axes, shape.groups, shape.local, strict=True):
        writes += [size(groups * local), offset(0)]
    return writes


def group_counts(reg: RegisterSet, shader: Shader, shape: Shape) -> list[RegisterWrite]:
    """CP_RUN_OPENCL reads them, CP_EXEC_CS overwrites them."""
    x, y, z = shape.groups if shader.opencl_launch else (1, 1, 1)
    return [reg.HLSQ_CS_KERNEL_GROUP_X(x), reg.HLSQ_CS_KERNEL_GROUP_Y(y), reg.HLSQ_CS_KERNEL_GROUP_Z(z)]


def register_ids(register: Register, shader: Shader) -> RegisterWrite:
    """The registers that get the group's numbers and the thread's."""
    return register(
        WGIDCONSTID=shader.group_id,
        WGSIZECONSTID=shader.group_size,
        WGOFFSETCONSTID=shader.group_offset,
        LOCALIDREGID=shader.local_id,
    )


def thread_size(shader: Shader) -> int:
    sizes = tables.ENUMS["a6xx_threadsize"]
    return sizes["THREAD128" if shader.double_threads else "THREAD64"]


def descriptors(chip: Chip, shader: Shader, place: Place) -> list[Any]:
    """Samplers, textures and writable images: loaded, and where their tables lie."""
    reg = chip.arch.registers
    words: list[Any] = []
    if shader.samplers:
        words += pm4.load_state("SB6_CS_TEX", "ST6_SHADER", place.samplers, shader.samplers)
        words += write(reg.SP_CS_TEX_SAMP(place.samplers))
        words += write(reg.SP_PS_TP_BORDER_COLOR_BASE_ADDR(place.border))  # the compute one; SP_TP_… is of drawing
    if shader.textures:
        preload = min(len(shader.textures), chip.arch.textures_preload)
        words += pm4.load_state("SB6_CS_TEX", "ST6_CONSTANTS", place.textures, preload)
        words += write(reg.SP_CS_TEX_CONST(place.textures))
    if shader.images:
        words += pm4.load_state("SB6_CS_SHADER", "ST6_IBO", place.images, shader.images)
        words += write(reg.SP_CS_IBO(place.images))
    if shader.textures or shader.images:
        words += write(reg.SP_CS_TEX_COUNT(len(shader.textures))) + write(reg.SP_CS_IBO_COUNT(shader.images))
    return words


def without_descriptors(reg: RegisterSet, shader: Shader) -> list[Any]:
    """After a launch with images: registers persist, and launches without images do not write these."""
    if not shader.textures and not shader.images:
        return []
    return pm4.wait_for_idle() + write(reg.SP_CS_TEX_COUNT(0)) + write(reg.SP_CS_IBO_COUNT(0))
