"""Whose proxy fences count for what one CTA's copies do in another's memory, and in which space: strictly those of the CTA
that issues the copy, in a space that reaches the other's memory (no A1). A fence of the CTA that reads is none of these."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from oracles.async_model import judge
from oracles.generate import trips
from oracles.roles import Program, parse
from oracles.test_eliminate import eliminate

RING = """
buffer d tensor 1 @*
buffer a shared 1 @*
buffer b shared 1 @*
barrier f 1 1 @*
barrier c 1 1 @*
role load 1 @*
  for K
    expect f[i] 1
    cluster_sync
    {copy}
    cluster_sync
    step i
role use 1 @*
  for K
    cluster_sync
    wait f[i] {by} cluster
    {read}
    cluster_sync
    step i
"""
"""The bytes are announced at the scope of the CTA, which strictly is not known to come before another CTA's copy: that
it does is seen by the barrier of the cluster alone."""

FOR_BOTH = "if rank 2 1\n      {0}\n      tma b[i] f[i] both"
INTO_THE_PEER = "{0}\n    copy b[i] a[i] f[i] peer"
ITS_OWN = "{0}\n    tma b[i] f[i]"

LOADED = "ld b[i]\n    fence"
STORED = "fence one\n    store b[i]\n    bulk_commit\n    bulk_wait 0"
MULTIPLIED = "fence one\n    mma d[0] b[i]\n    commit c[i]\n    wait c[i] one\n    fence one"

CHEAPEST = [
    (LOADED, ("", "shared::cta")),
    (LOADED.replace("fence", "fence any"), ("", "shared::cta")),
    (STORED, ("", "")),
    (MULTIPLIED, ("", "", "")),
]
"""What is left of the fences, that ahead of the copy first, where the CTA that reads is the one that counts."""


class Outcome(NamedTuple):
    """What became of the fences, in the order of the text: `""` gone, else the space that they have."""

    spaces: tuple[str, ...]
    strict: bool
    """Whether the program is in order strictly, before and after."""


def fences(program: Program) -> dict[int, str]:
    return {op.site: op.space for _, op in program.ops() if op.name == "fence"}


def outcome(text: str, model: str, **options: bool) -> Outcome:
    """What the pass makes of a program, which is in order by practice before and after."""
    program, before = parse(text), fences(parse(text))
    done = eliminate(program, "sm_100a", model, **options)
    assert not done.failed
    after, counts = done.after(program), trips(program, False)
    assert not judge(program, "practice", counts)
    assert not judge(after, "practice", counts)
    left = fences(after)
    was, now = (not judge(p, "strict", counts) for p in (program, after))
    assert was or not now, "what goes puts nothing in order"
    return Outcome(tuple(left.get(site, "") for site in before), was and now)


def ring(copy: str, ahead: str, read: str) -> str:
    by = "all" if read.startswith("ld") else "one"
    return RING.format(copy=copy.format(ahead), read=read, by=by)


@pytest.mark.parametrize("options", [{}, {"move": True, "newest": True}])
@pytest.mark.parametrize("copy", [FOR_BOTH, INTO_THE_PEER])
@pytest.mark.parametrize("read", [LOADED, STORED, MULTIPLIED])
def test_strictly_fences_of_both_ctas_stay(copy: str, read: str, options: dict[str, bool]) -> None:
    for ahead in ("fence any", "fence shared::cluster"):
        text = ring(copy, ahead, read)
        found = outcome(text, "strict", **options)
        assert found == Outcome(tuple(fences(parse(text)).values()), strict=True)


@pytest.mark.parametrize(("read", "spaces"), CHEAPEST)
@pytest.mark.parametrize("copy", [FOR_BOTH, INTO_THE_PEER])
def test_by_practice_those_of_the_memory_s_cta_are_enough(
    copy: str, read: str, spaces: tuple[str, ...]
) -> None:
    assert outcome(ring(copy, "fence any", read), "practice") == Outcome(spaces, strict=False)


@pytest.mark.parametrize(("read", "spaces"), CHEAPEST)
@pytest.mark.parametrize("model", ["strict", "practice"])
def test_of_copies_into_the_own_cta_those_are_enough_strictly_too(
    model: str, read: str, spaces: tuple[str, ...]
) -> None:
    assert outcome(ring(ITS_OWN, "fence any", read), model) == Outcome(spaces, strict=True)


def test_strictly_the_reading_cta_s_fence_gets_the_space_of_its_own_memory() -> None:
    """By the other reading (A1) it is the one that counts, so that it does not become one of global memory."""
    read = "ld b[i]\n    if rank 2 0\n      fence any\n    else\n      fence"
    found = outcome(ring(FOR_BOTH, "fence any", read), "strict")
    assert found == Outcome(("any", "shared::cta", "shared::cta"), strict=True)


def test_strictly_neither_reading_is_given_up() -> None:
    """Both CTAs have a fence that is enough by one reading of whose access a copy into another CTA is."""
    found = outcome(ring(FOR_BOTH, "fence any", "ld b[i]\n    fence any"), "strict")
    assert found == Outcome(("any", "shared::cta"), strict=True)


RELAY = """
buffer d tensor 1 @1
buffer a shared 1 @1
barrier g 1 1 @1
barrier f 1 32 @1
barrier e 1 1
role load 1 @1
  for K
    wait g[i] all gpu lag
    fence
    st a[i]
    fence
    arrive f[i] all cluster
    step i
role use 1 @1
  for K
    wait f[i] cluster one
    mma d[0] a[i]
    commit e[i]
    step i
role relay 1
  for K
    wait e[i] cluster one relaxed
{fences}
    arrive g[i] cluster one relaxed
    step i
"""
"""A slot is given back by way of another CTA. Strictly nothing but the fence of the stores' threads joins what the product
has read to them (no A6), nor does a fence of CTA scope reach the other CTA (no A2)."""

WIDE, NARROW = "    thread_fence cluster one", "    thread_fence one"


@pytest.mark.parametrize(
    ("fences", "left"),
    [([WIDE], [WIDE]), ([WIDE, NARROW], [WIDE]), ([NARROW, WIDE, NARROW], [WIDE])],
)
def test_one_fence_ends_a_pattern_and_begins_another(fences: list[str], left: list[str]) -> None:
    program = parse(RELAY.format(fences="\n".join(fences)))
    done = eliminate(program, "sm_100a", "strict")
    assert not done.failed
    after = done.after(program)
    assert str(after) == str(parse(RELAY.format(fences="\n".join(left))))
    assert not judge(program, "strict", trips(program, False))
    assert not judge(after, "strict", trips(program, False))


def test_by_practice_the_product_s_completion_joins_what_it_has_read() -> None:
    program = parse(RELAY.format(fences=WIDE))
    done = eliminate(program, "sm_100a", "practice")
    assert done.gone == {1}
    assert not done.failed
    assert not judge(done.after(program), "practice", trips(program, False))
