"""A compute configuration as the registers hold it: taken apart and checked against the chip. Source: qcom.md §3."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from hcqrt.emu.engine.launch import Dim3
from hcqrt.emu.qcom.chips import EmuChip
from hcqrt.emu.qcom.generation import TILE_WIDTH, Generation
from hcqrt.emu.qcom.ids import check_last_group, last_group, system_registers
from hcqrt.emu.qcom.private import private_memory
from hcqrt.emu.qcom.reader import Reader
from hcqrt.emu.qcom.registers import RegisterFile
from hcqrt.emu.qcom.trouble import Refused

FULL_FILE_VEC4 = 48  # r0 to r47
CODE_UNIT, CODE_ALIGNMENT, INSTRUCTION_BYTES = 128, 128, 8
MAX_BRANCH_STACK = 32  # half of 64, the deepest nesting that counts
CONST_RAM_VEC4 = {0: 128, 1: 192, 2: 256, 3: 512}  # a6xx_const_ram_mode
ISAM_CL, ISAM_GL = 1, 2
KIB = 1024
KEPT_CONFIGS = 256

REQUIRED = (
    "SP_MODE_CONTROL", "SP_TP_MODE_CNTL", "HLSQ_CS_CNTL", "SP_CS_CONFIG", "SP_CS_INSTRLEN", "SP_CS_CTRL_REG0",
    "SP_CS_CTRL_REG1", "SP_CS_BRANCH_COND", "SP_CS_OBJ_FIRST_EXEC_OFFSET", "SP_CS_OBJ_START", "SP_CS_PVT_MEM_PARAM",
    "SP_CS_PVT_MEM_SIZE", "SP_CS_PVT_MEM_HW_STACK_OFFSET", "HLSQ_CS_NDRANGE_0", "HLSQ_CS_CNTL_1",
)  # fmt: skip
OPTIONAL = ("SP_FLOAT_CNTL", "TPL1_DBG_ECO_CNTL", "SP_CS_TEX_COUNT", "SP_CS_IBO_COUNT")
WIDE = ("SP_CS_OBJ_START", "SP_CS_PVT_MEM_ADDR")  # 64 bits
STRICTLY_REQUIRED = ("SP_FLOAT_CNTL",)  # the known client never writes it
KNOWN_COUNTS = {"SP_CS_TEX_COUNT": 0x80, "SP_CS_IBO_COUNT": 0x40}  # what the known client always writes


@dataclass(frozen=True)
class Config:
    """What all launches with the same registers have in common; sizes in bytes."""

    code_va: int
    code_bytes: int
    entry_va: int
    const_vec4: int
    lanes: int
    merged: bool
    constant_demotion: bool
    isam_gl: bool
    full_regs: int
    half_regs: int
    block: Dim3
    last: Dim3  # size of the last group of each axis
    group_id: int
    group_size: int
    group_offset: int
    local_id: int
    linear_id: int
    shared_bytes: int
    private_bytes: int
    private_va: int
    per_sp_bytes: int
    textures: int
    samplers: int
    images: int


@functools.cache
def required(generation: Generation) -> tuple[str, ...]:
    return (*REQUIRED, generation.ids, *generation.required)


@functools.cache
def single_words(generation: Generation) -> tuple[str, ...]:
    """Registers of 32 bits that a configuration is made from."""
    mirrors = (mirror for mirror, _ in generation.lpac_mirrors)
    return (*required(generation), *OPTIONAL, *generation.optional, *mirrors)


@functools.cache
def words_that_count(generation: Generation) -> tuple[int, ...]:
    """Offsets of every register word that a configuration is made from."""
    wide = [generation.offsets[name] for name in WIDE]
    return (*(generation.offsets[name] for name in single_words(generation)), *wide, *(at + 1 for at in wide))


def read_config(registers: RegisterFile, chip: EmuChip, lenient: bool) -> Config:
    """The configuration of a dispatch. Raises Refused."""
    generation = chip.generation
    key = tuple(map(registers.values.get, words_that_count(generation)))  # None: never written
    known: Config | None = registers.configs.get(key)
    if known is not None:
        return known
    for name in required(generation) if lenient else (*required(generation), *STRICTLY_REQUIRED):
        if not registers.written(name):
            raise Refused(f"{registers.text(name)} was never written in this context")
    values = {name: registers.get(name) for name in single_words(generation)}
    values |= {name: registers.get64(name) for name in WIDE}
    if len(registers.configs) >= KEPT_CONFIGS:
        registers.configs.clear()
    made = registers.configs[key] = make_config(Reader(values, chip, lenient))
    return made


def make_config(reader: Reader) -> Config:
    check_modes(reader)
    check_mirrors(reader)
    code_va, code_bytes, entry_va = code_of(reader)
    block, lanes = block_of(reader)
    last = last_group(reader, block)
    full, half = footprints(reader, block, lanes)
    private_bytes, private_va, per_sp_bytes = private_memory(reader)
    ids = system_registers(reader, full)
    check_last_group(reader, block, last, ids)
    config = reader.fields("SP_CS_CONFIG")
    reader.zero("SP_CS_CONFIG", "BINDLESS_TEX", "BINDLESS_SAMP", "BINDLESS_IBO", "BINDLESS_UBO")
    if not config["ENABLED"]:
        raise reader.refuse("SP_CS_CONFIG", "ENABLED is not set")
    check_count(reader, "SP_CS_TEX_COUNT", config["NTEX"])
    check_count(reader, "SP_CS_IBO_COUNT", config["NIBO"])
    mode = reader.fields("SP_MODE_CONTROL")
    shared = reader.fields("SP_CS_CTRL_REG1")["SHARED_SIZE"]
    return Config(
        code_va=code_va,
        code_bytes=code_bytes,
        entry_va=entry_va,
        const_vec4=constlen(reader),
        lanes=lanes,
        merged=bool(reader.fields("SP_CS_CTRL_REG0")["MERGEDREGS"]),
        constant_demotion=bool(mode["CONSTANT_DEMOTION_ENABLE"]),
        isam_gl=mode["ISAMMODE"] == ISAM_GL,
        full_regs=full,
        half_regs=half,
        block=block,
        last=last,
        **ids,
        shared_bytes=(shared + 1) * KIB if shared else reader.chip.shared_bytes,
        private_bytes=private_bytes,
        private_va=private_va,
        per_sp_bytes=per_sp_bytes,
        textures=config["NTEX"],
        samplers=config["NSAMP"],
        images=config["NIBO"],
    )


def check_modes(reader: Reader) -> None:
    """Modes of the whole GPU. UNK3 of SP_TP_MODE_CNTL may be anything: real clients differ in it."""
    mode, texture_mode = reader.fields("SP_MODE_CONTROL"), reader.fields("SP_TP_MODE_CNTL")
    if mode["ISAMMODE"] not in (ISAM_CL, ISAM_GL):
        raise reader.refuse("SP_MODE_CONTROL", f"ISAMMODE {mode['ISAMMODE']} is neither CL (1) nor GL (2)")
    if texture_mode["ISAMMODE"] != mode["ISAMMODE"]:
        raise reader.refuse(
            "SP_TP_MODE_CNTL", f"ISAMMODE {texture_mode['ISAMMODE']}, but {mode['ISAMMODE']} in SP_MODE_CONTROL"
        )
    reader.zero("SP_MODE_CONTROL", "SHARED_CONSTS_ENABLE")
    reader.zero("SP_FLOAT_CNTL", "F16_NO_INF")
    for name, value in reader.generation.fixed.items():
        if reader.values[name] != value:
            raise reader.refuse(name, f"only {value:#x} is modelled")
    for name, field in reader.generation.zero_fields:
        reader.zero(name, field)
    if reader.values["TPL1_DBG_ECO_CNTL"] not in (0, reader.chip.eco_cntl):
        raise reader.refuse("TPL1_DBG_ECO_CNTL", f"an {reader.chip.name} takes 0 or {reader.chip.eco_cntl:#x}")


def check_mirrors(reader: Reader) -> None:
    for field, name, first in reader.generation.agreeing:
        said, other = reader.fields(first)[field], reader.fields(name)[field]
        if said != other:
            raise reader.refuse(name, f"{field} {other}, but {said} in {first}")
    if not reader.chip.lpac:
        return
    for mirror, original in reader.generation.lpac_mirrors:
        if reader.values[mirror] != reader.values[original]:
            raise reader.refuse(
                mirror, f"an {reader.chip.name} needs the value of {original}, {reader.values[original]:#x}"
            )


def code_of(reader: Reader) -> tuple[int, int, int]:
    """(address, bytes, address of the first instruction)."""
    va, units = reader.values["SP_CS_OBJ_START"], reader.values["SP_CS_INSTRLEN"]
    if va % CODE_ALIGNMENT or not va:
        raise reader.refuse("SP_CS_OBJ_START", f"code must be {CODE_ALIGNMENT}-byte aligned")
    if not units:
        raise reader.refuse("SP_CS_INSTRLEN", "no code: it counts units of 128 bytes")
    first = reader.values["SP_CS_OBJ_FIRST_EXEC_OFFSET"]
    if first % INSTRUCTION_BYTES or first >= units * CODE_UNIT:
        raise reader.refuse(
            "SP_CS_OBJ_FIRST_EXEC_OFFSET", f"not an instruction of the {units * CODE_UNIT:#x} bytes of code"
        )
    return va, units * CODE_UNIT, va + first


def block_of(reader: Reader) -> tuple[Dim3, int]:
    """(local size, fibers of a wave)."""
    size = reader.fields("HLSQ_CS_NDRANGE_0")
    block = size["LOCALSIZEX"] + 1, size["LOCALSIZEY"] + 1, size["LOCALSIZEZ"] + 1
    dims = size["KERNELDIM"]
    if not dims or any(extent != 1 for extent in block[dims:]):
        raise reader.refuse("HLSQ_CS_NDRANGE_0", f"local size {block} in {dims} dimensions")
    fibers = block[0] * block[1] * block[2]
    if fibers > reader.chip.max_group_fibers:
        raise reader.refuse(
            "HLSQ_CS_NDRANGE_0", f"local size {block} has {fibers} fibers, over {reader.chip.max_group_fibers}"
        )
    check_tiles(reader, block)
    return block, 128 if reader.fields("SP_CS_CTRL_REG0")["THREADSIZE"] else 64


def check_tiles(reader: Reader, block: Dim3) -> None:
    """Groups may be started tile by tile, of a height that suits the local size in y; zeros say that there are none."""
    for divisor, height in reader.generation.tile_heights:
        if block[1] % divisor:
            continue
        found = reader.fields("HLSQ_CS_CNTL_1")
        tile = found["WGTILEWIDTH"], found["WGTILEHEIGHT"]
        if tile not in ((0, 0), (TILE_WIDTH, height)):
            raise reader.refuse(
                "HLSQ_CS_CNTL_1", f"tiles of {tile} groups, local size {block} takes {(TILE_WIDTH, height)}"
            )
        return


def footprints(reader: Reader, block: Dim3, lanes: int) -> tuple[int, int]:
    """(full, half) registers in vec4; the waves of a group must find room in the register file together."""
    name = "SP_CS_CTRL_REG0"
    reader.zero(name, "THREADMODE", "UNK13", "UNK21", "UNK22", "EARLYPREAMBLE")
    found = reader.fields(name)
    full, half = found["FULLREGFOOTPRINT"], found["HALFREGFOOTPRINT"]
    if full > FULL_FILE_VEC4 or half > FULL_FILE_VEC4:
        raise reader.refuse(name, f"footprints {full} and {half} vec4, the files have {FULL_FILE_VEC4}")
    if found["BRANCHSTACK"] > MAX_BRANCH_STACK:
        raise reader.refuse(name, f"branch stack {found['BRANCHSTACK']}, over {MAX_BRANCH_STACK}: it counts pairs")
    chip = reader.chip
    used = max(full + (half + 1) // 2, 1) * (lanes // 64)
    room = min(chip.reg_vec4 // used * chip.wave_pair, chip.max_waves)
    waves = -(-block[0] * block[1] * block[2] // lanes)
    if waves > room:
        raise reader.refuse(name, f"{waves} waves of {full} full and {half} half vec4, {room} fit on an {chip.name}")
    return full, half


def constlen(reader: Reader) -> int:
    """Constants in vec4."""
    name, found = "HLSQ_CS_CNTL", reader.fields("HLSQ_CS_CNTL")
    if not found["ENABLED"]:
        raise reader.refuse(name, "ENABLED is not set")
    vec4 = found["CONSTLEN"]
    if not vec4 and reader.lenient:
        return reader.chip.const_vec4  # the known client's mistake, which works as if the whole file was asked for
    if vec4 > reader.chip.const_vec4:
        raise reader.refuse(name, f"CONSTLEN {vec4} vec4, the file has {reader.chip.const_vec4}")
    mode = reader.fields("SP_CS_CTRL_REG1")["CONSTANTRAMMODE"]
    if CONST_RAM_VEC4[mode] > reader.chip.const_vec4:
        raise reader.refuse("SP_CS_CTRL_REG1", f"constant RAM mode {mode}: the file has {reader.chip.const_vec4} vec4")
    if CONST_RAM_VEC4[mode] < vec4:
        raise reader.refuse(
            "SP_CS_CTRL_REG1", f"constant RAM mode {mode} holds {CONST_RAM_VEC4[mode]} vec4, CONSTLEN is {vec4}"
        )
    return vec4


def check_count(reader: Reader, name: str, count: int) -> None:
    value = reader.values[name]
    if value != count and not (reader.lenient and value == KNOWN_COUNTS[name]):
        raise reader.refuse(name, f"SP_CS_CONFIG says {count}")
