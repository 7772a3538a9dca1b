"""What the analysis finds, as one sentence with both accesses, their roles, and what would order them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

from tkc.analysis.bounds import check_first_reads
from tkc.analysis.dependent import check_dependent
from tkc.analysis.happens_before.automaton import within
from tkc.analysis.happens_before.elements import (
    acquires_of_units,
    check_elements,
    check_units,
    flags,
)
from tkc.analysis.happens_before.events import (
    Access,
    Arrive,
    AwaitGroup,
    Program,
    Role,
    Wait,
)
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.meetings import TOGETHER
from tkc.analysis.happens_before.paths import MOST_LABELS, Unfollowed
from tkc.analysis.happens_before.quick import Quick
from tkc.analysis.happens_before.repeated import check_repeated
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import (
    Hazard,
    Judge,
    Place,
    Verdict,
    hazards,
)
from tkc.analysis.lifetimes import GROUPED, check_lifetimes, unclosed
from tkc.analysis.moments import deadlocks
from tkc.analysis.numbered_laps import check_numbered
from tkc.analysis.often import check_often
from tkc.analysis.ownership import by_pipes, twice
from tkc.analysis.protocol import check_barriers, check_laps, check_meetings
from tkc.analysis.remedies import AHEAD
from tkc.diagnostics import Severity
from tkc.ir.isa.memory import Done, Proxy, Sem, Space


def findings(program: Program, profile: str = "practice") -> list[Finding]:
    """Everything that is wrong with the order of a program's accesses.

    Where a barrier's phases cannot complete or be told apart, that is all: the order takes them for granted. That a
    wait may be lapped is told where all accesses are in order, for a missing wait elsewhere has the same effect.
    """
    graph = build(program)
    graph.bounded, graph.assumed = True, PROFILES[profile]
    broken = [*check_meetings(graph), *check_barriers(graph)]
    try:
        broken += deadlocks(graph)
        unsettled = [f for f in broken if f.code == "TK325"]
        if unsettled or any(f.severity is Severity.ERROR for f in broken):
            return _once([*(f for f in broken if f.code != "TK325"), *unsettled[:1]])
        judge = Quick(graph, PROFILES[profile])
        told = flags(graph)
        judged = list(hazards(judge))
        wrong = [h for h in judged if h.verdict is not Verdict.ORDERED]
        unknown = [h for h in wrong if told and _by_flag(judge, h, told)]
        found = [
            twice(h.first, h.second, h.verdict.value)
            if by_pipes(h.first) and by_pipes(h.second)
            else _finding(judge, h)
            for h in wrong
            if h not in unknown
        ]
        broken += map(_told, unknown[:1])
        units = list(check_units(graph))
        acquired = acquires_of_units(graph)
        broken += map(_among_units, units[: int(acquired)])
        found += [*check_elements(graph), *check_repeated(graph), *([] if acquired else units)]
        late = [*check_lifetimes(judge), *check_dependent(graph)]
        if not found:
            found = [*check_laps(graph), *check_numbered(graph), *check_often(graph)]
            found += check_first_reads(judge, judged)
        return _once([*broken, *found, *late])
    except Unfollowed:
        return _once([*broken, _unfollowed(graph)])


def _unfollowed(graph: Graph) -> Finding:
    """What is said of a kernel that is too large: that nothing is known of its order."""
    place = next(n.event for n in graph.nodes if n.event is not None)
    return Finding(
        "TK325",
        f"after {MOST_LABELS:,} steps the order of this kernel's accesses is not settled: races are not reported",
        "unknown",
        place.op if place.op is not None else place,
        remedy="`tkc emulate` finds races by running the kernel; less code between synchronisations helps",
        severity=Severity.WARNING,
    )


def _by_flag(judge: Judge, hazard: Hazard, told: frozenset[tuple[Role, Role]]) -> bool:
    """Whether flags, which are not followed, may order the two: in turns of a loop each way, or the one that is
    missing; one way where they meet in one turn alone."""
    one, other = hazard.first.node.role, hazard.second.node.role
    ways = (one, other) in told, (other, one) in told
    once = hazard.clock.parent is None and hazard.clock.high == 1
    if once or judge.meetings(hazard.first, hazard.second, hazard.clock) is TOGETHER:
        return any(ways)
    known = hazard.forward < inf, hazard.back < inf
    return any(ways) and all(w or k for w, k in zip(ways, known, strict=True))


def _told(hazard: Hazard) -> Finding:
    """What is said of roles that tell one another by a word."""
    one, other = hazard.first, hazard.second
    names = " and ".join(dict.fromkeys((one.node.role.name, other.node.role.name)))
    return Finding(
        "TK325",
        f"roles {names} tell one another by a word that is released and acquired, which is not followed: whether it "
        f"orders {describe(one)} and {describe(other)} is not settled, nor what else they share",
        "unknown",
        one.event.op if one.event.op is not None else one.event,
        other.event.op if other.event.op is not None else other.event,
        remedy="followed are a `barrier`, and a constant that is stored once to a word of its own in each turn of the "
        "loops round both, `F[m, n]` in `for m, n in work`; `tkc emulate` finds races by running the kernel",
        other=describe(one),
        severity=Severity.WARNING,
    )


def _among_units(finding: Finding) -> Finding:
    """What is said of work units that may tell one another by words in global memory."""
    return replace(
        finding,
        code="TK325",
        message=f"{finding.message}, but for words that are acquired at the scope of the GPU, which are not followed",
        remedy="`tkc emulate` finds races by running the kernel",
        severity=Severity.WARNING,
    )


def _once(found: Iterable[Finding]) -> list[Finding]:
    """Each pair of operations once; copies of a role for several warpgroups say the same."""
    kept: dict[tuple[Any, ...], Finding] = {}
    for finding in found:
        kept.setdefault((finding.code, finding.first, finding.second), finding)
    return list(kept.values())


def _finding(judge: Judge, hazard: Hazard) -> Finding:
    first, second = hazard.first, hazard.second
    if _other_way_round(hazard):
        first, second = second, first
    code, remedy = _diagnose(judge, hazard, first, second)
    names = f"{describe(first)} and {describe(second)}"
    what = {
        Verdict.WRONG_PROXY: f"no proxy fence stands between {names}",
        Verdict.UNORDERED: f"nothing orders {names}",
    }[hazard.verdict]
    place = _place(hazard)
    return Finding(
        code,
        f"{what}{place}",
        hazard.verdict.value,
        first.event.op if first.event.op is not None else first.event,
        second.event.op if second.event.op is not None else second.event,
        hazard.witness,
        (),
        hazard.clock.name,
        remedy,
        tuple(dict.fromkeys((first.node.role.name, second.node.role.name))),
        describe(first),
        fence=_fence(first, second) if hazard.verdict is Verdict.WRONG_PROXY else None,
    )


def _other_way_round(hazard: Hazard) -> bool:
    """Whether the second access is the one that the first has to come after: it is in an earlier turn, or in the same
    one, and what is known is that it comes after the first of the round before."""
    if hazard.first.access.space is Space.MAP and hazard.verdict is not Verdict.WRONG_PROXY:
        return (
            hazard.first.access.write and not hazard.second.access.write
        )  # it is edited while in use
    if hazard.witness is None:
        return False
    mine, its = hazard.witness
    if mine != its:
        return its < mine
    if hazard.first.node.role is hazard.second.node.role:
        return False  # as they stand in its program
    later, earlier = hazard.forward <= hazard.period, hazard.back <= hazard.period
    if later and earlier:
        return hazard.second.access.write and not hazard.first.access.write
    return later


def _place(hazard: Hazard) -> str:
    if hazard.witness is None or hazard.clock.parent is None:
        return ""
    apart = abs(hazard.witness[1] - hazard.witness[0])
    if not apart:
        return ""
    turns = "iteration" if apart == 1 else "iterations"
    return f", {apart} {turns} of {hazard.clock.name} later"


def describe(place: Place) -> str:
    access = place.access
    kind = "write" if access.write else "read"
    if access.space is Space.MAP:
        kind = "edit" if access.write else "use"
        return (
            f"the {kind} of {_name_of(access)} by {place.event.told} in role {place.node.role.name}"
        )
    proxy = {Proxy.GENERIC: "", Proxy.ASYNC: "async ", Proxy.TENSOR: "tensor-memory "}.get(
        access.proxy, ""
    )
    return f"the {proxy}{kind} of {_name_of(access)} by {place.event.told} in role {place.node.role.name}"


def _name_of(access: Access) -> str:
    buffer = access.buffer
    owner = getattr(buffer, "owner", None)
    if access.space is Space.MAP and (tensor := getattr(owner, "tensor", None)) is not None:
        return f"a tensor map of {tensor.name_hint or 'a list'}"
    name = getattr(owner, "sym_name", None)
    return name.data if name is not None else getattr(buffer, "name_hint", None) or str(buffer)


def _diagnose(judge: Judge, hazard: Hazard, first: Place, second: Place) -> tuple[str, str]:
    """The code, and what would order the two."""
    a = first.access
    if a.space is Space.MAP and second.access.write and not a.write:
        return "TK317", _in_use(first, second)
    if hazard.verdict is Verdict.WRONG_PROXY:
        return "TK302", _which_fence(first, second)
    if a.done in GROUPED:
        return _group_code(judge, hazard, first, second)
    if a.done is Done.TCGEN05_WAIT and judge.never_awaited(first):
        return (
            "TK312",
            f"await the {'store' if a.write else 'load'} (tcgen05.wait) before the slot is handed on",
        )
    code, remedy = _missing(judge, first, second)
    told = code == "TK301" and not _relaxed(judge, first, second)
    return code, (_passes(judge.graph, first, second) if told else "") or remedy


def _passes(graph: Graph, first: Place, second: Place) -> str:
    """Whether the second's role has a wait for what the first's signals that passes for the item before."""
    for ring in graph.rings.values():
        sites = [*ring.copies, *ring.arrivals.get(first.node.role, ())]
        if any(s.node.role is first.node.role for s in sites):
            for wait in ring.waits:
                if wait.node.role is second.node.role and wait.offset < 0 and wait.node.event:
                    return f"{wait.node.event.told_at} passes before: {AHEAD}"
    return ""


def _in_use(first: Place, second: Place) -> str:
    if first.access.done is Done.BULK_GROUP_READ:
        return f"edit it after a wait for the stores by the thread of role {first.node.role.name} that issues them"
    return f"edit it after role {second.node.role.name} knows that the loads are complete"


def _missing(judge: Judge, first: Place, second: Place) -> tuple[str, str]:
    relaxed = _relaxed(judge, first, second)
    if second.access.write and not first.access.write:
        return (
            "TK309",
            "the slot is reused before the read is known to be done: await it, then signal, then "
            f"reuse{relaxed}",
        )
    return "TK301", f"signal after the first and wait before the second{relaxed}"


def _relaxed(judge: Judge, first: Place, second: Place) -> str:
    """The signal of the one role, or the wait of the other for it, that tells nothing, as it is relaxed."""
    acts = [(node.role, node.event) for node in judge.graph.nodes if node.event is not None]
    signals = [(e, e.act) for r, e in acts if r is first.node.role and isinstance(e.act, Arrive)]
    waits = [(e, e.act) for r, e in acts if r is second.node.role and isinstance(e.act, Wait)]
    shared = {a.barrier for _, a in signals} & {a.barrier for _, a in waits}
    told = [e.told for e, a in (*signals, *waits) if a.barrier in shared and a.sem is Sem.RELAXED]
    return f"; {told[0]} is relaxed, which tells nothing" if told else ""


def _fence(first: Place, second: Place) -> tuple[Any, str, bool] | None:
    """A fence by the threads of the generic access: after it, where it comes first, else before it; of tensor maps
    it is not one that a program can write."""
    if first.access.space is Space.MAP:
        return None
    word = "global" if first.access.space is Space.GLOBAL else "shared"
    follows = first.access.proxy is Proxy.GENERIC
    return (first if follows else second).event.op, word, follows


def _which_fence(first: Place, second: Place) -> str:
    if first.access.space is Space.MAP:
        return (
            f"fence.proxy.tensormap::generic.release by role {first.node.role.name} after the edit, and "
            "fence.proxy.tensormap::generic.acquire of this map by the thread of role "
            f"{second.node.role.name} that copies"
        )
    space = "global" if first.access.space is Space.GLOBAL else "shared"
    if first.access.proxy is Proxy.GENERIC:
        role = first.node.role.name
        return f"`fence proxy {space}` by the threads of {role} after the access and before they signal"
    return f"`fence proxy {space}` in role {second.node.role.name} after its wait"


def _group_code(judge: Judge, hazard: Hazard, first: Place, second: Place) -> tuple[str, str]:
    """A wait for the thread's groups that is missing, too weak, or another thread's."""
    done, name = GROUPED[first.access.done]
    role, clock = first.node.role.name, hazard.clock
    while clock.high <= 1 and clock.parent is not None:  # a condition, which comes once in a turn
        clock = clock.parent
    waits = [
        node
        for node in judge.graph.nodes
        if node.event is not None
        and isinstance(node.event.act, AwaitGroup)
        and node.event.act.done is done
        and clock in node.path
        and node.role in (first.node.role, second.node.role)
    ]
    if judge.never_closed(first):
        return "TK308" if waits else _missing(judge, first, second)[0], unclosed(name)
    if any(w.role is first.node.role and within(first.node.threads, w.threads) for w in waits):
        late = hazard.forward if first is hazard.first else hazard.back
        if judge.known_in_time(hazard, first, second):
            return _missing(judge, first, second)
        if late < inf or judge.only_under_way(first, second):
            return (
                "TK308",
                f"no wait for {name} in role {role} covers this group before {_again(first)}",
            )
        return _missing(judge, first, second)
    if waits:
        return (
            "TK307",
            f"groups belong to the thread that commits them: the one of role {role} has to wait for its {name} itself",
        )
    code = "TK301" if first.access.write else "TK309"
    return code, f"wait for the {name} before {_again(first)}"


def _again(first: Place) -> str:
    """What comes too early, of a slot or of a place of a tensor."""
    return (
        "the place is written again"
        if first.access.space is Space.GLOBAL
        else "the slot is handed on"
    )
