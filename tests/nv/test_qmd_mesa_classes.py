"""The descriptors of every compute class against those of Mesa's own writer; test_qmd_mesa.py launches on one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import pytest
from nak_corpus import missing_packages

import hcqrt
from hcqrt.bits import align_up
from hcqrt.decode.qmd import decode_qmd, unknown_bits
from hcqrt.nv.arch import CHIPS
from hcqrt.nv.qmd import QmdSpec, QmdTemplate

WORKER = Path(__file__).parents[1] / "mesa_qmd_worker.py"
# compute class -> a chip that has it, the version that Mesa writes for it (its Turing layout is one older than ours)
CLASSES = {
    0xC5C0: ("sm_75", "V02_02"), 0xC6C0: ("sm_80", "V03_00"), 0xC7C0: ("sm_86", "V03_00"), 0xC9C0: ("sm_89", "V03_00"),
    0xCBC0: ("sm_90", "V04_00"), 0xCDC0: ("sm_100", "V05_00"), 0xCEC0: ("sm_120", "V05_00"),
}  # fmt: skip
BANK0_VA = 0x40_1234_5600
SPEC = QmdSpec(
    grid=(70000, 3, 2),
    block=(32, 4, 2),
    program_va=0x12_3456_7880,
    registers=40,
    barriers=1,
    shared_bytes=0,
    sm_configs=(3, 3, 0x11),
    local_low=0,
    local_high=0,
    bank0_bytes=0x90,
    banks=(),
    sass_version=0,
)
SPECS = (
    SPEC,
    replace(SPEC, grid=(1, 65535, 1), block=(1, 1, 64), registers=255, barriers=0),
    replace(SPEC, shared_bytes=2048, local_low=144, program_va=0xFF_FFFF_FF80, bank0_bytes=0x10000),
    replace(SPEC, shared_bytes=31 * 1024, sm_configs=(9, 9, 0x11), registers=24, local_low=0x7F0),
)
INVALIDATE = "caches of what copies and the host may have changed are dropped at launch; Mesa uses methods before it"
DIFFERENT = {  # field -> why ours is another value
    "QMD_GROUP_ID": "the group that compute launches outside graphics queues use; Mesa has 0x1f on Blackwell, else 0",
    "CWD_MEMBAR_TYPE": "the grid's writes are visible to host and copy engine when the release lands",
    "CONSTANT_BUFFER_INVALIDATE[0]": "the arguments' slot is written by the host and used again",
    "INVALIDATE_TEXTURE_HEADER_CACHE": INVALIDATE,
    "INVALIDATE_TEXTURE_SAMPLER_CACHE": INVALIDATE,
    "INVALIDATE_TEXTURE_DATA_CACHE": INVALIDATE,
    "INVALIDATE_SHADER_DATA_CACHE": INVALIDATE,
}
OF_ONE_CLASS = {
    0xC5C0: {"QMD_VERSION": "releases of 02_03, which the class takes, are not needed by Mesa, which writes 02_02"},
    0xCBC0: {"QMD_TYPE": "0 is a queue, and this is a grid; Mesa leaves it 0 before Blackwell"},
}

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")


def case_of(number: int, spec: QmdSpec) -> dict:
    return {
        "sm": CHIPS[CLASSES[number][0]].sm,
        "warps": 48,
        "compute_class": number,
        "registers": spec.registers,
        "barriers": spec.barriers,
        "scratch": spec.local_low,
        "block": spec.block,
        "shared": spec.shared_bytes,
        "shared_max": 48 * 1024,
        "program": spec.program_va,
        "grid": spec.grid,
        "banks": [[0, spec.bank0_bytes, BANK0_VA]],
    }


def written_by_mesa(cases: list[dict]) -> list[bytes]:
    command = [sys.executable, str(WORKER)]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=60, check=True)
    return [bytes.fromhex(text) for text in json.loads(done.stdout)]


@cache
def mesas() -> dict[int, list[bytes]]:
    """Mesa's descriptors by class, one per launch."""
    found = iter(written_by_mesa([case_of(number, spec) for number in CLASSES for spec in SPECS]))
    return {number: [next(found) for _ in SPECS] for number in CLASSES}


def ours_of(number: int, spec: QmdSpec) -> bytes:
    template = QmdTemplate(CHIPS[CLASSES[number][0]].arch.qmd, spec)
    data = bytearray(template.data)
    template.store_bank0(memoryview(data), 0, BANK0_VA)
    return bytes(data)


@pytest.mark.parametrize("number", CLASSES, ids=lambda number: f"{number:x}")
@pytest.mark.parametrize("index", range(len(SPECS)))
def test_a_descriptor_means_what_mesas_means(number, index):
    layout, version = CHIPS[CLASSES[number][0]].arch.qmd, CLASSES[number][1]
    mine, theirs = ours_of(number, SPECS[index]), mesas()[number][index]
    assert len(mine) == len(theirs) == (384 if number >= 0xCBC0 else 256)
    assert not unknown_bits(theirs, version)
    ours = decode_qmd(mine, "V{:02}_{:02}".format(*layout.version))
    meant = decode_qmd(theirs, version)
    different = {name for name in ours.keys() | meant.keys() if ours.get(name, 0) != meant.get(name, 0)}
    assert different == DIFFERENT.keys() | OF_ONE_CLASS.get(number, {}).keys()


# What a real launch says besides: where the timeline is released, how much shared memory an SM sets aside, whose code
# it is, and for a cubin where the stack is.
OF_A_LAUNCH = ("RELEASE", "MIN_SM_CONFIG", "TARGET_SM_CONFIG", "MAX_SM_CONFIG", "SASS_VERSION")
SHIPPED_FOR = (0xC5C0, 0xC6C0, 0xC7C0, 0xCBC0, 0xCDC0, 0xCEC0)  # Ada runs what is shipped for sm_86


def launches(dev) -> Iterator[tuple[str, bytes, dict]]:
    """(file, our descriptor from the memory where the GPU read it, what Mesa is told) of each kernel for this chip."""
    files = sorted(e.name for e in resources.files("hcqrt.kernels").iterdir() if f".{dev.arch}." in e.name)
    room = dev.alloc(1 << 20)
    for file in files:
        prg = dev.program((resources.files("hcqrt.kernels") / file).read_bytes())
        kernel, params = prg.kernel, prg.params
        block, grid = kernel.required_block or (32, 2, 1), (3, 2, 1)
        bufs = [room] * (3 if params is None else sum(param.size == 8 for param in params))
        offset = dev.kernargs.cursor
        prg(*bufs, vals=[1] * (len(params or bufs) - len(bufs)), global_size=grid, local_size=block)
        dev.synchronize()
        ours = bytes(dev.kernargs.mv[offset + prg.qmd_offset :][: dev.qmd_layout.size_bytes])
        shared = kernel.shared_static + (dev.chip.arch.shared_reserve if kernel.shared_in_abi else 0)
        spec = replace(
            SPEC, grid=grid, block=block, registers=kernel.registers, barriers=kernel.barriers, shared_bytes=shared,
            local_low=kernel.local_low or kernel.local_high, bank0_bytes=prg.bank0_bytes,
            program_va=prg._memory.va + kernel.entry,
        )  # fmt: skip
        case = case_of(dev.compute_class, spec) | {"banks": [[0, prg.bank0_bytes, dev.kernargs.va + offset]]}
        yield file, ours, case


@pytest.mark.parametrize("number", SHIPPED_FOR, ids=lambda number: f"{number:x}")
def test_a_real_launchs_descriptor_means_what_mesas_means(number, machine):
    name, version = CLASSES[number]
    with hcqrt.open_device("NV:0", machine((name,))) as dev:
        assert dev.compute_class == number
        found = list(launches(dev))
    assert len(found) >= 7
    our_version = "V{:02}_{:02}".format(*CHIPS[name].arch.qmd.version)
    for (file, data, _), mesas_data in zip(found, written_by_mesa([case for *_, case in found]), strict=True):
        assert not unknown_bits(data, our_version)
        ours, theirs = decode_qmd(data, our_version), decode_qmd(mesas_data, version)
        different = {field for field in ours.keys() | theirs.keys() if ours.get(field, 0) != theirs.get(field, 0)}
        rest = {field for field in different if not field.startswith(OF_A_LAUNCH)}
        rest -= DIFFERENT.keys() | OF_ONE_CLASS.get(number, {}).keys()
        local = {field for field in rest if field.startswith("SHADER_LOCAL_MEMORY")}
        shared = {field for field in rest if field.startswith("SHARED_MEMORY_SIZE")}  # Mesa counts in 256 bytes
        assert rest <= local | shared, file
        assert not local or file.endswith(".cubin")
        assert sum(ours.get(field, 0) for field in local) == sum(theirs.get(field, 0) for field in local)
        for field in shared:
            unit = 2 if field.endswith("SHIFTED7") else 256
            assert align_up(ours[field], unit) == theirs[field]
