"""`def`, imports, assertions, and conditions that are known at compile time."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import changed, compiled, elementwise, mistakes, only

from tkc.diagnostics import TkcError
from tkc.frontend import compile_source
from tkc.ir.contract import from_attribute
from tkc.ir.tile.ops import KernelOp

CLAMP = """
def clamp(x, low, high):
    return min(max(x, low), high)
"""


def count(text: str, what: str) -> int:
    return str(compiled(text)).count(what)


def test_a_call_is_the_functions_expression() -> None:
    text = elementwise("Z[m, n] <- clamp(read(y), 0, 1)") + CLAMP
    direct = elementwise("Z[m, n] <- min(max(read(y), 0), 1)")
    assert count(text, "tile.map") == count(direct, "tile.map") == 2


def test_an_argument_that_is_used_twice_is_made_once() -> None:
    square = "def square(x):\n    y = x * x\n    return y + x\n"
    assert count(elementwise("Z[m, n] <- square(read(y))") + square, "tile.read") == 1


def test_functions_take_sizes_and_blocks() -> None:
    twice = "def twice(n):\n    return n * 2\n"
    text = changed(elementwise("Z[m, n] <- read(y)"), ("BN = 64", "BN = twice(32)")) + twice
    assert "params = {BM = 128 : i64, BN = 64 : i64}" in str(compiled(text))


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("clamp(read(y), 0)", "TK116", "`clamp` takes 3 values, not 2"),
        ("clomp(read(y), 0, 1)", "TK102", "did you mean `clamp`"),
        ("clamp(read(y), low = 0, high = 1)", "TK116", "takes 3 values"),
    ],
)
def test_a_wrong_call_is_explained(line: str, code: str, words: str) -> None:
    said = only(mistakes(elementwise(f"Z[m, n] <- {line}") + CLAMP))
    assert said.code == code
    assert words in said.message


@pytest.mark.parametrize(
    ("define", "words"),
    [
        ("def f(x):\n    return f(x)\n", "`f` calls itself"),
        ("def f(x):\n    y = x\n", "returns nothing"),
        ("def f(x):\n    y += x\n    return y\n", "a function holds `name = value`"),
        ("def f(x):\n    return x + scale\n", "unknown name `scale`"),
        ("def f(x):\n    return x\ndef f(y):\n    return y\n", "defined twice"),
        ("def exp(x):\n    return x\n", "a word of the language"),
    ],
)
def test_a_wrong_function_is_explained(define: str, words: str) -> None:
    text = elementwise("Z[m, n] <- f(read(y))", arguments=", scale: f32") + define
    assert any(words in s.message for s in mistakes(text))


@pytest.mark.parametrize(
    ("define", "code", "words", "place"),
    [
        ("def f(x): f(x) + 1\n", "TK101", "an expression alone does nothing", "f(x) + 1"),
        ("def f(x):\n    return 1 + f(x)\n", "TK117", "`f` calls itself", "f(x)"),
        (
            "def f(x):\n    y = x + nosuch\n    return y\n",
            "TK102",
            "unknown name `nosuch`",
            "nosuch",
        ),
        ("def f(x):\n    return expp(x)\n", "TK102", "did you mean `exp`", "expp"),
    ],
)
def test_a_function_that_nothing_calls_is_checked(
    define: str, code: str, words: str, place: str
) -> None:
    said = only(mistakes(elementwise("Z[m, n] <- read(y)") + define))
    assert (said.code, said.text) == (code, place)
    assert words in said.message


@pytest.mark.parametrize(
    "define",
    [
        "def f(x, n):\n    return x if n == 0 else f(x * 2, n - 1)\n",
        "def f(q, j):\n    return causal(q, j) and any(q <= j)\n",
        "def f(p, x):\n    put p: x = 0\n",
        "def f(x):\n    return g(x)\ndef g(x):\n    return exp(-x) if x < inf else f32(0)\n",
        "def f(x, n):\n    if n > 0:\n        f(x, n - 1)\n",
    ],
)
def test_what_a_call_may_make_right_is_left_to_it(define: str) -> None:
    compiled(elementwise("Z[m, n] <- read(y)") + define)


# Imports


def test_functions_come_from_files_beside_and_in_the_search_path(tmp_path: Path) -> None:
    beside, library = tmp_path / "k", tmp_path / "lib"
    beside.mkdir()
    library.mkdir()
    (beside / "near.tk").write_text(
        "from far import clamp\ndef unit(x):\n    return clamp(x, 0, 1)\n"
    )
    (library / "far.tk").write_text(CLAMP)
    text = "from near import unit\n" + elementwise("Z[m, n] <- unit(read(y))")
    module = compile_source(text, str(beside / "k.tk"), search=[str(library)])
    assert str(module).count("tile.map") == 2


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("from near import unit", "TK112", "no file `near.tk`"),
        ("from far import clomp", "TK102", "far.tk has no function `clomp`; did you mean `clamp`"),
        ("from broken import clamp", "TK101", "is never closed"),
        ("from k import clamp", "TK112", "k.tk imports itself; its own functions need no import"),
        (
            "from round import clamp",
            "TK112",
            "round.tk is imported by itself: round.tk -> back.tk -> round.tk",
        ),
    ],
)
def test_a_wrong_import_is_explained_once(tmp_path: Path, line: str, code: str, words: str) -> None:
    (tmp_path / "far.tk").write_text(CLAMP)
    (tmp_path / "broken.tk").write_text("def clamp(x:\n    return x\n")
    (tmp_path / "round.tk").write_text("from back import clamp\n")
    (tmp_path / "back.tk").write_text("from round import clamp\n")
    name = line.split()[-1]
    text = f"{line}\n" + elementwise(f"Z[m, n] <- {name}(read(y), 0, 1)")
    (tmp_path / "k.tk").write_text(text)
    with pytest.raises(TkcError) as raised:
        compile_source(text, str(tmp_path / "k.tk"), search=[str(tmp_path)])
    (found,) = raised.value.diagnostics
    assert found.code == code
    assert words in found.message


def test_a_mistake_in_another_file_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "far.tk").write_text("def f(x):\n    return x + y\n")
    text = "from far import f\n" + elementwise("Z[m, n] <- f(read(y))")
    with pytest.raises(TkcError) as raised:
        compile_source(text, "k.tk", search=[str(tmp_path)])
    (found,) = raised.value.diagnostics
    assert found.location is not None
    assert (found.location.file, found.location.line) == (str(tmp_path / "far.tk"), 2)
    assert "return x + y" in str(raised.value)


# Assertions and conditions


def asserting(line: str) -> str:
    return changed(
        elementwise("Z[m, n] <- read(y)"), ("    launch", f"    assert {line}\n    launch")
    )


def test_what_the_launch_knows_is_required_of_it() -> None:
    module = compiled(asserting("M % 8 == 0 and not N > 64"))
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    assert kernel.requires is not None
    whole = {"op": "eq", "of": [{"op": "mod", "of": [{"sym": "M"}, 8]}, 0]}
    small = {"op": "select", "of": [{"op": "lt", "of": [64, {"sym": "N"}]}, 0, 1]}
    assert from_attribute(kernel.requires) == [
        {
            "test": {"op": "min", "of": [whole, small]},
            "message": "the program asserts `M % 8 == 0 and not N > 64`",
        }
    ]


@pytest.mark.parametrize("line", ["BM % 64 == 0", "BM != BN or M > 0", "M == M", "not BN > BM"])
def test_what_holds_is_not_required(line: str) -> None:
    (kernel,) = (op for op in compiled(asserting(line)).walk() if isinstance(op, KernelOp))
    assert kernel.requires is None


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("BM % 100 == 0", "TK117", "`BM % 100 == 0` does not hold with BM = 128"),
        ("BM", "TK106", "a condition compares integers, and this is the integer 128"),
        ("1.0 < 2.0", "TK110", "conditions on anything but integers"),
    ],
)
def test_a_wrong_assertion_is_explained(line: str, code: str, words: str) -> None:
    said = only(mistakes(asserting(line)))
    assert said.code == code
    assert words in said.message


def test_the_arm_that_is_taken_is_compiled() -> None:
    text = elementwise(
        "if BM == 64: v = nothing",
        "elif BM > 64: v = exp(read(y))",
        "else: v = nothing",
        "Z[m, n] <- v if BN < 128 else nothing",
    )
    assert count(text, "tile.map") == 1
    known_later = elementwise("v = read(y)", "if M > 64: v = read(y) * 2", "Z[m, n] <- v")
    assert count(known_later, "stage.if") == 1
