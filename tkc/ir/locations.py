"""Where an operation came from: the source location that each carries, read and passed on.

xDSL keeps a location on every operation, but neither its parser nor its rewriter fills one in: `LocatedParser` and
`tkc.passes.rewrite` do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation

from tkc.diagnostics import Location

if TYPE_CHECKING:
    from tkc.ir.located_parser import LocatedParser

__all__ = ["LocatedParser", "at", "file_location", "location_of", "places", "to_attribute"]

Op = TypeVar("Op", bound=Operation)


def __getattr__(name: str) -> Any:
    """`LocatedParser`, which is loaded only by those who parse."""
    if name == "LocatedParser":
        from tkc.ir.located_parser import LocatedParser

        return LocatedParser
    raise AttributeError(f"tkc.ir.locations has no {name}")


def file_location(file: str, line: int, column: int) -> FileLineColLoc:
    """The attribute of a place; lines and columns count from 1."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def to_attribute(location: Location | None) -> LocationAttr:
    """The attribute of a diagnostic's location, unknown where there is none."""
    if location is None or not location.line:
        return UNKNOWN_LOC
    return file_location(location.file, location.line, location.column)


def places(location: LocationAttr) -> Iterator[FileLineColLoc]:
    """The places in files that a location names, nearest first."""
    match location:
        case FileLineColLoc():
            yield location
        case NameLoc():
            yield from places(location.location)  # pyright: ignore[reportArgumentType]
        case CallSiteLoc():
            yield from places(location.callee)  # pyright: ignore[reportArgumentType]
            yield from places(location.caller)  # pyright: ignore[reportArgumentType]
        case FusedLoc():
            parts: Any = location.locations
            for part in parts:
                yield from places(part)
        case _:
            return


def location_of(op: Operation) -> Location | None:
    """Where the operation, or the nearest operation round it that knows, stands in the source."""
    current: Operation | None = op
    while current is not None:
        for place in places(current.location):
            return Location(place.filename.data, place.line.data, place.column.data)
        current = current.parent_op()
    return None


def at(op: Operation, new: Op) -> Op:
    """Gives `new`, and what it holds, the location of `op` where it has none of its own; returns `new`."""
    location = op.location
    for inner in new.walk():
        if isinstance(inner.location, UnknownLoc):
            inner.location = location
    return new
