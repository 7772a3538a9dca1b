"""Schedules: the axes that they run over, and the order of their items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend import lists
from tkc.frontend.program import Schedule
from tkc.frontend.scope import listed, plural

if TYPE_CHECKING:
    from tkc.frontend.declare import Declarations

TILES = ("group", "across", "order")
"""Options of `tiles`."""


def read(declared: Declarations, s: S.Schedule) -> None:
    if s.given or s.where is not None:
        _keys(declared, s)
        return
    group, across, serpentine = 1, None, False
    value = s.value
    name = (
        value.function.text
        if isinstance(value, S.Call) and isinstance(value.function, S.Name)
        else ""
    )
    if name == "chain":
        groups, rest, value = lists.chain(declared, s)
        axes = [groups, *(lists.tiles_of_group(declared, s, e) for e in rest)]
        lists.check_chain(declared, s, axes)
    elif name == "tiles" and isinstance(value, S.Call):
        axes = [declared.axis(a.value) for a in value.arguments if a.name is None]
    elif name == "blocks":
        axes = [declared.axis(value)]
    else:
        axes = []
    if name in ("chain", "tiles") and isinstance(value, S.Call):
        for argument in value.arguments:
            if argument.name is None:
                continue
            option = argument.name.text
            if option == "group":
                group = declared.values.number(argument.value, "the group of a schedule")
            elif option == "across":
                across = _across(declared, s, argument.value)
            elif option == "order":
                serpentine = _order(declared, s, argument.value)
            else:
                near = nearest(option, TILES)
                hint = f"; did you mean `{near}`" if near else f"; there are {listed(TILES)}"
                declared.values.fail(
                    "TK102", f"`tiles` has no option `{option}`{hint}", argument.name.span
                )
        if not axes:
            declared.values.fail(
                "TK116", "`tiles` takes one `blocks(extent, size)` for each axis", value.span
            )
    elif name == "range":
        declared.values.later("`range(...)` in a schedule", value.span)
    elif name != "blocks":
        near = nearest(name, ["tiles", "blocks", "chain"]) if name else None
        hint = f"; did you mean `{near}`" if near else ""
        declared.values.fail(
            "TK106", f"a schedule runs over `tiles(...)` or `blocks(...)`{hint}", value.span
        )
    if len(s.axes) != len(axes):
        declared.values.fail(
            "TK116",
            f"schedule {s.name.text} names {plural(len(s.axes), 'axis', 'axes')} of {len(axes)}",
            s.name.span,
        )
    if s.name.text in declared.ordered and group != 1:
        declared.values.fail(
            "TK106",
            "`group` and `order` both say which item comes next",
            declared.ordered[s.name.text],
        )
    if across is not None and across < len(axes) and axes[across].single:
        declared.values.later(
            "a cluster across single elements: `across` is an axis of `blocks`", value.span
        )
    made = Schedule(s.name.text, tuple(axes), group, s.name.span, across, serpentine)
    if declared.scope.define(s.name, "schedule", made):
        declared.made.append(made)


def _order(declared: Declarations, s: S.Schedule, e: S.Expression) -> bool:
    """`order = serpentine`: every second band of rows backwards; `order = longest_first`, where which items are
    long is known once the roles are."""
    name = e.text if isinstance(e, S.Name) else ""
    orders = ("serpentine", "longest_first")
    if name not in orders:
        near = nearest(name, orders) if name else None
        hint = f"; did you mean `{near}`" if near else f"; there are {listed(orders)}"
        declared.values.fail(
            "TK102",
            f"no order {f'`{name}`' if name else 'of this form'} of a schedule{hint}",
            e.span,
        )
    if name == "longest_first":
        declared.ordered[s.name.text] = e.span
    return name == "serpentine"


def _keys(declared: Declarations, s: S.Schedule) -> None:
    """`schedule keys(m): j in blocks(N, BN) where ...`; the condition is read where a `for` gives the arguments."""
    from tkc.frontend.spans import Keys

    called = s.value.function if isinstance(s.value, S.Call) else None
    if not (isinstance(called, S.Name) and called.text == "blocks") or len(s.axes) != 1:
        declared.values.fail(
            "TK106",
            "a schedule with arguments or a `where` runs over the blocks of one axis: "
            "`schedule keys(m): j in blocks(N, BN) where ...`",
            s.value.span,
        )
    keys = Keys(s.name.text, s.given, s.axes[0], declared.axis(s.value), s.where, s.name.span)
    declared.scope.define(s.name, "schedule with arguments", keys)


def _across(declared: Declarations, s: S.Schedule, e: S.Expression) -> int:
    """`across = m`: the axis of that variable."""
    names = [axis.text for axis in s.axes]
    if not isinstance(e, S.Name) or e.text not in names:
        declared.values.fail(
            "TK102", f"`across` names a variable of the schedule: {listed(names)}", e.span
        )
    return names.index(e.text)
