"""Operations of the stage level as the language says them, for messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    "stage.tensor_mma": "a matrix product",
    "stage.write_accumulator": "a copy to an accumulator", "stage.zero": "an accumulator's `= 0`",
    "stage.proxy_fence": "`fence proxy`", "stage.tcgen05_fence": "`fence tcgen05`", "stage.restart": "a product",
    "stage.load_element": "`read`", "stage.store_element": "a store of an element",
    "stage.atomic": "an atomic operation", "stage.copy_elements": "`load`", "stage.copies_commit": "`commit copies`",
    "stage.copies_wait": "`wait copies`", "stage.grid_wait": "`wait pdl`", "stage.grid_launch": "`arrive pdl`",
    "stage.try_cancel": "the request for the next item", "stage.answer": "the answer that the next item is in",
    "stage.edit_map": "the edit", "stage.map_release": "the release of a tensor map",
    "stage.map_acquire": "the acquire of a tensor map",
}  # fmt: skip
"""Operations as the language says them."""


def words(op: Operation) -> str:
    """What a program calls an operation; its name where it has no word for it."""
    return SAID.get(op.name, op.name)


_ENDS = {
    "stage.mbarrier_wait": ("wait", "the wait for an item of {}", "the wait for a free slot of {}"),
    "stage.mbarrier_expect": ("expect", "the put to {}", "the get from {}"),
    "stage.mbarrier_arrive": ("arrive", "the put to {}", "the release of a slot of {}"),
    "stage.tcgen05_commit": ("commit", "the put to {}", "the release of a slot of {}"),
    "stage.copies_arrive": ("arrive", "the put to {}", "the release of a slot of {}"),
    "stage.mbarrier_try": (
        "try_wait",
        "the wait for an item of {}",
        "the wait for a free slot of {}",
    ),
}
"""What is done to a barrier: the command, and what it is where the barrier is that of a pipe's items or free slots."""


def _at_barrier(op: Any) -> str:
    command, full, empty = _ENDS[op.name]
    name: str = op.barriers.owner.sym_name.data
    pipe, _, end = name.rpartition(".")
    if pipe and end in ("full", "empty"):
        return (full if end == "full" else empty).format(pipe)
    return f"`{command} {name}`"


def _named(op: Any) -> str:
    if op.threads is None:
        return "`sync cta`"
    command = "arrive" if op.arrives is not None else "sync"
    return f"`{command} {op.number.value.data}, {op.threads.value.data}`"


_WITH: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(_ENDS, _at_barrier),
    "stage.named_barrier": _named,
    "stage.cluster_barrier": lambda op: f"`{op.does.data} cluster`",
    "stage.fence": lambda op: f"`fence {op.sem.data} {op.scope.data}`",
    "stage.tma_load": lambda op: "a copy",
}


def said(op: Operation) -> str:
    """An operation as its program says it, with what it is about; for messages that point to it."""
    told = _WITH.get(op.name)
    return told(op) if told is not None else SAID.get(op.name, op.name.removeprefix("stage."))
