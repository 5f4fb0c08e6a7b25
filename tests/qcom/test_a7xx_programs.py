"""Which program files an Adreno 7xx takes: ir3 shaders compiled for it, whose end tells them from those for 6xx."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from clwriter import ClBinary
from ir3image import ir3_image
from nak_corpus import missing_packages

from hcqrt.errors import BinaryError
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.arch.a7xx import A7XX
from hcqrt.qcom.loader import load
from hcqrt.tools.check_frame import shipped_kernel

WORKER = Path(__file__).with_name("ir3_chips_worker.py")
KERNELS = Path(__file__).resolve().parents[2] / "hcqrt" / "kernels"
# (sy)(ss)(jp)lock; unlock; end: as cffdump prints these words for an A750
LOCK, UNLOCK, END = 0xFBC2_1000_0000_0000, 0xE3CA_0000_0000_0000, 0x0300_0000_0000_0000


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}Q", *words).ljust(256, b"\0")


def words_of(image: bytes, arch) -> list[int]:
    return [word for (word,) in struct.iter_unpack("<Q", load(image, None, arch).code)]


@pytest.mark.parametrize("flags", [0, 1 << 60, 1 << 59, 1 << 44, 1 << 60 | 1 << 59 | 1 << 44])
def test_an_end_with_lock_and_unlock_is_one_of_7xx(flags):
    image = ir3_image(code(0, LOCK & ~(1 << 60 | 1 << 59 | 1 << 44) | flags, UNLOCK, END))
    assert load(image, None, A7XX).code
    with pytest.raises(BinaryError, match=r"compiled for Adreno 7xx: it ends with lock.*this GPU is an a6xx.*Compile"):
        load(image, None, A6XX)


@pytest.mark.parametrize(
    "words", [(END,), (0, END), (LOCK, END), (UNLOCK, END), (LOCK, 0, UNLOCK, END), (LOCK, UNLOCK)]
)
def test_any_other_end_is_one_of_6xx(words):
    image = ir3_image(code(*words))
    assert load(image, None, A6XX).code
    with pytest.raises(BinaryError, match=r"compiled for Adreno 6xx: it does not end with lock.*this GPU is an a7xx"):
        load(image, None, A7XX)


def test_more_constants_fit_on_7xx():
    image = ir3_image(code(LOCK, UNLOCK, END), constlen=512)
    assert load(image, None, A7XX).constlen == 512
    with pytest.raises(BinaryError, match="constlen is 512, it can be 0 to 256"):
        load(image, None, A6XX)
    with pytest.raises(BinaryError, match="constlen is 516, it can be 0 to 512"):
        load(ir3_image(code(LOCK, UNLOCK, END), constlen=516), None, A7XX)


def test_opencl_binaries_are_known_for_6xx_alone():
    binary = ClBinary().build()
    assert load(binary, "kernel", A6XX).opencl_launch
    with pytest.raises(BinaryError, match=r"OpenCL binary.*Adreno 6xx alone, this GPU is an a7xx.*Mesa's ir3"):
        load(binary, "kernel", A7XX)


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.a630.ir3")), ids=lambda path: path.name.split(".")[0])
def test_shipped_kernels_exist_for_both_generations_and_do_not_mix(path):
    name = path.name.split(".")[0]
    for_6xx, for_7xx = path.read_bytes(), shipped_kernel("a750", name)
    assert words_of(for_7xx, A7XX).count(UNLOCK) == 1
    for image, arch in ((for_6xx, A7XX), (for_7xx, A6XX)):
        with pytest.raises(BinaryError, match="compiled for Adreno"):
            load(image, None, arch)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, list[bytes]]:
    """Chip -> images of some kernels, by Mesa's compiler."""
    if missing_packages():
        pytest.skip(f"no Mesa compiler: {', '.join(missing_packages())} missing")
    target = tmp_path_factory.mktemp("ir3") / "images"
    subprocess.run([sys.executable, str(WORKER), str(target)], check=True, capture_output=True, timeout=120)
    images: dict[str, list[bytes]] = pickle.loads(target.read_bytes())
    return images


@pytest.mark.parametrize("chip", ["a630", "a660", "a730", "a740", "a750"])
def test_what_mesa_compiles_loads_on_the_generation_it_is_for_alone(compiled, chip):
    own, other = (A7XX, A6XX) if chip.startswith("a7") else (A6XX, A7XX)
    assert len(compiled[chip]) > 30
    for image in compiled[chip]:
        shader = load(image, None, own)
        assert shader.driver_params is None or shader.driver_params.nbytes == 64
        with pytest.raises(BinaryError, match="compiled for Adreno"):
            load(image, None, other)
