"""What `tkc check` says of kernels of each kind, and of one slip in each; what it says of a group that nobody closes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.analysis.bug_cases import Case, changed
from tests.analysis.kind_cases import IN_THE_SUITE, LAST, LONG, PAIRS, SINGLE
from tests.analysis.test_bug_cases import said
from tkc.analysis.order import diagnose
from tkc.commands.check import found_in
from tkc.commands.fixes import mend
from tkc.driver import to_module
from tkc.job import Job

ALL = [
    pytest.param(case, id=f"{name}.{n}", marks=[pytest.mark.soak] if cases is LONG else [])
    for cases in (IN_THE_SUITE, LONG)
    for name, listed in cases.items()
    for n, case in enumerate(listed)
]


@pytest.mark.parametrize("case", ALL)
def test_a_slip_is_told_and_what_is_right_is_not(case: Case) -> None:
    assert [d.message for d in said(case.good, case.target)] == []
    for text, code, line in case.programs():
        found = said(text, case.target)
        lines = text.splitlines()
        shown = [lines[d.location.line - 1] for d in found if d.code == code and d.location]
        assert any(line in one for one in shown), [(d.code, d.message) for d in found]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("wait drained, e, cluster", "wait drained, e, relaxed"), "`wait drained`"),
        (("arrive drained, at = 0", "arrive drained, relaxed, at = 0"), "`arrive drained`"),
    ],
)
def test_a_signal_that_tells_nothing_is_named(change: tuple[str, str], name: str) -> None:
    found = said(changed(PAIRS, change), "sm_100a")
    assert {d.code for d in found} == {"TK309"}
    assert all(any(f"{name} is relaxed" in n.message for n in d.notes) for d in found)


@pytest.mark.parametrize(
    ("good", "gone", "why"),
    [
        (LAST, ("<- last\n            commit stores\n", "<- last\n"), "`commit stores` behind it"),
        (SINGLE, ("                commit stores\n                wait stores\n", ""), "`commit stores` behind it"),
        (SINGLE, ("                wait stores\n", ""), "wait for the role's stores"),
    ],
)  # fmt: skip
def test_a_store_that_is_under_way_at_the_end_is_mended(
    good: str, gone: tuple[str, str], why: str, tmp_path: Path
) -> None:
    source = tmp_path / "k.tk"
    source.write_text(changed(good, gone), encoding="utf-8")
    job = Job(source.read_text(encoding="utf-8"), str(source), "sm_90a")
    found = diagnose(to_module(job, after="insert-fences"))
    assert all(why in d.help for d, _ in found)
    assert [*mend(str(source), found, partial(found_in, job, "practice"))]
    assert not said(source.read_text(encoding="utf-8"), "sm_90a")
