"""Launch descriptors: the QMD as the hardware reads it, every bit either understood or refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hcqrt.emu.nv.qmd_layout import CONSTANT_BUFFERS, RELEASES, Layout, find_version, layout
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

GRID_CTA = 2  # QMD_TYPE of a plain grid
TRAP_NONE, TRAP_UNCONDITIONAL = 0, 1
L1_SYSMEMBAR = 1  # CWD_MEMBAR_TYPE
SCHEDULE, INVALIDATE_COPY_SCHEDULE = 1, 3  # DEPENDENT_QMD0_ACTION
PREFETCH_UNIT_SHIFT = 8


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
    membar: bool  # what the grid wrote is visible to the host before this record is


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
    membar: bool  # every block makes what it wrote visible to the host


@lru_cache(maxsize=64)
def decode_qmd(raw: bytes, number: int, va: int) -> Qmd:
    """Decode the descriptor that a compute class reads at `va`. Refused: whatever is not understood."""
    whole = int.from_bytes(raw, "little")
    place = layout(find_version(raw, number, va), number)
    place.check(whole, va)
    kind = place.get(whole, "QMD_TYPE", default=GRID_CTA)
    if kind != GRID_CTA:
        raise Refused(GR_EXCEPTION, f"QMD {place.version} at {va:#x}: QMD_TYPE = {kind:#x} is no plain grid")

    def get(*fields: str) -> int:
        return place.get(whole, *fields)

    return Qmd(
        version=place.version,
        grid=(
            get("CTA_RASTER_WIDTH", "GRID_WIDTH"),
            get("CTA_RASTER_HEIGHT", "GRID_HEIGHT"),
            get("CTA_RASTER_DEPTH", "GRID_DEPTH"),
        ),
        block=(get("CTA_THREAD_DIMENSION0"), get("CTA_THREAD_DIMENSION1"), get("CTA_THREAD_DIMENSION2")),
        registers=get("REGISTER_COUNT_V", "REGISTER_COUNT"),
        barriers=get("BARRIER_COUNT"),
        sass_version=get("SASS_VERSION"),
        program_va=place.address(whole, "PROGRAM_ADDRESS", 4),
        prefetch=decode_prefetch(place, whole),
        shared_bytes=place.size(whole, "SHARED_MEMORY_SIZE", 7),
        sm_config=(
            get("MIN_SM_CONFIG_SHARED_MEM_SIZE"),
            get("TARGET_SM_CONFIG_SHARED_MEM_SIZE"),
            get("MAX_SM_CONFIG_SHARED_MEM_SIZE"),
        ),
        local_low_bytes=place.size(whole, "SHADER_LOCAL_MEMORY_LOW_SIZE", 4),
        local_high_bytes=place.size(whole, "SHADER_LOCAL_MEMORY_HIGH_SIZE", 4),
        constants=decode_constants(place, whole),
        releases=decode_releases(place, whole, va),
        dependent=decode_dependent(place, whole, va),
        invalidate_instructions=bool(get("INVALIDATE_INSTRUCTION_CACHE")),
        invalidate_constants=bool(get("INVALIDATE_SHADER_CONSTANT_CACHE")),
        membar=get("CWD_MEMBAR_TYPE") == L1_SYSMEMBAR,
    )


def decode_prefetch(place: Layout, whole: int) -> tuple[int, int]:
    """Address and bytes; V02_02 has no prefetch."""
    high = place.get(whole, "PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", default=0)
    low = place.get(whole, "PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED", default=0)
    nbytes = place.get(whole, "PROGRAM_PREFETCH_SIZE", default=0) << PREFETCH_UNIT_SHIFT
    return (high << 32 | low) << PREFETCH_UNIT_SHIFT, nbytes


def decode_constants(place: Layout, whole: int) -> tuple[ConstantBuffer, ...]:
    found = []
    for bank in range(CONSTANT_BUFFERS):
        if place.get(whole, "CONSTANT_BUFFER_VALID", index=bank):
            nbytes = place.get(whole, "CONSTANT_BUFFER_SIZE_SHIFTED4", index=bank) << 4
            invalidate = bool(place.get(whole, "CONSTANT_BUFFER_INVALIDATE", index=bank))
            va = place.address(whole, "CONSTANT_BUFFER_ADDR", 6, bank)
            found.append(ConstantBuffer(bank, va, nbytes, invalidate))
    return tuple(found)


def release_field(place: Layout, whole: int, slot: int, name: str) -> int:
    """A field of one release, 0 where the version has none: each slot has names, or is an element of arrays."""
    own = f"RELEASE{slot}_{name}"
    wide = f"RELEASE_SEMAPHORE{slot}_{name.replace('ADDRESS', 'ADDR')}"
    array = f"RELEASE_{name}"
    if own not in place.spans and array in place.spans:  # V02 has one RELEASE_MEMBAR_TYPE for both
        return place.get(whole, array, index=slot if place.spans[array][2] else 0)
    others = {"ENABLE": f"SEMAPHORE_RELEASE_ENABLE{slot}", "PAYLOAD_LOWER": f"RELEASE{slot}_PAYLOAD"}
    return place.get(whole, own, wide, others.get(name, own), default=0)


def decode_releases(place: Layout, whole: int, va: int) -> tuple[QmdRelease, ...]:
    found = []
    for slot in range(RELEASES):

        def get(name: str, slot: int = slot) -> int:
            return release_field(place, whole, slot, name)

        if not get("ENABLE"):
            continue
        wide, trap = bool(get("PAYLOAD64B")), get("TRAP_TYPE")
        if trap not in (TRAP_NONE, TRAP_UNCONDITIONAL):
            raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: RELEASE{slot}_TRAP_TYPE = {trap} is not supported")
        if not wide and get("PAYLOAD_UPPER"):
            upper = get("PAYLOAD_UPPER")
            raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: RELEASE{slot}_PAYLOAD_UPPER = {upper:#x} without PAYLOAD64B")
        found.append(
            QmdRelease(
                slot=slot,
                va=get("ADDRESS_UPPER") << 32 | get("ADDRESS_LOWER"),
                payload=get("PAYLOAD_LOWER") | (get("PAYLOAD_UPPER") << 32 if wide else 0),
                structure=get("STRUCTURE_SIZE"),
                payload64=wide,
                reduction=get("REDUCTION_OP") if get("REDUCTION_ENABLE") else None,
                reduction_signed=bool(get("REDUCTION_FORMAT")),
                interrupt=trap == TRAP_UNCONDITIONAL,
                membar=bool(get("MEMBAR_TYPE")),
            )
        )
    return tuple(found)


def decode_dependent(place: Layout, whole: int, va: int) -> tuple[int, int] | None:
    def get(*fields: str, default: int | None = None) -> int:
        return place.get(whole, *fields, default=default)

    if not get("DEPENDENT_QMD0_ENABLE", "DEPENDENT_QMD_ENABLE", "DEPENDENT_QMD_SCHEDULE_ENABLE"):
        return None
    # TYPE 1 is a grid, as SCHEDULE
    action = get("DEPENDENT_QMD0_ACTION", "DEPENDENT_QMD_ACTION", "DEPENDENT_QMD_TYPE", default=SCHEDULE)
    if action not in (SCHEDULE, INVALIDATE_COPY_SCHEDULE):
        raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: dependent action {action} is not supported")
    return get("DEPENDENT_QMD0_POINTER", "DEPENDENT_QMD_POINTER") << 8, action
