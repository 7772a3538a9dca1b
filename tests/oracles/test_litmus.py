"""Oracle A against published litmus tests: NVIDIA's mixed-proxy tests and all of Dartagnan's PTX safety tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles import litmus, ptx_model
from oracles.relations import union

ROWS = list(litmus.rows((Path(__file__).parent / "litmus.tsv").read_text(encoding="utf-8")))

DISAGREEMENTS = {
    "Release_acquire_pattern": "PTX 8.8: a release operation followed by a strong write of the same location is a "
    "release pattern, and a strong read followed by an acquire fence an acquire pattern, so the two synchronise. The "
    "published Alloy model asks that a fence have a proxy, which fences do not, so fences there never synchronise.",
}
"""Rows whose published verdict is not PTX's, and why."""


@pytest.mark.parametrize(
    ("test", "expected"), [(t, e) for t, e, _ in ROWS], ids=[t.name for t, _, _ in ROWS]
)
def test_published(test: litmus.Test, expected: bool) -> None:
    assert ptx_model.holds(test) == (expected != (test.name in DISAGREEMENTS))


def test_sizes() -> None:
    sources = [s for _, _, s in ROWS]
    assert (sources.count("mixedproxy"), sources.count("dat3m")) == (128, 264)


@pytest.mark.parametrize(
    ("forget", "least"),
    [("preserved", 40), ("observe", 20), ("fence_orders", 5), ("barrier_edges", 5)],
)
def test_a_model_that_forgets_a_part_is_told_apart(
    forget: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests can fail: without proxies, observation through atomics, fence order or barriers verdicts change."""
    none = {
        "preserved": lambda self, x, reach, same: reach[x],
        "observe": lambda self, step: [0] * self.n,
        "fence_orders": lambda self: iter([[0] * self.n]),
        "barrier_edges": lambda self: iter([[0] * self.n]),
    }[forget]
    owner = (
        ptx_model.Candidate if forget in ("fence_orders", "barrier_edges") else ptx_model.Ordered
    )
    monkeypatch.setattr(owner, forget, none)
    slow = {"Ticketlock"}
    wrong = [
        t.name for t, e, _ in ROWS
        if t.name.split("-")[0] not in slow and t.name not in DISAGREEMENTS and ptx_model.holds(t) != e
    ]  # fmt: skip
    assert len(wrong) >= least, wrong


ASYNCHRONOUS = [
    # A second copy into a slot whose first value was read: A5 orders the copies. The read between them orders nothing
    # in the letter of 8.10, although it takes the first value and is before the second copy: nothing says that the
    # copies are related in coherence order, and so a later read may see either.
    ("copies", "x=0@0 e=0@0! f=0@0! g=0@0!",
     "0.0: tma.st x 1 f; ld.acquire.cta w e; need w == 1; tma.st x 2 g; ld.acquire.cta w g; need w == 1; ld.weak r x"
     "|0.0: ld.acquire.cta w f; need w == 1; mma.ld r x; commit e",
     "always 0:r == 2", "rrro"),
    ("copies.first", "x=0@0 e=0@0! f=0@0! g=0@0!",
     "0.0: tma.st x 1 f; ld.acquire.cta w e; need w == 1; tma.st x 2 g"
     "|0.0: ld.acquire.cta w f; need w == 1; mma.ld r x; commit e",
     "always 1:r == 1", "oooo"),
    # A commit releases no generic write of its thread (S2).
    ("commit", "x=0@0 e=0@0!",
     "0.0: st.weak x 1; commit e|0.0: ld.acquire.cta w e; need w == 1; ld.weak r x",
     "always 1:r == 1", "rrrr"),
    # Nor does a copy's completion hand on what its thread wrote before (8.9.1.1).
    ("copy", "x=0@0 y=0@0 f=0@0!",
     "0.0: st.weak y 1; tma.st x 1 f|0.0: ld.acquire.cta w f; need w == 1; ld.weak r y",
     "always 1:r == 1", "rrrr"),
    # The implicit fence bridges the copy's own accesses only (S4).
    ("launder", "x=0@0 y=0@0 b=0@0! f=0@0!",
     "0.0: st.weak x 1; atom.add.release.cta _ b 1"
     "|0.0: ld.acquire.cta w b; need w == 1; tma.st y 1 f; ld.acquire.cta w f; need w == 1; mma.ld r x",
     "always 1:r == 1", "rrrr"),
]  # fmt: skip


@pytest.mark.parametrize("row", ASYNCHRONOUS, ids=[r[0] for r in ASYNCHRONOUS])
def test_asynchronous(row: tuple[str, ...]) -> None:
    name, memory, threads, question, verdicts = row
    test = litmus.read_test(name, memory, threads, question)
    assumed = (
        ptx_model.STRICT, ptx_model.HOME, ptx_model.HOME | {"A6", "A7"}, ptx_model.PRACTICE,
    )  # fmt: skip
    assert "".join("ro"[ptx_model.holds(test, a)] for a in assumed) == verdicts


def test_relations() -> None:
    assert union([1, 2], [4, 0]) == [5, 2]
