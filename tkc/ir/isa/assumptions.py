"""What shipped kernels rely on beyond the PTX manual, as rows: each assumption, and the profiles that grant it.

Imports the standard library only. `strict` grants what a document or NVIDIA's formal model supports, `practice` what
kernels that people run every day need. Section numbers are those of PTX ISA 9.4.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

STRICT, PRACTICE = "strict", "practice"
ACROSS = "across"
"""Strict, but for what is assumed of other CTAs of a cluster."""
UNHIDDEN = "unhidden"
"""Strict, but for arrivals that those of another CTA may hide: of the order of time that they leave less is known than
is so, and fences that are needed without them count as needed."""
FENCED = "fenced"
"""Practice, but for what makes proxy fences needless or joins by those of another CTA: strict in that."""
MODELS = (STRICT, PRACTICE)


class Assumption(NamedTuple):
    """One row: `grants` says what is taken for true, `basis` why.

    `warns`: that is thin, so that practice takes it with a warning and strict has an error.
    """

    id: str
    grants: str
    basis: str
    profiles: tuple[str, ...] = (PRACTICE,)
    warns: bool = False


_BOTH = (STRICT, UNHIDDEN, FENCED, ACROSS, PRACTICE)
_ACROSS = (ACROSS, PRACTICE)
_UNHIDDEN = (UNHIDDEN, FENCED, PRACTICE)
_FENCED = (FENCED, PRACTICE)

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption("A1", "an async access of shared memory is performed by the CTA that owns the memory",
               "multicast and pair kernels never fence async after async across CTAs", _ACROSS),
    Assumption("A2", "a wait of .cta scope observes completions of another CTA on its own mbarrier, and another CTA's "
               "arrival of .cta scope tells it of tensor memory, and of completions of copies and products that its "
               "threads know, not of their groups of stores",
               "the default scopes of try_wait and arrive in shipped cluster kernels", (*_ACROSS, FENCED)),
    Assumption("A3", "an acquire orders later tcgen05 operations", "9.7.18.6.3", _BOTH),
    Assumption("A4", "the arrival of tcgen05.commit releases what the tracked operations did",
               "9.7.18.12.1", _BOTH),
    Assumption("A5", "a completion orders async accesses that its issuer had seen complete, to the same bytes",
               "two copies into one slot of a ring, of which the first is read in part"),
    Assumption("A6", "completion of tcgen05.mma and cp bridges their own accesses to the generic proxy",
               "transforms in shared memory of sm_100 kernels"),
    Assumption("A7", "wait_group.read bridges the reads of its copies to the generic proxy",
               "every epilogue that stores through the copy engine"),
    Assumption("A8", "wgmma reads shared memory after what its warps have acquired",
               "9.7.17; without it no copy could feed wgmma", _BOTH),
    Assumption("A9", "tcgen05.cp after tcgen05.mma or cp of the same thread keeps order",
               "block scales in tensor memory that are not ringed", _FENCED),
    Assumption("A11", "a proxy fence covers what its thread has acquired from others",
               "NVIDIA's formal model, MP_cta rows", _BOTH),
    Assumption("A12", "the wait of one thread for wgmma covers the reads of its whole warpgroup",
               "one arriving thread for each warpgroup", _FENCED),
    Assumption("A13", "bar.warp.sync orders its lanes for tensor memory, wgmma and bulk completions too",
               "elected arrivals after a wait of all lanes", _FENCED),
    Assumption("A14", "tcgen05.mma that writes columns which an earlier one of the same thread reads as A keeps order",
               "attention kernels that put P over S", _FENCED),
    Assumption("A15", "a remote arrival between two local ones keeps the chain of generic data of one CTA",
               "pair kernels", _UNHIDDEN),
    Assumption("A16", "threads that write the same value to one place by one instruction do no harm",
               "results that several threads hold are stored by all of them"),
    Assumption("A17", "a load does no harm in a thread in which nothing uses its value",
               "compilers load in all threads what one of them stores"),
    Assumption("A18", "a weak read of a word that others change atomically gives one of its values",
               "the first guess of a compare-and-swap loop"),
    Assumption("A19", "the address word of tcgen05.alloc needs no proxy fence between its reads and an async overwrite",
               "compilers that give the word's place to a tile"),
    Assumption("A20", "bar.sync orders awaited loads and stores of tensor memory without tcgen05.fence",
               "Triton's kernels; completions of tcgen05.mma still need the fence there", _FENCED),
    Assumption("A22", "ldmatrix and then stmatrix of one warp on the same rows keep their order",
               "CUTLASS epilogues that put D over C in place"),
    Assumption("A21", "the assembler tracks the registers of tcgen05.ld: who reads them waits for them",
               "many kernels read them before tcgen05.wait::ld; a warning where none ever comes"),
    Assumption("A24", "tensor work of a pair comes after the allocation of the other CTA, which nobody has awaited",
               "tcgen05.alloc of a pair is done by both CTAs together (9.7.18.7); CUTLASS's kernels of two SMs"),
    Assumption("A25", "an arrival of .cta scope on another CTA's mbarrier hands on the reads that a proxy fence of its "
               "thread has covered",
               "CUTLASS's schedulers: each CTA reads what clusterlaunchcontrol answered, fences and arrives"),
    Assumption("A26", "fence.mbarrier_init also covers what its thread initialises until the next cluster barrier",
               "CUTLASS's kernels of two SMs initialise one more mbarrier behind the last fence"),
    Assumption("A27", "wgmma and tcgen05.mma read what cp.async of their CTA has copied, and zeros that its threads "
               "store in place of such copies, behind the wait for those, with no proxy fence",
               "CUTLASS's main loops of cp.async for sm_90 and sm_100 have none, though 9.7.17.7.1 asks for it; for "
               "foreign text alone: neither the analysis nor a pass knows of this row, and no fence is left out for it",
               warns=True),
    Assumption("A28", "a thread that has exited has arrived at the cluster barrier, and tells what it did",
               "exit releases the barriers that wait for it alone, and nothing is said of memory; ThunderKittens "
               "gives the tensor memory of a pair back behind such a barrier"),
    Assumption("A29", "the shared memory of a CTA stays until bulk stores have read it whose threads have ended",
               "ThunderKittens' GEMMs for sm_100 end right behind their last stores; no document says so",
               warns=True),
    Assumption("A30", "tcgen05.alloc is one operation of its warp, any thread of which tells of columns and address",
               "it is .sync.aligned, and blocks; in ThunderKittens' GEMMs an elected lane arrives right behind it"),
    Assumption("A31", "a thread that has nothing left to wait for comes to its next wait, or arrival, before the phase "
               "after that is over, or the other CTA ends, where those who see to that know of all that it has awaited "
               "and of an arrival since by threads of its CTA that had passed the same wait",
               "ThunderKittens' GEMMs for sm_100: the tensor core goes on to the next tile when the epilogue has only "
               "to begin its wait, and CTAs end when a loader has only to arrive there; no document says so",
               warns=True),
    Assumption("A23", "the lanes of a warp go through a wait for an mbarrier together",
               "every kernel of which a whole warp waits and an elected lane goes on", _BOTH),
)  # fmt: skip
"""A10 (a generic read that has returned needs no fence before an async overwrite) is granted by neither profile."""


def granted(model: str) -> frozenset[str]:
    """The ids that a profile grants."""
    return frozenset(a.id for a in ASSUMPTIONS if model in a.profiles)


WARNED = frozenset(a.id for a in ASSUMPTIONS if a.warns)


def notes_on(ids: Collection[str]) -> tuple[str, ...]:
    """What a report says of the rows that it rests on."""
    return tuple(f"practice rests on {a.id}: {a.grants}" for a in ASSUMPTIONS if a.id in ids)


class Pipelined(NamedTuple):
    """Operations of one thread that run in order in the tensor core's pipe (9.7.18.6.2), without a wait between.

    `same` says that both must name the same accumulator place and shape; `needs` names the assumption, if any.
    """

    first: str
    then: str
    same: bool = False
    needs: str = ""


PIPELINED: tuple[Pipelined, ...] = (
    Pipelined("mma", "mma", same=True),
    Pipelined("cp", "mma"),
    Pipelined("cp", "cp", needs="A9"),
    Pipelined("shift", "mma"),
    Pipelined("shift", "cp"),
    Pipelined("mma", "shift"),
    Pipelined("mma", "cp", needs="A9"),
    Pipelined("mma", "mma", needs="A14"),
)
