"""Locations: what the parser sets, what operations inherit, and what diagnostics read."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)

from tkc.diagnostics import Location
from tkc.ir import DIALECTS, context
from tkc.ir.locations import LocatedParser, at, file_location, location_of, places, to_attribute
from tkc.ir.ptx.registers import reg
from tkc.ir.ptx.values import UndefOp
from tkc.ir.syntax import construct

TEXT = """
builtin.module {
  %0 = ptx.undef : () -> (!ptx.reg<b32>)
  %1 = ptx.imm {value = 1} : () -> (!ptx.reg<b32>) loc("a.tk":7:9)
    ptx.if %p : (!ptx.reg<pred>) do {
      ptx.bar.warp.sync %1 : (!ptx.reg<b32>)
  }
}
""".replace("%p", "%0").replace("!ptx.reg<pred>", "!ptx.reg<b32>")


def parse(text: str, name: str = "k.mlir"):
    return LocatedParser(context(), text, name).parse_module()


def test_every_operation_knows_its_line() -> None:
    module = parse(TEXT)
    found = {op.name: location_of(op) for op in module.walk()}
    assert found == {
        "builtin.module": Location("k.mlir", 2, 1),
        "ptx.undef": Location("k.mlir", 3, 3),
        "ptx.imm": Location("a.tk", 7, 9),
        "ptx.if": Location("k.mlir", 5, 5),
        "ptx.bar.warp.sync": Location("k.mlir", 6, 7),
    }


def test_lines_agree_with_the_spans_of_xdsl() -> None:
    class Slow(LocatedParser):
        def parse_operation(self):
            place = self._current_token.span.get_location()
            op = super().parse_operation()
            seen.append((place.line, place.col, op.location))
            return op

    seen: list[tuple[int, int, LocationAttr]] = []
    Slow(context(), TEXT * 1 + "\n" * 3, "k").parse_module()
    plain = [s for s in seen if s[2] != file_location("a.tk", 7, 9)]
    assert len(plain) == 4
    assert all(location == file_location("k", line, col) for line, col, location in plain)


def test_an_operation_without_a_place_has_that_of_the_one_round_it() -> None:
    module = parse(TEXT)
    inner = next(op for op in module.walk() if op.name == "ptx.bar.warp.sync")
    inner.location = UNKNOWN_LOC
    assert location_of(inner) == Location("k.mlir", 5, 5)
    assert location_of(construct(UndefOp, (), (reg("b32"),))) is None


def test_at_fills_only_what_is_unknown() -> None:
    (outer,) = [op for op in parse(TEXT).walk() if op.name == "ptx.if"]
    source = construct(UndefOp, (), (reg("b32"),), location=file_location("s.tk", 1, 2))
    outer.location = UNKNOWN_LOC
    inner = outer.regions[0].block.first_op
    assert at(source, outer) is outer
    assert outer.location == source.location
    assert inner is not None
    assert location_of(inner) == Location("k.mlir", 6, 7)


def test_places_of_every_kind_of_location() -> None:
    a, b = file_location("a", 1, 2), file_location("b", 3, 4)
    assert list(places(NameLoc(StringAttr("n"), a))) == [a]
    assert list(places(NameLoc(StringAttr("n"), NoneAttr()))) == []
    assert list(places(CallSiteLoc(a, b))) == [a, b]
    assert list(places(FusedLoc(ArrayAttr([UNKNOWN_LOC, b]), NoneAttr()))) == [b]
    assert to_attribute(Location("a", 1, 2)) == a
    assert to_attribute(Location("a")) == to_attribute(None) == UNKNOWN_LOC


def test_dialects_load_when_they_are_met() -> None:
    made = context()
    assert {d.name for d in made.loaded_dialects} == {"builtin"}
    assert set(made.registered_dialect_names) == set(DIALECTS)
    assert made.get_optional_op("ptx.add") is not None
    assert {d.name for d in made.loaded_dialects} == {"builtin", "ptx"}
