"""Who knows of what, as sets: the graph of one run, kept as the ancestors of the nodes at its edge.

A bit stands for a stretch of one group of lanes between two moments at which it told somebody, or for what an operation
has read or written. An edge of the memory model copies bits; nothing else does. Groups are lanes of a warp that always
act together, found by a run before. Needs the standard library only; sections are those of PTX ISA 9.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any


class Known:
    """Sets of bits, by what they may be relied on for.

    `met`: base causality (8.9.5). `ran`: the same with relaxed edges. `tensor`: for tensor memory (9.7.18.6); `before`:
    what a tcgen05.fence::before_thread_sync put in order for a ::after_thread_sync. `seen`: operations whose completion
    an issuer of another completed operation had seen (A5). `half`: released by a one-way proxy fence, `read_half` by one of
    reads alone; `map_half`: the same for tensor maps. `fenced`: crossed a proxy fence, by whose memory the fence is for;
    `maps`: acquired of a tensor map, by the CTA that did and the map's address.
    """

    __slots__ = (
        "before",
        "fenced",
        "half",
        "map_half",
        "maps",
        "met",
        "ran",
        "read_half",
        "seen",
        "tensor",
    )
    PLAIN = ("met", "ran", "tensor", "before", "seen", "half", "read_half", "map_half")

    def __init__(self) -> None:
        for name in self.PLAIN:
            setattr(self, name, 0)
        self.fenced: dict[Any, int] = {}
        self.maps: dict[Any, int] = {}

    def join(self, other: Known) -> None:
        for name in self.PLAIN:
            setattr(self, name, getattr(self, name) | getattr(other, name))
        for mine, theirs in ((self.fenced, other.fenced), (self.maps, other.maps)):
            for key, bits in theirs.items():
                mine[key] = mine.get(key, 0) | bits

    def copy(self) -> Known:
        made = Known()
        made.join(self)
        return made

    def common(self, other: Known) -> None:
        """What both know."""
        for name in self.PLAIN:
            setattr(self, name, getattr(self, name) & getattr(other, name))
        self.fenced = {k: v & other.fenced[k] for k, v in self.fenced.items() if k in other.fenced}
        self.maps = {k: v & other.maps[k] for k, v in self.maps.items() if k in other.maps}


class Bits:
    """Gives out bits, each once."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> int:
        self.count += 1
        return 1 << self.count


class Group:
    """Lanes of a warp that always act together.

    `own` are its stretches so far, `own_fenced` those before a proxy fence of its own, `own_maps` those before a tensormap
    release of its own, `own_tensor` its loads and stores of tensor memory that it has awaited: what each of its lanes may
    rely on of itself alone, and others once they have been told; `reads` those that a one-way fence of its own has
    acquired, which it tells nobody. `unacquired` is what relaxed reads saw, `ready` what a
    fence.release has put in order for later relaxed writes (8.8).
    """

    def __init__(self, bits: Bits, warp: Any, mask: int) -> None:
        self.bits, self.warp, self.mask = bits, warp, mask
        self.known = Known()
        self.own = self.own_maps = self.own_tensor = self.reads = 0
        self.own_fenced: dict[Any, int] = {}
        self.stretch = 0
        self.unacquired: Known | None = None
        self.ready: Known | None = None

    def now(self) -> int:
        """The bit of what it does now."""
        if not self.stretch:
            self.stretch = self.bits.new()
            self.own |= self.stretch
        return self.stretch

    def told(self) -> Known:
        """What a release of all its lanes tells."""
        self.stretch = 0
        made = self.known.copy()
        made.met |= self.own
        made.ran |= self.own
        made.tensor |= self.own_tensor
        made.map_half |= self.own_maps
        for key, bits in self.own_fenced.items():
            made.fenced[key] = made.fenced.get(key, 0) | bits
        return made

    def came(self) -> Known:
        """What a relaxed arrival tells: that it came, what fences released, and the halves of one-way fences."""
        whole, made = self.told(), Known()
        made.ran, made.half, made.read_half = whole.ran, whole.half, whole.read_half
        if self.ready is not None:
            made.join(self.ready)
        return made

    # Fences

    def fence_proxy(self, keys: list[Any]) -> None:
        """fence.proxy.async (9.7.15.4): covers its own accesses and those it knows of (A11)."""
        for key in keys:
            self.known.fenced[key] = self.known.fenced.get(key, 0) | self.known.met
            self.own_fenced[key] = self.own
        self.stretch = 0

    def fence_half(self, acquires: bool, keys: list[Any], reads: bool) -> None:
        """The one-way pair: each thread releases its own accesses, or with `reads` what it has read; who acquires may
        go on with them in the async proxy."""
        if acquires:
            self.known.met |= self.known.half
            self.reads |= self.known.read_half
            for key in keys:
                self.known.fenced[key] = self.known.fenced.get(key, 0) | self.known.half
        elif reads:
            self.known.read_half |= self.own
        else:
            self.known.half |= self.own
        self.stretch = 0

    def fence_map(self, maps: Collection[Any] | None) -> None:
        """fence.proxy.tensormap: a release, or an acquire of some maps by one that knows of it."""
        if maps is None:
            self.known.map_half |= self.known.met
            self.own_maps = self.own
        for key in maps or ():
            released = (self.known.map_half | self.own_maps) & (self.known.met | self.own)
            self.known.maps[key] = self.known.maps.get(key, 0) | released
        self.stretch = 0

    def fence(self, acquires: bool, releases: bool) -> None:
        """fence.acq_rel and its kin (8.8)."""
        if acquires and self.unacquired is not None:
            self.known.join(self.unacquired)
            self.unacquired = None
        if releases:
            self.ready = self.told()
        self.stretch = 0

    def fence_tensor(self, before: bool, issued: int) -> None:
        """tcgen05.fence (9.7.18.11): `issued` is the tensor work of these lanes, whose order others may then go on with."""
        if before:
            self.known.before |= self.known.tensor | self.own_tensor | issued
        else:
            if self.unacquired is not None:
                self.known.before |= self.unacquired.before
            self.known.tensor |= self.known.before

    def learn(self, told: Known, acquire: bool = True, tensor: int = -1) -> None:
        """Comes to know what was told; of tensor memory only the bits of `tensor`."""
        if acquire:
            kept = self.known.tensor | (told.tensor & tensor)
            self.known.join(told)
            self.known.tensor = kept
            return
        self.known.ran |= told.ran
        self.known.half |= told.half
        self.known.read_half |= told.read_half
        if self.unacquired is None:
            self.unacquired = Known()
        self.unacquired.join(told)


class Apart(Exception):
    """Lanes act apart that have acted together in the run before."""


class Groups:
    """The groups of every warp of a launch: `masks` are the sets of lanes that have acted together in a run before."""

    def __init__(self, masks: dict[Any, set[int]]) -> None:
        self.bits = Bits()
        self._masks = masks
        self._made: dict[Any, list[Group]] = {}

    def of(self, w: Any, mask: int) -> Iterator[Group]:
        """The groups that make up a mask."""
        for group in self.all_of(w):
            if group.mask & mask:
                if group.mask & ~mask:
                    raise Apart
                yield group

    def all_of(self, w: Any) -> list[Group]:
        made = self._made.get(w)
        if made is None:
            whole = self._masks.get(key_of(w), set())
            made = self._made[w] = [Group(self.bits, w, m) for m in atoms(whole)]
        return made


def key_of(w: Any) -> Any:
    """A warp in two runs of one launch."""
    return (w.cta.index, w.index)


def atoms(masks: set[int]) -> list[int]:
    """The smallest sets of lanes of which every mask is made up."""
    parts = [0xFFFFFFFF]
    for mask in masks:
        parts = [p for part in parts for p in (part & mask, part & ~mask) if p]
    return parts
