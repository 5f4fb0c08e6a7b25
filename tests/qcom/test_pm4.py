"""PM4 headers and field packing against headers typed in from the facts, and by properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.autogen.qcom import a6xx, a7xx
from hcqrt.core.sints import Variable, evaluate
from hcqrt.qcom import pm4, tables
from hcqrt.qcom.arch.a6xx import A6XX
from hcqrt.qcom.arch.a7xx import A7XX
from hcqrt.qcom.events import RELEASE_WORDS
from hcqrt.qcom.pm4 import Register

CS_CNTL = A6XX.registers.HLSQ_CS_CNTL
# qcom facts 2, "Golden headers"
TYPE7 = [
    ("CP_WAIT_FOR_IDLE", 0, 0x70268000),
    ("CP_WAIT_MEM_WRITES", 0, 0x70928000),
    ("CP_WAIT_FOR_ME", 0, 0x70138000),
    ("CP_NOP", 0, 0x70108000),
    ("CP_SET_MARKER", 1, 0x70E50001),
    ("CP_EVENT_WRITE", 4, 0x70460004),
    ("CP_EVENT_WRITE", 1, 0x70460001),
    ("CP_REG_TO_MEM", 3, 0x703E8003),
    ("CP_WAIT_REG_MEM", 6, 0x70BC8006),
    ("CP_LOAD_STATE6_FRAG", 3, 0x70348003),
    ("CP_EXEC_CS", 4, 0x70B30004),
    ("CP_RUN_OPENCL", 1, 0x70310001),
    ("CP_MEM_WRITE", 3, 0x703D8003),
    ("CP_INDIRECT_BUFFER", 3, 0x70BF8003),
]
TYPE4 = [
    (0xBB08, 1, 0x40BB0801),
    (0xB990, 12, 0x40B9908C),
    (0xA9B0, 10, 0x40A9B08A),
    (0xB983, 5, 0x48B98385),
    (0xA9BB, 1, 0x48A9BB01),
]


@pytest.mark.parametrize(("opcode", "count", "header"), TYPE7)
def test_headers_of_commands(opcode, count, header):
    assert pm4.type7(a6xx.OPCODES[opcode], count) == header
    assert pm4.packet_words(header) == 1 + count


@pytest.mark.parametrize(("register", "count", "header"), TYPE4)
def test_headers_of_register_writes(register, count, header):
    assert pm4.type4(register, count) == header
    assert pm4.packet_words(header) == 1 + count


@given(st.integers(0, 127), st.integers(0, 16383))
def test_a_command_header_holds_opcode_and_count_with_odd_parity(opcode, count):
    header = pm4.type7(opcode, count)
    assert (header >> 28, header >> 16 & 0x7F, header & 0x3FFF) == (7, opcode, count)
    assert bin(header >> 16 & 0xFF).count("1") % 2 == bin(header & 0xBFFF).count("1") % 2 == 1
    assert header & 0x0F00_4000 == 0


@given(st.integers(0, 0x3FFFF), st.integers(1, 127))
def test_a_write_header_holds_register_and_count_with_odd_parity(register, count):
    header = pm4.type4(register, count)
    assert (header >> 28, header >> 8 & 0x3FFFF, header & 0x7F) == (4, register, count)
    assert bin(header >> 8 & 0xFFFFF).count("1") % 2 == bin(header & 0xFF).count("1") % 2 == 1


@pytest.mark.parametrize("bit", range(32))
def test_a_header_with_any_one_bit_flipped_is_none_or_another(bit):
    """One flipped bit breaks a parity; only type bits can turn it into another packet, whose own parity then fails."""
    for header in (0x70268000, 0x70E50001, 0x40BB0801, 0x40A9B08A):
        with pytest.raises(ValueError, match=f"{header ^ 1 << bit:#010x}"):
            pm4.packet_words(header ^ 1 << bit)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: pm4.type4(0xBB08, 0), "1 to 127"),
        (lambda: pm4.type4(0xBB08, 128), "1 to 127"),
        (lambda: pm4.type4(0x40000, 1), "0x40000"),
        (lambda: pm4.type7(0x26, 16384), "at most 16383"),
        (lambda: pm4.type7(0x80, 0), "0x80"),
        (lambda: A6XX.registers.SP_CS_CTRL_REG0(FULLREGFOOTPRINT=64), "FULLREGFOOTPRINT = 0x40"),
        (lambda: A6XX.registers.SP_CS_CTRL_REG0(FULLREGFOOTPRINT=-1), "FULLREGFOOTPRINT"),
        (lambda: CS_CNTL(CONSTLEN=6), "CONSTLEN = 0x6 is no multiple of 0x4"),
        (lambda: CS_CNTL(CONSTLEN=1024), "CONSTLEN = 0x100 does not fit"),
        (lambda: A6XX.registers.SP_CS_PVT_MEM_HW_STACK_OFFSET(OFFSET=1024), "no multiple of 0x800"),
        (lambda: A6XX.registers.SP_CS_BRANCH_COND(1 << 32), "SP_CS_BRANCH_COND"),
        (lambda: pm4.write(A6XX.registers.SP_CS_CTRL_REG0(), A6XX.registers.SP_CS_BRANCH_COND(0)), "COND at 0xa9b2"),
        (lambda: pm4.load_state("SB6_CS_SHADER", "ST6_CONSTANTS", 0x1008, 1), "0x1008"),
        (lambda: pm4.load_state("SB6_CS_SHADER", "ST6_CONSTANTS", 0x1000, 1024), "NUM_UNIT"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="WIDTH"):
        CS_CNTL(WIDTH=1)


def test_fields_with_a_shift_take_the_whole_value():
    """CONSTLEN 4 vectors is stored as 1; tinygrad's 256 without the shift landed on bit 8 (qcom facts 3.1)."""
    assert CS_CNTL(CONSTLEN=256, ENABLED=1).words == (0x140,)
    assert A6XX.registers.SP_CS_PVT_MEM_HW_STACK_OFFSET(OFFSET=0x100000).words == (0x200,)
    assert A6XX.registers.SP_CS_PVT_MEM_PARAM(MEMSIZEPERITEM=1024).words == (2,)
    assert A6XX.registers.SP_CS_PVT_MEM_SIZE(TOTALPVTMEMSIZE=0x100000, PERWAVEMEMLAYOUT=1).words == (0x8000_0100,)


@given(st.sampled_from([(module, name) for module in (a6xx, a7xx) for name in sorted(module.REGISTERS)]), st.data())
def test_a_register_holds_each_field_where_the_table_says(which, data):
    register = Register(which[1], which[0].REGISTERS)
    field, (msb, lsb, shr) = data.draw(st.sampled_from(sorted(register.fields.items())))
    value = data.draw(st.integers(0, (1 << msb - lsb + 1) - 1)) << shr
    written = register(value) if field == "" else register(**{field: value})
    whole = sum(word << 32 * index for index, word in enumerate(written.words))
    assert whole >> lsb & (1 << msb - lsb + 1) - 1 == value >> shr
    assert whole & ~(((1 << msb - lsb + 1) - 1) << lsb) == 0


@given(st.integers(1, 1024), st.integers(1, 1024))
def test_symbols_give_the_words_that_their_values_give(x, y):
    a, b = Variable("a"), Variable("b")
    register = A6XX.registers.HLSQ_CS_NDRANGE_0
    (symbolic,) = register(KERNELDIM=3, LOCALSIZEX=a - 1, LOCALSIZEY=b - 1, LOCALSIZEZ=0).words
    assert evaluate(symbolic, {a: x, b: y}) == 3 | x - 1 << 2 | y - 1 << 12


@pytest.mark.parametrize("value", [2, 1024, -4, 1 << 40])
def test_a_symbol_that_its_field_cannot_hold_makes_a_word_that_is_refused(value):
    n = Variable("n", -8, 1 << 41)
    (word,) = CS_CNTL(CONSTLEN=n, ENABLED=1).words
    assert evaluate(word, {n: 1020}) == 255 | 1 << 8
    assert not 0 <= evaluate(word, {n: value}) < 1 << 32
    with pytest.raises(TypeError, match="not both"):
        CS_CNTL(1, CONSTLEN=4)


def test_the_commands_of_a_queue_word_by_word():
    """Typed in from qcom facts 2: memory wait is unsigned >=; the clock is two registers at 0x980 as 64 bits."""
    assert pm4.wait_memory(0x10_0005_0000, 7)[:5] == [0x70BC8006, 0x15, 0x50000, 0x10, 7]
    assert pm4.wait_memory(0x10_0005_0000, 7)[5] == 0xFFFF_FFFF
    assert pm4.store_clock(0x10_0005_0008) == [0x703E8003, 0x980 | 2 << 18 | 1 << 30, 0x50008, 0x10]


def test_0x31_forgets_on_a6xx_and_writes_back_on_a7xx():
    """qcom facts 2, events. On a7xx an event stores only with bit 27 set; source 0 is the 32 bits given."""
    assert A6XX.events.forget() == [0x70460001, 0x31]
    assert A7XX.events.forget() == [0x70460001, 0x33]
    assert A6XX.events.flush_and_write(0x10_0005_0000, 1) == [0x70460004, 4, 0x50000, 0x10, 1]
    assert A7XX.events.flush_and_write(0x10_0005_0000, 1) == [0x70460004, 0x31 | 1 << 27, 0x50000, 0x10, 1]


@pytest.mark.parametrize("arch", [A6XX, A7XX], ids=lambda arch: arch.name)
def test_a_release_waits_first_and_has_its_value_last(arch):
    words = arch.events.release(0x10_0005_0000, 9)
    assert words == [0x70268000, *arch.events.flush_and_write(0x10_0005_0000, 9)]
    assert len(words) == RELEASE_WORDS == 6


@pytest.mark.parametrize("name", ["HLSQ_CS_CNTL", "HLSQ_INVALIDATE_CMD", "HLSQ_CS_NDRANGE_0", "SP_CS_CNTL_1"])
def test_what_a_generation_moved_is_where_its_own_table_says(name):
    own, other = getattr(A6XX.registers, name), getattr(A7XX.registers, name)
    assert (own.offset, own.fields) == a6xx.REGISTERS[name] != a7xx.REGISTERS[name] == (other.offset, other.fields)
    assert name not in tables.REGISTERS


@pytest.mark.parametrize("name", ["HLSQ_CS_CNTL_0", "HLSQ_CS_CTRL_REG1", "SP_NOTHING"])
def test_a_register_that_a_generation_lacks_is_no_attribute(name):
    with pytest.raises(AttributeError, match=f"no register {name}"):
        getattr(A7XX.registers, name)


def test_names_of_commands_mean_one_number():
    both = a6xx.OPCODES.keys() & a7xx.OPCODES.keys()
    assert len(both) > 60
    assert [name for name in both if a6xx.OPCODES[name] != a7xx.OPCODES[name]] == []
