"""Bulk copies without a tensor map, and the groups in which bulk copies of a thread are awaited (PTX 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tkc.emulator.instruction import Blocking, Builder, Instruction, Semantic, Step
from tkc.emulator.lanes import U16, U32, U64, Vec, view
from tkc.emulator.mbarrier import MBarrier, find
from tkc.emulator.report import Stop
from tkc.emulator.rounding import bf16_to_f32, canonical, f32_to_bf16, flush
from tkc.emulator.spaces import SHARED_WINDOW, Origin, Region
from tkc.ir.isa.assumptions import notes_on
from tkc.ir.isa.memory import Done, Proxy

DType = np.dtype[Any]


class Token:
    """One bulk store in flight: whether its source has been read, and whether it has been written.

    `awaited` says that a wait of its thread has covered it; `line` is that of its instruction.
    """

    __slots__ = ("awaited", "done", "line", "operation", "read", "waiting")

    def __init__(self, line: int = 0) -> None:
        self.line = line
        self.operation: Any = None
        self.awaited = False
        self.read = False
        self.done = False
        self.waiting: list[Any] = []

    def advance(self, machine: Any, done: bool) -> None:
        self.read = True
        self.done = done
        waiting, self.waiting = self.waiting, []
        for path in waiting:
            path.waits = ""
            machine.wake(path)


class Groups:
    """The bulk groups of one thread: the open one, and those that were committed, oldest first."""

    __slots__ = ("committed", "open", "used", "waited")

    def __init__(self) -> None:
        self.used = False
        self.waited = False
        """Whether the thread has ever issued a bulk store, and ever waited for one."""
        self.open: list[Token] = []
        self.committed: list[list[Token]] = []


def groups_of(w: Any, lane: int) -> Groups:
    found = w.groups.get(("bulk", lane))
    if found is None:
        found = w.groups["bulk", lane] = Groups()
    return found


def check_exit(w: Any, mask: int) -> None:
    """Threads that end must have awaited their bulk stores, which still read the shared memory that goes away (A29)."""
    record = w.machine.record
    strict = record is not None and record.strict
    for key, groups in w.groups.items():
        if isinstance(key, tuple) and key[0] == "bulk" and mask >> key[1] & 1:
            for token in (t for g in (*groups.committed, groups.open) for t in g):
                if not token.awaited:
                    ins = w.machine.instruction_at(token.line)
                    w.machine.found(
                        "TK324",
                        "the thread ends before it has awaited this bulk store",
                        ins,
                        w,
                        warning=not strict,
                        notes=(
                            "cheapest order: cp.async.bulk.wait_group.read 0 in the thread before it ends",
                            *notes_on(() if strict else ("A29",)),
                        ),
                    )


def _commit(i: Instruction) -> Step:
    def run(w: Any) -> None:
        for lane in w.lanes():
            groups = groups_of(w, lane)
            committed = groups.committed
            while committed and all(t.done and t.awaited for t in committed[0]):
                # Nobody will ask for it again.
                del committed[0]
            committed.append(groups.open)
            groups.open = []

    return run


def _wait_group(reads: bool) -> Builder:
    def build(i: Instruction) -> Semantic:
        newest = i.immediate("count")

        def unfinished(w: Any) -> Token | None:
            record = w.machine.record
            for lane in w.lanes():
                groups = groups_of(w, lane)
                kept = len(groups.committed) - newest
                groups.waited = True
                for group in groups.committed[: max(kept, 0)]:
                    for token in group:
                        if not (token.read if reads else token.done):
                            return token
                        token.awaited = True
                        if record is not None:
                            record.stored(w, lane, token.operation, reads)
                if record is not None:
                    for group in (*groups.committed[max(kept, 0) :], groups.open):
                        record.left_out(group)
                if not reads and kept > 0:
                    del groups.committed[:kept]
            return None

        return Blocking.until(unfinished, "a bulk group")

    return build


# Addresses of single operations


def scalar_reader(i: Instruction, name: str) -> Callable[[Any, int], int]:
    """A function from a warp and a lane to the address in an operand."""
    slot, _, offset, _ = i.address(name)

    def run(w: Any, lane: int) -> int:
        if w.taint and w.holds_nothing(slot) >> lane & 1:
            w.check_address(slot, i)
        return int(w.R[slot][lane]) + offset

    return run


def shared_place(w: Any, address: int, ins: Instruction) -> tuple[Any, int]:
    """(CTA, offset in its window) of a shared address, which may be generic."""
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    cta = w.cta.cluster.cta_at(address)
    if cta is None:
        raise Stop(
            "TK321", f"no CTA of the cluster has shared address {address:#x}", ins=ins, warp=w
        )
    return cta, address & 0xFFFFFF


def barrier_of(w: Any, address: int, ins: Instruction) -> MBarrier:
    cta, offset = shared_place(w, address, ins)
    return find(cta, offset, ins, w)


def global_place(w: Any, address: int, ins: Instruction, size: int) -> tuple[Region, int]:
    region = w.machine.memory.find(address)
    if region is None or address + size > region.base + region.size:
        where = (
            f"; {region.name} ends at {region.base + region.size:#x}" if region is not None else ""
        )
        raise Stop(
            "TK321",
            f"{ins.statement.mnemonic} of {size} bytes at global address {address:#x} is outside of memory{where}",
            ins=ins,
            warp=w,
        )
    return region, address - region.base


def aligned(address: int, unit: int, what: str, ins: Instruction, w: Any) -> None:
    if address % unit:
        raise Stop("TK322", f"{what} {address:#x} is no multiple of {unit}", ins=ins, warp=w)


def mask_reader(i: Instruction) -> Callable[[Any, int], int | None]:
    """A function from a warp and a lane to the multicast mask, of 16 or 32 bits; None where there is none."""
    if not i.given("mask"):
        return lambda w, lane: None
    slot, bits = i.src_wide("mask", U16)
    dtype = U32 if bits == 32 else U16
    return lambda w, lane: int(view(w.R[slot], dtype)[lane])


def receivers(w: Any, mask: int | None, own: Any, ins: Instruction) -> list[Any]:
    """The CTAs of a multicast mask, or the one of the destination."""
    if mask is None:
        return [own]
    cluster = w.cta.cluster
    if not mask or mask >> cluster.size:
        raise Stop(
            "TK321",
            f"multicast mask {mask:#x} for a cluster of {cluster.size} CTAs",
            ins=ins,
            warp=w,
        )
    return [cta for cta in cluster.ctas if mask >> cta.rank & 1]


# Copies


def _load(i: Instruction) -> Step:
    """Global to shared memory, completing on an mbarrier."""
    dst, src, bar = scalar_reader(i, "dst"), scalar_reader(i, "src"), scalar_reader(i, "bar")
    size_slot = i.src("bytes", U32)
    mask_of_lane = mask_reader(i)
    if i.given("policy"):
        i.src("policy", U64)
    ends = [i.src(n, U32) for n in ("ignore_left", "ignore_right") if i.given(n)]
    origin = Origin(i, Proxy.ASYNC, Done.MBARRIER_TX)

    def run(w: Any) -> None:
        for lane in w.lanes():
            size = int(view(w.R[size_slot], U32)[lane])
            mask = mask_of_lane(w, lane)
            skipped = [int(view(w.R[s], U32)[lane]) for s in ends] or [0, 0]
            if max(skipped) > 15:
                raise Stop(
                    "TK321",
                    f"{max(skipped)} bytes at an end are ignored, at most 15",
                    ins=i,
                    warp=w,
                )
            to, place = shared_place(w, dst(w, lane), i)
            start = src(w, lane)
            for what, number in (("source", start), ("destination", place), ("size", size)):
                aligned(number, 16, what, i, w)
            bars = [
                find(cta, shared_place(w, bar(w, lane), i)[1], i, w)
                for cta in receivers(w, mask, to, i)
            ]
            ctas = receivers(w, mask, to, i)
            w.machine.report.count("bytes.bulk.load", size * len(ctas))
            w.machine.issue(
                "bulk load",
                _load_steps(w, i, origin, start, size, ctas, place, bars, (skipped[0], skipped[1])),
                i,
                w,
                lane,
            )

    return run


def _load_steps(
    w: Any,
    i: Instruction,
    origin: Origin,
    start: int,
    size: int,
    ctas: list[Any],
    place: int,
    bars: list[MBarrier],
    skipped: tuple[int, int],
) -> Iterator[None]:
    """`skipped` bytes at the two ends are not read, and hold nothing afterwards."""
    memory = w.machine.memory
    agent = f"copy engine, for {w.describe()}"
    left, right = skipped
    inner = size - left - right
    region, offset = global_place(w, start + left, i, inner)
    data, bad = memory.read_box(agent, origin, region, offset, (inner,), (1,))
    yield
    for cta, bar in zip(ctas, bars, strict=True):
        memory.write_box(agent, origin, cta.shared, place + left, (1,), data)
        if bad is not None:
            cta.shared.shadow[place + left : place + left + inner] = bad
        if left or right:
            cta.shared.shadow[place : place + left] = 1
            cta.shared.shadow[place + size - right : place + size] = 1
        yield
        bar.complete(size, i, agent)


def _to_cluster(reduces: bool) -> Builder:
    """Shared memory of this CTA to that of another, or a reduction into it, completing on an mbarrier there."""

    def build(i: Instruction) -> Step:
        dst, src, bar = scalar_reader(i, "dst"), scalar_reader(i, "src"), scalar_reader(i, "bar")
        size_slot = i.src("bytes", U32)
        origin = Origin(i, Proxy.ASYNC, Done.MBARRIER_TX)
        combine = reduction(i.mod("op"), i.type, "bulk") if reduces else None

        def steps(w: Any, source: int, place: int, bar_place: int, size: int) -> Iterator[None]:
            memory = w.machine.memory
            agent = f"copy engine, for {w.describe()}"
            own, start = shared_place(w, source, i)
            to, place = shared_place(w, place, i)
            target = barrier_of(w, bar_place, i)
            for what, number in (("source", start), ("destination", place), ("size", size)):
                aligned(number, 16, what, i, w)
            data, bad = memory.read_box(agent, origin, own.shared, start, (size,), (1,))
            yield
            if combine is not None:
                dtype, fn = combine
                old, unset = memory.read_box(agent, origin, to.shared, place, (size,), (1,))
                data = np.ascontiguousarray(fn(old.view(dtype), data.view(dtype))).view(np.uint8)
                if unset is not None:
                    bad = unset if bad is None else bad | unset
            memory.write_box(agent, origin, to.shared, place, (1,), data)
            if bad is not None:
                to.shared.shadow[place : place + size] = bad
            yield
            target.complete(size, i, agent)

        def run(w: Any) -> None:
            for lane in w.lanes():
                size = int(view(w.R[size_slot], U32)[lane])
                # The registers are read now: the operation itself may run later.
                taken = steps(w, src(w, lane), dst(w, lane), bar(w, lane), size)
                w.machine.issue("bulk copy", taken, i, w, lane)

        return run

    return build


Combine = Callable[[Vec, Vec], Vec]


def _ordered(larger: bool) -> Combine:
    """min or max of floats: -0 is smaller than +0, and a number wins over NaN."""
    fn = np.fmax if larger else np.fmin

    def run(old: Vec, new: Vec) -> Vec:
        result = fn(old, new)
        zero = (old == 0) & (new == 0)
        if zero.any():
            either = (
                np.signbit(old) & np.signbit(new) if larger else np.signbit(old) | np.signbit(new)
            )
            result = np.where(zero, np.where(either, -0.0, 0.0).astype(result.dtype), result)
        return result

    return run


_FLOAT_OPS: dict[str, Combine] = {"add": np.add, "min": _ordered(False), "max": _ordered(True)}


def reduction(op: str, kind: str, where: str) -> tuple[DType, Combine]:
    """(dtype, function of old and new) of a reduction on elements of a PTX type.

    `where` is who adds: the "global" memory, whose additions make subnormal f32 numbers zeros; "shared" memory, where
    the threads do it themselves; or a "bulk" copy. The first and the last give back an f64 NaN with its payload.
    """
    floats = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
    if kind == "bf16" or kind in floats:
        if op not in _FLOAT_OPS:
            raise ValueError(f"reduction .{op} of .{kind} is not covered")
        plain = _FLOAT_OPS[op]
        if kind == "bf16":
            return U16, lambda old, new: f32_to_bf16(plain(bf16_to_f32(old), bf16_to_f32(new)))
        if kind == "f64" and where != "shared":
            return floats[kind], lambda old, new: _keep_payload(plain(old, new), old, new)
        if where == "global" and kind == "f32" and op == "add":
            return floats[kind], lambda old, new: canonical(flush(plain(flush(old), flush(new))))
        return floats[kind], lambda old, new: canonical(plain(old, new))
    dtype = np.dtype(("int" if kind[0] == "s" else "uint") + kind[1:])
    whole: dict[str, Combine] = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "inc": lambda old, new: np.where(old >= new, dtype.type(0), old + dtype.type(1)),
        "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - dtype.type(1)),
    }
    return dtype, whole[op]


def _keep_payload(result: Vec, old: Vec, new: Vec) -> Vec:
    """Additions of f64 in memory give a NaN operand back as it is."""
    return np.where(new != new, new, np.where(old != old, old, result))


def store_token(w: Any, lane: int, ins: Instruction) -> Token:
    token = Token(ins.line)
    groups = groups_of(w, lane)
    groups.used = True
    groups.open.append(token)
    return token


def _store(reduces: bool) -> Builder:
    """Shared memory to global memory, or a reduction into it; awaited by bulk groups."""

    def build(i: Instruction) -> Step:
        dst, src = scalar_reader(i, "dst"), scalar_reader(i, "src")
        size_slot = i.src("bytes", U32)
        byte_mask = i.src("byte_mask", U16) if i.given("byte_mask") else -1
        if i.given("policy"):
            i.src("policy", U64)
        origin_read = Origin(i, Proxy.ASYNC, Done.BULK_GROUP_READ)
        origin = Origin(i, Proxy.ASYNC, Done.BULK_GROUP)
        combine = reduction(i.mod("op"), i.type, "bulk") if reduces else None

        def steps(
            w: Any, source: int, address: int, bits: int, size: int, token: Token
        ) -> Iterator[None]:
            machine, memory = w.machine, w.machine.memory
            agent = f"copy engine, for {w.describe()}"
            cta, start = shared_place(w, source, i)
            for what, number in (("source", start), ("destination", address), ("size", size)):
                aligned(number, 16, what, i, w)
            keep = None
            if byte_mask >= 0:
                keep = np.resize(np.array([bits >> k & 1 for k in range(16)], bool), size)
            data, bad = memory.read_box(agent, origin_read, cta.shared, start, (size,), (1,))
            if bad is not None and (keep is None or (bad != 0)[keep].any()):
                machine.found(
                    "TK320", "uninitialised shared memory is stored to global memory", i, w
                )
            yield
            token.advance(machine, False)
            yield
            region, offset = global_place(w, address, i, size)
            if combine is not None:
                dtype, fn = combine
                old, _ = memory.read_box(agent, origin, region, offset, (size,), (1,))
                data = fn(old.view(dtype), data.view(dtype)).view(np.uint8)
            if keep is not None:
                old, _ = memory.read_box(agent, origin, region, offset, (size,), (1,))
                data = np.where(keep, data, old)
            memory.write_box(agent, origin, region, offset, (1,), data)
            yield
            token.advance(machine, True)

        def run(w: Any) -> None:
            for lane in w.lanes():
                size = int(view(w.R[size_slot], U32)[lane])
                w.machine.report.count("bytes.bulk.store", size)
                bits = int(view(w.R[byte_mask], U16)[lane]) if byte_mask >= 0 else 0
                # The registers are read now: the operation itself may run later.
                token = store_token(w, lane, i)
                taken = steps(w, src(w, lane), dst(w, lane), bits, size, token)
                w.machine.issue("bulk store", taken, i, w, lane, Done.BULK_GROUP, token=token)

        return run

    return build


SEMANTICS: dict[str, Builder] = {
    "cp.async.bulk.load": _load,
    "cp.async.bulk.load.ignore_oob": _load,
    "cp.async.bulk.cluster": _to_cluster(False),
    "cp.async.bulk.store": _store(False),
    "cp.reduce.async.bulk": _store(True),
    "cp.reduce.async.bulk.cluster": _to_cluster(True),
    "cp.async.bulk.commit_group": _commit,
    "cp.async.bulk.wait_group": _wait_group(False),
    "cp.async.bulk.wait_group.async": _wait_group(False),
    "cp.async.bulk.wait_group.read": _wait_group(True),
}
