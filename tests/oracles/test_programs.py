"""Oracle B on whole programs: the traps that break naive analyses, pairs of CTAs, persistent tiles."""

from __future__ import annotations

import pytest
from oracles import tables
from oracles.async_model import judge
from oracles.roles import parse

ROWS = list(tables.programs())


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_findings(row: tables.Row) -> None:
    for profile, expected in row.findings.items():
        found = judge(row.program, profile, row.trips)
        assert {(f.kind, f.where) for f in found} == expected, profile


def test_text_form() -> None:
    for row in ROWS:
        assert str(parse(str(row.program))) == str(row.program)
