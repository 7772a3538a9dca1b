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
    def bytes(self) -> int:
        return -(-self.slot // self.align) * self.align * self.depth


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
    offsets, total = place([Ring.of(b) for b in buffers], [b.depth.value.data for b in barriers])
    if total > limit:
        raise too_large(kernel, buffers, barriers, total, limit)
    return offsets, total


def check_slots(kernel: KernelOp, buffers: list[s.BufferOp], limit: int) -> None:
    """TK204 where one slot is too large by itself: before it is cut into pieces, of which there could be millions."""
    if any(Ring.of(b).slot > limit for b in buffers):
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
