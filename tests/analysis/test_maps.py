"""Tensor maps that a kernel edits: each slip is found by `tkc check` at its place, and by the emulator, with one code."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.analysis.map_twins import EXAMPLE, FINE, SLIPS, good, kernel_of
from tkc.analysis.certificates import wrong
from tkc.analysis.happens_before.chains import orders
from tkc.analysis.happens_before.proofs import Proofs
from tkc.analysis.happens_before.verdicts import Verdict
from tkc.analysis.order import diagnose
from tkc.diagnostics import Diagnostic
from tkc.ir import certificates as c
from tkc.ir.isa.memory import Space
from tkc.ir.stage import ops as s
from tkc.ir.stage.maps import MapAcquireOp, MapReleaseOp
from tkc.kernel import Kernel

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_90a", "sm_100a")
ROWS = (40, 1, 130, 7)
LINES = EXAMPLE.read_text().splitlines()


@cache
def _good(target: str) -> ModuleOp:
    return good(target)


def changed(target: str, what: str) -> ModuleOp:
    module = _good(target).clone()
    (FINE.get(what) or SLIPS[what][0])(module)
    return module


def told(module: ModuleOp) -> list[Diagnostic]:
    return [d for d, _ in diagnose(module)]


def emulated(kernel: Kernel) -> set[str]:
    """The codes of what two launches of one CTA find, on fresh data, by chance and as late as may be."""
    found: set[str] = set()
    rng = np.random.default_rng()
    for schedule in ("random", "lazy"):
        a = [rng.uniform(-1, 1, (r, 72)).astype(BF16) for r in ROWS]
        b = [rng.uniform(-1, 1, (64, 72)).astype(BF16) for _ in ROWS]
        c = [np.full((r, 64), np.nan, BF16) for r in ROWS]
        seed = int(rng.integers(1 << 30))
        report = kernel.emulate(
            np.array(ROWS, np.int32), a, b, c, sm_count=1, schedule=schedule, seed=seed
        )
        found |= {f.code for f in report.findings}
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("what", ["", *FINE])
def test_what_is_right_is_silent(target: str, what: str) -> None:
    module = changed(target, what) if what else _good(target)
    assert [d.message for d in told(module)] == []
    assert emulated(kernel_of(module, target)) == set()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("what", SLIPS)
def test_a_slip_is_told_at_its_place(target: str, what: str) -> None:
    if target == "sm_90a" and what in ("edited by all threads",):
        pytest.skip("the role that stores runs in two warpgroups: each has maps of its own")
    _, code, line = SLIPS[what]
    found = told(changed(target, what))
    assert code in {d.code for d in found}, [(d.code, d.message) for d in found]
    shown = [LINES[d.location.line - 1] for d in found if d.code == code and d.location]
    assert any(line in text for text in shown), shown


@pytest.mark.share(2)
@pytest.mark.parametrize("what", SLIPS)
def test_the_emulator_finds_the_same(what: str) -> None:
    _, code, _ = SLIPS[what]
    assert code in emulated(kernel_of(changed("sm_100a", what), "sm_100a"))


@pytest.mark.parametrize("target", TARGETS)
def test_each_pair_of_an_edit_and_a_copy_has_a_chain_that_a_second_program_follows(
    target: str,
) -> None:
    kernel = next(op for op in _good(target).body.block.ops if isinstance(op, s.KernelOp))
    proofs = Proofs(kernel, "practice")
    made: list[c.Order] = []
    for hazard in proofs.hazards:
        if hazard.first.access.space is Space.MAP:
            assert hazard.verdict is Verdict.ORDERED
            pair = hazard.first, hazard.second
            model = proofs.model_of(hazard)
            made += orders(proofs.with_all[model], hazard, proofs.others[pair], model)
    rules = {link.rule for o in made for chain in (o.forward, o.back) for link in chain or ()}
    assert {"map-release", "map-acquire", "map-read", "mapped"} <= rules
    assert wrong(c.Certificate(kernel.sym_name.data, "practice", tuple(made), ()), kernel) == {}
    without = [o for o in made if any(x.rule == "map-acquire" for x in o.forward or ())]
    for order in without:
        shorter = tuple(x for x in order.forward or () if x.rule != "map-acquire")
        refused = c.Certificate(
            kernel.sym_name.data, "practice", (order._replace(forward=shorter),), ()
        )
        assert wrong(refused, kernel)


@pytest.mark.parametrize("target", TARGETS)
def test_fences_of_maps_stay(target: str) -> None:
    """Each group has an edit, a release and an acquire; no pass takes one away."""
    module = _good(target)
    assert len([op for op in module.walk() if isinstance(op, MapReleaseOp)]) == 2
    assert len([op for op in module.walk() if isinstance(op, MapAcquireOp)]) == 3
