"""Rings as barriers: how often each end arrives, and which slot and phase each item has, in any nest of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from passes.programs import gemm, lowered, operations, parse, run
from passes.stage_machine import Event, Machine
from xdsl.dialects.builtin import ModuleOp

from tkc.diagnostics import TkcError
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.passes.pipes.rings import ARRIVALS, arrivals

# Counts (R3, R4) -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "warps", "count"),
    [
        ((How.TMA,), 1, 1),  # one expect
        ((How.TMA,), 4, 1),
        ((How.TCGEN05,), 1, 1),  # one commit
        ((How.TCGEN05,), 4, 1),
        ((How.BULK,), 1, 1),  # one thread, after its wait
        ((How.WGMMA,), 4, 4),  # one lane a warp
        ((How.WGMMA,), 8, 8),
        ((How.GENERIC,), 4, 4),
        ((How.TENSOR,), 4, 4),
        ((How.TENSOR, How.GENERIC), 4, 4),  # one arrival a warp for both
        ((How.TMA, How.GENERIC), 4, 5),
        ((How.TCGEN05, How.GENERIC), 4, 5),
        ((How.BULK, How.GENERIC), 4, 5),
        ((How.TMA, How.BULK), 2, 2),
        ((), 4, 1),  # an item that nobody touched is still handed on
    ],
)
def test_a_role_arrives_as_often_as_its_accesses_say(
    how: tuple[How, ...], warps: int, count: int
) -> None:
    assert arrivals(how, warps) == count


def test_each_warpgroup_that_shares_rows_arrives_for_itself() -> None:
    """A thread of each does what one thread does, also where nobody touches the item (that was a hang)."""
    assert arrivals((), 8, 2) == arrivals((How.BULK,), 8, 2) == 2
    assert arrivals((How.WGMMA,), 8, 2) == 8


def test_every_kind_of_access_has_a_way_to_arrive() -> None:
    assert set(ARRIVALS) == set(How)


@pytest.mark.parametrize(
    ("target", "counts"),
    [
        # sm_100: one expect; one commit; one commit; one lane of four warps.
        ("sm_100a", {"inputs.full": 1, "inputs.empty": 1, "result.full": 1, "result.empty": 4}),
        # sm_90: one lane of each of the eight warps that multiply; no barrier for an accumulator in registers.
        ("sm_90a", {"inputs.full": 1, "inputs.empty": 8}),
    ],
)
def test_the_counts_of_the_gemm(target: str, counts: dict[str, int]) -> None:
    module = lowered(gemm(), target, "lower-pipes")
    found = {b.sym_name.data: b.count.value.data for b in operations(module, s.BarriersOp)}
    assert found == counts


def test_the_expected_bytes_are_those_of_the_item_s_copies() -> None:
    module = lowered(gemm(bm=64, bn=128, bk=32), "sm_100a", "lower-pipes")
    (expect,) = operations(module, s.MbarrierExpectOp)
    assert expect.bytes.value.data == (64 + 128) * 32 * 2


# Slots and phases (R1) -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One put or get of pipe `pipe`."""

    pipe: int


@dataclass(frozen=True)
class Loop:
    trips: int
    body: tuple[Item | Loop, ...]


Node = Item | Loop


def nests(pipes: int) -> st.SearchStrategy[tuple[Node, ...]]:
    leaves = st.lists(st.builds(Item, st.integers(0, pipes - 1)), max_size=3).map(tuple)
    return st.recursive(
        leaves,
        lambda inner: st.lists(
            st.one_of(
                st.builds(Item, st.integers(0, pipes - 1)),
                st.builds(Loop, st.integers(0, 4), inner),
            ),
            max_size=3,
        ).map(tuple),
        max_leaves=6,
    )


def text_of(nodes: Sequence[Node], depths: Sequence[int], put: bool) -> str:
    """A kernel whose role `r` runs the nest; each item is acquired and committed, or waited for and released."""
    lines: list[str] = []
    buffer = '!stage.buffer<f32, [128, 32], {}, shared, "128B">'

    def write(nodes: Sequence[Node]) -> None:
        for node in nodes:
            name = f"%v{len(lines)}"
            if isinstance(node, Loop):
                lines.append(
                    f"%n{len(lines)} = stage.const {{constant = {node.trips} : i32}} : () -> (i32)"
                )
                lines.append(f"stage.for %zero, %n{len(lines) - 1}, %one : (i32, i32, i32) do {{")
                lines.append(f"^bb0(%i{len(lines)}: i32):")
                write(node.body)
                lines.append("stage.yield ()\n}")
            elif put:
                lines.append(f"{name} = stage.acquire %p{node.pipe} : (!stage.ring) -> (i32)")
                lines.append(
                    f'stage.commit %p{node.pipe}, {name} {{how = ["tma"], bytes = 64 : i32}} : (!stage.ring, i32)'
                )
            else:
                lines.append(f"{name} = stage.wait %p{node.pipe} : (!stage.ring) -> (i32)")
                lines.append(
                    f'stage.release %p{node.pipe}, {name} {{how = ["tcgen05"]}} : (!stage.ring, i32)'
                )

    write(nodes)
    declared: list[str] = []
    for i, depth in enumerate(depths):
        type = buffer.format(depth)
        used = any(f"%p{i} " in line for line in lines)
        ends = '["r"]' if used else "[]"
        one, other = (ends, "[]") if put else ("[]", ends)
        declared.append(f'%b{i} = stage.alloc {{sym_name = "b{i}"}} : () -> ({type})')
        declared.append(
            f'%p{i} = stage.pipe %b{i} {{sym_name = "p{i}", kind = "full_empty", depth = {depth} : i32, '
            f"producers = {one}, consumers = {other}}} : ({type}) -> (!stage.ring)"
        )
    newline = "\n"
    return f"""builtin.module {{
stage.kernel {{sym_name = "k", arg_names = [], contract = {{}}}} do {{
%zero = stage.const {{constant = 0 : i32}} : () -> (i32)
%one = stage.const {{constant = 1 : i32}} : () -> (i32)
{newline.join(declared)}
stage.role {{sym_name = "r", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
{newline.join(lines)}
}}
}}
}}"""


def items(nodes: Sequence[Node]) -> list[int]:
    """The pipe of each item in the order of execution."""
    found: list[int] = []
    for node in nodes:
        if isinstance(node, Item):
            found.append(node.pipe)
        else:
            found += items(node.body) * node.trips
    return found


def events(module: ModuleOp) -> list[Event]:
    (kernel,) = operations(module, s.KernelOp)
    return Machine().kernel(kernel)["r"]


def pipe_of(event: Event) -> int:
    """From the id that `lower-pipes` gives: `r.p2.full`, `r.p2.full.3`."""
    return int(event.op.id.data.split(".")[1][1:])  # pyright: ignore[reportAttributeAccessIssue]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans())
def test_item_n_has_slot_n_mod_s_in_phase_n_div_s(
    data: st.DataObject, depths: list[int], put: bool
) -> None:
    """One counter for a pipe and role, kept through all loops; a producer waits for the phase before (R1)."""
    nodes = data.draw(nests(len(depths)))
    module = run(parse(text_of(nodes, depths, put)), "lower-pipes")
    waits = [e for e in events(module) if isinstance(e.op, s.MbarrierWaitOp)]
    signals = [
        e for e in events(module) if isinstance(e.op, s.MbarrierExpectOp | s.Tcgen05CommitOp)
    ]
    wanted = items(nodes)
    assert [pipe_of(e) for e in waits] == wanted
    assert [pipe_of(e) for e in signals] == wanted
    count = [0] * len(depths)
    for wait, signal, pipe in zip(waits, signals, wanted, strict=True):
        round, slot = divmod(count[pipe], depths[pipe])
        assert wait["slot"] == signal["slot"] == slot
        assert wait["parity"] == (round + put) % 2
        count[pipe] += 1


def test_two_roles_of_a_pipe_agree_on_every_item() -> None:
    """The GEMM on both sides, with more tiles than units and a ring that divides nothing."""
    module = lowered(gemm(stages=3), "sm_100a", "insert-fences")
    (kernel,) = operations(module, s.KernelOp)
    sizes = {"M": 500, "N": 1000, "K": 320}
    roles = Machine(sizes, unit=1, units=3).kernel(kernel)
    copies = [e for e in roles["load"] if isinstance(e.op, s.TmaLoadOp)]
    products = [e for e in roles["math"] if isinstance(e.op, s.MmaOp)]
    assert len(copies) == 2 * len(products) == 2 * 5 * len(range(1, 4 * 4, 3))
    assert [e["slot"] for e in copies[::2]] == [e["a_slot"] for e in products]
    loaded = [
        (a.operands[3], b.operands[3]) for a, b in zip(copies[::10], copies[1::10], strict=True)
    ]
    stored = [tuple(e.operands[3:5]) for e in roles["store"] if isinstance(e.op, s.TmaStoreOp)]
    assert stored == [(m, n + column) for m, n in loaded for column in range(0, 256, 64)]


# Staging rings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_staging_slot_is_free_once_all_but_its_own_group_have_drained(target: str) -> None:
    module = lowered(gemm(), target, "lower-pipes")
    (kernel,) = operations(module, s.KernelOp)
    roles = Machine({"M": 256, "N": 512, "K": 64}).kernel(kernel)
    store = roles["math" if target == "sm_90a" else "store"]
    under_way: list[int] = []
    filling: int | None = None
    stores = 0
    for event in store:
        match event.op:
            case s.BulkWaitOp() as op:
                pending = op.pending.value.data
                under_way = under_way[len(under_way) - pending :] if pending else []
            case s.StoreSharedOp():
                filling = event["slot"]
                assert filling not in under_way
            case s.TmaStoreOp():
                assert event["slot"] == filling
                stores += 1
            case s.BulkCommitOp():
                assert filling is not None
                under_way.append(filling)
            case _:
                pass
    assert stores == 4 * 4
    assert not under_way, "the role leaves with copies under way"


def test_a_ring_operation_outside_every_role_is_our_bug() -> None:
    from tkc.diagnostics import Bug

    text = text_of((Item(0),), (1,), True)
    lines = text.splitlines()
    moved = [line for line in lines if line.startswith(("%v", "stage.commit"))]
    rest = [line for line in lines if line not in moved]
    at = next(i for i, line in enumerate(rest) if line.startswith("stage.role"))
    module = parse("\n".join([*rest[:at], *moved, *rest[at:]]))
    with pytest.raises(Bug, match="outside every role"):
        run(module, "lower-pipes")


def test_an_error_names_the_role_and_its_pipe() -> None:
    text = text_of((Item(0),), (2,), True).replace('producers = ["r"]', 'producers = ["other"]')
    with pytest.raises(
        TkcError, match="role r puts into pipe p0, whose producers are other"
    ) as error:
        run(parse(text), "lower-pipes")
    location = error.value.diagnostics[0].location
    assert location is not None
    assert "stage.commit" in text.splitlines()[location.line - 1]
