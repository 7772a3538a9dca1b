"""Launch clauses: `persistent`, `clc`, `cluster(n)`, `pair`, and the axis of a schedule that a cluster lies across."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.program import Schedule
from tkc.frontend.scope import Scope, listed, plural
from tkc.frontend.syntax import Span
from tkc.ir.stage.structure import PAIR

if TYPE_CHECKING:
    from tkc.frontend.values import Values

LAUNCHES = ("persistent", "clc", "pair", "cluster", "dependent", "cooperative")
COMPILED = ("persistent", "clc", "pair", "cluster", "dependent")
SIZES = ("minimum", "preferred")
"""Sizes of clusters that hold several units."""
MOST_CTAS = 16
"""CTAs of a cluster that some GPU takes; what a target takes is a question of the passes."""


class Clauses:
    """Reads launch statements. `said` are the clauses by name; `ctas` the CTAs of a cluster, 1 where there is none;
    `sizes` of clusters that hold several: `minimum` of all, `preferred` where as many are free together."""

    def __init__(self, scope: Scope, values: Values) -> None:
        self.scope = scope
        self.values = values
        self.said: dict[str, Span] = {}
        self.ctas = 1
        self.sizes: dict[str, int] = {}
        self.falls_back = False

    def read(self, s: S.Launch) -> None:
        """Raises Failed where a number cannot be read; reports everything else."""
        for clause in self._alternatives(s):
            head = clause.function if isinstance(clause, S.Call) else clause
            name = head.text if isinstance(head, S.Name) else ""
            if name not in LAUNCHES:
                near = nearest(name, LAUNCHES) if name else None
                hint = f"; did you mean `{near}`" if near else f"; there are {listed(LAUNCHES)}"
                self.scope.error(
                    "TK102",
                    f"no launch clause {f'`{name}`' if name else 'of this form'}{hint}",
                    clause.span,
                )
            elif name not in COMPILED:
                self.scope.later(f"`launch {name}`", clause.span)
            elif name in self.said:
                before = self.scope.note("said here before", self.said[name])
                self.scope.error("TK103", f"`launch {name}` is said twice", clause.span, before)
            elif self._takes(name, clause):
                self.said[name] = clause.span
        if {"clc", "persistent"} <= {*self.said} and not self.falls_back:
            before = self.scope.note("said here", self.said["persistent"])
            self.scope.error(
                "TK106",
                "`launch clc` has a unit for each item, `launch persistent` as many as are resident; "
                "`clc or persistent` takes the second where a target has no first",
                self.said["clc"],
                before,
            )
        if "pair" in self.said and "cluster" in self.said:
            if self.ctas % PAIR or self.ctas & (self.ctas - 1):
                told = f"pairs in a cluster of {plural(self.ctas, 'CTA')}: it has 2, 4, 8 or 16"
                self.scope.error("TK120", told, self.said["cluster"])
            self.ctas = 1 if self.ctas == PAIR else self.ctas

    def _alternatives(self, s: S.Launch) -> list[S.Expression]:
        """The clauses; `clc or persistent` is both, of which the target takes one."""
        found: list[S.Expression] = []
        for clause in s.clauses:
            if isinstance(clause, S.Binary) and clause.operator == "or":
                sides = [
                    e.text if isinstance(e, S.Name) else "" for e in (clause.left, clause.right)
                ]
                if sides == ["clc", "persistent"]:
                    self.falls_back = True
                    found += [clause.left, clause.right]
                else:
                    self.scope.error(
                        "TK102",
                        "one launch falls back to another: `clc or persistent`",
                        clause.span,
                    )
            else:
                found.append(clause)
        return found

    def _takes(self, name: str, clause: S.Expression) -> bool:
        """Whether a clause has the values that belong to it."""
        given = clause.arguments if isinstance(clause, S.Call) else ()
        if name != "cluster":
            if isinstance(clause, S.Call):
                self.scope.error("TK116", f"`launch {name}` takes no values", clause.span)
            return not isinstance(clause, S.Call)
        plain = [a for a in given if a.name is None]
        for option in given:
            if option.name is not None and option.name.text not in SIZES:
                near = nearest(option.name.text, SIZES)
                hint = f"; did you mean `{near}`" if near else f"; there are {listed(SIZES)}"
                self.scope.error(
                    "TK102", f"no option `{option.name.text}` of a cluster{hint}", option.name.span
                )
                return False
        names = [a.name.text for a in given if a.name is not None]
        if len(plain) != 1 or len({*names}) < len(names):
            self.scope.error(
                "TK116",
                "`launch cluster(n)` takes the number of CTAs of a cluster; `minimum = m` and `preferred = m` are "
                "larger ones that hold several",
                clause.span,
            )
            return False
        self.ctas = self._ctas(plain[0])
        for name in SIZES:  # the smaller first, whatever is said first
            for option in given:
                if option.name is not None and option.name.text == name:
                    self._hold(name, option)
        return True

    def _ctas(self, given: S.Argument) -> int:
        ctas = self.values.number(given.value, "the number of CTAs of a cluster")
        if ctas > MOST_CTAS:
            told = f"a cluster of {plural(ctas, 'CTA')}: it has 1 to {MOST_CTAS}"
            self.scope.error("TK120", told, given.value.span)
            return 1
        return ctas

    def _hold(self, name: str, option: S.Argument) -> None:
        """Clusters of several units side by side; where each begins, code finds by masking ranks."""
        larger, unit = self._ctas(option), self.ctas
        smaller = self.sizes.get("minimum", unit)
        if unit & (unit - 1):
            told = f"a cluster holds several units only where a unit's CTAs are a power of 2, and {unit} is none"
            self.scope.error("TK120", told, option.value.span)
        elif larger % smaller or larger == smaller:
            fits = f"; `cluster({larger}, {name} = {smaller})` does" if larger < smaller else ""
            told = (
                f"clusters of {larger} CTAs ({name}) do not hold several of {smaller}: expected {2 * smaller} or "
                f"another multiple of {smaller}{fits}"
            )
            self.scope.error("TK120", told, option.value.span)
        else:
            self.sizes[name] = larger

    def place(self, schedule: Schedule) -> Schedule:
        """The schedule with the axis that a cluster's CTAs lie across: the last but one of several, unless it says."""
        if self.ctas == 1:
            return schedule._replace(across=None)
        blocks = [i for i, axis in enumerate(schedule.axes) if not axis.single]
        if not blocks:
            self.scope.later(
                f"a cluster across single elements: schedule {schedule.name} has no axis of `blocks`",
                schedule.span,
            )
            return schedule
        return schedule._replace(across=blocks[-2:][0]) if schedule.across is None else schedule

    def multicast(self, span: Span) -> bool:
        """Whether a copy that says `multicast` is one of a cluster."""
        if "cluster" not in self.said or ("pair" in self.said and self.ctas == 1):
            told = (
                "a pair shares its operands by itself: `multicast` is for `launch cluster(n)`"
                if "pair" in self.said
                else "`multicast` needs CTAs that it serves: `launch cluster(n)`"
            )
            self.scope.error("TK106", told, span)
        return self.ctas > 1
