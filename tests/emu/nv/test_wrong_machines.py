"""Machines that cannot be: the error names what was asked for, and what may be."""

from __future__ import annotations

import pytest

from hcqrt.emu import EmulatedSystem


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"tpcs": 0}, "tpcs=0 is not positive"),
        ({"uuid": "x"}, "uuid 'x': say GPU- and 32 hexadecimal digits"),
        ({"uuid": "GPU-00"}, "uuid 'GPU-00': 1 bytes, a GPU's has 16"),
    ],
)
def test_boards_that_cannot_be(entry, text):
    with pytest.raises(ValueError, match=text):
        EmulatedSystem(nv=[{"chip": "sm_90", **entry}])


@pytest.mark.parametrize("text", ["x", "0", "-1", "1.5"])
def test_a_number_of_threads_that_is_none(monkeypatch, text):
    monkeypatch.setenv("HCQRT_EMU_THREADS", text)
    with pytest.raises(ValueError, match=f"HCQRT_EMU_THREADS='{text}'"):
        EmulatedSystem(nv=["sm_86"])
