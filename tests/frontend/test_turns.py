"""Pipes by turns: item i goes to consumer i mod n, whose get is as under a condition."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import changed, compiled, mistakes

from tkc.ir.stage.ops import IfOp
from tkc.ir.tile import ops as t

PROGRAM = (Path(__file__).parents[2] / "lit_tests" / "run" / "turns.tk").read_text()


def test_each_role_knows_its_turn() -> None:
    module = compiled(PROGRAM)
    turns = [o for o in module.walk() if isinstance(o, t.TurnOp)]
    assert [(o.index.value.data, o.count.value.data) for o in turns] == [(0, 2), (1, 2)]
    for turn in turns:
        (use,) = turn.mine.uses
        assert isinstance(use.operation, IfOp)
        assert [o.name for o in use.operation.regions[1].block.ops] == ["tile.skip", "stage.yield"]


def test_the_roles_may_be_listed() -> None:
    text = changed(PROGRAM, ("add[2] by turns", "add by turns"))
    assert str(compiled(text)) == str(compiled(PROGRAM))


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("DEPTH = 2", "DEPTH = 3")], "TK104", "by turns of 2 roles, and `a` has 3 slots: a multiple of 2 fits"),
        ([("add[2] by turns", "add[3] by turns")], "TK104", "`add` takes turns of 3, and there are 2"),
        ([("add[2] by turns", "add[N] by turns")], "TK117", "the number of `add` by turns"),
        ([("add[2] by turns", "total by turns")], "TK116", "one role alone, `total`, takes no turns"),
        ([("by turns", "in turn")], "TK101", ""),
        ([("by turns", "by turn")], "TK101", "a pipe may end in `by turns`"),
        ([("            mine = full(0)\n", "")], "TK102", "mine"),
        (
            [("get blocks_of: mine = mine + row_sum(abs(read(a)))", "get blocks_of:\n                    put parts[i]: part[i] <- row_sum(read(a))")],
            "TK110", "inside a get of pipe blocks_of, which goes by turns",
        ),
        (
            [("pipe parts", "pipe other(b): load -> add\n    pipe parts"), ("    shared part", "    shared b: tile[f32, 128, 32]\n    shared part"),
             ("get blocks_of:", "get blocks_of, other:")],
            "TK110", "a get of several pipes of which one goes by turns",
        ),
    ],
)  # fmt: skip
def test_mistakes(changes: list[tuple[str, str]], code: str, message: str) -> None:
    said = [s for s in mistakes(changed(PROGRAM, *changes)) if message in s.message]
    assert said, [s.message for s in mistakes(changed(PROGRAM, *changes))]
    assert said[0].code == code
