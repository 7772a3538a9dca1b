"""Fences: on every path one stands between an access and the nearest synchronisation, and only where proxies cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from passes.programs import gemm, lowered, operations, parse, run
from passes.stage_machine import Event, Machine

from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Order, Signal
from tkc.ir.stage import ops as s

TYPE = '!stage.buffer<f32, [128, 32], 1, shared, "128B">'
FRAGMENT = "!stage.fragment<f32, [128, 32], rows>"


@dataclass(frozen=True)
class Leaf:
    """A statement: threads `read` or `store` a buffer, the copy engine does a `copy`, a `barrier`, or `nothing`."""

    what: str
    buffer: int = 0


@dataclass(frozen=True)
class Nest:
    """A loop of `trips` turns, or a condition where that is None."""

    trips: int | None
    body: tuple[Leaf | Nest, ...]


Node = Leaf | Nest

leaf = st.builds(
    Leaf, st.sampled_from(["read", "store", "copy", "barrier", "nothing"]), st.integers(0, 1)
)
bodies = st.recursive(
    st.lists(leaf, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(leaf, st.builds(Nest, st.sampled_from([None, 1, 2, 3]), inner)), max_size=4
    ).map(tuple),
    max_leaves=8,
)


def text_of(nodes: Sequence[Node], crossing: Sequence[bool]) -> str:
    lines: list[str] = []

    def write(nodes: Sequence[Node]) -> None:
        for node in nodes:
            here = len(lines)
            match node:
                case Leaf("read", b):
                    lines.append(
                        f"%v{here} = stage.load_shared %b{b}, %zero, %zero : ({TYPE}, i32, i32) -> ({FRAGMENT})"
                    )
                case Leaf("store", b):
                    lines.append(
                        f"stage.store_shared %f, %b{b}, %zero, %zero : ({FRAGMENT}, {TYPE}, i32, i32)"
                    )
                case Leaf("copy", b):
                    lines.append(copy(b))
                case Leaf("barrier"):
                    lines.append(f'stage.role_barrier {{id = "x{here}"}}')
                case Leaf():
                    lines.append(f"%n{here} = stage.group : () -> (i32)")
                case Nest(None, body):
                    lines.append("stage.if %yes : (i1) do {")
                    write(body)
                    lines.append("stage.yield ()\n}")
                case Nest(trips, body):
                    lines.append(
                        f"stage.for %zero, %c{trips}, %c1 : (i32, i32, i32) do {{\n^bb0(%i{here} : i32):"
                    )
                    write(body)
                    lines.append("stage.yield ()\n}")

    write(nodes)
    newline = "\n"
    others = [copy(b) for b, crosses in enumerate(crossing) if crosses]
    counts = [f"%c{n} = stage.const {{constant = {n} : i32}} : () -> (i32)" for n in (1, 2, 3)]
    return f"""builtin.module {{
stage.kernel {{sym_name = "k", arg_names = ["C"], contract = {{}}}} do {{
^bb0(%C : !tile.tensor<f32, [M, 32]>):
%zero = stage.const {{constant = 0 : i32}} : () -> (i32)
%yes = stage.const {{constant = 1 : i1}} : () -> (i1)
{newline.join(counts)}
%b0 = stage.alloc {{sym_name = "b0"}} : () -> ({TYPE})
%b1 = stage.alloc {{sym_name = "b1"}} : () -> ({TYPE})
%b2 = stage.alloc {{sym_name = "b2"}} : () -> ({TYPE})
%f = stage.load_shared %b2, %zero, %zero : ({TYPE}, i32, i32) -> ({FRAGMENT})
stage.role {{sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
{newline.join(lines)}
}}
stage.role {{sym_name = "other", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32}} do {{
{newline.join(others)}
}}
}}
}}"""


def copy(b: int) -> str:
    return (
        f"stage.tma_store %b{b}, %zero, %C, %zero, %zero {{box = [128 : i32, 32 : i32]}} : "
        f"({TYPE}, i32, !tile.tensor<f32, [M, 32]>, i32, i32)"
    )


def crosses(nodes: Sequence[Node], b: int, other: bool) -> bool:
    """Whether threads and the copy engine both touch the buffer."""
    kinds: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, Nest):
            todo += node.body
        elif node.buffer == b:
            kinds.add(node.what)
    return bool(kinds & {"read", "store"}) and ("copy" in kinds or other)


def buffer_name(event: Event) -> str:
    return event.op.buffer.owner.sym_name.data  # pyright: ignore


def meets(event: Event, buffer: str) -> bool:
    op = event.op
    if isinstance(op, s.ProxyFenceOp):
        return False
    if isinstance(op, s.TmaStoreOp):
        return buffer_name(event) == buffer
    return any(isinstance(row, Await | Signal | Order) for row in effects_of(op) or ())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies, st.tuples(st.booleans(), st.booleans()))
def test_every_path_from_an_access_to_a_synchronisation_passes_a_fence(
    nodes: tuple[Node, ...], other: tuple[bool, bool]
) -> None:
    """In both directions, on what is executed; the start and the end of a role are synchronisations, too."""
    module = run(parse(text_of(nodes, other)), "insert-fences")
    (kernel,) = operations(module, s.KernelOp)
    trace = Machine().kernel(kernel)["r"]
    for at, event in enumerate(trace):
        if not isinstance(event.op, s.LoadSharedOp | s.StoreSharedOp):
            continue
        buffer = buffer_name(event)
        if not crosses(nodes, int(buffer[1:]), other[int(buffer[1:])]):
            continue
        for path in (reversed(trace[:at]), trace[at + 1 :]):
            guarded = False
            for passed in path:
                if isinstance(passed.op, s.ProxyFenceOp):
                    guarded |= buffer in {g.data for g in passed.op.guards}
                if guarded or meets(passed, buffer):
                    break
            assert guarded, f"{buffer} at {at} of\n{module}"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies, st.tuples(st.booleans(), st.booleans()))
@example(
    (
        Nest(None, (Leaf("copy", 1), Leaf("read", 1))),
        Nest(None, (Leaf("read", 1), Leaf("copy", 1))),
    ),
    (False, False),
)
def test_a_fence_guards_only_what_crosses_and_none_stands_twice_at_one_place(
    nodes: tuple[Node, ...], other: tuple[bool, bool]
) -> None:
    module = run(parse(text_of(nodes, other)), "insert-fences")
    crossing = {f"b{b}" for b in (0, 1) if crosses(nodes, b, other[b])}
    fences = operations(module, s.ProxyFenceOp)
    for fence in fences:
        assert {g.data for g in fence.guards} <= crossing
        before = fence.prev_op
        assert not isinstance(before, s.ProxyFenceOp) or before.guards != fence.guards
    ids = [f.id.data for f in fences]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_gemm_has_no_fence_between_copies_and_products(target: str) -> None:
    """TMA to wgmma or tcgen05 is async to async: only the staging slots are touched by threads."""
    module = lowered(gemm(), target, "insert-fences")
    for fence in operations(module, s.ProxyFenceOp):
        assert [g.data for g in fence.guards] == ["store.staging"]
        assert fence.space.data == "shared::cta"


def test_registers_need_no_tcgen05_fence() -> None:
    assert not operations(lowered(gemm(), "sm_90a", "insert-fences"), s.Tcgen05FenceOp)
    fences = operations(lowered(gemm(), "sm_100a", "insert-fences"), s.Tcgen05FenceOp)
    assert {f.side.data for f in fences} == {"before_thread_sync", "after_thread_sync"}
