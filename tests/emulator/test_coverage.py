"""What the emulator covers, and what proves it: the table in docs/emulator.md is made here, from rows and texts.

A row counts as proved where a program that an H200 has run uses it, or PTX of another compiler that is compared with
float64. `pytest --bless` rewrites the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from hardware.recorded import PROGRAMS

from tkc.emulator.reader import read
from tkc.emulator.semantics import all_semantics
from tkc.emulator.spelling import spell
from tkc.ir.isa.instructions import FAMILIES, all_rows, family

DOCS = Path(__file__).parents[2] / "docs" / "emulator.md"
FOREIGN = Path(__file__).parent / "foreign" / "ptx"
BEGIN, END = "<!-- coverage -->\n", "<!-- end of coverage -->"


@cache
def _rows_of_line(mnemonic: str, operands: tuple) -> str:
    try:
        return spell(mnemonic, operands).row.name
    except ValueError:
        return ""


def _used(path: Path) -> Iterator[str]:
    """The rows that a text uses."""
    for function in read(path.read_text(encoding="utf-8"), path.name).functions.values():
        for statement in function.statements:
            yield _rows_of_line(statement.mnemonic, statement.operands)


@cache
def proofs() -> Mapping[str, str]:
    """Row name to "H200" or "other compilers"."""
    found: dict[str, str] = {}
    for path in sorted(FOREIGN.rglob("*.ptx")):
        found |= dict.fromkeys(_used(path), "other compilers")
    for path in sorted(PROGRAMS.glob("*.ptx")):
        found |= dict.fromkeys(_used(path), "H200")
    return found


def table() -> str:
    """The section of the docs."""
    semantics, proved = all_semantics(), proofs()
    lines: list[str] = []
    totals = dict.fromkeys(("H200", "other compilers", "unproved", "refused"), 0)
    for name in FAMILIES:
        groups: dict[str, list[str]] = {key: [] for key in totals}
        for row in family(name).values():
            if row.form_of:
                continue
            key = proved.get(row.name, "unproved") if row.name in semantics else "refused"
            groups[key].append(row.name)
            totals[key] += 1
        lines += [f"**{name}**", ""]
        for key, rows in groups.items():
            if rows:
                lines.append(f"* {key}: {', '.join(f'`{r}`' for r in rows)}")
        lines.append("")
    head = (
        f"Of {sum(totals.values())} instructions, counted as rows of `tkc facts`, an H200 proves {totals['H200']} (what"
        f" it gave is kept in `tests/hardware`), PTX of other compilers {totals['other compilers']} more,"
        f" {totals['unproved']} are covered and unproved, and {totals['refused']} are refused.\n\n"
    )
    return head + "\n".join(lines).rstrip() + "\n"


def test_the_docs_say_what_is_covered(request: pytest.FixtureRequest) -> None:
    text = DOCS.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    assert after, f"{DOCS.name} has no table of coverage"
    new = table()
    if old != new and request.config.getoption("--bless"):
        DOCS.write_text(before + BEGIN + new + END + after, encoding="utf-8")
        return
    assert old == new, "to accept: pytest tests/emulator/test_coverage.py --bless"


def test_every_semantic_has_a_row() -> None:
    assert not set(all_semantics()) - set(all_rows())
