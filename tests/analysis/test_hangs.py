"""Roles that wait for one another for ever: found where sizes show it, and where nobody hangs not."""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tkc.analysis.hangs import Hang, finding, hang_of
from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity
from tkc.driver import run
from tkc.ir.stage.ops import KernelOp
from tkc.job import Job

TWO_PIPES = """
kernel k(X: global[f32, M, N], Y: global[f32, M, C], O: global[f32, M, C]):
    launch persistent
    schedule work: m, c in tiles(blocks(M, 64), blocks(C, 32))
    shared x: tile[f32, 64, 32] * XS
    shared y: tile[f32, 64, 32] * 2
    pipe p(x): load -> math
    pipe q(y): load -> math
    role load:
        for m, c in work:
            PUT
    role math, warps 2:
        for m, c in work:
            t = full(0)
            GET
            O[m, c] <- w + t
"""
PUT_ALL = "for n in blocks(N, 32):\n                put p: x <- X[m, n]"
GET_ALL = "for n in blocks(N, 32):\n                get p: t = t + row_sum(read(x))"
PUT_ONE = "put q: y <- Y[m, c]"
GET_ONE = "get q: w = read(y)"


def in_lines(*steps: str) -> str:
    return "\n            ".join(steps)


def two(put: str, get: str, slots: int = 2, fixed: bool = False) -> str:
    text = TWO_PIPES.replace("PUT", put).replace("GET", get).replace("XS", str(slots))
    if fixed:
        text = text.replace("M, N]", "M, 64]").replace("blocks(N, 32)", "blocks(64, 32)")
    return text


LATER = in_lines(PUT_ALL, PUT_ONE), in_lines(GET_ONE, GET_ALL)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (two(*LATER), "M = 64, C = 32, N = 96"),
        (two(*LATER, slots=5), "M = 64, C = 32, N = 192"),
        (two(*LATER, slots=1), "M = 64, C = 32, N = 64"),
        (two(*LATER, slots=1, fixed=True), "M = 64, C = 32"),
    ],
)
def test_pipes_that_hang_are_refused_where_the_second_role_waits(text: str, sizes: str) -> None:
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(text, target="sm_90a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK314"
    assert f"roles load and math wait for one another for ever where {sizes}: " in found.message
    assert "role load waits for a free slot of p, role math waits for an item of q" in found.message
    assert found.location is not None
    assert text.splitlines()[found.location.line - 1].strip() == GET_ONE
    (first,) = found.notes
    assert first.location is not None
    assert text.splitlines()[first.location.line - 1].strip().startswith("put p: x")
    assert found.help == "more slots for p, or puts in the order in which the items are got"


@pytest.mark.parametrize(
    "text",
    [
        two(in_lines(PUT_ALL, PUT_ONE), in_lines(GET_ALL, GET_ONE)),
        two(in_lines(PUT_ONE, PUT_ALL), in_lines(GET_ONE, GET_ALL)),
        two(*LATER, fixed=True),
    ],
)
def test_other_orders_and_depths_end(text: str) -> None:
    kernel = tkc.compile(text, target="sm_90a")
    assert check(kernel.module(after="insert-fences")) == []
    wide = 160 if "N, 32" in text else 64
    x, y = (np.random.default_rng().uniform(1, 2, (128, n)).astype(np.float32) for n in (wide, 32))
    o = np.full_like(y, np.nan)
    ran = kernel.emulate(x, y, o, sm_count=1)
    assert ran.hang is None
    assert ran.findings == []
    assert np.allclose(o, y + x.astype(np.float64).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("k", "hangs"), [(64, False), (96, True)])
def test_what_is_refused_hangs_from_the_size_on_that_is_told(k: int, hangs: bool) -> None:
    job = Job(two(*LATER), "hangs.tk", "sm_90a", without=("refuse-hangs",))
    kernel = tkc.Kernel.of(run(job))
    x, y = (np.random.default_rng().uniform(1, 2, (64, n)).astype(np.float32) for n in (k, 32))
    ran = kernel.emulate(x, y, np.full_like(y, np.nan), sm_count=1)
    assert (ran.hang is not None) is hangs


# Barriers of the program's own ---------------------------------------------------------------------------------------

RELAY = """
kernel k(X: global[f32, N]):
    launch persistent
    schedule work: m in tiles(blocks(N, 64))
    barrier asked, count = 1
    barrier said, count = 1
    role one:
        phase = 0
        for m in work:
            elect: arrive asked
            wait said, phase
            phase = phase ^ 1
    role two, warps 2:
        phase = 0
        for m in work:
            if warp == 0:
                wait asked, phase
                elect: arrive said
            phase = phase ^ 1
"""


def hang(text: str) -> Hang | None:
    module = tkc.compile(text, target="sm_90a").module(after="insert-fences")
    return hang_of(next(op for op in module.body.block.ops if isinstance(op, KernelOp)))


def told(text: str) -> list[str]:
    module = tkc.compile(text, target="sm_90a").module(after="insert-fences")
    return [f.code for f in check(module) if f.severity is Severity.ERROR]


ASKED, SAID = "            elect: arrive asked\n", "            wait said, phase\n"
TOO_EARLY = RELAY.replace(ASKED + SAID, SAID + ASKED)
BY_WARPS = (
    RELAY.replace(SAID, SAID + "            elect: arrive late\n            wait seen, phase\n")
    .replace("            if warp == 0:\n", "            if warp == 1:\n                wait late, phase\n"
             "                elect: arrive seen\n            if warp == 0:\n")
    .replace("    barrier said", "    barrier late, count = 1\n    barrier seen, count = 1\n    barrier said")
)  # fmt: skip
"""Warp 1 waits for what comes of warp 0's arrival, which stands behind its wait in the program, and not in its time."""
BY_ROLE = BY_WARPS.replace(
    "            if warp == 1:\n                wait late",
    "            if warp < 2:\n                wait late",
)


def test_warps_wait_each_for_themselves() -> None:
    assert told(RELAY) == []
    assert hang(BY_WARPS) is None
    by_role = hang(BY_ROLE)
    assert by_role is not None
    assert {stop.role for stop in by_role.stops} == {"one", "two"}


def test_barriers_that_hang_are_found() -> None:
    assert told(TOO_EARLY) == ["TK314"]


@pytest.mark.parametrize("test", ["thread == 5", "lane == 7 and warp == 1"])
def test_a_thread_that_is_not_its_warp_s_first_may_arrive(test: str) -> None:
    """A warp is two threads in these runs, of which none is thread 5."""
    text = RELAY.replace("            if warp == 0:\n                wait asked, phase\n                elect: arrive said",
                         f"            wait asked, phase\n            if {test}: arrive said")  # fmt: skip
    assert text != RELAY
    assert hang(text) is None


OF_CLUSTER = """
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent, cluster(2)
    schedule work: m, n in tiles(M, blocks(N, 64))
    barrier full, count = 64
    role one, warps 2:
        for m, n in work:
            for j in range(2): sync cluster
            arrive full, each = thread
    role two, warps 2:
        phase = 0
        for m, n in work:
            sync cluster
            sync cluster
            wait full, phase
            phase = phase ^ 1
"""
LAST = "            sync cluster\n            wait full, phase\n"
IN_BETWEEN = "            wait full, phase\n            sync cluster\n"
HALVES = "            arrive cluster\n            wait full, phase\n            wait cluster\n"
ENDED = OF_CLUSTER.replace("        phase = 0\n", "        phase = 0\n        sync cluster\n")
"""Role two comes once more than role one, which has ended then."""


@pytest.mark.parametrize(
    "text", [OF_CLUSTER, OF_CLUSTER.replace(LAST, HALVES), ENDED.replace(LAST, HALVES)]
)
def test_who_has_arrived_or_ended_lets_others_leave_the_barrier_of_the_cluster(text: str) -> None:
    assert hang(text) is None


def test_what_stands_between_two_barriers_of_the_cluster_is_not_awaited_before_the_second() -> None:
    found = hang(OF_CLUSTER.replace(LAST, IN_BETWEEN))
    assert found is not None
    assert {stop.role for stop in found.stops} == {"one", "two"}
    assert "waits for the barrier of the cluster" in finding(found).message
