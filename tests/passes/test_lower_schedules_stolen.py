"""`launch clc`: what it asks of the target and of the program, and what it falls back to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from passes.programs import run
from programs import EXAMPLES, GEMM, changed

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity, listening
from tkc.frontend import compile_source

CLC = changed(GEMM, ("launch persistent", "launch clc"))
CLUSTER = (EXAMPLES / "gemm_cluster.tk").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "target", "told"),
    [
        (CLC, "sm_90a", "`launch clc` needs cluster launch control; sm_90a has none"),
        (changed(CLUSTER, ("launch persistent", "launch clc")), "sm_90a", "needs cluster launch"),
    ],
)
def test_a_target_that_hands_out_no_items_is_named(text: str, target: str, told: str) -> None:
    with pytest.raises(tkc.TkcError, match="TK202") as error:
        tkc.compile(text, target=target)
    found = error.value.diagnostics[0]
    assert told in found.message
    assert "`launch clc or persistent`" in found.notes[0].message
    assert found.help is not None
    assert "sm_100a" in found.help


def test_the_source_may_fall_back_to_a_persistent_launch() -> None:
    either = changed(GEMM, ("launch persistent", "launch clc or persistent"))
    plain, other = tkc.compile(GEMM, target="sm_90a"), tkc.compile(either, target="sm_90a")
    assert [plain.ptx, plain.contract["grid"]] == [other.ptx, other.contract["grid"]]
    assert "try_cancel" in tkc.compile(either, target="sm_100a").ptx


def test_what_is_common_to_a_cluster_is_asked_for_once() -> None:
    text = tkc.compile(changed(CLUSTER, ("launch persistent", "launch clc")), target="sm_100a").ptx
    assert text.count("clusterlaunchcontrol.try_cancel") == 1
    assert "multicast::cluster::all" in text


PAIR = (EXAMPLES / "gemm_2cta_level2.tk").read_text(encoding="utf-8")
BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("launch", ["clc", "persistent"])
def test_a_cta_that_does_nothing_for_items_takes_its_answers(launch: str) -> None:
    """`if rank == 0:` round the loop of the role that multiplies goes into it; what comes behind the loop stays behind."""
    text = changed(PAIR, ("launch persistent", f"launch {launch}"), ("STAGES = 4", "STAGES = 3"))
    if launch == "persistent":  # as the pass leaves it, in the source
        head = "        if rank == 0:\n            for m, n in work:\n"
        text = changed(text, (head, "        for m, n in work:\n            if rank == 0:\n"))
    kernel = tkc.compile(text)
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []
    rng = np.random.default_rng()
    a, b = (rng.uniform(-1, 1, (rows, 200)).astype(BF16) for rows in (520, 264))
    c = np.full((520, 264), np.nan, BF16)
    seed = int(rng.integers(1 << 30))
    report = kernel.emulate(a, b, c, sm_count=4, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 4e-3 * np.linalg.norm(exact), seed


def test_what_stands_behind_a_loop_in_a_condition_stays_there() -> None:
    role = 'if K > 5:\n            for m, n in work: print("a")\n            print("end")'
    kernel = tkc.compile(f"{CLC}\n    role more:\n        {role}\n", target="sm_100a")
    a, b = (np.ones((rows, 16), BF16) for rows in (304, 304))
    report = kernel.emulate(a, b, np.zeros((304, 304), BF16), sm_count=4)
    assert not report.findings
    units, items = (report.printed.count(word) for word in ("end", "a"))
    assert (0 < units < items, items % 6) == (True, 0)
    report = kernel.emulate(a[:, :0], b[:, :0], np.zeros((304, 304), BF16), sm_count=4)
    assert not report.findings
    assert not report.printed


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("for m, n in work: print(\"a\")\n        for m, n in work: print(\"b\")", "a second loop over a"),
        ("for i in range(2):\n            for m, n in work: print(\"a\")", "inside another loop"),
        ("if K > 5:\n            print(\"b\")\n            for m, n in work: print(\"a\")", "more than numbers"),
        ("if K > 5:\n            for m, n in work: print(\"a\")\n        else: print(\"b\")", "inside a condition"),
    ],
)  # fmt: skip
def test_items_are_handed_out_once(role: str, told: str) -> None:
    with pytest.raises(tkc.TkcError, match="TK110") as error:
        tkc.compile(f"{CLC}\n    role more:\n        {role}\n", target="sm_100a")
    assert told in error.value.diagnostics[0].message
    assert error.value.diagnostics[0].location is not None


@pytest.mark.parametrize("ctas", [9, 16])
def test_large_clusters_assemble(ctas: int) -> None:
    """Above 8 CTAs a launch has to ask for leave, which the launcher does."""
    text = changed(
        CLUSTER, ("CTAS = 2", f"CTAS = {ctas}"), ("b <- B[n, k], multicast", "b <- B[n, k]")
    )
    kernel = tkc.compile(text, target="sm_100a", params={"BN": 64, "STAGES": 2})
    assert f".reqnctapercluster {ctas}, 1, 1" in kernel.ptx
    assert kernel.contract["cluster"]["size"] == [ctas, 1, 1]


@pytest.mark.parametrize(("ctas", "active"), [(4, 132), (8, 120), (16, 112)])
def test_idle_multiprocessors_are_counted(ctas: int, active: int) -> None:
    text = changed(CLUSTER, ("CTAS = 2", f"CTAS = {ctas}"))
    with listening() as heard:
        run(compile_source(text, "k.tk"), "set-target{arch=sm_100a}", "split-over-cluster")
    told = next(d for d in heard if d.code == "TK230")
    idle = f"leave {148 - active} of the 148 multiprocessors of a B200 idle ({active} have"
    assert idle in told.message
    assert told.severity is Severity.WARNING
