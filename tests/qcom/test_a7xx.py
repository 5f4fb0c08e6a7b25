"""Adreno 7xx: its dispatch word for word as typed from qcom facts 2, 3.2 and 3.3, and what else differs from 6xx."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_dispatch import CODE, CONSTANTS, SHADER, SIGNAL, TABLES, registers
from test_qcom_words import queue

from hcqrt.autogen.qcom import a6xx, a7xx
from hcqrt.core.sints import Variable, evaluate
from hcqrt.qcom import image, tables
from hcqrt.qcom.arch.a7xx import A7XX, A730, A740, A750, CHIPS, tile_height
from hcqrt.qcom.dispatch import Place, Shape, dispatch

# The kernel of qcom facts 3.3 on an A750: registers moved as 3.2 says, headers by the parities of 2.
WORKED = """
70970001 08000001
70E50001 00000008
48AB1F01 00000060
40AB0001 00000005
48AE0401 00000000
40AE0F01 00000020
40B30901 00000002
40B60001 11100000
70268000
40A9CD01 00000101
48A9BB02 00000100 00000001
40A9B08A 00000180 00000001 00000000 00000000 00010000 00000010 00000000 00000000 00000000 00000000
48A9BD01 00000000
48A9D48C 000000FF 00000080 00000000 00000001 00000000 00000001 00000000 444008FC 00000001 00000001 00000001 000000FC
40A9C202 00FCFCC0 000000FC
48A9BE01 00000000
48A9C502 00000000 00000000
40A9C804 FCFCFCFC FCFCFCFC FCFCFCFC 0000FC00
70348003 00764000 00020000 00000010
70B30004 00000000 00000002 00000001 00000001
70268000
70460004 08000031 00050000 00000010 00000001
"""


BR = [0x70970001, 0x08000001]  # CP_THREAD_CONTROL: rendering, no concurrent binning


def words_of(chip=A750, shader=SHADER, groups=(2, 1, 1), local=(64, 1, 1), shared=0, private=0):
    place = Place(code=CODE, private=private, constants=((CONSTANTS, 0, 1),), **TABLES)
    layout = chip.private_layout(shader.private_bytes)
    return dispatch(chip, shader, Shape(groups, local, shared), place, layout)


def test_the_worked_dispatch_word_for_word():
    assert [*A7XX.begin, *words_of(), *A7XX.events.release(SIGNAL, 1)] == [int(word, 16) for word in WORKED.split()]


def test_a_queue_begins_on_the_rendering_thread_and_a_context_forgets():
    assert queue(A750).setup().words == [*BR, 0x70460001, 0x33, 0x70268000]


def test_a_barrier_writes_back_and_forgets_with_the_events_of_7xx():
    words = queue(A750).memory_barrier().words
    assert words == [*BR, 0x70460004, 0x08000031, 0x70000, 0x10, 0, 0x70460001, 0x33, 0x70928000, 0x70268000]


def test_a_signal_stamps_the_clock_of_the_same_register():
    """CP_ALWAYS_ON_COUNTER is 0x980 on both: two registers, 64 bits."""
    words = queue(A750).signal(type("Signal", (), dict(value_va=SIGNAL, timestamp_va=SIGNAL + 8)), 3).words
    clock = [0x703E8003, 0x980 | 2 << 18 | 1 << 30, 0x50008, 0x10]
    assert words == [*BR, 0x70268000, *clock, 0x70928000, 0x70460004, 0x08000031, 0x50000, 0x10, 3]


@pytest.mark.parametrize(("double", "nine", "eight"), [(False, 0, 0), (True, 1 << 9, 1 << 8)])
def test_the_wave_size_is_in_bit_8_of_sp_cs_cntl_1(double, nine, eight):
    found, _ = registers(words_of(shader=replace(SHADER, double_threads=double)))
    assert found[0xA9DB] & 0xFFF == 0xFC | 1 << 11 | nine
    assert found[0xA9C3] == 0xFC | eight
    assert found[0xA9B0] >> 20 & 1 == double


@pytest.mark.parametrize(
    ("y", "height"), [(1, 17), (2, 9), (3, 17), (4, 5), (6, 9), (8, 3), (12, 5), (16, 3), (1024, 3)]
)
def test_the_tile_is_as_high_as_local_y_allows(y, height):
    found, _ = registers(words_of(local=(1, y, 1)))
    assert (found[0xA9DB] >> 20 & 63, found[0xA9DB] >> 26) == (4, height)
    assert found[0xA9DF] == (y - 1) << 12
    symbol = Variable("y")
    assert evaluate(tile_height(symbol), {symbol: y}) == height


def test_the_last_group_is_as_large_as_all_and_counts_are_for_run_opencl():
    shader = replace(SHADER, opencl_launch=True)
    found, commands = registers(words_of(shader=shader, groups=(5, 4, 3), local=(8, 4, 2)))
    sizes = 7 << 2 | 3 << 12 | 1 << 22
    assert [found[0xA9D4 + index] for index in range(7)] == [3 | sizes, 40, 0, 16, 0, 6, 0]
    assert [found[0xA9DC + axis] for axis in range(3)] == [5, 4, 3]
    assert found[0xA9DF] == sizes
    assert commands[-1] == (0x31, [0])


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_nothing_is_written_where_6xx_has_its_registers_and_no_code_is_preloaded(chip):
    shader = replace(SHADER, instrlen=200, textures=(0,), samplers=1, images=1, private_bytes=600)
    found, commands = registers(words_of(chip=chip, shader=shader, private=0x20_0000_0000))
    moved = {offset for name, (offset, _) in a6xx.REGISTERS.items() if a7xx.REGISTERS.get(name, (None,))[0] != offset}
    assert not found.keys() & moved
    loads = [(data[0] >> 18 & 15, data[0] >> 14 & 3) for opcode, data in commands if opcode == 0x34]
    assert loads == [(13, 1), (5, 0), (5, 1), (13, 3)]  # constants, sampler, texture, image
    assert found[0xA9BC] == 200


def test_the_table_of_chips():
    """qcom facts 1.10."""
    table = {
        A730: ("a730", 4, 4096, 127, 2 << 20, 0x01000000),
        A740: ("a740", 6, 4096, 127, 3 << 20, 0x11100000),
        A750: ("a750", 6, 4096, 127, 3 << 20, 0x11100000),
    }
    for chip, (name, sps, fibres, cache, gmem, eco) in table.items():
        assert (chip.name, chip.sps, chip.fibres_per_sp, chip.icache_units) == (name, sps, fibres, cache)
        assert (chip.gmem_bytes, chip.tpl1_dbg_eco_cntl, chip.lpac, chip.reg_vec4) == (gmem, eco, True, 96)
        assert registers(words_of(chip=chip))[0][0xB600] == eco
    assert (A7XX.const_vec4, A7XX.local_bytes, A7XX.experimental) == (512, 32 << 10, True)
    assert {chip.arch for chip in CHIPS} == {A7XX}


@pytest.mark.parametrize(("constlen", "mode"), [(128, 0), (192, 1), (256, 2), (260, 3), (512, 3)])
def test_the_constant_file_is_twice_as_large(constlen, mode):
    found, _ = registers(words_of(shader=replace(SHADER, constlen=constlen)))
    assert found[0xA9B1] >> 5 & 3 == mode
    assert found[0xA9CD] == constlen // 4 | 1 << 8


@pytest.mark.parametrize("asked", [1, 600, 65536])
def test_private_memory(asked):
    """qcom facts 3, item 9, with the fibres and processors of an A750."""
    shader = replace(SHADER, private_bytes=asked, private_per_wave=True)
    per_fibre = {1: 512, 600: 1024, 65536: 65536}[asked]
    found, _ = registers(words_of(shader=shader, private=0x20_0000_0000))
    assert found[0xA9B6] == per_fibre // 512
    assert found[0xA9B9] == per_fibre * 4096 // 4096 | 1 << 31
    assert found[0xA9BD] == per_fibre * 4096 // 2048
    assert A750.private_layout(asked).total == per_fibre * 4096 * 6


def test_symbols_give_the_words_that_their_values_give():
    names = ("gx", "gy", "gz", "lx", "ly", "lz")
    symbols = [Variable(name) for name in names]
    symbolic = words_of(groups=tuple(symbols[:3]), local=tuple(symbols[3:]))
    for values in ((1, 1, 1, 1, 1, 1), (5, 6, 7, 8, 4, 2), (65535, 2, 3, 16, 6, 1), (2, 2, 2, 1, 1024, 1)):
        known = dict(zip(symbols, values, strict=True))
        assert [evaluate(word, known) for word in symbolic] == words_of(groups=values[:3], local=values[3:])


def test_descriptors_have_the_fields_that_images_use_in_the_same_places():
    """a7xx has one field more in TEX_CONST: MUTABLEEN, bit 31 of the second word, which images here leave 0."""
    more = {
        (dword, name)
        for dword, fields in a7xx.DESCRIPTORS["A6XX_TEX_CONST"].items()
        for name in fields
        if name not in tables.DESCRIPTORS["A6XX_TEX_CONST"][dword]
    }
    assert more == {(1, "MUTABLEEN")}
    assert tables.DESCRIPTORS["A6XX_TEX_CONST"] == a6xx.DESCRIPTORS["A6XX_TEX_CONST"]
    assert a6xx.DESCRIPTORS["A6XX_TEX_SAMP"] == a7xx.DESCRIPTORS["A6XX_TEX_SAMP"]
    for name in ("a6xx_format", "a6xx_tex_swiz", "a6xx_tex_type", "a6xx_tile_mode", "a6xx_tex_clamp"):
        assert a6xx.ENUMS[name] == a7xx.ENUMS[name]
    texture = image.texture(image.layout_for((16384, 16384, "FMT6_32_32_32_32_FLOAT")), 0x10_0000_0000)
    assert texture[7] >> 7 == 0
