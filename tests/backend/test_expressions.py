"""The launch-time evaluator: exact integers, one meaning for each operator, refusals with their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tkc.backend import expressions
from tkc.backend.expressions import DEPTH_LIMIT, OPERATORS, Scope, check, evaluate, spell
from tkc.diagnostics import TkcError

SCOPE = Scope({"M": 1000, "N": 0, "big": 1 << 70}, {"A": (2048, 2)})


def reference(e: Any) -> int:
    """The same meaning written with Python's own operators over the text of the tree."""
    match e:
        case int():
            return e
        case {"sym": name}:
            return SCOPE.symbols[name]
        case {"stride": [array, axis]}:
            return SCOPE.strides[array][axis]
        case {"op": "select", "of": [c, a, b]}:
            return reference(a) if reference(c) != 0 else reference(b)
        case {"op": op, "of": of}:
            v = [reference(x) for x in of]
    result = v[0]
    for other in v[1:]:
        match op:
            case "add":
                result = result + other
            case "sub":
                result = result - other
            case "mul":
                result = result * other
            case "floordiv":
                result = divmod(result, other)[0]
            case "mod":
                result = divmod(result, other)[1]
            case "ceildiv":
                quotient, rest = divmod(result, other)
                result = quotient + (rest != 0)
            case "min":
                result = other if other < result else result
            case "max":
                result = other if other > result else result
            case "eq":
                result = 1 if result == other else 0
            case "lt":
                result = 1 if result < other else 0
    return result


LEAVES = st.one_of(
    st.integers(-(1 << 66), 1 << 66),
    st.sampled_from(
        [{"sym": "M"}, {"sym": "N"}, {"sym": "big"}, {"stride": ["A", 0]}, {"stride": ["A", 1]}]
    ),
)


def _node(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.builds(
        lambda op, of: {"op": op, "of": of},
        st.sampled_from(["add", "mul", "min", "max"]),
        st.lists(children, min_size=2, max_size=4),
    )
    two = st.builds(
        lambda op, of: {"op": op, "of": of},
        st.sampled_from(["sub", "floordiv", "ceildiv", "mod", "eq", "lt"]),
        st.lists(children, min_size=2, max_size=2),
    )
    three = st.builds(
        lambda of: {"op": "select", "of": of}, st.lists(children, min_size=3, max_size=3)
    )
    return st.one_of(many, two, three)


@given(st.recursive(LEAVES, _node, max_leaves=12))
def test_it_agrees_with_python(expression: Any) -> None:
    check(expression)
    try:
        expected = reference(expression)
    except ZeroDivisionError:
        with pytest.raises(TkcError, match=r"divides by zero.*TK414"):
            evaluate(expression, SCOPE)
        return
    assert evaluate(expression, SCOPE) == expected


@given(st.integers(-(1 << 80), 1 << 80), st.integers(-1000, 1000).filter(bool))
def test_ceildiv_is_the_least_number_that_covers(a: int, b: int) -> None:
    q = evaluate({"op": "ceildiv", "of": [a, b]}, SCOPE)
    assert (q - 1) * abs(b) < a * (1 if b > 0 else -1) <= q * abs(b)


def test_only_the_chosen_branch_is_evaluated() -> None:
    guarded = {
        "op": "select",
        "of": [{"op": "eq", "of": [{"sym": "N"}, 0]}, 5, {"op": "mod", "of": [7, {"sym": "N"}]}],
    }
    assert evaluate(guarded, SCOPE) == 5


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["op", "of", "sym", "stride", "x"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_stands_in_a_file_is_evaluated_or_refused(value: Any) -> None:
    """No exception but TkcError comes out of the check, and what passes it has a value or a TkcError."""
    if refusal(lambda: check(value)) is None:
        assert refusal(lambda: evaluate(value, SCOPE)) in (None, "TK411", "TK414")
    else:
        assert refusal(lambda: check(value)) == "TK411"


def refusal(call: Callable[[], object]) -> str | None:
    """The code of the TkcError that `call` ends in, None where it ends well."""
    try:
        call()
    except TkcError as error:
        return error.diagnostics[0].code
    return None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ({"op": "pow", "of": [2, 3]}, r"unknown op 'pow'; there are add, sub, mul"),
        ({"op": ["add"], "of": [2, 3]}, "unknown op"),
        ({"op": "sub", "of": [1]}, "sub takes 2 operands, found 1"),
        ({"op": "sub", "of": [1, 2, 3]}, "sub takes 2 operands, found 3"),
        ({"op": "add", "of": [1]}, "add takes at least 2 operands, found 1"),
        (
            {"op": "add", "of": [1, "x"]},
            r"grid\[0\]\.of\[1\]: expected an integer, sym, stride or op, found 'x'",
        ),
        ({"op": "add", "of": 3}, r"grid\[0\]\.of: expected a list"),
        (True, "expected an integer"),
        (1.5, "expected an integer"),
        ({"sym": 3}, r"grid\[0\]\.sym: expected a name"),
        ({"stride": ["A", -1]}, r"expected \[array, axis\]"),
        ({"sym": "M", "op": "add"}, "expected the keys sym, or stride, or op and of"),
    ],
)
def test_refusals_name_their_place(expression: Any, said: str) -> None:
    with pytest.raises(TkcError, match=said):
        check(expression, "grid[0]")


def test_depth_is_limited() -> None:
    nested: Any = 1
    for _ in range(DEPTH_LIMIT):
        nested = {"op": "add", "of": [nested, 1]}
    check(nested)
    assert evaluate(nested, SCOPE) == DEPTH_LIMIT + 1
    for _ in range(100_000):
        nested = {"op": "add", "of": [nested, 1]}
    for run in (check, lambda e: evaluate(e, SCOPE)):
        with pytest.raises(TkcError, match="nested deeper than 64 levels"):
            run(nested)


def test_names_and_strides_are_found() -> None:
    e = {
        "op": "add",
        "of": [{"sym": "M"}, {"op": "mul", "of": [{"stride": ["A", 0]}, {"sym": "M"}]}],
    }
    assert list(expressions.symbols(e)) == ["M", "M"]
    assert list(expressions.strides(e)) == [("A", 0)]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(TkcError, match="symbol Q has no value here"):
        evaluate({"sym": "Q"}, SCOPE)
    with pytest.raises(TkcError, match="array A has no axis 2"):
        evaluate({"stride": ["A", 2]}, SCOPE)


def test_the_device_is_asked_only_for_its_own_symbols() -> None:
    asked: list[str] = []

    def device(name: str) -> int:
        asked.append(name)
        return 132

    scope = Scope({"M": 1}, {}, device)
    assert evaluate({"op": "max", "of": [{"sym": "sm_count"}, {"sym": "M"}]}, scope) == 132
    assert asked == ["sm_count"]
    with pytest.raises(TkcError, match="symbol elsewhere has no value"):
        evaluate({"sym": "elsewhere"}, scope)


def test_spelling() -> None:
    tiles = {"op": "mul", "of": [{"op": "ceildiv", "of": [{"sym": "M"}, 128]}, 2]}
    assert (
        spell({"op": "min", "of": [{"sym": "sm_count"}, tiles]})
        == "min(sm_count, (cdiv(M, 128) * 2))"
    )
    assert set(OPERATORS) == {*"add sub mul floordiv ceildiv mod min max eq lt select".split()}
