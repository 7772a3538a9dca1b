"""Items that the hardware hands out: every step round the answer is needed, and a slip at the stage level is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i1, i32
from xdsl.ir import Block, Operation, Region

from tests.emulator.test_stolen_work import FORMS, SMALL
from tkc.analysis.happens_before import check
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ConstOp
from tkc.ir.stage.stealing import AnswerOp, TryCancelOp
from tkc.job import Job


@cache
def _made(form: str) -> ModuleOp:
    job = Job(FORMS[form], "k.tk", "sm_100a", params=SMALL)
    return to_module(job, after="insert-fences")


def stage(form: str) -> ModuleOp:
    return _made(form).clone()


def of(module: ModuleOp, kind: type[Operation], within: str = "") -> list[Operation]:
    """The operations of a kind, in a role where one is named."""
    return [
        op
        for role in module.walk()
        if isinstance(role, s.RoleOp) and role.sym_name.data.startswith(within)
        for op in role.walk()
        if isinstance(op, kind)
    ]


def named(module: ModuleOp, id: str) -> Operation:
    return next(o for o in module.walk() if o.properties.get("id") == StringAttr(id))


def erase(op: Operation) -> None:
    op.detach()
    op.erase()


def codes(module: ModuleOp) -> set[str]:
    return {f.code for f in check(module)}


@pytest.mark.parametrize("form", FORMS)
def test_what_the_compiler_makes_is_in_order(form: str) -> None:
    assert [f.message for f in check(stage(form))] == []


WITHOUT = {
    "load.work.items.full": "TK301",
    "load.fence.1": "TK302",
    "load.work.items.release": "TK305",
    "math.fence.3": "TK302",
    "store.work.items.full": "TK301",
    "store.work.items.release.warp": "TK309",
    "work.scheduler.work.items.empty": "TK309",
    "work.scheduler.work.items.expect": "TK305",
    "work.scheduler.work.items.full": "TK301",
    "work.scheduler.work.items.release": "TK305",
}
"""What is told without a step; the scheduler's own fences stand for one another in one CTA."""


@pytest.mark.parametrize("form", ["one CTA", "a cluster", "a pair"])
def test_a_step_that_is_missing_is_told(form: str) -> None:
    for id, code in WITHOUT.items():
        module = stage(form)
        erase(named(module, id))
        assert code in codes(module), id


def test_the_asking_role_in_the_other_cta_fences_its_own_read() -> None:
    module = stage("a cluster")
    erase(named(module, "work.scheduler.fence.1"))
    assert codes(module) == {"TK302"}


def _for_this_cta(module: ModuleOp) -> None:
    """The answer comes to the CTA that asks, and to no other."""
    [request] = of(module, TryCancelOp)
    del request.properties["everywhere"]


def _released_at_the_cta(module: ModuleOp) -> None:
    """Threads of the other CTA have read, and tell it at the scope of their own."""
    for op in of(module, s.MbarrierArriveOp):
        if op.properties["id"].data.endswith("items.release"):  # pyright: ignore
            del op.properties["scope"]


def _fewer_bytes(module: ModuleOp) -> None:
    named(module, "work.scheduler.work.items.expect").properties["bytes"] = IntegerAttr(8, i32)


def _another_slot(module: ModuleOp) -> None:
    """One role always reads the first slot."""
    [answer] = of(module, AnswerOp, "load")
    zero = ConstOp.create(properties={"constant": IntegerAttr(0, i32)}, result_types=[i32])
    block = answer.parent_block()
    assert block is not None
    block.insert_op_before(zero, answer)
    answer.operands[1] = zero.results[0]


def _read_before_the_wait(module: ModuleOp) -> None:
    [answer] = of(module, AnswerOp, "math")
    wait = named(module, "math.work.items.full")
    block = wait.parent_block()
    assert block is not None
    answer.detach()
    block.insert_op_before(answer, wait)


SLIPS: list[tuple[Callable[[ModuleOp], None], tuple[str, ...], str]] = [
    (_for_this_cta, ("a cluster", "a pair"), "TK305"),
    (_released_at_the_cta, ("a cluster",), "TK309"),
    (_fewer_bytes, ("one CTA", "a cluster"), "TK305"),
    (_another_slot, ("one CTA",), "TK309"),
    (_read_before_the_wait, ("one CTA", "a pair"), "TK301"),
]


@pytest.mark.parametrize(("slip", "forms", "code"), SLIPS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_slip_is_told(
    slip: Callable[[ModuleOp], None], forms: tuple[str, ...], code: str
) -> None:
    for form in forms:
        module = stage(form)
        slip(module)
        assert code in codes(module), form


# After a refusal ------------------------------------------------------------------------------------------------------


def _loop(module: ModuleOp) -> tuple[TryCancelOp, s.ForOp]:
    [request] = of(module, TryCancelOp)
    at = request.parent_op()
    while not isinstance(at, s.ForOp):
        assert at is not None
        at = at.parent_op()
    assert isinstance(request, TryCancelOp)
    return request, at


def _whatever(module: ModuleOp) -> None:
    """The next turn comes whatever the answer is."""
    _, loop = _loop(module)
    always = ConstOp.create(properties={"constant": IntegerAttr(1, i1)}, result_types=[i1])
    last = loop.body.block.last_op
    assert last is not None
    loop.body.block.insert_op_before(always, last)
    last.operands[0] = always.results[0]


def _counted(module: ModuleOp) -> None:
    """A loop that counts turns."""
    _, loop = _loop(module)
    del loop.properties["stolen"]


def _twice(module: ModuleOp) -> None:
    request, _ = _loop(module)
    block = request.parent_block()
    assert block is not None
    block.insert_op_after(request.clone(), request)


def _ahead(module: ModuleOp) -> None:
    """The next cluster is asked for before the turn depends on the answer to the last request."""
    request, loop = _loop(module)
    at: Operation = request
    while at.parent_op() is not loop:
        parent = at.parent_op()
        assert parent is not None
        at = parent
    at.detach()
    last = loop.body.block.last_op
    assert last is not None
    loop.body.block.insert_op_before(at, last)


@pytest.mark.parametrize("slip", [_whatever, _counted, _twice, _ahead])
@pytest.mark.parametrize("form", ["one CTA", "a cluster"])
def test_nothing_is_asked_for_after_a_refusal(slip: Callable[[ModuleOp], None], form: str) -> None:
    module = stage(form)
    slip(module)
    found = [f for f in check(module) if f.code == "TK330"]
    assert found
    assert all(isinstance(f.first, TryCancelOp) for f in found)


def test_a_request_under_the_answer_before_it_is_right() -> None:
    """A loop that counts turns, where each asks only if the last was granted."""
    module = stage("one CTA")
    _ahead(module)
    request, _ = _loop(module)
    [answer] = of(module, AnswerOp, "work.scheduler")
    assert isinstance(answer, AnswerOp)
    block = request.parent_block()
    assert block is not None
    before = request.next_op
    request.detach()
    inner = Block([request, s.YieldOp.create()])
    guarded = s.IfOp.create(operands=[answer.more], regions=[Region(inner)])
    assert before is not None
    block.insert_op_before(guarded, before)
    assert "TK330" not in codes(module)
