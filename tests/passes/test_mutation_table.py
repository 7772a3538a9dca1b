"""The page of mutants says what the two judges say; a kernel of it is asked again, and what both have to agree on holds."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"\| `([^`]+)` \| `([^`]+)` \| ([^|]+) \| ([^|]+) \|")


def page() -> dict[str, list[tuple[str, ...]]]:
    """The rows of each kernel."""
    found: dict[str, list[tuple[str, ...]]] = {}
    name = ""
    for line in (ROOT / "docs" / "mutations.md").read_text().splitlines():
        if head := re.match(r"## `(\w+)`", line):
            name = head[1]
        elif row := LINE.fullmatch(line):
            found.setdefault(name, []).append(row.groups())
    return found


def test_a_part_of_the_page_is_what_the_judges_say() -> None:
    path = ROOT / "bench" / "mutation_table.py"
    spec = importlib.util.spec_from_file_location("mutation_table", path)
    assert spec is not None
    assert spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    asked = [tuple(row) for row in table.rows("silu_mul", "math.")]
    said = [row for row in page()["silu_mul"] if row[0].startswith("math.")]
    assert asked == said
    assert set(page()) == set(table.KERNELS)


def test_no_mutant_is_found_by_the_emulator_alone() -> None:
    """What a schedule finds, the analysis has to find for all."""
    rows = [(name, *row) for name, found in page().items() for row in found]
    assert len(rows) > 50
    assert [row for row in rows if row[-2] == "-" and row[-1] != "-"] == []


def test_every_fence_that_is_left_is_needed() -> None:
    fences = [row for found in page().values() for row in found if "fence" in row[1]]
    assert fences
    assert all(row[2] != "-" for row in fences), fences
