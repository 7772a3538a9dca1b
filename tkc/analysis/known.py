"""What is known of an access at a moment, in words: its state, which threads know of which threads' parts of it.

All instances of an access that differ in nothing but where and when they are share what is known of them (`Known`);
where each has come to is counted apart (`moves.Run`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from tkc.analysis.instances import Copy, Event, Instruction, Opened
from tkc.ir.isa.memory import Close, Done, Kind, Proxy, Space, Touch
from tkc.ir.stage.structure import storage
from tkc.ir.stage.types import FragmentLayout, Home

if TYPE_CHECKING:
    from tkc.analysis.steps import Move


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

TENSOR_WORK = {"mma": "mma", "scaled_mma": "mma", "tensor_mma": "mma", "copy_scales": "cp"}
"""Operations by their names in the table of pairs that the tensor core keeps in order."""

PIPED = {"": "pipelined", "A9": "pipelined-scales", "A14": "pipelined-a"}
"""What such a pair needs, and the rule that says so."""


@dataclass(eq=False, slots=True)
class Access:
    """What instances of an access have in common: who does what to which buffer; `event` is one of them."""

    copy: Copy
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
    start: Known = field(init=False)
    """What is known of one right after it was issued."""

    def __post_init__(self) -> None:
        self.tensor = self.touch.space is Space.TENSOR
        if self.tensor:
            waits = "st" if self.touch.kind is Kind.WRITE else "ld"
            by = {Done.TCGEN05_COMMIT: "tracked", Done.TCGEN05_WAIT: waits}
            state = by.get(self.done, COMPLETE)
        else:
            now = GENERIC if self.touch.proxy is Proxy.GENERIC else COMPLETE
            state = UNDER_WAY.get(self.done, now)
        self.start = Known(self, self.copy, state, alone(self.event.threads))

    @property
    def threads(self) -> frozenset[int]:
        return self.event.threads

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


def fragment_of(access: Access, event: Event) -> Any:
    """How the elements of an instance fall on threads, and where; None where it moves no fragment."""
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


@dataclass(eq=False, slots=True)
class Known:
    """What is known of instances of an access in a copy of a role: each thread of `threads` knows the parts of the
    threads that it lists. `fence`: 0, or one of `RELEASED` or `MISSING`."""

    source: Access
    copy: Copy
    state: str
    threads: Mapping[int, frozenset[int]]
    cta: int = -1
    fence: int = 0
    moves: dict[int, dict[Any, Move]] = field(default_factory=dict)
    """What each step that has been tried adds, by its number and by who executes what."""
    ends: dict[tuple[str, Access], str] = field(default_factory=dict)
    """Why it does not order an access by a rule; empty: it does."""

    def then(
        self,
        threads: Mapping[int, frozenset[int]] | None = None,
        state: str = "",
        copy: Copy | None = None,
        cta: int | None = None,
        fence: int | None = None,
    ) -> Known:
        """The same but for what is said."""
        return Known(
            self.source,
            self.copy if copy is None else copy,
            state or self.state,
            self.threads if threads is None else threads,
            self.cta if cta is None else cta,
            self.fence if fence is None else fence,
        )

    def same(self, other: Known) -> bool:
        return (
            self.state == other.state
            and self.fence == other.fence
            and self.cta == other.cta
            and self.copy == other.copy
            and self.threads == other.threads
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


def closes(of: Instruction, group: Done) -> bool:
    """Whether an operation closes a group of its threads; a product of wgmma that is not alone is one of its own."""
    if any(isinstance(r, Close) and r.done is group for r in of.effects):
        return True
    product = group is Done.WGMMA_GROUP and of.op.name == "stage.mma"
    return product and "alone" not in of.op.properties
