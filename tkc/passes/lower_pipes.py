"""Turn rings into barriers with phases, counts, bytes and commits, once it is settled which roles there are.

Before: `acquire`, `commit`, `wait` and `release` on rings; a ring's item number is implicit.
After: mbarriers (full and empty, one pair a slot), waits with parity, expected bytes, commits and arrivals; slot and
phase are values that loops carry, counted for the kernel's life (R1). Staging rings become counted bulk groups.
Here because: counts depend on the roles that `fuse-roles` leaves; `insert-fences` needs to see the barriers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.items import role_of
from tkc.ir.emit import Emitter, as_hint
from tkc.ir.isa.targets import Feature
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.ops import Across, By, How, To
from tkc.ir.stage.stealing import TryCancelOp
from tkc.ir.stage.structure import PAIR
from tkc.ir.stage.tensor_operands import TensorMmaOp
from tkc.ir.syntax import segments
from tkc.ir.target import target_of
from tkc.passes.pipes.early import part_first_operands, read_first
from tkc.passes.pipes.evenness import is_even
from tkc.passes.pipes.rings import Ring, how_of, kinds_of, make_barriers


@dataclass
class State:
    """Where a role stands in a ring: the next item's slot, its phase where barriers tell one round from the next, and
    whose turn it is where roles take turns."""

    slot: SSAValue
    phase: SSAValue | None
    turn: SSAValue | None = None

    @property
    def values(self) -> list[SSAValue]:
        return [v for v in (self.slot, self.phase, self.turn) if v is not None]

    def of(self, values: Iterable[SSAValue]) -> State:
        """The same with other values, of which it takes as many as it has."""
        rest = iter(values)
        taken = [None if v is None else next(rest) for v in (self.slot, self.phase, self.turn)]
        assert taken[0] is not None
        return State(taken[0], taken[1], taken[2])


End = tuple[SSAValue, bool]
"""A ring and whether its slots are filled there, or taken: a role that stands at both ends counts at each."""


@dataclass(frozen=True)
class LowerPipesPass(ModulePass):
    """`lower-pipes`."""

    name = "lower-pipes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            ctas = 1 if kernel.cluster is None else kernel.cluster.value.data
            part_first_operands(kernel, op)
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


@dataclass
class RoleLowering:
    """One role: replaces its ring operations and threads the ring states through its loops."""

    role: s.RoleOp
    rings: dict[SSAValue, Ring]
    ctas: int = 1
    full_of: dict[SSAValue, Ring] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    by_lanes: set[tuple[SSAValue, type[Operation]]] = field(default_factory=set)
    """Rings whose slots each warp of the role hands on, and by which operation."""
    even: list[Ring] = field(default_factory=list)
    """Rings of which it is known how many items ago a slot was filled."""
    early: list[Ring] = field(default_factory=list)
    """Rings whose slots the role has done with when its products have read their first operands."""

    def run(self) -> None:
        self.solo = s.solo(self.role)
        self.by_lanes = {
            (op.ring, type(op))
            for op in self.role.walk()
            if isinstance(op, s.CommitOp | s.ReleaseOp) and "lane" in kinds_of(op)
        }
        self.even = [ring for ring in self.rings.values() if is_even(ring, self.role)]
        self.early = [ring for ring in self.rings.values() if self._read_first(ring)]
        block = self.role.body.block
        used = self._used(block)
        emit = Emitter(Block(), self.role.location)
        states: dict[End, State] = {}
        for end in used:
            zero, ring = emit.const(0), end[0]
            states[end] = State(
                zero,
                zero if self.rings[ring].full is not None else None,
                zero if self._takes_turns(ring) else None,
            )
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

    @property
    def half(self) -> str:
        """Which number says whether a CTA leads its pair: in a cluster of one pair that in the cluster."""
        return "half" if self.ctas > PAIR else "rank"

    def _takes_turns(self, ring: SSAValue) -> bool:
        turns = [u.operation for u in ring.uses if isinstance(u.operation, s.TurnOp)]
        return any(role_of(op) is self.role for op in turns)

    def _lead(self) -> None:
        """The whole role under the condition that its CTA is the first of the pair."""
        block, inner = self.role.body.block, Block()
        for op in list(block.ops):
            op.detach()
            inner.add_op(op)
        inner.add_op(s.YieldOp.create(operands=[]))
        emit = Emitter(block, self.role.location)
        emit.add(s.IfOp.create(operands=[_leading(emit, self.half)], regions=[Region(inner)]))

    def _used(self, block: Block) -> list[End]:
        """Ends of rings at which this block or a loop in it moves on, in order."""
        found: dict[End, None] = {}
        for op in block.walk():
            if isinstance(op, s.AcquireOp | s.WaitOp | s.SkipOp):
                found[_end(op)] = None
        return list(found)

    def _id(self, ring: Ring, what: str) -> StringAttr:
        """A name for a synchronisation site that every later pass keeps."""
        base = f"{self.role.sym_name.data}.{ring.name}.{what}"
        self.ids[base] = self.ids.get(base, 0) + 1
        return StringAttr(base if self.ids[base] == 1 else f"{base}.{self.ids[base]}")

    def _block(self, block: Block, states: dict[End, State]) -> None:
        """Lowers a block in order; `states` is changed to the states after it."""
        for op in list(block.ops):
            match op:
                case s.AcquireOp() | s.WaitOp():
                    self._advance(op, states)
                case s.CommitOp() | s.ReleaseOp():
                    self._signal(op)
                case s.TurnOp():
                    self._turn(op, states[_end(op)])
                case s.SkipOp():
                    self._skip(op, states)
                case s.ForOp():
                    self._loop(op, states)
                case s.IfOp():
                    self._condition(op, states)
                case WhileOp():
                    self._while(op, states)
                case s.TmaLoadOp():
                    self._load(op)
                case TryCancelOp():
                    self._ask(op)
                case _:
                    pass

    def _condition(self, op: s.IfOp, states: dict[End, State]) -> None:
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
        old: s.IfOp | s.ForOp | WhileOp,
        new: s.IfOp | s.ForOp | WhileOp,
        states: dict[End, State],
        used: list[End],
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
            states[ring] = states[ring].of(after)

    def _loop(self, loop: s.ForOp, states: dict[End, State]) -> None:
        used = self._used(loop.body.block)
        if not used:
            return
        inits = [v for ring in used for v in states[ring].values]
        inner = self._take(loop.body.block, used, states)
        self._turns(loop.body.block, used, inner)
        region = loop.detach_region(loop.body)
        new = s.ForOp.create(
            operands=[*loop.operands, *inits],
            properties=loop.properties,
            regions=[region],
            result_types=[*(r.type for r in loop.results), *(v.type for v in inits)],
        )
        self._replace(loop, new, states, used)

    def _while(self, loop: WhileOp, states: dict[End, State]) -> None:
        """As a counted loop; the test takes the states, too, and has no items."""
        used = self._used(loop.body.block)
        if not used:
            return
        inits = [v for ring in used for v in states[ring].values]
        self._take(loop.test.block, used, states)
        self._turns(loop.body.block, used, self._take(loop.body.block, used, states))
        new = WhileOp.create(
            operands=[*loop.operands, *inits],
            regions=[loop.detach_region(region) for region in list(loop.regions)],
            result_types=[*(r.type for r in loop.results), *(v.type for v in inits)],
        )
        self._replace(loop, new, states, used)

    def _turns(self, body: Block, used: list[End], inner: dict[End, State]) -> None:
        """Lowers a loop's body, which hands on where the rings stand."""
        self._block(body, inner)
        last = body.last_op
        assert isinstance(last, s.YieldOp)
        last.operands = [*last.operands, *(v for r in used for v in inner[r].values)]

    def _take(self, body: Block, used: list[End], states: dict[End, State]) -> dict[End, State]:
        """Arguments of a loop's region for where the rings stand."""
        inner: dict[End, State] = {}
        for ring in used:
            before = states[ring]
            name = as_hint(self.rings[ring[0]].name).replace(".", "_")
            args = [body.insert_arg(i32, len(body.args)) for _ in before.values]
            inner[ring] = before.of(args)
            named = (inner[ring].slot, inner[ring].phase, inner[ring].turn)
            for arg, what in zip(named, ("slot", "phase", "turn"), strict=True):
                if arg is not None:
                    arg.name_hint = f"{name}_{what}"
        return inner

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

    def _by(self, op: s.AcquireOp | s.WaitOp) -> By:
        """Who waits for a slot: all where each warp signals that it is done with it, else the one thread that does.

        A warp that waits without signalling could be overtaken by a phase, and then wait for ever.
        """
        signal = s.CommitOp if isinstance(op, s.AcquireOp) else s.ReleaseOp
        return By.ALL if (op.ring, signal) in self.by_lanes and not self.solo else By.ONE

    def _advance(self, op: s.AcquireOp | s.WaitOp, states: dict[End, State]) -> None:
        """The wait for the ring's next item, and the state after it."""
        ring, state = self.rings[op.ring], states[_end(op)]
        by = self._by(op)
        for emit in self._emit(op):
            one = emit.const(1)
            if ring.full is None or ring.empty is None or state.phase is None:
                self._await_copies(emit, ring)
            elif isinstance(op, s.AcquireOp):
                free = emit.arith("xor", state.phase, one)
                with self._asking(emit, ring):
                    self._wait(
                        emit, ring, ring.empty, state.slot, free, by, self._id(ring, "empty")
                    )
                    for other in self._after_of(ring):
                        assert other.empty is not None
                        id = self._id(other, f"empty.{ring.name}")
                        self._wait(emit, other, other.empty, state.slot, free, by, id)
                self.full_of[state.slot] = ring
                self._expect(emit, op, ring, state)
            else:
                id = self._id(ring, "full")
                self._wait(emit, ring, ring.full, state.slot, state.phase, by, id)
                self._own(emit, op, ring, states)
            op.slot.replace_all_uses_with(state.slot)
            states[_end(op)] = self._after(emit, ring, state)

    def _own(self, emit: Emitter, op: s.WaitOp, ring: Ring, states: dict[End, State]) -> None:
        """Where the role changes an accumulator before it puts it on: the waits of that put come ahead of the change.

        Who has put the item has waited for the same, but what the commit of its products tells of that is not proved.
        """
        after = self._after_of(ring)
        mine = next((r for r in after if _changed_before_put(op, r)), None)
        if mine is None:
            return
        lanes = (mine.pipe.ring, s.CommitOp) in self.by_lanes and not self.solo
        for other in after:
            state = states.get((other.pipe.ring, True), states[_end(op)])
            assert other.empty is not None
            assert state.phase is not None
            free = emit.arith("xor", state.phase, emit.const(1))
            id = self._id(other, f"empty.{ring.name}")
            self._wait(emit, other, other.empty, state.slot, free, By.ALL if lanes else By.ONE, id)

    def _after_of(self, ring: Ring) -> list[Ring]:
        """The rings through which an item of this one goes on: its slot is free when the last of them gives it back."""
        names = [] if ring.pipe.after is None else [name.data for name in ring.pipe.after]
        return [r for name in names for r in self.rings.values() if r.name == name]

    def _after(self, emit: Emitter, ring: Ring, state: State) -> State:
        after = _next(emit, ring.depth, state)
        if state.turn is not None:
            after.turn = _round(emit, state.turn, len(ring.pipe.consumers))
        return after

    def _turn(self, op: s.TurnOp, state: State) -> None:
        assert state.turn is not None
        for emit in self._emit(op):
            mine = emit.arith("eq", state.turn, emit.const(op.index.value.data), hint="turn")
            op.mine.replace_all_uses_with(mine)

    def _skip(self, op: s.SkipOp, states: dict[End, State]) -> None:
        for emit in self._emit(op):
            end = _end(op)
            states[end] = self._after(emit, self.rings[op.ring], states[end])

    def _await_copies(self, emit: Emitter, ring: Ring) -> None:
        """What went through slots for maps is complete; of staging slots, what they held has been read."""
        if ring.pipe.kind.data == "maps":
            whole: dict[str, Attribute] = {
                "pending": IntegerAttr(0, i32),
                "id": self._id(ring, "complete"),
            }
            emit.add(s.BulkWaitOp.create(properties=whole))
            return
        properties: dict[str, Attribute] = {
            "pending": IntegerAttr(ring.depth - 1 if ring in self.even else 0, i32),
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
        signal = s.CommitOp if barriers is ring.full else s.ReleaseOp
        emit.add(
            s.MbarrierWaitOp.create(
                operands=[barriers, slot, parity],
                properties={"by": StringAttr(by.value), "id": id, **ring.scope(signal)},
            )
        )

    def _expect(self, emit: Emitter, op: s.AcquireOp, ring: Ring, state: State) -> None:
        """Announces the bytes that the item's copies bring, before they start; a pair's leader does so for both."""
        assert ring.full is not None
        gathers = ring.reach.commit is To.LEADER
        for use in op.slot.uses:
            commit = use.operation
            if isinstance(commit, s.CommitOp) and How.TMA in how_of(commit):
                bytes = commit.bytes.value.data * (PAIR if gathers else 1)
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
                emit.add(
                    s.IfOp.create(operands=[_leading(emit, self.half)], regions=[Region(inner)])
                )

    def _load(self, op: s.TmaLoadOp) -> None:
        ring = self.full_of[op.slot]
        assert ring.full is not None
        properties = {k: v for k, v in op.properties.items() if k in ("box", "multicast", "hint")}
        if ring.reach.commit is not None:
            properties["to"] = StringAttr(ring.reach.commit)
        for emit in self._emit(op):
            emit.add(
                s.TmaLoadOp.create(
                    operands=[*op.operands, ring.full],
                    properties={**properties, **segments(1, 1, 1, len(op.coordinates), 1)},
                )
            )

    def _ask(self, op: TryCancelOp) -> None:
        """One CTA of a cluster asks for all, when the slot is free in all of them."""
        ring = self.full_of[op.slot]
        assert ring.full is not None
        for emit in self._emit(op):
            with self._asking(emit, ring):
                emit.add(
                    TryCancelOp.create(
                        operands=[op.buffer, op.slot, ring.full], properties=op.properties
                    )
                )

    @contextmanager
    def _asking(self, emit: Emitter, ring: Ring) -> Generator[None]:
        """What is added stands under the condition that its CTA asks for the cluster, where one does for all."""
        if ring.pipe.across is None or ring.pipe.across.data != Across.ANSWER:
            yield
            return
        leads, inner = _leading(emit, "cluster"), Block()
        with emit.inside(inner):
            yield
        inner.add_op(s.YieldOp.create(operands=[]))
        emit.add(s.IfOp.create(operands=[leads], regions=[Region(inner)]))

    def _signal(self, op: s.CommitOp | s.ReleaseOp) -> None:
        ring = self.rings[op.ring]
        barriers = ring.full if isinstance(op, s.CommitOp) else ring.empty
        what = "commit" if isinstance(op, s.CommitOp) else "release"
        to = ring.reach.commit if isinstance(op, s.CommitOp) else ring.reach.release
        reach = {"to": StringAttr(to)} if to is not None else {}
        for emit in self._emit(op):
            if barriers is None:
                emit.add(s.BulkCommitOp.create(properties={"id": self._id(ring, what)}))
                continue
            kinds = kinds_of(op)
            if "commit" in kinds:
                how = {"id": self._id(ring, what), **reach}
                if isinstance(op, s.ReleaseOp) and ring in self.early:
                    how["reads"] = UnitAttr()
                emit.add(s.Tcgen05CommitOp.create(operands=[barriers, op.slot], properties=how))
            if "lane" in kinds and self.solo:
                how = {"id": self._id(ring, what), **reach, **ring.scope(type(op))}
                self._arrive(emit, barriers, op.slot, By.ONE, how)
            elif "lane" in kinds:
                emit.add(s.WarpSyncOp.create(properties={"id": self._id(ring, f"{what}.warp")}))
                how = {"id": self._id(ring, what), **reach, **ring.scope(type(op))}
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
                how = {"id": self._id(ring, what), **reach, **ring.scope(type(op))}
                self._arrive(emit, barriers, op.slot, By.ONE, how)

    def _read_first(self, ring: Ring) -> bool:
        """Whether this role's products read a ring's tiles as their first operands, nothing else of it does, and the
        target's commits can tell that by itself."""
        tiles = ring.pipe.buffers
        users = {use.operation for tile in tiles for use in tile.uses}
        if not read_first(tiles, [op for op in users if self.role.is_ancestor(op)]):
            return False
        module = self.role.get_toplevel_object()
        assert isinstance(module, ModuleOp)
        return target_of(module).has({Feature.TCGEN05_COMMIT_READ})

    def _arrive(
        self, emit: Emitter, barriers: SSAValue, slot: SSAValue, by: By, how: dict[str, Attribute]
    ) -> None:
        emit.add(
            s.MbarrierArriveOp.create(
                operands=[barriers, slot], properties={"by": StringAttr(by.value), **how}
            )
        )


def _changed_before_put(op: s.WaitOp, other: Ring) -> bool:
    """Whether an accumulator is changed between a get and the put, behind it in its block, that hands it on."""
    changed, at = False, op.next_op
    while at is not None:
        if isinstance(at, s.AcquireOp) and at.ring is other.pipe.ring:
            return changed
        changed |= any(
            isinstance(o, s.WriteAccumulatorOp | s.MmaOp | TensorMmaOp) for o in at.walk()
        )
        at = at.next_op
    return False


def _end(op: s.AcquireOp | s.WaitOp | s.SkipOp | s.TurnOp) -> End:
    return op.ring, isinstance(op, s.AcquireOp)


def _leading(emit: Emitter, of: str) -> SSAValue:
    """Whether this CTA is the first of its pair, or of its cluster."""
    rank = emit.value(
        s.UnitOp.create(properties={"which": StringAttr(of)}, result_types=[i32]), "rank"
    )
    return emit.arith("eq", rank, emit.const(0), hint="leads")


def _round(emit: Emitter, value: SSAValue, count: int) -> SSAValue:
    """One more, and 0 behind the last."""
    step = emit.arith("add", value, emit.const(1))
    wrapped = emit.arith("eq", step, emit.const(count))
    return emit.arith("select", wrapped, emit.const(0), step)


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
