"""Shared memory: rings stand aligned and apart, the sum is exact, and an error says what would fit."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes.programs import gemm, lowered, operations

from tkc.analysis.shared_memory import BARRIER_BYTES, TENSOR_ADDRESS_BYTES, Ring, place
from tkc.diagnostics import TkcError
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import TARGETS
from tkc.ir.stage import ops as s

rings = st.lists(
    st.builds(
        Ring,
        st.sampled_from(sorted({w.align for w in SWIZZLES.values()})),
        st.integers(1, 5000),
        st.integers(1, 6),
    ),
    max_size=6,
)


@given(rings, st.lists(st.integers(1, 8), max_size=6))
def test_nothing_overlaps_and_every_slot_is_aligned(sizes: list[Ring], barriers: list[int]) -> None:
    offsets, total = place(sizes, barriers)
    taken: list[tuple[int, int]] = []
    for ring, offset in zip(sizes, offsets, strict=False):
        assert offset % ring.align == 0
        stride = -(-ring.slot // ring.align) * ring.align
        taken += [(offset + i * stride, offset + i * stride + ring.slot) for i in range(ring.depth)]
    for depth, offset in zip(barriers, offsets[len(sizes) :], strict=True):
        assert offset % BARRIER_BYTES == 0
        taken.append((offset, offset + depth * BARRIER_BYTES))
    taken.append((total - TENSOR_ADDRESS_BYTES, total))
    taken.sort()
    for (_, end), (start, _) in itertools.pairwise(taken):
        assert end <= start
    assert total == taken[-1][1]
    assert taken[-1][0] % BARRIER_BYTES == 0


@given(rings)
def test_padding_stands_only_inside_slots(sizes: list[Ring]) -> None:
    """Rings are sorted by alignment and a slot is a multiple of its own, so none is needed between them."""
    _, total = place(sizes, [])
    used = sum(r.bytes for r in sizes)
    assert total == -(-used // BARRIER_BYTES) * BARRIER_BYTES + TENSOR_ADDRESS_BYTES


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_107a"])
def test_what_an_error_says_would_fit_does_fit_and_one_more_does_not(target: str) -> None:
    with pytest.raises(TkcError) as raised:
        lowered(gemm(stages=12), target, "assign-shared")
    (found,) = raised.value.diagnostics
    assert found.code == "TK204"
    numbers = re.search(
        r"needs (\d+) bytes of shared memory; the target has (\d+); (\d+) slots of a and b instead of 12",
        found.message,
    )
    assert numbers is not None
    needs, has, slots = map(int, numbers.groups())
    assert has == TARGETS[target].shared_per_cta < needs
    lowered(gemm(stages=slots), target, "assign-shared")
    with pytest.raises(TkcError):
        lowered(gemm(stages=slots + 1), target, "assign-shared")
    notes = {n.message.split()[0]: n.message for n in found.notes}
    assert notes["a"] == "a takes 196608 bytes (12 x 16384)"
    assert set(notes) == {"a", "b", "store.staging"}
    assert all(n.location is not None for n in found.notes)


def test_staging_is_not_what_a_hint_shrinks() -> None:
    """A ring of two beside staging of two: only the ring's depth is the user's to change."""
    with pytest.raises(TkcError, match="1 slot of a and b instead of 2 would fit"):
        lowered(gemm(bm=256, bn=256, bk=128, stages=2, depth=1), "sm_100a", "assign-shared")
    lowered(gemm(bm=256, bn=256, bk=128, stages=1, depth=1), "sm_100a", "assign-shared")


def test_where_one_slot_is_too_much_smaller_tiles_are_the_way() -> None:
    with pytest.raises(TkcError, match="smaller tiles would fit"):
        lowered(gemm(bk=1024, stages=1), "sm_100a", "assign-shared")


def test_a_tile_beyond_all_bounds_is_refused_before_it_is_cut_into_pieces() -> None:
    with pytest.raises(TkcError, match="smaller tiles would fit") as raised:
        lowered(gemm(bk=2_000_000), "sm_100a", "place-tiles")
    assert [d.code for d in raised.value.diagnostics] == ["TK204"]


def test_a_deep_ring_is_refused_at_once() -> None:
    with pytest.raises(TkcError, match="4 slots of a and b instead of 2000000000 would fit"):
        lowered(gemm(stages=2_000_000_000), "sm_100a", "assign-shared")


def test_the_kernel_s_bytes_are_those_of_its_buffers() -> None:
    module = lowered(gemm(), "sm_100a", "assign-shared")
    (kernel,) = operations(module, s.KernelOp)
    assert kernel.shared_bytes is not None
    rings_bytes = 4 * (128 + 256) * 64 * 2 + 2 * 128 * 64 * 2
    assert kernel.shared_bytes.value.data == rings_bytes + 8 * (4 + 4 + 2 + 2) + 8
