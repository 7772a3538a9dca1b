"""`launch dependent`: a role that reads tensors has heard before that the grids ahead of this one have ended.

Where a program says `wait pdl` at all, it does so itself, or waits for a role that may have: a get, a barrier, threads
that meet. Whether that role has is for `tkc check` to find (TK318), and so is what a role with a `wait pdl`
touches ahead of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.scope import Scope
from tkc.frontend.syntax import Span


def check_dependent(scope: Scope, roles: Sequence[P.Role], clause: Span) -> None:
    """Reports TK318 for each role that reads a tensor and has waited for nothing, where another one has a `wait pdl`.

    Where none has, the compiler puts one in each role that touches a tensor, or the program says more than this knows.
    """
    waiting = [
        r for r in roles if any(isinstance(s, X.Grid) and s.does == "wait" for s in _all(r.body))
    ]
    if not waiting:
        return
    early = scope.note(
        "`launch dependent` starts the kernel before the one ahead of it has ended", clause
    )
    for role in [r for r in roles if r not in waiting]:
        read = _first_read(role.body)
        if read is not None:
            scope.error(
                "TK318",
                f"role {role.name} reads `{read.tensor}`, which the kernel ahead may still be writing: "
                f"expected `wait pdl` before it",
                read.span,
                early,
                scope.note(f"role {role.name} waits for nothing before", role.span),
            )


def _all(body: P.Body) -> Iterator[Any]:
    for s in body:
        yield s
        for inner in P.bodies(s):
            yield from _all(inner)


def _first_read(body: P.Body) -> P.Slice | None:
    """The first slice that the body reads before it waits for another role."""
    for s in _all(body):
        if (isinstance(s, P.Transfer) and s.direction == "get") or isinstance(s, X.Wait | X.Sync):
            return None
        if isinstance(s, X.ClusterBarrier) and s.does != "arrive":
            return None
        found = next(_reads(s), None)
        if found is not None:
            return found
    return None


def _reads(s: Any) -> Iterator[P.Slice]:
    """The slices that a statement reads by itself; an addition reads where it adds."""
    match s:
        case P.Move():
            yield from _slices(s if s.add else s.source)
        case X.Store():
            yield from _slices(s.destination if s.reduce else ())
        case X.StoreElement():
            yield from _slices(s.value)
        case _:
            yield from _slices(tuple(s[i] for i, f in enumerate(s._fields) if f not in _BODIES))


_BODIES = ("body", "then", "otherwise")


def _slices(x: Any) -> Iterator[P.Slice]:
    if isinstance(x, P.Slice):
        yield x
    elif isinstance(x, tuple) and not isinstance(x, Span | P.Tile):
        for part in x:
            yield from _slices(part)
