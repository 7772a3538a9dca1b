"""The warpgroup's asynchronous matrix multiply of sm_90a (PTX 9.7.14).

Sums are the hardware's own, bit for bit (see `sums.py`); integers are exact. An operation starts when all four warps of
the warpgroup have issued it.
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
from tkc.emulator.lanes import F16, F32, FULL, S32, S64, U8, U16, U32, U64, Vec, mask_of, view
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
from tkc.emulator.sums import add_products, row_of
from tkc.emulator.tiles import decode_values, matrix
from tkc.ir.isa.fragments import a_fragment_8, a_fragment_16, a_fragment_32, accumulator_fragment
from tkc.ir.isa.layouts import WGMMA_DESCRIPTOR, Major
from tkc.ir.isa.memory import Done, Proxy

WARPGROUP = 4
ROWS = 64

_BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_PLACES = {
    "d": accumulator_fragment,
    16: a_fragment_16,
    32: a_fragment_32,
    8: a_fragment_8,
    1: lambda t, v: (
        16 * (t // 32) + t % 32 // 4 + 8 * ((v >> 5) & 1),
        32 * (t % 4) + (v & 31) + 128 * (v >> 6),
    ),
}

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
    """The wgmma of one warpgroup: how many of them have been done, who has issued which, and who waits.

    `last` is what the last one left: its registers, what it put into them for each warp, and the matrix.
    """

    __slots__ = ("came", "done", "last", "waiting")

    def __init__(self) -> None:
        self.done = 0
        self.came: dict[int, dict[int, tuple[Any, ...]]] = {}
        self.waiting: list[Any] = []
        self.last: tuple[list[int], list[list[Vec]], Vec] | None = None


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


class Operation:
    """One wgmma.mma_async, decoded."""

    def __init__(self, i: Instruction) -> None:
        shape = _SHAPE.fullmatch(i.mod("shape"))
        assert shape is not None
        self.i = i
        self.n, self.k = int(shape.group(1)), int(shape.group(2))
        self.stored = self.k
        """Columns that A has in registers or shared memory; fewer than K where it is sparse."""
        self.more: list[int] = []
        """Registers besides A's whose values count when the operation is issued."""
        self.a_kind, self.b_kind, self.d_kind = i.mod("atype"), i.mod("btype"), i.mod("dtype")
        self.saturates = i.has("satfinite")
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
        snapshot = [w.R[s] for s in (*self.a, *self.more)]
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
        machine = w.machine
        steps = self._steps(w, group, came)
        if machine.record is not None:
            warps = [warp for warp, *_ in came.values()]
            op = machine.record.issued_together("wgmma", warps, self.i, number)
            steps = machine.record.follow(op, steps)
        machine.start("wgmma", steps, self.i, w.cta.cluster, group)

    def _steps(self, w: Any, group: Warpgroup, came: dict[int, tuple[Any, ...]]) -> Iterator[None]:
        yield
        self._compute(w, came)
        group.done += 1
        waiting, group.waiting = group.waiting, []
        for path in waiting:
            path.waits = ""
            w.machine.wake(path)

    def _compute(self, w: Any, came: dict[int, tuple[Any, ...]]) -> None:
        cta = w.cta
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
                rows=ROWS, k=self.stored,
            )  # fmt: skip
        a, bad_a = self.dense(a, bad_a, came)
        if self.signs[0] * self.signs[1] < 0:
            a = -a
        group = _warpgroup(w)
        c = self._accumulator(group, came)
        d = self._sum(a, b, c)
        written: list[Any] = []
        for quarter, (warp, _, accumulates, _, _) in came.items():
            written.append(self._write(warp, quarter, d))
            self._follow(warp, quarter, accumulates, bad_a, bad_b)
        group.last = (self.d, written, d)

    def dense(
        self, a: Vec, bad: Vec | None, came: dict[int, tuple[Any, ...]]
    ) -> tuple[Vec, Vec | None]:
        """A with all K columns, and which of its rows are uninitialised."""
        return a, bad

    def _accumulator(self, group: Warpgroup, came: dict[int, tuple[Any, ...]]) -> Vec | None:
        """C as a matrix, with zeros where a warp does not accumulate; None where none does."""
        if not any(accumulates for _, _, accumulates, _, _ in came.values()):
            return None
        if group.last is not None and all(accumulates for _, _, accumulates, _, _ in came.values()):
            slots, written, d = group.last
            if slots == self.d and all(
                warp.R[slot] is value
                for (warp, *_), values in zip(came.values(), written, strict=True)
                for slot, value in zip(slots, values, strict=True)
            ):
                # Nothing has touched the registers since: they hold what the last one left there.
                return d
        c = np.zeros((ROWS, self.n), S32 if self.d_kind == "s32" else F32)
        for quarter, (warp, _, accumulates, _, _) in came.items():
            if not accumulates:
                continue
            rows, columns = places("d", self.n // 2, quarter)
            R = warp.R
            if self.half:
                packed = np.stack([view(R[s], U32) for s in self.d])
                c[rows[0::2], columns[0::2]] = (packed & np.uint32(0xFFFF)).astype(U16).view(F16)
                c[rows[1::2], columns[1::2]] = (packed >> np.uint32(16)).astype(U16).view(F16)
            else:
                c[rows, columns] = np.stack([view(R[s], c.dtype) for s in self.d])
        return c

    def _sum(self, a: Vec, b: Vec, c: Vec | None) -> Vec:
        if self.d_kind == "s32":
            total = (a @ b.T).astype(S64)
            if c is not None:
                total += c
            if self.saturates:
                total = np.clip(total, -(1 << 31), (1 << 31) - 1)
            return total.astype(S32)
        row = row_of("wgmma", self.a_kind, self.d_kind)
        assert row is not None
        return add_products(row, (self.a_kind, self.b_kind), a, b, c)

    def _a_registers(self, came: dict[int, tuple[Any, ...]]) -> tuple[Vec, Vec | None]:
        a = np.zeros((ROWS, self.stored), F32)
        bad: Vec | None = None
        per = 32 // self.bits
        for quarter, (warp, _, _, snapshot, _) in came.items():
            rows, columns = places(self.bits, 4 * per, quarter)
            raw = np.stack([view(x, U32) for x in snapshot[: len(self.a)]])
            values = decode_values(raw[:, :, None].view(U8), self.a_kind)
            a[rows, columns] = np.moveaxis(values, 2, 1).reshape(4 * per, 32)
            if warp.taint and any(warp.taint.get(s) for s in self.a):
                bad = np.zeros(ROWS, bool) if bad is None else bad
                bad[16 * quarter : 16 * quarter + 16] = True
        return a, bad

    def _write(self, warp: Any, quarter: int, d: Vec) -> list[Vec]:
        """Puts a warp's part of D into its registers; the vectors that they hold now."""
        rows, columns = places("d", self.n // 2, quarter)
        mine = d[rows, columns]
        if self.half:
            halves = mine.astype(F16).view(U16).astype(U32)
            mine = halves[1::2] << np.uint32(16) | halves[0::2]
        values = list(mine)
        R = warp.R
        for slot, value in zip(self.d, values, strict=True):
            R[slot] = value
        return values

    def _follow(
        self, warp: Any, quarter: int, accumulate: bool, bad_a: Vec | None, bad_b: Vec | None
    ) -> None:
        """Uninitialised rows of A and of B make rows and columns of D uninitialised."""
        taint = warp.taint
        if taint and not accumulate:
            for slot in self.d:
                taint.pop(slot, None)
        if bad_a is None and bad_b is None:
            return
        bad = np.zeros((ROWS, self.n), bool)
        if bad_a is not None:
            bad |= bad_a[:, None]
        if bad_b is not None:
            bad |= bad_b[None, :]
        rows, columns = places("d", self.n // 2, quarter)
        lanes = bad[rows, columns]
        for k in range(len(lanes)):
            mask = mask_of(np.ascontiguousarray(lanes[k]))
            if mask:
                slot = self.d[k // 2 if self.half else k]
                taint[slot] = taint.get(slot, 0) | spread(mask)


def _mma(i: Instruction) -> Semantic:
    operation = Operation(i)
    return Collective(whole_warp(i, operation.issue))


def whole_warp(i: Instruction, step: Any) -> Any:
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
                    if w.machine.record is not None:
                        w.machine.record.multiplied(w, mine.commits[kept - 1])
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
