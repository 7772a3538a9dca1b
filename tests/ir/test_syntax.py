"""The shared text form: round trips, segments, regions, locations, and what it refuses."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Block, Dialect, ErasedSSAValue, Region
from xdsl.ir import Operation as IrOperation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import ParseError, VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.syntax import Operation, construct, segments


@irdl_op_definition
class Source(Operation):
    """No operands, any results."""

    name = "t.source"
    value = opt_prop_def(IntegerAttr)
    out = var_result_def()


@irdl_op_definition
class Nothing(Operation):
    """Neither operands nor results."""

    name = "t.nothing"


@irdl_op_definition
class Sink(Operation):
    """Any operands."""

    name = "t.sink"
    values = var_operand_def()


@irdl_op_definition
class Parts(Operation):
    """Two optional groups round a required one."""

    name = "t.parts"
    first = opt_operand_def(i32)
    middle = operand_def(i32)
    rest = var_operand_def(i32)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class Nest(Operation):
    """One region, or two."""

    name = "t.nest"
    inits = var_operand_def()
    body = region_def()
    other = opt_region_def()
    out = var_result_def()
    traits = traits_def(NoTerminator())


T = Dialect("t", [Source, Nothing, Sink, Parts, Nest], [])


def parse(text: str) -> ModuleOp:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(T)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def show(module: ModuleOp, **options: bool) -> str:
    stream = StringIO()
    Printer(stream, **options).print_op(module)
    return stream.getvalue()


ROUND_TRIPS = {
    "no operands before a result": "t.nothing\n%a = t.source : () -> (i32)\nt.nothing\n%b, %c = t.source : () -> (i32, i32)",
    "an empty variadic before a result": "t.sink ()\n%a = t.source : () -> (i32)\nt.sink %a : (i32)",
    "properties and attributes": '%a = t.source {value = 7 : i32, note = "n"} : () -> (i32)\nt.sink () {k}',
    "no results": "t.source",
    "segments": "%a = t.source : () -> (i32)\nt.parts %a, %a {operandSegmentSizes = array<i32: 1, 1, 0>} : (i32, i32)\nt.parts %a, %a, %a {operandSegmentSizes = array<i32: 0, 1, 2>} : (i32, i32, i32)",
    "regions": "%a = t.source : () -> (i32)\n%b = t.nest %a : (i32) -> (i32) do {\n^bb0(%c : i32):\n  t.sink %c : (i32)\n  t.nothing\n}, {\n  t.sink %a : (i32)\n}",
    "empty regions": "t.nest () do {\n}\nt.nest () do {\n}, {\n}",
    "nested regions": "t.nest () do {\n  t.nest () do {\n    t.nothing\n  }\n  t.nothing\n}",
}


@pytest.mark.parametrize("text", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
@pytest.mark.parametrize("generic", [False, True])
def test_what_is_printed_reads_back(text: str, generic: bool) -> None:
    module = parse(text)
    printed = show(module, print_generic_format=generic)
    again = parse(printed)
    assert again.is_structurally_equivalent(module)
    assert show(again, print_generic_format=generic) == printed
    if generic:
        assert show(again) == show(module)


def test_the_custom_form_is_what_was_written() -> None:
    text = "%a = t.source {value = 7 : i32} : () -> (i32)\nt.parts %a {operandSegmentSizes = array<i32: 0, 1, 0>} : (i32)"
    assert text.replace("%a", "%0").splitlines() == [
        line.strip() for line in show(parse(text.replace("%a", "%0"))).splitlines()[1:-1]
    ]


def test_a_property_is_a_property_and_the_rest_are_attributes() -> None:
    (op,) = parse('%a = t.source {value = 7 : i32, note = "n"} : () -> (i32)').ops
    assert op.properties == {"value": IntegerAttr(7, i32)}
    assert op.attributes == {"note": StringAttr("n")}


def test_segments_reach_the_accessors() -> None:
    ops = list(parse(ROUND_TRIPS["segments"]).ops)
    assert ops[1].rest == ()
    assert ops[1].first is ops[0].results[0]
    assert ops[2].first is None
    assert len(ops[2].rest) == 2
    assert segments(0, 1, 2) == {"operandSegmentSizes": ops[2].properties["operandSegmentSizes"]}


def test_an_empty_region_has_a_block() -> None:
    (op,) = parse("t.nest () do {\n}").ops
    assert len(op.regions[0].blocks) == 1


def test_locations_of_operations_and_arguments_survive() -> None:
    text = 't.nest () do {\n^bb0(%a : i32 loc("f.tk":1:2)):\n  t.nothing loc("f.tk":3:4)\n} loc("f.tk":5:6)\nt.nothing loc(unknown)'
    module = parse(text)
    again = parse(show(module, print_debuginfo=True))
    nest = again.body.block.first_op
    assert nest is not None
    assert nest.location == FileLineColLoc(StringAttr("f.tk"), IntAttr(5), IntAttr(6))
    inner = nest.regions[0].block.first_op
    assert inner is not None
    assert str(inner.location) == 'loc("f.tk":3:4)'
    assert str(nest.regions[0].block.args[0].location) == 'loc("f.tk":1:2)'


REFUSED = {
    "too few types": ("%a = t.source : () -> (i32)\nt.sink %a, %a : (i32)", "expected 1 operand"),
    "no types": ("%a = t.source : () -> (i32)\nt.sink %a", "expected 0 operand"),
    "another type": ("%a = t.source : () -> (i32)\nt.sink %a : (i64)", "with type i32"),
    "no operand list": ("t.sink : (i32)", "operand"),
    "unknown value": ("t.sink %z : (i32)", "used but not defined"),
    "results without types": ("%a = t.nothing", "0 results"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_mistakes_are_parse_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_construct_equals_create() -> None:
    (first, second) = (Source.create(result_types=[i32, i64]) for _ in range(2))
    location = FileLineColLoc(StringAttr("f.tk"), IntAttr(1), IntAttr(2))
    properties = segments(1, 1, 0)
    xdsl_create: Any = IRDLOperation.create.__func__  # type: ignore[attr-defined]
    made = xdsl_create(
        Parts, operands=[first.results[0]] * 2, properties=properties, location=location
    )
    quick = construct(Parts, [second.results[0]] * 2, (), dict(properties), location)
    assert vars(made).keys() == vars(quick).keys()
    for name in vars(made).keys() - {"_operands", "_operand_uses"}:
        assert getattr(made, name) == getattr(quick, name), name
    assert [(u.operation, u.index) for u in second.results[0].uses] == [(quick, 1), (quick, 0)]
    assert quick.location == made.location
    quick.verify()
    quick.erase()
    assert second.results[0].first_use is None

    block = Block()
    nest = construct(Nest, (), [i32], {}, regions=[Region(block)])
    assert block.parent_op() is nest
    assert nest.results[0].type == i32
    assert nest.results[0].op is nest
    nest.clone().verify()


def nested() -> ModuleOp:
    return parse(
        "%a = t.source : () -> (i32)\n"
        "t.nest () do {\n  t.nothing\n  t.nest () do {\n    t.sink %a : (i32)\n    t.nothing\n  }\n  t.source\n}"
        ", {\n  t.nothing\n}\nt.nothing"
    )


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"region_first": True}])
def test_a_walk_is_xdsls(how: dict[str, bool]) -> None:
    module = nested()
    nest = next(op for op in module.walk() if isinstance(op, Nest))

    def slowly(op: IrOperation) -> list[IrOperation]:
        inner = [
            found
            for region in (reversed(op.regions) if how.get("reverse") else op.regions)
            for block in region.blocks
            for child in (reversed(block.ops) if how.get("reverse") else block.ops)
            for found in slowly(child)
        ]
        return [*inner, op] if how.get("region_first") else [op, *inner]

    assert list(nest.walk(**how)) == slowly(nest)
    assert len(slowly(nest)) == 7


def test_what_a_walk_yields_may_be_taken_away() -> None:
    module = nested()
    nest = next(op for op in module.walk() if isinstance(op, Nest))
    for op in nest.walk():
        if isinstance(op, Nothing | Sink):
            op.detach()
            op.erase()
    assert [op.name for op in nest.walk()] == ["t.nest", "t.nest", "t.source"]


def test_kinds_are_told_by_inheritance() -> None:
    op = Nothing.create()
    assert isinstance(op, Nothing)
    assert isinstance(op, Operation)
    assert not isinstance(op, Sink)
    assert not isinstance(3, Operation)


@irdl_op_definition
class Ended(Operation):
    """A region whose blocks end with a terminator; nothing in it is one."""

    name = "t.ended"
    body = region_def()


def _erased(module: ModuleOp) -> None:
    source = next(op for op in module.walk() if isinstance(op, Source))
    source.out[0].replace_all_uses_with(ErasedSSAValue(i32, source.out[0]))


def _misplaced(module: ModuleOp) -> None:
    sink = next(op for op in module.walk() if isinstance(op, Sink))
    sink.parent = Block()


def _unread(module: ModuleOp) -> None:
    sink = next(op for op in module.walk() if isinstance(op, Nothing))
    sink.properties["what"] = StringAttr("?")


INNER = "%a = t.source : () -> (i32)\nt.nest () do {\n  t.nothing\n  t.nest () do {\n    t.sink %a : (i32)\n    t.nothing\n  }\n  t.nothing\n}"
BROKEN: dict[str, tuple[str, Any]] = {
    "an erased operand": (INNER, _erased),
    "an operation of another block": (INNER, _misplaced),
    "an unknown property": (INNER, _unread),
    "no terminator": ("t.nest () do {\n  t.ended do {\n    t.nothing\n  }\n}", None),
    "an empty block": ("t.nest () do {\n  t.ended do {\n  }\n}", None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_verify_is_refused_in_xdsls_words(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, spoil = BROKEN[name]
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Dialect("t", [Source, Nothing, Sink, Nest, Ended], []))
    module = Parser(context, text).parse_module()
    if spoil is not None:
        module.verify()
        spoil(module)
    with pytest.raises((VerifyException, ValueError)) as ours:
        module.verify()
    monkeypatch.setattr(Operation, "verify", IrOperation.verify)
    with pytest.raises((VerifyException, ValueError)) as theirs:
        module.verify()
    assert (type(ours.value), str(ours.value)) == (type(theirs.value), str(theirs.value))
    assert str(ours.value)
