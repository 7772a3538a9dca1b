"""Whether a cluster is asked for only as long as none was refused.

What comes after a refusal that the CTA has seen is not defined (PTX 9.7.15.18). A request is answered in a slot. The
next one may come in a turn that only runs where that answer, and no other, was that there is one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.values import Values
from tkc.analysis.items import role_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.stealing import AnswerOp, TryCancelOp


def check_refusals(ops: Iterable[Operation]) -> Iterator[Finding]:
    """Requests that may follow a refusal, of all operations of a kernel."""
    asked: dict[s.RoleOp, list[TryCancelOp]] = {}
    for op in ops:
        if type(op) is TryCancelOp and (role := role_of(op)) is not None:
            asked.setdefault(role, []).append(op)
    for role, requests in asked.items():
        values = Values(role)
        for n, request in enumerate(requests):
            why = "another request stands in the same turn" if n else _why(request, values)
            if why:
                yield Finding(
                    "TK330",
                    f"role {role.sym_name.data} may ask for another cluster after one was refused: {why}",
                    "refused",
                    request,
                    roles=(role.sym_name.data,),
                    remedy="ask again only where the answer to the request before was that there is one more",
                )


def _why(request: TryCancelOp, values: Values) -> str:
    """Why a request may follow a refusal; empty where it cannot."""
    loop, at = _loop_round(request)
    if loop is None:
        return ""
    before = [o for o in loop.walk() if isinstance(o, AnswerOp) and _stands_before(o, at)]
    for condition in _conditions(request, loop):
        answer = condition.owner
        if isinstance(answer, AnswerOp) and condition is answer.more and answer in before:
            return ""
    if loop.stolen is None:
        return "the loop goes on whatever the answer is"
    last = loop.body.block.last_op
    more = last.operands[0] if last is not None else None
    answer = more.owner if more is not None else None
    if (
        not isinstance(answer, AnswerOp)
        or more is not answer.more
        or answer.parent_op() is not loop
    ):
        return "the next turn does not depend on the answer"
    if answer in before or answer.buffer is not request.buffer:
        return "the next turn depends on the answer to another request"
    mine, its = values.table(request.slot, request), values.table(answer.slot, answer)
    if mine is None or mine != its:
        return "the next turn depends on the answer in another slot"
    return ""


def _loop_round(request: Operation) -> tuple[s.ForOp | None, Operation]:
    """The loop round a request, and what of its body holds it."""
    at, parent = request, request.parent_op()
    while parent is not None and not isinstance(parent, s.RoleOp):
        if isinstance(parent, s.ForOp):
            return parent, at
        at, parent = parent, parent.parent_op()
    return None, at


def _conditions(op: Operation, loop: Operation) -> Iterator[SSAValue]:
    """What holds where an operation runs, of the conditions in a loop."""
    region, at = op.parent_region(), op.parent_op()
    while at is not None and at is not loop:
        if isinstance(at, s.IfOp) and region is at.then:
            yield at.condition
        region, at = at.parent_region(), at.parent_op()


def _stands_before(op: Operation, other: Operation) -> bool:
    """Whether an operation stands before another of the same block."""
    at = other.prev_op
    while at is not None and at is not op:
        at = at.prev_op
    return at is op
