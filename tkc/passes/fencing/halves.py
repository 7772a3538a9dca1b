"""A fence that goes both ways made one of a pair: its threads release what they read, and whoever lets the copy engine
write there acquires it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from tkc.analysis.happens_before.verdicts import Hazard, Place
from tkc.ir import certificates as c
from tkc.ir.isa.fences import ONE_WAY
from tkc.ir.isa.memory import Proxy, Space
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import By
from tkc.passes.fencing.changes import Change, Undo, setting

ACQUIRE = "acquire"


def issuers(word: str, hazards: Iterable[Hazard]) -> list[Operation]:
    """The operations before which the other half is needed, of the pairs that rest on a fence; none where one of them
    is not of the kind that a one-way form orders."""
    found: dict[Operation, None] = {}
    for hazard in hazards:
        access, issuer = hazard.first, hazard.second
        if access.access.proxy is Proxy.ASYNC:
            access, issuer = issuer, access
        if not _fits(word, access, issuer):
            return []
        found[issuer.event.op] = None
    return list(found)


def _fits(word: str, access: Place, issuer: Place) -> bool:
    one, other = access.access, issuer.access
    reads_alone = not (ONE_WAY[word].reads and one.write)
    kinds = one.proxy is Proxy.GENERIC and other.proxy is Proxy.ASYNC
    return reads_alone and kinds and one.space is Space.SHARED and other.write


@dataclass
class Halves:
    """The acquire halves of a kernel, each with the fences that it stands there for."""

    wanted: dict[Operation, list[Operation]] = field(default_factory=dict)
    before: dict[Operation, Operation] = field(default_factory=dict)
    """Of an operation that issues, the half before it; where nobody wants it, it is in no block."""

    def may_stand(self, issuing: Iterable[Operation]) -> dict[Operation, Operation]:
        """Makes the halves that may be put before some operations."""
        self.before |= {op: _half(op) for op in issuing if op not in self.before}
        return self.before

    def of(self, fence: s.ProxyFenceOp, word: str, issuing: list[Operation]) -> Change:
        """Makes a fence the release half `word`, with an acquire half before each of some operations."""

        def change() -> Undo:
            back = setting(fence, "space", StringAttr(word))()
            for op in issuing:
                self._want(op, fence)

            def undo() -> None:
                back()
                for op in issuing:
                    self._leave(op, fence)

            return undo

        return change

    def _want(self, op: Operation, fence: Operation) -> None:
        half, block = self.before[op], op.parent_block()
        if half not in self.wanted:
            assert block is not None
            block.insert_op_before(half, op)
        self.wanted.setdefault(half, []).append(fence)

    def _leave(self, op: Operation, fence: Operation) -> None:
        half = self.before[op]
        self.wanted[half].remove(fence)
        if not self.wanted[half]:
            del self.wanted[half]
            half.detach()


def _half(op: Operation) -> s.ProxyFenceOp:
    half = s.ProxyFenceOp.create(
        properties={
            "space": StringAttr(ACQUIRE),
            "guards": ArrayAttr([]),
            "id": StringAttr(f"{c.label(op).replace('.user.', '.')}.{ACQUIRE}"),
            "by": StringAttr(By.ONE),
        }
    )
    half.location = op.location
    return half
