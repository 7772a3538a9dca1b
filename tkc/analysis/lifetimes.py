"""Whether a kernel is done with its memory before the memory goes: what is asynchronous is complete when roles end.

Shared memory is another CTA's as soon as this one ends, so a copy that still reads or writes it must have been awaited.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tkc.analysis.happens_before.automaton import PENDING
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.quick import Quick, own_steps
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.verdicts import Judge, Place, places
from tkc.ir.isa.memory import Done, Space

_AWAIT = {
    Done.BULK_GROUP_READ: "wait for the role's stores at its end: `elect: wait stores`",
    Done.WGMMA_GROUP: "wait for the products at the role's end: `wait products`",
    Done.MBARRIER_TX: "wait for the barrier that the copy completes on: `wait full[slot], phase`",
    Done.TCGEN05_COMMIT: "commit the products to a barrier and wait for it: `commit done`, `wait done, phase`",
    Done.CP_ASYNC_GROUP: "wait for the role's copies at its end: `wait copies`",
}

GROUPED = {
    Done.BULK_GROUP: (Done.BULK_GROUP, "stores"),
    Done.BULK_GROUP_READ: (Done.BULK_GROUP, "stores"),
    Done.WGMMA_GROUP: (Done.WGMMA_GROUP, "products"),
    Done.CP_ASYNC_GROUP: (Done.CP_ASYNC_GROUP, "copies"),
}
"""What is awaited by groups: how its wait says so, and its word in the language."""


def unclosed(name: str) -> str:
    """What is missing where nobody closes a group."""
    return f"`commit {name}` behind it, by its thread: a wait is for groups that are closed"


def check_lifetimes(judge: Judge) -> Iterator[Finding]:
    """Asynchronous accesses of this CTA's memory that may be under way when the roles have ended."""
    over: dict[Hashable, bool] = {}  # accesses that go one way end alike, and those of CTAs alike
    owned: set[Hashable] = set()  # of roles that do the same, what their own steps await
    symmetry = judge.graph.symmetry
    for here in places(judge.graph).values():
        for place in here:
            access = place.access
            if access.space not in (Space.SHARED, Space.TENSOR) or access.done not in _AWAIT:
                continue
            if symmetry.repeats(place.node.role):
                continue
            name = symmetry.name(place.node.role, place.node.number, access.owner)
            alike = (*name, access.space, access.done, access.write, access.operand, place.turns)
            if alike not in over:
                key = judge.reach(place), place.node.path
                if key not in over:
                    over[key] = _over(judge, place, owned)
                over[alike] = over[key]
            if not over[alike]:
                open_ = access.done in GROUPED and judge.never_closed(place)
                yield _finding(
                    place, unclosed(GROUPED[access.done][1]) if open_ else _AWAIT[access.done]
                )


def _finding(place: Place, remedy: str) -> Finding:
    """By whose memory it is: this CTA's, tensor memory, which is given back when all roles have ended, or a peer's."""
    access, event, role = place.access, place.event, place.node.role
    code, what = "TK324", "is under way"
    if access.space is Space.TENSOR:
        code, what = "TK310", "is under way, and its tensor memory is given back then"
    elif access.owner != role.cta:
        code, what = (
            "TK313",
            f"reaches the shared memory of CTA {access.owner}, which may have ended",
        )
    return Finding(
        code,
        f"role {role.name} may end while {event.told} {what}",
        "in flight",
        event.op if event.op is not None else event,
        remedy=remedy,
        roles=(role.name,),
    )


def _over(judge: Judge, place: Place, owned: set[Hashable]) -> bool:
    """Whether some role cannot end before the access is complete.

    Roles of a ring handle the same items, so that the one that awaits an item ends after it.
    """
    node, access = place.node, place.access
    alone = judge.alone if isinstance(judge, Quick) else {}
    mine = (
        alone.get(node.role), node.number, place.event.accesses.index(access), place.turns,
        access.owner ^ node.role.cta,
    )  # fmt: skip
    if mine in owned:
        return True
    reach = judge.reach(place)
    while (label := next(_ends(judge, place, reach), None)) is None:
        if not reach.advance():
            return False
    if node.role in alone and own_steps(label, node.role):
        owned.add(mine)
    return True


def _ends(judge: Judge, place: Place, reach: Reach) -> Iterator[Label]:
    """What says that the access is complete where a role ends, or waits in the access's own turn."""
    own = place.node.path
    for node in (*judge.graph.end_of.values(), *judge.graph.waiting):
        for (state, _), labels in reach.labels.get(node, {}).items():
            if state.name not in PENDING:
                for label in labels:
                    clock, offset = label.position[-1]
                    if node.event is None or (clock in own and offset <= 0):
                        yield label
