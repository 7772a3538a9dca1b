"""Pairs that are taken for alike, so that one is judged for all, and such that must not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.happens_before.build import (
    ALL,
    LANE,
    ONE,
    Access,
    Complete,
    Event,
    Index,
    Item,
    Program,
    Slot,
    arrive,
    fence,
    ld,
    loop,
    program,
    st,
    sync,
    tma,
    wait,
)
from tkc.analysis.happens_before.events import Arrive, Barrier, Loop, Role, Wait
from tkc.analysis.happens_before.graph import build
from tkc.analysis.happens_before.rules import PRACTICE
from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, hazards, places
from tkc.ir.isa.memory import Done, Proxy, Scope, Space

OPERATIONS = {name: object() for name in ("tma", "ld", "st", "wait", "arrive")}


def same(event: Event) -> Event:
    """The event as one of those that copies of a role have of one operation."""
    event.op = OPERATIONS[event.name.split()[0]]
    return event


def wrong(made: Program) -> set[tuple[str, str]]:
    judge = Judge(build(made), PRACTICE)
    bad = [h for h in hazards(judge) if h.verdict is not Verdict.ORDERED]
    return {(str(h.first), str(h.second)) for h in bad}


def split(waits: tuple[bool, bool]) -> Program:
    """A copy into a slot that two warpgroups of one role read, each of which may wait for it."""
    k = Loop("k", [], "k")
    item, slot = Index(k, 0), Slot(k, (0,))
    k.body = [wait("empty", Index(k, -1), ONE), arrive("full", item, bytes=64)]
    k.body.append(same(tma("full", item, slot=slot)))
    roles = [Role("load", [k], 1)]
    for copy, asks in enumerate(waits):
        k = Loop("k", [], "k")
        item, slot = Index(k, 0), Slot(k, (0,))
        body: list[Item] = [same(wait("full", item))] if asks else []
        body += [same(ld(slot=slot)), fence(), sync(), same(arrive("empty", item, ONE))]
        k.body = body
        roles.append(Role(f"math[{copy}]", [k], 4, 0, copy, 2, "math"))
    return program(*roles, barriers=[Barrier("full"), Barrier("empty", 1, 2)])


@pytest.mark.parametrize("waits", [(True, True), (True, False), (False, True)])
def test_a_copy_of_a_role_that_does_not_wait_is_not_like_one_that_does(
    waits: tuple[bool, bool],
) -> None:
    told = {role for _, role in wrong(split(waits))}
    assert told == {f"math[{copy}].ld" for copy, asks in enumerate(waits) if not asks}


def test_turns_of_one_operation_are_told_apart() -> None:
    """A read in two turns, of which one comes before the wait."""
    slot = Slot(None, (0,))
    one, two = same(ld(slot=slot)), same(ld(slot=slot))
    made = program(
        Role(
            "load", [arrive("full", 0, bytes=64), same(tma("full", Index(None, 0), slot=slot))], 1
        ),
        Role("math", [one, wait("full", 0), two], 4),
    )
    judged = list(hazards(Judge(build(made), PRACTICE)))
    reads = [h for h in judged if not h.second.access.write]
    assert [h.verdict is Verdict.ORDERED for h in reads] == [False, True]


def pair(fenced: tuple[bool, bool]) -> Program:
    """A role in each of two CTAs that hands a slot of its own on to the other CTA's reader."""
    roles: list[Role] = []
    barriers: dict[object, Barrier] = {}
    for cta, fences in enumerate(fenced):
        k, other = Loop("k", [], "k"), Loop("k", [], "k")
        barriers["full", cta] = Barrier("full", 2, 4, cta)
        barriers["empty", cta] = Barrier("empty", 2, 4, cta)
        write = same(st(owner=cta, slot=Slot(k, (0, 1))))
        k.body = [
            same(Event("wait", ALL, (), Wait(("empty", cta), Index(k, -2)))), write,
            *([fence()] if fences else []), sync("warp"),
            same(Event("arrive", LANE, (), Arrive(("full", cta), Index(k, 0)))),
        ]  # fmt: skip
        store = Access(
            Space.SHARED, "s", False, Slot(other, (0, 1)), Proxy.ASYNC, Done.TCGEN05_COMMIT, "mma", cta
        )  # fmt: skip
        other.body = [
            same(Event("wait", ALL, (), Wait(("full", cta), Index(other, 0)))),
            Event("mma", ONE, (store,), Arrive(("empty", cta), Index(other, 0), 4, commit=True)),
        ]
        roles.append(Role(f"fill of CTA {cta}", [loop("t", k)], 4, cta, declared="fill"))
        roles.append(Role(f"use of CTA {cta}", [loop("t", other)], 4, cta, declared="use"))
    return Program("pair", roles, barriers)


def test_ctas_that_do_the_same_are_judged_once() -> None:
    made = pair((True, True))
    graph = build(made)
    assert graph.symmetry.swaps == [1]
    judged = list(hazards(Judge(graph, PRACTICE)))
    assert {h.first.access.owner for h in judged} == {0}
    assert len(judged) * 2 == sum(len(list(conflicts(here))) for here in places(graph).values())
    assert not wrong(made)


@pytest.mark.parametrize("other", [{"region": (0, 8)}, {"share": 1}, {"atomic": True}])
def test_other_bytes_of_an_alike_cta_are_judged_by_themselves(other: dict[str, object]) -> None:
    made = pair((True, True))
    for event in made.roles[2].events():
        event.accesses = tuple(replace(a, **other) for a in event.accesses)  # type: ignore[arg-type]
    graph = build(made)
    assert graph.symmetry.swaps == [1]
    in_conflict = [pair for here in places(graph).values() for pair in conflicts(here)]
    assert len(list(hazards(Judge(graph, PRACTICE)))) == len(in_conflict)


@pytest.mark.parametrize(("field", "value"), [("count", 5), ("depth", 3), ("name", "other")])
def test_ctas_whose_barriers_differ_are_not_alike(field: str, value: object) -> None:
    made = pair((True, True))
    setattr(made.barriers["full", 1], field, value)
    assert build(made).symmetry.swaps == []


@pytest.mark.parametrize("fenced", [(True, False), (False, True)])
def test_a_cta_without_its_fence_is_not_like_the_other(fenced: tuple[bool, bool]) -> None:
    made = pair(fenced)
    assert build(made).symmetry.swaps == []
    lacks = fenced.index(False)
    assert {first for first, _ in wrong(made)} == {f"fill of CTA {lacks}.st"}


def test_what_a_cta_does_for_the_other_is_seen_from_it() -> None:
    """Multicast copies: each CTA fills both, and says so in the same order seen from itself."""
    roles: list[Role] = []
    barriers: dict[object, Barrier] = {("full", cta): Barrier("full", 1, 1, cta) for cta in (0, 1)}
    for cta in (0, 1):
        expect = Arrive(("full", cta), Index(None, 0), bytes=128)
        body: list[Item] = [Event("expect", ONE, (), expect)]
        for owner in (cta, cta ^ 1):
            access = Access(
                Space.SHARED, "s", True, Slot(None, (0,)), Proxy.ASYNC, Done.MBARRIER_TX, "tma", owner, share=cta
            )  # fmt: skip
            body.append(
                same(
                    Event(
                        "tma", ONE, (access,), Complete(("full", owner), Index(None, 0), 64, owner)
                    )
                )
            )
        roles.append(Role(f"load of CTA {cta}", body, 1, cta, declared="load"))
        slow = Wait(("full", cta), Index(None, 0), scope=Scope.CTA)
        read = ld(owner=cta)
        roles.append(Role(f"use of CTA {cta}", [Event("wait", ALL, (), slow), read], 4, cta, declared="use"))  # fmt: skip
    made = Program("multicast", roles, barriers)
    assert build(made).symmetry.swaps == [1]
    assert not wrong(made)
