"""Roles that go side by side: what is followed ends in every run, and what may stop is not followed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import tkc
from tests.analysis.test_hangs import (
    BY_WARPS,
    GET_ALL,
    GET_ONE,
    LATER,
    PUT_ALL,
    PUT_ONE,
    RELAY,
    TOO_EARLY,
    in_lines,
    two,
)
from tkc.analysis import hangs
from tkc.analysis.happens_before import BROKEN, check
from tkc.analysis.lockstep import in_lockstep
from tkc.driver import run
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BarriersType
from tkc.job import Job

EXAMPLES = Path(__file__).parents[2] / "examples"


def staged(text: str, target: str = "sm_90a") -> s.KernelOp:
    job = Job(text, "lockstep.tk", target, without=("refuse-hangs",))
    module = tkc.Kernel.of(run(job)).module(after="insert-fences")
    return next(op for op in module.body.block.ops if isinstance(op, s.KernelOp))


def example(name: str, target: str) -> s.KernelOp:
    return staged((EXAMPLES / f"{name}.tk").read_text(), target)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm_nvfp4_clc", "sm_100a"),  # the scheduler's ring joins all roles
        ("gemm_grouped_list", "sm_90a"),  # a condition that both ends have
        ("gemm_bf16_level2", "sm_100a"),  # rings of the program's own
    ],
)
def test_examples_need_no_run(name: str, target: str) -> None:
    assert in_lockstep(example(name, target))


def test_which_pipe_is_first_has_to_be_the_same() -> None:
    assert not in_lockstep(staged(two(*LATER)))
    alike = in_lines(PUT_ALL, PUT_ONE), in_lines(GET_ALL, GET_ONE)
    assert in_lockstep(staged(two(*alike, slots=1)))


@pytest.mark.parametrize(
    ("text", "follows"),
    [
        (RELAY, True),
        (TOO_EARLY, False),
        (BY_WARPS, False),
        (RELAY.replace("phase = phase ^ 1", "phase = 1"), False),
        (RELAY.replace("        phase = 0", "        phase = 1", 1), True),
    ],
)
def test_barriers_of_the_program_go_round(text: str, follows: bool) -> None:
    assert in_lockstep(staged(text)) is follows


def _stirred(kernel: s.KernelOp, rng: random.Random) -> bool:
    """Moves something that roles do to barriers before or behind what stands beside it, or makes it about others; says
    whether that can be."""
    deeds = [
        op
        for op in kernel.walk()
        if op.parent_op() is not kernel
        and any(isinstance(v.type, BarriersType) for v in op.operands)
    ]
    deed = rng.choice(deeds)
    if rng.random() < 0.3:
        at = next(i for i, v in enumerate(deed.operands) if isinstance(v.type, BarriersType))
        others = [op for op in kernel.body.block.ops if isinstance(op, s.BarriersOp)]
        deed.operands[at] = rng.choice(others).results[0]
        return True
    block = deed.parent_block()
    assert block is not None
    beside = [op for op in block.ops if op is not deed and (op in deeds or op.regions)]
    if not beside:
        return True
    deed.detach()
    (block.insert_op_before if rng.random() < 0.5 else block.insert_op_after)(
        deed, rng.choice(beside)
    )
    places = {op: i for i, op in enumerate(block.ops)}
    return all(
        places.get(v.owner, -1) < places[deed] for v in deed.operands if v.owner is not block
    ) and all(
        places.get(use.operation, len(places)) > places[deed]
        for result in deed.results
        for use in result.uses
    )


@pytest.mark.parametrize(
    ("name", "target"),
    [("gemm_bf16_level2", "sm_100a"), ("gemm_dual", "sm_100a"), ("gemm_bias_act", "sm_90a")],
)
def test_what_is_followed_ends(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of programs with barriers in another order, those that a run shows to hang are not followed; or their barriers
    are told to be wrong already."""
    monkeypatch.setattr(hangs, "_may", lambda _: True)
    whole = example(name, target).parent_op()
    assert isinstance(whole, ModuleOp)
    rng, hung, followed = random.Random(0), 0, 0
    for _ in range(20):
        module = whole.clone()
        kernel = next(op for op in module.body.block.ops if isinstance(op, s.KernelOp))
        for _ in range(2):
            if not _stirred(kernel, rng):
                break
            follows, found = in_lockstep(kernel), hangs.hang_of(kernel)
            followed, hung = followed + follows, hung + (found is not None)
            if follows and found is not None:
                with monkeypatch.context() as only:
                    only.setattr(hangs, "hang_of", lambda _: None)
                    assert {f.code for f in check(module)} & set(BROKEN), str(module)
    assert followed
    assert hung
