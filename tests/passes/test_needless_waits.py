"""Waits that a program spells out: one goes where what it tells is known anyway, and only where phases stay apart."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import Operation

import tkc
from tests.passes.test_eliminate_fences import EXAMPLES, LEVEL2, changed, compiled
from tkc.analysis import certificates
from tkc.ir.certificates import Certificate
from tkc.ir.stage import ops as s

WAIT = "                wait full[slot], phase\n"
TWICE = changed(LEVEL2, (WAIT, WAIT + WAIT))
DRAINED = "                    wait stores <= 1, read\n"
TOO_MANY = changed(LEVEL2, (DRAINED, "                    wait stores <= 0\n" + DRAINED))
WAITS = "wait"


def gone(certificate: Certificate) -> list[str]:
    return [x.id for x in certificate.sites if x.verdict == "removed" and WAITS in x.id]


def waits(ptx: str) -> int:
    return ptx.count("try_wait") + ptx.count("wait_group")


def test_of_two_waits_for_one_phase_one_goes() -> None:
    _, certificate, failed = compiled(TWICE)
    assert failed == []
    assert len(gone(certificate)) == 1
    [site] = [x for x in certificate.sites if x.id in gone(certificate)]
    assert site.orders  # the pairs that it ordered, each with another chain
    assert waits(tkc.compile(TWICE).ptx) == waits(tkc.compile(LEVEL2).ptx)


def test_where_strict_rules_do_not_prove_every_pair_both_stay() -> None:
    _, certificate, failed = compiled(TWICE, model="strict")
    assert failed == []
    assert gone(certificate) == []


def test_the_program_runs_as_before() -> None:
    kernel = tkc.compile(TWICE)
    rng = np.random.default_rng()
    a, b = (rng.uniform(-1, 1, (rows, 200)).astype(ml_dtypes.bfloat16) for rows in (130, 264))
    results: list[bytes] = []
    for each in (kernel, tkc.compile(LEVEL2)):
        c = np.full((130, 264), np.nan, ml_dtypes.bfloat16)
        assert each.emulate(a, b, c, sm_count=2, schedule="random").clean
        results.append(c.tobytes())
    assert results[0] == results[1]


def test_a_wait_for_more_stores_than_are_needed_stays_and_the_other_goes_or_the_reverse() -> None:
    """Waiting for none makes waiting for all but one needless; together they are not."""
    _, certificate, failed = compiled(TOO_MANY)
    assert failed == []
    assert len(gone(certificate)) == 1


def test_what_is_written_stays_where_that_is_asked_for() -> None:
    _, certificate, _ = compiled(TWICE, fences="as-written")
    assert gone(certificate) == []


ECHO = """
kernel echo(X: global[bf16, M, N], Y: global[bf16, M, N]):
    param DEPTH = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * DEPTH
    barrier full * DEPTH, count = 1
    barrier empty * DEPTH, count = 1
    barrier tick * 2, count = 1
    barrier tock * 2, count = 1
    role load:
        slot = 0
        phase = 0
        for m, n in work:
            wait empty[slot], phase ^ 1
            elect:
                expect full[slot], bytes(x)
                load x[slot] <- X[m, n], full[slot]
            fence proxy shared
            slot += 1
            if slot == DEPTH:
                slot = 0
                phase = phase ^ 1
    role store:
        slot = 0
        phase = 0
        i = 0
        turn = 0
        for m, n in work:
            wait tock[i], turn ^ 1  # only so that `tick` is not lapped
            elect:
                arrive tick[i]
            wait full[slot], phase
            elect:
                store Y[m, n] <- x[slot]
                commit stores
                wait stores <= 0, read
                arrive empty[slot]
            slot += 1
            if slot == DEPTH:
                slot = 0
                phase = phase ^ 1
            i += 1
            if i == 2:
                i = 0
                turn = turn ^ 1
    role watch:
        i = 0
        turn = 0
        for m, n in work:
            wait tick[i], turn  # only so that `tock` is not lapped
            elect:
                arrive tock[i]
            i += 1
            if i == 2:
                i = 0
                turn = turn ^ 1
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_wait_that_only_keeps_phases_apart_stays(target: str) -> None:
    _, certificate, failed = compiled(ECHO, target)
    assert failed == []
    assert gone(certificate) == []
    assert [x.verdict for x in certificate.sites if "fence" in x.id] == ["removed"]


def test_a_certificate_that_the_checker_refuses_brings_waits_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = certificates.wrong

    def refusing(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
        refused = {
            i: "no" for x in certificate.sites if x.id in gone(certificate) for i in x.orders
        }
        return whole(certificate, kernel) | refused

    def order(ops: object) -> list[str]:
        assert isinstance(ops, Operation)
        return [op.name for op in ops.walk() if "wait" in op.name or "fence" in op.name]

    _, _, _ = compiled(TWICE)
    monkeypatch.setattr(certificates, "wrong", refusing)
    module, certificate, failed = compiled(TWICE)
    assert {d.code for d in failed} == {"TK902"}
    assert gone(certificate) == []
    assert "removed" in {x.verdict for x in certificate.sites}
    written, _, _ = compiled(TWICE, fences="as-written")
    names = [x for x in order(written) if "wait" in x]
    assert [x for x in order(module) if "wait" in x] == names


def test_waits_of_the_compiler_are_not_asked_about() -> None:
    _, certificate, _ = compiled((EXAMPLES / "silu_mul.tk").read_text(), "sm_90a")
    assert gone(certificate) == []
