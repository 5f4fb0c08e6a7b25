"""How the list of a chip's classes changed from driver to driver: the same on every chip."""

from __future__ import annotations

from collections.abc import Iterable

Version = tuple[int, ...]
Spans = tuple[tuple[Version, Version], ...]  # first version that lists it, first that no longer does

START: Version = (0,)
END: Version = (1 << 31,)
# g_gpu_class_list.c of the releases 535.43.02 to 595.45.04. The chips' own lists are those of 580.65.06.
LATER: dict[int, Spans] = {
    0x90E7: (((535, 129, 3), END),),  # GF100_SUBDEVICE_INFOROM
    0xA080: (((550, 40, 7), END),),  # KEPLER_DEVICE_VGPU
    0x0040: (((560, 28, 3), END),),  # NV01_MEMORY_LOCAL_USER
    0x00F3: ((START, (590, 44, 1)),),  # NV01_MEMORY_FLA
    0x0042: ((START, (595, 44, 2)),),  # NV_MEMORY_EXTENDED_USER
    0xCED0: (((580, 65, 6), END),),  # NVCED0_VIDEO_NVJPG, which GB20B has like the three below
    0xD1B0: (((580, 65, 6), END),),  # NVD1B0_VIDEO_DECODER
    0xD1B7: (((580, 65, 6), END),),  # NVD1B7_VIDEO_ENCODER
    0xD1FA: (((580, 65, 6), END),),  # NVD1FA_VIDEO_OFA
}
ADDED: dict[int, Spans] = {
    0xA0BC: (((580, 126, 9), (590, 44, 1)), ((595, 44, 2), END)),  # NVENC_SW_SESSION
    0xA0BD: (((580, 126, 9), (590, 44, 1)), ((595, 44, 2), END)),  # NVFBC_SW_SESSION
    0x008F: (((590, 44, 1), END),),  # KERNEL_WATCHDOG
    0xA083: (((595, 44, 2), END),),  # NVA083_GRID_DISPLAYLESS
}


def within(spans: Spans, version: Version) -> bool:
    return any(first <= version < gone for first, gone in spans)


def classes_at(known: Iterable[int], version: Version) -> list[int]:
    """What a driver version lists of a chip whose list at 580.65.06 is `known`, ascending."""
    kept = {number for number in known if number not in LATER or within(LATER[number], version)}
    return sorted(kept | {number for number, spans in ADDED.items() if within(spans, version)})
