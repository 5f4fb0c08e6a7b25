"""Launch descriptors V03_00 built by hand: positions from the facts, not from the project's generated table."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_bench import CODE_VA

BITS = {
    "minor": (579, 576), "major": (583, 580), "width": (415, 384), "height": (431, 416), "depth": (463, 448),
    "block_x": (607, 592), "block_y": (623, 608), "block_z": (639, 624), "registers": (656, 648),
    "barriers": (767, 763),
    "sass": (1663, 1656), "program_lo": (1567, 1536), "program_hi": (1584, 1568), "shared": (561, 544),
    "config_min": (567, 562), "config_max": (574, 569), "config_target": (662, 657), "local_low": (759, 736),
    "local_high": (1623, 1600), "dependent": (511, 480), "dependent_enable": (512, 512), "dependent_action": (515, 513),
    "prefetch_lo": (287, 256), "prefetch_hi": (1640, 1632), "prefetch_size": (1649, 1641), "membar": (369, 368),
    "call_limit": (378, 378), "group": (133, 128), "invalidate_code": (190, 190),
}  # fmt: skip
RELEASE_BASE = {0: 768, 1: 896, 2: 1664}  # address low, high 32 bits later, flags from 51, payload from 64


def put(whole: int, msb: int, lsb: int, value: int) -> int:
    assert 0 <= value < 1 << (msb - lsb + 1), f"{value:#x} does not fit {msb}:{lsb}"
    mask = (1 << (msb - lsb + 1)) - 1
    return whole & ~(mask << lsb) | value << lsb


def release_bits(whole: int, base: int, release: Mapping[str, int]) -> int:
    whole = put(whole, base + 31, base, release["va"] & 0xFFFFFFFF)
    whole = put(whole, base + 39, base + 32, release["va"] >> 32)
    whole = put(whole, base + 51, base + 51, 1)  # membar
    whole = put(whole, base + 55, base + 55, 1)  # enable
    if "reduction" in release:
        whole = put(whole, base + 54, base + 52, release["reduction"])
        whole = put(whole, base + 58, base + 58, 1)
    whole = put(whole, base + 60, base + 59, release.get("trap", 0))
    whole = put(whole, base + 61, base + 61, release["payload64"])
    whole = put(whole, base + 63, base + 62, release["structure"])
    return put(whole, base + 127, base + 64, release["payload"])


def qmd(
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    registers: int = 16,
    shared: int = 0,
    config: tuple[int, int, int] = (0x5, 0x5, 0x1A),  # 16, 16, 100 KiB
    program: int = CODE_VA,
    constants: Mapping[int, tuple[int, int]] = {},
    invalidate_banks: tuple[int, ...] = (),
    releases: Mapping[int, Mapping[str, int]] = {},
    dependent: tuple[int, int] | None = None,
    raw: tuple[tuple[int, int, int], ...] = (),
    **fields: int,
) -> bytes:
    """The 256 bytes; `raw` sets (msb, lsb, value) after everything else."""
    values = {
        "major": 3, "width": grid[0], "height": grid[1], "depth": grid[2], "block_x": block[0], "block_y": block[1],
        "block_z": block[2], "registers": registers, "shared": shared, "config_min": config[0],
        "config_target": config[1], "config_max": config[2], "program_lo": program & 0xFFFFFFFF,
        "program_hi": program >> 32, "membar": 1, "call_limit": 1, **fields,
    }  # fmt: skip
    if dependent is not None:
        values |= {"dependent": dependent[0] >> 8, "dependent_enable": 1, "dependent_action": dependent[1]}
    whole = 0
    for name, value in values.items():
        whole = put(whole, *BITS[name], value)
    for bank, (va, nbytes) in constants.items():
        whole = put(whole, 640 + bank, 640 + bank, 1)
        whole = put(whole, 1055 + 64 * bank, 1024 + 64 * bank, va & 0xFFFFFFFF)
        whole = put(whole, 1072 + 64 * bank, 1056 + 64 * bank, va >> 32)
        whole = put(whole, 1074 + 64 * bank, 1074 + 64 * bank, int(bank in invalidate_banks))
        whole = put(whole, 1087 + 64 * bank, 1075 + 64 * bank, nbytes >> 4)
    for slot, release in releases.items():
        whole = release_bits(whole, RELEASE_BASE[slot], release)
    for msb, lsb, value in raw:
        whole = put(whole, msb, lsb, value)
    return whole.to_bytes(256, "little")
