"""The dispatch against the facts' worked one, word for word, and every field that other inputs change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hcqrt.qcom.arch import chip_for
from hcqrt.qcom.arch.a6xx import A630, A640, A650, A660, A690, CHIPS
from hcqrt.qcom.dispatch import Place, Shape, dispatch
from hcqrt.qcom.shader import Shader

# qcom facts 3.3: out[i] = in[i] + 5 on 2 groups of 64, code, constants and signal where the facts put them
WORKED = """
70E50001 00000008
40BB0801 00000060
40AB0001 00000005
48AE0401 00000000
40AE0F01 00000020
40B30901 00000002
40B60001 00108000
70268000
40B98701 00000101
48A9BB02 00000100 00000001
40A9B08A 00000180 00000001 00000000 00000000 00010000 00000010 00000000 00000000 00000000 00000000
48A9BD01 00000000
40B9908C 000000FF 00000080 00000000 00000001 00000000 00000001 00000000 00FCFCC0 000000FC 00000001 00000001 00000001
70348003 00764000 00020000 00000010
70348003 00760000 00010000 00000010
70B30004 00000000 00000002 00000001 00000001
70268000
70460004 00000004 00050000 00000010 00000001
"""
SHADER = Shader(
    name="add_five",
    code=bytes(256),
    instrlen=1,
    entry=0,
    full_regs=3,
    half_regs=0,
    branch_stack=0,
    constlen=4,
    arguments=None,
    ranges=(),
    group_id=0xC0,
    local_id=0x00,
)
CODE, CONSTANTS, SIGNAL = 0x10_0001_0000, 0x10_0002_0000, 0x10_0005_0000
TABLES = dict(border=0x10_0006_0000, samplers=0x10_0006_1000, textures=0x10_0006_2000, images=0x10_0006_3000)


def words_of(chip=A630, shader=SHADER, groups=(2, 1, 1), local=(64, 1, 1), shared=0, private=0):
    place = Place(code=CODE, private=private, constants=((CONSTANTS, 0, 1),), **TABLES)
    layout = chip.private_layout(shader.private_bytes)
    return dispatch(chip, shader, Shape(groups, local, shared), place, layout)


def registers(words):
    """Register offset -> value, and (opcode, payload) of the commands, read without the encoder."""
    found, commands, at = {}, [], 0
    while at < len(words):
        header = words[at]
        if header >> 28 == 4:
            count = header & 0x7F
            for index in range(count):
                found[(header >> 8 & 0x3FFFF) + index] = words[at + 1 + index]
        else:
            count = header & 0x3FFF
            commands.append((header >> 16 & 0x7F, words[at + 1 : at + 1 + count]))
        at += 1 + count
    return found, commands


def test_the_worked_dispatch_word_for_word():
    expected = [int(word, 16) for word in WORKED.split()]
    assert words_of() + A630.arch.events.release(SIGNAL, 1) == expected
    assert len(expected) == 65


def test_an_opencl_launch_writes_the_real_counts_and_runs_by_registers():
    shader = replace(
        SHADER, opencl_launch=True, isam_cl=True, constant_demotion=False, group_id=0xCF, group_size=0xC0,
        group_offset=0xCC, constlen=256,
    )  # fmt: skip
    found, commands = registers(words_of(shader=shader, groups=(5, 4, 3), local=(8, 4, 2)))
    assert [found[0xB999 + axis] for axis in range(3)] == [5, 4, 3]
    assert [found[0xB990 + index] for index in range(7)] == [3 | 7 << 2 | 3 << 12 | 1 << 22, 40, 0, 16, 0, 6, 0]
    assert found[0xB997] == 0x00CCC0CF  # qcom facts 3, item 6
    assert (found[0xAB00], found[0xB309]) == (1 << 1, 1)  # ISAM CL, demotion off
    assert found[0xB987] == 256 >> 2 | 1 << 8
    assert found[0xA9B1] >> 5 & 3 == 2  # constant memory of 256
    assert commands[-1] == (0x31, [0])


def test_registers_half_registers_branches_and_wave_size():
    shader = replace(
        SHADER, full_regs=12, half_regs=7, branch_stack=5, double_threads=True, merged_regs=True, early_preamble=True,
        entry=0x40,
    )  # fmt: skip
    found, _ = registers(words_of(shader=shader))
    assert found[0xA9B0] == 7 << 1 | 12 << 7 | 5 << 14 | 1 << 20 | 1 << 23 | 1 << 31
    assert found[0xB998] == 0xFC | 1 << 9
    assert found[0xA9B3] == 0x40


@pytest.mark.parametrize(
    ("nbytes", "field"), [(0, 1), (1, 1), (1024, 1), (2048, 1), (2049, 2), (3072, 2), (16384, 15), (32768, 31)]
)
def test_shared_memory_enables_one_kib_more_than_the_field(nbytes, field):
    """max(1, (bytes - 1) // 1024) enables field + 1 KiB: qcom facts 3, item 8."""
    found, _ = registers(words_of(shared=nbytes))
    assert found[0xA9B1] & 0x1F == field
    assert (field + 1) * 1024 >= nbytes


@pytest.mark.parametrize(("constlen", "mode"), [(4, 0), (128, 0), (132, 1), (192, 1), (196, 2), (256, 2)])
def test_constant_memory_is_the_smallest_that_holds_the_constants(constlen, mode):
    found, _ = registers(words_of(shader=replace(SHADER, constlen=constlen)))
    assert found[0xA9B1] >> 5 & 3 == mode
    assert found[0xB987] & 0xFF == constlen // 4


@pytest.mark.parametrize("chip", [A630, A640, A650, A660, A690], ids=lambda chip: chip.name)
@pytest.mark.parametrize(("asked", "per_fibre"), [(1, 512), (512, 512), (513, 1024), (1537, 2048), (65536, 65536)])
def test_private_memory_and_hardware_stack(chip, asked, per_fibre):
    """qcom facts 3, item 9: sizes by the chip's fibres and processors; the stack's offset in units of 2 KiB."""
    fibres = {"a630": 2048, "a640": 8192, "a650": 4096, "a660": 4096, "a690": 4096}[chip.name]
    sps = {"a630": 2, "a640": 2, "a650": 3, "a660": 3, "a690": 8}[chip.name]
    layout = chip.private_layout(asked)
    assert (layout.per_fibre, layout.per_sp, layout.total) == (per_fibre, per_fibre * fibres, per_fibre * fibres * sps)
    if per_fibre * fibres >> 12 >= 1 << 18:
        with pytest.raises(ValueError, match="TOTALPVTMEMSIZE"):
            words_of(chip=chip, shader=replace(SHADER, private_bytes=asked), private=0x20_0000_0000)
        return
    for per_wave in (False, True):
        shader = replace(SHADER, private_bytes=asked, private_per_wave=per_wave)
        found, _ = registers(words_of(chip=chip, shader=shader, private=0x20_0000_0000))
        assert found[0xA9B6] == per_fibre // 512
        assert (found[0xA9B7], found[0xA9B8]) == (0, 0x20)
        assert found[0xA9B9] == per_fibre * fibres // 4096 | int(per_wave) << 31
        assert found[0xA9BD] == per_fibre * fibres // 2048


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_chips_differ_in_the_texture_register_the_preload_and_the_second_pipe(chip):
    shader = replace(SHADER, instrlen=200)
    found, commands = registers(words_of(chip=chip, shader=shader))
    table = {"a630": 0x108000, "a640": 0x8000, "a650": 0x1008000, "a660": 0x5008000, "a690": 0x4C00000}
    units = {"a630": 64, "a640": 64, "a650": 127, "a660": 127, "a690": 127}
    assert found[0xB600] == table.get(chip.name, chip.tpl1_dbg_eco_cntl)
    assert chip.icache_units == units.get(chip.name, chip.icache_units)
    assert chip.lpac == (chip.name in ("a635", "a660", "a662", "a663", "a690"))
    code = [data for opcode, data in commands if opcode == 0x34 and data[0] & 0x3F_C000 == 13 << 18 | 2 << 16]
    assert [data[0] >> 22 for data in code] == [chip.icache_units]
    assert found[0xA9BC] == 200
    mirrors = {0xA9C2: 0xB997, 0xA9C3: 0xB998, 0xB9D0: 0xA9B1}
    for copy, original in mirrors.items():
        assert found.get(copy) == (found[original] if chip.lpac else None)


def test_images_textures_and_samplers():
    shader = replace(SHADER, textures=(0, 1, 1), samplers=3, images=2)
    words = words_of(shader=shader)
    assert words[-5:] == [0x70268000, 0x40A9BA01, 0, 0x48AA0001, 0]  # registers persist: the next launch has none
    found, commands = registers(words[:-5])
    loads = [(data[0] >> 18 & 15, data[0] >> 14 & 3, data[0] >> 22, data[1] | data[2] << 32) for op, data in commands
             if op == 0x34]  # fmt: skip
    assert loads[2:] == [(5, 0, 3, TABLES["samplers"]), (5, 1, 3, TABLES["textures"]), (13, 3, 2, TABLES["images"])]
    for register, table in ((0xA9E2, "samplers"), (0xA9E6, "textures"), (0xA9F2, "images"), (0xB180, "border")):
        assert found[register] | found[register + 1] << 32 == TABLES[table]
    assert (found[0xA9BA], found[0xAA00]) == (3, 2)
    assert found[0xA9BB] == 1 << 8 | 3 << 9 | 3 << 17 | 2 << 22


def test_of_many_textures_sixteen_are_preloaded():
    _, commands = registers(words_of(shader=replace(SHADER, textures=tuple(range(20)), samplers=20)))
    units = [data[0] >> 22 for opcode, data in commands if opcode == 0x34 and data[0] >> 18 & 15 == 5]
    assert units == [20, 16]


def test_code_must_be_aligned():
    place = Place(code=CODE + 64, private=0, constants=(), **TABLES)
    with pytest.raises(ValueError, match="128"):
        dispatch(A630, SHADER, Shape((1, 1, 1), (1, 1, 1), 0), place, A630.private_layout(0))


def test_every_known_chip_has_its_id():
    for chip in (A630, A640, A650, A660, A690):
        number = int(chip.name[1:])
        digits = number // 100 << 16 | number // 10 % 10 << 8 | number % 10
        assert chip_for(digits << 8 | 1) is chip
