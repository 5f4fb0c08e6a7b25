"""ir3 shaders as tinymesa 25.2.7.2 makes them: two compiler records, immediates, code. Source: ir3 facts 5."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hcqrt.errors import BinaryError
from hcqrt.qcom.arch import Arch
from hcqrt.qcom.shader import (
    ABSENT,
    CODE_UNIT,
    SHARED_REGS,
    SHARED_REGS_END,
    VEC4,
    ConstRange,
    DriverParams,
    Shader,
)

# sizes of ir3_shader_variant and ir3_const_state in that build; their layout is private to it
VARIANT_BYTES, CONST_STATE_BYTES = 2040, 1424
HEAD_BYTES = VARIANT_BYTES + CONST_STATE_BYTES
STAGE_COMPUTE = 5  # MESA_SHADER_COMPUTE
CODE_BYTES_MAX = 1 << 24
NESTING_MAX = 64
REGISTER_MAX = 0xFC
RANGES_MAX, TEXTURES_MAX = 32, 32
PRIVATE_BYTES_MAX = 1 << 16  # SP_CS_PVT_MEM_PARAM, a power of two of at most 255 * 512
ALLOCATIONS, DRIVER_PARAMS, UBO_RANGES = 12, 3, 4  # entries of the table of constants: all, and those we fill
DRIVER_PARAM_BYTES = 64  # the most there are
# How compute shaders of Adreno 7xx end: (sy)(ss)(jp)lock, unlock, end. Flags are bits 60, 59 and 44 (ir3-cat7.xml)
LOCK, UNLOCK, END = 0xE3C2_0000_0000_0000, 0xE3CA_0000_0000_0000, 0x0300_0000_0000_0000
FLAGS = 1 << 60 | 1 << 59 | 1 << 44

# field -> (struct format, byte offset)
VARIANT = {
    "stage": ("I", 136),
    "immediates": ("I", 212),
    "code_bytes": ("I", 224),
    "max_reg": ("b", 248),
    "max_half_reg": ("b", 249),
    "double_threadsize": ("B", 254),
    "constant_data_bytes": ("I", 560),
    "branchstack": ("I", 564),
    "instrlen": ("I", 572),
    "constlen": ("I", 576),
    "pvtmem_size": ("I", 580),
    "pvtmem_per_wave": ("B", 584),
    "early_preamble": ("B", 587),
    "shared_size": ("I", 588),
    "num_tex": ("B", 1220),
    "bindless_tex": ("B", 1230),
    "bindless_samp": ("B", 1231),
    "bindless_ibo": ("B", 1232),
    "bindless_ubo": ("B", 1233),
    "mergedregs": ("B", 1243),
    "local_size_variable": ("B", 1472),
    "num_ssbos": ("I", 1476),
    "num_uavs": ("I", 1480),
    "local_invocation_id": ("I", 1492),
    "work_group_id": ("I", 1496),
}
TEX_TO_IMAGE, LOCAL_SIZE = 1188, struct.Struct("<1466x3H")
BOOLEANS = (
    "double_threadsize", "pvtmem_per_wave", "early_preamble", "bindless_tex", "bindless_samp", "bindless_ibo",
    "bindless_ubo", "mergedregs", "local_size_variable",
)  # fmt: skip
CONST_STATE = {"max_const_offset_vec4": 236, "ranges": 1408, "ranges_bytes": 1412}
ALLOCATION, ALLOCATION_AT = struct.Struct("<2I8x"), 44
UBO_RANGE, UBO_RANGE_AT = struct.Struct("<8xIHBx3I4x"), 384  # block, bindless base, bindless, offset, start, end


def looks_like_ir3(data: bytes) -> bool:
    """Whether the compiler's records are there: stage, lengths and register numbers agree."""
    if len(data) < HEAD_BYTES + CODE_UNIT:
        return False
    fields = read_variant(data)
    flags = all(fields[name] <= 1 for name in BOOLEANS)
    sizes = len(data) == HEAD_BYTES + 4 * fields["immediates"] + fields["code_bytes"]
    return flags and sizes and fields["stage"] < 16 and fields["code_bytes"] > 0


def read_variant(data: bytes) -> dict[str, int]:
    return {name: struct.unpack_from(f"<{fmt}", data, place)[0] for name, (fmt, place) in VARIANT.items()}


def load_ir3(data: bytes, name: str | None, arch: Arch) -> Shader:
    """Read an ir3 shader. It carries no name, so it gets the one asked for. Raises BinaryError."""
    if not looks_like_ir3(data):
        raise BinaryError(
            f"{len(data)} bytes are no ir3 shader of tinymesa 25.2.7.2: records of {HEAD_BYTES} bytes, immediates, code"
        )
    fields = read_variant(data)
    check_variant(fields, arch)
    constants = read_constants(data, fields)
    code = data[HEAD_BYTES + 4 * fields["immediates"] :]
    check_generation(code, arch)
    textures = tuple(data[TEX_TO_IMAGE : TEX_TO_IMAGE + fields["num_tex"]])
    images = fields["num_uavs"] - fields["num_tex"]
    if images < 0 or any(number >= fields["num_tex"] for number in textures):
        raise BinaryError(f"damaged ir3 shader: textures {textures} of {fields['num_uavs']} images")
    return Shader(
        name=name or "main",
        code=code,
        instrlen=fields["instrlen"],
        entry=0,
        full_regs=fields["max_reg"] + 1,
        half_regs=fields["max_half_reg"] + 1,
        branch_stack=-(-min(fields["branchstack"], NESTING_MAX) // 2),
        constlen=fields["constlen"],
        arguments=None,
        ranges=constants.ranges,
        block=bytes(max((part.end for part in constants.ranges), default=0)),
        constants=constants.immediates,
        driver_params=constants.driver_params,
        merged_regs=bool(fields["mergedregs"]),
        double_threads=bool(fields["double_threadsize"]),
        early_preamble=bool(fields["early_preamble"]),
        shared_bytes=fields["shared_size"],
        private_bytes=fields["pvtmem_size"],
        private_per_wave=bool(fields["pvtmem_per_wave"]),
        textures=textures,
        images=images,
        samplers=fields["num_tex"],  # one for every texture
        group_id=fields["work_group_id"],
        local_id=fields["local_invocation_id"],
        required_local=required_local(data, fields, arch),
    )


def required_local(data: bytes, fields: dict[str, int], arch: Arch) -> tuple[int, int, int] | None:
    """The local size the code was compiled for, None where it is chosen at launch."""
    if fields["local_size_variable"]:
        return None
    x, y, z = LOCAL_SIZE.unpack_from(data)
    if not 1 <= x * y * z <= arch.threads_max:
        raise BinaryError(f"damaged ir3 shader: local size {(x, y, z)}")
    return x, y, z


def check_variant(fields: dict[str, int], arch: Arch) -> None:
    """Refuse what is out of range, and what the launch does not provide. Raises BinaryError."""
    if fields["stage"] != STAGE_COMPUTE:
        raise BinaryError(
            f"ir3 shader of stage {fields['stage']}: only compute (stage {STAGE_COMPUTE}) can be launched"
        )
    for what in ("bindless_tex", "bindless_samp", "bindless_ibo", "bindless_ubo"):
        if fields[what]:
            raise BinaryError(f"ir3 shader with {what}: descriptors are bound by slot; compile without bindless")
    if fields["num_ssbos"] or fields["constant_data_bytes"]:
        raise BinaryError(
            f"ir3 shader with {fields['num_ssbos']} SSBOs and {fields['constant_data_bytes']} bytes of constant data: "
            "pass buffers by address, and compile constants as immediates"
        )
    limits = {
        "max_reg": (-1, 47),
        "max_half_reg": (-1, 47),
        "constlen": (0, arch.const_vec4),
        "code_bytes": (CODE_UNIT, CODE_BYTES_MAX),
        "instrlen": (1, fields["code_bytes"] // CODE_UNIT),
        "immediates": (0, 4 * arch.const_vec4),
        "shared_size": (0, arch.local_bytes),
        "pvtmem_size": (0, PRIVATE_BYTES_MAX),
        "num_tex": (0, min(TEXTURES_MAX, arch.samplers_max)),
        "num_uavs": (0, arch.images_max),
        "branchstack": (0, 1 << 16),
        "work_group_id": (0, REGISTER_MAX),
        "local_invocation_id": (0, REGISTER_MAX),
    }
    for what, (least, most) in limits.items():
        if not least <= fields[what] <= most:
            raise BinaryError(f"damaged ir3 shader: {what} is {fields[what]}, it can be {least} to {most}")
    check_ids(fields)
    if fields["code_bytes"] % CODE_UNIT or fields["constlen"] % 4:
        raise BinaryError(
            f"damaged ir3 shader: {fields['code_bytes']} bytes of code, constlen {fields['constlen']}; "
            f"they are multiples of {CODE_UNIT} and 4"
        )


def check_ids(fields: dict[str, int]) -> None:
    """The vectors of three that the hardware writes before the code starts: group number and local number."""
    group, local = fields["work_group_id"], fields["local_invocation_id"]
    if group != ABSENT and not SHARED_REGS <= group <= SHARED_REGS_END - 3:
        raise BinaryError(f"damaged ir3 shader: work_group_id in register {group:#x}, it needs three of r48.x to r55.w")
    if local != ABSENT and local + 3 > 4 * (fields["max_reg"] + 1):
        raise BinaryError(
            f"damaged ir3 shader: local_invocation_id in three registers from {local:#x}, the shader has "
            f"{4 * (fields['max_reg'] + 1)}"
        )


def check_generation(code: bytes, arch: Arch) -> None:
    """Refuse code of another generation. The records do not name it, but how a compute shader ends does.

    What Mesa's compiler writes for one is else read alike by the other, save ldg.a and stg.a, whose offsets count
    bytes on a7xx and dwords on a6xx: such code would run, and read elsewhere.
    """
    words = [word & ~FLAGS for (word,) in struct.iter_unpack("<Q", code)]
    locks = any(words[index : index + 3] == [LOCK, UNLOCK, END] for index in range(len(words)))
    if locks != arch.locks_at_end:
        found = "Adreno 7xx: it ends with lock and unlock" if locks else "Adreno 6xx: it does not end with lock, unlock"
        raise BinaryError(f"ir3 shader compiled for {found}; this GPU is an {arch.name}. Compile it for this chip")


@dataclass(frozen=True)
class Constants:
    """What goes to the constant file besides arguments, and where arguments go."""

    ranges: tuple[ConstRange, ...]
    immediates: tuple[tuple[int, bytes], ...]
    driver_params: DriverParams | None


def read_constants(data: bytes, fields: dict[str, int]) -> Constants:
    """The second record, and the immediates. Everything must lie within the shader's CONSTLEN."""
    state = {name: struct.unpack_from("<I", data, VARIANT_BYTES + place)[0] for name, place in CONST_STATE.items()}
    limit = fields["constlen"] * VEC4
    if state["ranges"] > RANGES_MAX:
        raise BinaryError(f"damaged ir3 shader: {state['ranges']} ranges of arguments, there can be {RANGES_MAX}")
    ranges = []
    for index in range(state["ranges"]):
        place = VARIANT_BYTES + UBO_RANGE_AT + index * UBO_RANGE.size
        block, _, bindless, offset, start, end = UBO_RANGE.unpack_from(data, place)
        if block or bindless:
            raise BinaryError(f"ir3 shader reads uniform buffer {block}: only the one of the arguments, 0, is there")
        if not start < end or (start | end | offset) % VEC4 or offset + end - start > limit:
            raise BinaryError(
                f"damaged ir3 shader: arguments {start} to {end} at {offset} of {limit} bytes of constants"
            )
        ranges.append(ConstRange(start, end, offset))
    sizes = [
        ALLOCATION.unpack_from(data, VARIANT_BYTES + ALLOCATION_AT + index * ALLOCATION.size)
        for index in range(ALLOCATIONS)
    ]
    for index, (_, size) in enumerate(sizes):
        if size and index not in (DRIVER_PARAMS, UBO_RANGES):
            raise BinaryError(f"ir3 shader wants constants of kind {index}, which only a graphics driver provides")
    offset, size = (VEC4 * value for value in sizes[DRIVER_PARAMS])
    if offset + size > limit or size > DRIVER_PARAM_BYTES:
        raise BinaryError(f"damaged ir3 shader: {size} bytes of driver parameters at {offset} of {limit}")
    first = VEC4 * state["max_const_offset_vec4"]
    values = data[HEAD_BYTES : HEAD_BYTES + 4 * fields["immediates"]]
    if values and first >= limit:
        raise BinaryError(f"damaged ir3 shader: immediates at {first} of {limit} bytes of constants")
    values = values[: limit - first]  # the compiler shortens CONSTLEN where nothing reads the rest
    values += bytes(-len(values) % VEC4)
    return Constants(tuple(ranges), ((first, values),) if values else (), DriverParams(offset, size) if size else None)
