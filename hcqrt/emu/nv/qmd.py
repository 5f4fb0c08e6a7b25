"""Launch descriptors: the QMD as the hardware reads it, every bit either understood or refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from hcqrt.autogen.nv.qmd import QMD, QMD_VALUES
from hcqrt.emu.nv.classes import names
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

QMD_BYTES = 256
CONSTANT_BUFFERS = 8
# Versions (major, minor) that a compute class takes: nv-engine.md §0
VERSIONS = {
    0xC5C0: ((2, 2), (2, 3)),
    0xC6C0: ((2, 3), (2, 4), (3, 0)),
    0xC7C0: ((2, 3), (2, 4), (3, 0)),
    0xC9C0: ((2, 4), (3, 0)),
}
MAJOR_BITS, MINOR_BITS = (583, 580), (579, 576)  # the same place in every version up to V04
TRAP_NONE, TRAP_UNCONDITIONAL = 0, 1
SCHEDULE, INVALIDATE_COPY_SCHEDULE = 1, 3  # DEPENDENT_QMD0_ACTION

# Fields that are acted on here. Each version has its own names for some of them.
ACTED_ON = names(
    "QMD_VERSION QMD_MAJOR_VERSION CTA_RASTER_WIDTH CTA_RASTER_HEIGHT CTA_RASTER_DEPTH CTA_THREAD_DIMENSION0"
    " CTA_THREAD_DIMENSION1 CTA_THREAD_DIMENSION2 REGISTER_COUNT_V BARRIER_COUNT SASS_VERSION PROGRAM_ADDRESS_LOWER"
    " PROGRAM_ADDRESS_UPPER PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED"
    " PROGRAM_PREFETCH_SIZE PROGRAM_PREFETCH_TYPE SHARED_MEMORY_SIZE MIN_SM_CONFIG_SHARED_MEM_SIZE"
    " MAX_SM_CONFIG_SHARED_MEM_SIZE TARGET_SM_CONFIG_SHARED_MEM_SIZE SHADER_LOCAL_MEMORY_LOW_SIZE"
    " SHADER_LOCAL_MEMORY_HIGH_SIZE CONSTANT_BUFFER_VALID CONSTANT_BUFFER_ADDR_LOWER CONSTANT_BUFFER_ADDR_UPPER"
    " CONSTANT_BUFFER_SIZE_SHIFTED4 CONSTANT_BUFFER_INVALIDATE INVALIDATE_INSTRUCTION_CACHE"
    " INVALIDATE_SHADER_CONSTANT_CACHE DEPENDENT_QMD0_POINTER DEPENDENT_QMD0_ENABLE DEPENDENT_QMD0_ACTION"
    " DEPENDENT_QMD_POINTER DEPENDENT_QMD_SCHEDULE_ENABLE DEPENDENT_QMD_TYPE"
    " SEMAPHORE_RELEASE_ENABLE0 SEMAPHORE_RELEASE_ENABLE1"
)
RELEASE_FIELDS = names(
    "ENABLE STRUCTURE_SIZE PAYLOAD64B ADDRESS_LOWER ADDRESS_UPPER PAYLOAD PAYLOAD_LOWER PAYLOAD_UPPER REDUCTION_OP"
    " REDUCTION_FORMAT REDUCTION_ENABLE TRAP_TYPE MEMBAR_TYPE"
)
# Fields whose effect cannot be seen here: hints, caches that are always coherent, samplers, names for debuggers
WITHOUT_EFFECT = names(
    "QMD_GROUP_ID SM_GLOBAL_CACHING_ENABLE INVALIDATE_TEXTURE_HEADER_CACHE INVALIDATE_TEXTURE_SAMPLER_CACHE"
    " INVALIDATE_TEXTURE_DATA_CACHE INVALIDATE_SHADER_DATA_CACHE CWD_MEMBAR_TYPE API_VISIBLE_CALL_LIMIT SAMPLER_INDEX"
    " DISABLE_AUTO_INVALIDATE DEMOTE_L2_EVICT_LAST SEQUENTIALLY_RUN_CTAS SHARED_ALLOCATION_ENABLE"
    " CONSTANT_BUFFER_PREFETCH_POST CONSTANT_BUFFER_PREFETCH DEPENDENT_QMD0_PREFETCH RELEASE_MEMBAR_TYPE"
    " DEBUG_ID_UPPER DEBUG_ID_LOWER"
)


@dataclass(frozen=True)
class ConstantBuffer:
    """One bound bank."""

    bank: int
    va: int
    nbytes: int
    invalidate: bool


@dataclass(frozen=True)
class QmdRelease:
    """A semaphore that is written when the grid is done. `structure`: 0 four words, 1 one, 2 two."""

    slot: int
    va: int
    payload: int
    structure: int
    payload64: bool
    reduction: int | None
    reduction_signed: bool
    interrupt: bool


@dataclass(frozen=True)
class Qmd:
    """What a launch descriptor says."""

    version: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    barriers: int
    sass_version: int
    program_va: int
    prefetch: tuple[int, int]  # address, bytes
    shared_bytes: int
    sm_config: tuple[int, int, int]  # min, target, max as encoded
    local_low_bytes: int
    local_high_bytes: int
    constants: tuple[ConstantBuffer, ...]
    releases: tuple[QmdRelease, ...]
    dependent: tuple[int, int] | None  # address of another QMD, action
    invalidate_instructions: bool
    invalidate_constants: bool


class Layout:
    """Where the fields of one version are, and which bits mean nothing or are not supported."""

    def __init__(self, version: str, number: int) -> None:
        self.version = version
        key = f"{version}@{number:04X}"
        key = key if key in QMD else version
        self.spans: dict[str, tuple[int, int, int]] = {}  # name -> (lsb, mask, stride)
        self.enums: list[tuple[str, int, int, frozenset[int]]] = []  # single fields with listed values
        self.known = self.unsupported = 0
        release = {f"RELEASE{slot}_{name}" for slot in range(3) for name in RELEASE_FIELDS}
        for name, (msb, lsb, *stride) in QMD[key].items():
            mask = (1 << (msb - lsb + 1)) - 1
            self.spans[name] = (lsb, mask, stride[0] if stride else 0)
            reserved = "RESERVED" in name or "SPARE" in name
            supported = name in ACTED_ON or name in release or name in WITHOUT_EFFECT
            for index in range(CONSTANT_BUFFERS if stride else 1):
                bits = mask << lsb + index * (stride[0] if stride else 0)
                self.known |= 0 if reserved else bits
                self.unsupported |= 0 if reserved or supported else bits
            values = frozenset(QMD_VALUES.get(key, {}).get(name, {}).values())
            if values and not stride and supported:
                self.enums.append((name, lsb, mask, values))

    def get(self, whole: int, *fields: str, index: int = 0, default: int | None = None) -> int:
        """The first of `fields` that this version has."""
        for name in fields:
            if name in self.spans:
                lsb, mask, stride = self.spans[name]
                return whole >> lsb + index * stride & mask
        assert default is not None, f"{self.version} has none of {fields}"
        return default

    def check(self, whole: int, va: int) -> None:
        if whole & ~self.known:
            bit = (whole & ~self.known).bit_length() - 1
            raise Refused(GR_EXCEPTION, f"QMD {self.version} at {va:#x}: reserved bit {bit} is set")
        if whole & self.unsupported:
            for name, (lsb, mask, stride) in self.spans.items():
                for index in range(CONSTANT_BUFFERS if stride else 1):
                    value = whole >> lsb + index * stride & mask
                    if value and self.unsupported >> lsb + index * stride & 1:
                        raise Refused(
                            GR_EXCEPTION, f"QMD {self.version} at {va:#x}: {name} = {value:#x} is not supported"
                        )
        for name, lsb, mask, values in self.enums:
            if whole >> lsb & mask not in values:
                raise Refused(
                    GR_EXCEPTION, f"QMD {self.version} at {va:#x}: {name} = {whole >> lsb & mask:#x} is no known value"
                )


@cache
def layout(version: str, number: int) -> Layout:
    return Layout(version, number)


def bits(whole: int, place: tuple[int, int]) -> int:
    msb, lsb = place
    return whole >> lsb & ((1 << (msb - lsb + 1)) - 1)


@lru_cache(maxsize=64)
def decode_qmd(raw: bytes, number: int, va: int) -> Qmd:
    """Decode the descriptor that a compute class reads at `va`. Refused: whatever is not understood."""
    whole = int.from_bytes(raw, "little")
    major, minor = bits(whole, MAJOR_BITS), bits(whole, MINOR_BITS)
    if (major, minor) not in VERSIONS.get(number, ()):
        raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: version {major}.{minor} is not one of class {number:#x}")
    place = layout(f"V{major:02d}_{minor:02d}", number)
    place.check(whole, va)

    def get(name: str) -> int:
        return place.get(whole, name)

    return Qmd(
        version=place.version,
        grid=(get("CTA_RASTER_WIDTH"), get("CTA_RASTER_HEIGHT"), get("CTA_RASTER_DEPTH")),
        block=(get("CTA_THREAD_DIMENSION0"), get("CTA_THREAD_DIMENSION1"), get("CTA_THREAD_DIMENSION2")),
        registers=get("REGISTER_COUNT_V"),
        barriers=get("BARRIER_COUNT"),
        sass_version=get("SASS_VERSION"),
        program_va=get("PROGRAM_ADDRESS_UPPER") << 32 | get("PROGRAM_ADDRESS_LOWER"),
        prefetch=decode_prefetch(place, whole),
        shared_bytes=get("SHARED_MEMORY_SIZE"),
        sm_config=(
            get("MIN_SM_CONFIG_SHARED_MEM_SIZE"),
            get("TARGET_SM_CONFIG_SHARED_MEM_SIZE"),
            get("MAX_SM_CONFIG_SHARED_MEM_SIZE"),
        ),
        local_low_bytes=get("SHADER_LOCAL_MEMORY_LOW_SIZE"),
        local_high_bytes=get("SHADER_LOCAL_MEMORY_HIGH_SIZE"),
        constants=decode_constants(place, whole),
        releases=decode_releases(place, whole, va),
        dependent=decode_dependent(place, whole, va),
        invalidate_instructions=bool(get("INVALIDATE_INSTRUCTION_CACHE")),
        invalidate_constants=bool(get("INVALIDATE_SHADER_CONSTANT_CACHE")),
    )


def decode_prefetch(place: Layout, whole: int) -> tuple[int, int]:
    """Address and bytes; V02_02 has no prefetch."""
    high = place.get(whole, "PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", default=0)
    low = place.get(whole, "PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED", default=0)
    return (high << 32 | low) << 8, place.get(whole, "PROGRAM_PREFETCH_SIZE", default=0) << 8


def decode_constants(place: Layout, whole: int) -> tuple[ConstantBuffer, ...]:
    found = []
    for bank in range(CONSTANT_BUFFERS):
        if place.get(whole, "CONSTANT_BUFFER_VALID", index=bank):
            high = place.get(whole, "CONSTANT_BUFFER_ADDR_UPPER", index=bank)
            low = place.get(whole, "CONSTANT_BUFFER_ADDR_LOWER", index=bank)
            nbytes = place.get(whole, "CONSTANT_BUFFER_SIZE_SHIFTED4", index=bank) << 4
            invalidate = bool(place.get(whole, "CONSTANT_BUFFER_INVALIDATE", index=bank))
            found.append(ConstantBuffer(bank, high << 32 | low, nbytes, invalidate))
    return tuple(found)


def decode_releases(place: Layout, whole: int, va: int) -> tuple[QmdRelease, ...]:
    found = []
    for slot in range(3):
        prefix = f"RELEASE{slot}_"

        def get(name: str, *others: str, prefix: str = prefix) -> int:
            return place.get(whole, prefix + name, *others, default=0)

        if not get("ENABLE", f"SEMAPHORE_RELEASE_ENABLE{slot}"):
            continue
        wide, trap = bool(get("PAYLOAD64B")), get("TRAP_TYPE")
        payload = get("PAYLOAD_LOWER", f"{prefix}PAYLOAD") | (get("PAYLOAD_UPPER") << 32 if wide else 0)
        if trap not in (TRAP_NONE, TRAP_UNCONDITIONAL):
            raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: {prefix}TRAP_TYPE = {trap} is not supported")
        if not wide and get("PAYLOAD_UPPER"):
            raise Refused(
                GR_EXCEPTION, f"QMD at {va:#x}: {prefix}PAYLOAD_UPPER = {get('PAYLOAD_UPPER'):#x} without PAYLOAD64B"
            )
        found.append(
            QmdRelease(
                slot=slot,
                va=get("ADDRESS_UPPER") << 32 | get("ADDRESS_LOWER"),
                payload=payload,
                structure=get("STRUCTURE_SIZE"),
                payload64=wide,
                reduction=get("REDUCTION_OP") if get("REDUCTION_ENABLE") else None,
                reduction_signed=bool(get("REDUCTION_FORMAT")),
                interrupt=trap == TRAP_UNCONDITIONAL,
            )
        )
    return tuple(found)


def decode_dependent(place: Layout, whole: int, va: int) -> tuple[int, int] | None:
    def get(*fields: str, default: int | None = None) -> int:
        return place.get(whole, *fields, default=default)

    if not get("DEPENDENT_QMD0_ENABLE", "DEPENDENT_QMD_SCHEDULE_ENABLE"):
        return None
    action = get("DEPENDENT_QMD0_ACTION", "DEPENDENT_QMD_TYPE", default=SCHEDULE)  # TYPE 1 is a grid, as SCHEDULE
    if action not in (SCHEDULE, INVALIDATE_COPY_SCHEDULE):
        raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: dependent action {action} is not supported")
    return get("DEPENDENT_QMD0_POINTER", "DEPENDENT_QMD_POINTER") << 8, action
