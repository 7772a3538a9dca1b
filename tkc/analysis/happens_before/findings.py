"""What the analysis finds, as one sentence with both accesses, their roles, and what would order them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tkc.analysis.happens_before.automaton import PENDING
from tkc.analysis.happens_before.events import AwaitGroup, Program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import (
    Hazard,
    Judge,
    Place,
    Step,
    Verdict,
    conflicts,
    places,
)
from tkc.ir.isa.memory import Done, Proxy, Space


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `first` and `second` are operations (events where a program has none).

    `witness`: the smallest counts of the loop called `loop` at which the two meet; `chain` is empty unless ordered.
    """

    code: str
    message: str
    verdict: str
    first: Any
    second: Any = None
    witness: tuple[int, int] | None = None
    chain: tuple[Step, ...] = ()
    loop: str = ""
    remedy: str = ""
    roles: tuple[str, ...] = ()


def findings(program: Program, profile: str = "practice") -> list[Finding]:
    """Everything that is wrong with the order of a program's accesses."""
    graph = build(program)
    judge = Judge(graph, PROFILES[profile])
    found: dict[tuple[Any, ...], Finding] = {}
    for here in places(graph).values():
        for first, second in conflicts(here):
            hazard = judge.hazard(first, second, here)
            if hazard.verdict is not Verdict.ORDERED:
                made = _finding(judge, hazard)
                found.setdefault((made.code, made.first, made.second), made)
    return list(found.values())


def _finding(judge: Judge, hazard: Hazard) -> Finding:
    first, second = hazard.first, hazard.second
    if hazard.witness is not None and hazard.witness[1] < hazard.witness[0]:
        first, second = second, first
    code, remedy = _diagnose(judge, hazard, first, second)
    names = f"{_say(first)} and {_say(second)}"
    what = {
        Verdict.WRONG_PROXY: f"no proxy fence stands between {names}",
        Verdict.UNORDERED: f"nothing orders {names}",
    }[hazard.verdict]
    place = _place(hazard)
    return Finding(
        code,
        f"{what}{place}; {remedy}",
        hazard.verdict.value,
        first.event.op if first.event.op is not None else first.event,
        second.event.op if second.event.op is not None else second.event,
        hazard.witness,
        (),
        hazard.clock.name,
        remedy,
        tuple(dict.fromkeys((first.node.role.name, second.node.role.name))),
    )


def _place(hazard: Hazard) -> str:
    if hazard.witness is None or hazard.clock.parent is None:
        return ""
    apart = abs(hazard.witness[1] - hazard.witness[0])
    if not apart:
        return ""
    turns = "iteration" if apart == 1 else "iterations"
    return f", {apart} {turns} of {hazard.clock.name} later"


def _say(place: Place) -> str:
    access = place.access
    kind = "write" if access.write else "read"
    proxy = {Proxy.GENERIC: "", Proxy.ASYNC: "async ", Proxy.TENSOR: "tensor-memory "}.get(access.proxy, "")
    buffer = access.buffer
    name = getattr(getattr(buffer, "owner", None), "sym_name", None)
    told = name.data if name is not None else getattr(buffer, "name_hint", None) or str(buffer)
    return f"the {proxy}{kind} of {told} by {place.event.name} in role {place.node.role.name}"


def _diagnose(judge: Judge, hazard: Hazard, first: Place, second: Place) -> tuple[str, str]:
    """The code, and what would order the two."""
    if hazard.verdict is Verdict.WRONG_PROXY:
        return "TK302", _which_fence(first, second)
    a = first.access
    if a.done in (Done.BULK_GROUP, Done.BULK_GROUP_READ, Done.WGMMA_GROUP, Done.CP_ASYNC_GROUP):
        return _group_code(judge.graph, first, second)
    if a.done is Done.TCGEN05_WAIT and judge.under_way(first, second):
        return "TK312", f"await the {'store' if a.write else 'load'} (tcgen05.wait) before the slot is handed on"
    if second.access.write and not a.write:
        return "TK309", "the slot is reused before the read is known to be done: wait for it, then signal, then reuse"
    return "TK301", "signal after the first and wait before the second"


def _which_fence(first: Place, second: Place) -> str:
    space = "global" if first.access.space is Space.GLOBAL else "shared::cta"
    if first.access.proxy is Proxy.GENERIC:
        return f"fence.proxy.async.{space} by the threads of {first.node.role.name} after the access and before they signal"
    return f"fence.proxy.async.{space} in role {second.node.role.name} after its wait"


def _group_code(graph: Graph, first: Place, second: Place) -> tuple[str, str]:
    """A missing, too weak or misplaced wait for the thread's groups."""
    done = Done.BULK_GROUP if first.access.done is Done.BULK_GROUP_READ else first.access.done
    waits = [
        n for n in graph.nodes if n.event is not None and isinstance(n.event.act, AwaitGroup) and n.event.act.done is done
    ]
    mine = [n for n in waits if n.role is first.node.role]
    name = {Done.WGMMA_GROUP: "products", Done.BULK_GROUP: "stores"}.get(done, "copies")
    if mine:
        return "TK308", f"no wait for {name} in role {first.node.role.name} covers this group before the slot is reused"
    if waits:
        return "TK307", f"groups belong to the thread that commits them: role {first.node.role.name} has to wait for its {name} itself"
    return "TK309", f"wait for the {name} before the slot is handed on"


__all__ = ["PENDING", "Finding", "findings"]
