"""The warpgroup's asynchronous matrix multiply of sm_90a (PTX 9.7.14).

Accumulation: the K products of one instruction are summed in float32 by the host's matrix product and then added to the
accumulator in float32; integers are exact. An operation starts when all four warps of the warpgroup have issued it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.follow import spread
from tkc.emulator.instruction import (
    PARKED,
    Blocking,
    Builder,
    Collective,
    Ending,
    Instruction,
    Semantic,
)
from tkc.emulator.lanes import F16, F32, FULL, S32, U8, U16, U32, U64, Vec, mask_of, view
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
from tkc.emulator.tiles import decode_values, matrix
from tkc.ir.isa.fragments import a_fragment_8, a_fragment_16, a_fragment_32, accumulator_fragment
from tkc.ir.isa.layouts import WGMMA_DESCRIPTOR, Major
from tkc.ir.isa.memory import Done, Proxy

WARPGROUP = 4
ROWS = 64

_BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_PLACES = {"d": accumulator_fragment, 16: a_fragment_16, 32: a_fragment_32, 8: a_fragment_8}

Places = tuple[Vec, Vec]
"""(rows, columns) of each value (first axis) of the 32 lanes of a warp (second axis)."""


@lru_cache(maxsize=256)
def places(which: str | int, values: int, warp: int) -> Places:
    """Where the values of warp 0..3 lie: which is "d", or the bits of A's type."""
    t = np.arange(32 * warp, 32 * warp + 32)[None, :]
    v = np.arange(values)[:, None]
    rows, columns = _PLACES[which](t, v)  # pyright: ignore
    return np.broadcast_to(rows, (values, 32)), np.broadcast_to(columns, (values, 32))


class Warpgroup:
    """The wgmma of one warpgroup: how many of them have been done, who has issued which, and who waits."""

    __slots__ = ("came", "done", "waiting")

    def __init__(self) -> None:
        self.done = 0
        self.came: dict[int, dict[int, tuple[Any, ...]]] = {}
        self.waiting: list[Any] = []


class Issued:
    """The wgmma of one warp: how many it has issued, and how many it had at each commit."""

    __slots__ = ("commits", "count")

    def __init__(self) -> None:
        self.count = 0
        self.commits: list[int] = []


def _warpgroup(w: Any) -> Warpgroup:
    key = ("wgmma", w.index // WARPGROUP)
    found = w.cta.engines.get(key)
    if found is None:
        found = w.cta.engines[key] = Warpgroup()
    return found


def _issued(w: Any) -> Issued:
    found = w.groups.get("wgmma")
    if found is None:
        found = w.groups["wgmma"] = Issued()
    return found


class _Operation:
    """One wgmma.mma_async, decoded."""

    def __init__(self, i: Instruction) -> None:
        shape = _SHAPE.fullmatch(i.mod("shape"))
        assert shape is not None
        self.i = i
        self.n, self.k = int(shape.group(1)), int(shape.group(2))
        self.a_kind, self.b_kind, self.d_kind = i.mod("atype"), i.mod("btype"), i.mod("dtype")
        if self.a_kind == "b1":
            raise ValueError("type .b1 is not covered")
        if i.has("satfinite"):
            raise ValueError("modifier .satfinite is not covered")
        self.bits = _BITS[self.a_kind]
        self.half = self.d_kind == "f16"
        count = self.n // (4 if self.half else 2)
        dests = i.dsts("d")
        if len(dests) != count:
            raise ValueError(f"{len(dests)} accumulator registers, expected {count}")
        self.d = [slot for slot, _ in dests]
        self.from_registers = i.given("a")
        self.a = [s for s, _ in i.srcs("a", U32)] if self.from_registers else []
        self.a_desc = -1 if self.from_registers else i.src("a_desc", U64)
        self.b_desc = i.src("b_desc", U64)
        self.scale_d, self.negated = i.predicate("scale_d")
        self.signs = [i.immediate(n) if i.given(n) else 1 for n in ("scale_a", "scale_b")]
        self.trans_a = bool(i.given("trans_a") and i.immediate("trans_a"))
        self.trans_b = bool(i.given("trans_b") and i.immediate("trans_b"))
        # D is read as well, but only where scale-d holds: the step follows it itself.
        i.sources.extend(self.d)
        i.follows = True
        self.origin = Origin(i, Proxy.ASYNC, Done.WGMMA_GROUP)

    def issue(self, w: Any) -> None:
        """One warp comes to the instruction; the last of four starts it."""
        group, mine = _warpgroup(w), _issued(w)
        number = mine.count
        mine.count += 1
        accumulate = bool(w.uniform_predicate(self.scale_d, self.negated))
        snapshot = [w.R[s] for s in self.a]
        words = (w.uniform(self.a_desc) if self.a_desc >= 0 else 0, w.uniform(self.b_desc))
        came = group.came.setdefault(number, {})
        came[w.index % WARPGROUP] = (w, self, accumulate, snapshot, words)
        if len(came) < WARPGROUP:
            return
        del group.came[number]
        if any(operation is not self for _, operation, *_ in came.values()):
            raise Stop(
                "TK316", "the warps of a warpgroup issue different wgmma", ins=self.i, warp=w
            )
        w.machine.report.count("mma.wgmma")
        w.machine.issue("wgmma", self._steps(w, group, came), self.i, w.cta.cluster, group)

    def _steps(self, w: Any, group: Warpgroup, came: dict[int, tuple[Any, ...]]) -> Iterator[None]:
        yield
        self._compute(w, came)
        group.done += 1
        waiting, group.waiting = group.waiting, []
        for path in waiting:
            path.waits = ""
            w.machine.wake(path)

    def _compute(self, w: Any, came: dict[int, tuple[Any, ...]]) -> None:
        i, cta = self.i, w.cta
        agent = f"wgmma of {cta.name} warpgroup {w.index // WARPGROUP}"
        _, _, _, _, (a_word, b_word) = came[0]
        b, bad_b = matrix(
            cta, agent, self.origin, WGMMA_DESCRIPTOR, b_word,
            kind=self.b_kind, slot_bits=self.bits, major=Major.MN if self.trans_b else Major.K,
            rows=self.n, k=self.k,
        )  # fmt: skip
        bad_a: Vec | None
        if self.from_registers:
            a, bad_a = self._a_registers(came)
        else:
            a, bad_a = matrix(
                cta, agent, self.origin, WGMMA_DESCRIPTOR, a_word,
                kind=self.a_kind, slot_bits=self.bits, major=Major.MN if self.trans_a else Major.K,
                rows=ROWS, k=self.k,
            )  # fmt: skip
        if self.signs[0] * self.signs[1] < 0:
            a = -a
        product = a @ b.T
        for quarter, (warp, _, accumulates, _, _) in came.items():
            self._write(i, warp, quarter, product, accumulates, bad_a, bad_b)

    def _a_registers(self, came: dict[int, tuple[Any, ...]]) -> tuple[Vec, Vec | None]:
        a = np.zeros((ROWS, self.k), F32)
        bad: Vec | None = None
        per = 32 // self.bits
        for quarter, (warp, _, _, snapshot, _) in came.items():
            rows, columns = places(self.bits, 4 * per, quarter)
            raw = np.stack([view(x, U32) for x in snapshot])
            values = decode_values(raw[:, :, None].view(U8), self.a_kind)
            a[rows, columns] = np.moveaxis(values, 2, 1).reshape(4 * per, 32)
            if warp.taint and any(warp.taint.get(s) for s in self.a):
                bad = np.zeros(ROWS, bool) if bad is None else bad
                bad[16 * quarter : 16 * quarter + 16] = True
        return a, bad

    def _write(
        self,
        i: Instruction,
        warp: Any,
        quarter: int,
        product: Vec,
        accumulate: bool,
        bad_a: Vec | None,
        bad_b: Vec | None,
    ) -> None:
        R = warp.R
        values = self.n // 2
        rows, columns = places("d", values, quarter)
        mine = product[rows, columns]
        if self.half:
            if accumulate:
                old = np.stack([view(R[s], U32) for s in self.d])
                mine[0::2] += (old & np.uint32(0xFFFF)).astype(U16).view(F16)
                mine[1::2] += (old >> np.uint32(16)).astype(U16).view(F16)
            halves = mine.astype(F16).view(U16).astype(U32)
            mine = halves[1::2] << np.uint32(16) | halves[0::2]
        elif self.d_kind == "s32":
            mine = mine.astype(S32)
            if accumulate:
                mine += np.stack([view(R[s], S32) for s in self.d])
        elif accumulate:
            mine += np.stack([view(R[s], F32) for s in self.d])
        for k, slot in enumerate(self.d):
            R[slot] = mine[k]
        taint = warp.taint
        if taint and not accumulate:
            for slot in self.d:
                taint.pop(slot, None)
        if bad_a is not None or bad_b is not None:
            bad = np.zeros((ROWS, self.n), bool)
            if bad_a is not None:
                bad |= bad_a[:, None]
            if bad_b is not None:
                bad |= bad_b[None, :]
            lanes = bad[rows, columns]
            for k in range(values):
                slot = self.d[k // 2 if self.half else k]
                mask = mask_of(lanes[k])
                if mask:
                    taint[slot] = taint.get(slot, 0) | spread(mask)


def _mma(i: Instruction) -> Semantic:
    operation = _Operation(i)
    return Collective(_whole(i, operation.issue))


def _whole(i: Instruction, step: Any) -> Any:
    """Refuses a warp of which lanes have ended."""

    def run(w: Any) -> None:
        if w.mask != FULL:
            raise Stop("TK316", f"{i.statement.mnemonic} by part of a warp", ins=i, warp=w)
        step(w)

    return run


def _commit(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        mine = _issued(w)
        mine.commits.append(mine.count)

    return Collective(run)


def _wait(i: Instruction) -> Semantic:
    newest = i.immediate("count")

    def make(following: int) -> Ending:
        def run(w: Any, path: Any) -> int:
            group, mine = _warpgroup(w), _issued(w)
            kept = len(mine.commits) - newest
            if kept <= 0 or group.done >= mine.commits[kept - 1]:
                if kept > 0:
                    del mine.commits[: kept - 1]
                return following
            path.pc = following - 1
            path.waits = "wgmma groups of its warpgroup"
            group.waiting.append(path)
            return PARKED

        return run

    return Blocking(make)


SEMANTICS: dict[str, Builder] = {
    "wgmma.fence": lambda i: Collective(lambda w: None),
    "wgmma.mma_async": _mma,
    "wgmma.mma_async.rs": _mma,
    "wgmma.commit_group": _commit,
    "wgmma.wait_group": _wait,
}
