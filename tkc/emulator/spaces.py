"""Memory of the machine: regions of bytes, and the one place through which every access to them goes.

Whoever accesses memory says who it is (a warp or an engine) and where the access comes from: the instruction, the
proxy, and the event that completes it. An observer, where there is one, sees every access before it happens.

A region may have a shadow: one byte for each byte, 1 where nothing was ever written. Reads of such bytes are legal;
the reader asks `unwritten` and follows the value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tkc.emulator.lanes import U8, UNSIGNED, Vec
from tkc.emulator.report import Stop
from tkc.ir.isa.memory import Done, Kind, Proxy

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction

SHARED_WINDOW = 0x7F00_0000_0000
LOCAL_WINDOW = 0x7E00_0000_0000
PARAM_WINDOW = 0x7D00_0000_0000
GLOBAL_START = 0x0000_1000_0000
WINDOW_SIZE = 1 << 32
"""Where the windows of the generic address space lie; everything below PARAM_WINDOW is global or constant."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an access comes from: its instruction, its proxy, and the event after which it has happened."""

    ins: Instruction
    proxy: Proxy = Proxy.GENERIC
    done: Done = Done.NOW
    collective: bool = False
    """Whether the lanes of a warp make the access together, so that no place belongs to one of them."""
    first: bool = False
    """Whether a product reads its first operand by it, which a commit may tell by itself."""


class Observer(Protocol):
    """Sees every access before it happens: `offsets` are byte offsets into the region, each of `size` bytes.

    `where` says which of the active lanes they belong to, where they are not one for each.
    """

    def access(
        self,
        agent: Any,
        origin: Origin,
        kind: Kind,
        region: Region,
        offsets: Vec,
        size: int,
        where: Vec | None = None,
    ) -> None: ...

    def tensor_access(
        self,
        agent: Any,
        origin: Origin,
        kind: Kind,
        memory: Any,
        lanes: Any,
        start: int,
        stop: int,
    ) -> None:
        """Of tensor memory: `lanes` are a slice or a vector of numbers, in columns start .. stop - 1."""
        ...


class Region:
    """Bytes at consecutive addresses from `base`; `shadow` is None where every byte counts as written."""

    __slots__ = (
        "_shadows",
        "_views",
        "base",
        "base_vec",
        "cells",
        "constant",
        "data",
        "name",
        "owner",
        "shadow",
        "size",
        "space",
    )

    def __init__(
        self,
        name: str,
        space: str,
        base: int,
        data: Vec,
        shadow: Vec | None = None,
        owner: Any = None,
    ) -> None:
        self.name = name
        self.space = space
        self.base = base
        self.base_vec = np.array([base], np.uint64)
        self.data = data
        self.size = len(data)
        self.shadow = shadow
        self.owner = owner
        self.constant = False
        self.cells: Any = None
        """What the happens-before record keeps of it."""
        self._views: dict[int, Vec] = {}
        self._shadows: dict[int, Vec] = {}

    def view(self, width: int, count: int) -> Vec:
        """The bytes as items of `count` words of `width` bits; a last part that is no whole item is left out."""
        key = width << 8 | count
        found = self._views.get(key)
        if found is None:
            unit = width // 8 * count
            found = self.data[: self.size // unit * unit].view(UNSIGNED[width])
            if count > 1:
                found = found.reshape(-1, count)
            self._views[key] = found
        return found

    def shadow_view(self, unit: int) -> Vec:
        """The shadow as one item for each `unit` bytes: not 0 where a byte is unwritten."""
        found = self._shadows.get(unit)
        if found is None:
            assert self.shadow is not None
            whole = self.shadow[: self.size // unit * unit]
            found = whole.view(UNSIGNED[8 * min(unit, 8)])
            if unit > 8:
                found = found.reshape(-1, unit // 8)
            self._shadows[unit] = found
        return found


class _Shifts(dict[tuple[str, int], tuple[Vec, Vec]]):
    def __missing__(self, key: tuple[str, int]) -> tuple[Vec, Vec]:
        char, unit = key
        dtype = np.dtype(char)
        made = (np.array([unit.bit_length() - 1], dtype), np.array([unit - 1], dtype))
        self[key] = made
        return made


_SHIFTS = _Shifts()


class Memory:
    """The global space and the one place of access."""

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self.regions: list[Region] = []
        self._bases: list[int] = []
        self._next = GLOBAL_START
        self.writing: Callable[[], bool] | None = None
        """Whether the write at hand leaves everything as it is: for the observer, who may ask before it happens."""
        self.writes = 0
        """Counts writes, so that the scheduler can tell whether anything has changed."""

    def place(self, size: int, align: int = 512, skew: int = 0) -> int:
        """A global address for `size` bytes, `skew` beyond an aligned one, with a gap before and after."""
        base = -(-self._next // align) * align + skew
        self._next = base + size + 4096
        return base

    def add(self, region: Region) -> Region:
        at = bisect_right(self._bases, region.base)
        self.regions.insert(at, region)
        self._bases.insert(at, region.base)
        return region

    def find(self, address: int) -> Region | None:
        """The global or constant region that holds the address."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        region = self.regions[at]
        return region if address < region.base + region.size else None

    # The one place of access

    def read(
        self,
        agent: Any,
        origin: Origin,
        region: Region,
        offsets: Vec,
        width: int,
        count: int = 1,
        where: Vec | None = None,
    ) -> Vec:
        """Items of `count` words of `width` bits at byte offsets; shape (n,) or (n, count). Faults stop the launch."""
        unit = width // 8 * count
        shift, low = _SHIFTS[offsets.dtype.char, unit]
        if unit > 1 and np.count_nonzero(offsets & low):
            raise misaligned(agent, origin, region, offsets, unit)
        if self.observer is not None:
            self.observer.access(agent, origin, Kind.READ, region, offsets, unit, where)
        try:
            return region.view(width, count).take(offsets >> shift, axis=0)
        except IndexError:
            index = _byte_index(agent, origin, region, offsets, unit)
            found = region.data[index].view(UNSIGNED[width])
            return found if count > 1 else found[:, 0]

    def write(
        self,
        agent: Any,
        origin: Origin,
        region: Region,
        offsets: Vec,
        values: Vec,
        width: int,
        count: int = 1,
        where: Vec | None = None,
    ) -> None:
        """Writes items; of two at one place the later wins. Faults stop the launch."""
        unit = width // 8 * count
        shift, low = _SHIFTS[offsets.dtype.char, unit]
        if unit > 1 and np.count_nonzero(offsets & low):
            raise misaligned(agent, origin, region, offsets, unit)
        if self.observer is not None:
            self.writing = lambda: holds(region, offsets, values, width, count)
            self.observer.access(agent, origin, Kind.WRITE, region, offsets, unit, where)
        self.writes += 1
        index = offsets >> shift
        try:
            region.view(width, count)[index] = values
        except IndexError:
            at = _byte_index(agent, origin, region, offsets, unit)
            region.data[at] = np.ascontiguousarray(values).reshape(len(offsets), -1).view(U8)
            index = None
        except ValueError:
            raise Stop(
                "TK321", f"write to read-only memory {region.name}", ins=origin.ins, warp=agent
            ) from None
        if region.shadow is not None:
            if index is None:
                region.shadow[_byte_index(agent, origin, region, offsets, unit)] = 0
            else:
                region.shadow_view(unit)[index] = 0

    def read_box(
        self,
        agent: Any,
        origin: Origin,
        region: Region,
        start: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> tuple[Vec, Vec | None]:
        """(bytes of a strided box, where they are unwritten or None); the last axis counts bytes side by side."""
        box = self._box(agent, origin, region, start, shape, strides, Kind.READ)
        found = np.array(box)
        if region.shadow is None:
            return found, None
        shadow = _strided(region.shadow, start, shape, strides)
        return found, np.array(shadow) if shadow.any() else None

    def write_box(
        self,
        agent: Any,
        origin: Origin,
        region: Region,
        start: int,
        strides: tuple[int, ...],
        values: Vec,
    ) -> None:
        """Writes a strided box of bytes."""
        if self.observer is not None:
            self.writing = lambda: bool(
                np.array_equal(_strided(region.data, start, values.shape, strides), values)
            )
        box = self._box(agent, origin, region, start, values.shape, strides, Kind.WRITE)
        self.writes += 1
        if not region.data.flags.writeable:
            raise Stop(
                "TK321", f"write to read-only memory {region.name}", ins=origin.ins, warp=agent
            )
        box[...] = values
        if region.shadow is not None:
            _strided(region.shadow, start, values.shape, strides)[...] = 0

    def _box(
        self,
        agent: Any,
        origin: Origin,
        region: Region,
        start: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        kind: Kind,
    ) -> Vec:
        if 0 in shape:
            return np.zeros(shape, U8)
        last = start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if start < 0 or last >= region.size:
            raise out_of_bounds(agent, origin, region.base + max(last, 0), 1, region)
        if self.observer is not None:
            rows = np.array([start])
            for n, s in zip(shape[:-1], strides[:-1], strict=True):
                rows = (rows[:, None] + np.arange(n) * s).reshape(-1)
            self.observer.access(agent, origin, kind, region, rows, shape[-1])
        return _strided(region.data, start, shape, strides)

    def unwritten(self, region: Region, offsets: Vec, unit: int) -> Vec | None:
        """For each item whether one of its bytes was never written; None where none is."""
        if region.shadow is None:
            return None
        shift, _ = _SHIFTS[offsets.dtype.char, unit]
        found = region.shadow_view(unit).take(offsets >> shift, axis=0)
        if not np.count_nonzero(found):
            return None
        return found.any(axis=1) if found.ndim > 1 else found != 0

    def unwritten_bytes(self, region: Region, offsets: Vec, unit: int) -> Vec:
        """Of each item, which bytes were never written: (n, unit) booleans."""
        if region.shadow is None:
            return np.zeros((len(offsets), unit), bool)
        return region.shadow[offsets.astype(np.int64)[:, None] + np.arange(unit)] != 0

    def poison(self, region: Region, offsets: Vec, unit: int) -> None:
        """Marks items as unwritten again: what was stored there was not a value."""
        if region.shadow is not None:
            shift, _ = _SHIFTS[offsets.dtype.char, unit]
            region.shadow_view(unit)[offsets >> shift] = 1


def holds(region: Region, offsets: Vec, values: Vec, width: int, count: int) -> bool:
    """Whether the values stand at the byte offsets already: items of `count` words of `width` bits, as in `write`."""
    unit = width // 8 * count
    try:
        there = region.view(width, count)[offsets // np.array(unit, offsets.dtype)]
    except IndexError:
        # The last item of a region whose size is no multiple of it.
        at = offsets.astype(np.int64)[:, None] + np.arange(unit)
        there = region.data[at].view(UNSIGNED[width]).reshape(values.shape)
    if values.dtype.itemsize != there.dtype.itemsize:
        return False
    return bool(np.array_equal(there, np.ascontiguousarray(values).view(there.dtype)))


def _strided(data: Vec, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Vec:
    return np.lib.stride_tricks.as_strided(data[start:], shape, strides)


def _byte_index(agent: Any, origin: Origin, region: Region, offsets: Vec, unit: int) -> Vec:
    """Every byte of the items; stops the launch where one is outside the region."""
    wide = offsets.astype(np.int64)
    bad = (wide < 0) | (wide + unit > region.size)
    if bad.any():
        raise out_of_bounds(agent, origin, region.base + int(wide[bad][0]), unit, region)
    return wide[:, None] + np.arange(unit)


def misaligned(agent: Any, origin: Origin, region: Region, offsets: Vec, unit: int) -> Stop:
    low = np.uint64(unit - 1)
    at = int(offsets[(offsets.astype(np.uint64) & low) != 0][0])
    return Stop(
        "TK322",
        f"{origin.ins.statement.mnemonic} at {region.space} address {region.base + at:#x}, no multiple of {unit}",
        ins=origin.ins,
        warp=agent,
    )


def out_of_bounds(
    agent: Any, origin: Origin, address: int, unit: int, region: Region | None
) -> Stop:
    """The finding for an access outside of every region."""
    where = ""
    if region is not None:
        where = f"; {region.name} is {region.base:#x} .. {region.base + region.size:#x}"
    space = region.space if region is not None else "global"
    return Stop(
        "TK321",
        f"{origin.ins.statement.mnemonic} of {unit} bytes at {space} address {address:#x} is outside of memory{where}",
        ins=origin.ins,
        warp=agent,
    )
