"""Whether two blocks may own a place at once: a tile that rides in several pipes, or lies in the place of another (R2).

The answer is that of happens-before on the barriers that the pipes have become: all that two blocks do there is in
order. What is not proved counts as owned twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.report import Finding
from tkc.diagnostics import Severity
from tkc.ir.stage import ops as s

if TYPE_CHECKING:
    from tkc.analysis.happens_before.verdicts import Place

Wait = s.MbarrierWaitOp


def is_shared(kernel: s.KernelOp) -> bool:
    """Whether pipes of a kernel share a place, so that there is something to prove."""
    return any(isinstance(op, s.BufferOp) and _by_pipes(op) for op in kernel.body.block.ops)


def _by_pipes(buffer: s.BufferOp) -> bool:
    return buffer.pipes is not None and buffer.explicit is None


def owned_twice(kernel: s.KernelOp, profile: str = "practice") -> Iterator[Finding]:
    """A finding for each two accesses of a place of pipes that nothing orders; one where barriers prove nothing."""
    from tkc.analysis.happens_before.extract import program
    from tkc.analysis.happens_before.graph import build
    from tkc.analysis.happens_before.paths import Unfollowed
    from tkc.analysis.happens_before.rules import PROFILES
    from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, places
    from tkc.analysis.protocol import check_barriers, check_laps, check_meetings

    graph = build(program(kernel))
    graph.bounded, graph.assumed = True, PROFILES[profile]
    broken = [*check_meetings(graph), *check_barriers(graph)]
    uncounted = next((f for f in broken if f.code == "TK325"), None)
    for finding in broken:
        if finding.severity is Severity.ERROR:
            yield _unknown(kernel, finding.message)
            return
    judge, alone = Judge(graph, PROFILES[profile]), True
    try:
        for here in places(graph).values():
            if here[0].access.storage is None:
                continue
            for first, second in conflicts(here):
                if by_pipes(first) and by_pipes(second):
                    hazard = judge.hazard(first, second, here)
                    if hazard.verdict is not Verdict.ORDERED:
                        if uncounted is not None:  # what its pipe orders is not known
                            yield _unknown(kernel, uncounted.message, ONE_LOOP)
                            return
                        alone = False
                        yield twice(hazard.first, hazard.second, hazard.verdict)
        # the order rests on waits that return for the item they name; where one is left out, others miss theirs
        for lap in check_laps(graph)[: int(alone)]:
            yield _unknown(kernel, lap.message)
    except Unfollowed:
        yield _unknown(kernel, "there is too much to follow")


ONE_LOOP = (
    "of a pipe with several slots, one loop or condition round all items can be followed, of a pipe with one slot also "
    "items in several loops and beside them: give the tile one slot, or the other items a tile and a pipe of their own"
)
"""What can be followed, where several loops or conditions count the items of one pipe."""


def _unknown(kernel: s.KernelOp, why: str, remedy: str = "") -> Finding:
    shared = [b for b in kernel.body.block.ops if isinstance(b, s.BufferOp) and _by_pipes(b)]
    names = ", ".join(b.sym_name.data for b in shared)
    return Finding(
        "TK326",
        f"nothing proves that no two blocks own a slot of {names} at once: {why}",
        "unknown",
        shared[0],
        remedy=remedy,
    )


def by_pipes(place: Place) -> bool:
    """Whether a put or get owns the slot of an access, in a place that pipes share."""
    buffer = place.access.buffer
    declared = buffer.owner if isinstance(buffer, SSAValue) else None
    return isinstance(declared, s.BufferOp) and _by_pipes(declared)


def twice(first: Place, second: Place, verdict: str) -> Finding:
    """Both blocks, and what they do that nothing orders."""
    from tkc.analysis.happens_before.findings import describe

    blocks = [block_of(place) for place in (first, second)]
    roles = [place.node.role.name for place in (first, second)]
    names = [_tile(place) for place in (first, second)]
    one = names[0] == names[1]
    slot = f"a slot of {names[0]} is" if one else f"{names[0]} and {names[1]} share a place that is"
    return Finding(
        "TK326",
        f"{slot} owned twice at once: nothing orders `{blocks[0][1]}` of role {roles[0]} and `{blocks[1][1]}` of role "
        f"{roles[1]}, which do {describe(first)} and {describe(second)}",
        verdict,
        blocks[0][0],
        blocks[1][0],
        remedy=_remedy(first, second),
        roles=tuple(dict.fromkeys(roles)),
        other=f"`{blocks[0][1]}`",
    )


def _remedy(first: Place, second: Place) -> str:
    """What would order them; a condition round one of them alone may hide that something does."""
    told = (
        "a pipe that hands the slot over: the role that has it puts, the one that has it next gets"
    )
    if _conditions(first.event.op) == _conditions(second.event.op):
        return told
    return (
        f"{told}; where one does, the condition that stands round one of the two blocks alone hides it: round both, or "
        "in the `where` of a schedule, it can be followed"
    )


def _conditions(op: Operation | None) -> int:
    """The conditions of the program round an operation in its role."""
    count = 0
    while op is not None and not isinstance(op, s.RoleOp):
        count += isinstance(op, s.IfOp)
        op = op.parent_op()
    return count


def _tile(place: Place) -> str:
    owner = place.access.buffer.owner  # type: ignore[attr-defined]
    return owner.sym_name.data


def block_of(place: Place) -> tuple[Operation | None, str]:
    """The wait that began the block of an access, and the block in words: the nearest wait of a pipe of its tile."""
    declared = place.access.buffer.owner  # type: ignore[attr-defined]
    pipes = {name.data for name in declared.pipes}
    op: Operation | None = place.event.op
    while op is not None and not isinstance(op, s.RoleOp):
        before: Operation | None = op
        while before is not None:
            found = _begins(before, pipes)
            if found:
                return before, found
            before = before.prev_op
        op = op.parent_op()
    return place.event.op, "a block"


def _begins(op: Operation, pipes: set[str]) -> str:
    if not isinstance(op, Wait) or not isinstance(op.barriers.owner, s.BarriersOp):
        return ""
    name, _, side = op.barriers.owner.sym_name.data.rpartition(".")
    if name not in pipes or _elsewhere(op, name):
        return ""
    return f"{'get' if side == 'full' else 'put'} {name}"


def _elsewhere(op: Wait, pipe: str) -> bool:
    """Whether a wait is for a slot of another pipe, which is free when this one has released it, too."""
    id = op.id
    return isinstance(id, StringAttr) and f"{pipe}.empty." in id.data
