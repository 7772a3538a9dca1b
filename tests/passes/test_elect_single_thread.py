"""Election: one thread does what is one thread's, all threads the rest, in the order of before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from passes.programs import gemm, lowered, operations, parse, run
from passes.stage_machine import Event, Machine

from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job
from tkc.passes.elect_single_thread import Who, who


@dataclass(frozen=True)
class Leaf:
    """A statement of `one` thread, a `lane` of each warp, `all`, or `number`: arithmetic that the next one uses."""

    what: str


@dataclass(frozen=True)
class Nest:
    """A loop of `trips` turns (a condition where None); `used`: what it carries is used behind it."""

    trips: int | None
    used: bool
    body: tuple[Leaf | Nest, ...]


Node = Leaf | Nest
leaf = st.builds(Leaf, st.sampled_from(["one", "one", "lane", "all", "number"]))
programs = st.recursive(
    st.lists(leaf, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(leaf, st.builds(Nest, st.sampled_from([None, 0, 1, 2]), st.booleans(), inner)),
        max_size=4,
    ).map(tuple),
    max_leaves=8,
)


def text_of(nodes: Sequence[Node], warps: int) -> str:
    lines: list[str] = []

    def write(nodes: Sequence[Node], slot: str) -> None:
        for node in nodes:
            here = len(lines)
            match node:
                case Leaf("number"):
                    lines.append(
                        f'%t{here} = stage.arith {slot}, %c1 {{kind = "add"}} : (i32, i32) -> (i32)'
                    )
                    slot = f"%t{here}"
                case Leaf(what):
                    lines.append(
                        f'stage.mbarrier_arrive %bars, {slot} {{by = "{what}", id = "x{here}"}}'
                        " : (!stage.mbarriers, i32)"
                    )
                case Nest(None, _, body):
                    lines.append("stage.if %yes : (i1) do {")
                    write(body, slot)
                    lines.append("stage.yield ()\n}")
                case Nest(trips, used, body):
                    lines.append(
                        f"%r{here} = stage.for %c0, %c{trips}, %c1, {slot} : (i32, i32, i32, i32) -> (i32) do {{\n"
                        f"^bb0(%i{here} : i32, %a{here} : i32):"
                    )
                    write(body, f"%a{here}")
                    lines.append(f"stage.yield %a{here} : (i32)\n}}")
                    slot = f"%r{here}" if used else slot

    write(nodes, "%c0")
    newline = "\n"
    counts = [f"%c{n} = stage.const {{constant = {n} : i32}} : () -> (i32)" for n in (0, 1, 2)]
    return f"""builtin.module {{
stage.kernel {{sym_name = "k", arg_names = [], contract = {{}}}} do {{
%yes = stage.const {{constant = 1 : i1}} : () -> (i1)
{newline.join(counts)}
%bars = stage.barriers {{sym_name = "bars", depth = 1 : i32, count = 1 : i32}} : () -> (!stage.mbarriers)
stage.role {{sym_name = "r", warps = {warps} : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
{newline.join(lines)}
}}
}}
}}"""


def trace(text: str, *passes: str) -> list[Event]:
    (kernel,) = operations(run(parse(text), *passes), s.KernelOp)
    return Machine().kernel(kernel)["r"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs, st.sampled_from([1, 4]))
def test_each_statement_is_under_its_own_guard_and_none_is_moved(
    nodes: tuple[Node, ...], warps: int
) -> None:
    """The same statements with the same numbers in the same order; single-thread ones under exactly one election."""
    text = text_of(nodes, warps)
    before, after = trace(text), trace(text, "elect-single-thread")
    assert [(e.op.id.data, e.operands[1]) for e in before] == [  # pyright: ignore
        (e.op.id.data, e.operands[1])
        for e in after  # pyright: ignore
    ]
    for event in after:
        by = event.op.by.data  # pyright: ignore[reportAttributeAccessIssue]
        assert event.under == (() if by == "all" else (by,))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_an_election_is_asked_for_once_a_role_and_before_everything(
    nodes: tuple[Node, ...],
) -> None:
    module = run(parse(text_of(nodes, 4)), "elect-single-thread")
    (role,) = operations(module, s.RoleOp)
    elections = operations(module, s.ElectedOp)
    first = [op for op, _ in zip(role.body.block.ops, elections, strict=False)]
    assert first == elections
    assert len({e.scope.data for e in elections}) == len(elections)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ((), Who.NEUTRAL),
        ((Leaf("number"),), Who.NEUTRAL),
        ((Leaf("one"), Leaf("number")), Who.ONE),
        ((Leaf("one"), Nest(None, False, (Leaf("one"),))), Who.ONE),
        ((Leaf("one"), Leaf("lane")), Who.MIXED),
        ((Leaf("all"), Nest(2, False, (Leaf("all"),))), Who.ALL),
        ((Leaf("all"), Nest(2, False, (Leaf("one"),))), Who.MIXED),
    ],
)
def test_a_nest_is_executed_by_who_executes_its_parts(nodes: tuple[Node, ...], wanted: Who) -> None:
    module = parse(text_of((Nest(1, False, nodes),), 1))
    (loop,) = [op for op in operations(module, s.ForOp) if isinstance(op.parent_op(), s.RoleOp)]
    assert who(loop) is wanted


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_copy_and_commit_of_the_gemm_is_one_thread_s(target: str) -> None:
    """The thread that issues a bulk copy is the one that commits and awaits its group."""
    module = lowered(gemm(), target, "elect-single-thread")
    (kernel,) = operations(module, s.KernelOp)
    kinds = s.TmaLoadOp | s.TmaStoreOp | s.BulkCommitOp | s.BulkWaitOp | s.Tcgen05CommitOp
    for events in Machine({"M": 256, "N": 512, "K": 128}).kernel(kernel).values():
        for event in events:
            if isinstance(event.op, kinds):
                assert event.under == ("one",)
            elif isinstance(event.op, s.MmaOp):
                assert event.under == (("one",) if target == "sm_100a" else ())


def test_a_role_that_reads_elements_for_itself_is_guarded_whole() -> None:
    """Else its election stands in a loop that ptxas 13.0 takes for divergent: it moves the election there, two threads
    of a warp are elected, and the copy engine is told twice of the same bytes (seen on an H200)."""
    text = (Path(__file__).parents[2] / "examples" / "gemm_grouped.tk").read_text(encoding="utf-8")
    for target, alone in (("sm_90a", ["load"]), ("sm_100a", ["load", "math"])):
        module = to_module(Job(text, "grouped.tk", target), after="elect-single-thread")
        roles = [r for r in module.walk() if isinstance(r, s.RoleOp) and r.warps.value.data == 1]
        assert [r.sym_name.data for r in roles] == alone
        for role in roles:
            elected, guarded = role.body.block.ops
            assert isinstance(elected, s.ElectedOp)
            assert isinstance(guarded, s.IfOp)
            assert guarded.condition is elected.value
