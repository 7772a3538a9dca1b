"""Scalars, loops and conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import FloatAttr, f32, i1, i64
from xdsl.ir import Block, SSAValue

from tkc.diagnostics import Bug
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import SCALARS, TO_F32, ArithOp, ConstOp, SizeOp
from tkc.passes.lowering.fragments import carried_form, combine
from tkc.passes.lowering.state import Accumulator, Fragment, Kernel, lowers
from tkc.passes.lowering.synchronisation import rank_in_unit

INTEGER = {
    "add": ("add", ".s32"),
    "sub": ("sub", ".s32"),
    "mul": ("mul.lo", ".s32"),
    "div": ("div", ".u32"),
    "mod": ("rem", ".u32"),
    "min": ("min", ".s32"),
    "max": ("max", ".s32"),
    "and": ("and", ".b32"),
    "or": ("or", ".b32"),
    "xor": ("xor", ".b32"),
    "shl": ("shl", ".b32"),
    "shr": ("shr", ".s32"),
}
"""Rows for i32; division is of non-negative numbers, for which the unsigned form is cheaper."""

FLOATING = {
    "add": ("add", ".rn", ".f32"),
    "sub": ("sub", ".rn", ".f32"),
    "mul": ("mul", ".rn", ".f32"),
    "div": ("div", ".rn", ".f32"),
    "min": ("min", ".NaN", ".f32"),
    "max": ("max", ".NaN", ".f32"),
}


@lowers(ConstOp)
def constant(k: Kernel, op: ConstOp) -> None:
    attribute = op.constant
    if isinstance(attribute, FloatAttr):
        k.values[op.value] = float(attribute.value.data)
    else:
        number = attribute.value.data
        k.values[op.value] = bool(number) if attribute.type == i1 else number


@lowers(SizeOp)
def size(k: Kernel, op: SizeOp) -> None:
    symbol = op.symbol.data
    kind = "s64" if op.value.type == i64 else "s32"
    if all(name != symbol for name, _ in k.params):
        k.params.append((symbol, kind))
        dtype = "i64" if kind == "s64" else "i32"
        k.args.append({"kind": "scalar", "dtype": dtype, "value": {"sym": symbol}, "name": symbol})
    k.values[op.value] = k.emit.param(symbol, kind)


@lowers(ArithOp)
def arithmetic(k: Kernel, op: ArithOp) -> None:
    inputs = [k.number(v) for v in op.inputs]
    k.values[op.value] = compute(k, op.kind.data, inputs, op.inputs[-1].type)


def compute(k: Kernel, kind: str, inputs: list[Any], type: Any) -> Any:
    """The result of one row of the scalar table, known now where the inputs are."""
    emit = k.emit
    if kind == "select":
        p, a, b = inputs
        if isinstance(p, bool):
            return a if p else b
        return emit("selp", ".f32" if type == f32 else ".b32", a, b, p)
    if kind == TO_F32:
        (a,) = inputs
        return emit("cvt", ".rn", ".f32", ".s32", a) if isinstance(a, SSAValue) else float(a)
    if len(inputs) == 1 or kind == "guard_div":
        return combine(
            k, kind, [v if isinstance(v, SSAValue) else emit("mov", ".f32", v) for v in inputs]
        )
    a, b = inputs
    if type != f32 and not any(isinstance(v, SSAValue) for v in inputs):
        return SCALARS[kind].of(a, b)
    if type == i1:
        if kind not in ("and", "or", "xor"):
            raise Bug("lower-stage-to-ptx", f"{kind} of predicates")
        a, b = (emit.imm(int(v), "pred") if isinstance(v, bool) else v for v in (a, b))
        return emit(kind, ".pred", a, b)
    if kind in ("eq", "ne", "lt", "le", "gt", "ge"):
        return emit("setp", f".{kind}", ".f32" if type == f32 else ".s32", a, b)
    if type == f32:
        return emit(*FLOATING[kind], a, b)
    if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
        bits = b.bit_length() - 1
        match kind:
            case "mul":
                return k.mul(a, b)
            case "div":
                return k.shift_right(a, bits)
            case "mod":
                return k.bit_and(a, b - 1)
            case "cdiv":
                return k.shift_right(k.add(a, b - 1), bits)
            case _:
                pass
    if kind in ("add", "sub") and b == 0 and not isinstance(b, SSAValue):
        return a
    if kind == "cdiv":
        above = k.add(a, b - 1) if isinstance(b, int) else emit("sub", ".u32", k.add(a, b), 1)
        return emit("div", ".u32", above, b)
    return emit(*INTEGER[kind], a, b)


def _parts(k: Kernel, value: SSAValue) -> list[SSAValue]:
    """The registers that carry a value round a loop."""
    found = k.values[value]
    if isinstance(found, Accumulator):
        started = [] if found.started is True else [_predicate(k, found.started)]
        return [*found.registers, *started]
    if isinstance(found, Fragment):
        return [x for part in carried_form(k, value.type, found).parts for x in part]
    return [k.register(value)]


def _like(k: Kernel, value: SSAValue) -> Any:
    """The form in which a loop carries a value."""
    found = k.values[value]
    if isinstance(found, Fragment):
        return carried_form(k, value.type, found)
    return found


def _predicate(k: Kernel, started: SSAValue | bool) -> SSAValue:
    return k.emit.imm(int(started), "pred") if isinstance(started, bool) else started


def _joined(like: Any, parts: list[SSAValue]) -> Any:
    """A value made again of the registers that carried it."""
    if isinstance(like, Fragment):
        left = iter(parts)
        return replace(like, parts=tuple(tuple(next(left) for _ in p) for p in like.parts))
    if not isinstance(like, Accumulator):
        return parts[0]
    count = len(like.registers)
    started = True if like.started is True else parts[count]
    return Accumulator(tuple(parts[:count]), like.address, started)


def _split(likes: list[Any], widths: list[int], parts: list[SSAValue]) -> list[Any]:
    """Values made again of all the registers that carried them."""
    made: list[Any] = []
    for like, width in zip(likes, widths, strict=True):
        made.append(_joined(like, parts[:width]))
        parts = parts[width:]
    return made


def _handed(k: Kernel, likes: list[Any], block: Block) -> list[SSAValue]:
    """The registers of what a region yields, in the form of `likes`."""
    last = block.last_op
    assert isinstance(last, s.YieldOp)
    nexts: list[SSAValue] = []
    for like, value in zip(likes, last.values, strict=True):
        found = k.values[value]
        if isinstance(like, Accumulator):
            assert isinstance(found, Accumulator)
            nexts += found.registers
            if like.started is not True:
                nexts.append(_predicate(k, found.started))
        elif isinstance(like, Fragment):
            nexts += _parts(k, value)
        else:
            nexts.append(k.register(value))
    return nexts


@lowers(s.ForOp)
def loop(k: Kernel, op: s.ForOp) -> None:
    if op.stolen is not None:
        _take_over(k, op)
        return
    lower, upper, step = (k.number(v) for v in (op.lower, op.upper, op.step))
    likes = [_like(k, v) for v in op.inits]
    widths = [len(_parts(k, v)) for v in op.inits]
    inits = [part for v in op.inits for part in _parts(k, v)]
    block = op.body.block

    def body(counter: SSAValue, *carried: SSAValue) -> list[SSAValue]:
        k.values[block.args[0]] = counter
        for arg, value in zip(block.args[1:], _split(likes, widths, list(carried)), strict=True):
            k.values[arg] = value
        k.write(block)
        return _handed(k, likes, block)

    results = k.emit.for_(lower, upper, step, body, inits, type=".s32")
    for result, value in zip(op.results, _split(likes, widths, list(results)), strict=True):
        k.values[result] = value


def _take_over(k: Kernel, op: s.ForOp) -> None:
    """Turns while the first carried value holds; the turns themselves nobody counts."""
    likes = [_like(k, v) for v in op.inits]
    widths = [len(_parts(k, v)) for v in op.inits]
    inits = [part for v in op.inits for part in _parts(k, v)]
    block = op.body.block

    def body(*carried: SSAValue) -> list[SSAValue]:
        for arg, value in zip(block.args[1:], _split(likes, widths, list(carried)), strict=True):
            k.values[arg] = value
        k.write(block)
        return _handed(k, likes, block)

    results = k.emit.while_(lambda more, *_: more, body, inits)
    for result, value in zip(op.results, _split(likes, widths, list(results)), strict=True):
        k.values[result] = value


@lowers(WhileOp)
def repeat(k: Kernel, op: WhileOp) -> None:
    likes = [_like(k, v) for v in op.inits]
    widths = [len(_parts(k, v)) for v in op.inits]
    inits = [part for v in op.inits for part in _parts(k, v)]

    def enter(block: Block, carried: tuple[SSAValue, ...]) -> None:
        for arg, value in zip(block.args, _split(likes, widths, list(carried)), strict=True):
            k.values[arg] = value
        k.write(block)

    def test(*carried: SSAValue) -> SSAValue:
        block = op.test.block
        enter(block, carried)
        last = block.last_op
        assert isinstance(last, s.YieldOp)
        return k.register(last.values[0])

    def body(*carried: SSAValue) -> list[SSAValue]:
        block = op.body.block
        enter(block, carried)
        return _handed(k, likes, block)

    results = k.emit.while_(test, body, inits)
    for result, value in zip(op.results, _split(likes, widths, list(results)), strict=True):
        k.values[result] = value


@lowers(s.IfOp)
def condition(k: Kernel, op: s.IfOp) -> None:
    known = k.number(op.condition)
    sides = [op.then.block, *(b for r in op.regions[1:] for b in r.blocks)]
    if not isinstance(known, SSAValue):
        _known(k, op, sides[:1] if known else sides[1:])
    elif op.results and isinstance(op.condition.owner, s.ElectedOp):
        _elected(k, op, known)
    else:
        _either(k, op, known, sides)


def _known(k: Kernel, op: s.IfOp, taken: list[Block]) -> None:
    """The side that is taken, alone."""
    for block in taken:
        k.write(block)
        last = block.last_op
        assert isinstance(last, s.YieldOp)
        for result, value in zip(op.results, last.values, strict=True):
            k.values[result] = k.values[value]


def _elected(k: Kernel, op: s.IfOp, condition: SSAValue) -> None:
    """What one thread does: results are accumulators in tensor memory, a place that all share, started by a product."""
    last, otherwise = op.then.block.last_op, op.otherwise
    k.emit.if_(condition, lambda: k.write(op.then.block))
    assert isinstance(last, s.YieldOp)
    assert otherwise is not None
    unchanged = otherwise.block.last_op
    assert isinstance(unchanged, s.YieldOp)
    for result, value, before in zip(op.results, last.values, unchanged.values, strict=True):
        made, kept = k.values[value], k.values[before]
        if not isinstance(made, Accumulator) or made.registers or made.started is not True:
            raise Bug("lower-stage-to-ptx", "an election with results that are no products")
        k.values[result] = replace(kept, started=True)


def _either(k: Kernel, op: s.IfOp, condition: SSAValue, sides: list[Block]) -> None:
    """Both sides, whose results leave in registers of one form."""
    likes: list[Any] = []
    widths: list[int] = []

    def write(block: Block) -> list[SSAValue] | None:
        k.write(block)
        if not op.results:
            return None
        last = block.last_op
        assert isinstance(last, s.YieldOp)
        if not likes:
            for value in last.values:
                like = _like(k, value)
                if isinstance(like, Accumulator):
                    like = replace(like, started=False)
                    widths.append(len(like.registers) + 1)
                else:
                    widths.append(len(_parts(k, value)))
                likes.append(like)
        return _handed(k, likes, block)

    results = k.emit.if_(
        condition, lambda: write(sides[0]), None if len(sides) < 2 else lambda: write(sides[1])
    )
    for result, value in zip(op.results, _split(likes, widths, list(results)), strict=True):
        k.values[result] = value


@lowers(s.YieldOp)
def yielded(k: Kernel, op: s.YieldOp) -> None:
    """The loop or condition that it ends reads it."""


UNIT_REGISTERS = {
    "index": ("%ctaid.x", "%clusterid.x"),
    "count": ("%nctaid.x", "%nclusterid.x"),
    "rank": ("%cluster_ctarank", "%cluster_ctarank"),
    "cluster": ("%cluster_ctarank", "%cluster_ctarank"),
}
"""Where a CTA reads of its work unit: one that is a CTA, and one that is a cluster."""


@lowers(s.UnitOp)
def unit(k: Kernel, op: s.UnitOp) -> None:
    if op.which.data == "items":
        return  # a loop over them asks for the next, not for how many there are
    if op.which.data in ("pair", "half"):
        rank = rank_in_unit(k)
        half = op.which.data == "half"
        k.values[op.value] = k.bit_and(rank, 1) if half else k.shift_right(rank, 1)
        return
    if k.several:
        k.values[op.value] = _of_several(k, op.which.data)
        return
    clustered = k.source.cluster is not None
    k.values[op.value] = k.emit.special(UNIT_REGISTERS[op.which.data][clustered])


def _of_several(k: Kernel, which: str) -> Any:
    """Units of `k.ctas` CTAs, a power of two, lie one after another along x, however clusters hold them."""
    match which:
        case "rank":
            return rank_in_unit(k)
        case "cluster":
            return k.emit.special("%cluster_ctarank")
        case _:
            ctas = k.emit.special("%ctaid.x" if which == "index" else "%nctaid.x")
            return k.shift_right(ctas, k.ctas.bit_length() - 1)


@lowers(s.GroupOp)
def group(k: Kernel, op: s.GroupOp) -> None:
    first = k.current_role().first_warp.value.data
    warp = k.emit("sub", ".u32", k.warp, first) if first else k.warp
    k.values[op.value] = k.shift_right(warp, 2)
