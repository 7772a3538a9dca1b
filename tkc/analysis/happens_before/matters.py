"""Which acts add to what is known of an access, so that a search has to stop at them.

`Matters` says it of one state, exactly, for verdicts; `Kinds` of kinds of acts, for chains, whose steps end where a
search stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tkc.analysis.happens_before.automaton import PENDING, TO_ACQUIRE, Part, Source, State
from tkc.analysis.happens_before.events import (
    Arrive,
    AwaitGroup,
    CloseGroup,
    Complete,
    Event,
    MapFence,
    Meet,
    ProxyFence,
    TensorFence,
    ThreadFence,
    Threads,
    Wait,
)
from tkc.ir.isa.memory import Done, Proxy, Space


class Deed(Enum):
    """What an act does to what is known: nothing, it tells others of it, or it adds to it (and may tell others)."""

    NOTHING = 0
    TELLS = 1
    STOPS = 2


@dataclass(frozen=True, slots=True)
class Matters:
    """Which acts add to what is known of an access, or tell others of it.

    `arrivals`, `commits`, `copies`: arrivals of threads, of products, of copies of elements; `warps`, `roles`,
    `others`: meetings of lanes, of one role, of several; `complete`: copies whose bytes tell; `products`: those of a
    warpgroup; `groups`: of these kinds, of which `closed` are closed, and `most` are counted; `before`, `after`: fences
    of tensor memory; `edited`: halves of fences of tensor maps; `fences`: of threads.
    """

    arrivals: bool = False
    commits: bool = False
    copies: bool = False
    warps: bool = False
    roles: bool = False
    others: bool = False
    complete: bool = False
    products: bool = False
    groups: frozenset[Done] = frozenset()
    closed: int = 0
    most: int = 0
    before: bool = False
    after: bool = False
    proxy: Proxies | None = None
    edited: str = ""
    fences: bool = False

    def by(self, event: Event | None, cta: int) -> Deed:
        """What an event of a CTA does to what is known."""
        if self._adds(event, cta):
            return Deed.STOPS
        act, tells = event.act if event is not None else None, False
        if isinstance(act, Arrive):
            tells = self.commits if act.commit else self.copies if act.copies else self.arrivals
        elif isinstance(act, Complete):
            tells = self.complete
        return Deed.TELLS if tells else Deed.NOTHING

    def _adds(self, event: Event | None, cta: int) -> bool:
        act = event.act if event is not None else None
        if self.products and event is not None and event.products:
            return True
        match act:
            case Meet(does="wait"):
                return False
            case Meet(among="warp"):
                return self.warps
            case Meet():
                return self.roles or (self.others and act.barrier is not None)
            case CloseGroup():
                return act.done in self.groups and self.closed < self.most
            case AwaitGroup():
                return act.done in self.groups and self.closed > (
                    -1 if act.done is Done.TCGEN05_WAIT else act.pending
                )
            case TensorFence():
                return self.before if act.before else self.after
            case ProxyFence():
                return self.proxy is not None and self.proxy.by(act, cta)
            case MapFence():
                return act.half == self.edited
            case ThreadFence():
                return self.fences
            case _:
                return False


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy fences add to what is known as `name`: `home`: the CTA that the access counts for, where that asks
    whose fence it is; `own`: whether what the generic proxy knows is its own access."""

    name: str
    space: Space
    home: int
    own: bool

    def by(self, act: ProxyFence, cta: int) -> bool:
        if act.space is not None and act.space is not self.space:
            return False
        if act.half:
            return self.name == ("half" if act.half == "acquire" else "gen")
        if self.name == "raw":
            return cta == self.home
        return self.name == "gen" and (self.own or cta != self.home)


def matters(
    source: Source, state: State, moment: bool, met: bool, fenced: bool, most: int
) -> Matters:
    """What adds to such knowledge of an access. `met`: meetings of a role hand on what it has awaited of tensor
    memory as it is (A20); `fenced`: a proxy fence adds nothing; `most`: groups that are counted."""
    access, name = source.access, state.name
    tensor = access.space is Space.TENSOR
    if name in PENDING:
        if name == "acquired":
            return Matters()
        groups = {Done.WGMMA_GROUP if moment else access.done}
        if access.done is Done.BULK_GROUP_READ:
            groups.add(Done.BULK_GROUP)
        commits = not moment and name in ("tc", "issued")
        return Matters(
            commits=commits, copies=not moment and name == "cp", before=name == "issued",
            groups=frozenset(groups), closed=state.n, most=most,
        )  # fmt: skip
    known = state.part == Part.FULL and state.who is Threads.ALL
    if moment:
        return Matters(True, True, True, not known, not known, True, True, not known)
    acquired = state.fence not in TO_ACQUIRE
    own = access.proxy is Proxy.GENERIC
    proxies = None
    if (
        not tensor
        and access.space is not Space.MAP
        and not fenced
        and name in ("gen", "raw", "half")
    ):
        home = -1 if own or (name == "half") else source.home
        if acquired or name == "half":
            proxies = Proxies(name, access.space, home, own)
    edited = (
        {"gen": "release", "edited": "acquire"}.get(name, "") if access.space is Space.MAP else ""
    )
    raw = acquired and name == "raw" and access.proxy is Proxy.ASYNC
    awaited = met and name == "done" and access.done is Done.TCGEN05_WAIT
    return Matters(
        arrivals=acquired or name == "half", commits=raw, warps=acquired and not known,
        roles=acquired and (not known or (tensor and not awaited)), others=acquired, complete=raw,
        before=tensor and name == "done", after=tensor and name in ("after", "pipe-after"),
        proxy=proxies, edited=edited, fences=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which kinds of acts may add to what is known of an access. `moment`: of an event's moment, whatever proxies;
    `meet`: meetings of one role or warp; `products`: products of a warpgroup; `groups`: groups of these kinds."""

    moment: bool
    products: bool
    meet: bool
    complete: bool
    groups: frozenset[Done]
    tensor: bool
    proxy: bool
    maps: bool

    def by(self, event: Event | None, _: int) -> Deed:
        """What an event may do to what is known."""
        return Deed.STOPS if self._acts(event) else Deed.NOTHING

    def _acts(self, event: Event | None) -> bool:
        act = event.act if event is not None else None
        if self.products and event is not None and event.products:
            return True
        if self.moment and self.groups:
            return isinstance(act, CloseGroup | AwaitGroup) and act.done in self.groups
        match act:
            case None:
                return False
            case Arrive():
                return True
            case Meet():
                return self.meet or act.barrier is not None
            case Complete():
                return self.complete
            case _ if self.moment:
                return isinstance(act, Wait)
            case Wait():
                return False
            case CloseGroup() | AwaitGroup():
                return act.done in self.groups
            case TensorFence():
                return self.tensor
            case ProxyFence():
                return self.proxy
            case MapFence():
                return self.maps
            case _:
                return True


def kinds(source: Source, state: State, moment: bool) -> Kinds:
    """What may add to such knowledge of an access."""
    name, access, groups = state.name, source.access, set[Done]()
    if name in PENDING:
        groups = {Done.WGMMA_GROUP if moment else access.done}
        if access.done is Done.BULK_GROUP_READ:
            groups.add(Done.BULK_GROUP)
    tensor = access.space is Space.TENSOR
    full = state.part == Part.FULL and state.who is Threads.ALL
    return Kinds(
        moment=moment,
        products=moment and not full and name not in PENDING,
        meet=tensor or not full,
        complete=moment or (name == "raw" and access.proxy is Proxy.ASYNC),
        groups=frozenset(groups),
        tensor=tensor and not moment,
        proxy=not tensor and not moment and name in ("gen", "raw", "half"),
        maps=access.space is Space.MAP and not moment,
    )
