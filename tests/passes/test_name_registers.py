"""Naming: programs mean the same before and after, moves stand only where they must, accumulators never move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from passes.small_machines import Text, Values
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from tkc.backend.ptx_text import print_ptx
from tkc.diagnostics import Bug
from tkc.ir import context
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.target import TARGET
from tkc.passes.name_registers import NameRegistersPass


def build(fill: Callable[[Emit], None], target: str = "sm_90a") -> ModuleOp:
    op, emit = kernel("k", [("out", "pointer"), ("n", "u32")], reqntid=128)
    fill(emit)
    module = ModuleOp([op], {TARGET: StringAttr(target)})
    module.verify()
    return module


def named(module: ModuleOp) -> ModuleOp:
    NameRegistersPass().apply(Context(), module)
    module.verify()
    return module


def body(fill: Callable[[Emit], None], target: str = "sm_90a") -> list[str]:
    """The instructions of a kernel, printed."""
    text = print_ptx(named(build(fill, target)))
    lines = [line.strip() for line in text[text.index("{") :].splitlines()]
    return [line for line in lines if line and line[0] not in "{}." and line != "ret;"]


def store(emit: Emit, *values: SSAValue) -> None:
    for value in values:
        emit.st(".global.b32", emit.imm(0, "b64"), value)


# Random programs


@dataclass
class Program:
    """Draws a program: scalars, tuples of three, and structured control nested up to two deep."""

    draw: Callable[..., object]
    emit: Emit
    depth: int = 0

    def pick(self, values: list[SSAValue]) -> SSAValue:
        return self.draw(st.sampled_from(values))

    def block(self, scalars: list[SSAValue], tuples: list[SSAValue]) -> None:
        """Appends statements, and what they make to the lists."""
        emit, draw = self.emit, self.draw
        for _ in range(draw(st.integers(1, 4))):
            kinds = ["scalar", "tuple", "spread", "part", "store"]
            if self.depth < 2:
                kinds += ["for", "if", "repeat", "while", "guard"]
            kind = draw(st.sampled_from(kinds))
            operation = draw(st.sampled_from(["add", "sub", "xor", "mul.lo"]))
            suffix = ".b32" if operation == "xor" else ".s32"
            if kind == "scalar":
                scalars.append(emit(operation, suffix, self.pick(scalars), self.pick(scalars)))
            elif kind == "tuple":
                other = self.pick([*tuples, *scalars])
                scalars_first = draw(st.booleans()) and not type_of(other).count
                pair = [self.pick(tuples), other]
                tuples.append(emit(operation, suffix, *(pair[::-1] if scalars_first else pair)))
            elif kind == "spread":
                # Broadcasts a part of a tuple over the tuple: the register may be the one that is written first.
                whole = self.pick(tuples)
                part = emit.slice(whole, draw(st.integers(0, 2)))
                tuples.append(emit(operation, suffix, whole, part))
            elif kind == "part":
                scalars.append(emit.slice(self.pick(tuples), draw(st.integers(0, 2))))
            elif kind == "store":
                if draw(st.booleans()):
                    store(emit, self.pick(scalars))
                else:
                    pair = emit.slice(self.pick(tuples), 0, 2, draw(st.sampled_from([1, 2])))
                    emit("st.vec", ".global.v2.b32", emit.imm(0, "b64"), pair)
            else:
                self.control(kind, scalars, tuples)

    def carried(self, scalars: list[SSAValue], tuples: list[SSAValue]) -> list[SSAValue]:
        chosen = [self.pick(scalars) for _ in range(self.draw(st.integers(0, 3)))]
        return chosen + [self.pick(tuples) for _ in range(self.draw(st.integers(0, 2)))]

    def next_values(
        self,
        wanted: list[SSAValue],
        scalars: list[SSAValue],
        tuples: list[SSAValue],
        own: list[SSAValue],
    ) -> list[SSAValue]:
        """Values of the kinds of `wanted`: own block arguments in another order, or anything else."""
        made = []
        for value in wanted:
            count = type_of(value).count
            pool = tuples if count else scalars
            mine = [v for v in own if type_of(v).count == count]
            made.append(self.pick(mine if mine and self.draw(st.booleans()) else pool))
        return made

    def control(self, kind: str, scalars: list[SSAValue], tuples: list[SSAValue]) -> None:
        emit, draw = self.emit, self.draw
        inits = self.carried(scalars, tuples)
        self.depth += 1

        def inside(own: list[SSAValue], extra: tuple[SSAValue, ...] = ()) -> list[SSAValue]:
            mine = [v for v in own if not type_of(v).count]
            many = [v for v in own if type_of(v).count]
            here, there = [*scalars, *mine, *extra], [*tuples, *many]
            self.block(here, there)
            return self.next_values(inits, here, there, own)

        def guard() -> SSAValue:
            return emit.setp(".lt.s32", self.pick(scalars), self.pick(scalars))

        results: tuple[SSAValue, ...] = ()
        if kind == "for":
            bounds: list[SSAValue | int] = [
                draw(st.integers(-1, 1)),
                draw(st.integers(-1, 3)),
                draw(st.integers(1, 2)),
            ]
            if draw(st.booleans()):
                low, high, step = (self.pick(scalars) for _ in range(3))
                low, high = (emit("and", ".b32", v, 3) for v in (low, high))
                bounds = [low, high, emit("or", ".b32", emit("and", ".b32", step, 3), 1)]
                scalars += bounds
            results = emit.for_(*bounds, lambda i, *own: inside(list(own), (i,)), inits)
        elif kind == "if":
            results = emit.if_(
                guard(), lambda: inside([]), lambda: inside([]), negated=draw(st.booleans())
            )
        elif kind == "guard":
            emit.if_(guard(), lambda: store(emit, self.pick(scalars)), negated=draw(st.booleans()))
        elif kind == "repeat":

            def turn(count: SSAValue, *own: SSAValue):
                next_count = emit.add(".s32", count, 1)
                values = inside(list(own), (count, next_count))
                return (emit.setp(".ge.s32", next_count, 2), next_count, *values)

            results = emit.repeat(turn, [emit.imm(0), *inits])
        else:

            def turn(count: SSAValue, *own: SSAValue):
                values = inside(list(own), (count,))
                return (emit.add(".s32", count, 1), *values)

            results = emit.while_(
                lambda count, *own: emit.setp(".lt.s32", count, 2), turn, [emit.imm(0), *inits]
            )
        self.depth -= 1
        scalars += [r for r in results if not type_of(r).count]
        tuples += [r for r in results if type_of(r).count]


class Case:
    """A module that prints as IR when a test fails."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.text = str(module)

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text)  # type: ignore[attr-defined]


@st.composite
def programs(draw) -> Case:
    def fill(emit: Emit) -> None:
        scalars = [emit.special("%tid.x"), emit.imm(3), emit.imm(-5)]
        three = reg("b32", 3)
        tuples = [emit("mov", ".b32", scalars[i], results=three) for i in (0, 2)]
        tuples.append(emit.add(".s32", tuples[0], tuples[1]))
        Program(draw, emit).block(scalars, tuples)
        # Everything that is left counts.
        store(emit, *scalars[-4:])
        store(emit, *[emit.slice(t, i) for t in tuples[-3:] for i in range(3)])

    return Case(build(fill))


CONTEXT = context()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_named_program_stores_what_the_unnamed_one_does(case: Case) -> None:
    module = case.module
    expected = Values(module).stored
    named(module)
    text = print_ptx(module)
    assert Text(text).stored == expected
    # The moves are operations like any other, so that the IR says the same as its text, and reads back.
    assert Values(module).stored == expected
    again = Parser(CONTEXT, str(module)).parse_module()
    assert print_ptx(again) == text


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_many_named_programs(case: Case) -> None:
    expected = Values(case.module).stored
    named(case.module)
    assert Text(print_ptx(case.module)).stored == expected
    # Naming what is named already is naming.
    named(case.module)
    assert Text(print_ptx(case.module)).stored == expected


# What shares a name


def test_a_counter_is_added_to_in_place() -> None:
    def fill(emit: Emit) -> None:
        def turn(i: SSAValue, count: SSAValue) -> list[SSAValue]:
            return [emit.add(".u32", count, 3)]

        store(emit, *emit.for_(0, emit.param("n", "u32"), 1, turn, [emit.imm(5)]))

    assert body(fill) == [
        "ld.param.u32 %r0, [n];",
        "mov.b32 %r1, 0;",
        "mov.b32 %r2, 5;",
        "setp.ge.s32 %p0, %r1, %r0;",
        "@%p0 bra $L2;",
        "$L1:",
        "add.u32 %r2, %r2, 3;",
        "add.s32 %r1, %r1, 1;",
        "setp.lt.s32 %p0, %r1, %r0;",
        "@%p0 bra $L1;",
        "$L2:",
        "st.global.b32 [0], %r2;",
    ]


def test_a_counter_that_is_read_after_its_sum_is_kept() -> None:
    def fill(emit: Emit) -> None:
        def turn(i: SSAValue, count: SSAValue) -> list[SSAValue]:
            following = emit.add(".u32", count, 3)
            store(emit, count)
            return [following]

        emit.for_(0, 4, 1, turn, [emit.imm(5)])

    assert body(fill)[3:6] == [
        "add.u32 %r2, %r1, 3;",
        "st.global.b32 [0], %r1;",
        "mov.b32 %r1, %r2;",
    ]


def test_values_that_trade_places_take_a_temporary() -> None:
    def fill(emit: Emit) -> None:
        emit.for_(0, 4, 1, lambda i, a, b, c: [b, c, a], [emit.imm(1), emit.imm(2), emit.imm(3)])

    assert body(fill) == [
        "mov.b32 %r0, 0;",
        "mov.b32 %r1, 1;",
        "mov.b32 %r2, 2;",
        "mov.b32 %r3, 3;",
        "$L1:",
        "mov.b32 %r4, %r2;",
        "mov.b32 %r2, %r3;",
        "mov.b32 %r3, %r1;",
        "mov.b32 %r1, %r4;",
        "add.s32 %r0, %r0, 1;",
        "setp.lt.s32 %p0, %r0, 4;",
        "@%p0 bra $L1;",
    ]


def test_parts_of_one_tuple_trade_places_through_a_temporary() -> None:
    def fill(emit: Emit) -> None:
        pair = emit("mov", ".b32", emit.special("%tid.x"), results=reg("b32", 2))

        def turn(i: SSAValue, a: SSAValue, low: SSAValue) -> list[SSAValue]:
            return [emit.add(".u32", a, low), emit.slice(a, 1)]

        store(emit, emit.slice(emit.for_(0, 4, 1, turn, [pair, emit.special("%laneid")])[0], 0))

    lines = body(fill)
    assert lines[lines.index("$L1:") + 1 : -4] == [
        "add.u32 %r5, %r1, %r3;",
        "add.u32 %r6, %r2, %r3;",
        "mov.b32 %r3, %r2;",
        "mov.b32 %r1, %r5;",
        "mov.b32 %r2, %r6;",
    ]


def test_the_sides_of_a_branch_write_its_results() -> None:
    def fill(emit: Emit) -> None:
        t = emit.special("%tid.x")
        p = emit.setp(".lt.s32", t, 4)
        results = emit.if_(
            p, lambda: [emit.add(".s32", t, 1), t], lambda: [emit.add(".s32", t, 2), emit.imm(9)]
        )
        store(emit, *results)

    assert body(fill) == [
        "mov.u32 %r0, %tid.x;",
        "setp.lt.s32 %p1, %r0, 4;",
        "@!%p1 bra $L1;",
        "add.s32 %r1, %r0, 1;",
        "bra $L2;",
        "$L1:",
        "add.s32 %r1, %r0, 2;",
        "mov.b32 %r0, 9;",
        "$L2:",
        "st.global.b32 [0], %r1;",
        "st.global.b32 [0], %r0;",
    ]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("pred", "mov.pred %p1, %p2;"),
        ("b16", "mov.b16 %h0, %h1;"),
        ("b32", "mov.b32 %r0, %r1;"),
        ("b64", "mov.b64 %rd0, %rd1;"),
        ("f32", "mov.b32 %f0, %f1;"),
        ("f64", "mov.b64 %d0, %d1;"),
    ],
)
def test_every_class_moves(kind: str, line: str) -> None:
    def fill(emit: Emit) -> None:
        emit.for_(0, 4, 1, lambda i, a, b: [b, b], [emit.undef(kind), emit.undef(kind)])

    assert line in body(fill)


def test_a_class_that_does_not_move_is_a_bug() -> None:
    def fill(emit: Emit) -> None:
        emit.for_(0, 4, 1, lambda i, a, b: [b, b], [emit.undef("b128"), emit.undef("b128")])

    with pytest.raises(Bug, match="class b128"):
        body(fill)


def test_64_bit_counters_count_in_64_bits() -> None:
    def fill(emit: Emit) -> None:
        emit.for_(0, 1 << 40, 2, lambda i: None, type=".u64")

    assert body(fill) == [
        "mov.b64 %rd0, 0;",
        "$L1:",
        "add.u64 %rd0, %rd0, 2;",
        "setp.lt.u64 %p0, %rd0, 1099511627776;",
        "@%p0 bra $L1;",
    ]


def test_names_are_dense_and_the_same_every_time() -> None:
    def fill(emit: Emit) -> None:
        a = emit("mov", ".b32", 1, results=reg("f32", 5))
        b = emit.add(".f32", a, a)
        emit("cvt.x2", ".rn.bf16x2", emit.slice(b, 1), emit.slice(b, 3))
        emit.cvt(".u64.u32", emit.special("%tid.x"))

    module = named(build(fill))
    assert str(named(build(fill))) == str(module)
    tops: dict[str, int] = {}
    indices: dict[str, set[int]] = {}
    for op in module.walk():
        for value in op.results:
            type = type_of(value)
            if type.named:
                tops[type.kind] = max(tops.get(type.kind, 0), type.top)
                indices.setdefault(type.kind, set()).update(
                    int(n[2:].lstrip("d")) for n in type.names
                )
    assert tops == {"f32": 10, "b32": 2, "b64": 1}
    assert {k: len(v) for k, v in indices.items()} == tops


# Accumulators


WGMMA = ".m64n8k16.f32.bf16.bf16"


def multiply(emit: Emit, acc: SSAValue, keep: SSAValue | int = 1) -> SSAValue:
    desc = emit.imm(0, "b64")
    return emit("wgmma.mma_async", WGMMA, desc, desc, keep, 1, 1, 0, 0, acc)


def multiply_lines(lines: list[str]) -> list[str]:
    return [
        line[line.index("{") : line.index("}") + 1]
        for line in lines
        if line.startswith("wgmma.mma")
    ]


def test_an_accumulator_keeps_its_registers_through_loops_and_branches() -> None:
    def fill(emit: Emit) -> None:
        t = emit.special("%tid.x")
        p = emit.setp(".lt.s32", t, 4)

        def turn(i: SSAValue, acc: SSAValue) -> list[SSAValue]:
            acc = multiply(emit, multiply(emit, acc))
            (acc,) = emit.if_(p, lambda: [multiply(emit, acc)], lambda: [acc])
            (acc,) = emit.for_(0, t, 1, lambda j, inner: [multiply(emit, inner)], [acc])
            return [acc]

        (acc,) = emit.for_(0, t, 1, turn, [emit.undef("f32", 4)])
        scaled = emit.mul(".f32", acc, 0.5)
        emit("st.vec", ".global.v4.f32", emit.imm(0, "b64"), multiply(emit, scaled))

    lines = body(fill)
    *inside, last = multiply_lines(lines)
    assert inside == ["{%f0, %f1, %f2, %f3}"] * 4
    assert last == "{%f4, %f5, %f6, %f7}"
    assert "mul.f32 %f6, %f2, 0f3F000000;" in lines
    assert lines[-1] == f"st.global.v4.f32 [0], {last};"
    assert not [line for line in lines if line.startswith("mov") and "%f" in line]


def test_two_accumulators_of_one_undefined_value_differ() -> None:
    def fill(emit: Emit) -> None:
        start = emit.undef("f32", 4)
        turn = [multiply(emit, start), multiply(emit, start)]
        emit.add(".f32", *turn)

    assert multiply_lines(body(fill)) == ["{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}"]


def test_accumulators_that_start_from_one_tuple_are_set_before_the_loop() -> None:
    def fill(emit: Emit) -> None:
        zero = emit("mov", ".b32", 0, results=reg("f32", 4))

        def turn(i: SSAValue, a: SSAValue, b: SSAValue) -> list[SSAValue]:
            return [multiply(emit, a), multiply(emit, b)]

        emit.for_(0, 4, 1, turn, [zero, zero])

    lines = body(fill)
    assert set(multiply_lines(lines)) == {"{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}"}
    inside = lines[lines.index("$L1:") :]
    assert not [line for line in inside if line.startswith("mov")]


def reused(emit: Emit) -> None:
    acc = emit.undef("f32", 4)
    first = multiply(emit, acc)
    second = multiply(emit, first)
    emit.add(".f32", first, second)


def reused_after_a_loop(emit: Emit) -> None:
    acc = multiply(emit, emit.undef("f32", 4))
    (last,) = emit.for_(0, 4, 1, lambda i, a: [multiply(emit, a)], [acc])
    emit.add(".f32", acc, last)


def crossed(emit: Emit) -> None:
    def turn(i: SSAValue, a: SSAValue, b: SSAValue) -> list[SSAValue]:
        return [multiply(emit, b), multiply(emit, a)]

    emit.for_(0, 4, 1, turn, [emit.undef("f32", 4), emit.undef("f32", 4)])


def part(emit: Emit) -> None:
    multiply(emit, emit.slice(emit.undef("f32", 8), 0, 4))


@pytest.mark.parametrize("fill", [reused, reused_after_a_loop, crossed, part])
def test_an_accumulator_that_would_have_to_move_is_a_bug(fill: Callable[[Emit], None]) -> None:
    with pytest.raises(Bug, match=r"f32 x 4.*without a move"):
        body(fill)


def test_registers_that_a_multiply_reads_later_are_not_written() -> None:
    def fill(emit: Emit) -> None:
        desc = emit.imm(0, "b64")

        def turn(i: SSAValue, acc: SSAValue, *a: SSAValue) -> list[SSAValue]:
            acc = emit("wgmma.mma_async.rs", WGMMA, list(a), desc, 1, 1, 1, 0, acc)
            # Made while the multiply still reads `a`: it cannot be made in the registers of `a`.
            following = [emit.add(".u32", x, 1) for x in a]
            emit("wgmma.commit_group")
            emit("wgmma.wait_group", 0)
            return [acc, *following]

        t = emit.special("%tid.x")
        emit.for_(0, 4, 1, turn, [emit.undef("f32", 4), t, t, t, t])

    lines = body(fill)
    read = (
        next(line for line in lines if line.startswith("wgmma.mma")).split("}, {")[1].split("}")[0]
    )
    before_the_wait = lines[: lines.index("wgmma.wait_group.sync.aligned 0;")]
    written = {
        line.split()[1].rstrip(",") for line in before_the_wait if line.startswith("add.u32")
    }
    assert len(written) == 4
    assert not written & set(read.split(", "))
