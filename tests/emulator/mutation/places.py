"""What stands at each byte, and whether one access of it comes before another: the rules of the second judge.

The manual's rules and the assumptions of `practice` (A... are rows of `tkc/ir/isa/assumptions.py`; sections are those of
PTX ISA 9.4), asked of sets of bits (`knowledge.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from emulator.mutation.knowledge import Group, Known

from tkc.emulator.record import Record
from tkc.ir.isa.memory import Kind

SEVERAL = 32
"""The lane of an access that the lanes of a warp make together."""
ENTRY = 6
PIPELINED = re.compile(r"mma (mma|cp|shift)|cp (mma|cp)|shift (mma|cp)")
"""Tensor work of one thread that keeps its order without a wait (9.7.18.6.2; A9, A14)."""


@dataclass(eq=False, slots=True)
class Work:
    """An asynchronous operation: bits for what it reads, what it writes, and its place in the tensor core's pipe."""

    name: str
    warp: Any
    lane: int
    ins: Any
    read: int
    write: int
    issued: int
    known: Known
    own: Group | None
    """The group of the one lane that issued it."""
    generic: bool
    earlier: int = 0
    """For a commit: the work that it tracks."""
    fenced_by_itself: dict[Any, int] = field(default_factory=dict)
    own_then: int = 0
    first: int = 0
    """The bit of the reads of a product's first operand."""
    acquired_reads: int = 0

    @property
    def all(self) -> int:
        return self.read | self.write | self.first


@dataclass(eq=False, slots=True)
class Access:
    """Who made an access: an operation, or lanes of a warp with the bit of each group."""

    ins: Any
    kind: Kind
    warp: Any
    work: Work | None
    bits: tuple[tuple[Group, int], ...]
    strong: bool
    mask: int = 0
    first: bool = False
    """Whether a product reads its first operand by it."""
    extent: tuple[int, int, int] = (0, 0, 0)
    """In tensor memory: how many lanes, and the columns."""

    @property
    def told(self) -> int:
        assert self.work is not None
        if self.first:
            return self.work.first
        return self.work.read if self.kind is Kind.READ else self.work.write

    def lead(self, lane: int) -> int:
        """A number for the group of a lane."""
        if lane == SEVERAL or len(self.bits) < 2:
            return min(lane, SEVERAL) if lane == SEVERAL or not self.bits else 0
        return next(n for n, (g, _) in enumerate(self.bits) if g.mask >> lane & 1)

    def of(self, lane: int) -> list[tuple[Group, int]]:
        if lane == SEVERAL:
            return list(self.bits)
        return [(g, b) for g, b in self.bits if g.mask >> lane & 1]


class Bytes:
    """The last write of each byte, and the reads since: numbers of sets of them."""

    def __init__(self, size: int) -> None:
        self.last = np.zeros(size, np.int64)
        self.reads = np.zeros(size, np.int64)


class Judge(Record):
    """Keeps the accesses of every byte of a launch, and those pairs that nothing orders.

    `wrong` are (rule, line before, line now) with what the instructions are.
    """

    def __init__(self, machine: Any, model: str) -> None:
        super().__init__(machine, model)
        self.wrong: dict[tuple[str, int, int], str] = {}
        self.bytes: dict[int, tuple[Any, Bytes]] = {}
        self.tensors: dict[int, tuple[Any, Bytes]] = {}
        self.accesses: list[Access] = [None]  # type: ignore[list-item]
        self.sets: list[frozenset[int]] = [frozenset()]
        self.numbers: dict[frozenset[int], int] = {frozenset(): 0}
        self.handed = 0
        """What threads did before they let a wait, or an mbarrier, follow their cp.async."""
        self.unawaited: dict[tuple[Any, str], int] = {}
        """Loads and stores of tensor memory that their warp has not awaited yet, by warp and "ld" or "st"."""

    def fault(self, rule: str, old: Any, new: Any, what: str = "") -> None:
        self.wrong.setdefault((rule, getattr(old, "line", 0), getattr(new, "line", 0)), what)

    def _touch(self, held: Bytes, access: Access, codes: Any, places: Any, home: Any) -> None:
        last, reads = held.last[places], held.reads[places]
        if access.kind is Kind.READ:
            self._judge(access, codes, last, home)
            if access.work is None and len(np.unique(places)) < len(places):
                # Several lanes read one byte: each of them is kept.
                for code in np.unique(codes).tolist():
                    self._read(held, places[codes == code], code)
            elif (codes == codes[0]).all():
                self._read(held, places, int(codes[0]))
            else:
                pairs, which = np.unique(np.stack((reads, codes)), axis=1, return_inverse=True)
                made = [self._with(number, code) for number, code in pairs.T.tolist()]
                held.reads[places] = np.array(made)[which]
            return
        # A read between two writes orders them (S2).
        self._judge(access, codes, np.where(reads > 0, 0, last), home)
        for one in np.unique(reads).tolist():
            late = self._late({was >> ENTRY for was in self.sets[one]}, access, home)
            if not late:
                continue
            here = reads == one
            before: dict[tuple[int, int, bool], bool] = {}
            for writer, now in distinct(last[here], codes[here]):
                for was in self.sets[one]:
                    if not self._known_before(before, was, access, now & 63, home):
                        self._harm(was, access, now & 63, home, writer)
        held.last[places] = codes
        held.reads[places] = 0

    def _read(self, held: Bytes, places: Any, code: int) -> None:
        """One thread, or one operation, reads some bytes."""
        numbers, which = np.unique(held.reads[places], return_inverse=True)
        made = [self._with(number, code) for number in numbers.tolist()]
        held.reads[places] = np.array(made)[which]

    def _with(self, number: int, code: int) -> int:
        """The set with one more read; an earlier one of the same thread or group of threads gives way."""
        new = self.accesses[code >> ENTRY]
        kept = {
            old
            for old in self.sets[number]
            if new.work is not None
            or self.accesses[old >> ENTRY].work is not None
            or self.accesses[old >> ENTRY].warp is not new.warp
            or (old ^ code) & 63
            or (code & 63 == SEVERAL and self.accesses[old >> ENTRY].mask & ~new.mask)
        }
        found = frozenset(kept | {code})
        if found not in self.numbers:
            self.numbers[found] = len(self.sets)
            self.sets.append(found)
        return self.numbers[found]

    def _judge(self, access: Access, codes: Any, old: Any, home: Any) -> None:
        """Against the writes before it."""
        numbers = old >> ENTRY
        late = self._late(set(np.unique(numbers).tolist()) - {0}, access, home)
        if not late:
            return
        here = np.isin(numbers, list(late))
        before: dict[tuple[int, int, bool], bool] = {}
        for was, now in distinct(old[here], codes[here]):
            if not self._known_before(before, was, access, now & 63, home):
                self._harm(was, access, now & 63, home)

    def _late(self, numbers: set[int], now: Access, home: Any) -> set[int]:
        """The accesses that do not come before one of now with all their threads: those are asked one by one."""
        return {n for n in numbers if not self._before(n << ENTRY | SEVERAL, now, SEVERAL, home)}

    def _known_before(
        self, known: dict[tuple[int, int, bool], bool], code: int, now: Access, lane: int, home: Any
    ) -> bool:
        """`_before`, asked once for all threads of two groups."""
        was, at = self.accesses[code >> ENTRY], code & 63
        key = (code - at | was.lead(at), now.lead(lane), at == lane)
        found = known.get(key)
        if found is None:
            found = known[key] = self._before(code, now, lane, home)
        return found

    # The rules

    def _before(self, code: int, now: Access, lane: int, home: Any) -> bool:
        """Whether the access of a code comes before one of now."""
        was, at = self.accesses[code >> ENTRY], code & 63
        if was.work is not None and was.work is now.work:
            return True
        if was.strong and now.strong and self._morally_strong(was, now):
            return True
        if now.work is None:
            mine = now.of(lane)
            if was.work is not None:
                return all(g.known.met & was.told for g, _ in mine)
            return all(
                bit & g.known.met or (g is one and at == lane and at != SEVERAL)
                for g, _ in mine
                for one, bit in was.of(at)
            )
        return self._before_work(was, at, now.work, home)

    def _before_work(self, was: Access, at: int, work: Work, home: Any) -> bool:
        known = work.known
        if was.work is not None and not was.work.generic:
            # One proxy (8.9.5, A1); what the issuer of a completed operation had seen complete (A5).
            return bool(was.told & (known.met | known.seen | known.tensor))
        bits = was.of(at) if was.work is None else [(None, was.told)]
        alone = was.work is None and was.warp is work.warp and at == work.lane
        if work.generic:
            return all(bit & known.met or (alone and bit & work.own_then) for _, bit in bits)
        order = known.ran | known.met if was.kind is Kind.READ else known.met  # A25
        keys = ["global"] if home is None else [("shared", home.number)]
        if home is not None and home is not work.warp.cta:
            keys.append(("reach", work.warp.cta.number))
        return all(
            any(
                bit & known.fenced.get(key, 0) & order
                or (was.kind is Kind.READ and bit & work.acquired_reads)
                or (alone and bit & work.fenced_by_itself.get(key, 0))
                for key in keys
            )
            for _, bit in bits
        )

    @staticmethod
    def _morally_strong(was: Access, now: Access) -> bool:
        """Both strong, of one proxy (8.7); scopes of words in global memory are taken to be wide enough."""
        return (was.work is None or was.work.generic) == (now.work is None or now.work.generic)

    def _harm(self, code: int, now: Access, lane: int, home: Any, writer: int = 0) -> None:
        """A pair that nothing orders, unless an assumption says that it does no harm."""
        was, at = self.accesses[code >> ENTRY], code & 63
        threads = was.work is None, now.work is None
        names = was.ins.row.name, now.ins.row.name
        if was.kind is Kind.WRITE and now.kind is Kind.WRITE and was.ins is now.ins:
            same = self.machine.memory.writing
            if (all(threads) or was.warp is now.warp) and same is not None and same():
                return  # A16
            if all(threads) and at == lane == SEVERAL and was.warp is now.warp:
                return  # the lanes make it together, one after the other
        if names[0] == "tcgen05.alloc" and threads[1]:
            if all(any(b & g.known.met for _, b in was.bits) for g, _ in now.of(lane)):
                return  # A30
        if all(threads) and was.warp is now.warp:
            if names == ("ldmatrix", "stmatrix") or "tcgen05.alloc" in names:
                return  # A22; the address word keeps its order with its warp's accesses (9.7.18.6.1)
            if at == SEVERAL and lane == SEVERAL and was.kind is Kind.WRITE and was.ins is now.ins:
                return
        if threads[0] and home is None and (was.strong or now.strong):
            if Kind.READ in (was.kind, now.kind):
                return  # A18
        if threads[0] and was.kind is Kind.READ and writer and not threads[1]:
            wrote = self.accesses[writer >> ENTRY]
            if wrote.ins.row.name == "tcgen05.alloc" and all(
                b & now.work.known.met
                for _, b in was.of(at)  # type: ignore[union-attr]
            ):
                return  # A19
        if all(threads) or (threads[0] and was.kind is Kind.READ):
            reader, its = (was, at) if was.kind is Kind.READ else (now, lane)
            if reader.kind is Kind.READ and self._goes_nowhere(reader, its):
                return  # A17
        if self._copy_unfenced(was, now, home):
            return  # A27
        self.fault(
            "race",
            was.ins,
            now.ins,
            f"{was.ins.statement.mnemonic} .. {now.ins.statement.mnemonic}",
        )

    def _copy_unfenced(self, was: Access, now: Access, home: Any) -> bool:
        """A27: a product reads what cp.async of its CTA has written, or constant zeros, which it knows of."""
        work, names = now.work, ("wgmma.mma_async", "tcgen05.mma")
        if work is None or not work.ins.row.name.startswith(names) or was.kind is not Kind.WRITE:
            return False
        if home is None or not home is was.warp.cta is work.warp.cta:
            return False
        if was.work is not None:
            return was.work.name == "cp.async" and bool(was.told & work.known.met)
        zeros = was.ins.row.name.startswith("st") and self.uses.zeros(was.ins)
        return zeros and all(bit & work.known.met & self.handed for _, bit in was.bits)

    def _goes_nowhere(self, read: Access, lane: int) -> bool:
        """A17: whether nothing uses what a thread has read."""
        guard = self.uses.guard(read.ins)
        if guard is None or read.warp.R[guard[0]] is None:
            return False
        held = read.warp.R[guard[0]]
        wanted = ~held if guard[1] else held
        return not wanted & (read.mask if lane == SEVERAL else 1 << lane)

    # Tensor memory (9.7.18.6)

    def _tensor(self, memory: Any) -> Bytes:
        held = self.tensors.get(id(memory))
        if held is None:
            held = self.tensors[id(memory)] = (memory, Bytes(128 * memory.columns))
        return held[1]

    def _touch_tensor(self, memory: Any, access: Access, places: Any) -> None:
        held = self._tensor(memory)
        access.extent = (len(places), int(places[0]), int(places[-1]))
        number = len(self.accesses) << ENTRY | SEVERAL
        self.accesses.append(access)
        last, reads = held.last[places], held.reads[places]
        old = set(np.unique(last).tolist())
        if access.kind is Kind.WRITE:
            for one in np.unique(reads).tolist():
                old |= self.sets[one]
        for code in old - {0}:
            was = self.accesses[code >> ENTRY]
            if not self._before_in_tensor(was, access):
                self.fault(
                    "tensor", was.ins, access.ins, f"{what_of(was.ins)} {what_of(access.ins)}"
                )
        if access.kind is Kind.READ:
            for one in np.unique(reads).tolist():
                held.reads[places[reads == one]] = self._with(int(one), number)
        else:
            held.last[places], held.reads[places] = number, 0

    def _before_in_tensor(self, was: Access, now: Access) -> bool:
        old, new = what_of(was.ins), what_of(now.ins)
        if was.work is not None and was.work is now.work:
            return True
        if old == new == "dealloc":
            return True  # both CTAs of a pair give back the columns of both
        sources = [g for g, _ in now.bits] if now.work is None else []
        knowns = [now.work.known] if now.work is not None else [g.known for g in sources]
        whole = [k.tensor | (k.met if "alloc" in (old + new) else 0) for k in knowns]
        if was.work is not None:
            if all(was.told & k for k in whole):
                return True
            if now.work is None:
                return False
            same = (was.work.warp, was.work.lane) == (now.work.warp, now.work.lane)
            passed = same or was.work.issued & now.work.known.tensor
            if (old, new) == ("mma", "mma") and was.kind is Kind.WRITE:
                # The same accumulator and shape; a write over what an earlier product has read rests on A14.
                passed = passed and was.extent == now.extent
            return bool(passed and PIPELINED.fullmatch(f"{old} {new}"))
        if old == "alloc" and now.work is not None and was.warp.cta is not now.work.warp.cta:
            return True  # A24
        if was.warp is now.warp and (now.work is None or now.work.lane >= 0):
            if old in ("ld", "st"):
                waits = not was.bits[0][1] & self.unawaited.get((was.warp, old), 0)
                return waits or (old == new == "st")
            return True
        if old == "alloc":
            return all(any(bit & k for _, bit in was.bits) for k in whole)  # A30
        return all(bit & k for k in whole for _, bit in was.bits)


def distinct(*columns: Any) -> list[tuple[int, ...]]:
    """The rows that vectors of numbers make up, each once."""
    varied = [c for c in columns if not (c == c[0]).all()]
    if not varied:
        return [tuple(int(c[0]) for c in columns)]
    first = np.unique(varied[0], return_index=True)[1] if len(varied) == 1 else None
    if first is None:
        first = np.unique(np.stack(varied, 1), axis=0, return_index=True)[1]
    return [tuple(int(c[at]) for c in columns) for at in first.tolist()]


def what_of(ins: Any) -> str:
    """mma, cp, shift, ld, st, alloc or dealloc."""
    return str(ins.row.name.split(".")[1])


def sum_of(bits: Iterator[int] | Any) -> int:
    made = 0
    for one in bits:
        made |= one
    return made


def is_strong(ins: Any) -> bool:
    """Whether an access is strong (8.4)."""
    name = ins.row.name.partition(".")[0]
    if ins.row.name.startswith(("cp.reduce", "red.async")):
        return True
    return name in ("atom", "red") or (name in ("ld", "st") and ins.mod("sem") not in ("", "weak"))


def scope_of(ins: Any) -> str:
    """The scope of a strong access; volatile ones are as wide as can be."""
    return "sys" if ins.mod("sem") in ("volatile", "mmio") else str(ins.mod("scope", "gpu"))


def reach(cta: Any, other: Any) -> tuple[str, ...]:
    """The scopes that have threads of both CTAs in them (8.5)."""
    wide = ("gpu", "sys", "gl")
    if cta is other:
        return (*wide, "cluster", "cta")
    return (*wide, "cluster") if cta.cluster is other.cluster else wide
