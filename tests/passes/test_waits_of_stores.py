"""Waits for what stores have written, which order those that come to one place of a tensor in later turns."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tkc

ROWS = """\
kernel t(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 32))
    shared v: vector[f32, 32] * 2
    barrier full * 2, count = 1
    role all, warps 1:
        i = 0
        phase = 0
        c = 0
        for m, n in work:
            elect:
                wait stores
                expect full[i], bytes(v)
                load v[i] <- X[m, n], full[i]
            wait full[i], phase
            elect:
                store Y[{row}, n] <- v[i]
                commit stores
            c += 1
            i = i ^ 1
            if i == 0:
                phase = phase ^ 1
        elect:
            wait stores
"""
SHARED_BY_TURNS = (
    "m // 2",
    "m % 2",
    "m - m % 2",
    "0",
    "c % 3",
    "m if m < 2 else 2",
    "m & 1",
    "unit",
)

TWICE = """\
kernel t(X: global[f32, M, N], Y: global[f32, M, N], F: const global[i32, Q]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared v: tile[f32, 128, 32]
    shared w: tile[f32, 128, 32] * 2
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            elect:
                expect full, bytes(v)
                load v <- X[m, n], full
            wait full, phase
            sync role
            w[0] <- read(v) * 2
            w[1] <- read(v) * 3
            fence proxy shared
            sync role
            elect:
                if {first}:
                    store Y[m, n] <- w[0]
                    commit stores
                    wait stores
                if {second}:
                    store Y[m, n] += w[1]
                    commit stores
                wait stores
            sync role
            phase = phase ^ 1
"""
"""Two stores to one place, each under a condition."""

CONDITIONS = {
    "data": ("read(F[0]) == 0", "read(F[1]) == 0"),
    "items": ("m.index % 2 == 0", "n.index % 2 == 0"),
    "counts": ("m.index < 100", "m.index > 1"),
}


READS = ".read"


def awaited(text: str, model: str = "practice") -> list[str]:
    """The waits for stores that are left: READS where they await no more than that."""
    return re.findall(
        r"bulk\.wait_group(\.read|) 0", tkc.compile(text, target="sm_90a", model=model).ptx
    )


@pytest.mark.parametrize("row", SHARED_BY_TURNS)
def test_a_row_that_turns_share_is_written_before_it_is_written_again(row: str) -> None:
    assert awaited(ROWS.format(row=row)) == ["", READS]  # behind the last one nothing comes


def test_rows_of_their_own_are_read_before_they_are_loaded_again() -> None:
    assert awaited(ROWS.format(row="m")) == [READS, READS]


@pytest.mark.parametrize("model", ["practice", "strict"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_store_under_a_condition_is_awaited_before_another(name: str, model: str) -> None:
    first, second = CONDITIONS[name]
    between, at_end = awaited(TWICE.format(first=first, second=second), model)
    assert between == ""
    assert at_end == ("" if model == "strict" else READS)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (ROWS.format(row="m // 2"), (8, 64)),
        (TWICE.format(first="m.index % 2 == 0", second="n.index >= 0"), (130, 40)),
    ],
    ids=["rows", "twice"],
)
def test_what_is_left_is_enough(text: str, shape: tuple[int, int]) -> None:
    kernel = tkc.compile(text, target="sm_90a")
    x = np.random.default_rng().uniform(-1, 1, shape).astype(np.float32)
    more = [np.zeros(2, np.int32)] * ("F:" in text)
    for schedule in ("lazy", "random"):
        report = kernel.emulate(x, np.zeros_like(x), *more, sm_count=1, schedule=schedule)
        assert not report.findings
