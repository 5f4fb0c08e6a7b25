"""Component remapping of the copy engine: fills, and elements whose parts come from the source or from constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hcqrt.emu.address_space import GpuAddressSpace
from hcqrt.emu.memory import WRITE, zero

CONST_A, CONST_B, NO_WRITE = 4, 5, 6  # SET_REMAP_COMPONENTS_DST_X; 0..3 are SRC_X..W
FILL_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Remap:
    """What each component of a destination element is made of."""

    component_bytes: int
    sources: int  # components of a source element
    parts: tuple[int, ...]  # one per destination component: SRC_X.., CONST_A, CONST_B or NO_WRITE
    constants: Mapping[int, int | None]  # None: the register was never set

    @classmethod
    def decode(cls, fields: Mapping[str, int], registers: Mapping[str, int]) -> Remap:
        count = fields["NUM_DST_COMPONENTS"] + 1
        return cls(
            component_bytes=fields["COMPONENT_SIZE"] + 1,
            sources=fields["NUM_SRC_COMPONENTS"] + 1,
            parts=tuple(fields[f"DST_{name}"] for name in "XYZW"[:count]),
            constants={
                CONST_A: registers.get("SET_REMAP_CONST_A"),
                CONST_B: registers.get("SET_REMAP_CONST_B"),
            },
        )

    def problem(self) -> str:
        """Why this cannot run, or an empty text."""
        for number, part in enumerate(self.parts):
            if part < CONST_A and part >= self.sources:
                return f"component {number} wants source component {part} of {self.sources}"
            if part in self.constants and self.constants[part] is None:
                return f"component {number} wants constant {'AB'[part - CONST_A]}, which was never set"
        return ""

    @property
    def dst_bytes(self) -> int:
        return self.component_bytes * len(self.parts)

    @property
    def src_bytes(self) -> int:
        return self.component_bytes * self.sources

    @property
    def reads_source(self) -> bool:
        return any(part < CONST_A for part in self.parts)

    @property
    def keeps_bytes(self) -> bool:
        return NO_WRITE in self.parts

    def constant_bytes(self, part: int) -> bytes:
        """The low bytes of a constant, as many as a component has."""
        value = self.constants[part]
        assert value is not None, "checked by problem()"
        return value.to_bytes(4, "little")[: self.component_bytes]

    def constant_element(self) -> bytes:
        return b"".join(self.constant_bytes(part) for part in self.parts)


def fill(space: GpuAddressSpace, va: int, element: bytes, count: int) -> None:
    """Store `count` elements. Zeros give whole pages back. Raises MmuFault and writes nothing."""
    if not any(element):
        for block, offset, nbytes in space.pieces(va, len(element) * count, WRITE):
            zero(block, offset, nbytes)
        return
    space.pieces(va, len(element) * count, WRITE)
    per_chunk = max(FILL_CHUNK_BYTES // len(element), 1)
    chunk = element * min(per_chunk, count)
    done = 0
    while done < count:
        now = min(per_chunk, count - done)
        space.write(va + done * len(element), chunk[: now * len(element)])
        done += now


def remap_row(space: GpuAddressSpace, remap: Remap, dst_va: int, src_va: int | None, count: int) -> None:
    """One line of `count` elements, in chunks: components are strided slices of whole lines. Raises MmuFault."""
    per_chunk = max(FILL_CHUNK_BYTES // remap.dst_bytes, 1)
    space.pieces(dst_va, count * remap.dst_bytes, WRITE)
    done = 0
    while done < count:
        now = min(per_chunk, count - done)
        to = dst_va + done * remap.dst_bytes
        source = b"" if src_va is None else space.read(src_va + done * remap.src_bytes, now * remap.src_bytes)
        line = bytearray(space.read(to, now * remap.dst_bytes) if remap.keeps_bytes else now * remap.dst_bytes)
        for number, part in enumerate(remap.parts):
            if part == NO_WRITE:
                continue
            for byte in range(remap.component_bytes):
                at = number * remap.component_bytes + byte
                if part < CONST_A:
                    values = source[part * remap.component_bytes + byte :: remap.src_bytes]
                else:
                    values = remap.constant_bytes(part)[byte : byte + 1] * now
                line[at :: remap.dst_bytes] = values
        space.write(to, line)
        done += now
