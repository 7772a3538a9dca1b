"""Asks oracle B and the compiler's own analysis about one program, and says where they differ."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from oracles.as_stage import as_stage
from oracles.async_model import RACES, Finding, judge
from oracles.generate import trips
from oracles.roles import For, If, Op, Program, Statement, blocks, nested

from tkc.analysis.happens_before import check

ORDER = {"unordered", "wrong proxy"}
WRITES = ({"st", "tma", "cpasync"}, {"mma", "tst"})
"""Operations that write shared memory, and tensor memory."""
NOT_ASKED = {"TK310", "TK313", "TK324", "TK311", "TK319", "TK320", "TK321"}
"""What the oracle does not model: how a kernel may end, registers, what nothing writes, bounds."""


@dataclass(frozen=True)
class Difference:
    """`kind`: unsound (only the oracle finds something), false (only the analysis), pairs (both do, but not the
    same)."""

    kind: str
    pairs: frozenset[tuple[int, ...]]
    oracle: frozenset[Finding]
    analysis: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"oracle: {f.kind} {f.sites} {f.where}" for f in sorted(self.oracle)]
        lines += [f"analysis: {line}" for line in self.analysis]
        return "\n".join([f"{self.kind} {sorted(self.pairs)}", *lines])


def compare(program: Program, target: str, profile: str, brief: bool = False) -> Difference | None:
    """How the two differ; None where they agree.

    Where either says that the barriers' protocol is broken, what is ordered depends on the run, and pairs are not
    compared.
    """
    oracle = by_warps(
        program, profile, judge(program, profile, trips(program, brief), brief), brief
    )
    module, sites = as_stage(program, target)
    found = [f for f in check(module, profile) if f.code not in NOT_ASKED]

    def places(f: object) -> tuple[int, ...]:
        first, second = getattr(f, "first", None), getattr(f, "second", None)
        return tuple(sorted(sites.get(o, -1) for o in (first, second or first)))

    mine, theirs = {f.sites for f in oracle}, {places(f) for f in found}
    said = tuple(f"{f.code} {f.verdict} {places(f)} {f.message}" for f in found)
    if bool(oracle) != bool(found):
        kind, pairs = ("unsound", mine) if oracle else ("false", theirs)
    elif any(f.kind not in RACES for f in oracle) or any(f.verdict not in ORDER for f in found):
        return None
    elif program.ctas() > 1 and profile == "strict":
        # Without A15 a remote arrival also hides the local ones of its phase; that more is wrong adds nothing.
        return None
    else:
        names = {op.site: op.name for _, op in program.ops()}
        kind, pairs = "pairs", told(mine, names) ^ told(theirs, names)
    return Difference(kind, frozenset(pairs), frozenset(oracle), said) if pairs else None


def by_warps(
    program: Program, profile: str, found: frozenset[Finding] | set[Finding], brief: bool
) -> frozenset[Finding]:
    """Without laps among the lanes of one warp, where they are taken to go through waits together (A23).

    That they do is another order of the run, in which more may be wrong: a program whose laps are of warps behind one
    another passes in one order and waits for ever in the next.
    """
    if not any(f.kind == "lap" for f in found):
        return frozenset(found)
    others = frozenset(f for f in found if f.kind != "lap")
    if any(f.kind not in RACES for f in others):
        return others  # pairs are not compared
    together = deepcopy(program)
    for role in together.roles:
        _wait_by_warps(role.body)
    still = {f for f in judge(together, profile, trips(together, brief)) if f.kind not in RACES}
    return others | still


def _wait_by_warps(body: list[Statement]) -> None:
    """Lane 0 waits for its whole warp, which goes on with it."""
    for i in reversed(range(len(body))):
        s = body[i]
        for inner in blocks(s):
            _wait_by_warps(inner)
        if isinstance(s, Op) and s.name == "wait" and s.by == "all":
            s.words = (s.words - {"all"}) | {"lane"}
            body.insert(i + 1, Op("warp_sync"))


def told(pairs: set[tuple[int, ...]], names: dict[int, str]) -> set[tuple[int, ...]]:
    """Pairs without those of two writes where a read of the same slot is told of already: S2 proves them by it."""

    def both_write(pair: tuple[int, ...]) -> bool:
        return any({names.get(site) for site in pair} <= kind for kind in WRITES)

    with_read = {site for pair in pairs if not both_write(pair) for site in pair}
    return {pair for pair in pairs if not both_write(pair) or not set(pair) & with_read}


def uniform(program: Program) -> bool:
    """Whether the analysis claims to be exact: no conditions, and loops that turn any number of times, but all as
    often."""
    return not any(
        isinstance(s, If) or (isinstance(s, For) and not s.trips.isidentifier())
        for role in program.roles
        for s in nested(role.body)
    )
