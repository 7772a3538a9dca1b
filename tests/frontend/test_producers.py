"""R5: pipes that several roles fill, each tile by exactly one of them; and what their reductions are masked by."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import changed, compiled, mistakes

from tkc.ir.tile.vectors import ReduceOp

PROGRAM = (Path(__file__).parents[2] / "lit_tests" / "run" / "two-producers.tk").read_text()


def test_both_reductions_know_their_columns() -> None:
    """Of a tile that the copy engine brings, and of one that a role makes of such a tile."""
    reductions = [o for o in compiled(PROGRAM).walk() if isinstance(o, ReduceOp)]
    assert len(reductions) == 2
    assert all(o.block is not None for o in reductions)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("put both: b <- 0 - abs(read(raw)) - 0.5", "put both: a <- read(raw)", "TK103", "`a` of pipe both is written by role load and by role halve"),
        ("put both: b <- 0 - abs(read(raw)) - 0.5", "put both: z = read(raw)", "TK114", "no role writes `b`"),
        ("put both: a <- A[m, n]", "put both: a <- A[m, n]\n                put both: z = 1", "TK114", "role load writes `a` in one put of pipe both, and not in this"),
        ("                get source:\n                    put both: b <- 0 - abs(read(raw)) - 0.5", "                get source: z = read(raw)\n            for n in blocks(N // 2, 32): put both: b <- read(raw)", "TK109", "halve puts them by"),
        ("shared a, b: tile[f32, 128, 32] * 2", "accum a, b: tile[f32, 128, 32] * 2", "TK110", "an accumulator from several roles"),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, code: str, message: str) -> None:
    said = [s for s in mistakes(changed(PROGRAM, (old, new))) if message in s.message]
    assert said, [s.message for s in mistakes(changed(PROGRAM, (old, new)))]
    assert said[0].code == code
