"""Tensor memory: columns of each accumulator, what is allocated, and what is too much."""

from __future__ import annotations

import pytest
from passes.programs import gemm, lowered, operations

from tkc.diagnostics import TkcError, listening
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import Home


def placed(module: object) -> list[tuple[int, int]]:
    """Offset and depth of each tensor-memory buffer."""
    return [
        (b.offset.value.data, b.buffer.type.depth.data)
        for b in operations(module, s.BufferOp)  # type: ignore[arg-type]
        if b.buffer.type.home.data == Home.TENSOR
    ]


@pytest.mark.parametrize(
    ("bm", "bn", "depth", "columns"),
    [
        (128, 16, 1, 32),  # the least
        (128, 32, 1, 32),
        (128, 96, 1, 128),  # rounded up to a power of two
        (128, 96, 2, 256),
        (64, 128, 1, 128),
        (128, 256, 2, 512),
        (256, 128, 2, 512),  # two row blocks beside each other
        (256, 256, 1, 512),
    ],
)
def test_the_allocation_is_a_power_of_two_of_columns(
    bm: int, bn: int, depth: int, columns: int
) -> None:
    module = lowered(gemm(bm, bn, 16, 1, depth), "sm_100a", "assign-tensor-memory")
    (kernel,) = operations(module, s.KernelOp)
    assert kernel.tensor_columns is not None
    assert kernel.tensor_columns.value.data == columns
    assert placed(module) == [(0, depth)]


def test_a_kernel_without_accumulators_in_tensor_memory_allocates_nothing() -> None:
    (kernel,) = operations(lowered(gemm(), "sm_90a", "assign-tensor-memory"), s.KernelOp)
    assert kernel.tensor_columns is None


@pytest.mark.parametrize(
    ("bn", "written", "held"), [(256, 2, 1), (256, 3, 1), (128, 4, 2), (64, 4, 4)]
)
def test_an_accumulator_is_held_as_often_as_there_is_room(bn: int, written: int, held: int) -> None:
    """Its depth is a capacity (R12), and a remark says what became of it."""
    with listening() as heard:
        module = lowered(gemm(256, bn, 16, 1, written), "sm_100a", "assign-tensor-memory")
    assert placed(module) == [(0, held)]
    remarks = [d.message for d in heard if d.code == "TK219"]
    assert bool(remarks) == (held < written)
    assert all(f"its depth of {written} is a capacity" in m for m in remarks)


def test_too_many_columns_are_refused_with_each_accumulator_s_share() -> None:
    text = gemm(128, 256, 16, 1, 1)
    d = "!tile.accum<f32, [128, 256], 1>"
    more = "\n".join(f'  %x{i} = tile.accum {{sym_name = "x{i}"}} : () -> ({d})' for i in range(2))
    text = text.replace("  %p = tile.pipe", f"{more}\n  %p = tile.pipe")
    with pytest.raises(TkcError) as raised:
        lowered(text, "sm_100a", "assign-tensor-memory")
    (found,) = raised.value.diagnostics
    assert found.code == "TK205"
    assert found.message == (
        "kernel gemm needs 768 columns of tensor memory; the target gives 512; 256 fewer would fit"
    )
    assert [n.message for n in found.notes] == [f"{n} takes 256 columns" for n in ("d", "x0", "x1")]
