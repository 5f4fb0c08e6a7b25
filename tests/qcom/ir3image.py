"""Writes ir3 shader images by the offsets of ir3 facts 5, for tests: two records, immediates, code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

VARIANT, CONST_STATE = 2040, 1424
# offset and struct format in the variant
FIELDS = {
    "stage": (136, "I"),
    "immediates": (212, "I"),
    "size": (224, "I"),
    "max_reg": (248, "b"),
    "max_half_reg": (249, "b"),
    "double_threadsize": (254, "B"),
    "constant_data": (560, "I"),
    "branchstack": (564, "I"),
    "instrlen": (572, "I"),
    "constlen": (576, "I"),
    "pvtmem_size": (580, "I"),
    "pvtmem_per_wave": (584, "B"),
    "early_preamble": (587, "B"),
    "shared_size": (588, "I"),
    "num_tex": (1220, "B"),
    "bindless_tex": (1230, "B"),
    "bindless_ubo": (1233, "B"),
    "mergedregs": (1243, "B"),
    "local_x": (1466, "H"),
    "local_y": (1468, "H"),
    "local_z": (1470, "H"),
    "local_size_variable": (1472, "B"),
    "num_ssbos": (1476, "I"),
    "num_uavs": (1480, "I"),
    "local_invocation_id": (1492, "I"),
    "work_group_id": (1496, "I"),
}
DEFAULTS: Mapping[str, int] = dict(
    stage=5, max_reg=3, max_half_reg=-1, instrlen=1, constlen=4, local_size_variable=1, work_group_id=0xC0
)


def ir3_image(
    code: bytes = bytes(256),
    *,
    immediates: Sequence[int] = (),
    ranges: Sequence[tuple[int, int, int, int]] = ((0, 0, 64, 0),),  # block, start, end, offset
    allocations: Mapping[int, tuple[int, int]] | None = None,  # kind -> offset, size in vec4
    max_const: int = 4,
    tex_to_image: Sequence[int] = (),
    **fields: int,
) -> bytes:
    variant, state = bytearray(VARIANT), bytearray(CONST_STATE)
    values = {**DEFAULTS, "size": len(code), "immediates": len(immediates), **fields}
    for name, value in values.items():
        offset, fmt = FIELDS[name]
        struct.pack_into(f"<{fmt}", variant, offset, value)
    variant[1188 : 1188 + len(tex_to_image)] = bytes(tex_to_image)
    for kind, place in (allocations or {4: (0, 4)}).items():
        struct.pack_into("<2I", state, 44 + 16 * kind, *place)
    struct.pack_into("<I", state, 236, max_const)
    for index, (block, start, end, offset) in enumerate(ranges):
        struct.pack_into("<I", state, 384 + 32 * index + 8, block)
        struct.pack_into("<3I", state, 384 + 32 * index + 16, offset, start, end)
    struct.pack_into("<2I", state, 1408, len(ranges), max(0, sum(end - start for _, start, end, _ in ranges)))
    return bytes(variant + state) + struct.pack(f"<{len(immediates)}I", *immediates) + code
