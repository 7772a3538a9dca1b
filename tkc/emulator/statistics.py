"""What a launch did, counted: instructions by family, fences and products; and which rows are fences and waits.

Segments are counted as they run; their instructions are added up here, at the end. Fences and products may stand under
a guard, so each counts itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkc.emulator.instruction import Collective, Instruction, Semantic
from tkc.ir.isa.instructions import Row
from tkc.ir.isa.memory import Await, Order

if TYPE_CHECKING:
    from tkc.emulator.program import Segment
    from tkc.emulator.report import Report


def is_wait(row: Row) -> bool:
    """Whether the instruction waits for a barrier or a group."""
    return any(isinstance(effect, Await) for effect in row.effects)


def is_fence(row: Row) -> bool:
    """Whether the instruction orders accesses and does nothing else."""
    orders = bool(row.effects) and all(isinstance(effect, Order) for effect in row.effects)
    return orders and ("fence" in row.mnemonic or row.mnemonic.startswith("membar"))


def counter_of(row: Row) -> str:
    """The statistic that one execution of an instruction adds to; empty for most.

    Products of a warpgroup or of the tensor core count where they are issued.
    """
    if is_fence(row):
        return f"fences.{row.name}"
    return "mma.warp" if row.name.startswith(("mma.", "wmma.mma")) else ""


def counting(what: Semantic, name: str) -> Semantic:
    """A step that counts as `name` each time it is done."""
    if isinstance(what, Collective):
        return replace(what, step=_counting(what.step, name))
    return _counting(what, name) if callable(what) else what


def _counting(step: Any, name: str) -> Any:
    def run(w: Any) -> None:
        w.machine.report.count(name)
        step(w)

    return run


def counted(segment: Segment) -> Iterator[Instruction]:
    """The instructions of a segment: each ran as often as the segment did."""
    yield from segment.instructions
    if segment.last is not None and not segment.guards:
        yield segment.last


def count_instructions(report: Report, segments: Sequence[Segment], hits: Sequence[int]) -> None:
    """Adds `instructions.FAMILY` to the report, from how often each segment has run."""
    for segment, times in zip(segments, hits, strict=True):
        if not times:
            continue
        for ins in counted(segment):
            report.count(f"instructions.{ins.family}", times)
