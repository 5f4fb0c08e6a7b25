"""Our cubins in the eyes of others: pyelftools, and the vendor's disassembler where its package is installed."""

from __future__ import annotations

import io
import re
import subprocess

import nvdisasm
import pytest
from cubins import ABIS, cubin, kernel
from elftools.elf.elffile import ELFFile
from gen.cubin_writer import Reloc

from hcqrt.isa.sass import disassemble
from hcqrt.nv.loader import load
from hcqrt.tools.check_frame import shipped_kernel

SHIPPED = ("fill", "ids", "matmul", "saxpy", "spill", "sum", "vector_add")
SOURCE = "MOV R2, c[0x0][0x160]\nMOV R3, c[0x0][0x164]\nMOV R0, 0x1\nSTG.E [R2], R0\nEXIT"
HEADER, LABEL = re.compile(r"\.section\s+([^\s,]+),"), re.compile(r"(\.L_x_\d+):")
INSTRUCTION, TARGET = re.compile(r"\s+/\*[0-9a-f]{4}\*/\s+(.*?)\s*;"), re.compile(r"`\((\.L_x_\d+)\)")


def sample(abi: int) -> bytes:
    return cubin(
        kernel("first", SOURCE, params=(8,), shared=64, constant2=b"12345678"),
        kernel("second", params=(4, 4)),
        abi=abi,
        constant3=bytes(32),
        globals={"zeros": 100},
        initialised={"table": bytes(range(16))},
        relocs=[Reloc(".nv.global.init", 8, 4, "zeros", 4)],
    )


def read(binary: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(binary))


@pytest.mark.parametrize("abi", ABIS)
def test_pyelftools_reads_the_header(abi):
    header = read(sample(abi)).header
    assert header["e_machine"] == "EM_CUDA" or header["e_machine"] == 190
    assert header["e_type"] == "ET_EXEC"
    assert header["e_ident"]["EI_ABIVERSION"] == abi
    assert header["e_flags"] == {7: 0x00560556, 8: 0x06005604}[abi]


@pytest.mark.parametrize("abi", ABIS)
def test_pyelftools_reads_the_sections_that_the_loader_reads(abi):
    elf, image = read(sample(abi)), load(sample(abi))
    sizes = {section.name: section["sh_size"] for section in elf.iter_sections()}
    assert sizes[".nv.constant0.first"] == 0x168
    assert sizes[".nv.shared.first"] == image.pick("first").shared_static == 64
    assert sizes[".nv.global"] == 104
    for name in ("first", "second"):
        text, entry = elf.get_section_by_name(f".text.{name}"), image.pick(name).entry
        assert image.data[entry : entry + text["sh_size"]] == text.data()
        assert text["sh_addralign"] == 128
        info = elf.get_section_by_name(f".nv.info.{name}")
        assert elf.get_section(info["sh_info"]).name == f".text.{name}"
    for number, name in ((2, ".nv.constant2.first"), (3, ".nv.constant3")):
        at, nbytes = image.pick("first").banks[number]
        assert image.data[at : at + nbytes] == elf.get_section_by_name(name).data()


@pytest.mark.parametrize("abi", ABIS)
def test_pyelftools_reads_the_symbols_and_relocations(abi):
    elf, image = read(sample(abi)), load(sample(abi))
    table = elf.get_section_by_name(".symtab")
    functions = {s.name for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"}
    assert functions == set(image.kernels) == {"first", "second"}
    for position, symbol in enumerate(table.iter_symbols()):
        assert (symbol["st_info"]["bind"] == "STB_LOCAL") == (position < table["sh_info"])
    relocations = list(elf.get_section_by_name(".rela.nv.global.init").iter_relocations())
    (entry,) = relocations
    assert (entry["r_offset"], entry["r_info_type"], entry["r_addend"]) == (8, 4, 4)
    assert table.get_symbol(entry["r_info_sym"]).name == "zeros"
    assert len(image.relocations) == 1


@pytest.mark.parametrize("name", SHIPPED)
def test_pyelftools_finds_the_code_of_shipped_kernels(name):
    binary = shipped_kernel("sm_86", name)
    text, found = read(binary).get_section_by_name(f".text.{name}"), load(binary)
    entry = found.pick(name).entry
    assert found.data[entry : entry + text["sh_size"]] == text.data()


@pytest.mark.skipif(nvdisasm.find() is None, reason=f"{nvdisasm.PACKAGE} is not installed")
@pytest.mark.parametrize("abi", ABIS)
def test_the_vendors_disassembler_reads_a_made_file(abi, tmp_path):
    found = vendor_text(sample(abi), tmp_path)
    assert set(found) == {".text.first", ".text.second"}
    assert found[".text.first"][:5] == [
        "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]", "MOV R0, 0x1", "STG.E [R2], R0", "EXIT",
    ]  # fmt: skip


@pytest.mark.skipif(nvdisasm.find() is None, reason=f"{nvdisasm.PACKAGE} is not installed")
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("sm", [75, 80, 86, 90, 100, 120])
def test_the_vendors_disassembler_prints_what_ours_prints(sm, name, tmp_path):
    binary = shipped_kernel(f"sm_{sm}", name)
    theirs = vendor_text(binary, tmp_path)[f".text.{name}"]
    ours = disassemble(read(binary).get_section_by_name(f".text.{name}").data(), sm)
    assert [line.rstrip(" ;") for line in ours[: len(theirs)]] == theirs
    assert len(theirs) > 5


def vendor_text(binary: bytes, folder) -> dict[str, list[str]]:
    """Instructions by section, as the vendor's program prints them for a cubin; labels as addresses."""
    path = folder / "made.cubin"
    path.write_bytes(binary)
    command = [str(nvdisasm.find()), "--no-dataflow", "-c", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    found: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    section = ""
    for line in result.stdout.splitlines():
        if header := HEADER.search(line):
            section = header[1]
        elif label := LABEL.match(line):
            places[label[1]] = f"{16 * len(found.get(section, ())):#x}"
        elif instruction := INSTRUCTION.match(line):
            found.setdefault(section, []).append(instruction[1])
    resolve = lambda text: TARGET.sub(lambda name: places[name[1]], text)  # noqa: E731  # a callback
    return {name: [resolve(text) for text in lines] for name, lines in found.items()}
