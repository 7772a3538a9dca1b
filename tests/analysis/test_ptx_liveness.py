"""Liveness: segments of straight code, loops, branches, and instructions that print several lines."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tkc.analysis.ptx_liveness import Liveness, Segment, loop_parts, terminator_values
from tkc.ir.ptx.control import ForOp, IfOp
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.ptx.registers import reg


def segments(fill: Callable[[Emit], list[SSAValue]]) -> list[list[Segment]]:
    """The segments of the values that `fill` returns. Operation n of the text reads at 2n and writes at 2n + 1."""
    op, emit = kernel("k", reqntid=32)
    values = fill(emit)
    op.verify()
    found = Liveness(op.body.block).segments
    return [found.get(v, []) for v in values]


def test_straight_code() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        a = emit.special("%tid.x")  # 1
        b = emit.add(".u32", a, a)  # 2
        c = emit.add(".u32", b, a)  # 3
        return [a, b, c]

    assert segments(fill) == [[(3, 6)], [(5, 6)], [(7, 7)]]


def test_constants_and_undefined_values_have_no_segments() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        return [emit.imm(4), emit.undef("b32"), emit.add(".u32", 4, emit.undef("b32"))]

    assert [bool(s) for s in segments(fill)] == [False, False, True]


def test_a_part_keeps_its_tuple_alive() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        a = emit("mov", ".b32", emit.special("%tid.x"), results=reg("b32", 4))  # 1, 2
        b = emit.slice(emit.slice(a, 0, 2), 1)  # 3, 4
        emit.add(".u32", b, b)  # 5
        return [a, b]

    assert segments(fill) == [[(5, 10)], []]


def test_a_mapped_instruction_reads_a_scalar_until_its_last_line() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        x = emit.special("%tid.x")  # 1
        a = emit("mov", ".b32", x, results=reg("b32", 4))  # 2
        b = emit.add(".u32", a, x)  # 3
        c = emit.add(".u32", b, emit.slice(b, 2))  # 4 is the slice, 5
        return [x, a, b, c]

    assert segments(fill) == [[(3, 7)], [(5, 6)], [(7, 11)], [(11, 11)]]


def test_what_a_loop_reads_from_outside_lives_to_its_end() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        a = emit.special("%tid.x")  # 1
        n = emit.special("%ctaid.x")  # 2
        found: list[SSAValue] = [a, n]

        def turn(i: SSAValue, c: SSAValue) -> list[SSAValue]:  # the loop is 3, its region 4
            following = emit.add(".u32", c, a)  # 5
            found.extend([i, c, following])
            return [following]  # 6, the loop ends at 7

        (r,) = emit.for_(n, n, n, turn, [n])
        emit.add(".u32", r, r)  # 8
        return [*found, r]

    a, n, i, c, following, r = segments(fill)
    assert a == [(3, 14)]
    assert n == [(5, 14)]
    assert i == [(7, 14)]
    # The argument dies at its last use, and its register is written again at the end of the turn.
    assert c == [(7, 10), (13, 14)]
    assert following == [(11, 12)]
    assert r == [(15, 16)]


def test_a_value_that_one_side_reads_is_dead_on_the_other() -> None:
    def fill(emit: Emit) -> list[SSAValue]:
        a = emit.special("%tid.x")  # 1
        b = emit.special("%ctaid.x")  # 2
        p = emit.setp(".lt.u32", a, b)  # 3
        found: list[SSAValue] = []

        def then() -> list[SSAValue]:  # the branch is 4, this side 5
            found.append(emit.add(".u32", a, 1))  # 6
            return [found[0]]  # 7

        def otherwise() -> list[SSAValue]:  # 8
            found.append(emit.add(".u32", b, 1))  # 9
            return [found[1]]  # 10, the branch ends at 11

        (r,) = emit.if_(p, then, otherwise)
        emit.add(".u32", r, b)  # 12
        return [a, b, p, *found, r]

    a, b, p, first, second, r = segments(fill)
    # Constants come first in the block, so that everything else moves by one.
    assert a == [(5, 10), (12, 14)]
    assert b == [(7, 26)]
    assert p == [(9, 10)]
    assert (first, second) == ([(15, 16)], [(21, 22)])
    assert r == [(17, 17), (23, 23), (25, 26)]


def test_inner_loops_come_first() -> None:
    op, emit = kernel("k", reqntid=32)
    p = emit.undef("pred")
    emit.for_(
        0, 4, 1, lambda i: emit.if_(p, lambda: emit.for_(0, 4, 1, lambda j: None) and None) and None
    )
    structured = Liveness(op.body.block).structured
    assert [type(o) for o in structured] == [ForOp, IfOp, ForOp]
    assert structured[2].parent_op() is op


def test_the_parts_of_loops() -> None:
    _, emit = kernel("k", reqntid=32)
    a, b = emit.undef("b32"), emit.undef("b32")
    emit.while_(lambda x, y: emit.setp(".lt.u32", x, y), lambda x, y: [y, x], [a, b])
    op = emit.block.last_op
    inits, rows, following = loop_parts(op)
    assert list(inits) == [a, b]
    assert [len(row) for row in rows] == [2, 2]
    assert list(following) == [rows[1][1], rows[1][0]] == list(terminator_values(op.body))
