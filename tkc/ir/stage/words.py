"""Operations of the stage level as the language says them, for messages."""

from __future__ import annotations

from xdsl.ir import Operation

SAID = {
    "stage.role_barrier": "`sync role`", "stage.warp_sync": "`sync warp`", "stage.named_barrier": "`sync`",
    "stage.registers": "`registers`", "stage.tma_load_to": "`load`", "stage.tma_store": "`store`",
    "stage.bulk_commit": "`commit stores`", "stage.bulk_wait": "`wait stores`", "stage.mma": "a matrix product",
    "stage.mma_wait": "`wait products`", "stage.mma_commit": "`commit products`", "stage.mma_fence": "`fence products`",
    "stage.tcgen05_commit": "`commit`", "stage.store_shared": "a copy of a register tile",
    "stage.load_shared": "`read`", "stage.read_accumulator": "`read`", "stage.mbarrier_expect": "`expect`",
    "stage.mbarrier_arrive": "`arrive`", "stage.cluster_barrier": "a barrier of the cluster",
    "stage.tma_prefetch": "`prefetch`", "stage.cluster_copy": "`copy`", "stage.fold_rows": "a reduction over rows",
    "stage.fold_warp": "a reduction to a number",
    "stage.tma_load": "a copy by the tensor copy engine", "stage.cluster_arrive": "`arrive cluster`",
    "stage.fill": "a computation with tiles", "stage.map": "a computation with tiles",
    "stage.mask": "a computation with tiles", "stage.cast": "a computation with tiles",
    "stage.part": "a computation with tiles", "stage.reduce": "a reduction of a tile",
    "stage.combine_lanes": "a reduction of a tile", "stage.load_global": "`read`",
    "stage.store_global": "a copy of a vector", "stage.copy_scales": "`copy`", "stage.scaled_mma": "a matrix product",
    "stage.write_accumulator": "a copy to an accumulator", "stage.zero": "an accumulator's `= 0`",
    "stage.proxy_fence": "`fence proxy`", "stage.tcgen05_fence": "`fence tcgen05`", "stage.restart": "a product",
}  # fmt: skip
"""Operations as the language says them."""


def words(op: Operation) -> str:
    """What a program calls an operation; its name where it has no word for it."""
    return SAID.get(op.name, op.name)
