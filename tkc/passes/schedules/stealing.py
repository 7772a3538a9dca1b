"""Items that the hardware hands out (clusterlaunchcontrol): one role asks for the next, a ring carries the answer."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, Block, Region, SSAValue

from tkc.diagnostics import Diagnostic, Note, Severity, TargetError, TkcError, report
from tkc.ir.emit import Emitter
from tkc.ir.isa.targets import Feature, Target, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import Across, By, How, solo
from tkc.ir.stage.stealing import AnswerOp, TryCancelOp
from tkc.ir.stage.types import BufferType, Home, RingType
from tkc.passes.schedules.conditions import turn_outside

ANSWERS = 2
"""Slots of the ring of answers: the next is asked for while the slowest role is at the one before."""

ANSWER_WORDS = 4
"""An answer has 16 bytes (PTX 9.7.15.18)."""


def steals(kernel: s.KernelOp, target: Target) -> bool:
    """Whether the units of a kernel take over items of others; TK202 where the target cannot, unless `persistent`
    stands beside `clc`."""
    if kernel.clc is None:
        return False
    needs = {Feature.LAUNCH_CONTROL}
    if _may_be_clustered(kernel):
        needs |= {Feature.LAUNCH_CONTROL_MULTICAST}
    lacks = target.lacks(needs)
    if not lacks:
        return True
    if kernel.persistent is None:
        raise TargetError.at(
            "TK202",
            f"`launch clc` needs {lacks[0]}; {target.name} has none",
            location_of(kernel),
            Note("`launch clc or persistent` takes a persistent launch there"),
            help=targets_with(needs),
        )
    report(
        Diagnostic(
            "TK219",
            f"{target.name} has no {lacks[0]}: the launch is persistent",
            location_of(kernel),
            Severity.REMARK,
        )
    )
    return False


def _may_be_clustered(kernel: s.KernelOp) -> bool:
    return kernel.cluster is not None or kernel.most_ctas is not None


class Answers:
    """The ring of answers of one kernel, and the role that asks."""

    def __init__(self, kernel: s.KernelOp, loops: list[s.WorkLoopOp]) -> None:
        """`loops` are the kernel's loops over items: one a role, all over one schedule (TK110 elsewhere)."""
        self.kernel = kernel
        self.name = loops[0].schedule.data
        self.clustered = _may_be_clustered(kernel)
        for loop in loops:
            turn_outside(loop)
        roles = [_role_round(loop) for loop in loops]
        self.by = {role: By.ONE if solo(role) else By.ALL for role in roles}
        for at, (loop, role) in enumerate(zip(loops, roles, strict=True)):
            before = next((o for o, r in zip(loops[:at], roles, strict=False) if r is role), None)
            if before is None and loop.schedule.data != self.name:
                before = loops[0]
            if before is not None:
                raise TkcError.at(
                    "TK110",
                    "with `launch clc` items are handed out once: a second loop over a schedule, in role "
                    f"{role.sym_name.data}, is not supported yet; one loop for what both do fits, or "
                    "`launch persistent`",
                    location_of(loop),
                    Note("the first loop", location_of(before)),
                )
        self._declare(loops[0], [r.sym_name.data for r in roles])

    def _declare(self, loop: s.WorkLoopOp, consumers: list[str]) -> None:
        """Buffer, ring and role, the role in warps of its own behind the others."""
        block = self.kernel.body.block
        roles = [o for o in block.ops if isinstance(o, s.RoleOp)]
        emit = Emitter(Block(), loop.location)
        scheduler = f"{self.name}.scheduler"
        type = BufferType.of("i32", (ANSWER_WORDS,), ANSWERS, Home.SHARED)
        name = StringAttr(f"{self.name}.answers")
        self.buffer = emit.value(
            s.BufferOp.create(properties={"sym_name": name}, result_types=[type]), "answers"
        )
        ends = ArrayAttr([StringAttr(c) for c in (*consumers, scheduler)])
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(f"{self.name}.items"),
            "kind": StringAttr("full_empty"),
            "depth": IntegerAttr(ANSWERS, i32),
            "producers": ArrayAttr([StringAttr(scheduler)]),
            "consumers": ends,
        }
        if self.clustered:
            properties["across"] = StringAttr(Across.ANSWER)
        ring = s.PipeOp.create(
            operands=[self.buffer], properties=properties, result_types=[RingType()]
        )
        self.ring = emit.value(ring, "items")
        warps = [r.first_warp.value.data + r.warps.value.data for r in roles]
        self.role = s.RoleOp.create(
            properties={
                "sym_name": StringAttr(scheduler),
                "warps": IntegerAttr(1, i32),
                "first_warp": IntegerAttr(max(warps), i32),
                "groups": IntegerAttr(1, i32),
            },
            regions=[Region(Block())],
        )
        self.role.location = loop.location
        self.by[self.role] = By.ONE
        for op in list(emit.block.ops):
            op.detach()
            block.insert_op_before(op, roles[0])
        block.add_op(self.role)
        self._schedule(Emitter(self.role.body.block, loop.location))

    def _schedule(self, emit: Emitter) -> None:
        """Asks for the next item as soon as a slot is free, and reads its own answer: none is asked for after a
        negative one."""
        body = Block(arg_types=[i32, i1, i32])
        inner = Emitter(body, emit.location)
        slot = inner.value(s.AcquireOp.create(operands=[self.ring], result_types=[i32]), "slot")
        asking: dict[str, Attribute] = {"everywhere": UnitAttr()} if self.clustered else {}
        inner.add(TryCancelOp.create(operands=[self.buffer, slot], properties=asking))
        arrives: dict[str, Attribute] = {
            "how": ArrayAttr([StringAttr(How.TMA)]),
            "bytes": IntegerAttr(4 * ANSWER_WORDS, i32),
        }
        inner.add(s.CommitOp.create(operands=[self.ring, slot], properties=arrives))
        inner.add(s.YieldOp.create(operands=self.next(inner, By.ONE)))
        emit.add(stolen_loop(emit, body, []))

    def next(self, emit: Emitter, by: By) -> list[SSAValue]:
        """Waits for the next answer, reads it and gives its slot back: whether there is an item, and its number."""
        slot = emit.value(s.WaitOp.create(operands=[self.ring], result_types=[i32]), "slot")
        answer = AnswerOp.create(
            operands=[self.buffer, slot],
            properties={"by": StringAttr(by.value)},
            result_types=[i1, i32],
        )
        emit.add(answer)
        answer.more.name_hint, answer.item.name_hint = "more", "item"
        how = ArrayAttr([StringAttr(How.GENERIC)])
        emit.add(s.ReleaseOp.create(operands=[self.ring, slot], properties={"how": how}))
        return [answer.more, answer.item]


def stolen_loop(emit: Emitter, body: Block, inits: list[SSAValue]) -> s.ForOp:
    """A loop from the unit's own item over those that it takes over; `body` takes the turn, `more`, `item` and the
    carried values."""

    def unit(which: str, hint: str) -> SSAValue:
        op = s.UnitOp.create(properties={"which": StringAttr(which)}, result_types=[i32])
        return emit.value(op, hint)

    for argument, hint in zip(body.args, ("turn", "more", "item"), strict=False):
        argument.name_hint = hint
    bounds = [emit.const(0), unit("items", "items"), emit.const(1)]
    first = [emit.const(1, i1), unit("index", "unit")]
    return s.ForOp.create(
        operands=[*bounds, *first, *inits],
        properties={"stolen": UnitAttr()},
        regions=[Region(body)],
        result_types=[i1, i32, *(v.type for v in inits)],
    )


def _role_round(loop: s.WorkLoopOp) -> s.RoleOp:
    """The role whose outermost loop this is; TK110 where it stands in another."""
    parent = loop.parent_op()
    if not isinstance(parent, s.RoleOp):
        raise TkcError.at(
            "TK110",
            "with `launch clc` a loop over a schedule inside a condition that has another side, or where more than "
            "numbers come before the loop, is not supported yet: items are handed out once; the loop at the top of the "
            "role, or `launch persistent`, fits",
            location_of(loop),
        )
    return parent
