"""A program as the analysis sees it: roles of threads, loops, and events that touch memory or synchronise.

Free of any dialect: `extract` makes one from stage operations, tests write theirs by hand. Words are `ir.isa.memory`'s.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any

from tkc.ir.isa.memory import Done, Proxy, Scope, Sem, Space

if TYPE_CHECKING:
    from tkc.analysis.happens_before.areas import Area


class Threads(IntEnum):
    """Which threads of a role: one, the first warp, a lane of each warp, all, or some that are not known, if any."""

    ONE = 0
    WARP = 1
    LANE = 2
    ALL = 3
    SOME = 4


@dataclass(eq=False, slots=True)
class Some:
    """Those of `of` that one condition lets through, which is not followed; `members`: their numbers, where known;
    `holds`: the sets with a name that are part of it."""

    of: Who
    members: frozenset[int] | None = None
    holds: frozenset[Threads] = frozenset()

    @property
    def sure(self) -> bool:
        """Whether there are any."""
        return bool(self.members)

    @property
    def warps(self) -> int:
        """How many whole warps they are; 0 where they are others."""
        members = self.members or frozenset[int]()
        warps = {t // 32 for t in members}
        return len(warps) if len(members) == 32 * len(warps) else 0

    def __repr__(self) -> str:
        return f"some of {self.of!r}"


Who = Threads | Some


@dataclass(eq=False, slots=True)
class Loop:
    """A loop or condition (`high` = 1) of one role. `key`: loops of equal keys in several roles turn equally often.

    `guard`: of a condition that is known to hold in all iterations of a loop but its first (`not-first`), or exactly
    where that loop, just before, had any (`nonempty`).
    """

    name: str
    body: list[Item]
    key: Hashable = None
    low: int = 0
    high: float = inf
    guard: tuple[str, Loop] | None = None
    op: Any = None

    def __repr__(self) -> str:
        return f"loop {self.name}"


@dataclass(eq=False, slots=True)
class Choice:
    """Exactly one of several bodies, each a `Loop` of at most one turn."""

    branches: list[Loop]


@dataclass(eq=False, slots=True)
class Beside:
    """Two bodies of which nothing says which comes first."""

    one: list[Item]
    other: list[Item]


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of a loop: those whose number, divided by `period`, leaves one of `rest`."""

    loop: Loop
    period: int
    rest: frozenset[int]


@dataclass(eq=False, slots=True)
class Sometimes:
    """A body that runs in some turns of the loop round it."""

    body: list[Item]
    turns: Turns


@dataclass(frozen=True, slots=True)
class Index:
    """An item number at an event: `rate` · (iterations of `loop` so far) + `offset`; `loop` None is the kernel itself.

    After a loop, its count includes all of its iterations.
    """

    loop: Loop | None
    offset: int = 0
    rate: int = 1


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot number as a function of iterations of `loop` so far: `before` the repetition, then `period` for ever."""

    loop: Loop | None
    period: tuple[int, ...]
    before: tuple[int, ...] = ()

    def at(self, count: int) -> int:
        first = len(self.before)
        return (
            self.before[count] if count < first else self.period[(count - first) % len(self.period)]
        )


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of a slot of a buffer (slot None: not known).

    `what` names it in messages and in the pairs of tcgen05; `owner` is the CTA whose memory it is; `part` is what a
    thread touches, where equal parts are the same thread's; `region` the columns of the slot, `lines` its rows.
    """

    space: Space
    buffer: Hashable
    write: bool
    slot: Slot | None = None
    proxy: Proxy = Proxy.GENERIC
    done: Done = Done.NOW
    what: str = ""
    owner: int = 0
    part: Hashable = None
    region: tuple[int, int] | None = None
    lines: tuple[int, int] | None = None
    atomic: bool = False
    share: int | None = None
    """Which of several equal parts of the slot it touches; None: any."""
    distinct: tuple[Loop, ...] = ()
    """Loops each of whose turns is taken to touch other elements (of global memory)."""
    apart: tuple[Loop, ...] = ()
    """Those of which that is sure."""
    operand: str = ""
    """The operand of the operation that names the buffer."""
    area: Area | None = None
    """The elements of a tensor or vector that each thread touches."""
    element: bool = False
    """Whether each thread touches one element by itself."""
    columns: Area | None = None
    """The columns of an accumulator's slot, where a formula tells them."""
    storage: Hashable = None
    """The buffer in whose place this one lies; None: it has one to itself."""
    ring: int = 0
    """Of buffers in one place: those whose slots have the same numbers where they are the same have the same ring."""

    @property
    def place(self) -> Hashable:
        """What accesses of the same memory have in common."""
        return self.buffer if self.storage is None else self.storage


def first_operand(access: Access) -> bool:
    """Whether a product reads its first operand from shared memory by it: what tcgen05.commit can tell alone."""
    return access.space is Space.SHARED and access.operand == "a" and not access.write


CONSTANT = "store of a constant"
"""What an access is called that stores the same value each time."""

# What an event does besides ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wait:
    """Until the item `index` of a barrier is complete (mbarrier.try_wait). `implied`: another wait says that it is."""

    barrier: Hashable
    index: Index | None
    sem: Sem = Sem.ACQUIRE
    scope: Scope = Scope.CTA
    implied: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """`count` arrivals of each thread on an item of a barrier, which announce `bytes`; `commit`: when the thread's
    tcgen05 work so far is done, or, with `reads`, has read its first operands; `copies`: when its copies of elements so
    far are done, of which alone it tells."""

    barrier: Hashable
    index: Index | None
    count: int = 1
    bytes: int = 0
    commit: bool = False
    sem: Sem = Sem.RELEASE
    scope: Scope = Scope.CTA
    reads: bool = False
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Complete:
    """The event's asynchronous accesses of the memory of CTA `owner` complete `bytes` of an item of a barrier."""

    barrier: Hashable
    index: Index | None
    bytes: int
    owner: int = 0


@dataclass(frozen=True, slots=True)
class CloseGroup:
    """commit_group of the thread's bulk copies, wgmma products or cp.async copies."""

    done: Done


@dataclass(frozen=True, slots=True)
class AwaitGroup:
    """wait_group: at most `pending` of the thread's groups are under way; `read`: only their sources count; `of`: that
    is said of copies of this buffer alone."""

    done: Done
    pending: int = 0
    read: bool = False
    of: Hashable = None


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """fence.proxy.async in `space` (None: all). `half` is `release` or `acquire` of the unidirectional pair; `reads`:
    of what reads, only."""

    space: Space | None = Space.SHARED
    cluster: bool = False
    half: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True)
class MapFence:
    """fence.proxy.tensormap::generic: the release of edits of maps, or (`half` acquire) the acquire of the map in a
    slot of `buffer`."""

    half: str
    buffer: Hashable = None
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class TensorFence:
    """tcgen05.fence::before_thread_sync or ::after_thread_sync."""

    before: bool


@dataclass(frozen=True, slots=True)
class ThreadFence:
    """fence.acq_rel and its like."""

    sem: Sem = Sem.ACQ_REL
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class Meet:
    """Threads meet: the lanes of each `warp`, all of the `role`, or with other roles at `barrier` (bar.sync,
    barrier.cluster) of `count` threads (0: all), whose executions `index` numbers."""

    among: str
    barrier: Hashable = None
    index: Index | None = None
    relaxed: bool = False
    count: int = 0
    does: str = "sync"
    """`sync`, or half of it: `arrive` or `wait`."""


@dataclass(frozen=True, slots=True)
class GridWait:
    """The grids that this one depends on have ended, for this thread (griddepcontrol.wait)."""


Act = (
    Wait
    | Arrive
    | Complete
    | CloseGroup
    | AwaitGroup
    | ProxyFence
    | MapFence
    | TensorFence
    | ThreadFence
    | Meet
    | GridWait
)


@dataclass(eq=False, slots=True)
class Event:
    """One operation of one role: it touches, then it acts."""

    name: str
    threads: Who = Threads.ALL
    accesses: tuple[Access, ...] = ()
    act: Act | None = None
    op: Any = None

    @property
    def told(self) -> str:
        """What its program says, for messages; its name where it is of no program."""
        from tkc.ir.stage.words import said

        return said(self.op) if self.op is not None else self.name

    @property
    def told_at(self) -> str:
        """`told` and its line, for messages that stand elsewhere."""
        from tkc.ir.locations import location_of

        place = location_of(self.op) if self.op is not None else None
        return f"{self.told} (line {place.line})" if place is not None else self.told

    @property
    def products(self) -> bool:
        """Whether it issues products of a warpgroup, which a wait for its groups awaits."""
        return any(a.done is Done.WGMMA_GROUP for a in self.accesses)


Item = Event | Loop | Choice | Beside | Sometimes


@dataclass(eq=False, slots=True)
class Role:
    """A program for `warps` warps of CTA `cta`. `copy`: which it is of `copies` that run the same program; `declared`:
    what the kernel calls it, where that is not `name`."""

    name: str
    body: list[Item]
    warps: int = 1
    cta: int = 0
    copy: int = 0
    copies: int = 1
    declared: str = ""

    def events(self) -> list[Event]:
        return events_of(self.body)


def events_of(body: list[Item]) -> list[Event]:
    """All events of a body, in order."""
    found: list[Event] = []
    for item in body:
        if type(item) is Event:  # most are, so that they are asked for first, and plainly
            found.append(item)
        elif isinstance(item, Choice):
            for branch in item.branches:
                found += events_of(branch.body)
        elif isinstance(item, Beside):
            found += events_of(item.one) + events_of(item.other)
        else:
            assert isinstance(item, Loop | Sometimes)
            found += events_of(item.body)
    return found


@dataclass(eq=False, slots=True)
class Barrier:
    """`depth` mbarriers in the shared memory of CTA `owner`, whose phases take `count` arrivals; `word`: words in
    global memory, one an item (`words.py`)."""

    name: str
    depth: int = 1
    count: int = 1
    owner: int = 0
    op: Any = None
    word: bool = False


@dataclass(eq=False, slots=True)
class Program:
    """One kernel: its roles and barriers. `dependent`: it may start before the grid ahead of it has ended; `alone`: the
    launch has one work unit. `held`: what roles do to accumulators in registers of their own, which needs no order."""

    name: str
    roles: list[Role]
    barriers: dict[Hashable, Barrier] = field(default_factory=dict)
    dependent: bool = False
    alone: bool = False
    held: list[tuple[Event, str]] = field(default_factory=list[tuple[Event, str]])

    def accesses(self) -> list[Touched]:
        """All accesses, with their event and its role."""
        events = [(event, role) for role in self.roles for event in role.events()]
        events += [(event, Role(name, [])) for event, name in self.held]
        return [(event, a, role) for event, role in events for a in event.accesses]


Touched = tuple[Event, Access, Role]
"""An access, with its event and role."""
