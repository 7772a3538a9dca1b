"""Launch-time arithmetic: expression trees of the contract, checked once and evaluated with exact integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from tkc.backend.schema import is_integer, is_list, is_object
from tkc.diagnostics import TkcError

DEPTH_LIMIT = 64
"""Levels of nesting; a contract that needs more is wrong, and the limit keeps the evaluator from recursing away."""

DEVICE_SYMBOLS = ("sm_count", "max_clusters")


class Operator(NamedTuple):
    """`arity` is the exact number of operands, or the least number where `variadic`."""

    arity: int
    compute: Callable[[Sequence[int]], int]
    variadic: bool = False
    divides: bool = False


def _pair(compute: Callable[[int, int], int], *, divides: bool = False) -> Operator:
    def run(values: Sequence[int]) -> int:
        return compute(values[0], values[1])

    return Operator(2, run, divides=divides)


def _fold(compute: Callable[[int, int], int]) -> Operator:
    def run(values: Sequence[int]) -> int:
        return reduce(compute, values)

    return Operator(2, run, variadic=True)


def _select(values: Sequence[int]) -> int:
    return values[1] if values[0] else values[2]


OPERATORS: Mapping[str, Operator] = {
    "add": _fold(lambda a, b: a + b),
    "sub": _pair(lambda a, b: a - b),
    "mul": _fold(lambda a, b: a * b),
    "floordiv": _pair(lambda a, b: a // b, divides=True),
    "ceildiv": _pair(lambda a, b: -(-a // b), divides=True),
    "mod": _pair(lambda a, b: a % b, divides=True),
    "min": _fold(lambda a, b: min(a, b)),
    "max": _fold(lambda a, b: max(a, b)),
    "eq": _pair(lambda a, b: int(a == b)),
    "lt": _pair(lambda a, b: int(a < b)),
    # Evaluated apart, since only one branch may be: the other may divide by a size that is 0.
    "select": Operator(3, _select),
}


class Scope(NamedTuple):
    """What an expression may read: sizes and integer scalars, byte strides of each array, and facts of the device."""

    symbols: Mapping[str, int]
    strides: Mapping[str, Sequence[int]] = {}
    device: Callable[[str], int] | None = None

    def symbol(self, name: str) -> int:
        """The value of a symbol; a device symbol asks the driver on first use. TK411 where nobody defines it."""
        if name in self.symbols:
            return self.symbols[name]
        if self.device is not None and name in DEVICE_SYMBOLS:
            return self.device(name)
        raise TkcError.at("TK411", f"symbol {name} has no value here")

    def stride(self, argument: str, axis: int) -> int:
        strides = self.strides.get(argument)
        if strides is None or not 0 <= axis < len(strides):
            raise TkcError.at("TK411", f"array {argument} has no axis {axis} with a stride")
        return strides[axis]


def check(expression: Any, path: str = "expression", _depth: int = 0) -> None:
    """Raises TkcError TK411, naming `path`, unless `expression` is well formed."""
    if _depth > DEPTH_LIMIT:
        raise TkcError.at("TK411", f"{path}: nested deeper than {DEPTH_LIMIT} levels")
    if is_integer(expression):
        return
    if not is_object(expression):
        raise TkcError.at(
            "TK411", f"{path}: expected an integer, sym, stride or op, found {_show(expression)}"
        )
    if set(expression) == {"sym"}:
        if not isinstance(expression["sym"], str):
            raise TkcError.at(
                "TK411", f"{path}.sym: expected a name, found {_show(expression['sym'])}"
            )
    elif set(expression) == {"stride"}:
        place = expression["stride"]
        good = is_list(place) and len(place) == 2 and isinstance(place[0], str)
        if not good or not is_integer(place[1]) or place[1] < 0:
            raise TkcError.at(
                "TK411", f"{path}.stride: expected [array, axis], found {_show(place)}"
            )
    elif set(expression) == {"op", "of"}:
        name, operands = expression["op"], expression["of"]
        operator = OPERATORS.get(name) if isinstance(name, str) else None
        if operator is None:
            raise TkcError.at(
                "TK411", f"{path}: unknown op {_show(name)}; there are {', '.join(OPERATORS)}"
            )
        if not is_list(operands):
            raise TkcError.at("TK411", f"{path}.of: expected a list, found {_show(operands)}")
        if len(operands) < operator.arity or (
            len(operands) > operator.arity and not operator.variadic
        ):
            least = "at least " if operator.variadic else ""
            raise TkcError.at(
                "TK411",
                f"{path}: {name} takes {least}{operator.arity} operands, found {len(operands)}",
            )
        for i, operand in enumerate(operands):
            check(operand, f"{path}.of[{i}]", _depth + 1)
    else:
        raise TkcError.at(
            "TK411",
            f"{path}: expected the keys sym, or stride, or op and of; found {', '.join(map(str, expression))}",
        )


def evaluate(expression: Any, scope: Scope, path: str = "expression", _depth: int = 0) -> int:
    """The value of a checked expression; TK414 where it divides by zero, TK411 where it reads an unknown symbol."""
    if is_integer(expression):
        return expression
    if _depth > DEPTH_LIMIT or not is_object(expression):
        check(expression, path, _depth)
        raise TkcError.at("TK411", f"{path}: {_show(expression)} is no expression")
    if "sym" in expression:
        return scope.symbol(expression["sym"])
    if "stride" in expression:
        return scope.stride(*expression["stride"])
    name = expression.get("op")
    operator = OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        raise TkcError.at(
            "TK411", f"{path}: unknown op {_show(name)}; there are {', '.join(OPERATORS)}"
        )
    operands = expression["of"]
    if name == "select":
        chosen = operands[1] if evaluate(operands[0], scope, path, _depth + 1) else operands[2]
        return evaluate(chosen, scope, path, _depth + 1)
    values = [evaluate(operand, scope, path, _depth + 1) for operand in operands]
    if operator.divides and values[1] == 0:
        raise TkcError.at("TK414", f"{path}: {spell(expression)} divides by zero")
    return operator.compute(values)


def symbols(expression: Any) -> Iterator[str]:
    """The names that a checked expression reads, with repetitions."""
    if is_object(expression):
        if "sym" in expression:
            yield expression["sym"]
        for operand in expression.get("of", ()):
            yield from symbols(operand)


def strides(expression: Any) -> Iterator[tuple[str, int]]:
    """The (array, axis) pairs whose byte stride a checked expression reads, with repetitions."""
    if is_object(expression):
        if "stride" in expression:
            yield expression["stride"][0], expression["stride"][1]
        for operand in expression.get("of", ()):
            yield from strides(operand)


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "eq": "==", "lt": "<"}


def spell(expression: Any) -> str:
    """The expression as a person writes it, for messages: `min(sm_count, cdiv(M, 128))`."""
    if not is_object(expression):
        return str(expression)
    if "sym" in expression:
        return str(expression["sym"])
    if "stride" in expression:
        return f"stride({expression['stride'][0]}, {expression['stride'][1]})"
    name, parts = expression["op"], [spell(operand) for operand in expression["of"]]
    if name in _INFIX:
        return f"({f' {_INFIX[name]} '.join(parts)})"
    return f"{'cdiv' if name == 'ceildiv' else name}({', '.join(parts)})"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
