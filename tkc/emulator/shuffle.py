"""What the lanes of a warp do together: shuffles, votes, matches and reductions (PTX 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import (
    BOOLS,
    F32,
    FULL,
    LANE,
    LANES,
    S32,
    SELECT,
    U32,
    U64,
    Vec,
    constant,
    mask_of,
    view,
)

_LANES = np.arange(LANES)


@lru_cache(maxsize=4096)
def _sources(mode: str, lane: bytes, clamp: bytes) -> tuple[Vec, int]:
    """(the lane that each lane reads from, mask of the lanes whose source is in range)."""
    b = np.frombuffer(lane, U32).astype(np.int64) & 0x1F
    c = np.frombuffer(clamp, U32).astype(np.int64)
    limit, segment = c & 0x1F, c >> 8 & 0x1F
    most = (_LANES & segment) | (limit & ~segment)
    least = _LANES & segment
    if mode == "up":
        j = _LANES - b
        valid = j >= most
    elif mode == "down":
        j = _LANES + b
        valid = j <= most
    elif mode == "bfly":
        j = _LANES ^ b
        valid = j <= most
    else:
        j = least | (b & ~segment)
        valid = j <= most
    j = np.where(valid, j, _LANES)
    j.flags.writeable = False
    return j, mask_of(valid)


def _shfl(i: Instruction) -> Semantic:
    mode = i.mod("mode")
    d = i.dst("d", 32)
    p = i.dst("p", 1) if i.given("p") else -1
    a, lane, clamp = i.src("a", U32), i.src("lane", U32), i.src("clamp", U32)
    mask = i.src("mask", U32)
    i.follows = True

    def run(w: Any) -> None:
        R = w.R
        source, valid = _sources(mode, view(R[lane], U32).tobytes(), view(R[clamp], U32).tobytes())
        x = R[a]
        w.put(d, x.take(source))
        if p >= 0:
            w.put_predicate(p, valid)
        there = w.mask
        bad = 0
        if w.taint or there != FULL:
            # A lane that is not there, or holds nothing, gives nothing.
            gives = BOOLS[there & ~w.holds_nothing(a)]
            bad = mask_of(~gives[source])
            bad |= w.tainted(lane, clamp)
            w.taint_result(d, bad)
            if p >= 0:
                w.taint_result(p, 0)

    return Collective(run, mask)


def _vote(i: Instruction) -> Semantic:
    ballot = i.row.name.endswith("ballot")
    mode = "ballot" if ballot else i.mod("mode")
    d = i.dst("d", 32) if ballot else i.dst("p", 1)
    a, negated = i.predicate("a")
    mask = i.src("mask", U32)

    def run(w: Any) -> None:
        there = w.mask
        p = (w.R[a] ^ FULL if negated else w.R[a]) & there
        if ballot:
            w.put(d, constant(p, U32))
            return
        result = {"all": p == there, "any": p != 0, "uni": p in (0, there)}[mode]
        w.put_predicate(d, FULL if result else 0)

    return Collective(run, mask)


def _match(i: Instruction) -> Semantic:
    every = i.row.name.startswith("match.all")
    dtype = U64 if i.type == "b64" else U32
    d = i.dst("d", 32)
    p = i.dst("p", 1) if i.given("p") else -1
    a, mask = i.src("a", dtype), i.src("mask", U32)

    def run(w: Any) -> None:
        x = view(w.R[a], dtype)
        there = w.mask
        active = BOOLS[there]
        if every:
            same = len(set(x[active].tolist())) == 1
            w.put(d, constant(there if same else 0, U32))
            if p >= 0:
                w.put_predicate(p, FULL if same else 0)
            return
        equal = (x[:, None] == x[None, :]) & active[None, :]
        weights = (np.uint64(1) << LANE.astype(U64))[None, :]
        w.put(d, (equal * weights).sum(axis=1).astype(U32))

    return Collective(run, mask)


_REDUCTIONS: dict[str, Callable[[Vec], Any]] = {
    "add": lambda v: np.add.reduce(v, dtype=v.dtype),
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def _redux(i: Instruction) -> Semantic:
    floating = i.row.name.endswith("f32")
    dtype = F32 if floating else (S32 if i.type == "s32" else U32)
    op = i.mod("op")
    absolute, keeps_nan = i.has("abs"), i.has("nan")
    d, a, mask = i.dst("d", 32), i.src("a", dtype), i.src("mask", U32)
    fn = _REDUCTIONS[op]
    if floating and not keeps_nan:
        fn = np.fmin.reduce if op == "min" else np.fmax.reduce

    def run(w: Any) -> None:
        x = view(w.R[a], dtype)[SELECT[w.mask]]
        w.put(d, np.full(LANES, fn(np.abs(x) if absolute else x), dtype))

    return Collective(run, mask)


def _activemask(i: Instruction) -> Semantic:
    d = i.dst("d", 32)
    return lambda w: w.put(d, constant(w.mask, U32))


SEMANTICS: dict[str, Builder] = {
    "shfl.sync": _shfl,
    "shfl.sync.valid": _shfl,
    "vote.sync": _vote,
    "vote.sync.ballot": _vote,
    "match.any.sync": _match,
    "match.all.sync": _match,
    "match.all.sync.pred": _match,
    "redux.sync": _redux,
    "redux.sync.f32": _redux,
    "activemask": _activemask,
}
