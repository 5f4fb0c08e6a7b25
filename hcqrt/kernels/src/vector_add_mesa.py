"""out[i] = a[i] + b[i] for 1024 elements, four a thread: by Mesa's NAK or ir3 through tinygrad 0.14.0, no device.

usage: vector_add_mesa.py ARCH OUTPUT [ARCH OUTPUT ...], chips of one vendor
"""

import os
import sys
from pathlib import Path

os.environ.update(DEV=f"NULL:NAK:{sys.argv[1]}" if sys.argv[1].startswith("sm_") else "NULL:IR3:a630")
os.environ.update(PARALLEL="0", CCACHE="0", DEBUG="0")

from tinygrad import Tensor
from tinygrad.runtime.support import compiler_mesa

OUTPUTS = dict(zip(sys.argv[1::2], map(Path, sys.argv[2::2]), strict=True))
COMPILER = "NAK" if sys.argv[1].startswith("sm_") else "IR3"
FIRST = sys.argv[1] if COMPILER == "NAK" else "a630"  # tinygrad knows no other Adreno
ADRENO_IDS = {"a730": (730, 0x07030001)}
IR3_POINTERS = (120, 144, 200)  # in the variant record: addresses of the process that compiled


def without_addresses(blob):
    cleared = bytearray(blob)
    for offset in IR3_POINTERS:
        cleared[offset : offset + 8] = bytes(8)
    return bytes(cleared)


compiler = getattr(compiler_mesa, f"{COMPILER}Compiler")
compile_shader = compiler.compile


def compiler_for(arch):
    """A compiler object as tinygrad makes it, for chips too that it does not know."""
    if arch not in ADRENO_IDS:
        return compiler(arch)
    made, mesa = compiler.__new__(compiler), compiler_mesa.mesa
    made.arch, made.dev_id = arch, mesa.struct_fd_dev_id(*ADRENO_IDS[arch])
    options = mesa.struct_ir3_compiler_options(disable_cache=True)
    made.cc = mesa.ir3_compiler_create(None, made.dev_id, mesa.fd_dev_info(made.dev_id), options).contents
    made.cc.has_preamble = False
    made.nir_options = bytes(mesa.ir3_get_compiler_options(made.cc).contents)
    return made


compilers = {arch: compiler_for(arch) for arch in OUTPUTS if arch != FIRST}


def compile_and_keep(self, source):
    blobs = {arch: compile_shader(compilers.get(arch, self), source) for arch in OUTPUTS}
    for arch, blob in blobs.items():
        OUTPUTS[arch].write_bytes(without_addresses(blob) if COMPILER == "IR3" else blob)
    return compile_shader(self, source)


compiler.compile = compile_and_keep
(Tensor.empty(1024) + Tensor.empty(1024)).realize()
