"""What conditions test: lanes, warps, elections and what is the same everywhere; what goes round loops."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr, i1, i32
from xdsl.ir import Block, Region, SSAValue

from tkc.analysis.guards import Guard, Varies, guard_of, varies
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp, WhileOp
from tkc.ir.stage.scalar import arith, const


def identity(which: str) -> SSAValue:
    return IdentityOp.create(properties={"which": StringAttr(which)}, result_types=[i32]).value


def number(value: int) -> SSAValue:
    return const(value).value


def test(kind: str, *inputs: SSAValue) -> SSAValue:
    return arith(kind, *inputs).value


test.__test__ = False  # type: ignore[attr-defined]


def elected(scope: str) -> SSAValue:
    return s.ElectedOp.create(properties={"scope": StringAttr(scope)}, result_types=[i1]).value


@pytest.mark.parametrize(
    ("which", "kind", "by", "compare", "to", "found"),
    [
        ("lane", None, 0, "eq", 0, Guard(lane=True)),
        ("lane", None, 0, "eq", 31, Guard(lane=True)),
        ("lane", None, 0, "eq", 32, Guard(lane=True, never=True)),
        ("lane", None, 0, "lt", 1, Guard(lane=True)),
        ("lane", None, 0, "lt", 2, None),
        ("lane", None, 0, "ne", 0, None),
        ("warp", None, 0, "eq", 3, Guard(warp=3)),
        ("warp", None, 0, "lt", 1, Guard(warp=0)),
        ("thread", None, 0, "eq", 70, Guard(lane=True, warp=2)),
        ("thread", "mod", 32, "eq", 0, Guard(lane=True)),
        ("thread", "and", 31, "eq", 5, Guard(lane=True)),
        ("thread", "mod", 64, "eq", 0, None),
        ("thread", "and", 15, "eq", 0, None),
        ("thread", "div", 32, "eq", 2, Guard(warp=2)),
        ("thread", "shr", 5, "eq", 1, Guard(warp=1)),
        ("thread", "shr", 6, "eq", 1, None),
    ],
)
def test_a_number_that_is_tested(
    which: str, kind: str | None, by: int, compare: str, to: int, found: Guard | None
) -> None:
    value = identity(which)
    if kind is not None:
        value = test(kind, value, number(by))
    assert guard_of(test(compare, value, number(to))) == found


def test_conditions_in_one() -> None:
    lane = test("eq", identity("lane"), number(0))
    warp = test("eq", number(1), identity("warp"))
    same = test(
        "lt",
        s.SizeOp.create(properties={"symbol": StringAttr("n")}, result_types=[i32]).value,
        number(4),
    )
    assert guard_of(same) == Guard(rest=(same,))
    assert guard_of(test("and", test("and", lane, same), warp)) == Guard(True, 1, "", (same,))
    assert guard_of(test("and", elected("one"), same)) == Guard(True, None, "one", (same,))
    assert guard_of(test("and", lane, lane)) == Guard(True)
    assert guard_of(test("and", lane, elected("one"))) is None
    assert guard_of(test("or", lane, warp)) is None
    assert guard_of(test("and", warp, test("eq", identity("warp"), number(1)))) == Guard(warp=1)


def test_what_no_thread_is() -> None:
    warp, thread = (
        test("eq", identity("warp"), number(0)),
        test("eq", identity("thread"), number(40)),
    )
    assert guard_of(test("and", warp, thread)) == Guard(True, 0, never=True)
    five = test("eq", identity("thread"), number(5))
    assert guard_of(test("and", warp, five)) == Guard(True, 0)
    assert guard_of(test("and", thread, test("eq", identity("lane"), number(7)))) == Guard(
        True, 1, never=True
    )
    assert guard_of(test("and", thread, test("eq", identity("lane"), number(8)))) == Guard(True, 1)


def test_what_differs_goes_round_a_loop() -> None:
    def loop(init: SSAValue, step: SSAValue | None) -> SSAValue:
        body = Block(arg_types=[i32, i32])
        after = body.args[1] if step is None else arith("add", body.args[1], step)
        if not isinstance(after, SSAValue):
            body.add_op(after)
            after = after.value
        body.add_op(s.YieldOp.create(operands=[after]))
        bounds = [number(0), number(4), number(1)]
        op = s.ForOp.create(operands=[*bounds, init], regions=[Region(body)], result_types=[i32])
        assert varies(body.args[0]) is Varies.NOWHERE
        assert varies(body.args[1]) is varies(op.carried[0])
        return op.carried[0]

    assert varies(loop(number(0), None)) is Varies.NOWHERE
    assert varies(loop(number(0), number(2))) is Varies.NOWHERE
    assert varies(loop(identity("warp"), None)) is Varies.BY_WARP
    assert varies(loop(number(0), identity("thread"))) is Varies.BY_LANE
    assert varies(loop(number(0), test("div", identity("thread"), number(32)))) is Varies.BY_WARP


def test_a_loop_that_lanes_leave_one_by_one() -> None:
    test_block, body = Block(arg_types=[i32]), Block(arg_types=[i32])
    compare = arith("lt", test_block.args[0], identity("lane"))
    test_block.add_ops([compare, s.YieldOp.create(operands=[compare.value])])
    body.add_op(s.YieldOp.create(operands=[body.args[0]]))
    regions = [Region(test_block), Region(body)]
    op = WhileOp.create(operands=[number(0)], regions=regions, result_types=[i32])
    assert varies(op.carried[0]) is Varies.BY_LANE
    assert varies(body.args[0]) is Varies.BY_LANE


def test_a_condition_hands_on_what_differs() -> None:
    sides = [Region(Block([s.YieldOp.create(operands=[number(n)])])) for n in (0, 1)]
    p = test("eq", identity("warp"), number(0))
    op = s.IfOp.create(operands=[p], regions=sides, result_types=[i32])
    assert varies(op.values[0]) is Varies.BY_WARP
