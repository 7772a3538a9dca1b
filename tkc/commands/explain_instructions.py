"""Which instructions each synchronisation of a kernel becomes, and those that no one synchronisation is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkc.driver import lowered
from tkc.ir.certificates import label
from tkc.ir.isa.memory import Space, Touch
from tkc.ir.locations import file_location, location_of
from tkc.ir.ptx.instruction import Instruction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from tkc.diagnostics import Location
    from tkc.job import Job

PURPOSES = (
    ("mbarrier.init", "barriers begin at phase 0"),
    ("fence.mbarrier_init", "whoever hears of this thread, in any CTA of the cluster, finds its barriers initialised"),
    ("tcgen05.fence", "tensor memory is set up, or given back, in order with the barrier beside it"),
    ("tcgen05.relinquish", "another CTA may ask for tensor memory"),
    ("tcgen05.wait::ld", "what has been loaded from tensor memory is in its registers"),
    ("tcgen05.wait::st", "what has been stored to tensor memory is there"),
    ("wgmma.fence", "registers are written before products use them"),
    ("wgmma.commit_group", "products of one step are awaited together"),
    ("wgmma.wait_group", "accumulators are complete before they are read"),
    ("barrier.cluster", "all CTAs of the cluster are here: barriers exist, or nobody needs their memory any more"),
    ("barrier.cta", "all threads of the CTA are here: what has been set up is seen, or nobody needs it any more"),
    ("bar.warp", "all lanes of the warp are here"),
    ("griddepcontrol", "the grids before and after this one may overlap"),
    ("fence.proxy.async", "what threads have written is there for the copy engine"),
)  # fmt: skip
"""The beginning of an instruction's mnemonic, and what it is for where no synchronisation of a role asks for it."""


@dataclass
class Made:
    """A kernel's synchronising instructions: of each site, and the others with their places."""

    of: dict[str, list[str]] = field(default_factory=dict)
    others: list[tuple[str, str, Location | None]] = field(default_factory=list)
    """What each is, what it is for, and where in the source."""

    @property
    def count(self) -> int:
        return sum(map(len, self.of.values())) + len(self.others)


def instructions(job: Job, after: str, module: ModuleOp, sites: set[str]) -> dict[str, Made]:
    """Lowers a module as it is behind the pass `after`; by kernel. `sites`: the ids of its synchronisations."""
    places: list[tuple[str, Location | None]] = []
    for op in module.walk():  # each operation's place says which one it is
        places.append((label(op), location_of(op)))
        op.location = file_location("site", len(places), 1)
    found: dict[str, Made] = {}
    for kernel in lowered(job, module, after).body.block.ops:
        made = found[kernel.sym_name.data] = Made()  # type: ignore[attr-defined]
        for instruction in _synchronising(kernel):
            mnemonic = instruction.spelling.mnemonic
            place = location_of(instruction)
            site, location = places[place.line - 1] if place is not None else ("", None)
            if site in sites:
                made.of.setdefault(site, []).append(mnemonic)
            else:
                made.others.append((mnemonic, _purpose(mnemonic), location))
    return found


def _synchronising(kernel: Operation) -> Iterator[Instruction]:
    """The instructions that touch mbarriers at most, and order, signal or wait."""
    for op in kernel.walk():
        if isinstance(op, Instruction):
            effects = op.ROW.effects
            touched = {e.space for e in effects if isinstance(e, Touch)}
            if effects and touched <= {Space.BARRIER}:
                yield op


def _purpose(mnemonic: str) -> str:
    return next((why for start, why in PURPOSES if mnemonic.startswith(start)), "")
