"""Waits that a program has spelled out and that nothing needs: what each tells is known without it, no phase is lapped
or ends unseen, and nothing is under way at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation

from tkc.analysis.happens_before.events import Event
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.findings import findings
from tkc.analysis.happens_before.proofs import WIDEST, Proofs
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.rests import steps_of
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict
from tkc.analysis.lifetimes import check_lifetimes
from tkc.ir import certificates as c
from tkc.ir.effects import effects_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import ClusterBarrierOp, WhileOp

HARMLESS = frozenset({"TK310", "TK313", "TK324"})
"""What may be wrong with a program whose order is understood nevertheless: something is under way at its end."""

Wrong = tuple[str, object, object]
"""What is wrong, and where."""

WAITS = (s.MbarrierWaitOp, s.BulkWaitOp)


def waits_of(kernel: s.KernelOp) -> Iterator[Operation]:
    """The waits that a program has spelled out, and its cluster barriers, whose two halves go together."""
    for op in kernel.walk():
        if isinstance(op, WAITS) or (isinstance(op, ClusterBarrierOp) and op.does.data == "sync"):
            if c.origin(c.label(op)) == "user":
                yield op


def is_last(wait: Operation) -> bool:
    """Whether a role does nothing behind a wait but to wait for more stores."""
    at: Operation | None = wait
    while at is not None and not isinstance(at, s.RoleOp):
        if isinstance(at, s.ForOp | WhileOp):
            return False
        following = at.next_op
        while following is not None:
            if any(effects_of(op) and not isinstance(op, s.BulkWaitOp) for op in following.walk()):
                return False
            following = following.next_op
        at = at.parent_op()
    return True


@dataclass
class Waits:
    """The waits that have been taken out of a kernel, and where each stood."""

    kernel: s.KernelOp
    places: dict[Operation, tuple[Block, Operation | None]] = field(default_factory=dict)
    told: dict[Operation, list[Hazard]] = field(default_factory=dict)
    """The pairs whose proofs used each."""

    def take(
        self,
        waits: Sequence[Operation],
        proofs: Proofs,
        gone: Sequence[Operation],
        proved: Callable[[], bool],
    ) -> None:
        """Takes out one of some waits after another without which all is as it was; `proved`: whether all pairs are in
        order in the kernel as it then is."""
        events = _events(proofs)
        absent = [e for f in gone for e in proofs.events[f]]
        before: set[Wrong] | None = None
        ended: set[Wrong] | None = None
        for wait in waits:
            mine = [h for h in proofs.hazards if any(e.op is wait for e in steps_of(h))]
            judges = proofs.judges_without([*absent, *events.get(wait, ())])
            if not all(proofs.again(judges, h).verdict is Verdict.ORDERED for h in mine):
                continue
            if ended is None:
                ended = _in_flight(proofs.judges_without(absent)[WIDEST])
            if not _in_flight(judges[WIDEST]) <= ended:
                continue
            before = self._found() if before is None else before
            if any(code not in HARMLESS for code, *_ in before):
                return
            self._out(wait)
            if self._found() <= before and proved():
                self.told[wait] = mine
                absent += events.get(wait, ())
            else:
                self._back(wait)

    def put_back(self) -> None:
        for wait in reversed(list(self.places)):
            self._back(wait)
        self.told.clear()

    def _found(self) -> set[Wrong]:
        """What is wrong: barriers that do not keep their protocol, phases that are not told apart, roles that end
        before all is done."""
        return _wrong(findings(program(self.kernel), WIDEST))

    def _out(self, wait: Operation) -> None:
        block = wait.parent_block()
        assert block is not None
        self.places[wait] = block, wait.next_op
        wait.detach()

    def _back(self, wait: Operation) -> None:
        block, following = self.places.pop(wait)
        if following is None:
            block.add_op(wait)
        else:
            block.insert_op_before(wait, following)


def _in_flight(judge: Judge) -> set[Wrong]:
    """What may be under way when the roles have ended: most waits that order nothing are there for that, and all that
    may be wrong takes much longer to find."""
    return _wrong(check_lifetimes(judge))


def _wrong(found: Iterable[Finding]) -> set[Wrong]:
    return {(f.code, f.first, f.second) for f in found}


def _events(proofs: Proofs) -> dict[Operation, list[Event]]:
    """The events that do something, by their operations."""
    found: dict[Operation, list[Event]] = {}
    for role in proofs.graph.program.roles:
        for event in role.events():
            if event.act is not None:
                found.setdefault(event.op, []).append(event)
    return found
