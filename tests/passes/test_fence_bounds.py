"""Bounds of `eliminate-fences`: what is not examined stays, the rest is served all the same, and a remark says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tkc.diagnostics import Diagnostic, listening
from tkc.driver import to_module
from tkc.ir.certificates import read
from tkc.ir.stage import ops as s
from tkc.job import Job

EXAMPLES = Path(__file__).parents[2] / "examples"
PROOFS = "tkc.analysis.happens_before.proofs"


def made(
    name: str, target: str, after: str = "eliminate-fences"
) -> tuple[ModuleOp, list[Diagnostic]]:
    path = EXAMPLES / f"{name}.tk"
    with listening() as heard:
        module = to_module(Job(path.read_text(), str(path), target), after=after)
    return module, [d for d in heard if d.code in ("TK223", "TK902")]


def forms(module: ModuleOp) -> list[str]:
    """Fences, and the scopes of arrivals and waits, in order."""

    def said(op: Operation) -> str:
        return " ".join(
            [op.name, *(str(op.properties.get(w, "")) for w in ("space", "side", "scope"))]
        )

    kinds = s.ProxyFenceOp | s.Tcgen05FenceOp | s.MbarrierArriveOp | s.MbarrierWaitOp
    return [said(op) for op in module.walk() if isinstance(op, kinds)]


def test_without_time_to_try_what_no_proof_needs_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PROOFS}.MOST_TRIED", -1)
    module, heard = made("gemm_bias_act", "sm_90a")
    [certificate] = read(module)
    verdicts = [site.verdict for site in certificate.sites]
    kept = verdicts.count("kept")
    assert 0 < kept < len(verdicts)
    assert [d.code for d in heard] == ["TK223"] * kept
    assert all("no time is left" in d.message for d in heard)


def test_a_buffer_with_too_many_accesses_keeps_the_fences_of_its_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no others: those of tensor memory go as before."""
    free, _ = made("gemm_bf16_level2", "sm_100a")
    monkeypatch.setattr(f"{PROOFS}.MOST_PAIRS", 7)
    module, heard = made("gemm_bf16_level2", "sm_100a")
    [told] = heard
    assert told.code == "TK223"
    assert "accesses, too many to compare" in told.message

    def left(of: ModuleOp, kind: type[Operation]) -> int:
        return sum(isinstance(op, kind) for op in of.walk())

    assert left(module, s.ProxyFenceOp) > left(free, s.ProxyFenceOp)
    assert left(module, s.Tcgen05FenceOp) == left(free, s.Tcgen05FenceOp)


def test_what_cannot_be_checked_is_left_and_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = made("gemm_bf16_level2", "sm_100a", "insert-fences")
    monkeypatch.setattr("tkc.analysis.machine.MOST", 10)
    module, heard = made("gemm_bf16_level2", "sm_100a")
    assert forms(module) == forms(before)
    assert [d.code for d in heard] == ["TK223"]
    assert "the run is too long" in heard[0].message


def test_a_cheaper_form_that_the_checker_refuses_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, _ = made("gemm_2cta_level2", "sm_100a", "insert-fences")
    monkeypatch.setattr(
        "tkc.analysis.certificates.wrong",
        lambda c, _: dict.fromkeys(range(len(c.orders)), "refused"),
    )
    module, heard = made("gemm_2cta_level2", "sm_100a")
    assert forms(module) == forms(before)
    assert {d.code for d in heard} == {"TK902"}
    sites = read(module)[0].sites
    assert {x.verdict for x in sites if x.orders} <= {"kept"}
    assert [x.op for x in sites if x.verdict != "kept"] == [
        "stage.bulk_wait"
    ]  # no pair rests on it
