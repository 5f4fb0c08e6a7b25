"""A program: launch descriptors as Mesa writes them. Reads a JSON list on standard input, prints one of hex texts.

It is a process of its own because the library ends the process when it does not like what it is given.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

INFO_BYTES, DEVICE_BYTES, QMD_INFO_BYTES = 728, 128, 160
STAGE_COMPUTE = 5


def library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("tinymesa")
    assert spec is not None and spec.origin is not None
    lib = ctypes.CDLL(str(Path(spec.origin).with_name("libtinymesa.so")))
    lib.nak_qmd_size_B.restype = ctypes.c_uint32
    lib.nak_fill_qmd.restype = None
    return lib


def device(case: dict[str, Any]) -> ctypes.Array[ctypes.c_char]:
    """nv_device_info: sm at 92, max_warps_per_mp at 97, cls_compute at 106."""
    data = bytearray(DEVICE_BYTES)
    data[92], data[97] = case["sm"], case["warps"]
    struct.pack_into("<H", data, 106, case["compute_class"])
    return ctypes.create_string_buffer(bytes(data), DEVICE_BYTES)


def shader(case: dict[str, Any]) -> ctypes.Array[ctypes.c_char]:
    """nak_shader_info: as nv-engine facts 13 lays it out."""
    data = bytearray(INFO_BYTES)
    struct.pack_into("<I3B", data, 0, STAGE_COMPUTE, case["sm"], case["registers"], case["barriers"])
    struct.pack_into("<I", data, 36, case["scratch"])
    struct.pack_into("<3H", data, 44, *case["block"])
    struct.pack_into("<H", data, 50, case["shared"])
    return ctypes.create_string_buffer(bytes(data), INFO_BYTES)


def launch(case: dict[str, Any]) -> ctypes.Array[ctypes.c_char]:
    """nak_qmd_info: address, shared sizes, grid, constant buffers."""
    if case["shared"] > case["shared_max"]:
        raise SystemExit(f"shared memory {case['shared']} over {case['shared_max']}: the library would abort")
    data = bytearray(QMD_INFO_BYTES)
    struct.pack_into("<Q2H3II", data, 0, case["program"], case["shared"], case["shared_max"], *case["grid"],
                     len(case["banks"]))  # fmt: skip
    for place, (index, size, address) in enumerate(case["banks"]):
        struct.pack_into("<2IQ", data, 32 + 16 * place, index, size, address)
    return ctypes.create_string_buffer(bytes(data), QMD_INFO_BYTES)


def main() -> None:
    lib, found = library(), []
    for case in json.load(sys.stdin):
        card = device(case)
        size = lib.nak_qmd_size_B(card)
        out = ctypes.create_string_buffer(size)
        lib.nak_fill_qmd(card, shader(case), launch(case), out, ctypes.c_size_t(size))
        found.append(out.raw.hex())
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
