"""A warp: its registers, its active lanes, and the paths into which it divides and joins again.

A path is a set of lanes at one place. Where lanes part, each part becomes a path of its own, and they meet again at the
immediate post-dominator of the branch. Every path can be scheduled, so that lanes that wait for their siblings make
progress. Steps that lanes do together (`shfl`, `wgmma`) park a path until the lanes that are named have come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.follow import fold
from tkc.emulator.follow import put as put_taint
from tkc.emulator.follow import spread as spread_taint
from tkc.emulator.instruction import PARKED, Instruction, Step
from tkc.emulator.lanes import BOOLS, FULL, LANES, SELECT, U32, Vec

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.functions import Frame
    from tkc.emulator.machine import Machine


class Join:
    """Where paths meet: `count` paths are still on their way, the lanes of `mask` have come.

    The one of a `call` is where those meet that called a function together; `frame` is their activation there.
    """

    __slots__ = ("call", "count", "frame", "mask", "parent", "segment")

    def __init__(self, segment: int, parent: Join | None, call: bool = False) -> None:
        self.segment = segment
        self.parent = parent
        self.call = call
        self.frame: Frame | None = None
        self.count = 0
        self.mask = 0


class Path:
    """Lanes of a warp at one place, in an activation of a function (`frame`, None in the kernel itself).

    `waits` says for a report what the path waits for.
    """

    __slots__ = (
        "frame",
        "join",
        "mask",
        "pc",
        "poll",
        "rejoin",
        "timed_out",
        "token",
        "waits",
        "warp",
    )

    def __init__(
        self, warp: Warp, mask: int, pc: int, join: Join | None, frame: Frame | None = None
    ) -> None:
        self.warp = warp
        self.frame = frame
        self.mask = mask
        self.pc = pc
        self.join = join
        self.rejoin = join.segment if join is not None else -1
        self.waits = ""
        self.poll: Any = None
        self.timed_out = False
        self.token: Any = None


class Warp:
    """`R` is the register file: a vector of 32 values for each slot, an integer for a predicate.

    `mask` are the lanes of the path at work and `full` says that it is all 32; `alive` are the lanes that have not
    ended. `taint` maps a slot to the bytes and lanes that are uninitialised (see `follow.py`); empty in
    a clean kernel.
    """

    __slots__ = (
        "R",
        "alive",
        "clock",
        "cta",
        "full",
        "groups",
        "index",
        "joins",
        "machine",
        "mask",
        "parked",
        "taint",
        "thread_index",
        "threads",
    )

    def __init__(self, machine: Machine, cta: Cta, index: int) -> None:
        self.machine = machine
        self.cta = cta
        self.index = index
        linear = np.arange(LANES, dtype=U32) + np.uint32(index * LANES)
        x, y, _ = machine.block
        self.thread_index = (
            linear % np.uint32(x),
            linear // np.uint32(x) % np.uint32(y),
            linear // np.uint32(x * y),
        )
        left = machine.threads - index * LANES
        self.threads = min(LANES, left)
        self.alive = (1 << self.threads) - 1
        self.mask = self.alive
        self.full = self.mask == FULL
        self.taint: dict[int, int] = {}
        self.clock: Any = None
        self.parked: dict[int, list[tuple[Path, int, Step, Step, int]]] = {}
        self.groups: dict[Any, Any] = {}
        self.joins: dict[Join, None] = {}
        self.R: list[Any] = []

    @property
    def name(self) -> str:
        return f"{self.cta.name} warp {self.index}"

    def describe(self, mask: int | None = None) -> str:
        """The warp and its lanes, for a report."""
        mask = self.mask if mask is None else mask
        if mask == self.alive and mask == (1 << self.threads) - 1:
            return self.name
        return f"{self.name} lanes {mask:#010x}"

    def lanes(self) -> Iterator[int]:
        """The numbers of the active lanes."""
        return iter(SELECT[self.mask].tolist())

    def put(self, slot: int, value: Vec) -> None:
        """Writes a register in the active lanes."""
        if slot < 0:
            return
        if self.full:
            self.R[slot] = value
            return
        old = self.R[slot]
        if old is None:
            self.R[slot] = value
            return
        if old.dtype is not value.dtype:
            old = old.view(value.dtype)
        active = BOOLS[self.mask]
        self.R[slot] = np.where(active if value.ndim == 1 else active[:, None], value, old)

    def put_predicate(self, slot: int, value: int) -> None:
        """Writes a predicate in the active lanes."""
        if slot < 0:
            return
        if self.full:
            self.R[slot] = value
            return
        mask = self.mask
        old = self.R[slot] or 0
        self.R[slot] = (old & ~mask) | (value & mask)

    def spread(self, values: Vec) -> Vec:
        """A vector of 32 from one value for each active lane; other lanes are 0."""
        if self.full:
            return values
        made = np.zeros((LANES, *values.shape[1:]), values.dtype)
        made[SELECT[self.mask]] = values
        return made

    def uniform(self, slot: int) -> int:
        """The value of a register in the lowest active lane."""
        mask = self.mask
        return int(self.R[slot][(mask & -mask).bit_length() - 1])

    def uniform_predicate(self, slot: int, negated: bool) -> bool:
        """A predicate in the lowest active lane."""
        mask = self.mask
        return bool(self.R[slot] & mask & -mask) != negated

    def member_mask(self, slot: int) -> int:
        return self.uniform(slot)

    # Uninitialised values

    def taint_result(self, slot: int, lanes: int) -> None:
        """Sets which of the active lanes of a slot are uninitialised."""
        if slot < 0:
            return
        put_taint(self, slot, spread_taint(lanes))

    def tainted(self, *slots: int) -> int:
        """The active lanes in which one of the slots is uninitialised."""
        bad = 0
        for slot in slots:
            bad |= self.taint.get(slot, 0)
        return fold(bad) & self.mask if bad else 0

    def holds_nothing(self, slot: int) -> int:
        """All lanes, active or not, in which any byte of a slot is uninitialised."""
        bad = self.taint.get(slot, 0)
        return fold(bad) if bad else 0

    def check_control(self, slot: int, ins: Instruction) -> None:
        if self.tainted(slot):
            self.machine.found("TK320", "a branch depends on an uninitialised value", ins, self)

    def check_address(self, slot: int, ins: Instruction) -> None:
        if self.tainted(slot):
            self.machine.found("TK320", "an address depends on an uninitialised value", ins, self)

    # Paths

    def enter(self, path: Path) -> None:
        """Makes the path's lanes the active ones."""
        self.mask = path.mask
        self.full = path.mask == FULL

    def split(self, path: Path, here: int, parts: tuple[tuple[int, int], ...]) -> int:
        """Divides a path: each part goes on at its segment with its lanes. Returns the segment of the first."""
        if len({target for target, _ in parts}) == 1:
            return parts[0][0]
        segment = self.machine.program.reconverge[here]
        join = path.join
        if segment >= 0 and (join is None or join.segment != segment):
            join = Join(segment, join)
            join.frame = path.frame
            self.joins[join] = None
        elif join is not None:
            join.count -= 1
        going: list[tuple[int, int]] = []
        for target, mask in parts:
            if target == segment and join is not None:
                join.mask |= mask
            else:
                going.append((target, mask))
        if join is not None:
            join.count += len(going)
        target, path.mask = going[0]
        path.join = join
        path.rejoin = join.segment if join is not None else -1
        for other, mask in going[1:]:
            self.machine.wake(Path(self, mask, other, join, path.frame))
        self.enter(path)
        return target

    def arrive(self, path: Path) -> bool:
        """A path has come to where it joins; true if it goes on, with all lanes that meet there."""
        join = path.join
        assert join is not None
        join.mask |= path.mask
        join.count -= 1
        if join.count:
            return False
        self.joins.pop(join, None)
        path.mask = join.mask
        path.join = join.parent
        path.rejoin = path.join.segment if path.join is not None else -1
        self.enter(path)
        return True

    def release_joined(self) -> bool:
        """Lets lanes that wait at a join go on by themselves: those that they wait for may need what they do next."""
        released = False
        for join in list(self.joins):
            if join.mask and join.count:
                if join.parent is not None:
                    join.parent.count += 1
                self.machine.wake(Path(self, join.mask, join.segment, join.parent, join.frame))
                join.mask = 0
                released = True
        return released

    def leave(self, path: Path) -> None:
        """The lanes of a path end."""
        self.alive &= ~path.mask
        join, frame = path.join, path.frame
        while join is not None:
            join.count -= 1
            if join.count:
                break
            self.joins.pop(join, None)
            if join.mask:
                self.machine.wake(Path(self, join.mask, join.segment, join.parent, frame))
                break
            if join.call and frame is not None:
                frame = frame.parent
            join = join.parent
        for here in list(self.parked):
            self._meet(here, None)
        self.cta.ended(self, path.mask)

    def gather(
        self, path: Path, here: int, wanted: int, step: Step, follow: Step, following: int
    ) -> int:
        """Parks a path at a step that lanes do together, until the lanes of `wanted` are there."""
        path.waits = f"lanes {wanted & ~path.mask:#010x} of the warp"
        self.parked.setdefault(here, []).append((path, wanted, step, follow, following))
        return self._meet(here, path)

    def _meet(self, here: int, current: Path | None) -> int:
        group = self.parked[here]
        wanted = group[0][1] & self.alive
        there = 0
        for path, *_ in group:
            there |= path.mask
        if wanted & ~there:
            return PARKED
        _, _, step, follow, following = group[0]
        del self.parked[here]
        kept = (self.mask, self.full)
        self.mask = there
        self.full = there == FULL
        if self.taint:
            follow(self)
        step(self)
        self.mask, self.full = kept
        for path, *_ in group:
            path.waits = ""
            path.pc = following
            if path is not current:
                self.machine.wake(path)
        return following if current is not None else PARKED
