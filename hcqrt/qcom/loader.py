"""Which kind of program file this is, and the words for the kinds that an Adreno cannot run."""

from __future__ import annotations

from hcqrt.errors import BinaryError
from hcqrt.qcom.arch import Arch
from hcqrt.qcom.clbinary import load_cl, looks_like_cl
from hcqrt.qcom.ir3binary import load_ir3, looks_like_ir3
from hcqrt.qcom.shader import Shader

ELF_MAGIC = b"\x7fELF"
ELF_MACHINES = {62: "x86-64", 183: "AArch64", 190: "an NVIDIA GPU", 224: "an AMD GPU"}  # elf.h
OPENCL_REMEDY = "compile it for this GPU with the vendor's OpenCL compiler, or with Mesa's ir3"

# how a file starts -> what it is
STARTS = {
    b".version": "PTX, NVIDIA's assembly",
    b"//": "PTX or other source text",
    b"__kernel": "OpenCL source text",
    b"kernel void": "OpenCL source text",
    b"\x03\x02\x23\x07": "SPIR-V",
    b"BC\xc0\xde": "LLVM bitcode",
    b"MTLB": "a Metal library",
    b"DXBC": "a DirectX shader",
    b"\x50\xed\x55\xba": "a fatbin of NVIDIA's toolkit",
    b"CCOB": "a clang offload bundle",
    b"__CLANG_OFFLOAD_BUNDLE__": "a clang offload bundle",
    b"\x1f\x8b": "a gzip archive",
}


def load(binary: bytes, name: str | None, arch: Arch) -> Shader:
    """Read any program file that an Adreno of this generation can run. Raises BinaryError, whatever the bytes are."""
    data = bytes(memoryview(binary))
    if not data:
        raise BinaryError("the program is empty")
    if data.startswith(ELF_MAGIC):
        machine = int.from_bytes(data[18:20], "little")
        what = "a cubin" if machine == 190 else "an ELF file"
        raise BinaryError(
            f"this is {what} for machine {machine} ({ELF_MACHINES.get(machine, 'unknown')}), not Adreno code; "
            f"{OPENCL_REMEDY}"
        )
    if looks_like_ir3(data):
        return load_ir3(data, name, arch)
    if looks_like_cl(data):
        if not arch.opencl_binaries:
            raise BinaryError(
                f"this is an OpenCL binary of Qualcomm's compiler: its tables are known for Adreno 6xx alone, this GPU "
                f"is an {arch.name}; compile the kernel with Mesa's ir3"
            )
        return load_cl(data, name)
    head = data[:512].lstrip()
    for start, what in STARTS.items():
        if head.startswith(start):
            raise BinaryError(f"this is {what}, not machine code; {OPENCL_REMEDY}")
    if head.isascii() and all(byte >= 0x20 or byte in b"\t\n\r\f" for byte in head):
        raise BinaryError(f"this is source text, not machine code; {OPENCL_REMEDY}")
    raise BinaryError(
        f"{len(data)} bytes starting {data[:8].hex()}: neither an OpenCL binary of Qualcomm's compiler nor an ir3 "
        "shader of tinymesa 25.2.7.2, or a damaged one"
    )
