"""Bit fields, typed memory views and ioctl objects: what goes in comes out, and nothing is cut."""

from __future__ import annotations

import ctypes
import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.bits import BitStruct, Field, align_down, align_up, get_bits, hi32, lo32, place, set_bits
from hcqrt.errors import IoctlError
from hcqrt.fileio import System, load_x86_fence
from hcqrt.ioctl import Ioctl, ioc, ioc_size, iowr
from hcqrt.mmio import HookedMMIO, MMIOInterface

RANGES = st.tuples(st.integers(0, 500), st.integers(1, 64)).map(lambda t: (t[0] + t[1] - 1, t[0]))


@given(RANGES, st.binary(min_size=80, max_size=80), st.data())
def test_a_field_holds_what_was_set_and_nothing_else_changes(bits, before, data):
    msb, lsb = bits
    value = data.draw(st.integers(0, (1 << (msb - lsb + 1)) - 1))
    buf = bytearray(before)
    set_bits(buf, msb, lsb, value)
    assert get_bits(buf, msb, lsb) == value
    mask = ((1 << (msb - lsb + 1)) - 1) << lsb
    assert (int.from_bytes(buf, "little") ^ int.from_bytes(before, "little")) & ~mask == 0


@given(RANGES, st.integers(0, 1 << 70))
def test_a_value_too_wide_raises_and_writes_nothing(bits, extra):
    msb, lsb = bits
    buf = bytearray(80)
    with pytest.raises(ValueError, match="does not fit bits"):
        set_bits(buf, msb, lsb, (1 << (msb - lsb + 1)) + extra)
    with pytest.raises(ValueError, match="does not fit bits"):
        set_bits(buf, msb, lsb, -1)
    assert buf == bytes(80)


class Word(BitStruct):
    low = Field(6, 1)
    flag = Field(7)
    high = Field(31, 20)


@given(st.integers(0, 63), st.integers(0, 1), st.integers(0, 4095))
def test_a_struct_of_fields_goes_round(low, flag, high):
    word = Word(low=low, flag=flag, high=high)
    assert int(word) == low << 1 | flag << 7 | high << 20
    assert Word.from_int(int(word)) == word and (word.low, word.flag, word.high) == (low, flag, high)


def test_unknown_names_and_bits_are_refused():
    with pytest.raises(TypeError, match="no field 'other'"):
        Word(other=1)
    with pytest.raises(ValueError, match="bits 0x100 belong to no field"):
        Word.from_int(0x100)
    with pytest.raises(ValueError, match=r"Word\.low = 0x40 does not fit"):
        Word(low=64)


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 1 << 20))
def test_splitting_and_aligning(value, alignment):
    assert hi32(value) << 32 | lo32(value) == value
    assert align_down(value, alignment) <= value <= align_up(value, alignment)
    assert align_up(value, alignment) % alignment == 0 and align_up(value, alignment) - value < alignment


def test_a_value_is_moved_to_a_headers_range():
    assert place((26, 25), 3) == 3 << 25
    with pytest.raises(ValueError, match="does not fit bits 26:25"):
        place((26, 25), 4)


def test_views_stay_inside_their_memory():
    store = (ctypes.c_char * 64)()
    view = MMIOInterface(ctypes.addressof(store), 64, "I", store)
    view[3] = 0x12345678
    assert view.view(12, 4, "B").tobytes() == bytes.fromhex("78563412")
    for bad in ((60, 8), (-4, 4), (0, 65)):
        with pytest.raises(ValueError, match="leaves the"):
            view.view(*bad)
    with pytest.raises(ValueError, match="aligned items"):
        view.view(2, 4, "I")


def test_a_hooked_view_tells_of_every_store():
    store, seen = (ctypes.c_char * 64)(), []
    view = HookedMMIO(ctypes.addressof(store), 64, "B", store, on_write=lambda at, size: seen.append((at, size)))
    view.view(16).words[2] = 7
    view[0:2] = b"ab"
    assert seen == [(24, 4), (0, 1), (1, 1)]


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_uint32), ("b", ctypes.c_uint8))


class File:
    """A device node that answers with errnos, then succeeds."""

    path = "/dev/test"

    def __init__(self, *errors: int) -> None:
        self.errors, self.calls = list(errors), 0

    def ioctl(self, request, address):
        self.calls += 1
        if self.errors:
            raise OSError(self.errors.pop(0), "injected")
        Pair.from_address(address).a += 1
        return 0


def test_an_interrupted_ioctl_is_issued_again():
    call, file = Ioctl("TEST_ADD", iowr("T", 1, 8), Pair), File(errno.EINTR, errno.EINTR)
    assert call(file, a=41).a == 42 and file.calls == 3


def test_a_failing_ioctl_names_call_node_errno_and_hint():
    with pytest.raises(IoctlError, match=r"TEST_ADD on /dev/test: .* \[ENOMEM\]; 8 bytes asked") as failure:
        Ioctl("TEST_ADD", iowr("T", 1, 8), Pair)(File(errno.ENOMEM), hint="8 bytes asked")
    assert failure.value.errno == errno.ENOMEM and failure.value.request == "TEST_ADD"


def test_ioctl_arguments_are_not_cut_and_sizes_are_checked():
    call = Ioctl("TEST_ADD", iowr("T", 1, 8), Pair)
    with pytest.raises(ValueError, match="b = 0x100 does not fit"):
        call(File(), b=256)
    with pytest.raises(TypeError, match="no field 'c'"):
        call(File(), c=1)
    with pytest.raises(ValueError, match="says 12 bytes, Pair has 8"):
        Ioctl("TEST_ADD", iowr("T", 1, 12), Pair)
    with pytest.raises(ValueError, match="14-bit"):
        ioc(3, ord("T"), 1, 1 << 14)
    assert ioc_size(iowr("F", 0x2B, 16383)) == 16383


def test_both_fences_can_be_called():
    System().fence()
    load_x86_fence()()


def test_reserved_addresses_stay_claimed():
    system = System()
    base = system.reserve(1 << 24, 1 << 21, 1 << 40)
    assert base % (1 << 21) == 0 and base + (1 << 24) <= 1 << 40
    memory = system.anonymous(8192, base)
    memory[0] = 5
    assert memory.addr == base
    system.back_to_reserved(base, 8192)
    assert system.reserve(1 << 24, 1 << 21, 1 << 40, start=base) != base
    system.unmap(base, 1 << 24)
