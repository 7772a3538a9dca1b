"""What an axis of a variable is of once a loop has gone round: elements of several blocks, not of one.

`acc = acc + exp(read(x))` in a loop over blocks k adds elements of all blocks, so that no condition on k says which of
the sum count: of the last block, those beyond the axis were added to elements of the blocks before. What was neutral
when it was added has changed nothing, whatever comes later; all else is an error where it is reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.sizes import Size, show

NEUTRAL_FILL = {"add": 0.0, "max": float("-inf"), "min": float("inf")}
ZERO_STAYS = {"mul", "neg", "abs", "sqrt", "tanh", "erf", "sin"}
"""Operations that make 0 of 0, whatever a second operand is."""

Columns = tuple[str | P.Part, P.Axis]
"""The block that columns are, and its axis."""


class Carried(NamedTuple):
    """A variable that a loop goes round with, `depth` loops inside; before the loop its axis was `known`."""

    depth: int
    known: Columns | None


class Several(NamedTuple):
    """Elements of several blocks. Those beyond the axis have changed nothing for reductions of a `kind`, if any."""

    block: str | P.Part
    axis: P.Axis
    kind: str | None


Entry = Columns | Carried | Several | None
"""What is known of one axis of a value."""


def columns(entry: Entry) -> Columns | None:
    """The one block that an axis is, where it is one."""
    if isinstance(entry, Carried):
        return entry.known
    return None if isinstance(entry, Several) else entry


def name_of(block: str | P.Part) -> str:
    """The loop variable of a block or of a part of one."""
    return block.block if isinstance(block, P.Part) else block


def carried(axes: Sequence[Entry], depth: int) -> tuple[Entry, ...]:
    """The axes of a variable as a loop begins that sets it again."""
    padded = (*axes, None, None)[:2]
    return tuple(a if isinstance(a, Carried | Several) else Carried(depth, a) for a in padded)


def left(axes: Sequence[Entry], depth: int, ended: Sequence[str]) -> tuple[Entry, ...]:
    """The axes of a variable behind a loop at a depth, whose variables have ended."""
    return tuple(_left(a, depth, ended) for a in axes)


def _left(entry: Entry, depth: int, ended: Sequence[str]) -> Entry:
    if isinstance(entry, Carried):
        return entry.known if entry.depth == depth else entry
    if entry is None or isinstance(entry, Several) or name_of(entry[0]) not in ended:
        return entry
    return Several(*entry, None)


class Ends:
    """What elements beyond the axes of values are, as the statements of a role are walked in order."""

    def __init__(self) -> None:
        self.copied: dict[str, bool] = {}
        """Of each tile of a put or get, whether the copy engine filled it, with 0 beyond every axis."""
        self.zero: dict[str, tuple[bool, bool]] = {}
        """Of each variable, whether it is 0 beyond its rows and its columns."""

    def forget(self, names: set[str]) -> None:
        """What a loop or a condition sets."""
        for name in names:
            self.zero.pop(name, None)

    def set(self, name: str, value: P.Value, axes: Sequence[Entry]) -> None:
        """What an assignment tells of a variable."""
        blocks = [columns(a) for a in (*axes, None, None)[:2]]
        rows, cols = (b is not None and self._is(value, 0.0, i, b) for i, b in enumerate(blocks))
        self.zero[name] = (rows, cols)

    def combined(
        self, x: P.Apply, i: int, entries: Sequence[tuple[P.Value, Entry]], depths: dict[str, int]
    ) -> Entry:
        """Axis i of an operation on values whose entries are known; `depths` of the loops, by their variables."""
        several = next((e for _, e in entries if isinstance(e, Several)), None)
        if several is not None:
            return self._changed(x, i, several, entries)
        plain = next((e for _, e in entries if not isinstance(e, None | Carried | Several)), None)
        around = next((e for _, e in entries if isinstance(e, Carried)), None)
        if plain is None or around is None:
            return plain if plain is not None else around
        if depths.get(name_of(plain[0]), -1) < around.depth:
            return plain
        added = [o for o, e in entries if not isinstance(e, Carried)]
        return Several(*plain, self._neutral(x, i, added, plain))

    def _changed(
        self, x: P.Apply, i: int, of: Several, entries: Sequence[tuple[P.Value, Entry]]
    ) -> Several:
        """Several blocks behind an operation: what was neutral may be so no longer."""
        others = [o for o, e in entries if e is not of and not isinstance(e, Carried)]
        if of.kind is not None and x.kind in (of.kind, {"add": "sub"}.get(of.kind)):
            return of._replace(kind=self._neutral(x, i, others, (of.block, of.axis)))
        return of if of.kind == "add" and x.kind in ZERO_STAYS else of._replace(kind=None)

    def _neutral(self, x: P.Apply, i: int, added: Sequence[P.Value], block: Columns) -> str | None:
        """The reductions for which elements beyond a block's axis change nothing when an operation adds them."""
        kind = "add" if x.kind == "sub" else x.kind
        fill = NEUTRAL_FILL.get(kind)
        return (
            kind if fill is not None and all(self._is(o, fill, i, block) for o in added) else None
        )

    def _is(self, x: P.Value, fill: float, i: int, block: Columns) -> bool:
        """Whether a value is a number wherever it is beyond a block's axis, which is its axis i."""
        match x:
            case P.Where():
                ends = isinstance(x.limit, X.Number) and _is_size(x.limit.size, block[1].extent)
                only = x.blocks[i] == block[0] and x.factors[i] == 1 and x.factors[1 - i] == 0
                return ends and only and x.fill == fill and x.otherwise is None and not x.positions
            case P.Read():
                return fill == 0 and self.copied.get(x.tile, False)
            case P.Variable():
                return fill == 0 and self.zero.get(x.name, (False, False))[i]
            case P.Cast():
                return self._is(x.operand, fill, i, block)
            case P.Transpose():
                return self._is(x.operand, fill, 1 - i, block)
            case P.Apply() if fill == 0 and x.kind in ZERO_STAYS:
                return any(self._is(o, fill, i, block) for o in x.operands)
            case P.Apply() if fill == 0 and x.kind in ("add", "sub"):
                return all(self._is(o, fill, i, block) for o in x.operands)
            case _:
                return False


def _is_size(size: Size, extent: Size) -> bool:
    """Whether a limit is an extent; from the other side of a comparison it has two signs."""
    return size in (extent, ("sub", 0, ("sub", 0, extent)))


def told(of: Several, kind: str) -> str:
    """Why a value cannot be reduced."""
    name = name_of(of.block)
    way = {"add": "acc = acc + row_sum(x)"}.get(kind, f"acc = {kind}(acc, row_{kind}(x))")
    fill = {"max": "-inf", "min": "inf"}.get(kind, "0")
    end = show(of.axis.extent)
    return (
        f"not supported yet: this holds elements of several blocks {name}, and of the last those beyond {end} may be "
        f"among them: reduce each block in the loop, as in `{way}`, or leave them out where they are added, as in "
        f"`x if {name} < {end} else {fill}`"
    )
