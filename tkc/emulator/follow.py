"""How uninitialised values travel through registers: which bytes of which lanes hold one.

A warp's `taint` maps a slot to an integer: bits 32k .. 32k + 31 are the lanes in which byte k of the register is
uninitialised. Most instructions make every byte of their result uninitialised in a lane in which any byte of a source
is; those that only move bits know better, since compilers build registers of which a part stays undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tkc.emulator.lanes import FULL

if TYPE_CHECKING:
    from tkc.emulator.warp import Warp

Follow = Callable[["Warp"], None]

BYTES = 16
"""Bytes of the widest register."""

_EVERY_BYTE = sum(1 << (32 * k) for k in range(BYTES))


def spread(lanes: int) -> int:
    """Every byte of a register, in these lanes."""
    return lanes * _EVERY_BYTE


def fold(taint: int) -> int:
    """The lanes in which any byte is uninitialised."""
    for half in (256, 128, 64, 32):
        taint |= taint >> half
    return taint & FULL


def put(warp: Warp, slot: int, value: int) -> None:
    """Sets the taint of a slot in the active lanes."""
    if slot < 0:
        return
    taint = warp.taint
    old = taint.get(slot, 0)
    active = spread(warp.mask)
    new = (old & ~active) | (value & active)
    if new:
        taint[slot] = new
    elif old:
        del taint[slot]


def nothing(warp: Warp) -> None:
    """For steps that follow values themselves."""


def whole(sources: Sequence[int], dests: Sequence[int]) -> Follow:
    """Every byte of the results, in lanes where any byte of a source is uninitialised."""
    reads = tuple(dict.fromkeys(sources))
    writes = tuple(dict.fromkeys(d for d in dests if d >= 0))

    def run(warp: Warp) -> None:
        taint, bad = warp.taint, 0
        for slot in reads:
            bad |= taint.get(slot, 0)
        value = spread(fold(bad)) if bad else 0
        for slot in writes:
            put(warp, slot, value)

    return run if writes else nothing


def bytewise(sources: Sequence[int], dest: int, keep: int = -1) -> Follow:
    """Byte by byte; `keep` says for each byte of the result whether it depends on the sources at all."""
    reads = tuple(dict.fromkeys(sources))
    passed = sum(FULL << (32 * k) for k in range(BYTES) if keep < 0 or keep >> (8 * k) & 0xFF)

    def run(warp: Warp) -> None:
        taint, bad = warp.taint, 0
        for slot in reads:
            bad |= taint.get(slot, 0)
        put(warp, dest, bad & passed)

    return run


def partwise(sources: Sequence[int], dest: int, size: int) -> Follow:
    """Part by part of `size` bytes, as packed arithmetic does: what one part holds reaches no other."""
    reads = tuple(dict.fromkeys(sources))
    first = sum(FULL << (32 * k) for k in range(0, BYTES, size))

    def run(warp: Warp) -> None:
        taint, bad = warp.taint, 0
        for slot in reads:
            bad |= taint.get(slot, 0)
        if bad:
            for _ in range(1, size):
                bad |= bad >> 32
            bad &= first
            for _ in range(1, size):
                bad |= bad << 32
        put(warp, dest, bad)

    return run


def shifted(source: int, dest: int, count: int, bits: int) -> Follow:
    """A shift by a constant number of bits, to the left where it is positive; whole bytes travel exactly."""
    width = (1 << (4 * bits)) - 1

    def run(warp: Warp) -> None:
        bad = warp.taint.get(source, 0) & width
        step = 32 * (abs(count) // 8)
        moved = bad << step if count >= 0 else bad >> step
        if count % 8:
            moved |= moved << 32 if count >= 0 else moved >> 32
        put(warp, dest, moved & width)

    return run


def extended(source: int, dest: int, bits: int, signed: bool) -> Follow:
    """The low `bits` of a register, extended; a sign spreads."""
    low = (1 << (4 * bits)) - 1

    def run(warp: Warp) -> None:
        bad = warp.taint.get(source, 0) & low
        if signed and bad:
            top = bad >> (4 * bits - 32) & FULL
            bad |= spread(top) & ~low
        put(warp, dest, bad)

    return run


def packed(parts: Sequence[int], dest: int, bits: int) -> Follow:
    """Parts of `bits` bits joined, lowest first."""
    low, step = (1 << (4 * bits)) - 1, 4 * bits

    def run(warp: Warp) -> None:
        taint, joined = warp.taint, 0
        for k, slot in enumerate(parts):
            joined |= (taint.get(slot, 0) & low) << (k * step)
        put(warp, dest, joined)

    return run


def unpacked(source: int, dests: Sequence[int], bits: int) -> Follow:
    """A register split into parts of `bits` bits, lowest first."""
    low, step = (1 << (4 * bits)) - 1, 4 * bits

    def run(warp: Warp) -> None:
        value = warp.taint.get(source, 0)
        for k, slot in enumerate(dests):
            put(warp, slot, value >> (k * step) & low)

    return run


def permuted(low: int, high: int, dest: int, selector: int) -> Follow:
    """prmt with a constant selector: each byte of the result is one of eight."""

    def run(warp: Warp) -> None:
        taint = warp.taint
        both = (taint.get(low, 0) & ((1 << 128) - 1)) | taint.get(high, 0) << 128
        value = 0
        for k in range(4):
            value |= (both >> (32 * (selector >> (4 * k) & 7)) & FULL) << (32 * k)
        put(warp, dest, value)

    return run
