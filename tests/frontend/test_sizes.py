"""Integer expressions: folding, one form for equal ones, and what has no value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkc.frontend.sizes import FOLD, LIMIT, NoValue, Size, combine, label, show
from tkc.ir.stage.scalar import SCALARS


@pytest.mark.parametrize(
    ("kind", "a", "b", "value"),
    [
        ("add", 3, 4, 7), ("sub", 3, 4, -1), ("mul", 3, 4, 12), ("div", 7, 2, 3), ("cdiv", 7, 2, 4),
        ("mod", 7, 4, 3), ("min", 7, 4, 4), ("max", 7, 4, 7), ("cdiv", 8, 4, 2), ("cdiv", 0, 4, 0),
    ],
)  # fmt: skip
def test_numbers_fold(kind: str, a: int, b: int, value: int) -> None:
    assert combine(kind, a, b) == value


def test_kinds_are_those_of_the_ir() -> None:
    assert all(SCALARS[kind].arity == 2 for kind in FOLD)


def test_equal_expressions_are_equal() -> None:
    assert combine("mul", 2, "M") == combine("mul", "M", 2)
    assert combine("add", combine("mul", "N", "M"), 1) == combine(
        "add", 1, combine("mul", "M", "N")
    )
    assert combine("sub", "M", "N") != combine("sub", "N", "M")
    assert combine("mul", "M", 1) == combine("div", "M", 1) == combine("add", 0, "M") == "M"


def test_shown_as_written_and_as_one_word() -> None:
    size = combine("mul", combine("cdiv", combine("add", "M", 3), 2), combine("sub", "N", 1))
    assert show(size) == "(N - 1) * cdiv(M + 3, 2)" or show(size) == "cdiv(M + 3, 2) * (N - 1)"
    assert label(combine("cdiv", "M", 2)) == "cdiv.M.2"
    assert label(128) == 128


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [("div", "M", 0), ("mod", 4, 0), ("cdiv", 0, 0), ("mul", LIMIT, 2), ("sub", -LIMIT, 1)],
)
def test_no_value(kind: str, a: Size, b: Size) -> None:
    with pytest.raises(NoValue):
        combine(kind, a, b)


def test_an_expression_cannot_grow_without_end() -> None:
    size: Size = "M"
    for _ in range(6):
        size = combine("mul", size, size)
    with pytest.raises(NoValue, match="64 terms"):
        combine("mul", size, size)


def value(size: Size, names: dict[str, int]) -> int:
    if isinstance(size, tuple):
        return FOLD[size[0]](value(size[1], names), value(size[2], names))
    return names[size] if isinstance(size, str) else size


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_folding_keeps_the_value(data: st.DataObject) -> None:
    names = {"M": data.draw(st.integers(1, 99)), "N": data.draw(st.integers(1, 99))}
    leaf = st.sampled_from(["M", "N", 1, 2, 3])
    size: Size = data.draw(leaf)
    wanted = value(size, names)
    for _ in range(data.draw(st.integers(0, 4))):
        kind, other = data.draw(st.sampled_from(sorted(FOLD))), data.draw(leaf)
        if data.draw(st.booleans()) and wanted > 0:
            size, wanted = combine(kind, other, size), FOLD[kind](value(other, names), wanted)
        else:
            size, wanted = combine(kind, size, other), FOLD[kind](wanted, value(other, names))
    assert value(size, names) == wanted
