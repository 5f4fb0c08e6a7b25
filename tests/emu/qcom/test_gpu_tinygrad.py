"""The words that tinygrad really sends: its known mistakes stop a strict GPU and pass a lenient one."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from adreno_bench import CODE_VA, CONST_VA, DATA_VA, SIGNAL_VA, Bench, lo_hi

from hcqrt.emu.engine.launch import ImageShape, SamplerShape
from hcqrt.emu.refusal import EmulatorRefusal

WORKER = Path(__file__).with_name("tinygrad_queue_worker.py")
VERSION = "0.14.0"
INSTALLED = importlib.util.find_spec("tinygrad") is not None and importlib.metadata.version("tinygrad") == VERSION
TIMEOUT_S = 60
AT = {
    "dummy": DATA_VA, "stack": DATA_VA + 0x20000, "border": DATA_VA + 0x30000, "signal": SIGNAL_VA, "code": CODE_VA,
    "arguments": CONST_VA,
}  # fmt: skip
IMAGE_VA = DATA_VA + 0x40000
# As its argument blocks hold them (qcom.md §4): 16 x 4 texels of RGBA16F, and as a target
TEXTURE = (0x8 | 1 << 7 | 2 << 10 | 3 << 13 | 0x62 << 22, 16 | 4 << 15, 128 << 7 | 1 << 29 | 1, 0, *lo_hi(IMAGE_VA),
           0x40000000, 13, *[0] * 8)  # fmt: skip
TARGET = (0x62 << 22, *TEXTURE[1:])
SAMPLER = (0x1B60, 0x30, 0, 0)

pytestmark = pytest.mark.skipif(not INSTALLED, reason=f"not installed: tinygrad {VERSION}")


@pytest.fixture(scope="module")
def words() -> dict[str, list[int]]:
    run = subprocess.run(
        [sys.executable, str(WORKER), json.dumps(AT)],
        env={**os.environ, "DEV": "PYTHON"}, capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    found: dict[str, list[int]] = json.loads(run.stdout)
    return found


def fill(bench: Bench) -> None:
    bench.space.write(CONST_VA + 2048, struct.pack("<36I", *TEXTURE, *TARGET, *SAMPLER))


@pytest.mark.parametrize("form", ["cl", "ir3"])
def test_a_lenient_gpu_runs_them(lenient: Bench, words: dict[str, list[int]], form: str) -> None:
    fill(lenient)
    lenient.submit(*words[form])
    assert lenient.faults == []
    assert lenient.u32(SIGNAL_VA) == 5
    assert lenient.space.read_u64(SIGNAL_VA + 8) > 0
    (launch,) = lenient.launches
    assert (launch.grid, launch.block, launch.lanes, launch.constants[0][1]) == ((2, 1, 1), (64, 1, 1), 64, 4096)
    setup = launch.setup
    assert setup is not None
    assert (setup.isam_gl, setup.constant_demotion) == (form == "ir3", form == "ir3")
    registers = (setup.group_id, setup.group_size, setup.group_offset, setup.local_id)
    assert registers == ((0xC0, 0xFC, 0xFC, 0) if form == "ir3" else (0xCF, 0xC0, 0xCC, 0))
    assert setup.textures == setup.images == (ImageShape(0x62, "2d", (0, 1, 2, 3), 0, False),)
    assert setup.samplers == (SamplerShape(True, (3, 3, 3), (0, 0)),)


@pytest.mark.parametrize("form", ["cl", "ir3"])
def test_a_strict_gpu_refuses_them(bench: Bench, words: dict[str, list[int]], form: str) -> None:
    fill(bench)
    with pytest.raises(EmulatorRefusal, match=r"SP_FLOAT_CNTL \(0xae04\) was never written"):
        bench.submit(*words[form])
    bench.context.resume_after_fault()
    with pytest.raises(EmulatorRefusal, match=r"SP_CS_PVT_MEM_HW_STACK_OFFSET \(0xa9bd\) = 0x1000: offset 0x800000"):
        bench.submit(0x48AE0401, 0, *words[form])
    assert bench.launches == []
