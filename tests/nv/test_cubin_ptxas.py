"""What the vendor's assembler writes for each chip, read by our loader: where ptxas is installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from hcqrt.core.program import Param
from hcqrt.errors import BinaryError
from hcqrt.nv.arch import CHIPS
from hcqrt.nv.image import Image
from hcqrt.nv.loader import load

PTXAS = shutil.which("ptxas")
CHIP_NAMES = list(CHIPS)
PARAM_BASE = {75: 0x160, 80: 0x160, 86: 0x160, 87: 0x160, 89: 0x160, 90: 0x210}  # later: 0x380
HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"
MODULE = """
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.visible .entry plain(.param .u64 a, .param .u64 b, .param .u32 n) {
  .reg .b64 x; .reg .b32 y; ld.param.u64 x, [a]; ld.param.u32 y, [n]; st.global.u32 [x], y; ret; }
.visible .entry mixed(.param .u8 a, .param .u16 b, .param .align 8 .b8 c[84], .param .u64 d) {
  .reg .b64 x; .reg .b16 y; ld.param.u64 x, [d]; ld.param.u16 y, [b]; st.global.u16 [x], y; ret; }
.visible .entry tile(.param .u64 a) {
  .shared .align 4 .b8 s[1200]; .reg .b64 x; .reg .b32 y, t; ld.param.u64 x, [a]; mov.u32 t, %tid.x; mov.u32 y, s;
  st.shared.u32 [y], t; bar.sync 0; ld.shared.u32 t, [y]; st.global.u32 [x], t; ret; }
.visible .entry bars() { bar.sync 3; bar.sync 5; ret; }
.visible .entry anybar(.param .u32 n) { .reg .b32 y; ld.param.u32 y, [n]; bar.sync y; ret; }
.visible .entry bounded() .maxntid 256, 1, 1 { ret; }
.visible .entry fixed() .reqntid 16, 4, 1 { ret; }
.visible .entry stack(.param .u64 a, .param .u32 n) {
  .local .align 4 .b8 l[800]; .reg .b64 x, p, q; .reg .b32 m, t; ld.param.u32 m, [n]; ld.param.u64 x, [a];
  cvt.u64.u32 p, m; mov.u64 q, l; add.u64 q, q, p; st.local.u32 [q], m; ld.local.u32 t, [l+4];
  st.global.u32 [x], t; ret; }
.visible .entry prints(.param .u64 a) {
  .reg .b64 x; .reg .b32 y; ld.param.u64 x, [a];
  { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], x; st.param.b64 [q], x;
    call.uni (r), vprintf, (p, q); ld.param.b32 y, [r]; }
  ret; }
"""
TENSOR_MEMORY = """
.visible .entry tmem(.param .u64 p) {
  .reg .b64 a; .reg .b32 x; .shared .align 8 .b32 s; ld.param.u64 a, [p]; mov.u32 x, s;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [x], 64; ld.shared.u32 x, [s];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 x, 64; st.global.u32 [a], x; ret; }
"""
CLUSTER = ".visible .entry pair() .reqnctapercluster 2, 1, 1 { ret; }"

pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")


def assembled(text: str, target: str, folder: Path) -> Image:
    source, output = folder / "source.ptx", folder / "output.cubin"
    source.write_text(HEAD.format(target=target) + text)
    subprocess.run([str(PTXAS), f"-arch={target}", str(source), "-o", str(output)], check=True, timeout=60)
    return load(output.read_bytes())


@pytest.fixture(scope="module")
def image_of(tmp_path_factory):
    """The module for a chip, assembled once."""
    return cache(lambda chip: assembled(MODULE, chip, tmp_path_factory.mktemp(chip)))


@pytest.mark.parametrize("chip", CHIP_NAMES)
def test_registers_barriers_shared_memory_and_stack(image_of, chip):
    image = image_of(chip)
    assert (image.sm, image.variant) == (CHIPS[chip].sm, "")
    found = {name: kernel for name, kernel in image.kernels.items() if name != "prints"}
    assert {name: kernel.barriers for name, kernel in found.items()} == {
        "plain": 0, "mixed": 0, "tile": 1, "bars": 6, "anybar": 16, "bounded": 0, "fixed": 0, "stack": 0,
    }  # fmt: skip
    assert {name for name, kernel in found.items() if kernel.shared_static} == {"tile"}
    assert found["tile"].shared_static == 1200
    assert found["stack"].local_high == 800 + 0x240
    assert all(kernel.local_low == 0 for kernel in found.values())
    assert all(4 <= kernel.registers <= 32 for kernel in found.values())
    assert (found["bounded"].max_threads, found["bounded"].required_block) == (256, None)
    assert (found["fixed"].max_threads, found["fixed"].required_block) == (64, (16, 4, 1))


@pytest.mark.parametrize("chip", CHIP_NAMES)
def test_field_report_23_parameters_start_where_the_file_says(image_of, chip):
    image = image_of(chip)
    base = PARAM_BASE.get(image.sm, 0x380)
    assert {kernel.param_base for kernel in image.kernels.values()} == {base}
    assert CHIPS[chip].driver_area_bytes <= base
    assert image.kernels["plain"].params == (Param(0, 8), Param(8, 8), Param(16, 4))
    assert image.kernels["mixed"].params == (Param(0, 1), Param(2, 2), Param(8, 84), Param(96, 8))
    assert (image.kernels["bars"].params, image.kernels["bars"].param_bytes) == ((), 0)


@pytest.mark.parametrize("chip", CHIP_NAMES)
def test_field_report_23_what_calls_the_vendors_driver_is_refused_by_name(image_of, chip):
    with pytest.raises(BinaryError, match="prints needs vprintf"):
        image_of(chip).pick("prints")
    assert image_of(chip).pick("plain").name == "plain"


@pytest.mark.parametrize(
    ("text", "target", "variant"),
    [("plain", "sm_90a", "a"), ("plain", "sm_100a", "a"), ("plain", "sm_120a", "a"), ("plain", "sm_100f", ""),
     ("tmem", "sm_100a", "a"), ("tmem", "sm_100f", "f"), ("tmem", "sm_103f", "f")],
)  # fmt: skip
def test_field_report_22_variants(tmp_path, text, target, variant):
    """A family target's code that uses nothing of the family is as the plain target's, and runs where that does."""
    image = assembled(MODULE if text == "plain" else TENSOR_MEMORY, target, tmp_path)
    assert (f"sm_{image.sm}", image.variant) == (target.rstrip("af"), variant)


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_a_kernel_in_clusters_is_refused(tmp_path, target):
    with pytest.raises(BinaryError, match="kernel pair: it launches in clusters"):
        assembled(CLUSTER, target, tmp_path).pick("pair")
