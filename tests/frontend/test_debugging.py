"""`print` and `assert` in roles: what is accepted, what it becomes, what is said of a wrong one."""

from __future__ import annotations

import pytest
from programs import mistakes

from tkc.frontend import compile_source
from tkc.frontend.format import format_source
from tkc.ir.stage.debugging import AssertOp, PrintOp

PROGRAM = """\
def near(a, b):
    assert a < b + 8, "near"
    print("near", a)

kernel k(X: global[f32, N], B: global[f32, M, N]):
    launch persistent
    shared v: vector[f32, 128]
    role work, warps 4:
        i = unit
        x = read(X[thread])
        {line}
"""


def program(line: str) -> str:
    return PROGRAM.replace("{line}", line)


@pytest.mark.parametrize(
    ("line", "format", "types"),
    [
        ('print("a 50% of", i, x)', "a 50%% of %d %g\n", ["i32", "f32"]),
        ("print()", "\n", []),
        ('print("")', "\n", []),
        ("print(1, 2.5, N, read(v[0][i]))", "%d %g %d %g\n", ["i32", "f32", "i32", "f32"]),
        ("near(i, N)", "near %d\n", ["i32"]),
    ],
)
def test_what_a_print_becomes(line: str, format: str, types: list[str]) -> None:
    ops = list(compile_source(program(line), "k.tk").walk())
    (found,) = (op for op in ops if isinstance(op, PrintOp))
    assert found.format.data == format
    assert [str(v.type) for v in found.values] == types


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('assert i < 3, "few"', "i < 3: few"),
        ("assert x < 3.0 and i < N", "x < 3.0 and i < N"),
        ("assert N < 4", "N < 4"),
        ("near(i, N)", "a < b + 8: near"),
        ('if i < 2: assert thread < 7, "50%"', "thread < 7: 50%"),
        ("assert 3 < 4", None),
    ],
)
def test_what_an_assert_becomes(line: str, told: str | None) -> None:
    ops = list(compile_source(program(line), "k.tk").walk())
    assert [op.told.data for op in ops if isinstance(op, AssertOp)] == ([told] if told else [])


@pytest.mark.parametrize(
    ("line", "code", "words", "place"),
    [
        ("assert 4 < 3", "TK117", "`4 < 3` does not hold", "assert 4 < 3"),
        ('assert 4 < 3, "so"', "TK117", "`4 < 3` does not hold: so", 'assert 4 < 3, "so"'),
        ("assert i", "TK106", "expected a condition", "i"),
        ("assert i < 3, i", "TK101", "expected", "i"),
        ("print(v)", "TK106", "`print` takes texts, integers and f32 numbers", "v"),
        ("print(i < 3)", "TK106", "`print` takes texts", "i < 3"),
        ("print(B[0, 0])", "TK106", "`print` takes texts", "B[0, 0]"),
        ("print(zz)", "TK102", "zz", "zz"),
        ('print("x", end = 1)', "TK116", "no options", "end"),
        (f"print({', '.join('i' for _ in range(33))})", "TK116", "at most 32", None),
        ('x = "a"', "TK106", "it is no value", '"a"'),
        ('i = i + "a"', "TK106", "it is no value", '"a"'),
        ('y = print("a")', "TK102", "print", None),
    ],
)
def test_a_wrong_one_is_explained(line: str, code: str, words: str, place: str | None) -> None:
    said = mistakes(program(line))
    assert len(said) == 1, said
    assert said[0].code == code
    assert words in said[0].diagnostic.message
    if place is not None:
        assert said[0].text == place


def test_a_program_may_call_something_else_print() -> None:
    text = program("print = i + 1\n        print2 = print * 2")
    assert not [op for op in compile_source(text, "k.tk").walk() if isinstance(op, PrintOp)]


def test_texts_stay_as_they_are() -> None:
    text = program('print( "a  b;c" ,i )')
    assert 'print("a  b;c", i)' in format_source(text, "k.tk")
