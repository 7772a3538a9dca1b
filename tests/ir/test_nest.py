"""What is round an operation."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from tkc.ir.nest import around, outward
from tkc.ir.stage import ops as s


def test_around_names_what_an_operation_stands_in() -> None:
    last = s.YieldOp.create()
    inner = ModuleOp(Region(Block([last])))
    outer = ModuleOp(Region(Block([inner])))
    assert [*around(last)] == [inner, outer]
    assert [*around(last.parent_block())] == [inner, outer]
    assert [*outward(inner)] == [inner, outer]
    assert [*around(outer)] == [*around(s.YieldOp.create())] == [*around(Block())] == []
