"""What the newer generations' own instructions do: run on the engine in their own encoding."""

from __future__ import annotations

import numpy as np
import pytest
from cores import CORES, execute
from nak import CODE_VA, ArrayMemory

from hcqrt.emu.engine.launch import Launch
from hcqrt.isa.sass import assemble

CODE = """
    S2R R0, SR_LANEID
    LDC.64 R2, c[0x0][0x0]
    IMAD.WIDE.U32 R2, R0, 0x4, R2
    {lines}
    STG.E [R2], R4
    EXIT
"""


def lanes(sm: int, lines: str, core: str) -> np.ndarray:
    """R4 of each lane after `lines`, signed; R0 is the lane, R2:R3 the address of its word."""
    code, out = assemble(CODE.format(lines="\n".join(lines.split("; "))), sm), np.full(32, 7, np.int32)
    memory = ArrayMemory([out])
    bank = np.array([*memory.addresses, 0], np.uint64)
    result = execute(
        Launch(
            fetch=lambda va, nbytes: code[va - CODE_VA : va - CODE_VA + nbytes],
            entry_va=CODE_VA,
            memory=memory,
            grid=(1, 1, 1),
            block=(32, 1, 1),
            sm=sm,
            registers=32,
            constants={0: (bank.ctypes.data, bank.nbytes)},
        ),
        core,
    )
    assert result.fault is None, result.fault
    return out


LANE = np.arange(32)
CASES = [
    (90, "VIADD R4, R0, 0xfffffff6", LANE - 10),
    (100, "VIADD R4, R0, -R0", LANE * 0),
    (90, "VIADD R5, R0, 0xfffffff6; VIMNMX R4, R5, 0x3, PT", np.minimum(LANE - 10, 3)),
    (100, "VIADD R5, R0, 0xfffffff6; VIMNMX.U32 R4, R5, 0x3, PT", np.where(LANE < 10, 3, np.minimum(LANE - 10, 3))),
    (120, "IADD3 R5, R0, -0xa, RZ; VIMNMX.S32 R4, R5, 0x3, !PT", np.maximum(LANE - 10, 3)),
    (120, "IADD3 R5, R0, -0xa, RZ; IMNMX R4, R5, 0x3, !PT", np.maximum(LANE - 10, 3)),
    (100, "LDCU UR200, c[0x0][URZ]; R2UR UR100, R2; IADD3 R4, R2, -UR100, RZ", LANE * 4),
    (120, "BRA over; MOV R4, 0x1; over: MOV R4, 0x2", LANE * 0 + 2),
    (90, "R2UR UR5, R0; MOV R4, UR5", LANE * 0),
    (75, "LDG.E R4, [R2]; IADD3 R4, R4, 0x1, RZ", LANE * 0 + 8),
    (90, "REDG.E.ADD.STRONG.GPU [R2], R0; LDG.E R4, [R2]", LANE + 7),
    (100, "ATOMG.E.ADD.STRONG.GPU PT, R5, [R2], R0; LDG.E R4, [R2]", LANE + 7),
    (120, "UMOV UR6, 0x0; UMOV UR7, 0x0; ATOMG.E.MAX.S32.STRONG.GPU PT, R4, [R2.64+UR6], R0", LANE * 0 + 7),
]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("sm", "lines", "wanted"), CASES, ids=[f"{sm}-{lines.split(' ')[0]}" for sm, lines, _ in CASES]
)
def test_results_in_the_chips_own_encoding(sm, lines, wanted, core):
    assert lanes(sm, lines, core).tolist() == wanted.tolist()
