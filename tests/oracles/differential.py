"""Asks oracle B and the compiler's own analysis about one program, and says where they differ."""

from __future__ import annotations

from dataclasses import dataclass

from oracles.as_stage import as_stage
from oracles.async_model import Finding, judge
from oracles.generate import trips
from oracles.roles import For, If, Program, nested
from tkc.analysis.happens_before import check

RACES = {"unordered", "proxy"}
Pair = tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    """`missed`: pairs of sites that only the oracle finds (unsound where there is one), `extra`: only the analysis."""

    missed: frozenset[Pair]
    extra: frozenset[Pair]
    oracle: frozenset[Finding]
    analysis: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"oracle: {f.kind} {f.sites} {f.where}" for f in sorted(self.oracle)]
        lines += [f"analysis: {line}" for line in self.analysis]
        return "\n".join([f"missed {sorted(self.missed)}, extra {sorted(self.extra)}", *lines])


PROTOCOL: frozenset[Pair] = frozenset({()})


def compare(program: Program, target: str, profile: str) -> Difference | None:
    """How the two differ; None where they agree.

    Where the barriers' protocol is broken, what is ordered depends on the run: both have to find something, no matter what.
    """
    oracle = judge(program, profile, trips(program))
    module, sites = as_stage(program, target)
    found = check(module, profile)
    analysis = tuple(
        f"{f.code} {f.verdict} {tuple(sorted(sites.get(o, -1) for o in (f.first, f.second) if o is not None))} {f.message}"
        for f in found
    )
    if any(f.kind not in RACES for f in oracle):
        missed = PROTOCOL if not found else frozenset[Pair]()
        extra = frozenset[Pair]()
    else:
        mine = {f.sites for f in oracle}
        theirs = {
            tuple(sorted((sites.get(f.first, -1), sites.get(f.second, sites.get(f.first, -1)))))
            for f in found
        }
        missed, extra = frozenset(mine - theirs), frozenset(theirs - mine)
    return Difference(missed, extra, frozenset(oracle), analysis) if missed or extra else None


def uniform(program: Program) -> bool:
    """Whether the analysis claims to be exact: no conditions, no trips that change from tile to tile."""
    return not any(
        isinstance(s, If) or (isinstance(s, For) and s.by_counter)
        for role in program.roles
        for s in nested(role.body)
    )
