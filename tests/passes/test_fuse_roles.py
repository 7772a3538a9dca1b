"""Fusion: one role runs both bodies in item order; what is left of pipes and warps."""

from __future__ import annotations

from pathlib import Path

import pytest
from passes.programs import gemm, lowered, operations
from passes.stage_machine import Machine

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import Diagnostic
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType
from tkc.job import Job


def test_the_gemm_becomes_two_roles_without_a_pipe_between_products_and_stores() -> None:
    module = lowered(gemm(), "sm_90a", "fuse-roles")
    roles = {r.sym_name.data: r for r in operations(module, s.RoleOp)}
    assert {n: (r.first_warp.value.data, r.warps.value.data) for n, r in roles.items()} == {
        "math": (0, 8),
        "load": (8, 1),
    }
    pipes = {p.sym_name.data: p for p in operations(module, s.PipeOp)}
    assert set(pipes) == {"inputs", "store.staging"}
    assert [n.data for n in pipes["store.staging"].producers] == ["math"]


def test_nothing_is_joined_where_accumulators_are_in_tensor_memory() -> None:
    before = str(lowered(gemm(), "sm_100a", "place-tiles"))
    assert str(lowered(gemm(), "sm_100a", "fuse-roles")) == before


@pytest.mark.parametrize(
    "written", [{}, {"math": 200}, {"store": 208}, {"math": 200, "store": 208}]
)
def test_the_joined_role_has_the_most_registers_of_both(written: dict[str, int]) -> None:
    text = gemm()
    for role, n in written.items():
        text = text.replace(f'sym_name = "{role}"', f'sym_name = "{role}", registers = {n} : i32')
    module = lowered(text, "sm_90a", "fuse-roles")
    (math,) = [r for r in operations(module, s.RoleOp) if r.sym_name.data == "math"]
    found = None if math.registers is None else math.registers.value.data
    assert found == max(written.values(), default=None)


def test_products_of_an_item_are_awaited_before_it_is_read() -> None:
    """On what is executed: between the last product of a tile and its first read stands a wait for all groups."""
    module = lowered(gemm(stages=1), "sm_90a", "insert-fences")
    (kernel,) = operations(module, s.KernelOp)
    events = Machine({"M": 256, "N": 512, "K": 192}).kernel(kernel)["math"]
    pending = tiles = 0
    for event in events:
        match event.op:
            case s.MmaOp():
                pending += 1
            case s.MmaWaitOp() as op:
                pending = min(pending, op.pending.value.data)
            case s.ReadAccumulatorOp():
                assert pending == 0
                tiles += 1
            case s.MbarrierArriveOp():
                assert pending == 0, "a ring of one slot: released while a product reads it"
            case _:
                pass
    assert tiles == 4 * 4


TO_AND_FRO = Path("lit_tests/run/accumulator-to-and-fro.tk").read_text(encoding="utf-8")


def test_an_accumulator_that_goes_to_and_fro_flows_round_the_loop() -> None:
    """What the one role leaves in it is what the other finds a turn later: the loop over K carries it."""
    module = tkc.compile(TO_AND_FRO, target="sm_90a").module(after="fuse-roles")
    assert [r.sym_name.data for r in operations(module, s.RoleOp)] == ["load", "math"]
    (opened,) = operations(module, s.OpenOp)
    assert isinstance(opened.parent_op(), s.RoleOp)
    carried = [
        op
        for op in operations(module, s.ForOp)
        if any(isinstance(r.type, AccumulatorType) for r in op.results)
    ]
    assert len(carried) == 1
    order = [type(op) for op in carried[0].body.block.ops]
    behind = len(order) - order[::-1].index(s.IfOp)  # the last sum is stored
    assert order.index(s.WriteAccumulatorOp) < order.index(s.MmaOp) < behind
    assert {p.sym_name.data for p in operations(module, s.PipeOp)} == {"inputs", "scale.staging"}


def test_what_two_roles_hand_to_one_another_keeps_its_order_when_they_are_one() -> None:
    """The weights that `soft` makes of a score are put before `mma` waits for them, in the role that is both."""
    text = Path("lit_tests/run/ahead.tk").read_text(encoding="utf-8").replace(", ahead = score", "")
    module = tkc.compile(text, target="sm_90a").module(after="fuse-roles")
    (prob,) = [p for p in operations(module, s.PipeOp) if p.sym_name.data == "prob"]
    steps = [
        op for op in module.walk() if isinstance(op, s.CommitOp | s.WaitOp) and op.ring is prob.ring
    ]
    assert [type(op) for op in steps] == [s.CommitOp, s.WaitOp]
    assert check(tkc.compile(text, target="sm_90a").module(after="eliminate-fences")) == []


def test_roles_that_wait_for_one_another_have_no_order() -> None:
    old = "put scaled: d = 0 if k.first else read(d) * 0.5\n                get added:"
    new = "get added, put scaled:\n                    d = 0 if k.first else read(d) * 0.5"
    text = TO_AND_FRO.replace(old, new)
    assert text != TO_AND_FRO
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(text, target="sm_90a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK213"
    assert "in no order of their items is each put before it is got" in found.message
    assert found.location is not None
    assert text.split("\n")[found.location.line - 1].strip().startswith(("get scaled", "get added"))


UNDER = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 128))
    schedule more: m, n in tiles(blocks(M, 128), blocks(N, 128))
    shared a, b: tile[bf16, 128, 64] * 2
    accum d: tile[f32, 128, 128]
    pipe p(a, b): load -> math
    pipe r(d): math -> store
    role load:
        LOOP
                put p:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        LOOP
                get p:
                    put r: d = a @ b.T
    role store:
        LOOP
                get r: C[m, n] += read(d)
"""
LOOP = "for m, n in work:\n            for k in blocks(K, 64):"
DEEPER = "if f > 0:\n          for m, n in work:\n            for k in blocks(K, 64):"


def refused(text: str) -> Diagnostic:
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(text, target="sm_90a")
    return next(d for d in raised.value.diagnostics if d.code == "TK213")


def test_a_condition_round_an_item_loop_is_told_with_its_mend() -> None:
    text = UNDER.replace("LOOP", DEEPER)
    told = refused(text)
    assert told.location is not None
    assert text.split("\n")[told.location.line - 1].strip() == "if f > 0:"
    assert told.help is not None
    assert told.help.startswith(
        "role math has it under a condition or in a loop: write the condition in it"
    )
    inside = "for m, n in work:\n          if f > 0:\n            for k in blocks(K, 64):"
    assert tkc.compile(UNDER.replace("LOOP", inside), target="sm_90a").ptx


def test_several_item_loops_and_unlike_ones_are_told_with_their_mend() -> None:
    body = UNDER.split("LOOP")
    twice = [
        LOOP + b.split("    role")[0] + "        " + LOOP.replace("work", "more") + b
        for b in body[1:]
    ]
    assert refused(body[0] + "".join(twice)).help == (
        "role math has several such loops: make one of them, with conditions in it"
    )


def test_what_a_loop_under_a_condition_leaves_flows_out_of_both() -> None:
    """The loops of the joined roles become one, and so do the conditions round them, which hand on what both left."""
    text = Path("lit_tests/run/attention.tk").read_text(encoding="utf-8")
    text = text.replace("scale: f32):", "scale: f32, w: i32):")
    lines: list[str] = []
    at = 99  # the indentation of the loop that a line is in
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        at = 99 if indent <= at else at
        if line.strip() == "for j in blocks(N, BN):":
            lines.append(" " * indent + "if w > 3:")
            at = indent
        lines.append(f"    {line}" if at < 99 else line)
    job = Job("\n".join(lines), "k.tk", "sm_90a", verify_each=True)
    module = to_module(job, after="fuse-roles")
    assert [r.sym_name.data for r in operations(module, s.RoleOp)] == ["load", "correct"]
    (role,) = (r for r in operations(module, s.RoleOp) if r.sym_name.data == "correct")
    (loop,) = (op for op in role.walk() if isinstance(op, s.ForOp))
    (under,) = (op for op in role.walk() if isinstance(op, s.IfOp) and loop in [*op.walk()])
    yielded = under.then.block.last_op
    assert isinstance(yielded, s.YieldOp)
    assert {v.owner for v in yielded.values} == {loop}
