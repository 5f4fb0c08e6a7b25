"""Patch plans: memory holds the values of the last submission, whatever changed, moved or failed in between."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.core.patch import MemoryPatch, PatchPlan
from hcqrt.core.sints import Variable

U64 = st.integers(0, (1 << 64) - 1)


@given(
    st.lists(st.dictionaries(st.integers(0, 9), U64, max_size=10), max_size=12), st.lists(U64, min_size=10, max_size=10)
)
def test_memory_always_holds_the_last_values(changes, first):
    memory = memoryview(bytearray(200))
    variables = [Variable(f"v{i}") for i in range(10)]
    whole = [MemoryPatch(memory, 16 * i, "Q", v, None) for i, v in enumerate(variables)]
    low = [MemoryPatch(memory, 16 * i + 8, "I", v & 0xFFFF_FFFF, None) for i, v in enumerate(variables)]
    plan = PatchPlan(whole + low)
    values = dict(zip(variables, first, strict=True))
    for change in [{}, *changes]:
        values.update({variables[i]: value for i, value in change.items()})
        plan.apply(values)
        for i, v in enumerate(variables):
            assert struct.unpack_from("<QI", memory, 16 * i) == (values[v], values[v] & 0xFFFF_FFFF)


def test_a_mask_keeps_the_other_bits():
    memory = memoryview(bytearray(b"\xff\xff\xff\xff"))
    v = Variable("v")
    plan = PatchPlan([MemoryPatch(memory, 0, "I", v << 8, 0xFF00)])
    for value in (0x12, 0x34, 0x56):
        plan.apply({v: value})
        assert struct.unpack("<I", memory) == (0xFFFF00FF | value << 8,)
    with pytest.raises(ValueError, match="leaves mask"):
        plan.apply({v: 0x100})


def test_values_too_wide_or_out_of_bounds_are_refused_also_after_learning():
    memory = memoryview(bytearray(16))
    small, any64 = Variable("small", 0, 9), Variable("any64")
    plan = PatchPlan([MemoryPatch(memory, 0, "I", any64, None), MemoryPatch(memory, 4, "I", small, None)])
    for value in (1, 2, 3):
        plan.apply({small: value, any64: value})
    with pytest.raises(ValueError, match="small = 10 is outside"):
        plan.apply({small: 10, any64: 3})
    with pytest.raises(ValueError, match="does not fit format 'I'"):
        plan.apply({small: 3, any64: 1 << 32})
    with pytest.raises(KeyError, match="no value for variable small"):
        plan.apply({any64: 1})
    plan.apply({small: 4, any64: 5})
    assert struct.unpack_from("<2I", memory) == (5, 4)


def test_a_value_of_64_bits_is_checked_also_where_only_part_of_it_is_stored():
    memory = memoryview(bytearray(16))
    v = Variable("v")
    plan = PatchPlan([MemoryPatch(memory, 0, "I", v & 0xFF, None)])
    for value in (1, 2, 3):
        plan.apply({v: value})
    for value in (-1, 1 << 64):
        with pytest.raises(ValueError, match=r"v = .* is outside"):
            plan.apply({v: value})
    plan.apply({v: 0x1FE})
    assert struct.unpack_from("<I", memory) == (0xFE,)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64"])
def test_numpy_integers_are_computed_with_as_plain_ones(kind):
    """600 000 000 * 8 is more than 32 bits, and NumPy would cut it without a word."""
    number = pytest.importorskip("numpy").dtype(kind).type
    memory = memoryview(bytearray(32))
    a, b = Variable("a"), Variable("b")
    plan = PatchPlan([MemoryPatch(memory, 0, "Q", a * 8 + b, None), MemoryPatch(memory, 8, "Q", b * 8, None)])
    for first, second in ((1, 1), (1, 2), (1, 600_000_000), (600_000_000, 600_000_001), (600_000_002, 5)):
        plan.apply({a: number(first), b: number(second)})
        assert struct.unpack_from("<2Q", memory) == (first * 8 + second, second * 8)
