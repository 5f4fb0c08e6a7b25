"""Method headers and the host semaphore's execute word: what all NVIDIA queues are made of."""

from __future__ import annotations

import functools

from hcqrt.bits import BitStruct, Field

# clc56f.h, NVC56F_DMA_SEC_OP
INCR, NON_INCR, IMMD, ONE_INCR = 1, 3, 4, 5
COUNT_MAX = (1 << 13) - 1

HOST, COMPUTE, COPY = 0, 1, 4  # subchannels; host methods ignore theirs (nv-engine facts 1.2)


class DmaMethod(BitStruct):
    """A method header. Source: clc56f.h, NVC56F_DMA_METHOD_ADDRESS, _SUBCHANNEL, _COUNT, _SEC_OP."""

    address = Field(11, 0)  # method offset in words
    subchannel = Field(15, 13)
    count = Field(28, 16)  # data words, or the data of an immediate method
    sec_op = Field(31, 29)


class SemExecute(BitStruct):
    """Source: clc56f.h, NVC56F_SEM_EXECUTE."""

    operation = Field(2, 0)
    acquire_switch_tsg = Field(12)
    release_wfi = Field(20)
    payload_size = Field(24)  # 0: 32 bits, 1: 64 bits
    release_timestamp = Field(25)
    reduction = Field(30, 27)
    reduction_format = Field(31)


@functools.cache
def header(subchannel: int, offset: int, count: int, sec_op: int = INCR) -> int:
    """Header of `count` data words (or `count` as the data, for IMMD) to the method at byte `offset`."""
    if offset % 4:
        raise ValueError(f"method {offset:#x} is not word aligned")
    return int(DmaMethod(address=offset >> 2, subchannel=subchannel, count=count, sec_op=sec_op))


def method_count(word: int) -> int:
    """How many data words follow this header."""
    return 0 if word >> 29 == IMMD else word >> 16 & COUNT_MAX


# NVC56F_SEM_EXECUTE_OPERATION: RELEASE 1, ACQ_CIRC_GEQ 3. A wait lets other groups run meanwhile (SWITCH_TSG).
ACQUIRE_GEQ = int(SemExecute(operation=3, acquire_switch_tsg=1, payload_size=1))
RELEASE = int(SemExecute(operation=1, release_wfi=1, payload_size=1))
RELEASE_TIMESTAMP = int(SemExecute(operation=1, release_wfi=1, payload_size=1, release_timestamp=1))
