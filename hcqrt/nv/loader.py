"""Which kind of program file this is, and the words for the kinds that a GPU cannot run."""

from __future__ import annotations

from hcqrt.errors import BinaryError
from hcqrt.nv.cubin import load_cubin
from hcqrt.nv.image import Image
from hcqrt.nv.nak import load_nak, looks_like_nak

ELF_MAGIC = b"\x7fELF"
EM_CUDA = 190  # elf.h
FATBIN_MAGIC = (0xBA55ED50, 0x466243B1)  # fatbinary container, and the wrapper that points to one

MACHINES = {62: "x86-64", 183: "AArch64", 205: "Intel GPU", 224: "AMD GPU", 243: "RISC-V"}  # elf.h
PTX_REMEDY = "compile it first with ptxas -arch=sm_NN"

MAGICS = (  # first bytes -> what it is, what to do
    (b"//", "PTX or other source text", f"{PTX_REMEDY}, or nvcc -cubin"),
    (b".version", "PTX", PTX_REMEDY),
    (b"__kernel", "OpenCL source text", "compile it first"),
    (b"BC\xc0\xde", "LLVM bitcode", "compile it to a cubin first"),
    (b"\x03\x02\x23\x07", "SPIR-V", "compile it to a cubin first"),
    (b"MTLB", "a Metal library", "it is for another vendor's GPU"),
    (b"DXBC", "a DirectX shader", "it is for another interface"),
    (b"__CLANG_OFFLOAD_BUNDLE__", "a clang offload bundle", "unbundle the cubin of your architecture first"),
    (b"CCOB", "a clang offload bundle", "unbundle the cubin of your architecture first"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
)


TEXT = bytes((*b"\t\n\r\f", *range(0x20, 0x7F)))


def load(binary: bytes, name: str | None = None) -> Image:
    """Read any program file that an NVIDIA GPU can run. Raises BinaryError, whatever the bytes are."""
    data = bytes(memoryview(binary))
    if data[:4] == ELF_MAGIC:
        machine = int.from_bytes(data[18:20], "little")
        if machine != EM_CUDA:
            raise BinaryError(
                f"this is an ELF file for machine {machine} ({MACHINES.get(machine, 'unknown')}), "
                f"not a cubin (machine {EM_CUDA}); compile for NVIDIA, or extract the cubin in it"
            )
        return load_cubin(data)
    if looks_like_nak(data):
        return load_nak(data, name)
    if int.from_bytes(data[:4], "little") in FATBIN_MAGIC:
        raise BinaryError(
            "this is a fatbin, a container: extract the cubin of your GPU with cuobjdump -xelf, or nvcc -cubin"
        )
    head = data[:512].lstrip()
    for magic, what, remedy in MAGICS:
        if head.startswith(magic):
            is_ptx = b".version" in data[:4096] and b".target" in data[:4096]
            what, remedy = ("PTX", PTX_REMEDY) if is_ptx else (what, remedy)
            raise BinaryError(f"this is {what}, not machine code; {remedy}")
    if not data:
        raise BinaryError("the program is empty")
    if head and not head.translate(None, TEXT):
        raise BinaryError("this is source text, not machine code; compile it first")
    raise BinaryError(f"{len(data)} bytes starting {data[:8].hex()}: neither a cubin nor a NAK shader")
