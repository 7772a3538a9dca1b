"""What the buffers and barriers of a kernel take of shared memory, and what to say where they do not fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.layouts import alignment
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.tile.ops import KernelOp

BARRIER_BYTES = 8
"""An mbarrier object (PTX 9.7.15.16: 8 bytes, 8-aligned)."""

WORTH_A_NOTE = 1024
"""Bytes of barriers of one name that are a mistake rather than a ring's."""

TENSOR_ADDRESS_BYTES = 8
"""The word that tcgen05.alloc writes its address to, with padding to keep what follows aligned."""


@dataclass(frozen=True)
class Ring:
    """What placing needs to know of a buffer: the alignment of a slot, its bytes, and how many there are."""

    align: int
    slot: int
    depth: int

    @classmethod
    def of(cls, buffer: s.BufferOp) -> Ring:
        type = _type(buffer)
        return cls(alignment(type.swizzle.data), type.slot_bytes, type.depth.data)

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next."""
        return -(-self.slot // self.align) * self.align

    @property
    def bytes(self) -> int:
        return self.stride * self.depth


def place(rings: list[Ring], barriers: list[int]) -> tuple[list[int], int]:
    """The offset of each ring and of each array of barriers (by depth), and the bytes used in all.

    Widest alignment first, so that no padding stands between rings.
    """
    offsets = [0] * len(rings)
    at = 0
    for i in sorted(range(len(rings)), key=lambda i: -rings[i].align):
        at = -(-at // rings[i].align) * rings[i].align
        offsets[i], at = at, at + rings[i].bytes
    at = -(-at // BARRIER_BYTES) * BARRIER_BYTES
    for depth in barriers:
        offsets.append(at)
        at += BARRIER_BYTES * depth
    return offsets, at + TENSOR_ADDRESS_BYTES


def shared_buffers(operations: Iterable[Operation]) -> list[s.BufferOp]:
    return [
        o for o in operations if isinstance(o, s.BufferOp) and _type(o).home.data == Home.SHARED
    ]


def _type(op: s.BufferOp) -> BufferType:
    type = op.buffer.type
    assert isinstance(type, BufferType)
    return type


def check(
    kernel: s.KernelOp | KernelOp,
    buffers: list[s.BufferOp],
    barriers: list[s.BarriersOp],
    limit: int,
) -> tuple[list[int], int]:
    """The offsets of buffers and barriers and their bytes in all; TK204 where those are more than `limit`."""
    own = [b for b in buffers if b.within is None]
    offsets, total = place([_ring(b, buffers) for b in own], [b.depth.value.data for b in barriers])
    if total > limit:
        raise too_large(kernel, own, barriers, total, limit)
    if len(own) == len(buffers):
        return offsets, total
    _check_fits(buffers)
    at = dict(zip((b.buffer for b in own), offsets, strict=False))
    return [*(at[s.storage(b.buffer)] for b in buffers), *offsets[len(own) :]], total


def _ring(buffer: s.BufferOp, buffers: list[s.BufferOp]) -> Ring:
    """What a buffer takes with all that lie in its place: aligned for each of them."""
    mine = [Ring.of(b) for b in buffers if s.storage(b.buffer) is buffer.buffer]
    own = Ring.of(buffer)
    return replace(own, align=max(ring.align for ring in mine))


def strides(buffers: list[s.BufferOp]) -> dict[s.BufferOp, int]:
    """Bytes from one slot to the next of buffers that share a place: where they have as many slots as the place has,
    as far apart as its own."""
    found: dict[s.BufferOp, int] = {}
    places = {s.storage(b.buffer) for b in buffers if b.within is not None}
    for buffer in buffers:
        place = s.storage(buffer.buffer)
        if place in places:
            base = place.owner
            assert isinstance(base, s.BufferOp)
            ring = Ring.of(buffer)
            alike = ring.depth == Ring.of(base).depth
            found[buffer] = _ring(base, buffers).stride if alike else ring.stride
    return found


def _check_fits(buffers: list[s.BufferOp]) -> None:
    """TK104 where a buffer is larger than the place that it lies in: padding counts, too."""
    apart = strides(buffers)
    for buffer in buffers:
        base = s.storage(buffer.buffer).owner
        assert isinstance(base, s.BufferOp)
        if base is buffer:
            continue
        ring, place = Ring.of(buffer), _ring(base, buffers)
        taken = apart[buffer] * (ring.depth - 1) + ring.slot
        slot = ring.slot if ring.depth == place.depth else 0
        if taken > place.bytes or slot > place.stride:
            raise TkcError.at(
                "TK104",
                f"{buffer.sym_name.data} takes {taken} bytes with its layout, and {base.sym_name.data}, in whose place "
                f"it lies, has {place.bytes}",
                location_of(buffer),
                Note("it lies in this", location_of(base)),
            )


def check_slots(kernel: KernelOp, buffers: list[s.BufferOp], limit: int) -> None:
    """TK204 where one slot is too large by itself: before it is cut into pieces, of which there could be millions."""
    if any(Ring.of(b).slot > limit for b in buffers):
        buffers = [b for b in buffers if b.within is None]
        _, total = place([Ring.of(b) for b in buffers], [])
        raise too_large(kernel, buffers, [], total, limit)


def too_large(
    kernel: s.KernelOp | KernelOp,
    buffers: list[s.BufferOp],
    barriers: list[s.BarriersOp],
    total: int,
    limit: int,
) -> TkcError:
    """What takes how much, and how many slots of the largest ring would fit."""
    sizes = {b: Ring.of(b) for b in buffers}
    sizes |= {
        b: Ring(BARRIER_BYTES, BARRIER_BYTES, b.depth.value.data)
        for b in barriers
        if b.depth.value.data * BARRIER_BYTES > WORTH_A_NOTE
    }
    ranked = sorted(sizes, key=lambda b: -sizes[b].bytes)
    notes = [
        Note(
            f"{b.sym_name.data} takes {sizes[b].bytes} bytes ({sizes[b].depth} x {sizes[b].slot})",
            location_of(b),
        )
        for b in ranked
    ]
    if ranked and isinstance(ranked[0], s.BarriersOp):
        fits = f"fewer barriers than {sizes[ranked[0]].depth} would fit: one a slot is what a ring takes"
    else:
        fits = _what_fits(buffers, barriers, limit)
    return TkcError.at(
        "TK204",
        f"kernel {kernel.sym_name.data} needs {total} bytes of shared memory; the target has {limit}; {fits}",
        location_of(ranked[0]) if ranked else location_of(kernel),
        *notes,
    )


def _what_fits(buffers: list[s.BufferOp], barriers: list[s.BarriersOp], limit: int) -> str:
    """The most slots of the largest ring that fit, with the tiles that ride in rings as deep."""
    written = [b for b in buffers if b.staging is None]
    largest = max(written, key=lambda b: Ring.of(b).bytes, default=None)
    depth = Ring.of(largest).depth if largest is not None else 1
    together = [b for b in written if Ring.of(b).depth == depth]

    def fits(slots: int) -> bool:
        rings = [replace(Ring.of(b), depth=slots) if b in together else Ring.of(b) for b in buffers]
        return place(rings, [min(b.depth.value.data, slots) for b in barriers])[1] <= limit

    fewer = bisect_left(range(1, depth), True, key=lambda slots: not fits(slots))
    if not fewer:
        return "smaller tiles would fit"
    names = " and ".join(b.sym_name.data for b in together if not _type(b).holds_scales)
    return f"{fewer} {'slot' if fewer == 1 else 'slots'} of {names} instead of {depth} would fit"
