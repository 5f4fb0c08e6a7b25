"""One compute dispatch, register by register. Source: qcom facts 3, whose worked dispatch these words are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hcqrt.core.sints import Sint, is_symbolic
from hcqrt.qcom import pm4, tables
from hcqrt.qcom.arch import Chip, PrivateLayout
from hcqrt.qcom.pm4 import Register, RegisterWrite, write
from hcqrt.qcom.shader import CODE_UNIT, Shader

SP_MODE_CONTROL, SP_TP_MODE_CNTL = Register("SP_MODE_CONTROL"), Register("SP_TP_MODE_CNTL")
SP_FLOAT_CNTL, SP_PERFCTR_ENABLE = Register("SP_FLOAT_CNTL"), Register("SP_PERFCTR_ENABLE")
TPL1_DBG_ECO_CNTL, SP_CS_CONFIG = Register("TPL1_DBG_ECO_CNTL"), Register("SP_CS_CONFIG")
SP_CS_INSTRLEN, SP_CS_BRANCH_COND = Register("SP_CS_INSTRLEN"), Register("SP_CS_BRANCH_COND")
SP_CS_CTRL_REG0, SP_CS_CTRL_REG1 = Register("SP_CS_CTRL_REG0"), Register("SP_CS_CTRL_REG1")
SP_CS_OBJ_FIRST_EXEC_OFFSET, SP_CS_OBJ_START = Register("SP_CS_OBJ_FIRST_EXEC_OFFSET"), Register("SP_CS_OBJ_START")
SP_CS_PVT_MEM_PARAM, SP_CS_PVT_MEM_ADDR = Register("SP_CS_PVT_MEM_PARAM"), Register("SP_CS_PVT_MEM_ADDR")
SP_CS_PVT_MEM_SIZE = Register("SP_CS_PVT_MEM_SIZE")
SP_CS_PVT_MEM_HW_STACK_OFFSET = Register("SP_CS_PVT_MEM_HW_STACK_OFFSET")
SP_CS_TEX_SAMP, SP_CS_TEX_CONST = Register("SP_CS_TEX_SAMP"), Register("SP_CS_TEX_CONST")
SP_CS_IBO, SP_CS_IBO_COUNT = Register("SP_CS_IBO"), Register("SP_CS_IBO_COUNT")
SP_CS_TEX_COUNT = Register("SP_CS_TEX_COUNT")
BORDER_COLOR = Register("SP_PS_TP_BORDER_COLOR_BASE_ADDR")  # the compute one; SP_TP_… is of drawing

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
    arch = chip.arch
    marker = pm4.payload("CP_SET_MARKER", 0, MODE=tables.ENUMS["a6xx_marker"]["RM6_COMPUTE"])
    words = [*arch.begin, *pm4.command("CP_SET_MARKER", beyond_limits(chip, shader, shape, marker))]
    words += write(arch.invalidate(CS_STATE=1, CS_IBO=1))
    words += modes(chip, shader)
    words += pm4.wait_for_idle()
    words += write(arch.constants(CONSTLEN=shader.constlen, ENABLED=1))
    words += config(shader)
    words += program(shader, shape, place, private)
    words += arch.sizes(chip, shader, shape)
    words += arch.fixed
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
    return words + without_descriptors(shader)


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
    isam = tables.ENUMS["a6xx_isam_mode"]["ISAMMODE_CL" if shader.isam_cl else "ISAMMODE_GL"]
    return [
        *write(SP_MODE_CONTROL(CONSTANT_DEMOTION_ENABLE=int(shader.constant_demotion), ISAMMODE=isam)),
        *write(SP_FLOAT_CNTL(F16_NO_INF=0)),
        *write(SP_PERFCTR_ENABLE(CS=1)),
        *write(SP_TP_MODE_CNTL(ISAMMODE=isam)),
        # as a whole: rnndb names bits 25:0 of it, the device table's values for a660 and a690 have bit 26 as well
        *write(RegisterWrite(TPL1_DBG_ECO_CNTL, (chip.tpl1_dbg_eco_cntl,))),
    ]


def config(shader: Shader) -> list[Any]:
    counts = SP_CS_CONFIG(ENABLED=1, NTEX=len(shader.textures), NSAMP=shader.samplers, NIBO=shader.images)
    return write(counts, SP_CS_INSTRLEN(shader.instrlen))


def program(shader: Shader, shape: Shape, place: Place, private: PrivateLayout) -> list[Any]:
    """Registers, code, private memory."""
    if place.code % CODE_UNIT:
        raise ValueError(f"code at {place.code:#x} is not aligned to {CODE_UNIT} bytes")
    footprint = SP_CS_CTRL_REG0(
        HALFREGFOOTPRINT=shader.half_regs,
        FULLREGFOOTPRINT=shader.full_regs,
        BRANCHSTACK=shader.branch_stack,
        THREADSIZE=thread_size(shader),
        EARLYPREAMBLE=int(shader.early_preamble),
        MERGEDREGS=int(shader.merged_regs),
    )
    packet = write(
        footprint,
        shared_and_constants(SP_CS_CTRL_REG1, shader, shape),
        SP_CS_BRANCH_COND(0),
        SP_CS_OBJ_FIRST_EXEC_OFFSET(shader.entry),
        SP_CS_OBJ_START(place.code),
        SP_CS_PVT_MEM_PARAM(MEMSIZEPERITEM=private.per_fibre),
        SP_CS_PVT_MEM_ADDR(place.private),
        SP_CS_PVT_MEM_SIZE(
            TOTALPVTMEMSIZE=private.per_sp,
            PERWAVEMEMLAYOUT=int(shader.private_per_wave and private.total > 0),
        ),
    )
    return packet + write(SP_CS_PVT_MEM_HW_STACK_OFFSET(OFFSET=private.per_sp))


def shared_and_constants(register: Register, shader: Shader, shape: Shape) -> RegisterWrite:
    """Shared memory in KiB less one, at least 1; the smallest constant memory that holds the shader's constants."""
    mode = next(name for name, vectors in CONST_RAM_VEC4.items() if vectors >= shader.constlen)
    return register(
        SHARED_SIZE=max(1, (shape.shared_bytes - 1) // 1024),
        CONSTANTRAMMODE=tables.ENUMS["a6xx_const_ram_mode"][mode],
    )


def ndrange(first: Register, ranges: tuple[Register, ...], shape: Shape) -> list[RegisterWrite]:
    """Local size, then global size and offset along each axis."""
    x, y, z = shape.local
    writes = [first(KERNELDIM=KERNEL_DIMS, LOCALSIZEX=x - 1, LOCALSIZEY=y - 1, LOCALSIZEZ=z - 1)]
    for axis in range(3):
        size, offset = ranges[2 * axis : 2 * axis + 2]
        writes += [size(shape.groups[axis] * shape.local[axis]), offset(0)]
    return writes


def group_counts(registers: tuple[Register, ...], shader: Shader, shape: Shape) -> list[RegisterWrite]:
    """CP_RUN_OPENCL reads them, CP_EXEC_CS overwrites them."""
    counts = shape.groups if shader.opencl_launch else (1, 1, 1)
    return [register(count) for register, count in zip(registers, counts, strict=True)]


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
    words: list[Any] = []
    if shader.samplers:
        words += pm4.load_state("SB6_CS_TEX", "ST6_SHADER", place.samplers, shader.samplers)
        words += write(SP_CS_TEX_SAMP(place.samplers))
        words += write(BORDER_COLOR(place.border))
    if shader.textures:
        preload = min(len(shader.textures), chip.arch.textures_preload)
        words += pm4.load_state("SB6_CS_TEX", "ST6_CONSTANTS", place.textures, preload)
        words += write(SP_CS_TEX_CONST(place.textures))
    if shader.images:
        words += pm4.load_state("SB6_CS_SHADER", "ST6_IBO", place.images, shader.images)
        words += write(SP_CS_IBO(place.images))
    if shader.textures or shader.images:
        words += write(SP_CS_TEX_COUNT(len(shader.textures))) + write(SP_CS_IBO_COUNT(shader.images))
    return words


def without_descriptors(shader: Shader) -> list[Any]:
    """After a launch with images: registers persist, and launches without images do not write these."""
    if not shader.textures and not shader.images:
        return []
    return pm4.wait_for_idle() + write(SP_CS_TEX_COUNT(0)) + write(SP_CS_IBO_COUNT(0))
