"""Atomics and reductions on memory (PTX 9.7.13.5, 9.7.13.7).

Lanes that name one place take turns in lane order: each round does those whose place no earlier lane still waits for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.addresses import Part, resolver
from tkc.emulator.bulk import Combine, reduction
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import SELECT, U16, U32, UNSIGNED, Vec, view
from tkc.emulator.memory import lanes_where, type_bits
from tkc.emulator.spaces import Origin, Region

DType = np.dtype[Any]


def _operation(op: str, kind: str, where: str) -> tuple[int, Combine]:
    """(bits of a word, function of old and new words); packed halves combine half by half."""
    if kind in ("f16x2", "bf16x2"):
        dtype, fn = reduction(op, kind[:-2], where)

        def halves(old: Vec, new: Vec) -> Vec:
            a, b = (np.ascontiguousarray(x).view(U16) for x in (old, new))
            if kind == "bf16x2":
                return fn(a, b).view(U32)
            return fn(a.view(dtype), b.view(dtype)).view(U32)

        return 32, halves
    bits = type_bits(kind)
    words = UNSIGNED[bits]
    if op == "exch":
        return bits, lambda old, new: new
    dtype, fn = reduction(op, kind, where)
    if dtype is words:
        return bits, fn
    return bits, lambda old, new: np.ascontiguousarray(fn(old.view(dtype), new.view(dtype))).view(
        words
    )


def _rounds(offsets: Vec) -> list[Vec]:
    """Positions of lanes, so that no round names a place twice and earlier lanes come first."""
    places = offsets.tolist()
    if len(set(places)) == len(places):
        return [np.arange(len(places))]
    turn: dict[int, int] = {}
    rounds: list[list[int]] = []
    for k, place in enumerate(places):
        at = turn.get(place, 0)
        turn[place] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(k)
    return [np.array(r) for r in rounds]


def _apply(
    w: Any, origin: Origin, parts: list[Part], new: Vec, fn: Combine, bits: int, count: int
) -> tuple[Vec, int]:
    """(the old values of the active lanes, mask of those that were never written)."""
    memory = w.machine.memory
    old = np.zeros(new.shape, new.dtype)
    unit = bits // 8 * count
    bad = 0
    for region, offsets, where in parts:
        positions = np.arange(len(offsets)) if where is None else where
        unwritten = memory.unwritten(region, offsets, unit)
        if unwritten is not None:
            bad |= lanes_where(w, where, unwritten)
        for turn in _rounds(offsets):
            here, lanes = offsets[turn], positions[turn]
            before = memory.read(w, origin, region, here, bits, count, lanes)
            old[lanes] = before
            memory.write(w, origin, region, here, fn(before, new[lanes]), bits, count, lanes)
    return old, bad


def _values(w: Any, slots: list[int], dtype: DType) -> Vec:
    """The operands of the active lanes: (n,) or (n, count)."""
    sel = SELECT[w.mask]
    if len(slots) == 1:
        return view(w.R[slots[0]], dtype)[sel]
    return np.stack([view(w.R[s], dtype)[sel] for s in slots], axis=1)


def _atomic(returns: bool) -> Builder:
    def build(i: Instruction) -> Step:
        op = "exch" if i.row.name == "atom.exch" else i.mod("op")
        kind = i.type
        # A register of 128 bits is two words of each lane.
        words = 2 if kind == "b128" else 1
        where = "shared" if i.mod("space").startswith("shared") else "global"
        bits, fn = _operation(op, "b64" if words == 2 else kind, where)
        dtype = UNSIGNED[bits]
        sources = i.srcs("a", np.dtype(f"float{bits}") if kind in ("f32", "f64") else dtype)
        slots = [slot for slot, _ in sources]
        dests = [slot for slot, _ in i.dsts("d")] if returns else []
        origin = Origin(i)
        count = words * len(slots)
        resolve = resolver(i, "addr", i.mod("space"), origin, bits // 8 * count)
        i.follows = True

        def run(w: Any) -> None:
            old, bad = _apply(w, origin, resolve(w), _values(w, slots, dtype), fn, bits, count)
            spread = w.spread(old)
            for k, slot in enumerate(dests):
                w.put(slot, spread if len(dests) == 1 else spread[:, k])
            if bad or w.taint:
                for slot in dests:
                    w.taint_result(slot, bad)
                if (bad and not dests) or w.tainted(*slots):
                    w.machine.found("TK320", "an atomic operation on an uninitialised value", i, w)

        return run

    return build


def _contended(
    w: Any, origin: Origin, place: tuple[Region, Vec, Vec], expected: Vec, new: Vec, bits: int
) -> Vec:
    """The old values of compare-and-swaps of which many name one place, one lane after the other.

    `place` is a region, the lanes' offsets, and the first lane of each place.
    """
    region, offsets, first = place
    memory = w.machine.memory
    here = offsets[first]
    values = memory.read(w, origin, region, here, bits, 1, first)
    current = dict(zip(here.tolist(), values.tolist(), strict=True))
    old: list[int] = []
    changed: set[int] = set()
    for at, wanted, value in zip(offsets.tolist(), expected.tolist(), new.tolist(), strict=True):
        now = current[at]
        old.append(now)
        if now == wanted:
            current[at] = value
            changed.add(at)
    if changed:
        kept = np.array([at in changed for at in here.tolist()])
        values = np.array([current[at] for at in here[kept].tolist()], new.dtype)
        memory.write(w, origin, region, here[kept], values, bits, 1, first[kept])
    return np.array(old, new.dtype)


def _cas(i: Instruction) -> Step:
    size = type_bits(i.type)
    bits, count = (64, 2) if size == 128 else (size, 1)
    dtype = UNSIGNED[bits]
    d = i.dst("d", size)
    (a, have), (b, also) = (i.src_wide(name, dtype) for name in ("a", "b"))
    if {have, also} != {size}:
        raise ValueError(f"operands of {have} and {also} bits, expected {size}")
    origin = Origin(i)
    resolve = resolver(i, "addr", i.mod("space"), origin, size // 8)

    def run(w: Any) -> None:
        memory = w.machine.memory
        expected, new = _values(w, [a], dtype), _values(w, [b], dtype)
        old = np.zeros(new.shape, dtype)
        for region, offsets, where in resolve(w):
            positions = np.arange(len(offsets)) if where is None else where
            turns = _rounds(offsets)
            if len(turns) > 2 and count == 1:
                old[positions] = _contended(
                    w,
                    origin,
                    (region, offsets, turns[0]),
                    expected[positions],
                    new[positions],
                    bits,
                )
                continue
            for turn in turns:
                here, at = offsets[turn], positions[turn]
                before = memory.read(w, origin, region, here, bits, count, at)
                old[at] = before
                same = before == expected[at]
                hit = same.all(axis=1) if count > 1 else same
                if hit.any():
                    memory.write(w, origin, region, here[hit], new[at][hit], bits, count, at[hit])
        w.put(d, w.spread(old))

    return run


SEMANTICS: dict[str, Builder] = {
    "atom": _atomic(True),
    "atom.exch": _atomic(True),
    "atom.vec": _atomic(True),
    "atom.cas": _cas,
    "red": _atomic(False),
    "red.vec": _atomic(False),
}
