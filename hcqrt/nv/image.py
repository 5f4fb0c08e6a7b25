"""What a program file says of one kernel, whatever its kind: the neutral description between loaders and launches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hcqrt.core.program import Param
from hcqrt.errors import BinaryError

CODE_ALIGN = 128  # PROGRAM_ADDRESS; sections of code start at multiples of it
PREFETCH_PAD = 4096  # mapped bytes behind the last instruction: the hardware fetches ahead (nv-engine facts 8.2)


@dataclass(frozen=True)
class Kernel:
    """One kernel of an image. Offsets are into the image, sizes in bytes.

    `local_low` and `local_high` are the two scratch regions of a thread (nv-engine facts 5.1, SHADER_LOCAL_MEMORY_*);
    `shared_static` is what the file declares, `shared_reserve` what the chip's ABI adds on top.
    """

    name: str
    entry: int
    registers: int
    barriers: int
    shared_static: int
    local_low: int
    local_high: int
    max_threads: int  # 1024 when the file sets no limit
    required_block: tuple[int, int, int] | None  # the only block size the code is right for
    param_base: int
    params: tuple[Param, ...] | None  # None: the file does not say
    param_bytes: int  # the parameters' whole size; the largest allowed when the file does not say
    driver_area: bool  # bank 0 starts with launch dimensions, windows and the like before `param_base`
    shared_in_abi: bool  # shared memory follows the toolkit's rules: reserve on sm_80 and up, dynamic part allowed
    banks: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # constant bank number -> (offset, bytes)
    unresolved: tuple[str, ...] = ()  # external functions it needs: refused when it is chosen
    refusal: str = ""  # another reason why it cannot be launched


@dataclass(frozen=True)
class Relocation:
    """At `offset` of the image: an address is stored. `value` is an image offset, added to the load address.

    `kind` names the way: see `PATCHES`.
    """

    offset: int
    kind: str
    value: int
    absolute: bool = False  # `value` is the address itself


@dataclass(frozen=True)
class Image:
    """A module ready to be placed: bytes, kernels by name, relocations."""

    sm: int  # what it was built for: 86, 90, …
    variant: str  # "a" or "f" of sm_90a, sm_100f: built for one chip only, runs on no later one
    data: bytes
    kernels: Mapping[str, Kernel]
    relocations: tuple[Relocation, ...] = ()

    def at(self, va: int) -> bytes:
        """The bytes to load at GPU address `va`, every relocation applied."""
        data = bytearray(self.data)
        for relocation in self.relocations:
            value = relocation.value if relocation.absolute else va + relocation.value
            patch(data, relocation, value & 0xFFFF_FFFF_FFFF_FFFF)
        return bytes(data)

    def pick(self, name: str | None) -> Kernel:
        """The kernel called `name`, or the only one. Raises BinaryError listing what there is."""
        if name is None and len(self.kernels) == 1:
            name = next(iter(self.kernels))
        if name is None:
            raise BinaryError(f"the file has {len(self.kernels)} kernels, say which: {', '.join(self.kernels)}")
        if name not in self.kernels:
            raise BinaryError(f"no kernel {name!r} in the file; it has: {', '.join(self.kernels)}")
        kernel = self.kernels[name]
        if kernel.unresolved:
            raise BinaryError(
                f"kernel {name} needs {', '.join(kernel.unresolved)}, which only the vendor's driver provides; "
                "build it without printf, assert, malloc and device-side launches"
            )
        if kernel.refusal:
            raise BinaryError(f"kernel {name}: {kernel.refusal}")
        return kernel


# kind -> (struct format, byte offset, value of the stored field). Source: nv-engine facts 8.5, nvlink's tables.
PATCHES: dict[str, tuple[str, int, Callable[[int], int]]] = {
    "data32": ("<I", 0, lambda value: value),
    "data64": ("<Q", 0, lambda value: value),
    "data32_lo": ("<I", 0, lambda value: value & 0xFFFF_FFFF),
    "data32_hi": ("<I", 0, lambda value: value >> 32),
    "abs32": ("<I", 4, lambda value: value),  # instruction bits 63:32, the whole address
    "lo32": ("<I", 4, lambda value: value & 0xFFFF_FFFF),  # the same bits, one half of it
    "hi32": ("<I", 4, lambda value: value >> 32),
    "clear32": ("<I", 0, lambda value: 0),
    "clear64": ("<Q", 0, lambda value: 0),
}


def patch(data: bytearray, relocation: Relocation, value: int) -> None:
    """Apply one relocation; a value too wide for its place raises BinaryError."""
    kind, offset = relocation.kind, relocation.offset
    if kind.startswith("byte"):  # the k-th byte of the value
        data[offset] = value >> 8 * int(kind[4:]) & 0xFF
        return
    if kind == "field47":  # instruction bits 80:34 hold value / 4
        word = int.from_bytes(data[offset : offset + 16], "little")
        mask = ((1 << 47) - 1) << 34
        if value & 3 or value >> 49:
            raise BinaryError(f"relocation at {offset:#x}: {value:#x} does not fit a 47-bit word address")
        word = word & ~mask | (value >> 2) << 34
        data[offset : offset + 16] = word.to_bytes(16, "little")
        return
    if kind == "field55":  # sm_90: instruction bits 23:16 hold the low 8 bits of value / 4, bits 80:34 the rest
        word = int.from_bytes(data[offset : offset + 16], "little")
        mask = ((1 << 47) - 1) << 34 | 0xFF << 16
        if value & 3 or value >> 57:
            raise BinaryError(f"relocation at {offset:#x}: {value:#x} does not fit a 55-bit word address")
        word = word & ~mask | (value >> 10) << 34 | (value >> 2 & 0xFF) << 16
        data[offset : offset + 16] = word.to_bytes(16, "little")
        return
    form, shift, take = PATCHES[kind]
    if kind in ("data32", "abs32") and value >> 32:
        raise BinaryError(f"relocation at {offset:#x}: {value:#x} does not fit 32 bits")
    try:
        struct.pack_into(form, data, offset + shift, take(value))
    except struct.error as error:
        raise BinaryError(f"relocation at {offset:#x} leaves the image of {len(data)} bytes") from error
