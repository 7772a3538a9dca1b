"""R6: the roles at the ends of a pipe make and take its items in the same loops, under the same conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.exits import STOP
from tkc.frontend.explicit_program import I32
from tkc.frontend.scope import Scope, listed, plural
from tkc.frontend.syntax import Span


class Trip(NamedTuple):
    """A loop or condition with what it holds of a pipe, or one item: `key` is equal for equal trip counts."""

    key: Any
    inner: tuple[Trip, ...]
    span: Span


_ITEM = "item"


class _Impure(Exception):
    """An expression that another role cannot evaluate; its place, and the tensor that it is an element of."""

    def __init__(self, span: Span, tensor: str = "") -> None:
        super().__init__()
        self.span = span
        self.tensor = tensor


Known = dict[str, Any]
"""What each variable was set to, in the form of `_Trips.form`; None where only the role knows."""


class _Trips:
    """The loops and conditions round the puts of one pipe in one role, or the gets; those that hold none are left
    out."""

    def __init__(self, scope: Scope, pipe: str, role: P.Role, direction: str) -> None:
        self.scope = scope
        self.pipe = pipe
        self.direction = direction
        self.role = role
        self.failed = False
        self.breaks: list[Any] = []
        self.ways: list[tuple[Any, str, Span]] = []
        """The conditions round a statement in its loop as `known` has them, and which way of each it stands in."""
        self.whiles = 0

    def found(self) -> tuple[Trip, ...]:
        return self._body(self.role.body, (), {})

    def _body(self, body: P.Body, outer: tuple[str, ...], known: Known) -> tuple[Trip, ...]:
        """`outer` are the variables of the loops round the body, outermost first; `known` is kept up to date."""
        trips: list[Trip] = []
        for s in body:
            match s:
                case P.Set():
                    known[s.name] = self._maybe(s.value, outer, known)
                case P.Transfer():
                    mine = [
                        p for p in s.pipes if (p.name, s.direction) == (self.pipe, self.direction)
                    ]
                    trips += [Trip(_ITEM, (), s.span) for _ in mine]
                    inner = self._body(s.body, outer, known)
                    if s.turn is not None:
                        _forget(known, s.body)
                        if inner:
                            self._inside_a_turn(s, inner[0].span)
                        inner = ()
                    trips += inner
                case P.Each() | P.Blocks() | X.Range() | X.While():
                    trips += self._loop(s, outer, known)
                case X.If() if _stops(s.condition):
                    trips += self._running(s, outer, known)
                case X.If():
                    self._breaks(s, outer, known)
                    arms = {"if": s.then, "else": s.otherwise}
                    before = dict(known)
                    on = self._goes_on(s)
                    asked = self._maybe(s.condition, outer, known)
                    for word, arm in arms.items():
                        self.ways.append((asked, word, s.condition.span))
                        inner = self._body(arm, outer, known if arm is on else dict(before))
                        self.ways.pop()
                        at = s.condition.span
                        trips += self._trip((s.condition,), word, inner, outer, before, at)
                    if on is None:
                        _forget(known, (*s.then, *s.otherwise))
                case X.Elect():
                    _forget(known, s.body)
                case _:
                    continue
        return tuple(trips)

    def _breaks(self, s: X.If, outer: tuple[str, ...], known: Known) -> None:
        """Remembers on what a `break` depends, in which way of which conditions it stands; what holds items reports
        where the others cannot know that."""
        leaves = tuple(any(map(_is_stop, arm)) for arm in (s.then, s.otherwise))
        if not any(leaves):
            return
        ways = tuple((asked, word) for asked, word, _ in self.ways)
        try:
            for asked, _, span in self.ways:
                if asked is None:
                    raise _Impure(span)
            form = (*ways, self.form(s.condition, outer, known), leaves)
            self.breaks.append((form, s.condition.span))
        except _Impure as impure:
            self.breaks.append((impure, impure.span))

    def _goes_on(self, s: X.If) -> P.Body | None:
        """The way that is gone in every turn but the last, where the other leaves the loop."""
        leaves = [any(map(_is_stop, arm)) for arm in (s.then, s.otherwise)]
        if leaves[0] == leaves[1]:
            return None
        return s.otherwise if leaves[0] else s.then

    def _running(self, s: X.If, outer: tuple[str, ...], known: Known) -> list[Trip]:
        """A loop's body before a `break`, or what stands behind one, or behind a `continue`: it runs where no condition
        of one has held ahead of it."""
        inner = self._body(s.then, outer, known)
        made = list(self.breaks)
        if not inner:
            return []
        for form, span in made:
            if isinstance(form, _Impure):
                self._report(form, "in a loop that is left under a condition that", span)
                return []
        at = made[0][1] if made else s.span
        return [Trip(("running", *(form for form, _ in made)), inner, at)]

    def _while(self, s: X.While, outer: tuple[str, ...], known: Known) -> list[Trip]:
        """A loop whose turns follow from variables that only pure expressions change (R6)."""
        changes = {n for n in P.set_in((s.body,)) if known.get(n) is not None}
        state = {**known, **{n: ("state", self.whiles, n) for n in changes}}
        after = dict(state)
        self.whiles += 1
        try:
            condition = self.form(s.condition, outer, state)
            inner = self._body(s.body, outer, after)
        except _Impure as impure:
            self.whiles -= 1
            _forget(known, s.body)
            if self._body(s.body, outer, dict(known)):
                self._report(impure, "in a loop whose condition")
            return []
        self.whiles -= 1
        order: list[str] = []
        key: list[Any] = [_numbered(condition, self.whiles, order)]
        for name in order:  # grows as the forms name others
            if name.startswith(STOP):  # its conditions are compared where they stand
                key.append("stop")
                continue
            if after.get(name) is None and inner:
                self._report(
                    _Impure(s.condition.span), f"in a loop whose turns depend on `{name}`, which"
                )
                return []
            key.append((known[name], _numbered(after[name], self.whiles, order)))
        inner = tuple(_renamed(t, self.whiles, order) for t in inner)
        _forget(known, s.body)
        return [Trip(("while", *key), inner, s.span)] if inner else []

    def _loop(
        self, s: P.Each | P.Blocks | X.Range | X.While, outer: tuple[str, ...], known: Known
    ) -> list[Trip]:
        round_, self.breaks, self.ways = (self.breaks, self.ways), [], []
        found = self._turns(s, outer, known)
        self.breaks, self.ways = round_
        return found

    def _turns(
        self, s: P.Each | P.Blocks | X.Range | X.While, outer: tuple[str, ...], known: Known
    ) -> list[Trip]:
        if isinstance(s, X.While):
            return self._while(s, outer, known)
        _forget(known, s.body)
        match s:
            case P.Each():
                names = s.variables
            case P.Blocks() | X.Range():
                names = (s.variable,)
        inner = self._body(s.body, (*outer, *names), dict(known))
        match s:
            case P.Blocks() if s.bounds is not None:
                ends = (s.bounds.first, s.bounds.last)
                return self._trip(ends, f"blocks of {s.axis.size}", inner, outer, known, s.span)
            case P.Each() | P.Blocks():
                return [Trip(_key(s, outer), inner, s.span)] if inner else []
            case X.Range():
                bounds = (s.lower, s.upper, s.step)
                return self._trip(bounds, "range", inner, outer, known, s.span)

    def _trip(
        self,
        values: tuple[P.Value, ...],
        word: str,
        inner: tuple[Trip, ...],
        outer: tuple[str, ...],
        known: Known,
        span: Span,
    ) -> list[Trip]:
        if not inner:
            return []
        try:
            key = (word, *(self.form(v, outer, known) for v in values))
        except _Impure as impure:
            self._report(impure, "under a condition or bound that")
            return []
        return [Trip(key, inner, span)]

    def _inside_a_turn(self, s: P.Transfer, span: Span) -> None:
        self.failed = True
        before = self.scope.note("runs at this role's turns alone", s.span)
        told = f"a put or get of pipe {self.pipe} inside a get of pipe {s.pipes[0].name}, which goes by turns"
        self.scope.later(told, span, before)

    def _report(self, impure: _Impure, told: str, span: Span | None = None) -> None:
        """A tensor that is not `const` is one mistake, in however many roles."""
        self.failed = True
        tensor = impure.tensor
        if tensor in self.scope.variable:
            return
        notes, help = [], None
        if tensor:
            self.scope.variable.add(tensor)
            notes = [self.scope.note(f"{tensor} may change", self.scope.names[tensor].span)]
            help = f"`{tensor}: const global[...]`, where nothing writes it while the kernel runs"
        self.scope.error(
            "TK109",
            f"role {self.role.name} {self.direction}s pipe {self.pipe} {told} the other roles cannot know: "
            "it is made of sizes, arguments, loop variables and elements of `const` tensors alone; what a role "
            "computes travels through a pipe",
            span or impure.span,
            *notes,
            help=help,
        )

    def _maybe(self, value: P.Value, outer: tuple[str, ...], known: Known) -> Any:
        try:
            return self.form(value, outer, known)
        except _Impure:
            return None

    def form(self, x: Any, outer: tuple[str, ...], known: Known) -> Any:
        """An expression in a form that is equal for equal values; loop variables by their place. Raises _Impure."""
        match x:
            case X.Number():
                return ("size", x.size)
            case P.Constant():
                return ("constant", x.value)
            case P.Given():
                return ("argument", x.name)
            case X.BlockNumber() if x.block in outer:
                return ("variable", _place(x.block, outer))
            case P.Variable() if x.name in outer:
                return ("variable", _place(x.name, outer))
            case P.Variable() if known.get(x.name) is not None:
                return known[x.name]
            case X.Element(of=P.Slice() as of, constant=True):
                indices = (self._index(i, outer, known, x.span) for i in of.indices)
                return ("element", of.tensor, *indices)
            case P.Apply():
                return (x.kind, *(self.form(o, outer, known) for o in x.operands))
            case X.Choose():
                ways = (x.condition, x.then, x.otherwise)
                return ("choose", *(self.form(o, outer, known) for o in ways))
            case X.Element(of=P.Slice() as of):
                raise _Impure(x.span, of.tensor)
            case _:
                raise _Impure(x.span)

    def _index(self, index: Any, outer: tuple[str, ...], known: Known, span: Span) -> Any:
        """An index of an element, which is the name of a variable, a size in a tuple of one, or an expression."""
        if isinstance(index, str):
            return self.form(P.Variable(index, I32, span), outer, known)
        if isinstance(index, tuple) and len(index) == 1:
            return ("size", index[0])
        return self.form(index, outer, known)


def _place(name: str, outer: tuple[str, ...]) -> int:
    """Which of the variables round a statement it is, counted from outside; the innermost of that name."""
    return len(outer) - outer[::-1].index(name)


def _forget(known: Known, body: P.Body) -> None:
    """What a body sets has no one value before its next turn, or after it."""
    for s in body:
        if isinstance(s, P.Set):
            known[s.name] = None
        for inner in P.bodies(s):
            _forget(known, inner)


def _is_stop(s: Any) -> bool:
    return isinstance(s, P.Set) and s.name.startswith(STOP)


def _stops(condition: P.Value) -> bool:
    """Whether a condition is that a loop has not been left."""
    first = condition.operands[0] if isinstance(condition, P.Apply) else None
    return isinstance(first, P.Variable) and first.name.startswith(STOP)


def _numbered(form: Any, depth: int, order: list[str]) -> Any:
    """A form with the variables of a `while` by their place in `order`, to which new ones are added."""
    if not isinstance(form, tuple):
        return form
    if form[:2] == ("state", depth) and isinstance(form[2], str):
        if form[2] not in order:
            order.append(form[2])
        return ("state", depth, order.index(form[2]))
    return tuple(_numbered(x, depth, order) for x in form)


def _renamed(trip: Trip, depth: int, order: list[str]) -> Trip:
    inner = tuple(_renamed(t, depth, order) for t in trip.inner)
    return trip._replace(key=_numbered(trip.key, depth, order), inner=inner)


def _key(s: P.Each | P.Blocks, outer: tuple[str, ...]) -> Any:
    """What a loop's trip count is made of; a block that it runs in is named by its place among the variables."""
    if isinstance(s, P.Each):
        return s.schedule.name
    if s.within is None:
        return s.axis
    return s.axis, _place(s.within, outer)


def _differ(
    left: Sequence[Trip], right: Sequence[Trip], at: tuple[Span, Span]
) -> tuple[tuple[Span, Span], tuple[int, int]] | None:
    """The first two places that differ, and how many items or loops stand there where that is what differs."""
    for a, b in zip(left, right, strict=False):
        if a.key != b.key:
            return (a.span, b.span), (0, 0)
        found = _differ(a.inner, b.inner, (a.span, b.span))
        if found:
            return found
    return (at, (len(left), len(right))) if len(left) != len(right) else None


def same_trips(left: Sequence[Trip], right: Sequence[Trip]) -> bool:
    """Whether two roles have as many items, in the same loops under the same conditions."""
    nowhere = Span(0, 0, 0, 0)
    return _differ(left, right, (nowhere, nowhere)) is None


def check_agreement(
    scope: Scope, pipes: Sequence[P.Pipe], roles: Sequence[P.Role]
) -> dict[str, dict[str, tuple[Trip, ...]]]:
    """Reports TK109 for each pipe whose ends disagree, naming both loops; a role that takes no part at all as well.

    Gives, of each pipe, the loops and items of the roles at its ends.
    """
    known: dict[str, dict[str, tuple[Trip, ...]]] = {}
    by_name = {role.name: role for role in roles}
    unlike: set[Span] = set()
    for pipe in pipes:
        ends = [(name, "put") for name in pipe.producers]
        ends += [(name, "get") for name in pipe.consumers]
        walks = [_Trips(scope, pipe.name, by_name[name], direction) for name, direction in ends]
        trips = [walk.found() for walk in walks]
        known[pipe.name] = {name: trip for (name, _), trip in zip(ends, trips, strict=True)}
        if any(walk.failed for walk in walks):
            continue
        idle = [end for end, trip in zip(ends, trips, strict=True) if not trip]
        for name, direction in idle:
            scope.error(
                "TK109",
                f"role {name} never {direction}s pipe {pipe.name} ({scope.ends(pipe)})",
                pipe.span,
                scope.note(f"role {name}", by_name[name].span),
            )
        if idle:
            continue
        producer = pipe.producers[0]
        for (other, direction), trip in list(zip(ends, trips, strict=True))[1:]:
            at = (by_name[producer].span, by_name[other].span)
            found = _differ(trips[0], trip, at)
            if not found:
                continue
            spans, counts = found
            if (
                counts[0] == counts[1]
            ):  # a condition or loop that is unlike others is so for all pipes in it
                if unlike & {*spans}:
                    continue
                unlike |= {*spans}
            _report(scope, pipe, (producer, other), direction, *found)
    return known


def check_writers(scope: Scope, pipes: Sequence[P.Pipe]) -> None:
    """R5: where several roles fill each item, each tile is filled by exactly one of them, in all its puts."""
    for pipe in pipes:
        if len(pipe.producers) == 1:
            continue
        for tile in pipe.tiles:
            writers = scope.writers.get((pipe.name, tile.name), {})
            silent = scope.silent.get((pipe.name, tile.name), {})
            if len(writers) > 1:
                first, *others = writers
                scope.error(
                    "TK103",
                    f"`{tile.name}` of pipe {pipe.name} is written by role {first} and by role {others[0]}: one does",
                    writers[others[0]].span,
                    scope.note(f"role {first} writes it here", writers[first].span),
                )
            for role, owned in writers.items():
                if role in silent:
                    scope.error(
                        "TK114",
                        f"role {role} writes `{tile.name}` in one put of pipe {pipe.name}, and not in this",
                        silent[role].span,
                        scope.note("it is written here", owned.span),
                    )
            if not writers and silent:
                scope.error(
                    "TK114",
                    f"no role writes `{tile.name}`, and {listed(pipe.consumers)} reads it: expected "
                    f"`{tile.name} <- ...` in a put of {' or '.join(pipe.producers)}",
                    pipe.span,
                )


def _report(
    scope: Scope,
    pipe: P.Pipe,
    names: tuple[str, str],
    does: str,
    spans: tuple[Span, Span],
    counts: tuple[int, int],
) -> None:
    texts = [scope.source.excerpt(span) for span in spans]
    if counts[0] != counts[1]:
        told = [
            f"{plural(n, 'put or loop', 'puts or loops')} in `{t}`"
            for n, t in zip(counts, texts, strict=True)
        ]
        told[1] = told[1].replace("put", does)
    else:
        told = [f"`{t}`" for t in texts]
    if told[0] == told[1]:
        told = [f"{t} in line {span.line}" for t, span in zip(told, spans, strict=True)]
        told[1] += ", which is of other values there, or the other arm"
    scope.error(
        "TK109",
        f"roles {names[0]} and {names[1]} disagree about the items of pipe {pipe.name}: "
        f"{names[0]} puts them by {told[0]}, {names[1]} {does}s them by {told[1]}",
        spans[1],
        scope.note(f"role {names[0]}: `{texts[0]}`", spans[0]),
        scope.note(f"role {names[1]}: `{texts[1]}`", spans[1]),
    )
