"""Loops of every shape round one ring, right and with each slip: what the oracle finds, the analysis finds."""

from __future__ import annotations

import pytest
from oracles.differential import compare
from oracles.roles import parse

FILL = ("wait ae[i] lag one", "expect af[i] 1", "tma a[i] af[i]", "step i")
DRAIN = ("wait af[i] all", "ld a[i]", "fence", "warp_sync", "arrive ae[i] one", "step i")

SLIPS: dict[str, tuple[str, str]] = {
    "right": ("", ""),
    "the reader does not wait": ("wait af[i] all", ""),
    "the writer does not wait": ("wait ae[i] lag one", ""),
    "the writer waits for the round to come": ("wait ae[i] lag one", "wait ae[i] one"),
    "the reader waits for the round before": ("wait af[i] all", "wait af[i] all lag"),
    "nothing is released": ("arrive ae[i] one", ""),
    "one lane releases for all": ("warp_sync", ""),
    "no fence behind the reads": ("fence", ""),
    "the reader goes on twice": ("arrive ae[i] one", "arrive ae[i] one\nstep i"),
}
"""What stands in the place of what."""


def nest(heads: tuple[str, ...], body: tuple[str, ...], after: tuple[str, ...] = ()) -> list[str]:
    """Loops round a body; what stands behind the innermost one, in the loop round it."""
    lines = [f"{'  ' * n}{head}" for n, head in enumerate(heads)]
    lines += ["  " * len(heads) + line for line in body]
    return lines + ["  " * (len(heads) - 1) + line for line in after]


def both(*parts: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """The two roles with the same loops, one after another."""
    fill = [line for heads, after in parts for line in nest(heads, FILL, after)]
    return fill, [line for heads, after in parts for line in nest(heads, DRAIN, after)]


def apart(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    return nest(mine, FILL), nest(theirs, DRAIN)


SHAPES: dict[str, tuple[list[str], list[str]]] = {
    "no turn": both((("for 0",), ())),
    "one turn": both((("for 1",), ())),
    "two turns": both((("for 2",), ())),
    "three turns": both((("for 3",), ())),
    "seven turns": both((("for 7",), ())),
    "any number of turns": both((("for K",), ())),
    "a loop in a loop": both((("for T", "for K"), ())),
    "two turns in any number": both((("for T", "for 2"), ())),
    "any number in two turns": both((("for 2", "for K"), ())),
    "three loops deep": both((("for 2", "for T", "for K"), ())),
    "turns that change from tile to tile": both((("for T", "for t%3+1"), ("step t",))),
    "turns that change, or none": both((("for T", "for t%3+0"), ("step t",))),
    "one loop after another": both((("for K",), ()), (("for 2",), ())),
    "a tail of one item": (
        [*nest(("for K",), FILL), *FILL],
        [*nest(("for K",), DRAIN), *DRAIN],
    ),
    "a first item by itself": (
        [*FILL, *nest(("for K",), FILL)],
        [*DRAIN, *nest(("for K",), DRAIN)],
    ),
    "a tail in every tile": (
        nest(("for T", "for 2"), FILL, FILL),
        nest(("for T", "for 2"), DRAIN, DRAIN),
    ),
    "two items a turn": (nest(("for K",), FILL + FILL), nest(("for K",), DRAIN + DRAIN)),
    "two items against one": (nest(("for 4",), FILL + FILL), nest(("for 8",), DRAIN)),
    "flat against nested": apart(("for 6",), ("for 2", "for 3")),
    "nested against nested otherwise": apart(("for 3", "for 2"), ("for 2", "for 3")),
    "one turn more": apart(("for 5",), ("for 4",)),
    "items of every second turn": (
        nest(("for K", "if c 2 0"), FILL, ("step c",)),
        nest(("for K", "if c 2 0"), DRAIN, ("step c",)),
    ),
    "items of every ninth turn": (
        nest(("for K", "if c 9 1"), FILL, ("step c",)),
        nest(("for K", "if c 9 1"), DRAIN, ("step c",)),
    ),
    "other turns in each role": (
        nest(("for K", "if c 2 0"), FILL, ("step c",)),
        nest(("for K", "if c 2 1"), DRAIN, ("step c",)),
    ),
    "items of some turns, in a loop": (
        nest(("for T", "for K", "if c 3 1"), FILL, ("step c",)),
        nest(("for T", "for K", "if c 3 1"), DRAIN, ("step c",)),
    ),
    "nested rings": (
        nest(("for T",), (), ("  wait be[t] lag one", "  expect bf[t] 1", "  tma b[t] bf[t]", "  step t", "  for K", *(f"    {x}" for x in FILL))),
        nest(("for T",), (), ("  wait bf[t] all", "  for K", *(f"    {x}" for x in DRAIN), "  ld b[t]", "  fence", "  warp_sync", "  arrive be[t] one", "  step t")),
    ),
}  # fmt: skip

CAREFUL = {
    "a tail in every tile", "two items against one", "one turn more", "other turns in each role",
}  # fmt: skip
"""Where the analysis says that it cannot follow what is right, or warns that nothing says that roles turn equally often."""
FEW = {"no turn", "one turn", "two turns", "items of every ninth turn"}
"""Where a slip does no harm, for there are no more turns than slots."""


def program(shape: str, depth: int, slip: str) -> str:
    fill, drain = SHAPES[shape]
    old, new = SLIPS[slip]

    def said(lines: list[str]) -> list[str]:
        found: list[str] = []
        for line in lines:
            indent = line[: len(line) - len(line.lstrip())]
            words = new.split("\n") if old and line.strip() == old else [line.strip()]
            found += [f"  {indent}{word}" for word in words if word]
        return found

    rings = [f"buffer a shared {depth}", f"barrier af {depth} 1", f"barrier ae {depth} 1"]
    if shape == "nested rings":
        rings += ["buffer b shared 2", "barrier bf 2 1", "barrier be 2 1"]
    return "\n".join([*rings, "role load 1", *said(fill), "role use 1", *said(drain)])


@pytest.mark.parametrize("shape", SHAPES)
def test_loops_of_every_shape(shape: str) -> None:
    careful: set[str] = set()
    for slip in SLIPS:
        for depth in (1, 2, 3) if slip == "right" else (2,):
            text = program(shape, depth, slip)
            difference = compare(parse(text), "sm_100a", "practice", brief=True)
            if difference is not None and difference.kind == "false":
                difference = compare(parse(text), "sm_100a", "practice")
            kind = difference.kind if difference is not None else "agree"
            assert kind != "unsound", f"{slip}, depth {depth}: {difference}\n{text}"
            if kind == "false":
                careful.add(f"{slip}, depth {depth}")
    if shape in FEW:
        careful = {name for name in careful if name.startswith("right")}
    if shape == "two items a turn":  # of one slot: what tells the two is only in the waits
        careful -= {"right, depth 1"}
    assert not careful or shape in CAREFUL, careful
    assert bool(careful) is (shape in CAREFUL), "it is followed now"
