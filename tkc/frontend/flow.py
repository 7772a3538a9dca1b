"""Which register variables a loop carries and a put or get hands on: liveness by name, in two linear walks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import tkc.frontend.program as P


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

    def names(self, s: P.Each | P.Blocks | P.Transfer) -> tuple[str, ...]:
        """For a loop the variables that it carries; for a put or get those that it sets and that are read later."""
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
                    if not isinstance(s.source, P.Slice | str):
                        exposed.update(n for n in _reads(s.source) if n not in sure)
                case P.Each() | P.Blocks() | P.Transfer():
                    inner = self._uses[id(s)] = self._summary(s.body)
                    exposed.update(inner.exposed - sure)
                    may |= dict.fromkeys(inner.may)
                    if isinstance(s, P.Transfer):
                        sure |= inner.sure
                case _:
                    continue
        return _Uses(frozenset(exposed), frozenset(sure), tuple(may))

    def _walk(self, body: P.Body, live: frozenset[str]) -> None:
        """Backwards from what is live behind the body."""
        for s in reversed(body):
            match s:
                case P.Set():
                    live = (live - {s.name}).union(_reads(s.value))
                case P.Move():
                    if not isinstance(s.source, P.Slice | str):
                        live = live.union(_reads(s.source))
                case P.Each() | P.Blocks():
                    uses = self._uses[id(s)]
                    round_ = live | uses.exposed
                    self._names[id(s)] = _kept(uses.may, round_)
                    self._walk(s.body, round_)
                    live = round_
                case P.Transfer():
                    uses = self._uses[id(s)]
                    self._names[id(s)] = _kept(uses.may, live)
                    self._walk(s.body, live)
                    live = (live - uses.sure) | uses.exposed
                case _:
                    continue


def _kept(names: Iterable[str], wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(n for n in names if n in wanted)


def _reads(value: P.Value) -> Iterator[str]:
    """The variables that a value is made of."""
    match value:
        case P.Variable():
            yield value.name
        case P.Cast() | P.Reduce() | P.Reshape() | P.Transpose():
            yield from _reads(value.operand)
        case P.Fill():
            yield from _reads(value.scalar)
        case P.Apply():
            for operand in value.operands:
                yield from _reads(operand)
        case _:
            return
