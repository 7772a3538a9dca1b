"""Grouped GEMMs of separate arrays whose rows the device counts: every group, to the row, against float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.analysis.order import diagnose
from tkc.driver import to_module
from tkc.emulator import Poisoned
from tkc.emulator.machine import SCHEDULES
from tkc.job import Job

EXAMPLE = Path(__file__).parents[2] / "examples" / "gemm_grouped_list.tk"
BF16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng()
BOUND = 3e-3


@dataclass(frozen=True)
class Form:
    """A form of the example: what is said otherwise, and for whom."""

    changes: tuple[tuple[str, str], ...] = ()
    targets: tuple[str, ...] = ("sm_90a", "sm_100a")
    rows: int = 128
    """Of a block."""

    def text(self) -> str:
        text = EXAMPLE.read_text(encoding="utf-8")
        for old, new in (("BN = 256", "BN = 64"), ("STAGES = 4", "STAGES = 2"), *self.changes):
            assert old in text, old
            text = text.replace(old, new)
        return text


ALONE = "launch persistent"
FORMS = {
    "plain": Form(),
    "one map": Form((("edited * 2", "edited * 1"),)),
    "all edited": Form((("maps A, C: edited * 2", "maps A, B, C: edited * 3"),)),
    "serpentine": Form((("group = 8", "group = 2, order = serpentine"),), ("sm_100a",)),
    "dependent": Form(((ALONE, f"{ALONE}, dependent"),)),
    "pair": Form(((ALONE, f"{ALONE}, pair"), ("BM = 128", "BM = 256")), ("sm_100a",), 256),
    "multicast B": Form(
        (
            (ALONE, f"{ALONE}, cluster(2)"),
            ("group = 8", "group = 8, across = m"),
            ("B[g][n, k]", "B[g][n, k], multicast"),
        )
    ),
    "multicast A": Form(
        (
            (ALONE, f"{ALONE}, cluster(2)"),
            ("group = 8", "group = 8, across = n"),
            ("A[g][m, k]", "A[g][m, k], multicast"),
        )
    ),
    "pairs": Form(
        (
            (ALONE, f"{ALONE}, pair, cluster(4)"),
            ("BM = 128", "BM = 256"),
            ("group = 8", "group = 8, across = m"),
            ("B[g][n, k]", "B[g][n, k], multicast"),
        ),
        ("sm_100a",),
        256,
    ),
}
EACH = [(name, target) for name, form in FORMS.items() for target in form.targets]


@cache
def made(name: str, target: str, stages: int = 2) -> tkc.Kernel:
    text = FORMS[name].text()
    return tkc.compile(text, target=target, params={"STAGES": stages})


def tensor(rows: int, columns: int, poisoned: bool) -> Array:
    """Random rows some bytes apart, with NaN between."""
    pitch = -(-max(columns, 1) // 8) * 8 + 8 * int(RNG.integers(3))
    whole = np.full((rows, pitch), np.nan, BF16)
    if not poisoned:
        whole[:, :columns] = RNG.uniform(-1, 1, (rows, columns)).astype(BF16)
    return whole[:, :columns]


def launched(kernel: tkc.Kernel, rows: list[int], n: int, k: int, room: int = 0) -> None:
    """One launch; arrays have `room` rows more than count, which hold NaN and stay as they are."""
    a, b, c = (
        [tensor(r + room, k, False) for r in rows],
        [tensor(n, k, False) for _ in rows],
        [tensor(r + room, n, True) for r in rows],
    )
    for x, r in zip(a, rows, strict=True):
        x[r:] = np.nan
    schedule, seed = str(RNG.choice(SCHEDULES)), int(RNG.integers(1 << 30))
    report = kernel.emulate(
        np.array(rows, np.int32),
        a,
        b,
        [Poisoned(x) for x in c],
        sm_count=int(RNG.choice([4, 8])),
        schedule=schedule,
        seed=seed,
    )
    found = "\n".join(map(str, report.findings))
    said = f"{rows}, {n}, {k}: {schedule}, seed {seed}"
    assert not report.findings, f"{said}\n{found}"
    for i, r in enumerate(rows):
        exact = a[i][:r].astype(np.float64) @ b[i].astype(np.float64).T
        error, norm = c[i][:r].astype(np.float64) - exact, np.linalg.norm(exact)
        rounding = np.linalg.norm(exact.astype(np.float32).astype(BF16).astype(np.float64) - exact)
        assert np.linalg.norm(error) <= max(BOUND * norm, 1.001 * rounding), f"{said}: group {i}"
        assert np.isnan(c[i][r:].astype(np.float32)).all(), f"{said}: beyond group {i}"


def some_rows(block: int) -> list[int]:
    """Groups of no rows, of a few, of a block, of a bit more."""
    chosen = RNG.choice([0, 1, 7, block // 2 + 3, block, block + 2], int(RNG.integers(1, 6)))
    return [int(r) for r in chosen]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_groups_of_all_sizes(target: str) -> None:
    launched(made("plain", target), [0, 130, 7, 0, 1, 128], 72, 72, room=3)


@pytest.mark.parametrize("rows", [[0, 0], [0, 140, 1]])
def test_without_rows_and_without_k(rows: list[int]) -> None:
    launched(made("plain", "sm_100a"), rows, 64, 0)


def test_one_array_whose_first_axis_numbers_the_groups() -> None:
    rows, n, k = [3, 0, 40], 64, 24
    a, b = (RNG.uniform(-1, 1, (3, s, k)).astype(BF16) for s in (40, n))
    c = np.full((3, 40, n), np.nan, BF16)
    report = made("plain", "sm_100a").emulate(np.array(rows, np.int32), a, b, c, sm_count=2)
    assert not report.findings
    for i, r in enumerate(rows):
        exact = a[i, :r].astype(np.float64) @ b[i].astype(np.float64).T
        assert np.linalg.norm(c[i, :r].astype(np.float64) - exact) <= BOUND * np.linalg.norm(exact)
        assert np.isnan(c[i, r:].astype(np.float32)).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("pair", "sm_100a"),
        ("multicast A", "sm_90a"),
        ("one map", "sm_100a"),
        ("dependent", "sm_90a"),
    ],
)
def test_a_form(name: str, target: str) -> None:
    launched(made(name, target), [FORMS[name].rows + 2, 0, 9], 72, 40)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "target"), EACH)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_every_form_at_every_depth(name: str, target: str, stages: int) -> None:
    kernel = made(name, target, stages)
    for _ in range(4):
        n, k = int(RNG.choice([8, 64, 136])), int(RNG.choice([0, 8, 72, 264]))
        launched(kernel, some_rows(FORMS[name].rows), n, k, room=int(RNG.integers(3)))


@pytest.mark.parametrize(("name", "target"), EACH)
def test_every_form_is_in_order(name: str, target: str) -> None:
    module = to_module(Job(FORMS[name].text(), "k.tk", target), after="insert-fences")
    assert [d.message for d, _ in diagnose(module)] == []


def test_no_map_is_edited_before_the_grids_ahead_have_ended() -> None:
    """Grids of one kernel share its maps: a role that edits one waits first, and the emulator sees where it does not."""
    kernel = made("dependent", "sm_100a")
    before, _, after = kernel.ptx.partition("tensormap.replace")
    assert "griddepcontrol.wait" in before
    first = after.index("fence.proxy.tensormap::generic.release")
    assert "griddepcontrol.wait" not in after[:first]
    arrays = [[tensor(r, k, False) for r in (130, 3)] for k in (40, 40, 64)]
    arrays[1] = [tensor(64, 40, False) for _ in range(2)]
    rows = np.array([130, 3], np.int32)
    how: Any = kernel.emulation(rows, *arrays, sm_count=2)
    rash = kernel.ptx.replace("griddepcontrol.wait;", "")
    assert not tkc.emulate(kernel.ptx, **how).findings
    found = tkc.emulate(rash, **how).findings
    assert {f.code for f in found} == {"TK318"}
    assert any("tensormap" in str(f) for f in found)


@pytest.mark.parametrize("word", ["wait", "arrive"])
def test_words_for_other_grids_beside_edited_maps_are_refused(word: str) -> None:
    loop = "            for k in blocks(K, BK):\n                put"
    text = FORMS["dependent"].text().replace(loop, f"            {word} pdl\n{loop}")
    with pytest.raises(tkc.TkcError, match="`arrive pdl` beside edited tensor maps"):
        tkc.compile(text, target="sm_100a")


def test_loads_for_a_cluster_of_pairs_through_edited_maps_are_refused() -> None:
    text = FORMS["pairs"].text().replace("across = m", "across = n")
    text = text.replace("B[g][n, k], multicast", "B[g][n, k]")
    text = text.replace("A[g][m, k]", "A[g][m, k], multicast")
    with pytest.raises(tkc.TkcError, match="a load for a whole cluster of pairs through a map"):
        tkc.compile(text, target="sm_100a")
