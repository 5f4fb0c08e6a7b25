"""The launch descriptor of every shipped kernel against the one that Mesa's own writer makes of the same facts.

What a descriptor means is equal; each field that differs is in a table with its reason, and no other may differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from cubins import cubin, kernel
from nak_corpus import missing_packages
from test_nak import blob

from hcqrt.bits import align_up
from hcqrt.decode.qmd import decode_qmd, unknown_bits

WORKER = Path(__file__).parents[1] / "mesa_qmd_worker.py"
SHIPPED = sorted(entry.name for entry in resources.files("hcqrt.kernels").iterdir() if ".sm_86." in entry.name)
SHARED_MAX = 48 * 1024
GRIDS = ((3, 2, 2), (1, 1, 1), (65537, 1, 1))
LARGE_GRID_FOR = "fill.sm_86.cubin"  # 65537 blocks show that the width has 32 bits; one kernel is enough

MEANT = (
    "QMD_MAJOR_VERSION", "QMD_VERSION",
    "CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH",
    "CTA_THREAD_DIMENSION0", "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2",
    "REGISTER_COUNT_V", "BARRIER_COUNT", "PROGRAM_ADDRESS_LOWER", "PROGRAM_ADDRESS_UPPER", "SHARED_MEMORY_SIZE",
    "CONSTANT_BUFFER_VALID[0]", "CONSTANT_BUFFER_ADDR_LOWER[0]", "CONSTANT_BUFFER_ADDR_UPPER[0]",
    "CONSTANT_BUFFER_SIZE_SHIFTED4[0]", "API_VISIBLE_CALL_LIMIT", "SM_GLOBAL_CACHING_ENABLE",
)  # fmt: skip
RELEASE = "the descriptor itself releases the timeline when the grid completes; Mesa's driver uses other methods"
CARVE_OUT = "Mesa chooses from 8 to 96 KiB and caps at the size it is told; ours is the chip's list, up to the largest"
INVALIDATE = "caches of what copies and the host may have changed are dropped at launch; Mesa uses methods before it"
DIFFERENT = {  # field -> why ours is another value
    "QMD_GROUP_ID": "the group that compute launches outside graphics queues use; Mesa leaves it 0 before Blackwell",
    "CWD_MEMBAR_TYPE": "the grid's writes are visible to host and copy engine when the release lands",
    "SASS_VERSION": "names the instruction set to debuggers; Mesa leaves it 0",
    "INVALIDATE_TEXTURE_HEADER_CACHE": INVALIDATE,
    "INVALIDATE_TEXTURE_SAMPLER_CACHE": INVALIDATE,
    "INVALIDATE_TEXTURE_DATA_CACHE": INVALIDATE,
    "INVALIDATE_SHADER_DATA_CACHE": INVALIDATE,
    "CONSTANT_BUFFER_INVALIDATE[0]": "the arguments' slot is written by the host and used again",
    "MIN_SM_CONFIG_SHARED_MEM_SIZE": CARVE_OUT,
    "TARGET_SM_CONFIG_SHARED_MEM_SIZE": CARVE_OUT,
    "MAX_SM_CONFIG_SHARED_MEM_SIZE": CARVE_OUT,
    "RELEASE0_ENABLE": RELEASE,
    "RELEASE0_PAYLOAD64B": RELEASE,
    "RELEASE0_MEMBAR_TYPE": RELEASE,
    "RELEASE0_ADDRESS_LOWER": RELEASE,
    "RELEASE0_ADDRESS_UPPER": RELEASE,
    "RELEASE0_PAYLOAD_LOWER": RELEASE,
    "RELEASE0_PAYLOAD_UPPER": RELEASE,
}
STACK = "the toolkit's code addresses its stack from the top of the local window down, NAK's from its start up"
CUBIN_ONLY = {"SHADER_LOCAL_MEMORY_LOW_SIZE": STACK, "SHADER_LOCAL_MEMORY_HIGH_SIZE": STACK}

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")


def mesa(cases: list[dict]) -> list[dict[str, int]]:
    """Mesa's descriptors for these launches."""
    command = [sys.executable, str(WORKER)]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    binaries = [bytes.fromhex(text) for text in json.loads(done.stdout)]
    assert [len(data) for data in binaries] == [256] * len(cases)
    assert not any(unknown_bits(data) for data in binaries)
    return [decode_qmd(data) for data in binaries]


def launched(dev, prg, grid, block, dynamic: int = 0) -> dict[str, int]:
    """The descriptor of a real launch, from the memory where the GPU read it."""
    room = dev.alloc(1 << 20)
    params = prg.params or ()  # a NAK shader's are three pointers here
    bufs = [room] * (sum(param.size == 8 for param in params) if prg.params is not None else 3)
    offset = dev.kernargs.cursor
    prg(*bufs, vals=[1] * (len(params) - len(bufs)) if params else (), global_size=grid, local_size=block,
        dynamic_shared=dynamic)  # fmt: skip
    dev.synchronize()
    data = bytes(dev.kernargs.mv[offset + prg.qmd_offset :][: dev.qmd_layout.size_bytes])
    assert not unknown_bits(data)
    found = decode_qmd(data)
    bank0 = found.get("CONSTANT_BUFFER_ADDR_UPPER[0]", 0) << 32 | found["CONSTANT_BUFFER_ADDR_LOWER[0]"]
    assert bank0 == dev.kernargs.va + offset
    return found


def case_of(dev, prg, grid, block, bank0_va: int, dynamic: int = 0) -> dict:
    """What Mesa's writer is told: the file's own numbers, and the addresses that this launch had."""
    found = prg.kernel
    return {
        "sm": dev.chip.sm,
        "warps": dev.warps_per_sm,
        "compute_class": dev.compute_class,
        "registers": found.registers,
        "barriers": found.barriers,
        "scratch": found.local_low or found.local_high,
        "block": block,
        "shared": found.shared_static + dynamic + (1024 if prg.kernel.shared_in_abi else 0),
        "shared_max": SHARED_MAX,
        "program": prg._memory.va + found.entry,
        "grid": grid,
        "banks": [[0, prg.bank0_bytes, bank0_va]],
    }


def both(dev, binary: bytes, grid, block, dynamic: int = 0) -> tuple[dict[str, int], dict[str, int]]:
    """(ours, Mesa's) for one launch."""
    prg = dev.program(binary)
    block = prg.kernel.required_block or block
    bank0_va = dev.kernargs.va + dev.kernargs.cursor
    ours = launched(dev, prg, grid, block, dynamic)
    return ours, mesa([case_of(dev, prg, grid, block, bank0_va, dynamic)])[0]


def differing(ours: dict[str, int], theirs: dict[str, int]) -> set[str]:
    return {name for name in ours.keys() | theirs.keys() if ours.get(name, 0) != theirs.get(name, 0)}


def shipped(name: str) -> bytes:
    return (resources.files("hcqrt.kernels") / name).read_bytes()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_kernels_descriptor_means_what_mesas_means(dev, name, grid):
    if max(grid) > 1 << 16 and name != LARGE_GRID_FOR:
        grid = (2, 1, 3)
    ours, theirs = both(dev, shipped(name), grid, (32, 2, 1))
    for field in MEANT:
        assert ours.get(field, 0) == theirs.get(field, 0), field
    local = [sum(qmd.get(f"SHADER_LOCAL_MEMORY_{end}_SIZE", 0) for end in ("LOW", "HIGH")) for qmd in (ours, theirs)]
    assert local[0] == local[1]
    allowed = DIFFERENT.keys() | (CUBIN_ONLY.keys() if name.endswith(".cubin") else set())
    assert differing(ours, theirs) <= allowed


def test_every_listed_difference_is_one(dev):
    """A reason for what does not differ is wrong. The upper halves are 0 while addresses and values are small."""
    seen: set[str] = set()
    for name in SHIPPED:
        seen |= differing(*both(dev, shipped(name), (2, 1, 1), (32, 1, 1)))
    listed = DIFFERENT.keys() | CUBIN_ONLY.keys()
    assert seen <= listed
    assert listed - seen <= {"RELEASE0_ADDRESS_UPPER", "RELEASE0_PAYLOAD_UPPER"}
    assert not listed & set(MEANT)


def test_a_nak_shader_has_its_scratch_and_shared_memory_where_mesa_puts_them(dev):
    for scratch, shared, barriers in ((136, 0, 0), (0, 4096, 1), (524, 2048, 1)):
        ours, theirs = both(dev, blob(scratch=scratch, shared=shared, barriers=barriers), (2, 1, 1), None)
        assert differing(ours, theirs) <= DIFFERENT.keys()
        assert ours.get("SHADER_LOCAL_MEMORY_LOW_SIZE", 0) == align_up(scratch, 16)


def test_shared_memory_in_smaller_steps_than_mesas(dev):
    """Ampere counts in 128 bytes, Mesa rounds up to Turing's 256: ours rounded up is theirs."""
    for static, dynamic in ((16, 0), (128, 1), (1000, 4096), (0, 40000)):
        binary = cubin(kernel(shared=static))
        ours, theirs = both(dev, binary, (1, 1, 1), (64, 1, 1), dynamic)
        assert differing(ours, theirs) <= DIFFERENT.keys() | {"SHARED_MEMORY_SIZE"}
        assert ours["SHARED_MEMORY_SIZE"] >= static + dynamic + 1024
        assert align_up(ours["SHARED_MEMORY_SIZE"], 256) == theirs["SHARED_MEMORY_SIZE"]
