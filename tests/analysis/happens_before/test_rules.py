"""The rules and assumptions: each says where it comes from, and the page for experts prints all of them."""

from __future__ import annotations

from pathlib import Path

from tkc.analysis.happens_before.rules import PRACTICE, RULES, STRICT
from tkc.ir.isa.assumptions import ASSUMPTIONS

PAGE = (Path(__file__).parents[3] / "docs" / "memory-model.md").read_text(encoding="utf-8")


def test_the_page_has_every_assumption_with_its_profiles() -> None:
    for row in ASSUMPTIONS:
        strict, practice = ("yes" if row.id in p else "" for p in (STRICT, PRACTICE))
        practice = "a warning" if row.warns else practice
        assert f"| {row.id} | {row.grants} | {row.basis} | {strict} | {practice} |" in PAGE


def test_the_page_has_every_rule_with_its_section_and_assumptions() -> None:
    for name, row in RULES.items():
        if name != "start":
            assert f"| `{name}` | {row.says} | {row.section} | {', '.join(row.assumes)} |" in PAGE


def test_every_rule_names_a_section_and_known_assumptions() -> None:
    for name, row in RULES.items():
        assert row.section or name == "start"
        assert set(row.assumes) <= {a.id for a in ASSUMPTIONS}


def test_what_is_disputed_is_never_assumed() -> None:
    assert "A10" not in PRACTICE
    assert STRICT < PRACTICE
