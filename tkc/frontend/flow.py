"""Which register variables a loop carries and a put or get hands on: liveness by name, in two linear walks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.syntax import Span


class _Uses(NamedTuple):
    """Of a body: names read before it has surely set them; names it surely sets; names it may set, in order."""

    exposed: frozenset[str]
    sure: frozenset[str]
    may: tuple[str, ...]


class Flow:
    """The names that outlive or go round each loop and block of a role, by the identity of the statement."""

    def __init__(self, body: P.Body) -> None:
        self._uses: dict[int, _Uses] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._summary(body)
        self._walk(body, frozenset())

    def names(
        self, s: P.Each | P.Blocks | P.Transfer | X.If | X.While | X.Range
    ) -> tuple[str, ...]:
        """For a loop the variables that it carries; for a put, get or condition those that it sets and that are read
        later."""
        return self._names[id(s)]

    def _summary(self, body: P.Body) -> _Uses:
        exposed: set[str] = set()
        sure: set[str] = set()
        may: dict[str, None] = {}
        for s in body:
            match s:
                case P.Set():
                    exposed.update(n for n in _reads(s.value) if n not in sure)
                    sure.add(s.name)
                    may[s.name] = None
                case P.Move():
                    exposed.update(n for n in reads((s.source, s.destination)) if n not in sure)
                case P.Each() | P.Blocks() | P.Transfer():
                    inner = self._summary(s.body)
                    if isinstance(s, P.Transfer) and s.turn is not None:
                        inner = inner._replace(sure=frozenset())
                    self._uses[id(s)] = inner
                    exposed.update(inner.exposed - sure)
                    if isinstance(s, P.Blocks) and s.bounds:
                        exposed.update(set(reads(s.bounds)) - sure)
                    may |= dict.fromkeys(inner.may)
                    if isinstance(s, P.Transfer):
                        sure |= inner.sure
                case X.If():
                    then, other = self._summary(s.then), self._summary(s.otherwise)
                    both = then.sure & other.sure
                    may_set = dict.fromkeys([*then.may, *other.may])
                    needed = then.exposed | other.exposed
                    inner = _Uses(needed.union(reads(s.condition)), both, tuple(may_set))
                    self._uses[id(s)] = inner
                    exposed.update(inner.exposed - sure)
                    may |= may_set
                    sure |= both
                case X.While() | X.Range():
                    inner = self._summary(s.body)
                    if isinstance(s, X.Range):
                        inner = inner._replace(exposed=inner.exposed - {s.variable})
                        exposed.update(set(reads((s.lower, s.upper, s.step))) - sure)
                    else:
                        inner = inner._replace(exposed=inner.exposed.union(reads(s.condition)))
                    self._uses[id(s)] = inner
                    exposed.update(inner.exposed - sure)
                    may |= dict.fromkeys(inner.may)
                case X.Elect():
                    exposed.update(self._summary(s.body).exposed - sure)
                case _:
                    exposed.update(n for n in reads(s) if n not in sure)
        return _Uses(frozenset(exposed), frozenset(sure), tuple(may))

    def _walk(self, body: P.Body, live: frozenset[str]) -> None:
        """Backwards from what is live behind the body."""
        for s in reversed(body):
            match s:
                case P.Set():
                    live = (live - {s.name}).union(_reads(s.value))
                case P.Move():
                    live = live.union(reads((s.source, s.destination)))
                case P.Each() | P.Blocks():
                    uses = self._uses[id(s)]
                    round_ = live | uses.exposed
                    self._names[id(s)] = _kept(uses.may, round_)
                    self._walk(s.body, round_)
                    live = round_.union(reads(s.bounds) if isinstance(s, P.Blocks) else ())
                case P.Transfer():
                    uses = self._uses[id(s)]
                    self._names[id(s)] = _kept(uses.may, live)
                    self._walk(s.body, live)
                    live = (live - uses.sure) | uses.exposed
                case X.If():
                    uses = self._uses[id(s)]
                    self._names[id(s)] = _kept(uses.may, live)
                    self._walk(s.then, live)
                    self._walk(s.otherwise, live)
                    live = (live - uses.sure) | uses.exposed
                case X.While() | X.Range():
                    uses = self._uses[id(s)]
                    round_ = live | uses.exposed
                    self._names[id(s)] = _kept(uses.may, round_)
                    self._walk(s.body, round_)
                    bounds = (s.lower, s.upper, s.step) if isinstance(s, X.Range) else ()
                    live = round_.union(reads(bounds))
                case X.Elect():
                    self._walk(s.body, live)
                    live = live | self._summary(s.body).exposed
                case _:
                    live = live.union(reads(s))


def _kept(names: Iterable[str], wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(n for n in names if n in wanted)


def _reads(value: P.Value) -> Iterator[str]:
    """The variables that a value is made of."""
    match value:
        case P.Variable():
            yield value.name
        case P.Cast() | P.Reduce() | P.Total() | P.Reshape() | P.Transpose():
            yield from _reads(value.operand)
        case P.Fill():
            yield from _reads(value.scalar)
        case P.Where():
            yield from _reads(value.operand)
            one: P.Where | None = value
            while one is not None:
                yield from _reads(one.limit)
                one = one.otherwise
        case P.Apply():
            for operand in value.operands:
                yield from _reads(operand)
        case P.Read() | P.Constant() | P.Given():
            return
        case _:
            yield from reads(value)


def reads(x: Any) -> Iterator[str]:
    """The variables in any tuple of the checked program that holds no statements."""
    if isinstance(x, P.Variable):
        yield x.name
    elif isinstance(x, tuple) and not isinstance(x, Span | P.Tile | X.Barrier):
        for part in x:
            yield from reads(part)
