"""What is known of an access at a moment, in words: its state, which threads know of which threads' parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from tkc.analysis.instances import Copy, Edited, Event, Opened
from tkc.ir.isa.memory import Done, Kind, Space, Touch
from tkc.ir.stage.structure import storage
from tkc.ir.stage.types import FragmentLayout, Home


class Broken(Exception):
    """Why a chain does not hold."""


UNDER_WAY = {
    Done.MBARRIER_TX: "tx", Done.TCGEN05_COMMIT: "tracked", Done.BULK_GROUP: "group", Done.BULK_GROUP_READ: "group",
    Done.WGMMA_GROUP: "group", Done.CP_ASYNC_GROUP: "group",
}  # fmt: skip
GENERIC, COMPLETE, JOINED = "generic", "complete", "joined"
HALF, ACQUIRED = "half", "acquired"
EDITED, MAPPED = "edited", "mapped"
"""Known to the generic proxy; complete, as its own proxy knows; joined to the async proxy of CTA `cta`; released to
it by the first half of a one-way pair; and by the second, for what the thread that executes it issues. Of a tensor map:
published to its proxy, and acquired for CTA `cta`."""
BEFORE, AFTER, MET = "before", "after", "met"
PIPE_BEFORE, PIPE_AFTER, PIPE = "pipe-before", "pipe-after", "pipe"
RELEASED, WIDE_RELEASED = (1, 4), 4
"""What fences of threads release, the second to other CTAs as well."""
MISSING, WIDE_MISSING = (2, 3), 3
"""Where an acquire fence is missing; the second has to reach other CTAs."""
PENDING = frozenset({"tx", "tracked", "group", "ld", "st", ACQUIRED})

TENSOR_WORK = {"mma": "mma", "scaled_mma": "mma", "copy_scales": "cp"}
"""Operations by their names in the table of pairs that the tensor core keeps in order."""

PIPED = {"": "pipelined", "A9": "pipelined-scales", "A14": "pipelined-a"}
"""What such a pair needs, and the rule that says so."""


@dataclass(eq=False, slots=True)
class Access:
    """One instance: where in which role's trace, and what it does."""

    copy: Copy
    at: int
    event: Event
    operand: str
    touch: Touch
    done: Done
    home: int
    """The CTA that performs it."""
    owner: int
    """The CTA whose memory it is."""
    buffer: SSAValue
    tensor: bool = field(init=False)
    slot: Any = field(init=False)
    start: Known = field(init=False)
    """What is known of it right after it was issued."""
    known: dict[int, list[Known] | Broken] = field(default_factory=dict)
    """What is known of it after steps that have been followed, by the number of the last one."""

    def __post_init__(self) -> None:
        self.tensor = self.touch.space is Space.TENSOR
        self.slot = slot_of(self)

    @property
    def held(self) -> bool:
        """Whether it is in a slot, and not in a tensor."""
        return self.touch.space is not Space.GLOBAL

    @property
    def source_of_copy(self) -> bool:
        """Whether a copy between CTAs reads it, whose bytes complete elsewhere."""
        return self.touch.kind is Kind.READ and self.touch.space is Space.SHARED

    @property
    def place(self) -> SSAValue:
        """The buffer in whose place its own lies."""
        return storage(self.buffer)


def slot_of(access: Access) -> Any:
    """Which slot an access touches; of a tensor, its coordinates."""
    event = access.event
    value = event.value(access.operand)
    if isinstance(value, Opened):
        return 0 if depth(access.buffer) == 1 else value.slot
    if isinstance(value, Edited) and access.touch.space is Space.MAP:
        return value.slot
    if access.touch.space is Space.GLOBAL:
        return event.coordinates
    if depth(access.buffer) == 1:
        return 0
    for name in (f"{access.operand}_slot", "slot"):
        if (found := event.value(name)) is not None:
            return found
    raise Broken("a slot that is not known")


def fragment_of(access: Access) -> Any:
    """How the elements of an access fall on threads, and where; None where it moves no fragment."""
    event = access.event
    if "transposed" in event.op.properties or event.value("column") is None:
        return None
    for name in ("value", "source", "fragment"):
        found = getattr(event.op, name, None)
        if isinstance(found, SSAValue) and hasattr(found.type, "layout"):
            layout, shape = found.type.layout, found.type.dims  # pyright: ignore
            column, row = event.value("column"), event.value("row")
            if layout.data != FragmentLayout.WGMMA and shape.data[0].data > 1:
                return layout, shape.data[0], row  # each thread has whole rows
            return layout, shape, column, row
    return None


class Known(NamedTuple):
    """What is known of an access, and where: at `at` in the trace of `copy` (not before), each thread of `threads`
    knows
    the parts of the threads that it lists. `fence`: 0, or one of `RELEASED` or `MISSING`."""

    source: Access
    copy: Copy
    at: int
    state: str
    threads: Mapping[int, frozenset[int]]
    cta: int = -1
    fence: int = 0
    trail: tuple[tuple[Copy, int], ...] = ()
    """The events on the way, by their places in the traces."""

    def then(
        self,
        at: int,
        threads: Mapping[int, frozenset[int]] | None = None,
        state: str = "",
        copy: Copy | None = None,
        cta: int | None = None,
        fence: int | None = None,
    ) -> Known:
        """The same from a place on, but for what is said."""
        return Known(
            self.source,
            self.copy if copy is None else copy,
            at,
            state or self.state,
            self.threads if threads is None else threads,
            self.cta if cta is None else cta,
            self.fence if fence is None else fence,
            self.trail,
        )


class Like(NamedTuple):
    """What makes two operations alike: their name, the barriers that they are about, and what they order for whom."""

    name: str
    barriers: SSAValue | None
    sem: str
    scope: str


def kind(op: Operation) -> Like:
    barriers = getattr(op, "barriers", None)
    return Like(op.name, barriers, _word(op, "sem"), _word(op, "scope"))


@cache
def alone(threads: frozenset[int]) -> Mapping[int, frozenset[int]]:
    """Each thread knows its own part."""
    return {t: frozenset({t}) for t in threads}


def those(known: Known, event: Event) -> Mapping[int, frozenset[int]]:
    """What is known of the threads that execute an event."""
    if event.threads.issuperset(known.threads):
        return known.threads
    return {t: parts for t, parts in known.threads.items() if t in event.threads}


def parts(known: Known, event: Event) -> frozenset[int]:
    """What the threads that execute an event know together."""
    return frozenset().union(*those(known, event).values())


@cache
def all_know(threads: frozenset[int], parts: frozenset[int]) -> Mapping[int, frozenset[int]]:
    """Each of some threads knows the same."""
    return dict.fromkeys(threads, parts)


def expect(known: Known, *states: str) -> None:
    if known.state not in states:
        raise Broken(f"the access is not under way as {' or '.join(states)}")


def over(x: Access, state: str, relaxed: bool, acquires: bool = False) -> str:
    """What another thread knows of an access of tensor memory after it has been told; of others the same."""
    if not x.tensor:
        return state
    if state == PIPE_BEFORE:
        return PIPE_AFTER
    if state in (COMPLETE, BEFORE, AFTER, MET) and not relaxed and acquires:
        return COMPLETE
    if state in (BEFORE, AFTER):
        return AFTER
    raise Broken("tcgen05 operations need a fence here")


def text(event: Event, name: str) -> str:
    return _word(event.op, name)


def _word(op: Operation, name: str) -> str:
    found = op.properties.get(name)
    return found.data if found is not None and hasattr(found, "data") else ""  # pyright: ignore


def depth(buffer: SSAValue) -> int:
    return buffer.type.depth.data  # pyright: ignore


def in_registers(event: Event) -> bool:
    source = event.value("source")
    return isinstance(source, Opened) and source.buffer.type.home.data == Home.REGISTER  # pyright: ignore
