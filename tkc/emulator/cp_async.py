"""Copies of 4, 8 or 16 bytes by each thread: cp.async and its groups, and asynchronous remote stores (PTX 9.7.9.25).

Copies are done where they are issued in the eager schedule, else later; a group, or an arrival, follows the copies of
its thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tkc.emulator.addresses import address_reader, global_parts, shared_parts
from tkc.emulator.bulk import Token, aligned, barrier_of, reduction, scalar_reader, shared_place
from tkc.emulator.instruction import Blocking, Builder, Instruction, Semantic, Step
from tkc.emulator.lanes import SELECT, U8, U32, U64, UNSIGNED, Vec, view
from tkc.emulator.spaces import SHARED_WINDOW, Origin
from tkc.ir.isa.memory import Done, Proxy


class CopyGroups:
    """The cp.async of one warp: those since the last commit, and the committed groups, oldest first."""

    __slots__ = ("committed", "open")

    def __init__(self) -> None:
        self.open: list[Token] = []
        self.committed: list[list[Token]] = []


def _groups(w: Any) -> CopyGroups:
    found = w.groups.get("cp_async")
    if found is None:
        found = w.groups["cp_async"] = CopyGroups()
    return found


def _copy(i: Instruction) -> Step:
    size = i.immediate("size")
    if size not in (4, 8, 16):
        raise ValueError(f"{size} bytes, expected 4, 8 or 16")
    dst, src = address_reader(i, "dst"), address_reader(i, "src")
    limit = i.src("src_size", U32) if i.given("src_size") else -1
    ignore, negated = i.predicate("ignore") if i.given("ignore") else (-1, False)
    if i.given("policy"):
        i.src("policy", U64)
    origin = Origin(i, Proxy.GENERIC, Done.CP_ASYNC_GROUP)

    def run(w: Any) -> None:
        where = dst(w)
        if where.dtype is not U32:
            where = np.where(
                where >= SHARED_WINDOW, where - np.uint64(SHARED_WINDOW), where
            ).astype(U32)
        source = src(w)
        take = np.full(len(source), size, np.int64)
        if limit >= 0:
            take = view(w.R[limit], U32)[SELECT[w.mask]].astype(np.int64)
            if int(take.max()) > size:
                from tkc.emulator.report import Stop

                raise Stop(
                    "TK321", f"cp.async of {size} bytes takes {int(take.max())}", ins=i, warp=w
                )
        if ignore >= 0:
            p = w.R[ignore] if not negated else ~w.R[ignore]
            skipped = (p >> SELECT[w.mask].astype(np.int64)) & 1
            take = np.where(skipped == 1, 0, take)
        token = Token()
        _groups(w).open.append(token)
        steps = _steps(w, i, origin, where, source.astype(U64), take, size, token)
        w.machine.issue("cp.async", steps, i, w, done=Done.CP_ASYNC_GROUP, token=token)

    return run


def _steps(
    w: Any,
    i: Instruction,
    origin: Origin,
    where: Vec,
    source: Vec,
    take: Vec,
    size: int,
    token: Token,
) -> Iterator[None]:
    machine, memory = w.machine, w.machine.memory
    agent = w
    whole = take == size
    data = np.zeros((len(where), size), U8)
    bad = np.zeros(len(where), bool)
    yield
    # Generic addresses of global memory are the global ones; other windows are no source.
    if whole.any():
        at = np.flatnonzero(whole)
        for region, offsets, inner in global_parts(w, origin, source[at], size):
            width, count = (32, 1) if size == 4 else (64, size // 8)
            raw = memory.read(agent, origin, region, offsets, width, count)
            to = at if inner is None else at[inner]
            data[to] = np.ascontiguousarray(raw).view(U8).reshape(len(offsets), size)
            unwritten = memory.unwritten(region, offsets, size)
            if unwritten is not None:
                bad[to] = unwritten
    for k in np.flatnonzero(~whole & (take > 0)).tolist():
        for region, offsets, _ in global_parts(w, origin, source[k : k + 1], 1):
            start, count = int(offsets[0]), int(take[k])
            part, _ = memory.read_box(agent, origin, region, start, (count,), (1,))
            data[k, :count] = part
    yield
    for region, offsets, inner in shared_parts(w, origin, where, False):
        values = data if inner is None else data[inner]
        width, count = (32, 1) if size == 4 else (64, size // 8)
        words = np.ascontiguousarray(values).view(UNSIGNED[width])
        memory.write(
            agent, origin, region, offsets, words if count > 1 else words[:, 0], width, count
        )
        marked = bad if inner is None else bad[inner]
        if marked.any():
            memory.poison(region, offsets[marked], size)
    token.advance(machine, True)


def _commit(i: Instruction) -> Step:
    def run(w: Any) -> None:
        groups = _groups(w)
        groups.committed.append(groups.open)
        groups.open = []

    return run


def _wait(everything: bool) -> Builder:
    def build(i: Instruction) -> Semantic:
        newest = 0 if everything else i.immediate("count")

        def unfinished(w: Any) -> Token | None:
            groups = _groups(w)
            kept = max(len(groups.committed) - newest, 0)
            waited = groups.committed[:kept] + ([groups.open] if everything else [])
            for group in waited:
                for token in group:
                    if not token.done:
                        return token
            if w.machine.record is not None:
                done = [t.operation.time for g in waited for t in g if t.operation is not None]
                if done:
                    w.machine.record.copied(w, max(done))
            del groups.committed[:kept]
            if everything:
                groups.open = []
            return None

        return Blocking.until(unfinished, "cp.async")

    return build


def _arrive(i: Instruction) -> Step:
    """An arrival when every earlier cp.async of the thread is done; without `.noinc` it is one more pending."""
    bar = scalar_reader(i, "bar")
    noinc = i.has("noinc")

    def steps(w: Any, addresses: list[int], tokens: list[Token], number: int) -> Iterator[None]:
        while not all(t.done for t in tokens):
            yield
        for address in addresses:
            target = barrier_of(w, address, i)
            if w.machine.record is not None:
                w.machine.record.copies_arrive(w, target, number, i)
            target.arrive(1, i, w)

    def run(w: Any) -> None:
        groups = _groups(w)
        tokens = [t for g in (*groups.committed, groups.open) for t in g]
        addresses = [bar(w, lane) for lane in w.lanes()]
        for address in addresses:
            target = barrier_of(w, address, i)
            if not noinc:
                target.pending += 1
        # The copies are numbered as they are issued.
        number = w.clock.copies if w.clock is not None else 0
        w.machine.issue("cp.async.mbarrier.arrive", steps(w, addresses, tokens, number), i, w)

    return run


# Remote stores that complete on an mbarrier


def _store_async(i: Instruction) -> Step:
    bits = int("".join(c for c in i.type if c.isdigit()))
    if bits == 128:
        raise ValueError("type .b128 is not covered")
    dtype = UNSIGNED[bits]
    slots = [s for s, _ in i.srcs("a", np.dtype(f"float{bits}") if i.type[0] == "f" else dtype)]
    address, bar = scalar_reader(i, "addr"), scalar_reader(i, "bar")
    combine = reduction(i.mod("op"), i.type, "shared") if i.row.name == "red.async" else None
    # PTX 8.6: where nothing else is said, an access is one of the generic proxy.
    origin = Origin(i, Proxy.GENERIC, Done.MBARRIER_TX)
    size = bits // 8 * len(slots)

    def steps(w: Any, place: int, bar_address: int, values: Vec) -> Iterator[None]:
        memory = w.machine.memory
        cta, offset = shared_place(w, place, i)
        target = barrier_of(w, bar_address, i)
        aligned(offset, size, "the address", i, w)
        yield
        data = values
        if combine is not None:
            dtype_in, fn = combine
            old, _ = memory.read_box(w, origin, cta.shared, offset, (size,), (1,))
            data = np.ascontiguousarray(fn(old.view(dtype_in), values.view(dtype_in)))
        memory.write_box(w, origin, cta.shared, offset, (1,), data.view(U8))
        yield
        target.complete(size, i, w)

    def run(w: Any) -> None:
        for lane in w.lanes():
            values = np.array([view(w.R[s], dtype)[lane] for s in slots], dtype)
            taken = steps(w, address(w, lane), bar(w, lane), values)
            w.machine.issue("st.async", taken, i, w, lane)

    return run


def _store_bulk(i: Instruction) -> Step:
    """st.bulk: zeros to shared memory."""
    address = scalar_reader(i, "addr")
    size_slot, _ = i.src_wide("bytes", U64)
    origin = Origin(i)

    def run(w: Any) -> None:
        for lane in w.lanes():
            cta, offset = shared_place(w, address(w, lane), i)
            size = int(w.R[size_slot][lane])
            aligned(offset, 8, "the address", i, w)
            aligned(size, 8, "the size", i, w)
            w.machine.memory.write_box(w, origin, cta.shared, offset, (1,), np.zeros(size, U8))

    return run


SEMANTICS: dict[str, Builder] = {
    "cp.async": _copy,
    "cp.async.ignore": _copy,
    "cp.async.commit_group": _commit,
    "cp.async.wait_group": _wait(False),
    "cp.async.wait_all": _wait(True),
    "cp.async.mbarrier.arrive": _arrive,
    "st.async": _store_async,
    "st.async.vec": _store_async,
    "red.async": _store_async,
    "st.bulk": _store_bulk,
}
