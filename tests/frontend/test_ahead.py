"""`ahead = score`: which role does what, what may not be said, and the results against NumPy."""

from __future__ import annotations

import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tkc
import tkc.frontend.syntax as S
from tkc.analysis.happens_before import check
from tkc.frontend.ahead import separate
from tkc.frontend.effects import names_in
from tkc.frontend.parse import parse
from tkc.frontend.source import Source
from tkc.ir.tile import ops as t

KERNEL = Path("lit_tests/run/ahead.tk").read_text(encoding="utf-8")
ATTENTION = Path("lit_tests/run/attention-ahead.tk").read_text(encoding="utf-8")


def roles(text: str) -> dict[str, t.RoleOp]:
    module = tkc.compile(text, target="sm_100a").module(after="set-target")
    return {op.sym_name.data: op for op in module.walk() if isinstance(op, t.RoleOp)}


def pipes(role: t.RoleOp) -> list[str]:
    """The items of a role in written order, by their pipes."""
    found: list[str] = []
    for op in role.walk():
        if isinstance(op, t.PutOp | t.GetOp):
            word = "put" if isinstance(op, t.PutOp) else "get"
            found += [f"{word} {p.owner.sym_name.data}" for p in op.pipes]  # type: ignore[union-attr]
    return found


def test_what_runs_ahead_is_a_role_that_waits_for_nothing_else() -> None:
    made = roles(KERNEL)
    assert pipes(made["mma.ahead"]) == ["get query", "get keys", "put score"]
    assert pipes(made["mma"]) == ["put result", "get prob", "get values"]


def test_what_both_get_is_released_by_both_and_what_one_only_counts_at_once() -> None:
    made = roles(ATTENTION)
    scores = [f"put score[{i}]" for i in range(2)]
    assert pipes(made["mma.ahead"]) == ["get query", "get keyval", *scores, "get keyval"]
    rest = [f"get {p}[{i}]" for i in range(2) for p in ("prob", "out")]
    assert pipes(made["mma"]) == ["get keyval", "get keyval", *rest, "put final[0]", "put final[1]"]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_products_ahead_give_what_products_in_order_give(target: str, seed: int) -> None:
    kernel = tkc.compile(KERNEL, target=target)
    rng = np.random.default_rng(seed)
    for trips in range(1, 6):
        m, n = int(rng.integers(1, 130)), 64 * trips - int(rng.integers(0, 63))
        q, k, v = (rng.uniform(-1, 1, (rows, 64)).astype(ml_dtypes.bfloat16) for rows in (m, n, n))
        o = np.full((m, 64), np.nan, np.float32)
        report = kernel.emulate(q, k, v, o, schedule="random", seed=seed + trips, sm_count=1)
        assert not report.findings, (trips, report.findings[0])
        weights = np.exp2(0.25 * (q.astype(float) @ k.astype(float).T))
        np.testing.assert_allclose(o, weights @ v.astype(float), rtol=1e-2, atol=0.3)
    assert check(kernel.module(after="eliminate-fences")) == []


def test_variables_of_what_runs_ahead_go_with_it() -> None:
    """Those that its loops and puts are made of, and none else."""
    text = KERNEL.replace(
        "                o = 0\n",
        "                o = 0\n                one = 1\n                two = one + one\n                three = 3\n",
    ).replace("blocks(N, BN), ahead", "blocks(N, two), ahead")
    source = Source(text, "k.tk")
    tree = parse(source)
    assert tree is not None
    made = separate(source, tree.kernels[0])
    assert made is not None
    (leader,) = [x for x in made.body if isinstance(x, S.Role) and x.name.text == "mma.ahead"]
    assert {"one", "two", "q", "k", "s"} <= {*names_in(leader.body)}
    assert {"three", "o", "p", "v"}.isdisjoint(names_in(leader.body))


WRONG = [
    ("ahead = score:", "ahead = scores:", "TK102", "`ahead = ...` names a pipe that the loop puts, and `scores` is none"),
    ("ahead = score:", "ahead = keys:", "TK102", "role mma puts no item of pipe keys"),
    ("put score: s = q @ k.T", "put score, put prob: s = q @ k.T", "TK110", "together with other puts"),
    ("            for j in blocks(N, BN), ahead", "            get keys:\n                    put score: s = q @ k.T\n                for j in blocks(N, BN), ahead", "TK110", "outside the loop"),
    ("pipe values(v): load -> mma", "pipe values(v): load -> mma, soft by turns", "TK110", "takes turns"),
    ("put score: s = q @ k.T", "put score: s = k @ z.T", "TK102", "z"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "code", "told"), WRONG, ids=[w[3][:20] for w in WRONG])
def test_what_cannot_run_ahead_is_said_at_its_place(
    old: str, new: str, code: str, told: str
) -> None:
    assert old in KERNEL
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(KERNEL.replace(old, new), target="sm_100a")
    found = raised.value.diagnostics
    assert len(found) == 1, [d.message for d in found]
    assert found[0].code == code
    assert told in found[0].message
    assert found[0].location is not None


COUNTED = KERNEL.replace(
    "O: global[f32, M, D])", "O: global[f32, M, D], Y: global[i32, J], Z: global[i32, J])"
).replace(
    "                o = 0\n",
    "                o = 0\n                c = 0\n                d = 0\n",
)


def counted(*, outside: str = "", put: str = "", after: str = "", top: str = "") -> str:
    """The kernel with statements in the loop, in the put that runs ahead, behind the other product, on top of roles."""

    def lines(of: str, depth: int) -> str:
        return "".join(f"{' ' * 4 * depth}{x}\n" for x in of.splitlines())

    text = COUNTED.replace(
        "                    get keys:\n                        put score: s = q @ k.T\n",
        f"{lines(outside, 5)}                    get keys:\n                        put score:\n"
        f"                            s = q @ k.T\n{lines(put, 7)}",
    )
    last = "                    get prob, values: o += p @ v\n"
    return top + text.replace(last, last + lines(after, 5))


def results(
    text: str, target: str, seed: int, steps: int = 4
) -> tuple[np.ndarray, list[int], list[str]]:
    """What the kernel computes of fixed inputs, its integers, and the lines that it prints."""
    rng = np.random.default_rng(seed)
    n = 64 * steps
    q, k, v = (rng.uniform(-1, 1, (r, 64)).astype(ml_dtypes.bfloat16) for r in (64, n, n))
    o, y, z = (
        np.full((64, 64), np.nan, np.float32),
        np.full(1, -7, np.int32),
        np.full(1, -7, np.int32),
    )
    report = tkc.compile(text, target=target).emulate(
        q, k, v, o, y, z, schedule="random", seed=seed, sm_count=1
    )
    assert not report.findings, report.findings[0]
    return o, [*y.tolist(), *z.tolist()], sorted(report.printed.splitlines())


SHOW = "elect: Z[0] <- c"
TOLD = "elect: Y[0] <- c"
VARIABLES: dict[str, tuple[dict[str, str], list[int]]] = {
    "changed in the put": ({"put": "c += 1", "after": "if c > 2:\n    " + SHOW}, [-7, 4]),
    "changed in a loop without items": (
        {"outside": "for i in range(3): c += 1", "put": TOLD, "after": SHOW},
        [12, 12],
    ),
    "changed in a loop of the put that is left": (
        {
            "put": "for i in range(9):\n    if i == 1: continue\n    if i == 4: break\n    c += i",
            "after": SHOW,
        },
        [-7, 20],
    ),
    "changed in a while of the rest that is left": (
        {
            "outside": "d += 1\nwhile c < 100:\n    c += 2\n    if c > 3 * d: break",
            "put": TOLD,
        },
        [14, -7],
    ),
    "changed under conditions of the other": (
        {
            "put": "if d > 1:\n    c += 5\nelse:\n    c += 1",
            "after": "d += 1\nif c > 5:\n    d = 0\n" + SHOW,
        },
        [-7, 8],
    ),
    "each made of the other": (
        {"put": "d = c + 1\n" + TOLD, "after": "c = d * 2\n" + SHOW},
        [14, 30],
    ),
    "of a put that a turn leaves out": (
        {"after": "c += 1\nif j.index == 1: continue\nd += c\nelect: Z[0] <- d", "put": TOLD},
        [3, 8],
    ),
}


ON_ONE_CHIP = [
    pytest.param(name, chip, marks=[pytest.mark.soak] if (number + turn) % 2 else [])
    for number, name in enumerate(VARIABLES)
    for turn, chip in enumerate(("sm_90a", "sm_100a"))
]
"""The language does the splitting, whatever the target: the other one in long runs."""


@pytest.mark.parametrize(("name", "chip"), ON_ONE_CHIP)
def test_variables_are_those_of_the_role_that_is_not_split(name: str, chip: str, seed: int) -> None:
    parts, expected = VARIABLES[name]
    text = counted(**parts)
    o, z, _ = results(text, chip, seed)
    assert z == expected
    plain, same, _ = results(text.replace(", ahead = score", ""), chip, seed)
    assert same == z
    np.testing.assert_array_equal(o, plain)


def halves(text: str) -> dict[str, str]:
    """What the two roles say, as text of the tree."""
    source = Source(text, "k.tk")
    tree = parse(source)
    assert tree is not None
    made = separate(source, tree.kernels[0])
    assert made is not None
    return {x.name.text: repr(x.body) for x in made.body if isinstance(x, S.Role)}


def test_a_loop_that_one_half_leaves_is_left_by_both_and_what_it_needs_is_in_both() -> None:
    """Only the words that leave a loop which a half has: other loops, and what these need, it lacks."""
    alone = "for i in range(3):\n    if w > i: break\n    Z[1] <- i"
    for parts in ({"put": "c += 1\nif c == 3: break"}, {"after": "c += 1\nif c == 3: continue"}):
        made = halves(counted(outside="w = read(Z[0])\n" + alone, **parts))
        word = "break" if "put" in parts else "continue"
        for role in ("mma", "mma.ahead"):
            assert made[role].count(f"Name(text={word!r}") == 1 + (
                role == "mma" and word == "break"
            )
            assert "Update(target=Name(text='c'" in made[role]
        assert "'w'" in made["mma"]
        assert "'w'" not in made["mma.ahead"]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_is_printed_and_tested_is_so_once(target: str, seed: int) -> None:
    text = counted(
        outside='c += 1\nprint("rest", c)\nassert c < 9, "few"',
        put='d += 1\nprint("ahead", c + d)',
        after='print("behind", d)',
    )
    _, _, lines = results(text, target, seed, steps=2)
    assert lines == ["ahead 2", "ahead 4", "behind 1", "behind 2", "rest 1", "rest 2"]
    assert results(text.replace(", ahead = score", ""), target, seed, steps=2)[2] == lines


ADD = "atomic_add(Z[0], 1)"
FUNCTION = "def more(x): return atomic_add(x, 1)\n\n"
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "an update in the rest": ({"outside": f"c = {ADD}", "put": TOLD}, "both need `c`, and `atomic_add`"),
    "an update in the put": ({"put": f"c = {ADD}", "after": TOLD}, "both need `c`, and `atomic_add`"),
    "an update in a function": ({"top": FUNCTION, "put": "c = more(Z[0])", "after": TOLD}, "`more` would run in each"),
    "an update as a condition": ({"outside": f"while {ADD} < 9: c += 1", "put": TOLD}, "both need this condition"),
    "a number that is written": ({"outside": "c = read(Z[1])", "put": TOLD, "after": SHOW}, "`Z` is written meanwhile"),
    "a number of threads": ({"outside": "if thread == 0: c += 1", "put": TOLD}, "`thread` is of the threads"),
    "an election": ({"outside": "elect: c += 1", "put": TOLD}, "what this elected thread does"),
    "a tensor that both write": ({"put": TOLD, "after": "d = read(Y[0])\n" + "elect: Z[0] <- d"}, "write `Y`, which the rest of role mma uses"),
    "a tile of the put": ({"put": "x = read(s)\ny = row_sum(x)", "after": "o += y"}, "`s`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_in_both_halves_is_said_at_its_place(name: str) -> None:
    parts, told = REFUSED[name]
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(counted(**parts), target="sm_100a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK110"
    assert told in found.message
    assert "leave `ahead` out" in found.message
    assert found.location is not None


def test_updates_that_one_half_needs_run_once(seed: int) -> None:
    text = counted(put=f"elect: c = {ADD}")
    assert results(text, "sm_100a", seed)[1] == [-7, 4 - 7]


def test_a_long_chain_of_variables_is_followed_in_one_go() -> None:
    """400 variables, each made of the next: rounds are of loops and conditions, not of variables."""
    chain = "\n".join(f"x{i} = x{i + 1} + 1" for i in range(400))
    began = time.process_time()
    made = halves(counted(outside=chain, put="elect: Z[0] <- x0"))
    assert "'x400'" in made["mma.ahead"]
    assert time.process_time() - began < 5
