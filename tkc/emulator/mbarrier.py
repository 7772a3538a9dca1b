"""mbarrier objects and their instructions (PTX 9.7.13.15): pending counts, transaction counts and phases, exactly.

An object lives in a table of its CTA, by its offset in the shared window. A phase is over when no arrival is
pending and the transaction count is zero; the next phase starts with the expected count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.addresses import address_reader, shared_parts
from tkc.emulator.instruction import PARKED, Blocking, Builder, Ending, Instruction, Semantic, Step
from tkc.emulator.lanes import SELECT, U32, U64, view
from tkc.emulator.report import Stop
from tkc.emulator.spaces import SHARED_WINDOW, Origin

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta

COUNT_LIMIT = (1 << 20) - 1
"""Largest arrival count, and largest magnitude of the transaction count."""


_PENDING_SHIFT = np.array([40], U64)
_PHASE_BITS = (1 << 40) - 1
"""A state names the phase that was under way, and above it the arrivals that were pending."""


class MBarrier:
    """One object: `expected` arrivals in each phase, `pending` of them left, `bytes` to come, `phase` counts up."""

    __slots__ = (
        "address",
        "awaited",
        "bytes",
        "came",
        "clock",
        "conditional",
        "cta",
        "expected",
        "pending",
        "phase",
        "promised",
        "waiting",
    )

    def __init__(self, cta: Cta, address: int, expected: int) -> None:
        self.cta = cta
        self.address = address
        self.expected = expected
        self.pending = expected
        self.bytes = 0
        self.promised = self.came = 0
        """Bytes that were expected in the phase under way, and that have come: for a hang."""
        self.phase = 0
        self.awaited = False
        self.waiting: list[Any] = []
        self.clock: Any = None
        """For the happens-before record: what its arrivals released."""
        self.conditional = False
        """Whether it has the layout that counts reports of copies (v1)."""

    def __str__(self) -> str:
        return f"phase {self.phase}, {self.pending} of {self.expected} arrivals and {self.bytes} bytes pending"

    @property
    def in_use(self) -> bool:
        """Whether a phase is under way or somebody waits."""
        return bool(self.waiting) or self.bytes != 0 or self.pending != self.expected

    def arrive(self, count: int, ins: Instruction, agent: Any) -> None:
        """`count` arrivals."""
        if count > self.pending:
            raise Stop(
                "TK305",
                f"{count} arrivals on the mbarrier at {self.address:#x}, which has {self}",
                ins=ins,
                warp=agent,
            )
        self.pending -= count
        self._settle()

    def expect(self, count: int, ins: Instruction, agent: Any) -> None:
        """`count` more bytes must come before the phase is over."""
        self.bytes += count
        self.promised += count
        self._check(ins, agent)
        self._settle()

    def complete(self, count: int, ins: Instruction, agent: Any) -> None:
        """`count` bytes have come."""
        self.bytes -= count
        self.came += count
        self._check(ins, agent)
        if self.clock is not None:
            self.cta.machine.record.complete(self, ins)
        self._settle()

    def _check(self, ins: Instruction, agent: Any) -> None:
        if abs(self.bytes) > COUNT_LIMIT:
            raise Stop(
                "TK305",
                f"the transaction count of the mbarrier at {self.address:#x} reaches {self.bytes},"
                f" beyond {COUNT_LIMIT}",
                ins=ins,
                warp=agent,
            )

    def _settle(self) -> None:
        machine = self.cta.machine
        machine.activity += 1
        if self.pending or self.bytes:
            return
        if self.clock is not None:
            machine.record.phase_over(self)
        self.phase += 1
        self.promised = self.came = 0
        self.pending = self.expected
        waiting, self.waiting = self.waiting, []
        for path in waiting:
            if path.poll is self:
                path.poll = None
                machine.unpoll(path)


def find(cta: Cta, offset: int, ins: Instruction, agent: Any) -> MBarrier:
    """The object at an offset of a CTA's window; stops the launch where there is none."""
    found = cta.barriers.get(offset)
    if found is None:
        where = f"shared address {offset | cta.window:#x} of {cta.name}"
        raise Stop("TK303", f"no mbarrier is initialised at {where}", ins=ins, warp=agent)
    return found


def barrier_at(w: Any, address: int, ins: Instruction, agent: Any = None) -> MBarrier:
    """The object at a 32-bit shared address of any CTA of the cluster."""
    cta = w.cta.cluster.cta_at(address)
    if cta is None:
        raise Stop(
            "TK321", f"no CTA of the cluster has shared address {address:#x}", ins=ins, warp=w
        )
    return find(cta, address & 0xFFFFFF, ins, agent or w)


def _addresses(i: Instruction, name: str = "bar") -> Any:
    """A function from a warp to the 32-bit shared addresses of its active lanes, as integers."""
    read = address_reader(i, name)
    slot = i.sources[-1] if i.sources else -1

    def run(w: Any) -> list[int]:
        if w.taint and slot >= 0:
            w.check_address(slot, i)
        found = read(w)
        if len(found) > 1 and not np.count_nonzero(found != found[0]):
            return [_window(int(found[0]))] * len(found)
        return [_window(a) for a in found.tolist()]

    return run


def _window(address: int) -> int:
    """A shared address from one of the generic space, where it is one."""
    return address - SHARED_WINDOW if address >= SHARED_WINDOW else address


def _init(i: Instruction) -> Step:
    read = _addresses(i)
    count = i.src("count", U32)
    origin = Origin(i)

    def run(w: Any) -> None:
        counts = view(w.R[count], U32)[SELECT[w.mask]].tolist()
        for address, expected in zip(read(w), counts, strict=True):
            if not 1 <= expected <= COUNT_LIMIT:
                raise Stop(
                    "TK305",
                    f"mbarrier of {expected} arrivals, expected 1..{COUNT_LIMIT}",
                    ins=i,
                    warp=w,
                )
            offset = address & 0xFFFFFF
            old = w.cta.barriers.get(offset)
            if old is not None and old.in_use:
                raise Stop(
                    "TK304",
                    f"the mbarrier at {address:#x} is initialised again with {old}",
                    ins=i,
                    warp=w,
                )
            # The bytes count as written: an object may be copied about by nobody, but it is there.
            where = np.array([address], U32)
            for region, offsets, _ in shared_parts(w, origin, where, False):
                w.machine.memory.write(w, origin, region, offsets, np.zeros(1, U64), 64)
            made = w.cta.barriers[offset] = MBarrier(w.cta, address, expected)
            made.conditional = i.mod("layout").endswith("v1")
            if w.machine.record is not None:
                w.machine.record.barrier_init(w, made)
            w.machine.activity += 1

    return run


def _inval(i: Instruction) -> Step:
    read = _addresses(i)

    def run(w: Any) -> None:
        for address in read(w):
            bar = barrier_at(w, address, i)
            if bar.waiting:
                raise Stop(
                    "TK304",
                    f"the mbarrier at {address:#x} ends while somebody waits",
                    ins=i,
                    warp=w,
                )
            del bar.cta.barriers[address & 0xFFFFFF]

    return run


def _arrive(i: Instruction) -> Step:
    read = _addresses(i)
    state = i.dst("state", 64) if i.given("state") else -1
    mask = i.src("mask", U32) if i.given("mask") else -1
    expects = i.given("bytes")
    count = i.src("count", U32) if i.given("count") else -1
    size = i.src("bytes", U32) if expects else -1
    drop = "arrive_drop" in i.row.mnemonic
    complete = "noComplete" in i.row.mnemonic

    def run(w: Any) -> None:
        R = w.R
        addresses = read(w)
        if mask >= 0:
            _multicast(w, addresses)
            return
        if w.machine.record is not None:
            _tell(w, i, addresses)
        phases: list[int] = []
        counts = view(R[count], U32)[SELECT[w.mask]].tolist() if count >= 0 else None
        sizes = view(R[size], U32)[SELECT[w.mask]].tolist() if expects else None
        for k, address in enumerate(addresses):
            bar = barrier_at(w, address, i)
            if bar.cta is not w.cta and state >= 0:
                raise Stop(
                    "TK305", "an arrival on a remote mbarrier returns no state", ins=i, warp=w
                )
            phases.append(bar.phase | bar.pending << 40)
            if sizes is not None:
                bar.expect(sizes[k], i, w)
            number = counts[k] if counts is not None else 1
            if drop:
                bar.expected -= number
            if complete and number >= bar.pending:
                raise Stop("TK305", "a .noComplete arrival would complete the phase", ins=i, warp=w)
            bar.arrive(number, i, w)
        if state >= 0:
            w.put(state, w.spread(np.array(phases, U64)))

    def _multicast(w: Any, addresses: list[int]) -> None:
        """The same on the objects at one offset in each CTA of a mask."""
        R, lanes = w.R, SELECT[w.mask].tolist()
        for lane, address in zip(lanes, addresses, strict=True):
            ranks = int(view(R[mask], U32)[lane])
            for cta in w.cta.cluster.ctas:
                if ranks >> cta.rank & 1:
                    bar = find(cta, address & 0xFFFFFF, i, w)
                    if w.machine.record is not None and "arrive" in i.row.mnemonic:
                        w.machine.record.arrive(w, bar, 1 << lane, i)
                    if expects:
                        bar.expect(int(view(R[size], U32)[lane]), i, w)
                    if "arrive" in i.row.mnemonic:
                        bar.arrive(int(view(R[count], U32)[lane]) if count >= 0 else 1, i, w)

    return run


def _by_barrier(w: Any, i: Instruction, addresses: list[int]) -> list[tuple[MBarrier, int]]:
    """The objects that the active lanes name, each with the mask of its lanes."""
    if addresses.count(addresses[0]) == len(addresses):
        return [(barrier_at(w, addresses[0], i), w.mask)]
    masks: dict[int, int] = {}
    for lane, address in zip(SELECT[w.mask].tolist(), addresses, strict=True):
        masks[address] = masks.get(address, 0) | 1 << lane
    return [(barrier_at(w, address, i), mask) for address, mask in masks.items()]


def _tell(w: Any, i: Instruction, addresses: list[int]) -> None:
    for bar, mask in _by_barrier(w, i, addresses):
        w.machine.record.arrive(w, bar, mask, i)


def _pending(i: Instruction) -> Step:
    """The arrivals that were pending when a state was made: it holds them above its phase."""
    d, state = i.dst("d", 32), i.src("state", U64)
    return lambda w: w.put(d, (view(w.R[state], U64) >> _PENDING_SHIFT).astype(U32))


def _check_layout(i: Instruction) -> Step:
    p = i.dst("p", 1)
    read = _addresses(i)
    v1 = i.mod("layout").endswith("v1")

    def run(w: Any) -> None:
        result = 0
        for lane, address in zip(SELECT[w.mask].tolist(), read(w), strict=True):
            result |= int(barrier_at(w, address, i).conditional == v1) << lane
        w.put_predicate(p, result)

    return run


def _tx(complete: bool) -> Builder:
    def build(i: Instruction) -> Step:
        read = _addresses(i)
        size = i.src("bytes", U32)

        def run(w: Any) -> None:
            sizes = view(w.R[size], U32)[SELECT[w.mask]].tolist()
            addresses = read(w)
            if complete and w.machine.record is not None:
                for bar, mask in _by_barrier(w, i, addresses):
                    w.machine.record.relaxed_complete(w, bar, mask)
            for address, number in zip(addresses, sizes, strict=True):
                bar = barrier_at(w, address, i)
                if complete:
                    bar.complete(number, i, w)
                else:
                    bar.expect(number, i, w)

        return run

    return build


def _wait(i: Instruction) -> Semantic:
    read = _addresses(i)
    parity = i.given("parity")
    token, _ = i.src_wide("parity" if parity else "state", U32 if parity else U64)
    p = i.dst("p", 1)
    q = i.dst("q", 1) if i.given("q") else -1
    suspends = "try_wait" in i.row.mnemonic
    dtype = U32 if parity else U64

    def passed(w: Any) -> tuple[int, list[MBarrier]]:
        """(mask of the active lanes whose phase is over, the objects of the others)."""
        tokens = view(w.R[token], dtype)
        done, missing = 0, []
        for lane, address in zip(SELECT[w.mask].tolist(), read(w), strict=True):
            bar = barrier_at(w, address, i)
            if bar.cta is not w.cta:
                raise Stop("TK305", "a wait on the mbarrier of another CTA", ins=i, warp=w)
            value = int(tokens[lane])
            bar.awaited = True
            over = (bar.phase & 1) != (value & 1) if parity else bar.phase != value & _PHASE_BITS
            if over:
                done |= 1 << lane
            else:
                missing.append(bar)
        return done, missing

    def make(following: int) -> Ending:
        here = following - 1

        def run(w: Any, path: Any) -> int:
            done, missing = passed(w)
            if missing and suspends and not path.timed_out:
                bar = missing[0]
                path.pc = here
                path.poll = bar
                path.waits = f"mbarrier {bar.address:#x} ({bar})"
                bar.waiting.append(path)
                w.machine.poll(path)
                return PARKED
            path.timed_out = False
            path.poll = None
            path.waits = ""
            w.put_predicate(p, done)
            if q >= 0:
                # No copy here reports a problem.
                w.put_predicate(q, 0)
            if w.taint:
                w.taint_result(p, 0)
            if done and w.machine.record is not None:
                for bar, mask in _by_barrier(w, i, read(w)):
                    if mask & done:
                        w.machine.record.waited(w, bar, mask & done, i)
            if missing and not suspends:
                return w.machine.spin(path, following)
            return following

        return run

    return Blocking(make)


_ARRIVALS = (
    "mbarrier.arrive",
    "mbarrier.arrive.state",
    "mbarrier.arrive.cluster",
    "mbarrier.arrive.expect_tx",
    "mbarrier.arrive.expect_tx.state",
    "mbarrier.arrive.expect_tx.cluster",
    "mbarrier.arrive_drop",
    "mbarrier.arrive_drop.state",
    "mbarrier.arrive_drop.cluster",
    "mbarrier.arrive_drop.expect_tx",
    "mbarrier.arrive_drop.expect_tx.state",
    "mbarrier.arrive_drop.expect_tx.cluster",
    "mbarrier.arrive.noComplete",
    "mbarrier.arrive_drop.noComplete",
    "mbarrier.arrive.multicast",
    "mbarrier.arrive.expect_tx.multicast",
    "mbarrier.expect_tx.multicast",
)

SEMANTICS: dict[str, Builder] = {
    "mbarrier.init": _init,
    "mbarrier.inval": _inval,
    **dict.fromkeys(_ARRIVALS, _arrive),
    "mbarrier.expect_tx": _tx(False),
    "mbarrier.complete_tx": _tx(True),
    **dict.fromkeys(
        (
            "mbarrier.try_wait.parity",
            "mbarrier.test_wait.parity",
            "mbarrier.try_wait",
            "mbarrier.test_wait",
            "mbarrier.try_wait.parity.report",
            "mbarrier.test_wait.parity.report",
        ),
        _wait,
    ),
    "mbarrier.pending_count": _pending,
    "mbarrier.check_layout": _check_layout,
}
