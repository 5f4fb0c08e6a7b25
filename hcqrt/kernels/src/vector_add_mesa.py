"""out[i] = a[i] + b[i] for 1024 elements, four a thread: by Mesa's NAK or ir3 through tinygrad 0.14.0, no device.

usage: vector_add_mesa.py ARCH OUTPUT
"""

import os
import sys
from pathlib import Path

ARCH, OUTPUT = sys.argv[1:]
COMPILER = "NAK" if ARCH.startswith("sm_") else "IR3"
os.environ.update(DEV=f"NULL:{COMPILER}:{ARCH}", PARALLEL="0", CCACHE="0", DEBUG="0")

from tinygrad import Tensor
from tinygrad.runtime.support import compiler_mesa

compiler = getattr(compiler_mesa, f"{COMPILER}Compiler")
compile_shader = compiler.compile


def compile_and_keep(self, source):
    blob = compile_shader(self, source)
    Path(OUTPUT).write_bytes(blob)
    return blob


compiler.compile = compile_and_keep
(Tensor.empty(1024) + Tensor.empty(1024)).realize()
