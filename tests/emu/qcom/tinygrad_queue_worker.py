"""A program: prints the command words of tinygrad's Qualcomm queue for one launch, in both of its forms, as JSON.

Needs no device: the queue is fed stand-ins for device, program and arguments whose addresses come as JSON in argv[1].
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

os.environ["DEV"] = "PYTHON"

from tinygrad.runtime import ops_qcom


def main() -> None:
    at = json.loads(sys.argv[1])

    def buffer(name: str) -> SimpleNamespace:
        return SimpleNamespace(va_addr=at[name])

    device = SimpleNamespace(
        gpu_id=(6, 3, 0), dummy_addr=at["dummy"], _stack=buffer("stack"), border_color_buf=buffer("border")
    )
    signal = SimpleNamespace(value_addr=at["signal"], timestamp_addr=at["signal"] + 8)
    found = {}
    for form in ("cl", "ir3"):
        program = SimpleNamespace(
            dev=device, NIR=form == "ir3", hregs=1, fregs=3, brnchstck=2, shared_size=1, prg_offset=0,
            lib_gpu=buffer("code"), pvtmem_size_per_item=0, pvtmem_size_total=0, image_size=128, hw_stack_offset=0x1000,
            wgid=0xC0, wgsz=0xFC, lid=0, samp_cnt=1, tex_cnt=1, ibo_cnt=1, tex_off=2048, ibo_off=2112, samp_off=2176,
        )  # fmt: skip
        queue = ops_qcom.QCOMComputeQueue(device)
        queue.bind_args_state = lambda state: None
        arguments = SimpleNamespace(prg=program, buf=buffer("arguments"))
        queue.wait(signal, 0).memory_barrier()
        queue.exec(program, arguments, (2, 1, 1), (64, 1, 1)).timestamp(signal).signal(signal, 5)
        found[form] = [int(word) for word in queue._q]
    print(json.dumps(found))


main()
