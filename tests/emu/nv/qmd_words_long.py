"""Launch descriptors V04_00 and V05_00 built by hand: positions from the facts, not from the project's table."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_bench import CODE_VA
from qmd_words import put

# nv-engine.md §5. Where a version counts in other units, the number behind is the shift.
V04: dict[str, tuple[int, ...]] = {
    "minor": (579, 576), "major": (583, 580), "type": (25, 23), "width": (1055, 1024), "height": (1071, 1056),
    "depth": (1103, 1088), "block_x": (1167, 1152), "block_y": (1183, 1168), "block_z": (1199, 1184),
    "registers": (1208, 1200), "barriers": (1215, 1211), "sass": (543, 536), "program_lo": (1247, 1216),
    "program_hi": (1272, 1248), "shared": (601, 584), "config_min": (613, 608), "config_max": (619, 614),
    "config_target": (625, 620), "local_low": (535, 512), "local_high": (567, 544), "membar": (1137, 1136),
    "call_limit": (568, 568), "group": (21, 16), "prefetch_lo": (1375, 1344), "prefetch_hi": (1392, 1376),
    "prefetch_size": (1401, 1393), "dependent": (479, 448), "dependent_enable": (368, 368),
    "dependent_action": (371, 369), "invalidate_code": (606, 606), "invalidate_constants": (607, 607),
    "cga_width": (2149, 2144), "dependent1_enable": (373, 373), "counter": (15, 0),
}  # fmt: skip
V05: dict[str, tuple[int, ...]] = {
    "minor": (467, 464), "major": (471, 468), "type": (153, 151), "width": (1279, 1248), "height": (1295, 1280),
    "depth": (1327, 1312), "block_x": (1103, 1088), "block_y": (1119, 1104), "block_z": (1127, 1120),
    "registers": (1136, 1128), "barriers": (1141, 1137), "sass": (455, 448), "program_lo": (1055, 1024, 4),
    "program_hi": (1076, 1056, 4), "shared": (1162, 1152, 7), "config_min": (1168, 1163), "config_max": (1174, 1169),
    "config_target": (1180, 1175), "local_low": (1199, 1184, 4), "local_high": (1215, 1200, 4), "membar": (625, 624),
    "call_limit": (456, 456), "group": (149, 144), "prefetch_lo": (1919, 1888), "prefetch_hi": (1936, 1920),
    "prefetch_size": (1085, 1077), "dependent": (415, 384), "dependent_enable": (336, 336),
    "dependent_action": (339, 337), "invalidate_code": (476, 476), "invalidate_constants": (477, 477),
    "cga_width": (2053, 2048), "dependent1_enable": (344, 344), "counter": (143, 128),
}  # fmt: skip
BITS = {4: V04, 5: V05}
# constant bank: valid bit (4 more for each bank), address low; release: flags (16 more for each slot)
BANK_VALID, BANK_PLACE = {4: 416, 5: 1856}, {4: 1536, 5: 1344}
RELEASE_FLAGS = {4: 320, 5: 288}
RELEASE_PLACES = {4: (640, 768, 896), 5: (480, 768, 896)}


def put_release(whole: int, major: int, slot: int, release: Mapping[str, int]) -> int:
    flags, place = RELEASE_FLAGS[major] + 16 * slot, RELEASE_PLACES[major][slot]
    for bit, width, value in (
        (0, 1, 1), (1, 2, release["structure"]), (3, 1, 1), (4, 1, int("reduction" in release)),
        (5, 3, release.get("reduction", 0)), (10, 2, release.get("trap", 0)), (12, 1, release["payload64"]),
    ):  # fmt: skip
        whole = put(whole, flags + bit + width - 1, flags + bit, value)
    whole = put(whole, place + 31, place, release["va"] & 0xFFFFFFFF)
    whole = put(whole, place + 56, place + 32, release["va"] >> 32)
    return put(whole, place + 127, place + 64, release["payload"])


def long_qmd(
    major: int,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    config: tuple[int, int, int] = (0x5, 0x5, 0x3A),  # 16, 16, 228 KiB
    program: int = CODE_VA,
    constants: Mapping[int, tuple[int, int]] = {},
    releases: Mapping[int, Mapping[str, int]] = {},
    dependent: tuple[int, int] | None = None,
    raw: tuple[tuple[int, int, int], ...] = (),
    **fields: int,
) -> bytes:
    """The 384 bytes; `raw` sets (msb, lsb, value) after everything else."""
    bits = BITS[major]
    shift = bits["program_lo"][2] if len(bits["program_lo"]) > 2 else 0
    values = {
        "major": major, "type": 2, "width": grid[0], "height": grid[1], "depth": grid[2], "block_x": block[0],
        "block_y": block[1], "block_z": block[2], "registers": 16, "config_min": config[0],
        "config_target": config[1], "config_max": config[2], "membar": 1, "call_limit": 1, **fields,
    }  # fmt: skip
    if dependent is not None:
        values |= {"dependent": dependent[0] >> 8, "dependent_enable": 1, "dependent_action": dependent[1]}
    whole = 0
    for name, value in values.items():
        msb, lsb, *unit = bits[name]
        whole = put(whole, msb, lsb, value >> (unit[0] if unit else 0))
    whole = put(whole, *bits["program_lo"][:2], program >> shift & 0xFFFFFFFF)
    whole = put(whole, *bits["program_hi"][:2], program >> shift >> 32)
    for bank, (va, nbytes) in constants.items():
        place = BANK_PLACE[major] + 64 * bank
        whole = put(whole, BANK_VALID[major] + 4 * bank, BANK_VALID[major] + 4 * bank, 1)
        whole = put(whole, place + 31, place, va >> 6 & 0xFFFFFFFF)
        whole = put(whole, place + 50, place + 32, va >> 38)
        whole = put(whole, place + 63, place + 51, nbytes >> 4)
    for slot, release in releases.items():
        whole = put_release(whole, major, slot, release)
    for msb, lsb, value in raw:
        whole = put(whole, msb, lsb, value)
    return whole.to_bytes(384, "little")
