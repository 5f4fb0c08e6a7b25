"""Machine code from GPU memory, started by hand-written words: what comes back when it works and when it does not."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from gpu_bench import CODE_VA, CONST_VA, DATA_VA, MIB, QMD_VA, READ_ONLY_VA, SETUP, UNMAPPED_VA, Bench
from qmd_words import qmd

from hcqrt.emu.executor import run_kernel
from hcqrt.isa.sass import assemble

LAUNCH3 = [0x200120AD, QMD_VA >> 8, 0x200120B0, 3]
DONE = DATA_VA + 3 * MIB
ADD = """
    S2R R0, SR_TID.X
    S2R R1, SR_CTAID.X
    LEA R0, R1, R0, 0x6
    LEA R2, P0, R0, c[0x0][0x8], 0x2
    LEA.HI.X R3, R0, c[0x0][0xc], RZ, 0x2, P0
    LDG.E R4, [R2]
    LEA R2, P0, R0, c[0x0][0x10], 0x2
    LEA.HI.X R3, R0, c[0x0][0x14], RZ, 0x2, P0
    LDG.E R5, [R2]
    LEA R2, P0, R0, c[0x0][0x0], 0x2
    LEA.HI.X R3, R0, c[0x0][0x4], RZ, 0x2, P0
    FADD R4, R4, R5
    STG.E [R2], R4
    EXIT
"""


@pytest.fixture
def real() -> Iterator[Bench]:
    made = Bench(budget=1 << 16)
    made.host.launch = run_kernel
    yield made
    made.close()


def run(bench: Bench, code: bytes, *args: int, **fields: object) -> tuple[int, int, int, int]:
    """Launch one grid on a new channel; the channel's error notifier."""
    channel = bench.channel()
    bench.space.write(CODE_VA, code.ljust(4096, b"\0"))
    bench.space.write(CONST_VA, struct.pack(f"<{len(args)}Q", *args))
    bench.space.write_u64(DONE, 0)
    fields = {"grid": (3, 1, 1), "block": (64, 1, 1), **fields}
    done = {0: {"va": DONE, "payload": 1, "structure": 0, "payload64": 1}}
    bench.space.write(QMD_VA, qmd(constants={0: (CONST_VA, 256)}, releases=done, **fields))  # type: ignore[arg-type]
    bench.submit(channel, *SETUP, *LAUNCH3)
    return bench.notifier(channel)


def test_a_kernel_computes_and_signals(real: Bench) -> None:
    a, b = np.arange(192, dtype=np.float32), np.linspace(-3, 9, 192, dtype=np.float32)
    real.space.write(DATA_VA + 0x1000, a.tobytes())
    real.space.write(DATA_VA + 0x2000, b.tobytes())
    assert run(real, assemble(ADD, 86), DATA_VA, DATA_VA + 0x1000, DATA_VA + 0x2000)[3] == 0
    result = np.frombuffer(real.space.read(DATA_VA, 192 * 4), np.float32)
    assert np.array_equal(result, a + b) and real.u64(DONE) == 1
    assert real.gpu.stats["instructions"] == 192 * 14


@pytest.mark.parametrize(
    ("args", "entry", "pc"),
    [
        ((UNMAPPED_VA, DATA_VA, DATA_VA), (UNMAPPED_VA, 0, 1), CODE_VA + 12 * 16),
        ((DATA_VA, UNMAPPED_VA, DATA_VA), (UNMAPPED_VA, 0, 0), CODE_VA + 5 * 16),
        ((READ_ONLY_VA, DATA_VA, DATA_VA), (READ_ONLY_VA, 6, 1), CODE_VA + 12 * 16),
    ],
)
def test_a_bad_pointer_is_an_mmu_fault_with_its_address(
    real: Bench, args: tuple[int, ...], entry: tuple[int, int, int], pc: int
) -> None:
    assert run(real, assemble(ADD, 86), *args)[1:] == (31, 1, 0xFFFF)
    assert real.gpu.faults.mmu == [entry] and real.gpu.faults.sms[0].pc == pc and real.u64(DONE) == 0


@pytest.mark.parametrize(
    ("code", "esr"),
    [
        (b"\xff" * 16, 9),
        (assemble("MOV R2, 0x1002\nLDS R4, [R2]\nEXIT", 86), 0xF),
        (assemble("MOV R2, 0x1000\nLDS R4, [R2]\nEXIT", 86), 0xE),
        (assemble("MOV R2, 0x10\nSTL [R2], R4\nEXIT", 86), 0xE),
    ],
)
def test_what_the_sm_reports(real: Bench, code: bytes, esr: int) -> None:
    assert run(real, code, shared=0x1000)[1:] == (13, 1, 0xFFFF)
    assert real.gpu.faults.sms[0].warp_esr == esr and real.u64(DONE) == 0


def test_an_endless_kernel_never_signals(real: Bench) -> None:
    assert run(real, assemble("start: BRA start", 86)) == (0, 0, 0, 0)
    assert real.u64(DONE) == 0 and "budget" in real.gpu.log[-1] and not real.gpu.run()
