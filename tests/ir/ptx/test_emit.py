"""The builder: arguments in the order of the manual, constants, addresses, result types, and its complaints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr

from tkc.diagnostics import Bug
from tkc.ir.contract import to_attribute
from tkc.ir.locations import file_location
from tkc.ir.ptx.control import ForOp, IfOp, YieldOp
from tkc.ir.ptx.emit import At, Emit, kernel
from tkc.ir.ptx.instruction import Instruction
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.ptx.values import ImmOp


@pytest.fixture
def emit() -> Emit:
    return kernel("k", [("x", "pointer"), ("m", "tensormap")], reqntid=32)[1]


def last(emit: Emit) -> Instruction:
    op = emit.block.last_op
    assert isinstance(op, Instruction)
    op.verify()
    return op


def test_modifiers_in_any_portions(emit: Emit) -> None:
    a = emit.undef("f32")
    for made in (
        emit("cvt.x2", ".rn.bf16x2", a, a),
        emit("cvt.x2", ".rn", ".bf16x2", a, a),
        emit("cvt.x2", ".rn", a, a, type=".bf16x2"),
        emit("cvt.x2", a, a, round=".rn", type=".bf16x2", relu=None),
    ):
        assert type_of(made) is reg("b32")
        assert last(emit).modifiers == {"round": ".rn", "type": ".bf16x2"}
        assert last(emit).spelling.mnemonic == "cvt.rn.bf16x2.f32"


def test_the_longest_modifier_that_leaves_room_for_the_rest(emit: Emit) -> None:
    emit.ld(".shared::cta.b32", emit.undef("b32"))
    assert last(emit).modifiers == {"space": ".shared::cta", "type": ".b32"}
    emit.ld(".shared.b32", emit.undef("b32"))
    assert last(emit).modifiers == {"space": ".shared", "type": ".b32"}


def test_constants_are_made_once_and_stand_first(emit: Emit) -> None:
    a = emit.undef("b32")
    emit.add(".u32", a, 5)
    emit.add(".u32", 5, a)
    emit.add(".u64", 5, emit.undef("b64"))
    emit.for_(0, 2, 1, lambda i: emit.add(".u32", i, 7) and None)
    constants = [op for op in emit.block.ops if isinstance(op, ImmOp)]
    assert list(emit.block.ops)[: len(constants)] == constants
    found = [(c.value.value.data, type_of(c.result).kind) for c in constants]
    assert found == [(5, "b32"), (5, "b64"), (0, "b32"), (2, "b32"), (1, "b32"), (7, "b32")]


def test_floats_become_their_bits(emit: Emit) -> None:
    made = emit.add(".f32", emit.undef("f32"), 1.5)
    assert last(emit).operands[1].owner.text == "0f3FC00000"  # pyright: ignore
    assert emit.float(-0.0, "f64").owner.text == "0d8000000000000000"  # pyright: ignore
    assert type_of(made) is reg("f32")
    with pytest.raises(Bug, match="class b32"):
        emit.float(1.5, "b32")


def test_addresses_with_offsets(emit: Emit) -> None:
    bar = emit.undef("b32")
    emit("mbarrier.init", ".shared::cta", At(bar, 16), 1)
    assert last(emit).properties["bar_offset"] == IntegerAttr(16, 64)
    emit("mbarrier.init", ".shared::cta", At(bar, 0), 1)
    assert "bar_offset" not in last(emit).properties
    emit("mbarrier.init", ".shared::cta", bar, 1, bar_offset=8)
    assert last(emit).properties["bar_offset"] == IntegerAttr(8, 64)
    # ld and st say in their rows that they take an offset.
    emit.ld(".shared.b32", At(bar, -4))
    assert last(emit).properties["offset"] == IntegerAttr(-4, 64)
    emit.ld(".shared.b32", bar, offset=12)
    assert last(emit).properties["offset"] == IntegerAttr(12, 64)


def test_lists_as_values_or_as_one_tuple(emit: Emit) -> None:
    base = emit.undef("b64")
    whole = emit.undef("b32", 4)
    emit("st.vec", ".global.v4.b32", base, whole)
    assert len(last(emit).operands) == 2
    emit("st.vec", ".global.v4.b32", base, [emit.slice(whole, i) for i in range(4)])
    assert len(last(emit).operands) == 5
    emit("st.vec", ".global.v4.b32", base, [emit.slice(whole, 0, 2), 7, 8])
    assert len(last(emit).operands) == 4


def test_optional_operands_by_place_or_by_name(emit: Emit) -> None:
    bar = emit.undef("b32")
    emit("mbarrier.try_wait.parity", ".shared::cta", bar, 0)
    assert len(last(emit).operands) == 2
    emit("mbarrier.try_wait.parity", ".shared::cta", bar, 0, 100)
    emit("mbarrier.try_wait.parity", ".shared::cta", bar, 0, hint=100)
    assert len(last(emit).operands) == 3
    emit.ld(".global.b32", emit.undef("b64"), None)
    assert len(last(emit).operands) == 1


def test_immediates_and_symbols(emit: Emit) -> None:
    a = emit.undef("b32")
    emit.lop3(a, a, a, 0x96)
    assert last(emit).properties["table"] == IntegerAttr(0x96, 64)
    emit("mov.symbol", ".u32", "sm")
    assert last(emit).properties["symbol"] == StringAttr("sm")


def test_result_types(emit: Emit) -> None:
    a, four = emit.undef("b32"), emit.undef("b32", 4)
    assert type_of(emit.add(".u32", a, four)) is reg("b32", 4)
    assert type_of(emit.setp(".lt.u32", four, a)) is reg("pred", 4)
    assert type_of(emit("ld.vec", ".global.v2.f32", emit.undef("b64"))) is reg("f32", 2)
    assert type_of(emit("tcgen05.ld", ".16x256b.x4", a)) is reg("b32", 16)
    assert type_of(emit("tcgen05.ld", ".32x32b.x8", a, results=reg("f32", 8))) is reg("f32", 8)
    acc, desc = emit.undef("f32", 4), emit.undef("b64")
    shape = ".m64n8k16.f32.bf16.bf16"
    made = emit("wgmma.mma_async", shape, desc, desc, 1, 1, 1, 0, 0, acc)
    assert type_of(made) is reg("f32", 4)
    assert type_of(emit("wgmma.mma_async", shape, desc, desc, 1, c=made)) is reg("f32", 4)
    assert emit("wgmma.fence") is None
    low, high = emit("mov.unpack", ".b64", desc, results=[reg("b32"), reg("b32")])
    assert (type_of(low), type_of(high)) == (reg("b32"), reg("b32"))


def test_locations(emit: Emit) -> None:
    emit.location = file_location("k.tk", 3, 5)
    emit.add(".u32", 1, emit.undef("b32"))
    assert last(emit).location is emit.location


def test_loops_and_branches(emit: Emit) -> None:
    n = emit.undef("b32")
    (total,) = emit.for_(0, n, 1, lambda i, t: [emit.add(".u32", t, i)], [emit.imm(0)])
    op = total.owner
    assert isinstance(op, ForOp)
    assert op.nonempty is None
    emit.for_(0, 4, 1, lambda i: None)
    assert emit.block.last_op.nonempty == UnitAttr()  # pyright: ignore
    emit.for_(4, 4, 1, lambda i: None)
    assert emit.block.last_op.nonempty is None  # pyright: ignore
    p = emit.setp(".lt.u32", n, 4)
    assert emit.if_(p, lambda: None) == ()
    first, second = emit.if_(p, lambda: [n, total], lambda: (total, n), negated=True)
    op = first.owner
    assert isinstance(op, IfOp)
    assert op.negated == UnitAttr()
    assert isinstance(op.then.block.last_op, YieldOp)
    (r,) = emit.repeat(lambda x: (emit.setp(".ge.u32", x, 4), emit.add(".u32", x, 1)), [second])
    (w,) = emit.while_(
        lambda x: emit.setp(".lt.u32", x, 9), lambda x: [emit.add(".u32", x, r)], [r]
    )
    assert emit.repeat(lambda: emit.setp(".ge.u32", w, 4)) == ()
    parent = emit.block.parent_op()
    assert parent is not None
    parent.verify()


def test_a_kernel_says_only_what_it_must() -> None:
    op, _ = kernel("k", [("n", "u32")], reqntid=96)
    assert op.properties.keys() == {"sym_name", "params", "reqntid"}
    contract = to_attribute({"entry": "k"})
    op, _ = kernel("k", reqntid=96, min_ctas=2, cluster=2, shared_bytes=64, contract=contract)  # pyright: ignore
    op.verify()
    assert op.contract is contract
    assert (op.min_ctas, op.cluster, op.shared_bytes) == tuple(
        IntegerAttr(n, 64) for n in (2, 2, 64)
    )


MISTAKES: dict[str, tuple[Callable[[Emit], object], str]] = {
    "no such row": (lambda e: e("addd", ".u32", 1, 2), "no instruction 'addd'; nearest: .*add"),
    "no such modifier": (
        lambda e: e.add(".u33", 1, 2),
        "add has no modifiers '.u33'; it takes round",
    ),
    "modifier left out": (lambda e: e.add(1, 2), "add needs a type"),
    "slot with another text": (lambda e: e.add(1, 2, type=".q"), "add has no type .q: one of"),
    "too few": (lambda e: e.add(".u32", e.undef("b32")), "add needs b"),
    "too many": (lambda e: e.add(".u32", 1, 2, 3), "add takes a, b"),
    "unknown name": (lambda e: e.add(".u32", 1, 2, c=3), "add takes no further c"),
    "named twice": (lambda e: e.add(".u32", 1, 2, a=3), "add takes no further a"),
    "no operand at all": (lambda e: e.add(".u32", 1, "x"), "b of add cannot be 'x'"),
    "offset of no address": (lambda e: e.add(".u32", At(e.undef("b32"), 4), 1), "takes no offset"),
    "immediate from a register": (
        lambda e: e("wgmma.wait_group", e.undef("b32")),
        "count of wgmma.wait_group cannot be",
    ),
    "results unknown": (lambda e: e("mov.unpack", ".b64", e.undef("b64")), "types of its results"),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_bugs_of_ours(
    emit: Emit, make: Callable[[Emit], object], message: str
) -> None:
    with pytest.raises(Bug, match=message):
        make(emit)


def test_private_names_are_no_instructions(emit: Emit) -> None:
    with pytest.raises(AttributeError):
        _ = emit._nothing
