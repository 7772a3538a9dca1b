"""What `tkc check` says of each case of our list, and of the program without the slip: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.bug_cases import CASES, ELSEWHERE, KINDS, Case
from tests.analysis.family_cases import FAMILIES
from tests.analysis.form_cases import FORMS
from tests.analysis.more_cases import MORE
from tests.analysis.test_twins import diagnosed
from tkc.diagnostics import Diagnostic, TkcError

ALL = [
    pytest.param(case, id=f"{name}.{n}")
    for name, cases in (CASES | MORE | FAMILIES | FORMS).items()
    for n, case in enumerate(cases)
]


def said(text: str, target: str) -> tuple[Diagnostic, ...]:
    """What is found, also where the program is refused before."""
    try:
        return tuple(diagnosed(text, target))
    except TkcError as error:
        return error.diagnostics


@pytest.mark.parametrize("case", ALL)
def test_a_slip_is_told_and_what_is_right_is_not(case: Case) -> None:
    assert [d.message for d in said(case.good, case.target)] == []
    for text, code, line in case.programs():
        found = said(text, case.target)
        lines = text.splitlines()
        shown = [lines[d.location.line - 1] for d in found if d.code == code and d.location]
        assert any(line in one for one in shown), [(d.code, d.message) for d in found]


def test_each_case_has_twins_or_a_reason() -> None:
    known = {f"{kind}-{n}" for kind, numbers in KINDS.items() for n in numbers}
    twins = {name for name in (*CASES, *FAMILIES) if "-" in name}
    assert known <= twins | set(ELSEWHERE)
    assert not twins & set(ELSEWHERE)
    root = Path(__file__).parents[2]
    assert all((root / test).exists() for _, test in ELSEWHERE.values())


def test_each_kind_has_more_cases_of_our_own() -> None:
    for kind in KINDS:
        assert len(FAMILIES[kind]) >= 2
        assert sum(len(case.bad) for case in FAMILIES[kind]) >= (kind != "FP") * 2
