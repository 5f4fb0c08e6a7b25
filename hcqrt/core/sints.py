"""Integers that are known only when a queue is submitted: Variable, expressions, and compiling them to a function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from typing import TypeAlias


@runtime_checkable
class ForeignSymbol(Protocol):
    """A symbol of somebody else's, such as a tensor framework's: whatever says its value for given variables."""

    def hcq_value(self, var_vals: Mapping[Any, int]) -> int: ...


class Symbol:
    """Base of Variable and Expression: integer arithmetic builds a tree."""

    __slots__ = ()

    def __add__(self, other: Sint) -> Expression:
        return Expression("+", self, other)

    def __radd__(self, other: Sint) -> Expression:
        return Expression("+", other, self)

    def __sub__(self, other: Sint) -> Expression:
        return Expression("-", self, other)

    def __rsub__(self, other: Sint) -> Expression:
        return Expression("-", other, self)

    def __mul__(self, other: Sint) -> Expression:
        return Expression("*", self, other)

    def __rmul__(self, other: Sint) -> Expression:
        return Expression("*", other, self)

    def __floordiv__(self, other: Sint) -> Expression:
        return Expression("//", self, other)

    def __rfloordiv__(self, other: Sint) -> Expression:
        return Expression("//", other, self)

    def __mod__(self, other: Sint) -> Expression:
        return Expression("%", self, other)

    def __rmod__(self, other: Sint) -> Expression:
        return Expression("%", other, self)

    def __and__(self, other: Sint) -> Expression:
        return Expression("&", self, other)

    def __rand__(self, other: Sint) -> Expression:
        return Expression("&", other, self)

    def __or__(self, other: Sint) -> Expression:
        return Expression("|", self, other)

    def __ror__(self, other: Sint) -> Expression:
        return Expression("|", other, self)

    def __lshift__(self, other: Sint) -> Expression:
        return Expression("<<", self, other)

    def __rlshift__(self, other: Sint) -> Expression:
        return Expression("<<", other, self)

    def __rshift__(self, other: Sint) -> Expression:
        return Expression(">>", self, other)

    def __rrshift__(self, other: Sint) -> Expression:
        return Expression(">>", other, self)

    def __neg__(self) -> Expression:
        return Expression("-", 0, self)


class Variable(Symbol):
    """A named integer between `lo` and `hi`, both included. Two variables of one name are two variables."""

    __slots__ = ("hi", "lo", "name")

    def __init__(self, name: str, lo: int = 0, hi: int = (1 << 64) - 1) -> None:
        if lo > hi:
            raise ValueError(f"variable {name}: lo {lo} is above hi {hi}")
        self.name, self.lo, self.hi = name, lo, hi

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.lo}, {self.hi})"


class Expression(Symbol):
    """Two operands and an operator."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: Sint, right: Sint) -> None:
        for operand in (left, right):
            if not isinstance(operand, (int, Symbol, ForeignSymbol)):
                raise TypeError(f"{operand!r} is neither an integer nor a symbol")
        self.op, self.left, self.right = op, left, right

    def __repr__(self) -> str:
        return f"({self.left!r} {self.op} {self.right!r})"


Sint: TypeAlias = "int | Symbol | ForeignSymbol"
VarVals = Mapping[Any, int]


def is_symbolic(value: Sint) -> bool:
    """Whether the value is known only at submission. Other libraries' integers are known: they have __index__."""
    return not isinstance(value, int) and not hasattr(value, "__index__")


def as_sint(value: Any) -> Any:
    """A symbol as it is, any integer as a plain int. TypeError for what is neither.

    Integers of fixed width, such as NumPy's, would overflow where addresses are split and added.
    """
    if type(value) is int or isinstance(value, Symbol):
        return value
    if hasattr(value, "__index__"):
        return operator.index(value)
    if isinstance(value, ForeignSymbol):
        return value
    raise TypeError(f"{value!r} is neither an integer nor a symbol")


def variables_of(sints: Iterable[Sint]) -> list[Variable]:
    """Every Variable in the trees, in order of first appearance."""
    found: dict[Variable, None] = {}
    stack = list(sints)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, Variable):
            found[node] = None
        elif isinstance(node, Expression):
            stack += (node.right, node.left)
    return list(found)


def check_value(variable: Variable, value: Any) -> int:
    """`value` as the integer of `variable`; raises ValueError when it is out of its bounds."""
    if not isinstance(value, int):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{variable.name} = {value!r} is not an integer")
        value = operator.index(value)
    number: int = value
    if not variable.lo <= value <= variable.hi:
        raise ValueError(f"{variable.name} = {value} is outside [{variable.lo}, {variable.hi}]")
    return number


def evaluate(sint: Sint, var_vals: VarVals) -> int:
    """The value of one integer or symbol. Raises KeyError naming a variable that has no value."""
    if isinstance(sint, int):
        return sint
    if isinstance(sint, Variable):
        if sint not in var_vals:
            raise KeyError(f"no value for variable {sint.name}")
        return check_value(sint, var_vals[sint])
    if isinstance(sint, Expression):
        return _OPERATORS[sint.op](evaluate(sint.left, var_vals), evaluate(sint.right, var_vals))
    if isinstance(sint, ForeignSymbol):
        return int(sint.hcq_value(var_vals))
    return int(as_sint(sint))


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "//": int.__floordiv__,
    "%": int.__mod__,
    "&": int.__and__,
    "|": int.__or__,
    "<<": int.__lshift__,
    ">>": int.__rshift__,
}


def source(node: Sint | bytes, names: Mapping[Variable, str]) -> str:
    """Python source that computes `node`, given what each variable is called there. Bytes stand for themselves."""
    if isinstance(node, bytes):
        return repr(node)
    if isinstance(node, int):
        return str(int(node))
    if isinstance(node, Variable):
        return names[node]
    if isinstance(node, Expression):
        return f"({source(node.left, names)} {node.op} {source(node.right, names)})"
    raise TypeError(f"{node!r} cannot be compiled")


def compile_sints(sints: Sequence[Sint | bytes], variables: Sequence[Variable]) -> Callable[..., tuple[Any, ...]]:
    """A function of the variables' values, in the given order, that returns all `sints` as a tuple.

    Walking trees on every submission would cost more than the submission; one generated function does not. The source
    consists of our own operators, decimal numbers, bytes and argument names only.

    Raises:
        KeyError: a tree has a variable that is not in `variables`. ForeignSymbols are not compiled: TypeError.
    """
    names = {variable: f"v{index}" for index, variable in enumerate(variables)}
    body = "".join(f"{source(sint, names)}, " for sint in sints)
    function: Callable[..., tuple[Any, ...]] = eval(f"lambda {', '.join(names.values())}: ({body})", {})
    return function


def lo_hi(value: Any) -> tuple[Any, Any]:
    """A 64-bit value as the two words that hardware takes, low first. Also symbols; too-wide ones fail when packed."""
    return value & 0xFFFF_FFFF, value >> 32


def hi_lo(value: Any) -> tuple[Any, Any]:
    """As `lo_hi`, high word first."""
    return value >> 32, value & 0xFFFF_FFFF
