"""What CP_LOAD_STATE6 brings to the shader processors: constants, code, descriptors; kept until replaced or dropped."""

from __future__ import annotations

from dataclasses import dataclass

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import MmuFault
from hcqrt.emu.qcom.chips import EmuChip
from hcqrt.emu.qcom.stale import Stale
from hcqrt.emu.qcom.trouble import Refused

INLINE, BINDLESS, ADDRESS, UBO_SOURCE = range(4)  # a6xx_state_src
SOURCES = {BINDLESS: "bindless", UBO_SOURCE: "UBO"}
CS_TEX, CS_SHADER = 5, 13  # a6xx_state_block
CODE, CONSTANTS, SAMPLERS, TEXTURES, UBOS, IBOS = "code", "constants", "samplers", "textures", "UBOs", "IBOs"
# (block, type) -> what is loaded, and the bytes of one unit (qcom.md §2, LOAD_STATE6)
LOADS = {
    (CS_SHADER, 0): (CODE, 128),
    (CS_SHADER, 1): (CONSTANTS, 16),
    (CS_SHADER, 2): (UBOS, 8),
    (CS_SHADER, 3): (IBOS, 64),
    (CS_TEX, 0): (SAMPLERS, 16),
    (CS_TEX, 1): (TEXTURES, 64),
}
TABLES = (SAMPLERS, TEXTURES, UBOS, IBOS)
LIMITS = {SAMPLERS: 31, TEXTURES: 16, UBOS: 64, IBOS: 127}  # what can be loaded ahead, or counted
INVALIDATE_CS_STATE, INVALIDATE_CS_IBO = 1 << 5, 1 << 6  # HLSQ_INVALIDATE_CMD
VEC4_BYTES = 16
SOURCE_ALIGNMENT = 16
# What a constant slot holds that nobody loaded: no number, no address, and easy to recognise
POISON = 0xFFC0DEAD.to_bytes(4, "little") * 4


@dataclass(frozen=True)
class Load:
    """One load as the packet asked for it. `data` is there for inline ones; others are read at the dispatch."""

    kind: str
    first: int
    units: int
    unit_bytes: int
    va: int
    data: bytes | None

    @property
    def text(self) -> str:
        return f"load of {self.units} {self.kind} to {self.first:#x} from {'its packet' if self.data else hex(self.va)}"


class LoadedState:
    """Per context. `tables` hold descriptors by number; `origins` where each came from, None for inline ones."""

    def __init__(self, chip: EmuChip, *, lenient: bool, check: bool) -> None:
        self.chip, self.lenient = chip, lenient
        self.stale = Stale(check)
        self.pending: list[Load] = []
        self.unloaded = POISON * chip.const_vec4
        self.constants = bytearray(self.unloaded)
        self.constants_end = 0  # in vec4: behind the last one that was loaded
        self.code: Load | None = None
        self.tables: dict[str, dict[int, bytes]] = {kind: {} for kind in TABLES}
        self.origins: dict[str, dict[int, int | None]] = {kind: {} for kind in TABLES}

    def load(self, name: str, payload: list[int]) -> None:
        """Note a load; its memory is read at the dispatch. Raises Refused."""
        word, lo, hi = payload[:3]
        what = f"{name} = {word:#010x}"
        first, source, units = word & 0x3FFF, word >> 16 & 3, word >> 22
        key = word >> 18 & 0xF, word >> 14 & 3
        if key not in LOADS:
            raise Refused(f"{what}: block {key[0]} with type {key[1]} is no compute state")
        if name.endswith("_GEOM"):
            raise Refused(f"{what}: block {key[0]} is loaded by CP_LOAD_STATE6_FRAG, not by the packet for geometry")
        kind, unit_bytes = LOADS[key]
        if source in SOURCES:
            raise Refused(f"{what}: source {source} ({SOURCES[source]}) is not modelled")
        if kind == CODE and not self.chip.generation.loads_code:
            raise Refused(f"{what}: an {self.chip.name} fetches its code itself, none is loaded ahead")
        if units == 0:
            raise Refused(f"{what}: a load of no units")
        if kind in LIMITS and first + units > LIMITS[kind]:
            raise Refused(f"{what}: {kind} {first} to {first + units - 1}, there are {LIMITS[kind]}")
        if kind == CONSTANTS and (first + units) * VEC4_BYTES > len(self.constants):
            raise Refused(
                f"{what}: constants {first} to {first + units - 1}, the file has {len(self.constants) // VEC4_BYTES}"
            )
        padded = -(-units * unit_bytes // 16) * 4 if source == INLINE else 0
        if len(payload) != 3 + padded:
            raise Refused(f"{what}: {len(payload)} dwords, {units} units take {3 + padded}")
        va = hi << 32 | lo
        if va % SOURCE_ALIGNMENT or (source == INLINE and va):
            raise Refused(f"{what}: address {va:#x} is not {SOURCE_ALIGNMENT}-byte aligned, or not 0 for inline data")
        data = None
        if source == INLINE:
            data = b"".join(item.to_bytes(4, "little") for item in payload[3:])[: units * unit_bytes]
        self.pending.append(Load(kind, first, units, unit_bytes, va, data))

    def take_pending(self, space: GpuAddressSpace) -> None:
        """Carry out the loads that wait for this dispatch. Raises MmuFault and, for stale contents, Refused."""
        for load in self.pending:
            if load.kind == CODE:
                self.code = load
                continue
            raw = self.read(load, space) if load.data is None else load.data
            if load.kind == CONSTANTS:
                start = load.first * VEC4_BYTES
                self.constants[start : start + len(raw)] = raw
                self.constants_end = max(self.constants_end, load.first + load.units)
                continue
            for index in range(load.units):
                at = index * load.unit_bytes
                self.tables[load.kind][load.first + index] = raw[at : at + load.unit_bytes]
                self.origins[load.kind][load.first + index] = None if load.data else load.va + at
        self.pending.clear()

    def read(self, load: Load, space: GpuAddressSpace) -> bytes:
        nbytes = load.units * load.unit_bytes
        try:
            raw = space.read(load.va, nbytes)
        except MmuFault:
            if not self.lenient or load.kind != CONSTANTS:
                raise
            raw = self.mapped_part(load, space)
        self.stale.loaded(load.va, raw, load.kind)
        return raw

    def mapped_part(self, load: Load, space: GpuAddressSpace) -> bytes:
        """The known client always loads the whole constant file, from a block that may be shorter (qcom.md §9.5)."""
        raw = b""
        for index in range(load.units):
            try:
                raw += space.read(load.va + index * VEC4_BYTES, VEC4_BYTES)
            except MmuFault:
                if not raw:
                    raise
                break
        return raw

    def invalidate(self, bits: int) -> None:
        """HLSQ_INVALIDATE_CMD: drop what it names, loads that wait included."""
        dropped: tuple[str, ...] = ()
        if bits & INVALIDATE_CS_STATE:
            dropped = (CODE, CONSTANTS, SAMPLERS, TEXTURES, UBOS)
            self.code = None
            self.constants[: len(self.unloaded)] = self.unloaded
            self.constants_end = 0
            self.stale.invalidate_code()
        if bits & INVALIDATE_CS_IBO:
            dropped = (*dropped, IBOS)
        for kind in dropped:
            if kind in self.tables:
                self.tables[kind].clear()
                self.origins[kind].clear()
        self.pending = [load for load in self.pending if load.kind not in dropped]
