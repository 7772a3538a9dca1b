"""Special registers: name, type, and what needs to be there (PTX section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tkc.ir.isa.targets import Feature, Version


class SpecialRegister(NamedTuple):
    """A read-only register; `type` is the modifier of the `mov` that reads it.

    `uniform` says that every thread of a warp reads the same; `constant` that a thread always reads the same.
    """

    name: str
    type: str
    doc: str
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()
    uniform: bool = True
    constant: bool = True


_CLUSTER = frozenset({Feature.CLUSTER})


def _vector(
    name: str,
    doc: str,
    ptx: Version = (1, 0),
    needs: frozenset[Feature] = frozenset(),
    uniform: bool = True,
) -> tuple[SpecialRegister, ...]:
    return tuple(
        SpecialRegister(f"{name}.{axis}", ".u32", f"{doc}, {axis}", ptx, needs, uniform) for axis in "xyz"
    )


SPECIAL_REGISTERS: Mapping[str, SpecialRegister] = {
    r.name: r
    for r in (
        *_vector("%tid", "thread in the CTA", uniform=False),
        *_vector("%ntid", "threads of a CTA"),
        *_vector("%ctaid", "CTA in the grid"),
        *_vector("%nctaid", "CTAs of the grid"),
        *_vector("%clusterid", "cluster in the grid", (7, 8), _CLUSTER),
        *_vector("%nclusterid", "clusters of the grid", (7, 8), _CLUSTER),
        *_vector("%cluster_ctaid", "CTA in its cluster", (7, 8), _CLUSTER),
        *_vector("%cluster_nctaid", "CTAs of a cluster", (7, 8), _CLUSTER),
        SpecialRegister("%cluster_ctarank", ".u32", "rank of the CTA in its cluster", (7, 8), _CLUSTER),
        SpecialRegister("%cluster_nctarank", ".u32", "CTAs of a cluster in all", (7, 8), _CLUSTER),
        SpecialRegister("%is_explicit_cluster", ".pred", "whether the launch named a cluster", (7, 8), _CLUSTER),
        SpecialRegister("%laneid", ".u32", "lane in the warp", (1, 3), uniform=False),
        SpecialRegister("%warpid", ".u32", "hardware warp, may change", (1, 3), constant=False),
        SpecialRegister("%nwarpid", ".u32", "most hardware warps", (2, 0)),
        SpecialRegister("%smid", ".u32", "multiprocessor, may change", (1, 3), constant=False),
        SpecialRegister("%nsmid", ".u32", "most multiprocessor numbers", (1, 3)),
        SpecialRegister("%gridid", ".u64", "grid in the context", (3, 0)),
        *(
            SpecialRegister(f"%lanemask_{which}", ".u32", f"lanes {sign} the own", (2, 0), uniform=False)
            for which, sign in (("eq", "=="), ("le", "<="), ("lt", "<"), ("ge", ">="), ("gt", ">"))
        ),
        SpecialRegister("%clock", ".u32", "cycle counter, low half", constant=False),
        SpecialRegister("%clock_hi", ".u32", "cycle counter, high half", (5, 0), constant=False),
        SpecialRegister("%clock64", ".u64", "cycle counter", (2, 0), constant=False),
        SpecialRegister("%globaltimer", ".u64", "nanoseconds", (3, 1), constant=False),
        SpecialRegister("%globaltimer_lo", ".u32", "nanoseconds, low half", (3, 1), constant=False),
        SpecialRegister("%globaltimer_hi", ".u32", "nanoseconds, high half", (3, 1), constant=False),
        SpecialRegister("%total_smem_size", ".u32", "bytes of shared memory of a CTA", (4, 1)),
        SpecialRegister("%aggr_smem_size", ".u32", "the same with what the system reserves", (8, 1)),
        SpecialRegister("%dynamic_smem_size", ".u32", "bytes of dynamic shared memory", (4, 1)),
        *(
            SpecialRegister(f"%reserved_smem_offset_{which}", ".b32", "system's shared memory", (7, 6))
            for which in ("begin", "end", "cap", "0", "1")
        ),
        SpecialRegister("%current_graph_exec", ".u64", "graph that runs, or 0", (8, 0)),
    )
}
"""By name, the percent sign included."""
