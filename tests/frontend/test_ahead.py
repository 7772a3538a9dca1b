"""`ahead = score`: which role does what, what may not be said, and the results against NumPy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tkc
import tkc.frontend.syntax as S
from tkc.analysis.happens_before import check
from tkc.frontend.ahead import names_in, separate
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
