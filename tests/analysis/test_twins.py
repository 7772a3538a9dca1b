"""Each slip is found with its code at its place, and the kernel without it is silent."""

from __future__ import annotations

import re

import pytest

from tests.analysis.twins import KERNELS, SLIPS
from tkc.analysis.consequences import told_once
from tkc.analysis.order import diagnose
from tkc.diagnostics import Diagnostic
from tkc.driver import to_module
from tkc.job import Job


def diagnosed(text: str, target: str) -> list[Diagnostic]:
    """What `tkc check` says after the last fence is in place, whatever later passes say."""
    module = to_module(Job(text, "twin.tk", target), after="insert-fences")
    return [*told_once(diagnose(module))]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_good_kernel_is_silent(kernel: str, target: str) -> None:
    assert [d.message for d in diagnosed(KERNELS[kernel], target)] == []


@pytest.mark.parametrize("what", SLIPS)
def test_a_slip_is_found_at_its_place(what: str) -> None:
    slip = SLIPS[what]
    text = slip.text
    found = diagnosed(text, slip.target)
    assert slip.code in {d.code for d in found}, [(d.code, d.message) for d in found]
    lines = text.splitlines()
    shown = [lines[d.location.line - 1] for d in found if d.code == slip.code and d.location]
    assert any(slip.line in line for line in shown), shown
    said = "\n".join(d.render() for d in found)
    assert not re.search(r"\w\.user\.|tma_|mbarrier|bulk_|_barrier", said), said
