"""R6: the roles at the ends of a pipe make and take its items in the same loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tkc.frontend.program as P
from tkc.frontend.scope import Scope, plural
from tkc.frontend.syntax import Span


class _Trip(NamedTuple):
    """A loop with what it holds of a pipe, or one item: `key` is equal for equal trip counts."""

    key: Any
    inner: tuple[_Trip, ...]
    span: Span


_ITEM = "item"


def _trips(body: P.Body, pipe: str, outer: tuple[str, ...] = ()) -> tuple[_Trip, ...]:
    """The loops round the puts or gets of a pipe; a loop that holds none is left out.

    `outer` are the variables of the loops round the body, outermost first.
    """
    trips: list[_Trip] = []
    for s in body:
        if isinstance(s, P.Transfer):
            trips += [_Trip(_ITEM, (), s.span) for p in s.pipes if p.name == pipe]
            trips += _trips(s.body, pipe, outer)
        elif isinstance(s, P.Each | P.Blocks):
            names = s.variables if isinstance(s, P.Each) else (s.variable,)
            inner = _trips(s.body, pipe, (*outer, *names))
            if inner:
                trips.append(_Trip(_key(s, outer), inner, s.span))
    return tuple(trips)


def _key(s: P.Each | P.Blocks, outer: tuple[str, ...]) -> Any:
    """What a loop's trip count is made of; a block that it runs in is named by its place among the variables."""
    if isinstance(s, P.Each):
        return s.schedule.name
    if s.within is None:
        return s.axis
    return s.axis, len(outer) - outer[::-1].index(s.within)


def _differ(
    left: Sequence[_Trip], right: Sequence[_Trip], at: tuple[Span, Span]
) -> tuple[tuple[Span, Span], tuple[int, int]] | None:
    """The first two places that differ, and how many items or loops stand there where that is what differs."""
    for a, b in zip(left, right, strict=False):
        if a.key != b.key:
            return (a.span, b.span), (0, 0)
        found = _differ(a.inner, b.inner, (a.span, b.span))
        if found:
            return found
    return (at, (len(left), len(right))) if len(left) != len(right) else None


def check_agreement(scope: Scope, pipes: Sequence[P.Pipe], roles: Sequence[P.Role]) -> None:
    """Reports TK109 for each pipe whose ends disagree, naming both loops; a role that takes no part at all as well."""
    by_name = {role.name: role for role in roles}
    for pipe in pipes:
        trips = {
            name: _trips(by_name[name].body, pipe.name)
            for name in (*pipe.producers, *pipe.consumers)
        }
        idle = [name for name in trips if not trips[name]]
        for name in idle:
            does = "puts" if name in pipe.producers else "gets"
            scope.error(
                "TK109",
                f"role {name} never {does} pipe {pipe.name} ({scope.ends(pipe)})",
                pipe.span,
                scope.note(f"role {name}", by_name[name].span),
            )
        if idle:
            continue
        producer = pipe.producers[0]
        for consumer in pipe.consumers:
            at = (by_name[producer].span, by_name[consumer].span)
            found = _differ(trips[producer], trips[consumer], at)
            if found:
                _report(scope, pipe, (producer, consumer), *found)


def _report(
    scope: Scope,
    pipe: P.Pipe,
    names: tuple[str, str],
    spans: tuple[Span, Span],
    counts: tuple[int, int],
) -> None:
    texts = [scope.source.excerpt(span) for span in spans]
    if counts[0] != counts[1]:
        told = [
            f"{plural(n, 'put or loop', 'puts or loops')} in `{t}`"
            for n, t in zip(counts, texts, strict=True)
        ]
        told[1] = told[1].replace("put", "get")
    else:
        told = [f"`{t}`" for t in texts]
    scope.error(
        "TK109",
        f"roles {names[0]} and {names[1]} disagree about the items of pipe {pipe.name}: "
        f"{names[0]} puts them by {told[0]}, {names[1]} gets them by {told[1]}",
        spans[1],
        scope.note(f"role {names[0]}: `{texts[0]}`", spans[0]),
        scope.note(f"role {names[1]}: `{texts[1]}`", spans[1]),
    )
