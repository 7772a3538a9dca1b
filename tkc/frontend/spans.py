"""`schedule keys(m): j in blocks(N, BN) where causal.any(m, j)`: blocks from a first to a last, by other blocks.

A condition says which blocks there are: those of which some element meets it, with some element of the other blocks.
Comparisons that all hold leave elements in a row, so the blocks lie in a row, too; and so do those of which one has to
hold where all begin with the first block, or all end with the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.diagnostics import Collector, Diagnostic
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import I32, Number
from tkc.frontend.positions import Tests
from tkc.frontend.scope import Block, Entry, Failed, Index, Scope, plural
from tkc.frontend.sizes import NoValue, combine
from tkc.frontend.syntax import Span, Word

if TYPE_CHECKING:
    from tkc.frontend.declare import Declarations
    from tkc.frontend.values import Values


MOST = 8
"""Ways in which a condition may hold that are looked at."""


class Keys(NamedTuple):
    """A schedule with arguments, which stand for what a `for` gives it."""

    name: str
    given: tuple[Word, ...]
    variable: Word
    axis: P.Axis
    where: S.Expression | None
    span: Span

    @property
    def told(self) -> str:
        return f"the schedule {self.name}"


class Some(NamedTuple):
    """`any(j <= m)`: where the tests hold for some element of each block."""

    tests: Tests
    span: Span

    @property
    def told(self) -> str:
        return "a condition on blocks, which is for `where` in a schedule"


def some(values: Values, e: S.Call) -> Some:
    """`any(c)`, and `causal.any(m, j)`, which is `any(causal(m, j))`."""
    if isinstance(e.function, S.Attribute):
        return Some(values.positions.causal(values, e), e.span)
    if len(e.arguments) != 1 or e.arguments[0].name is not None:
        values.fail("TK116", "`any` takes one condition on positions, such as `j <= m`", e.span)
    found = values.evaluate(e.arguments[0].value)
    if not isinstance(found, Tests):
        values.fail("TK106", f"`any` takes a condition on positions, not {describe(found)}", e.span)
    return Some(found, e.span)


def bounds(
    values: Values, keys: Keys, arguments: tuple[S.Argument, ...], span: Span
) -> P.Bounds | None:
    """The first block and the one past the last in a `for j in keys(m)`; None where they are the axis's own."""
    scope = values.scope
    if len(arguments) != len(keys.given) or any(a.name for a in arguments):
        takes = plural(len(keys.given), "argument")
        note = scope.note(f"schedule {keys.name}", keys.span)
        values.fail(
            "TK116", f"schedule {keys.name} takes {takes}, not {len(arguments)}", span, note
        )
    if keys.where is None:
        return None
    given = [values.evaluate(a.value) for a in arguments]
    return _with(values, keys, keys.where, given, span)


def check_unfollowed(values: Values, unfollowed: Sequence[Keys]) -> None:
    """The conditions of schedules that no loop goes through. What their arguments would be nobody says: blocks or
    numbers, whichever leaves fewer mistakes."""
    scope = values.scope
    for keys in unfollowed:
        if keys.where is None:
            continue
        found, scope.source.found = scope.source.found, Collector()
        names, inside, scope.inside = scope.names, scope.inside, True
        tried: list[list[Diagnostic]] = []
        n = len(keys.given)
        for kinds in product((True, False), repeat=n) if n < 4 else ((True,) * n, (False,) * n):
            scope.source.found.diagnostics = []
            scope.names = dict(names)
            given = [
                Block(w.text, keys.axis, w.span) if block else Index(w.text, keys.axis, w.span)
                for w, block in zip(keys.given, kinds, strict=True)
            ]
            with suppress(Failed):
                _with(values, keys, keys.where, given, keys.span)
            tried.append(scope.source.found.diagnostics)
        scope.source.found, scope.names, scope.inside = found, names, inside
        found.diagnostics += min(tried, key=len)


def _with(
    values: Values, keys: Keys, where: S.Expression, given: Sequence[Any], span: Span
) -> P.Bounds | None:
    """The first block and the one past the last where the arguments stand for what is given."""
    scope = values.scope
    block = Block(keys.variable.text, keys.axis, keys.variable.span)
    outer = scope.names
    inner = {w.text: Entry("argument", x, w.span) for w, x in zip(keys.given, given, strict=True)}
    scope.names = {**outer, **inner, keys.variable.text: Entry("loop variable", block, block.span)}
    try:
        found = values.evaluate(where)
    finally:
        scope.names = outer
    if not isinstance(found, Some):
        told = f"`where` takes `any(...)` of a condition on positions, such as `any(j <= m)`, not {describe(found)}"
        values.fail("TK106", told, where.span)
    return _Bounds(scope, keys, found.tests.tests).made(span)


class _Bounds:
    """What the tests of a schedule say of its blocks."""

    def __init__(self, scope: Scope, keys: Keys, tests: tuple[P.Test, ...]) -> None:
        self.scope = scope
        self.keys = keys
        self.tests = tests
        self.span = keys.span

    def made(self, span: Span) -> P.Bounds | None:
        self.span = span
        if not self._allowed():
            return None
        if not any(test.others for test in self.tests):
            return self._in_a_row()
        each = [
            _Bounds(self.scope, self.keys, tests)
            for tests in product(*((t._replace(others=()), *t.others) for t in self.tests))
        ]
        return self._either(each, [one._in_a_row(span) for one in each])

    def _either(self, each: list[_Bounds], rows: list[P.Bounds]) -> P.Bounds | None:
        """The blocks of any of several rows, which all begin with the first block, or all end with the last."""
        nothing = self._number(0)
        if all(row.first == nothing for row in rows):
            last, far = rows[0].last, rows[0].far
            for row in rows[1:]:
                last, far = self._of("max", last, row.last), self._of("max", far, row.far)
            return P.Bounds(nothing, last, any(row.some for row in rows), far)
        if all(self._mine(test) < 0 for one in each for test in one.tests):
            end = rows[0].far
            first, *others = [self._begins(row, end) for row in rows]
            for other in others:
                first = self._of("min", first, other)
            return P.Bounds(first, end, any(row.some for row in rows), end)
        told = (
            "an `or` (or `!=`) in a `where` of which one side ends a row of blocks and the other begins one: what is "
            "left does not lie in a row; an `if` round the items in all roles can leave blocks out, as in "
            "`if j.index < 1 or j.index >= m.index:`"
        )
        self.scope.later(told, next(t.span for t in self.tests if t.others))
        return None

    def _begins(self, row: P.Bounds, end: P.Value) -> P.Value:
        """The first block of a row that goes on to `end`; one behind it where the row has none, and so ends with 0."""
        return row.first if row.some else self._of("add", row.first, self._of("sub", end, row.last))

    def _in_a_row(self, span: Span | None = None) -> P.Bounds:
        self.span = self.span if span is None else span
        size, extent = self.keys.axis.size, self.keys.axis.extent
        first: P.Value = self._number(0)
        last: P.Value = self._number(self._combined("cdiv", extent, size))
        low, high = first, self._number(extent)  # elements: the first, and the one past the last
        rooms: list[P.Value] = []  # at least 1 where there are blocks at all
        bounded = False
        for factor, room in self._alone():
            # elements j with factor · j <= room - 1
            if factor == 0:
                rooms.append(room)
            elif factor > 0:
                end = self._over("div", self._of("add", room, self._number(factor - 1)), factor)
                last = self._of("min", last, self._of("cdiv", end, self._number(size)))
                high = self._of("min", high, end)
            else:
                start = self._over("cdiv", self._of("sub", self._number(1), room), -factor)
                block = self._of("div", start, self._number(size))
                first = block if first == self._number(0) else self._of("max", first, block)
                low = start if low == self._number(0) else self._of("max", low, start)
                bounded = True
        some = self._surely_some()
        if some:
            return P.Bounds(first, last, True, last)
        if bounded:
            rooms.append(self._of("sub", high, low))
        far = last
        for room in rooms:
            positive = self._of("min", self._of("max", room, self._number(0)), self._number(1))
            last = self._of("mul", last, positive)
        return P.Bounds(first, last, False, far)

    def _allowed(self) -> bool:
        """Tests whose blocks lie in a row, one of them at least of the schedule's variable."""
        name = self.keys.variable.text
        fine = True
        for test in (one for t in self.tests for one in (t, *t.others)):
            if abs(self._mine(test)) > 1:
                told = f"not supported yet: {abs(self._mine(test))} times `{name}` in a `where`"
                self.scope.error("TK110", told, test.span)
                fine = False
        if prod(1 + len(test.others) for test in self.tests) > MOST:
            told = f"more than {MOST} ways in which a condition in a `where` may hold"
            self.scope.later(told, self.tests[0].span)
            fine = False
        if fine and not any(self._mine(one) for t in self.tests for one in (t, *t.others)):
            told = f"`where` in schedule {self.keys.name} says nothing of its variable `{name}`"
            assert self.keys.where is not None
            self.scope.error("TK106", told, self.keys.where.span)
            fine = False
        return fine

    def _mine(self, test: P.Test) -> int:
        """The factor of the schedule's variable."""
        return sum(f for b, _, f in test.terms if b == self.keys.variable.text)

    def _others(self, test: P.Test) -> dict[str | P.Part, int]:
        """The factors of the other blocks."""
        return {b: f for b, _, f in test.terms if b != self.keys.variable.text and f}

    def _alone(self) -> Iterator[tuple[int, P.Value]]:
        """What the tests say of the schedule's variable j alone, as `factor · j < room`.

        Fourier and Motzkin's elimination of the other position: by the ends of its block, and by each two tests that
        bound it from both sides. It is exact in integers where the other position has no factor but 1 and -1.
        """
        for test in self.tests:
            yield self._mine(test), self._of("sub", test.limit, self._least(test))
        for at, a in enumerate(self.tests):
            for b in self.tests[at + 1 :]:
                times = self._cancel(self._others(a), self._others(b))
                if times is None:
                    continue
                # x <= limit - 1 of both, so many times, and added up
                room: P.Value = self._number(1)
                for test, n in zip((a, b), times, strict=True):
                    most = self._of("sub", test.limit, self._number(1))
                    room = self._of("add", room, self._of("mul", most, self._number(n)))
                yield times[0] * self._mine(a) + times[1] * self._mine(b), room

    def _cancel(
        self, a: dict[str | P.Part, int], b: dict[str | P.Part, int]
    ) -> tuple[int, int] | None:
        """How often each of two tests is to be taken so that the other blocks cancel out."""
        name = next(iter(a), None)
        if name is None or a.keys() != b.keys():
            return None
        times = abs(b[name]), abs(a[name])
        common = gcd(*times)
        times = times[0] // common, times[1] // common
        return times if all(times[0] * a[n] + times[1] * b[n] == 0 for n in a) else None

    def _over(self, kind: str, x: P.Value, by: int) -> P.Value:
        """A quotient of a number that counts as 0 where it is less."""
        return self._of(kind, self._of("max", x, self._number(0)), self._number(by))

    def _least(self, test: P.Test) -> P.Value:
        """The least that the terms of the other blocks come to."""
        total: P.Value = self._number(0)
        for block, size, factor in test.terms:
            if block == self.keys.variable.text:
                continue
            start = self._of("mul", number_of(block, self.span), self._number(size))
            end = start if factor > 0 else self._of("add", start, self._number(size - 1))
            if factor < 0 and self._ragged(block, size, test):
                entry = self.scope.names[block if isinstance(block, str) else block.block]
                extent = entry.meaning.axis.extent
                end = self._of("min", end, self._number(self._combined("sub", extent, 1)))
            total = self._of("add", total, self._of("mul", end, self._number(factor)))
        return total

    def _ragged(self, block: str | P.Part, size: int, test: P.Test) -> bool:
        """Whether a block may end before its size does, and a test of the schedule's own axis not see that anyway."""
        entry = self.scope.names.get(block if isinstance(block, str) else block.block)
        of = entry.meaning if entry is not None else None
        if not isinstance(of, Block) or (
            isinstance(of.axis.extent, int) and of.axis.extent % size == 0
        ):
            return False
        reaches = _at_least_one(test) and self._mine(test) == 1 and len(self._others(test)) == 1
        return not (reaches and self._others(test)[block] == -1 and self._same_axis(block))

    def _surely_some(self) -> bool:
        """Whether there is a block wherever the axis has one.

        So it is where all tests compare with one block m from which no limit points away: j <= m, and m < j + n where
        both are of one axis.
        """
        if len({b for t in self.tests for b in self._others(t)}) > 1:
            return False
        sides = {self._mine(test) for test in self.tests}
        for test in self.tests:
            mine = self._mine(test)
            other = next(iter(self._others(test).items()), None)
            if not _at_least_one(test) or not mine or (other is not None and other[1] != -mine):
                return False
            if -1 in sides and (other is None or not self._same_axis(other[0])):
                return False
        return True

    def _same_axis(self, block: str | P.Part) -> bool:
        entry = self.scope.names.get(block) if isinstance(block, str) else None
        of = entry.meaning if entry is not None else None
        return isinstance(of, Block) and of.axis.extent == self.keys.axis.extent

    def _number(self, size: Any) -> Number:
        return Number(size, self.span)

    def _combined(self, kind: str, a: Any, b: Any) -> Any:
        try:
            return combine(kind, a, b)
        except NoValue:
            return (kind, a, b)

    def _of(self, kind: str, a: P.Value, b: P.Value) -> P.Value:
        if isinstance(a, Number) and isinstance(b, Number):
            return self._number(self._combined(kind, a.size, b.size))
        zero, one = self._number(0), self._number(1)
        if (kind in ("add", "sub") and b == zero) or (kind == "mul" and b == one):
            return a
        return b if kind == "add" and a == zero else P.Apply(kind, (a, b), I32, self.span)


def _at_least_one(test: P.Test) -> bool:
    """Whether a limit is known to be 1 or more, so that equal positions meet the test."""
    return (
        isinstance(test.limit, Number) and isinstance(test.limit.size, int) and test.limit.size >= 1
    )


def number_of(block: str | P.Part, span: Span) -> P.Value:
    """The number of a block, or of a part of one among all such parts."""
    if isinstance(block, str):
        return X.BlockNumber(block, span)
    whole = P.Apply("mul", (X.BlockNumber(block.block, span), Number(block.count, span)), I32, span)
    return P.Apply("add", (whole, Number(block.index, span)), I32, span)


def inside(block: Block, axis: P.Axis, span: Span) -> P.Bounds:
    """The blocks of an axis that lie in a larger block of it, as `tile.for_parts` counts them."""
    each = Number(block.axis.size // axis.size, span)
    name = P.Part(block.name, *block.part) if block.part else block.name
    first = P.Apply("mul", (number_of(name, span), each), I32, span)
    end = Number(combine("cdiv", axis.extent, axis.size), span)
    last = P.Apply("min", (P.Apply("add", (first, each), I32, span), end), I32, span)
    return P.Bounds(first, last, True, last)


def longest_first(scope: Scope, declared: Declarations, roles: Sequence[P.Role]) -> None:
    """The schedules that are so ordered learn of which axis their longest items are the last blocks, or the first.

    A loop is long where its last block lies far along another axis, or its first one does not.
    """
    for place, schedule in enumerate(declared.made):
        if not isinstance(schedule, P.Schedule) or schedule.name not in declared.ordered:
            continue
        found = {o for role in roles for o in _orders(role.body, schedule, ())}
        if len(found) == 1:
            declared.made[place] = schedule._replace(order=found.pop())
            continue
        told = (
            f"the loops of schedule {schedule.name} disagree about which of its items are long"
            if found
            else f"`longest_first` orders items of schedule {schedule.name} by loops one end of which depends on the "
            "item, as in `schedule keys(m): j in blocks(N, BN) where causal.any(m, j)`: there is none here (the loops "
            "of a window, whose ends both depend on it, do not order items)"
        )
        scope.error("TK106", told, declared.ordered[schedule.name])


def _orders(body: P.Body, schedule: P.Schedule, variables: tuple[str, ...]) -> Iterator[P.Order]:
    for s in body:
        here = (
            s.variables if isinstance(s, P.Each) and s.schedule.name == schedule.name else variables
        )
        if isinstance(s, P.Blocks) and s.bounds is not None:
            far, near = _numbers(s.bounds.far), _numbers(s.bounds.first)
            if far != near:  # a window is as long everywhere
                yield from (P.Order(here.index(v), v in far) for v in here if v in far ^ near)
        for inner in P.bodies(s):
            yield from _orders(inner, schedule, here)


def _numbers(x: Any) -> set[str]:
    """The blocks whose numbers an expression is made of."""
    if isinstance(x, X.BlockNumber):
        return {x.block}
    parts = x.operands if isinstance(x, P.Apply) else ()
    return {name for part in parts for name in _numbers(part)}
