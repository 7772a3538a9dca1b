"""Whether it can be known, from where a role's items of a ring stand, which of its slots comes when."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, Region

from tkc.ir.stage import ops as s
from tkc.passes.pipes.rings import Ring


def is_even(ring: Ring, role: s.RoleOp) -> bool:
    """Whether a role fills a ring's slots under one condition or none, or as many in each branch of a condition.

    Else its next slot depends on how often a condition has held, so that nobody can tell how many bulk groups ago it
    was filled: neither a reader nor `happens_before`.
    """
    users = [use.operation for use in ring.pipe.ring.uses]
    items = [op for op in users if isinstance(op, s.AcquireOp | s.SkipOp) and role.is_ancestor(op)]
    conditions = [tuple(_branches(op)) for op in items]
    if len(set(conditions)) <= 1:
        return True
    branches = [branch for within in conditions for branch in within]
    return all(_alike(branch.parent, branches) for branch in branches)


def _alike(condition: Operation | None, branches: list[Region]) -> bool:
    """Whether each branch of a condition has as many items."""
    assert condition is not None
    counts = {branches.count(one) for one in condition.regions}
    return len(condition.regions) == 2 and len(counts) == 1


def _branches(op: Operation) -> Iterator[Region]:
    """The branches of conditions that an operation stands in."""
    region = op.parent_region()
    while region is not None and not isinstance(owner := region.parent, s.RoleOp | None):
        if isinstance(owner, s.IfOp):
            yield region
        region = owner.parent_region()
