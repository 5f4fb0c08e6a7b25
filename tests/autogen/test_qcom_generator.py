"""Parts of scripts/gen_kgsl.py on small headers, what all generators do with their texts, and the committed tables."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import gen_adreno
import gen_kgsl
import pytest
import qcom_facts
from gen.clang import GeneratorError, unusable
from gen.emit import literal
from gen.kgsl import Header, consts_text, ioctls_text, structs_text, unsigned
from gen.output import finish, manifest_text, mesa_version

needs_libclang = pytest.mark.skipif(bool(unusable()), reason=f"needs the extra `gen`: {unusable()}")

KGSL = """
#include <linux/types.h>
#include <linux/ioctl.h>
#define KGSL_IOC_TYPE 0x09
#define KGSL_TOP (1 << 31U)
#define KGSL_WIDE (1ULL << 35)
#define KGSL_ALIAS KGSL_WIDE
#define KGSL_MAKE(x) ((x) + 1)
enum kgsl_kind { KGSL_KIND_A = 3, KGSL_KIND_B };
struct kgsl_inner { __u64 __user list; unsigned int count; };
struct kgsl_sample { unsigned int type; void __user *value; __kernel_size_t size; char name[5]; };
#define IOCTL_KGSL_SAMPLE \\
\t_IOWR(KGSL_IOC_TYPE, 0x41, struct kgsl_sample)
#define IOCTL_KGSL_SAMPLE_OLD _IOR(KGSL_IOC_TYPE, 0x41, struct kgsl_inner)
#define IOCTL_KGSL_WORD _IOW(KGSL_IOC_TYPE, 0x42, __u32)
"""


def read_kgsl(tmp_path: Path, text: str) -> Header:
    path = tmp_path / "msm_kgsl.h"
    path.write_text(text)
    return Header(path, tmp_path / "scratch")


@needs_libclang
def test_kgsl_header_is_read(tmp_path: Path) -> None:
    header = read_kgsl(tmp_path, KGSL)
    assert header.consts == {
        "KGSL_IOC_TYPE": 9, "KGSL_TOP": 1 << 31, "KGSL_WIDE": 1 << 35, "KGSL_ALIAS": 1 << 35,
        "KGSL_KIND_A": 3, "KGSL_KIND_B": 4,
    }  # fmt: skip
    assert [(call.name, call.request, call.record) for call in header.calls] == [
        ("IOCTL_KGSL_SAMPLE", 0xC0200941, "kgsl_sample"),
        ("IOCTL_KGSL_SAMPLE_OLD", 0x80100941, "kgsl_inner"),
        ("IOCTL_KGSL_WORD", 0x40040942, "kgsl_u32"),
    ]
    structs: dict[str, Any] = {}
    exec(structs_text(header, ["somewhere"]), structs)
    sample = structs["kgsl_sample"]
    assert ctypes.sizeof(sample) == 32
    assert [(n, getattr(sample, n).offset) for n in ("type", "value", "size", "name")] == [
        ("type", 0), ("value", 8), ("size", 16), ("name", 24),
    ]  # fmt: skip
    assert dict(sample._fields_)["value"] is ctypes.c_uint64
    consts: dict[str, Any] = {}
    exec(consts_text(header, ["somewhere"]), consts)
    assert consts["KGSL_WIDE"] == 1 << 35
    text = ioctls_text(header, ["somewhere"])
    assert 'SAMPLE = Ioctl("IOCTL_KGSL_SAMPLE", 0xC0200941, kgsl_sample)\n' in text
    assert text.endswith("IOCTLS: dict[int, Ioctl] = {\n    0x41: SAMPLE,\n    0x42: WORD,\n}\n")


@needs_libclang
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("#define IOCTL_KGSL_ODD 0x1234\n", "IOCTL_KGSL_ODD is no ioctl of one record"),
        ('#define KGSL_TEXT "words"\n', "this generator knows: KGSL_TEXT"),
        ("struct kgsl_broken { missing_t x; };\n", "do not parse"),
    ],
)
def test_kgsl_header_that_is_not_understood_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(GeneratorError, match=message):
        read_kgsl(tmp_path, KGSL + more)


@needs_libclang
def test_two_calls_of_one_number_are_refused(tmp_path: Path) -> None:
    header = read_kgsl(tmp_path, KGSL + "#define IOCTL_KGSL_TWIN _IOW(KGSL_IOC_TYPE, 0x42, __u32)\n")
    with pytest.raises(GeneratorError, match="IOCTL_KGSL_WORD has the number of TWIN"):
        ioctls_text(header, ["somewhere"])


def test_constants_are_unsigned() -> None:
    assert [unsigned(v) for v in (0, 1 << 63, -(1 << 31), -1)] == [0, 1 << 63, 0x80000000, 0xFFFFFFFF]
    for bad in (-(1 << 31) - 1, (7, 0), None):
        with pytest.raises(GeneratorError):
            unsigned(bad)


def test_literal_of_names() -> None:
    assert [literal(v) for v in (("a",), ("a", "b"))] == ['("a",)', '("a", "b")']


def test_manifest_keeps_other_entries(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST.json").write_text('{"other": {"x": 1}, "mine": 2}')
    assert manifest_text(tmp_path, "mine", {"y": 3}) == ('{\n "mine": {\n  "y": 3\n },\n "other": {\n  "x": 1\n }\n}\n')


def test_check_writes_nothing_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"qcom/a.py": "X = 1\n"}
    assert finish("gen_x", tmp_path, "qcom/*.py", True, lambda: texts) == 1
    assert capsys.readouterr().out == "qcom/a.py: missing\n"
    assert finish("gen_x", tmp_path, "qcom/*.py", False, lambda: texts) == 0
    assert finish("gen_x", tmp_path, "qcom/*.py", True, lambda: texts) == 0
    assert capsys.readouterr().out == "1 files are current\n"


@pytest.mark.parametrize("script", [gen_adreno, gen_kgsl])
def test_tree_that_is_not_mesas_is_refused(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--mesa", str(tmp_path), "--check"]) == 2
    assert "is no source tree of Mesa" in capsys.readouterr().err
    (tmp_path / "VERSION").write_text("9.9.9\n")
    assert mesa_version(tmp_path) == "9.9.9"


@needs_libclang
@pytest.mark.skipif(not qcom_facts.MESA, reason=qcom_facts.NO_MESA)
def test_committed_kgsl_tables_are_what_the_tree_gives() -> None:
    assert gen_kgsl.main(["--mesa", str(qcom_facts.MESA), "--check"]) == 0
