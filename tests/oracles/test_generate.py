"""Random role programs: right as they are made, wrong with faults in them; and both oracles on random chains."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from oracles import tables
from oracles.as_litmus import NotInA, as_litmus
from oracles.async_model import PROFILES, Finding, Graph, judge
from oracles.generate import generate, trips
from oracles.ptx_model import executions, holds
from oracles.roles import Program
from oracles.unroll import Stuck, unroll

NEEDS_PRACTICE = {
    ("proxy", ("mma", "st")),
    ("proxy", ("st", "store")),
    ("unordered", ("mma", "tld")),
}
"""What `strict` rejects: generic writes over what a product or a store has read rest on A6 and A7, and lanes of a warp
that join after they have read tensor memory on A13."""


def names(program: Program, finding: Finding) -> tuple[str, ...]:
    by_site = {op.site: op.name for _, op in program.ops()}
    return tuple(sorted(by_site[s] for s in finding.sites))


def test_without_faults_they_are_right() -> None:
    for seed in range(150):
        program, _ = generate(seed, faults=0)
        if "st x[0]" in str(program) and "ld x[0]" in str(program):
            continue  # guarded by a ring of another loop: mostly wrong
        assert not judge(program, "practice", trips(program, brief=True)), f"seed {seed}\n{program}"
        if program.ctas() > 1:
            continue  # strict proves no pair of CTAs (A1, A2, A15)
        for f in judge(program, "strict", trips(program, brief=True)):
            assert (f.kind, names(program, f)) in NEEDS_PRACTICE, f"seed {seed}\n{program}"


def test_faults_are_of_every_kind() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(300):
        program, _ = generate(seed)
        kinds.update(
            {f.kind for f in judge(program, "practice", trips(program, brief=True))} or {"-"}
        )
    assert kinds["-"] > 60
    assert all(kinds[k] for k in ("unordered", "proxy", "deadlock", "phase", "lap", "unfinished"))


LEFT = ("st a[0]", "ld a[0]", "tma a[0] m[0]", "mma d[0] a[0]", "store a[0]")
BETWEEN = (
    "fence", "fence one", "warp_sync", "arrive w[0]", "arrive n[0] one", "commit n[0]", "bulk_commit", "thread_fence",
    "bulk_wait 0", "bulk_wait 0 read", "sync 1", "arrive w[0] relaxed", "wait m[0] one",
)  # fmt: skip
BEFORE = ("wait m[0]", "wait m[0] one", "wait w[0]", "wait w[0] one", "wait n[0]", "wait n[0] one", "sync 1", "fence",
          "fence one", "thread_fence", "warp_sync", "wait w[0] relaxed")  # fmt: skip
RIGHT = ("st a[0]", "ld a[0]", "tma a[0] v[0]", "mma d[0] a[0]", "store a[0]")


def random_chain(rng: random.Random) -> Program:
    left = [rng.choice(LEFT), *rng.choices(BETWEEN, k=rng.randint(1, 3))]
    right = [*rng.choices(BEFORE, k=rng.randint(1, 3)), rng.choice(RIGHT)]
    text = tables.chain("; ".join(left), "; ".join(right))
    for name in ("n", "v"):
        if name in text.barriers:
            text.barriers[name] = type(text.barriers[name])(name, 1, 1, 0)
    return text


def both_agree(seed: int, until: Callable[[int], bool]) -> Counter[str]:
    """Asks both about random chains in which every barrier completes; how many are ordered, and how many race. Lanes
    meet at a barrier in A, so that what A13 grants counts in B too."""
    rng = random.Random(seed)
    asked: Counter[str] = Counter()
    while not until(sum(asked.values())):
        program = random_chain(rng)
        profile = rng.choice(list(PROFILES))
        assumed = PROFILES[profile] | {"A13"}
        try:
            found = set(Graph(unroll(program, {}), assumed).findings())
        except Stuck:
            continue
        if any(f.kind not in ("unordered", "proxy") for f in found):
            continue
        try:
            test = as_litmus("random", program)
        except NotInA:
            continue
        if any(executions(test, assumed)):
            assert holds(test, assumed) == (not found), f"{profile}\n{program}\n{found}"
            asked["race" if found else "ordered"] += 1
    return asked


def test_both_oracles_on_random_chains(seed: int) -> None:
    """B's verdict is what A finds by trying every execution."""
    asked = both_agree(seed, lambda n: n >= 15)
    assert min(asked["race"], asked["ordered"]) > 0, asked


@pytest.mark.soak
def test_both_oracles_on_many_random_chains(seed: int) -> None:
    deadline = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    print(both_agree(seed ^ int(time.time()), lambda n: n >= 20_000 or time.monotonic() > deadline))
