"""Turn rings into barriers with phases, counts, bytes and commits, once it is settled which roles there are.

Before: `acquire`, `commit`, `wait` and `release` on rings; a ring's item number is implicit.
After: mbarriers (full and empty, one pair a slot), waits with parity, expected bytes, commits and arrivals; slot and
phase are values that loops carry, counted for the kernel's life (R1). Staging rings become counted bulk groups.
Here because: counts depend on the roles that `fuse-roles` leaves; `insert-fences` needs to see the barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.diagnostics import Bug, TkcError
from tkc.ir.emit import Emitter, as_hint
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.ops import Across, By, How, To
from tkc.ir.stage.types import BarriersType
from tkc.ir.syntax import segments

ARRIVALS: dict[How, str] = {
    How.TMA: "expect",
    How.BULK: "one",
    How.TCGEN05: "commit",
    How.WGMMA: "lane",
    How.GENERIC: "lane",
    How.TENSOR: "lane",
}
"""How each kind of access signals (R3): by announced bytes, by one thread, by a tcgen05 commit, by one lane a warp."""


@dataclass(frozen=True)
class Reach:
    """Whose barriers of the cluster the two ends of a ring signal: their own CTA's where None.

    `full` and `empty` say whether every CTA signals the same barrier, so that arrivals count once for each.
    """

    commit: To | None = None
    release: To | None = None
    full: bool = False
    empty: bool = False


REACHES: dict[str | None, Reach] = {
    None: Reach(),
    Across.MULTICAST: Reach(release=To.ALL, empty=True),
    Across.GATHER: Reach(commit=To.LEADER, full=True, release=To.ALL),
    Across.SPREAD: Reach(commit=To.ALL, release=To.LEADER, empty=True),
}
"""Barriers across a cluster (R15): who writes into a CTA's slot must know that all who read it are done, and the
reverse."""


def arrivals(how: tuple[How, ...], warps: int, groups: int = 1, ctas: int = 1) -> int:
    """Arrivals on a slot's barrier by one role that touches the slot so, in `ctas` CTAs (R4).

    A role that does not touch it still arrives. What one thread does, one of each warpgroup does that shares rows.
    Bytes are announced by the CTA whose barrier it is, for all.
    """
    counts = {"lane": warps * ctas, "expect": groups}
    kinds = {ARRIVALS[h] for h in how}
    return sum(counts.get(kind, groups * ctas) for kind in kinds) or groups * ctas


@dataclass
class Ring:
    """A pipe and its barriers."""

    pipe: s.PipeOp
    full: SSAValue | None = None
    empty: SSAValue | None = None

    @property
    def depth(self) -> int:
        return self.pipe.depth.value.data

    @property
    def name(self) -> str:
        return self.pipe.sym_name.data

    @property
    def reach(self) -> Reach:
        return REACHES[None if self.pipe.across is None else self.pipe.across.data]

    @property
    def scope(self) -> dict[str, Attribute]:
        """Signals order plain accesses of CTAs that share the ring at the cluster's scope; accesses of the copy engine
        and of products, at the scope of a CTA."""
        signals = [u.operation for u in self.pipe.ring.uses]
        plain = any(
            How.GENERIC in how_of(o) for o in signals if isinstance(o, s.CommitOp | s.ReleaseOp)
        )
        return {"scope": StringAttr("cluster")} if plain and self.reach != Reach() else {}


@dataclass
class State:
    """Where a role stands in a ring: the next item's slot, and its phase where barriers tell one round from the
    next."""

    slot: SSAValue
    phase: SSAValue | None

    @property
    def values(self) -> list[SSAValue]:
        return [self.slot] if self.phase is None else [self.slot, self.phase]


def how_of(op: s.CommitOp | s.ReleaseOp) -> tuple[How, ...]:
    return tuple(How(h.data) for h in op.how)


@dataclass(frozen=True)
class LowerPipesPass(ModulePass):
    """`lower-pipes`."""

    name = "lower-pipes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            ctas = 1 if kernel.cluster is None else kernel.cluster.value.data
            rings: dict[SSAValue, Ring] = {
                p.ring: Ring(p) for p in kernel.body.block.ops if isinstance(p, s.PipeOp)
            }
            roles = [r for r in kernel.body.block.ops if isinstance(r, s.RoleOp)]
            for ring in rings.values():
                if ring.pipe.kind.data == "full_empty":
                    make_barriers(ring, roles, ctas)
            for role in roles:
                RoleLowering(role, rings, ctas).run()
            for ring in rings.values():
                ring.pipe.detach()
                ring.pipe.erase()


def _role_of(op: Operation) -> s.RoleOp:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, s.RoleOp):
        parent = parent.parent_op()
    if parent is None:
        raise Bug("lower-pipes", f"{op.name} stands outside every role")
    return parent


def make_barriers(ring: Ring, roles: list[s.RoleOp], ctas: int = 1) -> None:
    """The ring's two barrier arrays, with the arrivals that its ends make, of `ctas` CTAs where they all do."""
    full, empty = (ctas if all_do else 1 for all_do in (ring.reach.full, ring.reach.empty))
    counts = {
        "full": _arrivals_of(ring, roles, s.CommitOp, ring.pipe.producers, full),
        "empty": _arrivals_of(ring, roles, s.ReleaseOp, ring.pipe.consumers, empty),
    }
    emit = Emitter(Block(), ring.pipe.location)
    made = [
        emit.value(
            s.BarriersOp.create(
                properties={
                    "sym_name": StringAttr(f"{ring.name}.{side}"),
                    "depth": ring.pipe.depth,
                    "count": IntegerAttr(count, i32),
                },
                result_types=[BarriersType()],
            ),
            f"{ring.name}_{side}",
        )
        for side, count in counts.items()
    ]
    ring.full, ring.empty = made
    block = ring.pipe.parent_block()
    assert block is not None
    for op in list(emit.block.ops):
        op.detach()
        block.insert_op_before(op, ring.pipe)


def _arrivals_of(
    ring: Ring,
    roles: list[s.RoleOp],
    kind: type[s.CommitOp | s.ReleaseOp],
    ends: ArrayAttr[StringAttr],
    ctas: int,
) -> int:
    """Arrivals of one side, from what the roles at that end do; TK107 where others do it, or one of them does not."""
    signals = [u.operation for u in ring.pipe.ring.uses]
    found: dict[s.RoleOp, list[s.CommitOp | s.ReleaseOp]] = {}
    names = [end.data for end in ends]
    verb, what = ("puts into", "producers") if kind is s.CommitOp else ("gets from", "consumers")
    for op in signals:
        if isinstance(op, kind):
            role = _role_of(op)
            if role.sym_name.data not in names:
                raise TkcError.at(
                    "TK107",
                    f"role {role.sym_name.data} {verb} pipe {ring.name}, whose {what} are "
                    f"{', '.join(names) or 'none'}",
                    location_of(op),
                )
            found.setdefault(role, []).append(op)
    count = 0
    for name in names:
        role = next((r for r in roles if r.sym_name.data == name), None)
        mine = found.get(role, []) if role is not None else []
        hows = {frozenset(ARRIVALS[h] for h in how_of(o)) for o in mine}
        if role is None or len(hows) != 1:
            raise TkcError.at(
                "TK107" if not hows else "TK110",
                f"role {name} stands at an end of pipe {ring.name} but "
                + (
                    "never opens it"
                    if not hows
                    else "touches it in different ways in different blocks"
                ),
                location_of(ring.pipe),
            )
        count += arrivals(how_of(mine[0]), role.warps.value.data, role.groups.value.data, ctas)
    return count


@dataclass
class RoleLowering:
    """One role: replaces its ring operations and threads the ring states through its loops."""

    role: s.RoleOp
    rings: dict[SSAValue, Ring]
    ctas: int = 1
    full_of: dict[SSAValue, Ring] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        self.solo = self.role.warps.value.data == 1 and not any(
            isinstance(o, s.StageOp) and o.executed_by is By.ALL for o in self.role.walk()
        )
        block = self.role.body.block
        used = self._used(block)
        emit = Emitter(Block(), self.role.location)
        states: dict[SSAValue, State] = {}
        for ring in used:
            zero = emit.const(0)
            states[ring] = State(zero, zero if self.rings[ring].full is not None else None)
        first = block.first_op
        for op in list(emit.block.ops):
            op.detach()
            if first is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, first)
        self._block(block, states)
        if self.role.leads is not None:
            self._lead()

    def _lead(self) -> None:
        """The whole role under the condition that its CTA is the first of the pair."""
        block, inner = self.role.body.block, Block()
        for op in list(block.ops):
            op.detach()
            inner.add_op(op)
        inner.add_op(s.YieldOp.create(operands=[]))
        emit = Emitter(block, self.role.location)
        emit.add(s.IfOp.create(operands=[_leading(emit)], regions=[Region(inner)]))

    def _used(self, block: Block) -> list[SSAValue]:
        """Rings in which this block or a loop in it moves on, in order."""
        found: dict[SSAValue, None] = {}
        for op in block.walk():
            if isinstance(op, s.AcquireOp | s.WaitOp):
                found[op.ring] = None
        return list(found)

    def _id(self, ring: Ring, what: str) -> StringAttr:
        """A name for a synchronisation site that every later pass keeps."""
        base = f"{self.role.sym_name.data}.{ring.name}.{what}"
        self.ids[base] = self.ids.get(base, 0) + 1
        return StringAttr(base if self.ids[base] == 1 else f"{base}.{self.ids[base]}")

    def _block(self, block: Block, states: dict[SSAValue, State]) -> None:
        """Lowers a block in order; `states` is changed to the states after it."""
        for op in list(block.ops):
            match op:
                case s.AcquireOp() | s.WaitOp():
                    self._advance(op, states)
                case s.CommitOp() | s.ReleaseOp():
                    self._signal(op)
                case s.ForOp():
                    self._loop(op, states)
                case s.IfOp():
                    self._condition(op, states)
                case WhileOp() if any(self._used(b) for r in op.regions for b in r.blocks):
                    raise TkcError.at(
                        "TK110",
                        "an item in a loop on a condition is not supported yet",
                        location_of(op),
                    )
                case s.TmaLoadOp():
                    self._load(op)
                case _:
                    pass

    def _condition(self, op: s.IfOp, states: dict[SSAValue, State]) -> None:
        """Both ways hand on where the rings stand: as they were where a way takes no item."""
        used = list(dict.fromkeys(r for region in op.regions for r in self._used(region.block)))
        if not used:
            return
        regions = [op.detach_region(region) for region in list(op.regions)]
        if len(regions) == 1 or not regions[1].blocks:
            regions[1:] = [Region(Block([s.YieldOp.create(operands=[])]))]
        for region in regions:
            after = dict(states)
            self._block(region.block, after)
            last = region.block.last_op
            assert isinstance(last, s.YieldOp)
            last.operands = [*last.operands, *(v for r in used for v in after[r].values)]
        types = [v.type for r in used for v in states[r].values]
        new = s.IfOp.create(
            operands=[op.condition],
            regions=regions,
            result_types=[*(r.type for r in op.results), *types],
        )
        self._replace(op, new, states, used)

    def _replace(
        self,
        old: s.IfOp | s.ForOp,
        new: s.IfOp | s.ForOp,
        states: dict[SSAValue, State],
        used: list[SSAValue],
    ) -> None:
        """Puts the new operation in the place of the old one; its last results are the states after it."""
        new.location = old.location
        block = old.parent_block()
        assert block is not None
        block.insert_op_before(new, old)
        kept = len(old.results)
        for was, result in zip(old.results, new.results[:kept], strict=True):
            result.name_hint = was.name_hint
            was.replace_all_uses_with(result)
        old.detach()
        old.erase()
        after = iter(new.results[kept:])
        for ring in used:
            phased = states[ring].phase is not None
            states[ring] = State(next(after), next(after) if phased else None)

    def _loop(self, loop: s.ForOp, states: dict[SSAValue, State]) -> None:
        used = self._used(loop.body.block)
        if not used:
            return
        body = loop.body.block
        inner: dict[SSAValue, State] = {}
        inits: list[SSAValue] = []
        for ring in used:
            before = states[ring]
            inits += before.values
            name = as_hint(self.rings[ring].name).replace(".", "_")
            args = [body.insert_arg(i32, len(body.args)) for _ in before.values]
            for arg, what in zip(args, ("slot", "phase"), strict=False):
                arg.name_hint = f"{name}_{what}"
            inner[ring] = State(args[0], args[1] if len(args) > 1 else None)
        self._block(body, inner)
        last = body.last_op
        assert isinstance(last, s.YieldOp)
        last.operands = [*last.operands, *(v for r in used for v in inner[r].values)]
        region = loop.detach_region(loop.body)
        new = s.ForOp.create(
            operands=[*loop.operands, *inits],
            regions=[region],
            result_types=[*(r.type for r in loop.results), *(v.type for v in inits)],
        )
        self._replace(loop, new, states, used)

    def _emit(self, op: Operation) -> Iterator[Emitter]:
        emit = Emitter(Block(), op.location)
        yield emit
        block = op.parent_block()
        assert block is not None
        for new in list(emit.block.ops):
            new.detach()
            block.insert_op_before(new, op)
        op.detach()
        op.erase()

    def _advance(self, op: s.AcquireOp | s.WaitOp, states: dict[SSAValue, State]) -> None:
        """The wait for the ring's next item, and the state after it."""
        ring, state = self.rings[op.ring], states[op.ring]
        by = By.ONE if self.solo else By.ALL
        for emit in self._emit(op):
            one = emit.const(1)
            if ring.full is None or ring.empty is None or state.phase is None:
                self._await_staging(emit, ring)
            elif isinstance(op, s.AcquireOp):
                free = emit.arith("xor", state.phase, one)
                self._wait(emit, ring, ring.empty, state.slot, free, by, self._id(ring, "empty"))
                self.full_of[state.slot] = ring
                self._expect(emit, op, ring, state)
            else:
                id = self._id(ring, "full")
                self._wait(emit, ring, ring.full, state.slot, state.phase, by, id)
            op.slot.replace_all_uses_with(state.slot)
            states[op.ring] = _next(emit, ring.depth, state)

    def _await_staging(self, emit: Emitter, ring: Ring) -> None:
        properties: dict[str, Attribute] = {
            "pending": IntegerAttr(ring.depth - 1, i32),
            "read": UnitAttr(),
            "id": self._id(ring, "drained"),
        }
        emit.add(s.BulkWaitOp.create(properties=properties))
        emit.add(s.RoleBarrierOp.create(properties={"id": self._id(ring, "free")}))

    def _wait(
        self,
        emit: Emitter,
        ring: Ring,
        barriers: SSAValue,
        slot: SSAValue,
        parity: SSAValue,
        by: By,
        id: StringAttr,
    ) -> None:
        emit.add(
            s.MbarrierWaitOp.create(
                operands=[barriers, slot, parity],
                properties={"by": StringAttr(by.value), "id": id, **ring.scope},
            )
        )

    def _expect(self, emit: Emitter, op: s.AcquireOp, ring: Ring, state: State) -> None:
        """Announces the bytes that the item's copies bring, before they start; a pair's leader does so for both."""
        assert ring.full is not None
        gathers = ring.reach.commit is To.LEADER
        for use in op.slot.uses:
            commit = use.operation
            if isinstance(commit, s.CommitOp) and How.TMA in how_of(commit):
                bytes = commit.bytes.value.data * (self.ctas if gathers else 1)
                expect = s.MbarrierExpectOp.create(
                    operands=[ring.full, state.slot],
                    properties={
                        "bytes": IntegerAttr(bytes, i32),
                        "by": StringAttr(By.ONE.value),
                        "id": self._id(ring, "expect"),
                    },
                )
                if not gathers:
                    emit.add(expect)
                    continue
                expect.location = emit.location
                inner = Block([expect, s.YieldOp.create(operands=[])])
                emit.add(s.IfOp.create(operands=[_leading(emit)], regions=[Region(inner)]))

    def _load(self, op: s.TmaLoadOp) -> None:
        ring = self.full_of[op.slot]
        assert ring.full is not None
        properties = {k: v for k, v in op.properties.items() if k in ("box", "multicast")}
        if ring.reach.commit is not None:
            properties["to"] = StringAttr(ring.reach.commit)
        for emit in self._emit(op):
            emit.add(
                s.TmaLoadOp.create(
                    operands=[*op.operands, ring.full],
                    properties={**properties, **segments(1, 1, 1, len(op.coordinates), 1)},
                )
            )

    def _signal(self, op: s.CommitOp | s.ReleaseOp) -> None:
        ring, how = self.rings[op.ring], how_of(op)
        barriers = ring.full if isinstance(op, s.CommitOp) else ring.empty
        what = "commit" if isinstance(op, s.CommitOp) else "release"
        to = ring.reach.commit if isinstance(op, s.CommitOp) else ring.reach.release
        reach = {"to": StringAttr(to)} if to is not None else {}
        for emit in self._emit(op):
            if barriers is None:
                emit.add(s.BulkCommitOp.create(properties={"id": self._id(ring, what)}))
                continue
            kinds = {ARRIVALS[h] for h in how}
            if "commit" in kinds:
                emit.add(
                    s.Tcgen05CommitOp.create(
                        operands=[barriers, op.slot],
                        properties={"id": self._id(ring, what), **reach},
                    )
                )
            if "lane" in kinds:
                emit.add(s.WarpSyncOp.create(properties={"id": self._id(ring, f"{what}.warp")}))
                how = {"id": self._id(ring, what), **reach, **ring.scope}
                self._arrive(emit, barriers, op.slot, By.LANE, how)
            if "one" in kinds:
                emit.add(
                    s.BulkWaitOp.create(
                        properties={
                            "pending": IntegerAttr(0, i32),
                            "read": UnitAttr(),
                            "id": self._id(ring, "drained"),
                        }
                    )
                )
            if "one" in kinds or not kinds:
                how = {"id": self._id(ring, what), **reach, **ring.scope}
                self._arrive(emit, barriers, op.slot, By.ONE, how)

    def _arrive(
        self, emit: Emitter, barriers: SSAValue, slot: SSAValue, by: By, how: dict[str, Attribute]
    ) -> None:
        emit.add(
            s.MbarrierArriveOp.create(
                operands=[barriers, slot], properties={"by": StringAttr(by.value), **how}
            )
        )


def _leading(emit: Emitter) -> SSAValue:
    """Whether this CTA is the first of its pair."""
    rank = emit.value(
        s.UnitOp.create(properties={"which": StringAttr("rank")}, result_types=[i32]), "rank"
    )
    return emit.arith("eq", rank, emit.const(0), hint="leads")


def _next(emit: Emitter, depth: int, state: State) -> State:
    """The state after one item: the slot goes round, and each round flips the phase."""
    one, zero = emit.const(1), emit.const(0)
    if depth == 1:
        return State(
            state.slot, None if state.phase is None else emit.arith("xor", state.phase, one)
        )
    step = emit.arith("add", state.slot, one)
    wrapped = emit.arith("eq", step, emit.const(depth))
    slot = emit.arith("select", wrapped, zero, step)
    if state.phase is None:
        return State(slot, None)
    flip = emit.arith("select", wrapped, one, zero)
    return State(slot, emit.arith("xor", state.phase, flip))
