"""Both oracles on the same chains of two accesses: the pairwise rules, tensor memory, and the asynchronous chains."""

from __future__ import annotations

import pytest
from oracles import tables
from oracles.as_litmus import NotInA, as_litmus
from oracles.async_model import PROFILES, judge
from oracles.ptx_model import executions, holds
from oracles.roles import Program, parse

CHAINS = list(tables.chains())
IDS = [name for name, _, _ in CHAINS]


@pytest.mark.parametrize("row", CHAINS, ids=IDS)
def test_oracle_b(row: tuple[str, Program, dict[str, bool]]) -> None:
    _, program, ordered = row
    for profile, expected in ordered.items():
        found = judge(program, profile)
        assert {f.kind for f in found} <= {"unordered", "proxy"}
        assert (not found) == expected, profile


def asked_of_a() -> list[tuple[str, Program, dict[str, bool]]]:
    rows = []
    for row in CHAINS:
        try:
            as_litmus(row[0], row[1])
        except NotInA:
            continue
        rows.append(row)
    return rows


@pytest.mark.parametrize("row", asked_of_a(), ids=[r[0] for r in asked_of_a()])
def test_oracle_a(row: tuple[str, Program, dict[str, bool]]) -> None:
    name, program, ordered = row
    test = as_litmus(name, program)
    for profile, expected in ordered.items():
        assert any(executions(test, PROFILES[profile])), "nothing can happen, so anything is true"
        assert holds(test, PROFILES[profile]) == expected, profile


def test_sizes() -> None:
    assert len(CHAINS) >= 150
    assert len(asked_of_a()) >= 90


@pytest.mark.parametrize("row", CHAINS, ids=IDS)
def test_text_form(row: tuple[str, Program, dict[str, bool]]) -> None:
    assert str(parse(str(row[1]))) == str(row[1])
