"""Whether registers of products (wgmma) are left alone while products are under way, and fenced before they begin.

`wgmma.fence` stands before a role's first product and between any other access of an accumulator's registers and the
next product (PTX 9.7.17.7); what a product writes is there after a wait for its group. Only products that spell their
fences and groups out are asked about: the compiler makes those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.automaton import MOST_GROUPS
from tkc.analysis.happens_before.opened import opened_by
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.items import role_of
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Done, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import MmaCommitOp, MmaFenceOp
from tkc.ir.stage.types import AccumulatorType, Home


def check_products(kernel: s.KernelOp, ops: Iterable[Operation]) -> Iterator[Finding]:
    """Products without their fence, and registers that are touched while products write them; `ops`: all operations of
    the kernel."""
    roles = {role_of(op) for op in ops if "alone" in op.properties}
    for role in kernel.body.block.ops:
        if isinstance(role, s.RoleOp) and role in roles:
            walk = _Walk(role)
            buffers = dict.fromkeys(b for op in role.walk() for b, _ in _accumulators(op))
            walk.block(role.body.block, {b: Registers(touched=role) for b in buffers})
            yield from walk.found.values()


@dataclass(frozen=True, slots=True)
class Registers:
    """Of one accumulator: the operation that touched it since the last fence (None: none, the role itself at its
    start), and how many groups have been closed since its last product (None: none is under way)."""

    touched: Operation | None = None
    closed: int | None = None

    def joined(self, other: Registers) -> Registers:
        """What holds of it on either of two ways."""
        counts = [r.closed for r in (self, other) if r.closed is not None]
        return Registers(self.touched or other.touched, min(counts) if counts else None)


State = dict[SSAValue, Registers]


@dataclass(eq=False)
class _Walk:
    """One role, statement by statement; loops until nothing changes."""

    role: s.RoleOp
    found: dict[tuple[Operation, str], Finding] = field(default_factory=dict)

    def block(self, block: Block, state: State) -> State:
        for op in block.ops:
            state = self._regions(op, state) if op.regions else self._step(op, state)
        return state

    def _regions(self, op: Operation, state: State) -> State:
        bodies = [region.block for region in op.regions if region.blocks]
        if isinstance(op, s.IfOp):
            ways = [self.block(body, dict(state)) for body in bodies]
            return _join(*ways, *([state] if len(ways) < 2 else []))
        while True:  # what is known of an accumulator only sinks, in few steps
            after = state
            for body in bodies:
                after = self.block(body, dict(after))
            joined = _join(state, after)
            if joined == state:
                return state
            state = joined

    def _step(self, op: Operation, state: State) -> State:
        if isinstance(op, MmaFenceOp):
            return {buffer: replace(r, touched=None) for buffer, r in state.items()}
        if isinstance(op, MmaCommitOp):
            return {
                b: r if r.closed is None else replace(r, closed=min(r.closed + 1, MOST_GROUPS))
                for b, r in state.items()
            }
        if isinstance(op, s.MmaWaitOp):
            pending = op.pending.value.data
            return {
                b: r if r.closed is None or r.closed <= pending else replace(r, closed=None)
                for b, r in state.items()
            }
        for buffer, product in _accumulators(op):
            before = state[buffer]
            if product:
                state[buffer] = self._product(op, before)
            else:
                self._touch(op, before)
                state[buffer] = replace(before, touched=op)
        return state

    def _product(self, op: Operation, before: Registers) -> Registers:
        if "alone" not in op.properties:
            return Registers(closed=None)
        if before.touched is self.role:
            self._tell(op, "no `fence products` stands before the role's first product")
        elif before.touched is not None:
            self._tell(
                op, "no `fence products` stands between an access of the accumulator's registers and this product",
                before.touched,
            )  # fmt: skip
        return Registers(None, 0)

    def _touch(self, op: Operation, before: Registers) -> None:
        if before.closed is not None:
            self._tell(
                op, "the accumulator's registers are touched while products are under way that write them: "
                "`wait products` before",
            )  # fmt: skip

    def _tell(self, op: Operation, message: str, first: Operation | None = None) -> None:
        role = self.role.sym_name.data
        self.found.setdefault(
            (op, message),
            Finding(
                "TK319", f"{message}, in role {role}", "registers", first if first is not None else op,
                op if first is not None else None, roles=(role,), other="the registers' other access",
                remedy="`fence products` right before the product, in its block" if "fence" in message else "",
            ),
        )  # fmt: skip


def _accumulators(op: Operation) -> Iterator[tuple[SSAValue, bool]]:
    """The accumulators in registers that an operation touches, and whether as what a product writes."""
    for row in effects_of(op) or ():
        value = getattr(op, row.operand, None) if isinstance(row, Touch) else None
        if isinstance(value, SSAValue) and isinstance(value.type, AccumulatorType):
            opened = opened_by(value)
            if opened is not None and opened.buffer.type.home.data == Home.REGISTER:
                yield opened.buffer, row.done is Done.TCGEN05_COMMIT  # pyright: ignore


def _join(*states: State) -> State:
    joined: State = {}
    for buffer in dict.fromkeys(b for state in states for b in state):
        ways = [state[buffer] for state in states if buffer in state]
        found = ways[0]
        for way in ways[1:]:
            found = found.joined(way)
        joined[buffer] = found
    return joined
