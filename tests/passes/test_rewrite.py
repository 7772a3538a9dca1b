"""Rewriting: new operations have the place of the old one, and nothing goes that no pattern removes."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Block
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tkc.ir.interned import integer
from tkc.ir.locations import file_location
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.ptx.instruction import Instruction
from tkc.ir.ptx.registers import reg
from tkc.ir.ptx.values import ImmOp, UndefOp
from tkc.ir.syntax import construct
from tkc.passes.rewrite import rewrite

PLACE, OTHER = file_location("k.tk", 3, 5), file_location("k.tk", 9, 1)


class Count(RewritePattern):
    """A constant above 0 becomes the next lower one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ImmOp, rewriter: PatternRewriter, /) -> None:
        value = op.value.value.data
        if value:
            rewriter.replace(
                op, construct(ImmOp, (), (op.result.type,), {"value": integer(value - 1, i64)})
            )


class Spread(RewritePattern):
    """An undefined register becomes three operations, of which one has a place of its own and one a region."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UndefOp, rewriter: PatternRewriter, /) -> None:
        inner, emit = kernel("inner", reqntid=32)
        emit.undef("b32")
        kept = construct(ImmOp, (), (reg("b32"),), {"value": integer(0, i64)}, OTHER)
        new = construct(ImmOp, (), (reg("b32"),), {"value": integer(0, i64)})
        rewriter.replace(op, [inner, kept, new], [new.results[0]])


def module(fill) -> tuple[ModuleOp, Block]:
    made = ModuleOp([])
    emit = Emit(made.body.block, PLACE)
    fill(emit)
    return made, made.body.block


def test_new_operations_have_the_place_of_the_old() -> None:
    made, block = module(lambda e: e.add(".u32", e.undef("b32"), e.undef("b32")))
    assert rewrite(made, Spread())
    locations = [op.location for op in block.walk()]
    assert locations.count(OTHER) == 2
    assert set(locations) == {PLACE, OTHER}
    assert len(locations) == 2 * 4 + 1


def test_once_or_until_nothing_matches() -> None:
    def fill(emit: Emit) -> None:
        emit.insert(construct(ImmOp, (), (reg("b32"),), {"value": integer(3, i64)}, PLACE))

    for to_fixpoint, left in ((False, 2), (True, 0)):
        made, block = module(fill)
        assert rewrite(made, Count(), to_fixpoint=to_fixpoint)
        (op,) = block.ops
        assert isinstance(op, ImmOp)
        assert (op.value.value.data, op.location) == (left, PLACE)
        assert not rewrite(made, Count()) or not to_fixpoint


def test_a_read_without_uses_stays() -> None:
    made, block = module(
        lambda e: e("mbarrier.test_wait.parity", ".shared::cta", e.undef("b32"), 0)
    )
    assert not rewrite(made, Count(), to_fixpoint=True)
    assert any(isinstance(op, Instruction) for op in block.ops)


def test_the_first_pattern_that_matches_wins() -> None:
    class Never(RewritePattern):
        """Would undo `Count`."""

        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: ImmOp, rewriter: PatternRewriter, /) -> None:
            raise AssertionError("the first pattern matched")

    def fill(emit: Emit) -> None:
        emit.insert(construct(ImmOp, (), (reg("b32"),), {"value": integer(1, i64)}, PLACE))

    made, _ = module(fill)
    assert rewrite(made, Count(), Never())
