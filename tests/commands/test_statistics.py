"""Roles of warps from the lines that they run, and the tables of a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.commands import statistics
from tkc.diagnostics import Location
from tkc.emulator.watch import Waits, WarpCounts

PROGRAM = """\
kernel k(X: global[bf16, M, N]):
    schedule work: m, n in tiles(blocks(M, 1), blocks(N, 1))

    role load:  # loads
        for m, n in work:

            x <- X[m, n]
# a comment between
        y = 1
    shared x: tile[bf16, 1, 1]
    role math[i in 2], warps 4:
        get x: pass
"""


def test_the_role_of_each_line() -> None:
    roles = statistics.roles_of_lines(PROGRAM)
    assert {line: role for line, role in roles.items() if role == "load"}.keys() == {
        4,
        5,
        6,
        7,
        8,
        9,
    }
    assert {line for line, role in roles.items() if role == "math"} == {11, 12, 13}


def test_the_roles_of_the_examples() -> None:
    text = (Path(__file__).parents[2] / "examples" / "gemm_bf16.tk").read_text()
    assert list(dict.fromkeys(statistics.roles_of_lines(text).values())) == [
        "load",
        "math",
        "store",
    ]


def warp(index: int, **lines: int) -> WarpCounts:
    """Instructions by line, as l5=3."""
    places: dict[Location | None, int] = {
        Location("k.tk", int(name[1:]), 9): count for name, count in lines.items()
    }
    places[None] = 4
    return WarpCounts(index, sum(places.values()), places, Waits(2, 1, 10))


def test_a_warp_has_the_roles_whose_lines_it_runs() -> None:
    warps = [
        warp(0, l5=50, l12=1),
        warp(1, l5=1, l12=50),
        warp(2, l5=40, l12=31),
        warp(3, l5=1, l12=1),
    ]
    roles = statistics.roles_of_warps(warps, {"k.tk": PROGRAM})
    # Every warp runs one instruction of lines 5 and 12: they say nothing.
    assert roles == {0: "load", 1: "math", 2: "load + math"}
    rows = statistics.rows(warps, roles)
    assert [(r.role, r.warps) for r in rows] == [
        ("load", (0,)),
        ("math", (1,)),
        ("load + math", (2,)),
        ("", (3,)),
    ]


def test_warps_that_run_the_same_have_its_role() -> None:
    warps = [warp(0, l12=9), warp(1, l12=9)]
    roles = statistics.roles_of_warps(warps, {"k.tk": PROGRAM})
    (row,) = statistics.rows(warps, roles)
    assert (row.role, row.warps, row.instructions, row.waits) == ("math", (0, 1), 26, 4)
    assert row.to_json() == {
        "role": "math",
        "warps": [0, 1],
        "instructions": 26,
        "waits": 4,
        "waits_blocked": 2,
        "wait_steps": 20,
    }


def test_without_roles_each_warp_has_a_row() -> None:
    warps = [warp(0, l5=1), warp(1, l5=1)]
    assert statistics.roles_of_warps(warps, {"k.py": PROGRAM}) == {}
    assert [r.warps for r in statistics.rows(warps, {})] == [(0,), (1,)]
    assert statistics.roles_of_warps([], {"k.tk": PROGRAM}) == {}


def test_tables_leave_out_what_did_not_happen(capsys: pytest.CaptureFixture[str]) -> None:
    stats = {"instructions.arith": 3000, "instructions.logic": 1000, "fences.fence": 2}
    statistics.print_statistics(stats, ())
    out = capsys.readouterr().out
    assert "│ arith │    3,000 │ 75.0% │" in out
    assert "│ fence │        2 │" in out
    assert "waits" not in out
    assert "roles" not in out
    rows = [statistics.Row("math", (0, 1, 2, 5), 7, 3, 2, 1)]
    statistics.print_statistics({"waits.bar.sync": 3, "wait_steps.bar.sync": 1234}, rows)
    out = capsys.readouterr().out
    assert "│ math │ 0-2, 5 │            7 │     3 │           2 │               1 │" in out
    assert "│ bar.sync    │        3 │           0 │           1,234 │" in out
