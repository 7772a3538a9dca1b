"""The checked program of explicit synchronisation: places in rings, integers of registers, commands, conditions."""

from typing import NamedTuple

from tkc.frontend.program import Body, Regs, Scalar, Slice, Tile, Value
from tkc.frontend.sizes import Size
from tkc.frontend.syntax import Span

I32, I1 = Scalar("i32"), Scalar("i1")
WIDE = (Scalar("u32"), Scalar("i64"))
INTEGERS = (I32, *WIDE)

IDENTITIES = ("lane", "warp", "thread", "rank", "unit", "units")
"""Names of what a thread and its CTA are; plain names, which a program may give another meaning."""

# --- declarations and places ---


class Barrier(NamedTuple):
    """`barrier full * STAGES, count = 1`."""

    name: str
    depth: int
    count: int
    span: Span


class Entry(NamedTuple):
    """`full[slot]`."""

    barrier: Barrier
    index: Value
    span: Span


class Place(NamedTuple):
    """`a[slot]`, and with `transposed` `a[slot].T`."""

    tile: Tile
    index: Value
    transposed: bool
    span: Span


class Open(NamedTuple):
    """`a`, `a.T`: the slot of a tile in a put or get that is open."""

    tile: Tile
    transposed: bool
    span: Span


class Part(NamedTuple):
    """`n.part(i, count)` of the block variable `block`; without one, the block of that number of the axis."""

    block: str
    index: Value
    count: int
    size: int
    extent: Size
    span: Span


# --- values ---


class Number(NamedTuple):
    """An integer expression as a register value."""

    size: Size
    span: Span
    type: Scalar = I32


class Identity(NamedTuple):
    """`lane`, `warp`, `thread`, and the CTA's `rank`, `unit` and `units`."""

    which: str
    span: Span
    type: Scalar = I32


class BlockNumber(NamedTuple):
    """`k.index`."""

    block: str
    span: Span
    type: Scalar = I32


class ReadPlace(NamedTuple):
    """`read(d[i])`; `read(d[i], first, count)` for some columns; zero where a `nonzero` does not hold."""

    place: Place
    column: Value | None
    nonzero: Value | None
    type: Regs
    span: Span


class Spot(NamedTuple):
    """`v[slot][i]`, `x[slot][i, j]`: an element of a shared vector or tile."""

    place: Place
    indices: tuple[Value, ...]
    dtype: str
    span: Span


class Element(NamedTuple):
    """`read(X[i, j], acquire, gpu)`, as a number; `constant` where nothing writes X."""

    of: Spot | Slice
    sem: str
    scope: str
    type: Scalar
    span: Span
    constant: bool = False


class Atomic(NamedTuple):
    """`atomic_add(X[i], 1)`: the value that was there."""

    kind: str
    of: Spot | Slice
    given: tuple[Value, ...]
    sem: str
    scope: str
    type: Scalar
    span: Span


class Attempt(NamedTuple):
    """`try_wait(full[slot], phase)`: whether the phase has completed."""

    entry: Entry
    parity: Value
    sem: str
    scope: str
    span: Span
    type: Scalar = I1


class Choose(NamedTuple):
    """`x if p else y` of numbers, where a side reads memory: it does so only where it is chosen."""

    condition: Value
    then: Value
    otherwise: Value
    type: Scalar
    span: Span


def accesses(x: object) -> bool:
    """Whether a value reads memory or a barrier, or updates it."""
    if isinstance(x, Element | Atomic | Attempt):
        return True
    return isinstance(x, tuple) and not isinstance(x, Span | Tile) and any(map(accesses, x))


# --- statements ---


class StoreElement(NamedTuple):
    """`Y[i] <- x, release, gpu`."""

    of: Spot | Slice
    value: Value
    sem: str
    scope: str
    span: Span


class CopyElements(NamedTuple):
    """`load v[slot][i] <- X[m, j], 16`: so many bytes from an element on, by each thread that comes to it."""

    of: Spot
    source: Slice
    bytes: int
    span: Span


class ArriveCopies(NamedTuple):
    """`arrive full[slot], copies`: when the thread's copies so far are done; `uncounted` by the barrier's count."""

    entry: Entry
    uncounted: bool
    span: Span


class Do(NamedTuple):
    """A value for what it does alone."""

    value: Atomic
    span: Span


class Print(NamedTuple):
    """`print("x is", x)`; a format of C and its values."""

    format: str
    values: tuple[Value, ...]
    span: Span


class Assert(NamedTuple):
    """`assert x < 3, "few"`, where the condition is known only as the kernel runs."""

    condition: Value
    told: str
    by: str
    span: Span


class Wait(NamedTuple):
    entry: Entry
    parity: Value
    sem: str
    scope: str
    by: str
    span: Span


class Arrive(NamedTuple):
    """`arrive full[slot], count, at = rank`; of a barrier of this CTA where there is no rank."""

    entry: Entry
    count: int
    by: str
    rank: Value | None
    sem: str
    scope: str
    span: Span


class Expect(NamedTuple):
    entry: Entry
    bytes: int
    rank: Value | None
    span: Span


class Load(NamedTuple):
    destination: Place
    source: Slice
    entry: Entry
    hint: str
    bulk: bool
    mask: Value | None
    rank: Value | None
    span: Span


class Store(NamedTuple):
    destination: Slice
    source: Place
    reduce: str
    hint: str
    bulk: bool
    span: Span


class Prefetch(NamedTuple):
    source: Slice
    hint: str
    span: Span


class Fill(NamedTuple):
    """`c[s] <- bf16(x)`."""

    destination: Place
    source: Value
    span: Span


class CommitEntry(NamedTuple):
    """`commit full[slot]`, of every CTA of a mask where there is one; `reads`: of what products read first, alone."""

    entry: Entry
    mask: Value | None
    reads: bool
    span: Span


class Group(NamedTuple):
    """`commit stores`, `wait stores <= 1, read`, `commit products`, `wait products <= 0`, `fence products`."""

    what: str
    pending: int
    read: bool
    span: Span


class Fence(NamedTuple):
    """`kind` is proxy, tcgen05, or a semantic; `of` its space, side or scope as PTX spells it."""

    kind: str
    of: str
    by: str
    span: Span


class Sync(NamedTuple):
    """`sync role`, `sync warp`, `sync cta`, `sync 3, 128`, and, which `waits` for nobody, `arrive 3, 128`."""

    what: str
    number: int
    threads: int
    waits: bool
    span: Span


class ClusterBarrier(NamedTuple):
    """`sync cluster`, `arrive cluster`, `wait cluster`, as `does` says."""

    does: str
    sem: str
    span: Span


class Grid(NamedTuple):
    """`wait pdl` for the grids before this one, `arrive pdl` for those after it."""

    does: str
    by: str
    span: Span


class Product(NamedTuple):
    """`mma d[i] += a[slot] @ b[slot].T, keep`; `scales` are those of block-scaled operands."""

    d: Place
    a: Place
    b: Place
    keep: Value | None
    pair: bool
    span: Span
    scales: tuple[Place, Place] | None = None


class CopyPlaces(NamedTuple):
    """`copy sa[slot] <- a[slot].scales`."""

    destination: Place
    source: Place
    pair: bool
    span: Span


class ClusterCopy(NamedTuple):
    """`copy b[j] <- a[i], full[j], at = rank`."""

    destination: Place
    source: Place
    entry: Entry
    rank: Value
    span: Span


class Registers(NamedTuple):
    action: str
    count: int
    span: Span


class Elect(NamedTuple):
    scope: str
    body: Body
    span: Span


class If(NamedTuple):
    condition: Value
    then: Body
    otherwise: Body
    span: Span


class While(NamedTuple):
    condition: Value
    body: Body
    span: Span


class Range(NamedTuple):
    """`for i in range(lower, upper, step)`."""

    variable: str
    lower: Value
    upper: Value
    step: Value
    body: Body
    span: Span
