"""Which shipped binary a chip gets: its own, or the newest of the same major version that is not newer."""

from __future__ import annotations

from importlib import resources

import pytest

from hcqrt.errors import HCQError
from hcqrt.tools.check_frame import shipped_kernel

FOLDER = resources.files("hcqrt.kernels")


@pytest.mark.parametrize(
    ("arch", "chip"),
    [
        ("sm_75", "sm_75"), ("sm_80", "sm_80"), ("sm_86", "sm_86"), ("sm_87", "sm_86"), ("sm_89", "sm_86"),
        ("sm_90", "sm_90"), ("sm_100", "sm_100"), ("sm_103", "sm_100"), ("sm_120", "sm_120"), ("sm_121", "sm_120"),
    ],
)  # fmt: skip
def test_a_chip_gets_its_own_code_or_that_of_the_next_older_minor_version(arch, chip):
    for name in ("fill", "ids", "matmul", "saxpy", "spill", "sum", "vector_add"):
        assert shipped_kernel(arch, name) == (FOLDER / f"{name}.{chip}.cubin").read_bytes()
    if chip != "sm_90":
        assert shipped_kernel(arch, "vector_add_mesa") == (FOLDER / f"vector_add_mesa.{chip}.nak").read_bytes()


@pytest.mark.parametrize(("arch", "name"), [("sm_70", "fill"), ("sm_90", "vector_add_mesa"), ("sm_86", "nothing")])
def test_what_is_not_shipped_is_named(arch, name):
    with pytest.raises(HCQError, match=rf"no kernel {name} is shipped for {arch}; scripts/gen_kernels.py"):
        shipped_kernel(arch, name)
