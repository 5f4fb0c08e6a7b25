"""Versions of the launch descriptor: which one a class takes, where its fields are, which of them mean something."""

from __future__ import annotations

from functools import cache

from hcqrt.autogen.nv.qmd import QMD, QMD_VALUES
from hcqrt.emu.nv.classes import names
from hcqrt.emu.nv.trouble import GR_EXCEPTION, Refused

# Versions (major, minor) that a compute class takes: nv-engine.md §0. V05_01 holds several grids; nothing tells how
# they run, so it is refused.
V04_01_V05_00 = ((4, 1), (5, 0))
VERSIONS = {
    0xC5C0: ((2, 2), (2, 3)),
    0xC6C0: ((2, 3), (2, 4), (3, 0)),
    0xC7C0: ((2, 3), (2, 4), (3, 0)),
    0xC9C0: ((2, 4), (3, 0)),
    0xCBC0: ((3, 0), (4, 0)),
    0xCDC0: V04_01_V05_00,
    0xCEC0: V04_01_V05_00,
}
SHORT_BYTES = 256  # of the shortest descriptor: its version is in there

# Elements of the arrays, by the start of their names; a table of fields tells only where the first two are
ARRAYS = {"CONSTANT_BUFFER": 8, "RELEASE": 3, "DEPENDENT_QMD": 2, "TPC_DISABLE_MASK": 8}
CONSTANT_BUFFERS, RELEASES = ARRAYS["CONSTANT_BUFFER"], ARRAYS["RELEASE"]

# Fields that are acted on here. Each version has its own names for some of them.
ACTED_ON = names(
    "QMD_VERSION QMD_MINOR_VERSION QMD_MAJOR_VERSION QMD_TYPE CWD_MEMBAR_TYPE CTA_RASTER_WIDTH CTA_RASTER_HEIGHT"
    " CTA_RASTER_DEPTH"
    " GRID_WIDTH GRID_HEIGHT GRID_DEPTH CTA_THREAD_DIMENSION0 CTA_THREAD_DIMENSION1 CTA_THREAD_DIMENSION2"
    " REGISTER_COUNT_V BARRIER_COUNT SASS_VERSION PROGRAM_ADDRESS_LOWER PROGRAM_ADDRESS_UPPER"
    " PROGRAM_ADDRESS_LOWER_SHIFTED4 PROGRAM_ADDRESS_UPPER_SHIFTED4 PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED"
    " PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED PROGRAM_PREFETCH_SIZE PROGRAM_PREFETCH_TYPE SHARED_MEMORY_SIZE"
    " SHARED_MEMORY_SIZE_SHIFTED7 MIN_SM_CONFIG_SHARED_MEM_SIZE MAX_SM_CONFIG_SHARED_MEM_SIZE"
    " TARGET_SM_CONFIG_SHARED_MEM_SIZE SHADER_LOCAL_MEMORY_LOW_SIZE SHADER_LOCAL_MEMORY_HIGH_SIZE"
    " SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4 SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4 CONSTANT_BUFFER_VALID"
    " CONSTANT_BUFFER_ADDR_LOWER CONSTANT_BUFFER_ADDR_UPPER CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6"
    " CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6 CONSTANT_BUFFER_SIZE_SHIFTED4 CONSTANT_BUFFER_INVALIDATE"
    " INVALIDATE_INSTRUCTION_CACHE INVALIDATE_SHADER_CONSTANT_CACHE DEPENDENT_QMD0_POINTER DEPENDENT_QMD0_ENABLE"
    " DEPENDENT_QMD0_ACTION DEPENDENT_QMD_POINTER DEPENDENT_QMD_SCHEDULE_ENABLE DEPENDENT_QMD_TYPE"
    " SEMAPHORE_RELEASE_ENABLE0 SEMAPHORE_RELEASE_ENABLE1"
)
# Acted on where they are not the old short form of another field
ACTED_ON_FROM_V04 = names("REGISTER_COUNT DEPENDENT_QMD_ENABLE DEPENDENT_QMD_ACTION")
RELEASE_FIELDS = names(
    "ENABLE STRUCTURE_SIZE PAYLOAD64B ADDRESS_LOWER ADDRESS_UPPER PAYLOAD PAYLOAD_LOWER PAYLOAD_UPPER REDUCTION_OP"
    " REDUCTION_FORMAT REDUCTION_ENABLE TRAP_TYPE MEMBAR_TYPE"
)
SEMAPHORE_FIELDS = names("ADDR_LOWER ADDR_UPPER PAYLOAD_LOWER PAYLOAD_UPPER")  # of V04 and later
RELEASE_NAMES = frozenset(
    [f"RELEASE{slot}_{name}" for slot in range(RELEASES) for name in RELEASE_FIELDS]
    + [f"RELEASE_SEMAPHORE{slot}_{name}" for slot in range(RELEASES) for name in SEMAPHORE_FIELDS]
    + [f"RELEASE_{name}" for name in RELEASE_FIELDS]
)
# Fields whose effect cannot be seen here: hints, caches that are always coherent, samplers, names for debuggers
WITHOUT_EFFECT = names(
    "QMD_GROUP_ID SM_GLOBAL_CACHING_ENABLE INVALIDATE_TEXTURE_HEADER_CACHE INVALIDATE_TEXTURE_SAMPLER_CACHE"
    " INVALIDATE_TEXTURE_DATA_CACHE INVALIDATE_SHADER_DATA_CACHE API_VISIBLE_CALL_LIMIT SAMPLER_INDEX"
    " DISABLE_AUTO_INVALIDATE DEMOTE_L2_EVICT_LAST SEQUENTIALLY_RUN_CTAS SHARED_ALLOCATION_ENABLE"
    " CONSTANT_BUFFER_PREFETCH_POST CONSTANT_BUFFER_PREFETCH DEPENDENT_QMD0_PREFETCH DEPENDENT_QMD_PREFETCH"
    " CONSTANT_BUFFER_PREFETCH_PRE_MAX_SIZE_SHIFTED8 CONSTANT_BANK_PREFETCH_PRE_MAX_SIZE_SHIFTED8"
    " ICC_PREFETCH_SIZE DEBUG_ID_UPPER DEBUG_ID_LOWER"
)
# Of these arrays one element is acted on, the others are not
FIRST_ONLY = names("DEPENDENT_QMD_ENABLE DEPENDENT_QMD_ACTION DEPENDENT_QMD_PREFETCH DEPENDENT_QMD_POINTER")


def elements(name: str, stride: int) -> int:
    return next(count for start, count in ARRAYS.items() if name.startswith(start)) if stride else 1


class Layout:
    """Where the fields of one version are, and which bits mean nothing or are not supported."""

    def __init__(self, version: str, number: int) -> None:
        self.version = version
        key = f"{version}@{number:04X}"
        key = key if key in QMD else version
        acted_on = ACTED_ON | (ACTED_ON_FROM_V04 if version >= "V04" else frozenset())
        supported = acted_on | RELEASE_NAMES | WITHOUT_EFFECT
        self.spans: dict[str, tuple[int, int, int]] = {}  # name -> (lsb, mask, stride)
        self.enums: list[tuple[str, int, int, frozenset[int]]] = []  # supported fields with listed values
        self.known = self.unsupported = 0
        understood = 0
        for name, (msb, lsb, *strides) in QMD[key].items():
            mask, stride = (1 << (msb - lsb + 1)) - 1, strides[0] if strides else 0
            self.spans[name] = (lsb, mask, stride)
            if "RESERVED" in name or "SPARE" in name:
                continue
            values = frozenset(QMD_VALUES.get(key, {}).get(name, {}).values())
            for index in range(elements(name, stride)):
                at = lsb + index * stride
                self.known |= mask << at
                if name in supported and not (index and name in FIRST_ONLY):
                    understood |= mask << at
                    if values:
                        self.enums.append((name, at, mask, values))
        self.unsupported = self.known & ~understood

    def get(self, whole: int, *fields: str, index: int = 0, default: int | None = None) -> int:
        """The first of `fields` that this version has."""
        for name in fields:
            if name in self.spans:
                lsb, mask, stride = self.spans[name]
                assert stride or not index, f"{name} is no array"
                return whole >> lsb + index * stride & mask
        assert default is not None, f"{self.version} has none of {fields}"
        return default

    def address(self, whole: int, field: str, shift: int, index: int = 0) -> int:
        """A pair FIELD_LOWER, FIELD_UPPER, or the same in units of 1 << `shift`."""
        unit = f"_SHIFTED{shift}" if f"{field}_LOWER_SHIFTED{shift}" in self.spans else ""
        high = self.get(whole, f"{field}_UPPER{unit}", index=index)
        return (high << 32 | self.get(whole, f"{field}_LOWER{unit}", index=index)) << (shift if unit else 0)

    def size(self, whole: int, field: str, shift: int) -> int:
        """A field, or the same in units of 1 << `shift`."""
        shifted = f"{field}_SHIFTED{shift}"
        return self.get(whole, shifted) << shift if shifted in self.spans else self.get(whole, field)

    def check(self, whole: int, va: int) -> None:
        """Refused: the highest reserved bit, a field that is not supported, a value that its list does not have."""
        what = f"QMD {self.version} at {va:#x}"
        if whole & ~self.known:
            bit = (whole & ~self.known).bit_length() - 1
            raise Refused(GR_EXCEPTION, f"{what}: reserved bit {bit} is set")
        if whole & self.unsupported:
            self.name_unsupported(whole, what)
        for name, lsb, mask, values in self.enums:
            if whole >> lsb & mask not in values:
                raise Refused(GR_EXCEPTION, f"{what}: {name} = {whole >> lsb & mask:#x} is no known value")

    def name_unsupported(self, whole: int, what: str) -> None:
        for name, (lsb, mask, stride) in self.spans.items():
            for index in range(elements(name, stride)):
                at = lsb + index * stride
                if whole >> at & mask & self.unsupported >> at:
                    element = f"({index})" if stride else ""
                    value = whole >> at & mask
                    raise Refused(GR_EXCEPTION, f"{what}: {name}{element} = {value:#x} is not supported")


@cache
def layout(version: str, number: int) -> Layout:
    return Layout(version, number)


def version_name(major: int, minor: int) -> str:
    return f"V{major:02d}_{minor:02d}"


def find_version(head: bytes, number: int, va: int) -> str:
    """The version of a descriptor by its first bytes, a key of QMD. Refused: one that the class does not take.

    Versions have their numbers in different places: the newest that is found where it has them counts.
    """
    whole = int.from_bytes(head, "little")
    seen = []
    for version in sorted(VERSIONS.get(number, ()), reverse=True):
        place = layout(version_name(*version), number)
        found = place.get(whole, "QMD_MAJOR_VERSION"), place.get(whole, "QMD_MINOR_VERSION", "QMD_VERSION")
        if found == version:
            return place.version
        seen.append("{}.{}".format(*found))
    texts = " or ".join(dict.fromkeys(seen)) or "?"
    raise Refused(GR_EXCEPTION, f"QMD at {va:#x}: version {texts} is not one of class {number:#x}")
