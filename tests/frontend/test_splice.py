"""Functions that hold statements: what a call becomes, and what can be wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import changed, compiled, mistakes

from tkc.diagnostics import TkcError
from tkc.frontend import compile_source
from tkc.ir.locations import location_of
from tkc.ir.tile import ops as t

PROGRAM = (Path(__file__).parents[2] / "lit_tests" / "run" / "functions.tk").read_text()


def test_a_call_is_what_stands_in_the_function() -> None:
    """But for places and names."""
    spliced = changed(
        PROGRAM,
        ("put result: multiply(inputs, d, a, b, K, BK)", "put result:\n                d = 0\n                for k in blocks(K, BK):\n                    get inputs: d += a @ b.T"),
    )  # fmt: skip
    made, wanted = (
        [(o.name, str(o.result_types)) for o in compiled(t).walk()] for t in (PROGRAM, spliced)
    )
    assert made == wanted


def test_each_call_has_variables_of_its_own() -> None:
    text = changed(
        PROGRAM,
        ("x = below_the_top(relu(read(d)), 2)", "top = 3.0\n                x = below_the_top(relu(read(d)), 2) + top"),
    )  # fmt: skip
    said = mistakes(text)
    assert [s.code for s in said] == ["TK101"]  # part of a larger expression
    compiled(text.replace(" + top", "\n                x = x + top"))


@pytest.mark.parametrize(
    ("changes", "code", "message", "text"),
    [
        ([("multiply(inputs, d, a, b, K, BK)", "multiply(inputs, d, a, b, K)")], "TK116", "takes 6 values, not 5", "multiply(inputs, d, a, b, K)"),
        ([("multiply(inputs, d, a, b, K, BK)", "x = multiply(inputs, d, a, b, K, BK)")], "TK101", "returns nothing", "multiply(inputs, d, a, b, K, BK)"),
        ([("multiply(inputs, d, a, b, K, BK)", "multiply(K + 1, d, a, b, K, BK)")], "TK106", "something else is passed", "ring"),
        ([("get ring: d += a @ b.T", "get inputs: d += a @ b.T")], "TK102", "unknown name `inputs` in function `multiply`", "inputs"),
        ([("d += a @ b.T", "d += a @ c.T")], "TK102", "unknown name `c` in function `multiply`", "c"),
        ([("    d = 0\n", "    multiply(ring, d, a, b, K, BK)\n")], "TK117", "calls itself", "multiply(ring, d, a, b, K, BK)"),
        ([("below_the_top(relu(read(d)), 2)", "exp(below_the_top(relu(read(d)), 2))")], "TK101", "stands alone", "for i in range(turns)"),
    ],
)  # fmt: skip
def test_mistakes(changes: list[tuple[str, str]], code: str, message: str, text: str) -> None:
    said = [s for s in mistakes(changed(PROGRAM, *changes)) if message in s.message]
    assert said, [s.message for s in mistakes(changed(PROGRAM, *changes))]
    assert (said[0].code, said[0].text) == (code, text)


def apart(tmp_path: Path, *changes: tuple[str, str]) -> tuple[str, str]:
    """The program with `multiply` in a file of its own, where it calls a function of that file."""
    define = PROGRAM[PROGRAM.index("def multiply") : PROGRAM.index("def below")]
    define = changed(define, ("get ring: d += a @ b.T", "add(ring, d, a, b)"), *changes)
    (tmp_path / "parts.tk").write_text(
        "def add(ring, d, a, b):\n    get ring: d += a @ b.T\n" + define
    )
    return (
        "from parts import multiply\n" + PROGRAM.replace(PROGRAM[PROGRAM.index("def multiply") : PROGRAM.index("def below")], ""),
        str(tmp_path / "k.tk"),
    )  # fmt: skip


def test_a_function_of_another_file(tmp_path: Path) -> None:
    """The same operations, with their places in that file."""
    text, file = apart(tmp_path)
    made = list(compile_source(text, file).walk())
    wanted = list(compiled(PROGRAM).walk())
    assert [(o.name, str(o.result_types)) for o in made] == [
        (o.name, str(o.result_types)) for o in wanted
    ]
    (product,) = (o for o in made if isinstance(o, t.MmaOp))
    place = location_of(product)
    assert place is not None
    assert (place.file, place.line) == (str(tmp_path / "parts.tk"), 2)


def test_a_mistake_in_a_function_of_another_file_is_shown_there(tmp_path: Path) -> None:
    text, file = apart(tmp_path, ("d = 0", "d = nought"))
    with pytest.raises(TkcError) as caught:
        compile_source(text, file)
    (said,) = caught.value.diagnostics
    assert said.location is not None
    assert said.location.file == str(tmp_path / "parts.tk")
    assert "d = nought" in str(caught.value)
