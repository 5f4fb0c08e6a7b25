"""Runs ir3 images as tinymesa makes them on the engine without a device: no code of the backend is used here."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from nak import ArrayMemory

from hcqrt.emu.engine.launch import ImageShape, Ir3Setup, Launch, SamplerShape

VARIANT_BYTES, STATE_BYTES = 2040, 1424  # of tinymesa 25.2.7.2; offsets below likewise
CODE_VA = 0x7E00_0000_0000
CONST_FILE_BYTES = 4096
RGBA16F, RGBA32F = 0x62, 0x82


class Shader:
    """What a launch needs to know of one image."""

    def __init__(self, blob: bytes) -> None:
        def u32(at: int) -> int:
            return int(struct.unpack_from("<I", blob, at)[0])

        state = VARIANT_BYTES
        immediates = 4 * u32(212)
        at = VARIANT_BYTES + STATE_BYTES
        self.immediates = blob[at : at + immediates]
        self.code = blob[at + immediates :]
        if len(self.code) != u32(224):
            raise ValueError(f"{len(self.code)} bytes of code, the image says {u32(224)}")
        self.full_regs, self.half_regs = (int(n) + 1 for n in struct.unpack_from("<2b", blob, 248))
        self.private_bytes, self.shared_bytes = u32(580), u32(588)
        self.textures = tuple(blob[1188 : 1188 + blob[1220]])
        self.uavs = u32(1480)
        self.merged = bool(blob[1243])
        self.block = struct.unpack_from("<3H", blob, 1466)
        self.local_id, self.group_id = u32(1492), u32(1496)
        self.immediates_at = 16 * u32(state + 236)
        self.arguments_at = u32(state + 384 + 16)


@dataclass
class Image:
    """A bound image or texture: its shape, and its row of the bank."""

    shape: ImageShape
    va: int
    width: int
    height: int
    pitch: int
    depth: int = 1
    layer: int = 0

    def row(self) -> bytes:
        sizes = self.width, self.height, self.depth, self.pitch, self.layer, 0
        return struct.pack("<Q6I", self.va, *sizes)


@dataclass
class Banks:
    """Constant banks of a launch; the arrays must live as long as it runs."""

    constants: bytearray = field(default_factory=lambda: bytearray(CONST_FILE_BYTES))
    textures: list[Image] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    ubos: list[tuple[int, int]] = field(default_factory=list)  # va, nbytes
    kept: list[Any] = field(default_factory=list)

    def pointers(self) -> dict[int, tuple[int, int]]:
        rows = [b"".join(one.row() for one in self.textures), b"".join(one.row() for one in self.images)]
        rows.append(b"".join(struct.pack("<QII", va, nbytes, 0) for va, nbytes in self.ubos))
        self.kept = [np.frombuffer(bytearray(data), np.uint8) for data in (bytes(self.constants), *rows)]
        return {bank: (data.ctypes.data, data.nbytes) for bank, data in enumerate(self.kept) if data.nbytes}


SAMPLER = SamplerShape(unnormalized=True, wrap=(3, 3, 3), filter=(0, 0))


def setup(banks: Banks, full_regs: int = 48, half_regs: int = 48, **more: Any) -> Ir3Setup:
    values: dict[str, Any] = {
        "merged": False, "constant_demotion": True, "isam_gl": True, "group_id": 0xFC, "group_size": 0xFC,
        "group_offset": 0xFC, "local_id": 0xFC, "linear_id": 0xFC, "samplers": (SAMPLER,) * len(banks.textures), **more,
    }  # fmt: skip
    return Ir3Setup(
        full_regs=full_regs,
        half_regs=half_regs,
        textures=tuple(one.shape for one in banks.textures),
        images=tuple(one.shape for one in banks.images),
        ubos=len(banks.ubos),
        **values,
    )


def image(name: str, va: int, size: tuple[int, int]) -> Image:
    """As tinygrad binds a buffer: four components a texel, rows without gaps."""
    height, width = size
    nbytes, number = (8, RGBA16F) if name == "float16" else (16, RGBA32F)
    return Image(ImageShape(number, "2d", (0, 1, 2, 3), 0, False), va, width, height, width * nbytes)


def launch_of(
    case: dict[str, Any], arrays: list[np.ndarray[Any, Any]], lanes: int, budget: int
) -> tuple[Launch, Banks]:
    """A recorded case as a launch: images take their slots as tinygrad numbers them, the rest are pointers."""
    shader = Shader(case["blob"])
    assert shader.block == case["block"]
    memory, banks = ArrayMemory(arrays), Banks()
    bound = [
        image(name, va, size)
        for (name, _), va, size in zip(case["buffers"], memory.addresses, case["images"], strict=True)
        if size is not None
    ]
    written = shader.uavs - len(shader.textures)
    banks.images = bound[:written]
    banks.textures = [bound[written + index] for index in shader.textures]
    plain = [va for va, size in zip(memory.addresses, case["images"], strict=True) if size is None]
    data = struct.pack(f"<{len(plain)}Q{len(case['vals'])}i", *plain, *case["vals"])
    banks.constants[shader.arguments_at : shader.arguments_at + len(data)] = data
    at = shader.immediates_at
    banks.constants[at : at + len(shader.immediates)] = shader.immediates
    state = setup(
        banks, shader.full_regs, shader.half_regs, merged=shader.merged, local_id=shader.local_id,
        group_id=shader.group_id,
    )  # fmt: skip
    made = Launch(
        fetch=lambda va, nbytes: shader.code[va - CODE_VA : va - CODE_VA + nbytes],
        entry_va=CODE_VA,
        memory=memory,
        grid=case["grid"],
        block=case["block"],
        isa="ir3",
        shared_bytes=(shader.shared_bytes + 1023) // 1024 * 1024 or 1024,
        local_low_bytes=(shader.private_bytes + 511) // 512 * 512,
        constants=banks.pointers(),
        budget=budget,
        lanes=lanes,
        setup=state,
    )
    return made, banks
