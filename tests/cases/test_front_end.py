"""FE: messages and places of the front end and of the dialects."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from mangle import SOURCES, mangle
from programs import GEMM, changed
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.utils.exceptions import VerifyException

from tkc import driver
from tkc.diagnostics import Bug, TkcError
from tkc.frontend import compile_source
from tkc.ir import DIALECTS
from tkc.ir.tile.ops import MmaOp
from tkc.job import Job

ROOT = Path(__file__).parents[2]


class Met:
    """An observer that notes the names of operations."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def begin(self, module, step, seconds) -> None:  # type: ignore[no-untyped-def]
        self.names |= {op.name for op in module.walk()}

    def before(self, module, step) -> None: ...  # type: ignore[no-untyped-def]

    def after(self, module, step, seconds) -> None:  # type: ignore[no-untyped-def]
        self.names |= {op.name for op in module.walk()}

    def phase(self, name: str, seconds: float) -> None: ...

    def end(self, compiled) -> None: ...  # type: ignore[no-untyped-def]


def test_FE_1_every_operation_is_built_once() -> None:
    """By a lit test, which parses and prints it, or on the way of an example: a definition that cannot be built shows.

    The operations of `ptx` are made of rows, and `tests/ir/ptx` builds each.
    """
    texts = "\n".join(p.read_text() for p in (ROOT / "lit_tests").rglob("*.mlir"))
    wanted = {op.name for d in ("tile", "stage") for op in DIALECTS[d]().operations}
    assert len(wanted) > 80
    missing = {n for n in wanted if not re.search(rf"{re.escape(n)}(?![\w.])", texts)}
    built = Met()
    runs = sorted((ROOT / "lit_tests" / "run").glob("*.tk"))
    programs = {**{p.name: p.read_text(encoding="utf-8") for p in runs}, **SOURCES}
    for after in ("frontend", None):  # the whole way only where the first step leaves something
        for name, text in programs.items():
            for target in ("sm_90a", "sm_100a"):
                if not missing - built.names:
                    return
                try:
                    module = driver.to_module(Job(text, name, target), [built], after=after)
                    built.names |= {op.name for op in module.walk()}
                except TkcError:
                    continue  # an example for the other target
    assert missing - built.names == set()


SLIPS = [
    ("schedule work: m, n in", "schedule work: m n in"),
    ("param BM = 128,", "param BM = 128 3 * * 3,"),
    ("role load:", "role load"),
    ("a <- A[m, k]", "a < - A[m, k]"),
    ("pipe inputs(a, b): load -> math", "pipe inputs(a b): load -> math"),
    ("shared a: tile[bf16, BM, BK] * STAGES", "shared a: tile[bf16 BM, BK] * STAGES"),
]


@pytest.mark.parametrize(("right", "wrong"), SLIPS)
def test_FE_3_a_syntax_error_speaks_of_words_and_shows_the_place(right: str, wrong: str) -> None:
    text = changed(GEMM, (right, wrong))
    with pytest.raises(TkcError) as caught:
        compile_source(text, "k.tk")
    first = caught.value.diagnostics[0]
    assert first.location is not None
    line = 1 + text[: GEMM.index(right)].count("\n")
    assert first.location.line == line
    shown = caught.value.render().splitlines()
    assert shown[1].strip() == text.split("\n")[line - 1].strip()
    assert set(shown[2].strip()) == {"^"}


def test_FE_3_no_message_names_a_terminal_or_more_than_six_expectations(seed: int) -> None:
    rng = random.Random(seed)
    seen = 0
    while seen < 150:
        try:
            compile_source(mangle(rng, rng.choice(list(SOURCES.values()))), "k.tk")
        except TkcError as error:
            for found in error.diagnostics:
                seen += 1
                assert not re.search(
                    r"__ANON|\b(LPAR|RSQB|COMMA|_NEWLINE|_INDENT|\$END)\b", found.message
                )
                tail = found.message.partition(", expected ")[2]
                assert len(re.split(r", | or ", tail)) <= 6 + 1, found.message


def test_FE_5_a_shape_mismatch_is_at_its_statement() -> None:
    text = changed(GEMM, ("shared b: tile[bf16, BN, BK]", "shared b: tile[bf16, BN, 2 * BK]"),
                   ("b <- B[n, k]", "b <- B[n, k]"))  # fmt: skip
    with pytest.raises(TkcError) as caught:
        compile_source(text, "k.tk")
    lines = [
        text.split("\n")[d.location.line - 1].strip()
        for d in caught.value.diagnostics
        if d.location
    ]
    assert "d += a @ b.T" in lines or "b <- B[n, k]" in lines
    assert all(d.location and d.location.column for d in caught.value.diagnostics)


def test_FE_5_the_verifier_names_the_line_that_an_operation_came_from() -> None:
    module = driver.front(Job(GEMM, "k.tk"))
    product = next(op for op in module.walk() if isinstance(op, MmaOp))
    product.properties["nonsense"] = IntegerAttr(1, i32)
    line = next(n for n, row in enumerate(GEMM.split("\n"), 1) if "d += a @ b.T" in row)
    with pytest.raises(VerifyException, match=rf"^k\.tk:{line}:\d+: tile\.mma: "):
        driver.verify(module)
    with pytest.raises(Bug, match=rf"k\.tk:{line}:"):
        driver.run(Job(GEMM, "k.tk", verify_each=True), module=module)
