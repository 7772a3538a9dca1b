"""Placement: homes, warps, slices, row blocks, and what each item's signals are about."""

from __future__ import annotations

import pytest
from passes.programs import gemm, lowered, operations

from tkc.ir.stage import ops as s
from tkc.ir.stage.types import FragmentLayout, Home


def placed(target: str, **sizes: int) -> tuple[dict[str, s.RoleOp], list[s.BufferOp]]:
    module = lowered(gemm(**sizes), target, "place-tiles")
    roles = {r.sym_name.data: r for r in operations(module, s.RoleOp)}
    return roles, operations(module, s.BufferOp)


@pytest.mark.parametrize(
    ("target", "home", "depth"), [("sm_100a", Home.TENSOR, 2), ("sm_90a", Home.REGISTER, 1)]
)
def test_every_tile_has_a_home(target: str, home: Home, depth: int) -> None:
    _, buffers = placed(target)
    found = {b.sym_name.data: (b.buffer.type.home.data, b.buffer.type.depth.data) for b in buffers}
    slots = 2 if target == "sm_100a" else 4
    assert found == {
        "a": (Home.SHARED, 4),
        "b": (Home.SHARED, 4),
        "d": (home, depth),
        "store.staging": (Home.SHARED, slots),
    }


def test_warpgroups_come_first() -> None:
    """A tensor-memory reader's first warp is a multiple of four; roles of one warp follow in their order."""
    roles, _ = placed("sm_100a")
    assert {n: (r.first_warp.value.data, r.warps.value.data) for n, r in roles.items()} == {
        "store": (0, 4),
        "load": (4, 1),
        "math": (5, 1),
    }


@pytest.mark.parametrize(
    ("target", "bm", "bn", "layout", "rows", "blocks", "columns"),
    [
        ("sm_100a", 128, 256, FragmentLayout.ROWS, 128, 1, 64),
        ("sm_100a", 256, 256, FragmentLayout.ROWS, 128, 2, 64),
        ("sm_100a", 64, 128, FragmentLayout.HALF_ROWS, 64, 1, 64),
        ("sm_100a", 128, 96, FragmentLayout.ROWS, 128, 1, 32),
        ("sm_100a", 128, 16, FragmentLayout.ROWS, 128, 1, 16),
        ("sm_90a", 128, 256, FragmentLayout.WGMMA, 64, 1, 64),
        ("sm_90a", 256, 64, FragmentLayout.WGMMA, 64, 2, 64),
        ("sm_90a", 192, 64, FragmentLayout.WGMMA, 64, 3, 64),
    ],
)
def test_a_store_goes_in_slices_of_one_span_and_one_row_block(
    target: str, bm: int, bn: int, layout: FragmentLayout, rows: int, blocks: int, columns: int
) -> None:
    roles, _ = placed(target, bm=bm, bn=bn)
    reads = [op for op in roles["store"].walk() if isinstance(op, s.ReadAccumulatorOp)]
    for read in reads:
        assert read.value.type.shape == (rows, columns)
        assert read.value.type.layout.data == layout
    assert {r.row_block.value.data for r in reads} == set(range(blocks))
    loops = [op for op in roles["store"].walk() if isinstance(op, s.ForOp)]
    # Tensor memory is found at run time, in a loop; registers are written out; one slice needs no loop.
    looped = target == "sm_100a" and bn > columns
    assert bool(loops) == looped
    assert len(reads) == blocks * (1 if looped else bn // columns)
    stores = [op for op in roles["store"].walk() if isinstance(op, s.TmaStoreOp)]
    for store in stores:
        assert [n.value.data for n in store.box] == [rows, columns]


def test_signals_say_what_was_done_to_the_slot() -> None:
    roles, _ = placed("sm_100a", bm=128, bn=128, bk=64)

    def signals(role: str, kind: type) -> list[list[str]]:
        return [[h.data for h in op.how] for op in roles[role].walk() if isinstance(op, kind)]

    assert signals("load", s.CommitOp) == [["tma"]]
    assert signals("math", s.CommitOp) == [["tcgen05"]]
    assert signals("math", s.ReleaseOp) == [["tcgen05"]]
    assert signals("store", s.ReleaseOp) == [["tensor"]]
    (commit,) = [op for op in roles["load"].walk() if isinstance(op, s.CommitOp)]
    assert commit.bytes.value.data == 2 * 128 * 64 * 2


def test_whether_an_item_had_a_product_is_found_once() -> None:
    """K = 0 makes no products (R7): the reader selects zero, by one comparison at kernel level."""
    module = lowered(gemm(bm=256, bn=256, bk=64, stages=1, depth=1), "sm_100a", "place-tiles")
    conditions = {op.nonzero for op in operations(module, s.ReadAccumulatorOp)}
    assert len(conditions) == 1
    (condition,) = conditions
    assert condition is not None
    assert isinstance(condition.owner.parent_op(), s.KernelOp)


def test_a_role_that_stores_drains_its_copies_before_it_ends() -> None:
    roles, _ = placed("sm_100a")
    last = roles["store"].body.block.last_op
    assert isinstance(last, s.BulkWaitOp)
    assert last.pending.value.data == 0
    assert last.read is None, "written, not only read: the kernel's end must not pass it"
    assert not any(isinstance(op, s.BulkWaitOp) for op in roles["load"].walk())


def test_stores_of_one_shape_share_their_staging_and_others_do_not() -> None:
    """Two stores of different dtypes have a ring each: equal types alone are one."""
    text = gemm(bm=128, bn=64, bk=64)
    store = text[
        text.index("        %sc = tile.slice") : text.index(
            "        tile.yield ()", text.index("%sc = ")
        )
    ]
    again = store.replace("%sc", "%se")
    other = (
        again.replace("%se", "%sf").replace("bf16", "f32").replace("%h", "%r").replace("%C", "%E")
    )
    text = text.replace(store, store + again + other)
    text = text.replace('arg_names = ["A", "B", "C"]', 'arg_names = ["A", "B", "C", "E"]')
    text = text.replace(
        "%C : !tile.tensor<bf16, [M, N]>)",
        "%C : !tile.tensor<bf16, [M, N]>, %E : !tile.tensor<f32, [M, N]>)",
    )
    module = lowered(text, "sm_100a", "place-tiles")
    rings = [p for p in operations(module, s.PipeOp) if p.kind.data == "store"]
    assert [p.sym_name.data for p in rings] == ["store.staging", "store.staging1"]
    shapes = [p.buffers[0].type for p in rings]
    assert [(t.dtype.data, t.shape) for t in shapes] == [("bf16", (128, 64)), ("f32", (128, 32))]  # type: ignore[attr-defined]
    acquired = [
        op.ring for op in operations(module, s.AcquireOp) if op.ring in {p.ring for p in rings}
    ]
    assert len(acquired) == 3
