"""What the analysis costs, in seconds of the processor: our products, a kernel of twelve roles, and how that grows."""

from __future__ import annotations

from time import process_time

import pytest

from tests.analysis.happens_before.build import (
    LANE,
    Index,
    Program,
    Slot,
    arrive,
    fence,
    ld,
    loop,
    program,
    role,
    st,
    sync,
    wait,
)
from tests.passes.programs import gemm, lowered
from tkc.analysis.happens_before import check
from tkc.analysis.happens_before.events import Barrier, Loop, Role
from tkc.analysis.happens_before.findings import findings

SLACK = 4
"""A busy machine takes this much longer than an idle one."""


def line(roles: int, buffers: int, depth: int) -> Program:
    """Roles one after another: each reads the buffers of the one before and fills as many of its own."""
    each = buffers // (roles - 1)
    made: list[Role] = []
    barriers: list[Barrier] = []
    for r in range(roles):
        k = Loop("k", [], "k")
        slot, item = Slot(k, tuple(range(depth))), Index(k, 0)
        first, last = not r, r == roles - 1
        if not first:
            k.body += [wait(f"full{r - 1}", item)]
        if not last:
            k.body += [wait(f"empty{r}", Index(k, -depth))]
            barriers += [Barrier(f"full{r}", depth, 4), Barrier(f"empty{r}", depth, 4)]
        k.body += [] if first else [ld(buffer=f"b{r - 1}.{b}", slot=slot) for b in range(each)]
        if not last:
            k.body += [st(buffer=f"b{r}.{b}", slot=slot) for b in range(each)]
            k.body += [fence(), sync("warp"), arrive(f"full{r}", item, LANE)]
        k.body += [] if first else [sync("warp"), arrive(f"empty{r - 1}", item, LANE)]
        made.append(role(f"r{r}", loop("tile", k)))
    return program(*made, barriers=barriers)


def seconds(work) -> float:
    best = 9.0
    for _ in range(4):
        began = process_time()
        work()
        best = min(best, process_time() - began)
    return best


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_product_takes_twenty_milliseconds(target: str) -> None:
    module = lowered(gemm(), target, "insert-fences")
    assert seconds(lambda: check(module)) < 0.020 * SLACK


def test_twelve_roles_and_forty_buffers_take_a_tenth_of_a_second() -> None:
    made = line(12, 44, 4)
    assert findings(made) == []
    assert seconds(lambda: findings(made)) < 0.100 * SLACK


@pytest.mark.parametrize(
    ("small", "large"),
    [((6, 20, 4), (12, 44, 4)), ((6, 20, 4), (6, 40, 4)), ((6, 20, 2), (6, 20, 8))],
    ids=["roles", "buffers", "stages"],
)
def test_twice_the_kernel_takes_at_most_five_times_as_long(
    small: tuple[int, int, int], large: tuple[int, int, int]
) -> None:
    few, many = line(*small), line(*large)
    assert seconds(lambda: findings(many)) < 5 * seconds(lambda: findings(few)) + 0.01
