"""The checked program of explicit synchronisation: places in rings, integers of registers, commands, conditions."""

from typing import NamedTuple

from tkc.frontend.program import Body, Regs, Scalar, Slice, Tile, Value
from tkc.frontend.sizes import Size
from tkc.frontend.syntax import Span

I32, I1 = Scalar("i32"), Scalar("i1")

IDENTITIES = ("lane", "warp", "thread")
"""Names of what a thread is; plain names, which a program may give another meaning."""

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


class Part(NamedTuple):
    """`n.part(i, count)` of the block variable `block`."""

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
    """`lane`, `warp` or `thread`."""

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


# --- statements ---


class Wait(NamedTuple):
    entry: Entry
    parity: Value
    sem: str
    scope: str
    by: str
    span: Span


class Arrive(NamedTuple):
    entry: Entry
    count: int
    by: str
    span: Span


class Expect(NamedTuple):
    entry: Entry
    bytes: int
    span: Span


class Load(NamedTuple):
    destination: Place
    source: Slice
    entry: Entry
    hint: str
    span: Span


class Store(NamedTuple):
    destination: Slice
    source: Place
    reduce: str
    hint: str
    span: Span


class Fill(NamedTuple):
    """`c[s] <- bf16(x)`."""

    destination: Place
    source: Value
    span: Span


class CommitEntry(NamedTuple):
    """`commit full[slot]`."""

    entry: Entry
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
    """`sync role`, `sync warp`, `sync cta`, `sync 3, 128`."""

    what: str
    number: int
    threads: int
    span: Span


class Product(NamedTuple):
    """`mma d[i] += a[slot] @ b[slot].T, keep`."""

    d: Place
    a: Place
    b: Place
    keep: Value | None
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
