"""Sizes that are symbols: what is beyond the limits of a launch is refused at submission, as known sizes are before."""

from __future__ import annotations

import pytest
from clwriter import ClBinary
from ir3image import ir3_image
from words import entries

import hcqrt


@pytest.fixture
def nothing_submitted(qcom, adreno):
    """Fails the test when it submits anything."""
    qcom.synchronize()
    before = len(entries(adreno, "GPU_COMMAND"))
    assert before > 0
    yield
    assert len(entries(adreno, "GPU_COMMAND")) == before


@pytest.fixture(params=["opencl", "ir3"])
def program(request, qcom):
    loaded = qcom.program(ClBinary(name="k").build() if request.param == "opencl" else ir3_image())
    yield loaded
    loaded.close()


@pytest.mark.parametrize("bad", [0, 65536, 1 << 32, (1 << 64) - 1, -1])
def test_a_number_of_groups_out_of_limits_is_refused(qcom, program, nothing_submitted, bad):
    n = hcqrt.Variable("n", -5, (1 << 64) - 1)
    queue = qcom.compute_queue().exec(program, program.fill_kernargs([]), (1, n, 1), (1, 1, 1))
    for bound in (False, True):
        if bound:
            queue.bind(qcom)
        with pytest.raises(ValueError, match="does not fit"):
            queue.submit(qcom, {n: bad})
    queue.close()


@pytest.mark.parametrize("sizes", [(1024, 2), (33, 32), (1024, 1024)])
def test_too_many_threads_together_are_refused(qcom, program, nothing_submitted, sizes):
    x, y = hcqrt.Variable("x", 1, 1024), hcqrt.Variable("y", 1, 1024)
    queue = qcom.compute_queue().exec(program, program.fill_kernargs([]), (1, 1, 1), (x, y, 1))
    with pytest.raises(ValueError, match="does not fit"):
        queue.submit(qcom, dict(zip((x, y), sizes, strict=True)))
