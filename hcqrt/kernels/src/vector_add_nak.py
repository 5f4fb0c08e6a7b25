"""out[i] = a[i] + b[i] for 1024 elements, four a thread: by Mesa's NAK through tinygrad 0.14.0, no device.

usage: vector_add_nak.py ARCH OUTPUT
"""

import os
import sys
from pathlib import Path

os.environ.update(DEV=f"NULL:NAK:{sys.argv[1]}", PARALLEL="0", CCACHE="0", DEBUG="0")

from tinygrad import Tensor
from tinygrad.runtime.support.compiler_mesa import NAKCompiler

compile_nak = NAKCompiler.compile


def compile_and_keep(self, source):
    blob = compile_nak(self, source)
    Path(sys.argv[2]).write_bytes(blob)
    return blob


NAKCompiler.compile = compile_and_keep
(Tensor.empty(1024) + Tensor.empty(1024)).realize()
