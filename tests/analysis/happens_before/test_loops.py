"""Order over loops: item numbers of nested rings, late releases, conditions, loops of different shapes."""

from __future__ import annotations

from math import inf

import pytest

from tests.analysis.happens_before.build import (
    ALL,
    LANE,
    ONE,
    Done,
    Index,
    Program,
    Slot,
    arrive,
    await_group,
    build,
    close,
    commit,
    fence,
    ld,
    loop,
    mma,
    program,
    role,
    st,
    sync,
    tma,
    verdict,
    wait,
    wgmma,
)  # fmt: skip
from tkc.analysis.happens_before.events import Barrier, Choice, Item, Loop
from tkc.analysis.happens_before.findings import findings
from tkc.analysis.happens_before.rules import PRACTICE, STRICT
from tkc.analysis.happens_before.verdicts import Judge, places

BULK, WGMMA = Done.BULK_GROUP, Done.WGMMA_GROUP


def ring(name: str, depth: int, full: int = 1, empty: int = 1) -> list[Barrier]:
    return [Barrier(f"{name}.full", depth, full), Barrier(f"{name}.empty", depth, empty)]


def slots(of: Loop, depth: int) -> Slot:
    return Slot(of, tuple(range(depth)))


def counted(name: str, low: float = 0, high: float = inf) -> Loop:
    return Loop(name, [], name, int(low), high)


def loader(k: Loop, depth: int, **more: object) -> list[Item]:
    """One item of ring `r`: wait, announce, copy."""
    item = Index(k, 0)
    return [
        wait("r.empty", Index(k, -depth), ONE),
        arrive("r.full", item, bytes=64),
        tma("r.full", item, slot=slots(k, depth), **more),
    ]


def consumer(k: Loop, depth: int) -> list[Item]:
    return [
        wait("r.full", Index(k, 0), ONE),
        mma(slot=slots(k, depth)),
        commit("r.empty", Index(k, 0)),
    ]


def pipeline(depth: int, made_by: int, used_by: int) -> Program:
    """A ring whose roles turn in loops of their own shape: 1 flat, 2 nested."""

    def nest(count: int, make) -> list[Item]:
        k = counted("k")
        k.body = make(k, depth)
        return [k] if count == 1 else [loop("tile", k)]

    return program(
        role("load", *nest(made_by, loader), warps=1),
        role("math", *nest(used_by, consumer), commit("done"), wait("done", threads=ONE), warps=1),
        barriers=ring("r", depth),
    )


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("depth", [1, 2, 4, 7])
def test_a_ring_is_in_order_however_its_roles_nest(depth: int, shape: tuple[int, int]) -> None:
    found = findings(pipeline(depth, *shape))
    assert [f.message for f in found if f.severity == "error"] == []
    assert {f.code for f in found} == (set() if shape[0] == shape[1] else {"TK314"})


@pytest.mark.parametrize(("waited", "ok"), [(3, True), (4, True), (5, False)])
def test_a_producer_may_be_too_far_ahead(waited: int, ok: bool) -> None:
    """It fills slot i mod 4 once item i - `waited` is released."""
    k, j = counted("k"), counted("k")
    k.body = loader(k, 4)
    k.body[0] = wait("r.empty", Index(k, -waited), ONE)
    j.body = consumer(j, 4)
    made = program(role("load", k, warps=1), role("math", j, warps=1), barriers=ring("r", 4))
    assert (verdict(made) == "ordered") is ok


# S1: items of nested rings -------------------------------------------------------------------------------------------


def bias(depth: int, low: float, high: float) -> tuple[float, float]:
    """A tile's bias is written by the loader and read by the consumer, each before its own k-loop, and only the k-ring
    is between: from which tile on the next write comes after a read, and a read after a write."""
    k, j = counted("k", low, high), counted("k", low, high)
    k.body = loader(k, depth)
    j.body = [wait("r.full", Index(j, 0), ONE), arrive("r.empty", Index(j, 0))]
    made = program(
        role("load", loop("tile", st(ONE, buffer="bias"), k), warps=1),
        role("math", loop("tile", ld(ONE, buffer="bias"), j), warps=1),
        barriers=ring("r", depth),
    )
    judge = Judge(build(made), PRACTICE)
    here = next(v for (_, buffer, _), v in places(judge.graph).items() if buffer == "bias")
    write, read = here
    tile = next(c for c in write.node.path if c.name == "tile")
    return (
        judge.distance(read, write, tile)[0],
        judge.distance(write, read, tile)[0],
    )


@pytest.mark.parametrize(
    ("depth", "low", "high", "war"),
    [
        (4, 4, 4, 2),  # lands at (t + 1, 0): behind the write of t + 1, which races
        (4, 5, 5, 1),  # lands at (t, 4): before it
        (4, 2, 2, 3),
        (4, 1, 1, 5),
        (1, 1, 1, 2),
        (4, 1, inf, 5),  # any number of items but none
        (4, 0, inf, inf),  # maybe none: never
        (4, 0, 4, inf),
    ],
)
def test_a_tile_lands_where_the_items_of_the_inner_ring_end(
    depth: int, low: float, high: float, war: float
) -> None:
    assert bias(depth, low, high)[0] == war


@pytest.mark.parametrize(("low", "high", "raw"), [(4, 4, 1), (1, inf, 1), (0, inf, inf)])
def test_a_write_before_the_loop_is_known_after_the_other_loop(
    low: float, high: float, raw: float
) -> None:
    assert bias(4, low, high)[1] == raw


def test_a_tile_ring_orders_nothing_between_the_items_of_one_tile() -> None:
    """A buffer of one slot, written in each k step, guarded once a tile."""

    def made(inner_low: float, inner_high: float) -> Program:
        t, u = counted("tile"), counted("tile")
        k, j = counted("k", inner_low, inner_high), counted("k", inner_low, inner_high)
        k.body, j.body = [st(ONE)], [ld(ONE)]
        t.body = [wait("r.empty", Index(t, -1), ONE), k, arrive("r.full", Index(t, 0))]
        u.body = [wait("r.full", Index(u, 0), ONE), j, arrive("r.empty", Index(u, 0))]
        return program(role("a", t, warps=1), role("b", u, warps=1), barriers=ring("r", 1))

    assert verdict(made(0, inf)) == "ordered"  # all of a tile's writes come before all of its reads
    assert verdict(made(3, 3)) == "ordered"


# A read between two writes ------------------------------------------------------------------------------------------


def copied(read: tuple[int, ...]) -> Program:
    """Copies into slot 0 of a ring of one barrier, whose items a product reads in these slots."""
    k, j = counted("k"), counted("k")
    k.body = [wait("r.empty", Index(k, -1), ONE), tma("r.full", Index(k, 0))]
    j.body = [
        wait("r.full", Index(j, 0), ONE),
        mma(slot=Slot(j, read)),
        commit("r.empty", Index(j, 0)),
    ]
    return program(role("a", k, warps=1), role("b", j, warps=1), barriers=ring("r", 1))


@pytest.mark.parametrize(
    ("read", "ordered"), [((0,), True), ((0, 1), False), ((1, 0), False), ((1,), False)]
)
def test_a_read_orders_writes_only_where_it_meets_each(
    read: tuple[int, ...], ordered: bool
) -> None:
    """Strict has no rule for two copies but that of the read between them, which is in every other turn elsewhere."""
    wanted = "ordered" if ordered else "unordered"
    assert {profile: _of_copies(copied(read), profile) for profile in (STRICT, PRACTICE)} == {
        STRICT: wanted,
        PRACTICE: "ordered",
    }


def _of_copies(made: Program, assumed: frozenset[str]) -> str:
    judge = Judge(build(made), assumed)
    (here,) = places(judge.graph).values()
    (copy,) = [place for place in here if place.access.write]
    return judge.hazard(copy, copy, here).verdict.value


# Late releases -------------------------------------------------------------------------------------------------------


def late(
    pending: int,
    guard: str = "not-first",
    tail: str = "nonempty",
    depth: int = 4,
    tail_wait: bool = True,
) -> Program:
    """wgmma with one group under way: the slot before is released in the next step, the last after the loop."""
    k, j = counted("k"), counted("k")
    k.body = loader(k, depth)
    release = Loop(
        "if", [arrive("r.empty", Index(j, -1), ALL)], "if", 0, 1, (guard, j) if guard else None
    )
    j.body = [
        wait("r.full", Index(j, 0)), wgmma(slot=slots(j, depth)), close(WGMMA, ALL),
        await_group(WGMMA, pending, threads=ALL), release,
    ]  # fmt: skip
    end = Loop(
        "if", [arrive("r.empty", Index(j, -1), ALL)], "end", 0, 1, (tail, j) if tail else None
    )
    after: list[Item] = [*([await_group(WGMMA, threads=ALL)] if tail_wait else []), end]
    return program(
        role("load", loop("tile", k), warps=1), role("math", loop("tile", j, *after)), barriers=ring("r", depth, 1, 128)
    )  # fmt: skip


def test_a_late_release_is_followed() -> None:
    assert [f.message for f in findings(late(1))] == []


def test_a_late_release_of_a_ring_of_one_is_a_deadlock() -> None:
    assert [f.code for f in findings(late(1, depth=1))] == ["TK314"]


def test_a_late_release_with_two_groups_under_way_is_too_early() -> None:
    assert {f.code for f in findings(late(2))} == {"TK308"}


def test_a_last_release_before_the_products_are_done() -> None:
    assert {f.code for f in findings(late(1, tail_wait=False))} >= {"TK309"}


@pytest.mark.parametrize("guards", [("", "nonempty"), ("not-first", "")])
def test_a_release_under_an_unknown_condition_is_not_counted_on(guards: tuple[str, str]) -> None:
    """Nothing is proved with it: that is said, as a warning where a pipe made the barrier."""
    assert [f.code for f in findings(late(1, *guards))] == ["TK325"]


# Conditions ----------------------------------------------------------------------------------------------------------


def test_a_ring_whose_items_are_conditional_alike_in_both_roles() -> None:
    """The ring counts its own items: those of the condition's body."""

    def body(make) -> list[Item]:
        taken = Loop("if", [], "if", 0, 1)
        taken.body = make(taken, 2)
        return [loop("k", taken)]

    made = program(
        role("load", *body(loader), warps=1),
        role("math", *body(consumer), commit("done"), wait("done", threads=ONE), warps=1),
        barriers=ring("r", 2),
    )
    assert [f.message for f in findings(made)] == []


def test_a_fence_under_a_condition_covers_nothing_after_it() -> None:
    def made(fenced: Item) -> Program:
        return program(role("a", st(), fenced, sync(), mma()))

    taken = Loop("if", [fence()], "if", 0, 1)
    other = Loop("else", [fence()], "else", 0, 1)
    idle = Loop("else", [], "else", 0, 1)
    assert verdict(made(taken)) == "wrong proxy"
    assert verdict(made(Choice([taken, idle]))) == "wrong proxy"
    assert verdict(made(Choice([taken, other]))) == "ordered"


def test_a_loop_that_may_not_turn_orders_nothing_for_what_follows() -> None:
    def made(low: float) -> Program:
        once = Loop("k", [fence()], "k", int(low), inf)
        return program(role("a", st(), once, sync(), mma()))

    assert verdict(made(0)) == "wrong proxy"
    assert verdict(made(1)) == "ordered"


# The programs at the end of the sheet --------------------------------------------------------------------------------


def test_a_scale_table_beside_a_copy_needs_its_own_fence() -> None:
    """Loader: st.shared a table and TMA A on one barrier; mma reads both."""

    def made(*fences: Item) -> Program:
        return program(
            role(
                "load",
                st(ONE, buffer="table"),
                *fences,
                arrive("full", 0, bytes=64),
                tma(),
                warps=1,
            ),
            role("math", wait("full", 0, ONE), mma(), mma(buffer="table"), warps=1),
        )

    assert verdict(made()) == "wrong proxy"
    assert verdict(made(fence(ONE))) == "ordered"


@pytest.mark.parametrize(("pending", "ok"), [(0, True), (1, False)])
def test_a_product_releases_the_stage_that_it_has_waited_for(pending: int, ok: bool) -> None:
    k, j = counted("k"), counted("k")
    k.body = loader(k, 4)
    j.body = [
        wait("r.full", Index(j, 0)), wgmma(slot=slots(j, 4)), close(WGMMA, ALL),
        await_group(WGMMA, pending, threads=ALL), arrive("r.empty", Index(j, 0), ALL),
    ]  # fmt: skip
    made = program(role("load", k, warps=1), role("math", j), barriers=ring("r", 4, 1, 128))
    assert (verdict(made) == "ordered") is ok


@pytest.mark.parametrize(
    ("warp_only", "strict", "practice"),
    [(True, "unordered", "ordered"), (False, "ordered", "ordered")],
)
def test_a_release_by_one_warp_rests_on_a12(warp_only: bool, strict: str, practice: str) -> None:
    k, j = counted("k"), counted("k")
    k.body = loader(k, 4)
    who = ONE if warp_only else ALL
    j.body = [
        wait("r.full", Index(j, 0)), wgmma(slot=slots(j, 4)), close(WGMMA, ALL),
        await_group(WGMMA, threads=who), arrive("r.empty", Index(j, 0), who),
    ]  # fmt: skip
    made = program(
        role("load", k, warps=1), role("math", j), barriers=ring("r", 4, 1, 1 if warp_only else 128)
    )
    assert verdict(made, "strict") == strict
    assert verdict(made, "practice") == practice


__all__ = ["LANE"]


def test_a_copy_that_overwrites_its_own_slot_is_in_conflict_with_itself() -> None:
    """Nothing but an outer loop holds the turns of a copy together, which orders none of them."""
    k, j = counted("k"), counted("k")
    k.body = loader(k, 1)[1:]
    j.body = [wait("r.full", Index(j, 0), ONE)]
    made = program(
        role("load", loop("tile", k), warps=1),
        role("math", loop("tile", j), warps=1),
        barriers=ring("r", 1),
    )
    del made.barriers["r.empty"]
    found = [f for f in findings(made) if f.code == "TK301"]
    assert [(f.first.name, f.second.name) for f in found] == [("tma", "tma")]
