"""Roles that are joined come in an order in which all can end, where there is one, whatever other roles put and get; and
roles that hang are refused."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import ml_dtypes
import numpy as np
import pytest

import tkc

TURNS = 4
"""Of the loop over K, which has more than the ring has slots."""
TILES = 2

Item = tuple[str, str]
"""`put` or `get`, and a pipe; the loop over K is one of them."""


def text(
    load: Sequence[str], math: Sequence[str], store: Sequence[str], depths: dict[str, int], m: int
) -> str:
    """A product, whose roles `load`, `math` and `store` have the items of three pipes in these orders."""
    put = {
        "inputs": "for k in blocks(K, 64):\n                put inputs:\n                    "
        "a <- A[m, k]\n                    b <- B[n, k]",
        "bias": "put bias: t <- T[m, n]",
        "other": "put other: u <- T[m, n]",
    }  # fmt: skip
    product = (
        "put result:\n                d = 0\n                for k in blocks(K, 64):\n"
        "                    get inputs: d += a @ b.T"
    )
    got = {"other": "get other: w{} = read(u)", "inputs": product}
    stored = {"bias": "get bias: x{} = read(t)", "result": "get result: C[m, n] <- read(d)"}

    def body(rows: dict[str, str], items: Sequence[str]) -> str:
        return "\n            ".join(rows[x].replace("{}", str(i)) for i, x in enumerate(items))

    other = ("", "")
    if "other" in depths:
        slots = f"shared u: tile[f32, {m}, 64] * {depths['other']}"
        other = (slots, "pipe other(u): load -> math")
    return f"""
kernel g(A: global[bf16, M, K], B: global[bf16, N, K], T: global[f32, M, N], C: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, {m}), blocks(N, 64))
    shared a: tile[bf16, {m}, 64] * 2
    shared b: tile[bf16, 64, 64] * 2
    shared t: tile[f32, {m}, 64] * {depths["bias"]}
    {other[0]}
    accum d: tile[f32, {m}, 64]
    pipe inputs(a, b): load -> math
    pipe bias(t): load -> store
    {other[1]}
    pipe result(d): math -> store
    role load:
        for m, n in work:
            {body(put, load)}
    role math, warps 4:
        for m, n in work:
            {body(got, math)}
    role store, warps 4:
        for m, n in work:
            {body(stored, store)}
"""


def steps(role: str, items: Sequence[str]) -> list[Item]:
    """What one tile of a role does with the rings, in order."""
    made: list[Item] = []
    for pipe in items:
        loop = TURNS if pipe == "inputs" else 1
        if role == "math" and pipe == "inputs":
            made += [*[("wait", pipe), ("release", pipe)] * loop, ("commit", "result")]
        elif role == "load":
            made += [("take", pipe), ("commit", pipe)] * loop
        else:
            made += [("wait", pipe), ("release", pipe)]
    return made


def ends(roles: Sequence[Sequence[Item]], depths: dict[str, int]) -> bool:
    """Whether roles get through their steps; whoever can go on does, which no choice of another can undo."""
    done: dict[Item, int] = {}

    def may(step: Item) -> bool:
        kind, pipe = step
        if kind == "wait":
            return done.get(step, 0) < done.get(("commit", pipe), 0)
        held = done.get(step, 0) - done.get(("release", pipe), 0)
        return kind != "take" or held < depths[pipe]

    at = [0] * len(roles)
    moved = True
    while moved:
        moved = False
        for i, role in enumerate(roles):
            while at[i] < len(role) and may(role[at[i]]):
                done[role[at[i]]] = done.get(role[at[i]], 0) + 1
                at[i] += 1
                moved = True
    return all(n == len(role) for n, role in zip(at, roles, strict=True))


def merges(one: Sequence[str], two: Sequence[str]) -> Iterator[list[Item]]:
    """Every order of the items of two roles that keeps theirs; no item stands inside another's."""
    parts = [[steps("math", [x]) for x in one], [steps("store", [x]) for x in two]]
    for places in combinations(range(len(one) + len(two)), len(one)):
        left = [list(p) for p in parts]
        yield [
            step
            for i in range(len(one) + len(two))
            for step in left[0 if i in places else 1].pop(0)
        ]


def family(number: int) -> tuple[list[str], list[str], list[str], dict[str, int]]:
    rng = random.Random(number)
    biases, others = rng.randint(1, 2), rng.randint(1, 2)
    load = ["inputs"] + ["bias"] * biases + ["other"] * others
    math = ["inputs"] + ["other"] * others
    store = ["result"] + ["bias"] * biases
    for row in (load, math, store):
        rng.shuffle(row)
    depths = {"inputs": 2, "bias": rng.randint(1, 2), "other": rng.randint(1, 2), "result": 1}
    return load, math, store, depths


def expected(load: list[str], math: list[str], store: list[str], depths: dict[str, int]) -> bool:
    put = steps("load", load) * TILES
    return any(ends([put, order * TILES], depths) for order in merges(math, store))


def compiled(number: int, target: str = "sm_90a") -> tkc.Kernel | None:
    load, math, store, depths = family(number)
    try:
        return tkc.compile(text(load, math, store, depths, 64 if target == "sm_90a" else 128), target=target)  # fmt: skip
    except tkc.TkcError as refused:
        (found,) = refused.diagnostics
        assert found.code in ("TK213", "TK314"), found.message
        assert found.location is not None
        return None


def hangs(kernel: tkc.Kernel) -> bool:
    rng = np.random.default_rng()
    a, b = (rng.uniform(-1, 1, (128, 64 * TURNS)).astype(ml_dtypes.bfloat16) for _ in "ab")
    t = rng.uniform(-1, 1, (128, 128)).astype(np.float32)
    c = np.full((128, 128), np.nan, np.float32)
    ran = kernel.emulate(a, b, t, c, schedule="random", seed=int(rng.integers(99)), sm_count=1)
    if ran.hang is None:
        assert ran.findings == []
        right = a.astype(np.float64) @ b.astype(np.float64).T
        assert np.abs(c - right).max() < 1e-3
    return ran.hang is not None


def judge(number: int) -> None:
    """Compiles, and ends, if some order of the fused bodies does; else is refused."""
    load, math, store, depths = family(number)
    kernel = compiled(number)
    assert (kernel is not None) is expected(load, math, store, depths)
    assert kernel is None or not hangs(kernel)


@pytest.mark.parametrize("number", [11, 22, 36, 45])
def test_the_joined_role_ends_if_it_can(number: int) -> None:
    judge(number)


@pytest.mark.parametrize("number", [2, 7, 13, 25])
def test_roles_that_stay_apart_end_or_are_refused(number: int) -> None:
    load, math, store, depths = family(number)
    apart = [steps(n, r) * TILES for n, r in (("load", load), ("math", math), ("store", store))]
    kernel = compiled(number, "sm_100a")
    assert (kernel is not None) is ends(apart, depths)


@pytest.mark.soak
def test_many_joined_roles_end_if_they_can() -> None:
    for number in range(100, 150):
        judge(number)


TWICE = ["bias", "bias", "inputs"], ["inputs"], ["bias", "bias", "result"]
"""The store's first get frees the one slot without which the loader never comes to the operands."""
ONE_SLOT = {"inputs": 2, "bias": 1}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_frees_a_slot_for_a_loader_comes_before_what_it_loads_later(target: str) -> None:
    made = text(*TWICE, ONE_SLOT, 64 if target == "sm_90a" else 128)
    assert not hangs(tkc.compile(made, target=target))


def test_loops_that_one_loader_fills_by_turns_are_refused() -> None:
    """Each loop of the joined role's waits for a turn of the other, and neither holds items between the two."""
    made = text(["inputs"], ["inputs"], ["bias", "result"], ONE_SLOT, 64)
    loop = "for k in blocks(K, 64):\n                "
    made = made.replace("b <- B[n, k]", "b <- B[n, k]\n                put bias: t <- T[m, n]")
    made = made.replace("get bias: ", loop + "get bias: ")
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(made, target="sm_90a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK213"
    assert "each of the two waits for the other; give their pipes more slots" in found.message
    assert found.location is not None
    assert made.split("\n")[found.location.line - 1].strip().startswith(("for k", "get"))
    assert found.notes
