"""Copies at once: any set of them, carried out in the order that is given, has the effect of all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tkc.analysis.parallel_copy import Copy, Step, in_order


def carry_out(copies: list[Copy], state: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Does the steps one after another; an inexact copy takes the first half of its source, twice."""
    state, saved = dict(state), dict[int, tuple[str, ...]]()

    def read(index: int) -> tuple[str, ...]:
        copy = copies[index]
        if copy.source is None:
            return ("constant", str(index))
        whole = state[str(copy.source)]
        return whole if copy.exact else (whole[0], whole[0])

    for step in in_order(copies):
        if step.saves:
            saved[step.index] = read(step.index)
        else:
            state[str(copies[step.index].target)] = saved.get(step.index) or read(step.index)
    return state


def at_once(copies: list[Copy], state: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    made = dict(state)
    for index, copy in enumerate(copies):
        whole = ("constant", str(index)) if copy.source is None else state[str(copy.source)]
        made[str(copy.target)] = (
            whole if copy.exact or copy.source is None else (whole[0], whole[0])
        )
    return made


NAMES = "abcde"


@st.composite
def copy_sets(draw) -> list[Copy]:
    targets = draw(st.lists(st.sampled_from(NAMES), unique=True))
    sources = st.one_of(st.none(), st.sampled_from(NAMES))
    return [Copy(t, draw(sources), draw(st.booleans())) for t in targets]


@given(copy_sets())
def test_the_order_has_the_effect_of_all_at_once(copies: list[Copy]) -> None:
    state = {n: (f"{n}0", f"{n}1") for n in NAMES}
    assert carry_out(copies, state) == at_once(copies, state)


@given(copy_sets())
def test_only_rings_take_a_temporary(copies: list[Copy]) -> None:
    """A copy is saved only where its target is read by another in the end, round a ring; each copy is made once."""
    steps = list(in_order(copies))
    made = [s.index for s in steps if not s.saves]
    assert len(made) == len(set(made))
    reads = {str(c.target): str(c.source) for c in copies if c.source is not None}

    def in_ring(start: str) -> bool:
        at, seen = reads.get(start), set[str]()
        while at is not None and at not in seen:
            if at == start:
                return True
            seen.add(at)
            at = reads.get(at)
        return False

    saves = [s for s in steps if s.saves]
    assert all(in_ring(str(copies[s.index].target)) for s in saves)


def test_a_chain_runs_from_its_end() -> None:
    assert list(in_order([Copy("a", "b"), Copy("b", "c")])) == [Step(0), Step(1)]
    assert list(in_order([Copy("b", "c"), Copy("a", "b")])) == [Step(1), Step(0)]


def test_a_copy_to_itself_is_none_unless_it_takes_a_part() -> None:
    assert list(in_order([Copy("a", "a")])) == []
    assert list(in_order([Copy("a", "a", exact=False)])) == [Step(0, saves=True), Step(0)]


def test_a_swap_saves_one() -> None:
    steps = list(in_order([Copy("a", "b"), Copy("b", "a")]))
    assert steps == [Step(0, saves=True), Step(1), Step(0)]
