"""Symbols: arithmetic equals Python's, compiled and walked alike; bounds and missing values are refused by name."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcqrt.core.sints import Variable, compile_sints, evaluate, lo_hi, variables_of

OPERATORS = [operator.add, operator.sub, operator.mul, operator.and_, operator.or_]
n, m = Variable("n", -(1 << 40), 1 << 40), Variable("m", -(1 << 40), 1 << 40)
numbers = st.integers(-(1 << 40), 1 << 40)


@given(
    st.lists(st.tuples(st.sampled_from(OPERATORS), st.sampled_from(["n", "m", "c", "r"]), numbers)), numbers, numbers
)
def test_expressions_equal_python_integers(steps, n_value, m_value):
    symbolic, plain = n, n_value
    for op, kind, constant in steps:
        if kind == "r":
            symbolic, plain = op(constant, symbolic), op(constant, plain)
            continue
        other, value = {"n": (n, n_value), "m": (m, m_value), "c": (constant, constant)}[kind]
        symbolic, plain = op(symbolic, other), op(plain, value)
    values = {n: n_value, m: m_value}
    assert evaluate(symbolic, values) == plain
    assert compile_sints([symbolic, 7], [n, m])(n_value, m_value) == (plain, 7)


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 63))
def test_shifts_and_division(value, amount):
    v = Variable("v")
    trees = [v << amount, v >> amount, v // amount, v % amount, 1 << (v % 8), -v, *lo_hi(v)]
    expected = (value << amount, value >> amount, value // amount, value % amount, 1 << value % 8, -value,
                value & 0xFFFFFFFF, value >> 32)  # fmt: skip
    assert compile_sints(trees, [v])(value) == expected


def test_missing_and_out_of_bounds_values_are_named():
    k = Variable("k", 1, 5)
    with pytest.raises(KeyError, match="no value for variable k"):
        evaluate(k + 1, {})
    with pytest.raises(ValueError, match=r"k = 6 is outside \[1, 5\]"):
        evaluate(k + 1, {k: 6})
    with pytest.raises(TypeError, match="not an integer"):
        evaluate(k, {k: 2.0})


def test_variables_are_listed_once_in_order():
    assert variables_of([m + n, n * 2, 3]) == [m, n]


def test_a_symbol_of_another_library_works_by_protocol():
    class Foreign:
        def hcq_value(self, var_vals):
            return var_vals["x"] + 1

    assert evaluate(n + Foreign(), {n: 1, "x": 5}) == 7
