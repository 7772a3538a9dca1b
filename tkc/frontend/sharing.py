"""R2: tiles that ride in several pipes, or lie in the place of another tile: who owns a slot, and who has it next.

Nothing here proves that two blocks never own a slot at once: `prove-ownership` does, on the barriers that are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.describe import describe
from tkc.frontend.program import Pipe, Tile
from tkc.frontend.scope import Failed, Scope, Unknown, plural
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import DTYPES

if TYPE_CHECKING:
    from tkc.frontend.agree import Trip

# Declarations --------------------------------------------------------------------------------------------------------


def in_place_of(scope: Scope, s: S.Declare, tile: Tile) -> Tile:
    """`shared p: tile[...] in s`: the tile, with the one in whose place it lies."""
    assert s.within is not None
    if s.within.part is not None:
        _fail(
            scope, "TK106", f"`{s.within.name.text}` is no family: it has no index", s.within.span
        )
    name = s.within.name.text
    base = scope.find(name, s.within.span, ("shared tile", "accumulator"))
    if isinstance(base, Unknown):
        raise Failed
    if not isinstance(base, Tile) or base.accumulator is not tile.accumulator:
        what = "an accumulator" if tile.accumulator else "a shared tile"
        _fail(
            scope,
            "TK106",
            f"{what} lies in the place of another, not of {describe(base)}",
            s.within.span,
        )
    if base.scale is not None or tile.scale is not None:
        scope.later("block scales in the place of other tiles, or the reverse", s.within.span)
        raise Failed
    if tile.accumulator and tile.depth != base.depth:
        scope.later(
            f"an accumulator of {plural(tile.depth, 'slot')} in the place of one of {base.depth}",
            s.within.span,
        )
        raise Failed
    _check_fits(scope, tile, base, s.within.span)
    tile = tile._replace(within=base.within or base.name)
    scope.together |= {tile.name, base.name, tile.within or base.name}
    return tile


def _check_fits(scope: Scope, tile: Tile, base: Tile, span: Span) -> None:
    """TK104 where a tile is larger than the one in whose place it lies: slot by slot, where both have as many."""
    slots = 1 if tile.depth == base.depth else tile.depth
    room = 1 if tile.depth == base.depth else base.depth
    if tile.accumulator:
        unit, wanted, given = "columns", _columns(tile), _columns(base)
    else:
        unit, wanted, given = "bytes", _bytes(tile) * slots, _bytes(base) * room
    if wanted <= given:
        return
    of = "a slot of " if tile.depth == base.depth and tile.depth > 1 else ""
    scope.error(
        "TK104",
        f"{of}{tile.name} takes {wanted} {unit}, and {of}{base.name}, in whose place it would lie, has {given}",
        span,
        scope.note(f"{base.name} is {base.dtype} {list(base.shape)}", base.span),
    )
    raise Failed


def _bytes(tile: Tile) -> int:
    count = DTYPES[tile.dtype].bits
    for extent in tile.shape:
        count *= extent
    return -(-count // 8)


def _columns(tile: Tile) -> int:
    """Columns of tensor memory: a row of it holds one of each 128 rows."""
    return -(-tile.shape[0] // 128) * tile.shape[1]


def check_pipe(scope: Scope, pipe: Pipe, other: Pipe, tile: Tile, span: Span) -> None:
    """What cannot be compiled yet of a tile that another pipe carries, too."""
    before = scope.note(f"pipe {other.name} carries it, too", other.span)
    told = f"`{tile.name}` in two pipes"
    if pipe.turns or other.turns:
        scope.later(f"{told}, of which one goes by turns", span, before)
    elif len(pipe.producers) > 1 or len(other.producers) > 1:
        scope.later(f"{told}, of which one has several producers", span, before)
    elif tile.scale is not None:
        scope.later(f"{told}: it has block scales", span, before)


def _fail(scope: Scope, code: str, message: str, span: Span) -> None:
    scope.error(code, message, span)
    raise Failed


# Blocks --------------------------------------------------------------------------------------------------------------


def written_zeros(scope: Scope, body: P.Body, names: Iterable[str]) -> P.Body:
    """The body of a put; `d = 0` writes zeros where no product of the block starts from them and others read them."""
    alone = {n for n in names if scope.shares(n)} - {
        s.d for s in _inside(body) if isinstance(s, P.Multiply)
    }
    return tuple(
        _zeros(scope, s) if isinstance(s, P.Clear) and s.tile in alone else s for s in body
    )


def _zeros(scope: Scope, s: P.Clear) -> P.Move:
    tile = scope.names[s.tile].meaning
    zero = P.Fill(P.Constant(0.0, s.span), P.Regs(tile.dtype, tile.shape), s.span)
    return P.Move(s.tile, zero, s.span)


def _inside(body: P.Body) -> Iterator[P.Statement]:
    for s in body:
        yield s
        for inner in P.bodies(s):
            yield from _inside(inner)


def check_lockstep(scope: Scope, roles: Sequence[P.Role]) -> None:
    """A put inside a get of the same tile hands on its slot: both have item i of a slot, so each get holds one put."""
    for role in roles:
        blocks = list(_transfers(role.body))
        for outer in blocks:
            for inner in _transfers(outer.body):
                if outer.direction != "get" or inner.direction != "put":
                    continue
                for taken, given in _same_tiles(outer, inner):
                    _check_pair(scope, role, blocks, taken, given, inner.span)


def _check_pair(
    scope: Scope, role: P.Role, blocks: list[P.Transfer], taken: Pipe, given: Pipe, span: Span
) -> None:
    gets = [b for b in blocks if b.direction == "get" and taken in b.pipes]
    puts = [b for b in blocks if b.direction == "put" and given in b.pipes]
    held = [b for g in gets for b in _directly(g.body) if b in puts]
    once = all(
        g.pipes.count(taken) == 1 and sum(b.pipes.count(given) for b in _directly(g.body)) == 1
        for g in gets
    )
    if once and len(held) == len(puts):
        return
    scope.error(
        "TK109",
        f"this put of pipe {given.name} hands on the slot that a get of pipe {taken.name} took, so that each of "
        f"role {role.name}'s gets of {taken.name} holds one put of {given.name}, and nothing else puts it; "
        "`as` gives the items names of their own",
        span,
        scope.note(f"pipe {taken.name}: {scope.ends(taken)}", taken.span),
    )


def _directly(body: P.Body) -> Iterator[P.Transfer]:
    """The puts and gets in a body, and in those, that run once whenever it runs."""
    for s in body:
        if isinstance(s, P.Transfer):
            yield s
            yield from _directly(s.body)


def _same_tiles(outer: P.Transfer, inner: P.Transfer) -> Iterator[tuple[Pipe, Pipe]]:
    """The pipes of two blocks whose tiles go by one name in both."""
    for name, pipe in _named(inner):
        yield from ((other, pipe) for known, other in _named(outer) if known == name)


def _named(block: P.Transfer) -> Iterator[tuple[str, Pipe]]:
    names = iter(block.tiles)
    for pipe in block.pipes:
        yield from ((next(names), pipe) for _ in pipe.tiles)


def _transfers(body: P.Body) -> Iterator[P.Transfer]:
    for s in body:
        if isinstance(s, P.Transfer):
            yield s
        for inner in P.bodies(s):
            yield from _transfers(inner)


# Who has a slot next -------------------------------------------------------------------------------------------------


def hand_overs(
    pipes: Sequence[Pipe], trips: dict[str, dict[str, tuple[Trip, ...]]]
) -> dict[str, tuple[str, ...]]:
    """The pipes through which each pipe's items go on, item by item, until the slot is free again.

    `load -> work` and `work -> store` of one tile are such: a slot is free for load when store has released it. What
    the commit of a product tells of a release ahead of it is not proved, so later roles await it themselves where the
    tile is an accumulator. Where the slot goes to and fro they do not: each has had this item, and released it maybe,
    so that a wait for the release of the one before could miss it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for pipe in pipes:
        group = [p for p in pipes if _meet(p, pipe)]
        if len(group) < 2:
            continue
        alike = [p for p in group if _alike(trips, pipe, p)]
        later = any(p is not pipe and pipe.producers[0] in p.consumers for p in alike)
        if later and not any(tile.accumulator for tile in pipe.tiles):
            continue  # what comes to its producer comes by another pipe, which has waited
        reached: list[Pipe] = [pipe]
        for one in reached:
            reached += [p for p in alike if p.producers[0] in one.consumers and p not in reached]
        if later and any(pipe.producers[0] in p.consumers for p in reached):
            continue  # to and fro
        if len(reached) > 1:
            found[pipe.name] = tuple(p.name for p in reached[1:])
    return found


def _meet(one: Pipe, other: Pipe) -> bool:
    """Whether two pipes have a tile, or a place, in common."""
    places = [{t.within or t.name for t in p.tiles} for p in (one, other)]
    slots = [{t.depth for t in p.tiles} for p in (one, other)]
    return bool(places[0] & places[1]) and slots[0] == slots[1]


def _alike(trips: dict[str, dict[str, tuple[Trip, ...]]], one: Pipe, other: Pipe) -> bool:
    """Whether two pipes have as many items, in the same loops."""
    from tkc.frontend.agree import same_trips

    return same_trips(trips[one.name][one.producers[0]], trips[other.name][other.producers[0]])


def with_after(declarations: Sequence[Any], after: dict[str, tuple[str, ...]]) -> list[Any]:
    """The declarations, whose pipes know what they await."""
    return [
        d._replace(after=after[d.name]) if isinstance(d, Pipe) and d.name in after else d
        for d in declarations
    ]
