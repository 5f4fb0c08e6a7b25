"""NAK shaders: the metadata block is read as Mesa lays it out, and damage is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cubins import EXIT

from hcqrt.decode.qmd import decode_qmd
from hcqrt.errors import BinaryError, LaunchError
from hcqrt.nv.loader import load
from hcqrt.nv.nak import looks_like_nak
from hcqrt.tools.check_frame import shipped_kernel

FIELDS = {  # name -> (offset, struct format). Source: nv-engine facts 13
    "stage": (0, "I"), "sm": (4, "B"), "gprs": (5, "B"), "barriers": (6, "B"), "instructions": (12, "I"),
    "scratch": (36, "I"), "crs": (40, "I"), "block": (44, "3H"), "shared": (50, "H"),
}  # fmt: skip
PLAIN = {
    "stage": 5, "sm": 86, "gprs": 19, "barriers": 0, "instructions": 1, "scratch": 0, "crs": 0, "block": (32, 1, 1),
    "shared": 0,
}  # fmt: skip


def blob(code: bytes = EXIT, **changes) -> bytes:
    data = bytearray(728)
    for name, value in {**PLAIN, "instructions": len(code) // 16, **changes}.items():
        offset, form = FIELDS[name]
        struct.pack_into(f"<{form}", data, offset, *(value if isinstance(value, tuple) else (value,)))
    return bytes(data) + code


def test_the_metadata_is_what_a_launch_uses():
    found = load(blob(gprs=37, barriers=1, scratch=136, block=(8, 4, 2), shared=1000), "mine").pick("mine")
    assert (found.registers, found.barriers, found.shared_static) == (37, 1, 1000)
    assert (found.local_low, found.local_high) == (144, 0)
    assert (found.required_block, found.max_threads, found.param_base) == ((8, 4, 2), 64, 0)
    assert (found.driver_area, found.shared_in_abi, found.params, found.entry) == (False, False, None, 0)


def test_the_code_follows_with_room_for_the_prefetch():
    image = load(blob(EXIT * 3))
    assert image.data == EXIT * 3 + bytes(4096)
    assert list(image.kernels) == ["main"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stage": 4}, "stage 4: only compute"),
        ({"sm": 90}, "sm_90: this compiler emits sm_8x code"),
        ({"crs": 16}, "16 bytes of call stack"),
        ({"block": (0, 1, 1)}, r"block size \(0, 1, 1\)"),
        ({"block": (1024, 2, 1)}, r"block size \(1024, 2, 1\)"),
        ({"gprs": 0}, "0 registers"),
        ({"barriers": 17}, "17 barriers"),
        ({"scratch": 0xFFFFFFFF}, "4294967295 bytes of scratch"),
        ({"instructions": 2}, "neither a cubin nor a NAK shader"),
        ({"sm": 60}, "neither a cubin nor a NAK shader"),
        ({"stage": 77}, "neither a cubin nor a NAK shader"),
    ],
)
def test_damaged_metadata_is_refused(changes, text):
    with pytest.raises(BinaryError, match=text):
        load(blob(**changes))


def test_a_shader_cut_short_or_with_a_tail_is_not_taken_for_one():
    whole = blob(EXIT * 8)
    assert looks_like_nak(whole)
    for other in (whole[:-1], whole[:-16], whole + bytes(16), whole[:728], whole[:100]):
        assert not looks_like_nak(other)


def test_another_architecture_is_refused(dev):
    with pytest.raises(BinaryError, match="built for sm_120, this GPU is sm_86"):
        dev.program(blob(sm=120))


def test_the_block_size_is_the_compiled_one(dev, system):
    prg = dev.program(blob(block=(16, 2, 1)), "named")
    doorbells = system.stats()["doorbells"]
    with pytest.raises(LaunchError, match=r"named: compiled for local_size \(16, 2, 1\), \(32, 1, 1\) was given"):
        prg(local_size=(32, 1, 1))
    with pytest.raises(LaunchError, match="dynamic_shared must be 0"):
        prg(local_size=(16, 2, 1), dynamic_shared=16)
    assert system.stats()["doorbells"] == doorbells
    prg(local_size=(16, 2, 1))
    dev.synchronize()


def test_scratch_is_low_memory_and_shared_memory_has_no_reserve(dev):
    prg = dev.program(blob(scratch=136, shared=1000, barriers=1))
    qmd = decode_qmd(prg.template((1, 1, 1), (32, 1, 1), 0).data)
    assert qmd["SHADER_LOCAL_MEMORY_LOW_SIZE"] == 144
    assert "SHADER_LOCAL_MEMORY_HIGH_SIZE" not in qmd
    assert qmd["SHARED_MEMORY_SIZE"] == 1024  # 1000 in steps of 128
    assert qmd["BARRIER_COUNT"] == 1


def test_more_arguments_than_the_bank_has_room_for_are_refused(dev, system):
    prg = dev.program(blob())
    buf, doorbells = dev.alloc(16), system.stats()["doorbells"]
    for launch in (lambda: prg(*[buf] * 129, local_size=(32, 1, 1)), lambda: prg.fill_kernargs([buf] * 129)):
        with pytest.raises(LaunchError, match="1032 bytes of arguments, it takes at most 1024"):
            launch()
    assert system.stats()["doorbells"] == doorbells


def test_the_shipped_shader_adds(dev):
    prg = dev.program(shipped_kernel("sm_86", "vector_add_mesa"))
    count, threads = 1024, prg.resources.max_threads
    a, b = np.arange(count, dtype=np.float32), np.full(count, 0.5, np.float32)
    out, left, right = (dev.alloc(4 * count) for _ in range(3))
    left.copyin(a)
    right.copyin(b)
    prg(out, left, right, global_size=(count // (4 * threads), 1, 1), local_size=(threads, 1, 1))
    assert np.array_equal(np.frombuffer(out.copyout(), np.float32), a + b)
