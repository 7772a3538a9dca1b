"""Who touched which bytes last: for each piece of a region the last write, and the reads since that nothing replaces.

Pieces are 16 bytes; where an access is smaller or not aligned, those 16 bytes are divided into finer pieces for good.
A cell holds an event and a lane (`events.py`). Judging is the caller's: a `View` says which events an access may not
rely on, and hears of every pair that is not ordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.events import GENERIC, LANE_BITS, NONE, SEVERAL
from tkc.emulator.lanes import Vec
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.view import View

UNIT = 16
_SHIFT = 4
_SHIFTS = tuple(np.array(n) for n in range(_SHIFT + 1))
"""As arrays, with which an operation on few lanes takes half the time."""
MANY, BLOCK = 16, 128
"""Of how many lanes a dense access divides all pieces of the blocks that it touches."""
SMALL = (1, 2, 4, 8)
"""Sizes of accesses of threads, which are aligned to them."""
MOST_READERS = 16
"""Reads of one piece that are kept; of more, the oldest is forgotten."""


class Cells:
    """Pieces of one size: the last write of each, and slots for the reads since."""

    __slots__ = ("last", "reads")

    def __init__(self, count: int) -> None:
        self.last = np.zeros(count, np.int64)
        self.reads: list[Vec] = []

    def columns(self) -> list[Vec]:
        return [self.last, *self.reads]

    def write(self, view: View, index: Vec, codes: Any, own: Vec | None) -> None:
        """A write of pieces; `codes` are what the cells will hold, `own` the component of each access."""
        before = self.last[index]
        read: Vec | None = None
        for slot in self.reads:
            found = slot[index]
            if not np.count_nonzero(found):
                continue
            late = view.unordered(found, own, True)
            if late is not None:
                view.conflict(Kind.READ, Kind.WRITE, found[late], before[late])
            held = found != NONE
            read = held if read is None else read | held
            slot[index] = 0
        # A read between two writes orders them where it is ordered itself, and was judged when it was made.
        if read is None or np.count_nonzero(read) < len(read):
            bad = view.unordered(before, own)
            if bad is not None and read is not None:
                bad &= ~read
            if bad is not None and np.count_nonzero(bad):
                view.conflict(Kind.WRITE, Kind.WRITE, before[bad], before[bad])
        self._put(self.last, index, codes)

    def read(self, view: View, index: Vec, codes: Any, own: Vec | None) -> None:
        """A read of pieces."""
        before = self.last[index]
        bad = view.unordered(before, own)
        if bad is not None:
            view.conflict(Kind.WRITE, Kind.READ, before[bad], before[bad])
        self.keep(view, index, codes)

    def keep(self, view: View, index: Vec, codes: Any) -> None:
        """Puts a read into the first slot where it replaces nothing that still counts."""
        for slot in self.reads:
            found = slot[index]
            if np.count_nonzero(found):
                free = (found == 0) | view.replaces(found, codes)
                if np.count_nonzero(free) < len(free):
                    slot[index[free]] = codes if isinstance(codes, int) else codes[free]
                    index = index[~free]
                    codes = codes if isinstance(codes, int) else codes[~free]
                    continue
            self._put(slot, index, codes)
            return
        if len(self.reads) >= MOST_READERS:
            self._put(self.reads[0], index, codes)
            return
        slot = np.zeros(len(self.last), np.int64)
        self._put(slot, index, codes)
        self.reads.append(slot)

    @staticmethod
    def _put(slot: Vec, index: Vec, codes: Any) -> None:
        slot[index] = codes
        if not isinstance(codes, int):
            # Of several lanes at one place only one could be kept: they all count.
            twice = slot[index] != codes
            if np.count_nonzero(twice):
                slot[index[twice]] |= SEVERAL


class Shadow:
    """The cells of one region."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.whole = Cells(-(-size // UNIT) + 1)
        self.divided: Vec | None = None
        self.grain = 4
        self.parts: Cells | None = None
        self.written = False
        self.log: list[tuple[int, Vec, int, Any]] | None = None
        """Reads of a region that nobody has written yet: most inputs never are."""

    def touch(
        self, view: View, kind: Kind, offsets: Vec, size: int, codes: Any, own: Vec | None
    ) -> None:
        """An access of `size` bytes at each offset; `codes` and `own` are one for each of them, or for all."""
        if self.log is not None and not self.written:
            if kind is Kind.READ:
                self.log.append((view.event, offsets, size, codes))
                return
            self.written = True
            for event, places, length, held in self.log:
                self._apply(view.past(event), Kind.READ, places, length, held, None)
            self.log.clear()
        self._apply(view, kind, offsets, size, codes, own)

    def _apply(
        self, view: View, kind: Kind, offsets: Vec, size: int, codes: Any, own: Vec | None
    ) -> None:
        # Offsets are 64 bits wide mostly, and small.
        offsets = offsets.view(np.int64) if offsets.itemsize == 8 else offsets.astype(np.int64)
        if size in SMALL and not view.is_async:
            if self.parts is not None and size >= self.grain:
                divided = self.divided[offsets >> _SHIFTS[_SHIFT]]  # type: ignore[index]
                if np.count_nonzero(divided) == len(divided):
                    self._split(view, kind, offsets, size, codes, own)
                    return
            self._fine(view, kind, offsets, size, codes, own)
            return
        if size % UNIT or np.count_nonzero(offsets & (UNIT - 1)):
            if size < UNIT or not view.is_async:
                self._fine(view, kind, offsets, size, codes, own)
                return
            # The copy engine moves whole units, whatever of them lies inside of a tensor.
            size = -(-size // UNIT) * UNIT
        index, codes, own = _expand(offsets >> _SHIFT, size >> _SHIFT, codes, own)
        if self.divided is not None:
            divided = self.divided[index]
            if np.count_nonzero(divided):
                inner = index[divided] << _SHIFT
                self._split(view, kind, inner, UNIT, _pick(codes, divided), _pick(own, divided))
                rest = ~divided
                index, codes, own = index[rest], _pick(codes, rest), _pick(own, rest)
                if not len(index):
                    return
        if kind is Kind.READ:
            self.whole.read(view, index, codes, own)
        else:
            self.whole.write(view, index, codes, own)

    def _fine(
        self, view: View, kind: Kind, offsets: Vec, size: int, codes: Any, own: Vec | None
    ) -> None:
        """An access of less than whole pieces: those that it touches are divided."""
        grain = self.grain
        aligned = size in SMALL and not view.is_async
        low = size if aligned else int(np.bitwise_or.reduce(offsets)) | size
        while low & (grain - 1):
            grain >>= 1
        if self.parts is None:
            self.grain = grain
            self.parts = Cells((len(self.whole.last)) * (UNIT // grain))
            self.divided = np.zeros(len(self.whole.last), bool)
        elif grain < self.grain:
            times = self.grain // grain
            self.parts.last = np.repeat(self.parts.last, times)
            self.parts.reads = [np.repeat(r, times) for r in self.parts.reads]
            self.grain = grain
        assert self.divided is not None
        units = offsets >> _SHIFTS[_SHIFT]
        touched: Vec | None = units
        if not aligned:
            last = (offsets + (size - 1)) >> _SHIFT
            touched = None if size > UNIT or np.count_nonzero(last != units) else units
        if touched is None:
            touched = np.unique(np.concatenate([_expand(units, -(-size // UNIT) + 1, 0, None)[0]]))
            touched = touched[touched < len(self.divided)]
        done = self.divided[touched]
        if np.count_nonzero(done) < len(done):
            self._divide(self._around(touched[~done]))
        self._split(view, kind, offsets, size, codes, own)

    def _around(self, fresh: Vec) -> Vec:
        """The pieces to divide: of a dense access of many lanes its surroundings, which the next ones touch."""
        assert self.divided is not None
        low, high = int(fresh.min()), int(fresh.max()) + 1
        if len(fresh) < MANY or high - low > BLOCK:
            return np.unique(fresh)
        low -= low % BLOCK
        high += -high % BLOCK
        return np.flatnonzero(~self.divided[low:high]) + low

    def _divide(self, units: Vec) -> None:
        """Whole pieces become parts that hold the same."""
        assert self.parts is not None
        assert self.divided is not None
        self.divided[units] = True
        count = UNIT // self.grain
        index = (units[:, None] * count + np.arange(count)).reshape(-1)
        self.parts.last[index] = np.repeat(self.whole.last[units], count)
        for number, slot in enumerate(self.whole.reads):
            held = slot[units]
            if not held.any():
                continue
            while len(self.parts.reads) <= number:
                self.parts.reads.append(np.zeros(len(self.parts.last), np.int64))
            self.parts.reads[number][index] = np.repeat(held, count)
            slot[units] = 0

    def _split(
        self, view: View, kind: Kind, offsets: Vec, size: int, codes: Any, own: Vec | None
    ) -> None:
        assert self.parts is not None
        shift = self.grain.bit_length() - 1
        first = offsets >> _SHIFTS[shift]
        index, codes, own = _expand(first, max(size >> shift, 1), codes, own)
        if kind is Kind.READ:
            self.parts.read(view, index, codes, own)
        else:
            self.parts.write(view, index, codes, own)

    def place(self, index: int, fine: bool) -> int:
        """The byte offset of a cell, for a report."""
        return index * (self.grain if fine else UNIT)


def _expand(first: Vec, count: int, codes: Any, own: Vec | None) -> tuple[Vec, Any, Vec | None]:
    """`count` pieces from each first one on, with what belongs to each."""
    if count == 1:
        return first, codes, own
    index = (first[:, None] + np.arange(count)).reshape(-1)
    if not isinstance(codes, int):
        codes = np.repeat(codes, count)
    if own is not None:
        own = np.repeat(own, count)
    return index, codes, own


def _pick(values: Any, where: Vec) -> Any:
    if values is None or isinstance(values, int):
        return values
    return values[where]


def code(event: int, lane: int) -> int:
    return event << LANE_BITS | lane


__all__ = ["GENERIC", "Cells", "Shadow", "code"]
