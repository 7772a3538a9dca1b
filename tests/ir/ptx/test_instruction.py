"""Instructions as objects: names for operands, effects of a spelling, what xDSL's own tools see, and their lines."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.ptx.emit import At, Emit, kernel
from tkc.ir.ptx.instruction import Instruction, instruction, op_name, register_names, register_text
from tkc.ir.ptx.registers import reg, retype
from tkc.ir.ptx.values import is_constant, root
from tkc.ir.syntax import Operation


@pytest.fixture
def emit() -> Emit:
    return kernel("k", reqntid=32)[1]


def last(emit: Emit) -> Instruction:
    op = emit.block.last_op
    assert isinstance(op, Instruction)
    return op


def test_one_class_for_a_row() -> None:
    assert instruction("add") is instruction("add")
    assert issubclass(instruction("add"), Operation)
    assert (
        op_name("tcgen05.wait::ld") == "ptx.tcgen05.wait_ld" == instruction("tcgen05.wait::ld").name
    )
    with pytest.raises(KeyError, match="no instruction 'tcgen05'"):
        instruction("tcgen05")


def test_operands_answer_to_the_names_of_the_row(emit: Emit) -> None:
    dst, tensor_map, bar = emit.undef("b32"), emit.undef("b64"), emit.undef("b32")
    x, y = emit.undef("b32"), emit.undef("b32")
    emit(
        "cp.async.bulk.tensor.load", ".2d.shared::cluster.tile", dst, tensor_map, [x, y], At(bar, 8)
    )
    op = last(emit)
    assert (op.dst, op.map, op.bar, op.coords) == (dst, tensor_map, bar, (x, y))
    assert op.mask is None
    assert op.policy is None
    assert op.dim == StringAttr(".2d")
    assert op.multicast is None
    assert op.properties["bar_offset"] == IntegerAttr(8, 64)
    assert dict(op.groups()) == {
        "dst": (dst,),
        "map": (tensor_map,),
        "coords": (x, y),
        "bar": (bar,),
        "mask": (),
        "policy": (),
    }
    with pytest.raises(AttributeError, match=r"ptx\.cp\.async\.bulk\.tensor\.load has no nothing"):
        _ = op.nothing


def test_results_answer_too(emit: Emit) -> None:
    made = emit.add(".u32", 1, 2)
    assert last(emit).d is made
    low, high = emit("mov.unpack", ".b64", emit.undef("b64"), results=[reg("b32")] * 2)
    assert last(emit).parts == (low, high)


def test_effects_take_the_space_of_the_spelling(emit: Emit) -> None:
    emit.ld(".shared.b32", emit.undef("b32"))
    assert last(emit).effects == (Touch(Kind.READ, "addr", Space.SHARED),)
    emit.ld(".global.b32", emit.undef("b64"))
    assert last(emit).effects == (Touch(Kind.READ, "addr", Space.GLOBAL),)
    emit.add(".u32", 1, 2)
    assert last(emit).effects == ()


def test_what_xdsl_may_delete_and_merge() -> None:
    op, emit = kernel("k", reqntid=32)
    bar = emit.special("%clock")
    emit("mbarrier.try_wait.parity", ".shared::cta", bar, 0)
    emit("fence.proxy.async", ".shared::cta")
    emit("fence.proxy.async", ".shared::cta")
    emit("wgmma.commit_group")
    emit("tcgen05.wait::ld")
    first, second = emit.add(".u32", bar, 1), emit.add(".u32", bar, 1)
    emit.st(".shared.b32", bar, first)
    emit.st(".shared.b32", bar, second)
    emit.mul(".f32", 1.0, 2.0)
    module = ModuleOp([op])
    CommonSubexpressionElimination().apply(Context(), module)
    DeadCodeElimination().apply(Context(), module)
    module.verify()
    kept = [o.ROW.name for o in op.body.block.ops if isinstance(o, Instruction)]
    assert kept == [
        "mbarrier.try_wait.parity",
        *["fence.proxy.async"] * 2,
        "wgmma.commit_group",
        "tcgen05.wait::ld",
        "add",
        "st",
        "st",
    ]


def test_clones_are_equal(emit: Emit) -> None:
    emit.ld(".shared.b32", At(emit.undef("b32"), 4))
    op = last(emit)
    copy = op.clone()
    assert copy.is_structurally_equivalent(op)
    assert copy.spelling is op.spelling


def test_the_irdl_definition_is_made_once_and_complete(emit: Emit) -> None:
    kind = instruction("cp.async.bulk.tensor.load")
    definition = kind.get_irdl_definition()
    assert definition is kind.get_irdl_definition()
    assert [n for n, _ in definition.operands] == list(kind.SHAPE.operands)
    assert definition.properties.keys() == {
        *kind.SHAPE.slots,
        "dst_offset",
        "bar_offset",
        "operandSegmentSizes",
    }
    emit("cp.async.bulk.tensor.load", ".1d.shared::cta.tile", 0, 0, [0], 0)
    definition.verify(last(emit))


def test_lines(emit: Emit) -> None:
    def lines() -> list[str]:
        return last(emit).lines(last(emit).spelling)

    a, four = emit.undef("b32"), emit.undef("b32", 2)
    retype(a, reg("b32", 0, 7))
    retype(four, reg("b32", 2, 3))
    emit("fence.mbarrier_init")
    assert lines() == ["fence.mbarrier_init.release.cluster"]
    emit("wgmma.wait_group", 1)
    assert lines() == ["wgmma.wait_group.sync.aligned 1"]
    retype(emit.add(".u32", a, four), reg("b32", 2, 0))
    assert lines() == ["add.u32 %r0, %r7, %r3", "add.u32 %r1, %r7, %r4"]
    emit.st(".shared.b32", At(a, -8), -1)
    assert lines() == ["st.shared.b32 [%r7+-8], -1"]
    emit("st.vec", ".shared.v2.b32", a, four)
    assert lines() == ["st.shared.v2.b32 [%r7], {%r3, %r4}"]
    emit("tcgen05.st", ".32x32b.x2", At(a, 4), four)
    assert lines() == ["tcgen05.st.sync.aligned.32x32b.x2.b32 [%r7+4], {%r3, %r4}"]
    retype(emit("elect.sync", -1), reg("pred", 0, 2))
    assert lines() == ["elect.sync _|%p2, -1"]
    emit("mbarrier.arrive", ".shared::cta", a, 3)
    assert lines() == ["mbarrier.arrive.shared::cta.b64 _, [%r7], 3"]
    retype(emit("mov.symbol", ".u32", "sm"), reg("b32", 0, 9))
    assert lines() == ["mov.u32 %r9, sm"]


def test_an_immediate_is_a_number_or_a_name(emit: Emit) -> None:
    from xdsl.dialects.builtin import UnitAttr

    emit("wgmma.wait_group", 1)
    last(emit).properties["count"] = UnitAttr()
    with pytest.raises(ValueError, match="no immediate"):
        last(emit).lines(last(emit).spelling)


def test_names_of_values(emit: Emit) -> None:
    four = emit.undef("b32", 4)
    part = emit.slice(emit.slice(four, 0, 2), 1)
    assert root(part) is four
    assert root(four) is four
    assert is_constant(emit.imm(5))
    assert not is_constant(part)
    assert register_text(emit.imm(-5)) == "-5"
    assert register_text(emit.imm(0x3F800000, "f32")) == "0f3F800000"
    assert register_names(emit.imm(5)) == ("5",)
    with pytest.raises(ValueError, match="no name yet"):
        register_text(part)
    with pytest.raises(ValueError, match="no names yet"):
        register_names(four)
