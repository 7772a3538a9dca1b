"""Rows of the proxy fences that a program may choose from: what each joins, for whom, since when, and what it costs.

Imports the standard library only. Costs are of ptxas 13.5's machine code, alike on sm_90a, sm_100a and sm_107a.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tkc.ir.isa.memory import Scope, Space


class ProxyFence(NamedTuple):
    """One form of fence.proxy.async. `word`: what `stage.proxy_fence` calls it; `covers`: spaces whose accesses it
    joins;
    `ptx`: the first version that has it; `sass`: its instructions; `cost`: of a warp, where one barrier of the CTA's
    memory is 1 (an estimate: one that reaches the GPU waits for the L2)."""

    word: str
    covers: frozenset[Space]
    reach: Scope
    ptx: tuple[int, int]
    sass: tuple[str, ...]
    cost: int


_SHARED, _GLOBAL = frozenset({Space.SHARED}), frozenset({Space.GLOBAL})
_VIEW = "FENCE.VIEW.ASYNC"

PROXY_FENCES: tuple[ProxyFence, ...] = (
    ProxyFence("global", _GLOBAL, Scope.GPU, (8, 0), (f"{_VIEW}.G",), 1),
    ProxyFence("shared::cta", _SHARED, Scope.CTA, (8, 0), ("MEMBAR.ALL.CTA", f"{_VIEW}.S"), 2),
    ProxyFence(
        "shared::cluster", _SHARED, Scope.CLUSTER, (8, 0), ("MEMBAR.ALL.GPU", f"{_VIEW}.S"), 20
    ),
    ProxyFence("", _SHARED | _GLOBAL, Scope.CLUSTER, (8, 0), ("MEMBAR.ALL.GPU", f"{_VIEW}.S"), 20),
)
"""Cheapest first."""


class OneWay(NamedTuple):
    """Half of a one-way pair: `releases` by each thread that accesses, of its own accesses (`reads`: those that read,
    only), or acquired by the thread whose engine does. `restrict`: what PTX restricts it to; the rest as above."""

    releases: bool
    reads: bool
    restrict: str
    ptx: tuple[int, int]
    sass: tuple[str, ...]
    cost: int


_RESTRICT = ".sync_restrict::shared::"
ONE_WAY: Mapping[str, OneWay] = {
    "release": OneWay(True, False, f"{_RESTRICT}cta", (8, 6), ("MEMBAR.ALL.CTA", f"{_VIEW}.S"), 2),
    "release::read": OneWay(True, True, f"{_RESTRICT}cluster::read", (9, 4), ("NOP",), 1),
    "acquire": OneWay(False, False, f"{_RESTRICT}cluster", (8, 6), ("NOP",), 0),
}
"""By the word of `stage.proxy_fence`. The NOP of `release::read` waits for the warp's own loads."""

NEWEST = max(half.ptx for half in ONE_WAY.values())
"""The version that has all of them."""

RELAXED = (8, 6)
"""The version from which arrivals and waits may be `.relaxed`: in the machine code no cheaper than `.cta`, so for what
must reach another CTA with fences of its own."""

ALIASES = {"shared": "shared::cta", "all": ""}
"""Other words for the same."""


def form(word: str) -> ProxyFence | None:
    """The row of a word; None for the halves of one-way fences."""
    word = ALIASES.get(word, word)
    return next((row for row in PROXY_FENCES if row.word == word), None)


def price(word: str) -> int:
    """What a warp pays for a fence, whichever way it goes."""
    row = ONE_WAY[word] if word in ONE_WAY else form(word)
    return row.cost if row is not None else 0


def halves(word: str, ptx: tuple[int, int]) -> Iterator[str]:
    """The one-way forms of a PTX version whose two halves together are cheaper than a fence that goes both ways, the
    cheapest first."""
    row = form(word)
    other = ONE_WAY["acquire"].cost
    found = [
        (half.cost, name)
        for name, half in ONE_WAY.items()
        if half.releases and half.ptx <= ptx and row is not None and half.cost + other < row.cost
    ]
    yield from (name for _, name in sorted(found))
