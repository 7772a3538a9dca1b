"""Says a role program in the stage dialect, so that the compiler's own analysis can be asked about it.

Every counter becomes what `lower-pipes` makes of it: a slot and a phase for each depth of ring that it runs over,
carried round the loops. Trip counts are sizes of an argument, unknown to the analysis. What the stage level cannot say
is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracles.roles import EACH, Entry, For, If, Op, Program, Role, Statement
from oracles.stage_parts import State, carried, changing, contract, depth_of
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.ir.emit import Emitter
from tkc.ir.stage import explicit as x
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import (
    CopiesCommitOp,
    CopiesWaitOp,
    CopyElementsOp,
    LoadElementOp,
    StoreElementOp,
)
from tkc.ir.stage.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.stage.types import (
    AccumulatorType,
    BarriersType,
    BufferType,
    FragmentLayout,
    FragmentType,
    Home,
)
from tkc.ir.stage.vectors import FillOp
from tkc.ir.syntax import SEGMENTS, construct
from tkc.ir.tile.types import TensorType

ROWS, COLUMNS = 128, 64
BYTES = ROWS * COLUMNS * 2
NARROW = FragmentType.of("bf16", (ROWS, COLUMNS), FragmentLayout.ROWS)
WIDE = FragmentType.of("f32", (ROWS, COLUMNS), FragmentLayout.ROWS)
ACCUMULATOR = AccumulatorType.of("f32", (ROWS, ROWS))
BOX = ArrayAttr([IntegerAttr(ROWS, i32), IntegerAttr(COLUMNS, i32)])
ZERO, ONE = IntegerAttr(0, i32), IntegerAttr(1, i32)


class NotInStage(Exception):
    """The program says something that the stage level has no operation for."""


def as_stage(program: Program, target: str = "sm_100a") -> tuple[ModuleOp, dict[Operation, int]]:
    """The module, and the site of each of its operations that comes from one."""
    said = _Said(program, target)
    return said.module(), said.sites


@dataclass
class _Said:
    program: Program
    target: str
    sites: dict[Operation, int] = field(default_factory=dict)
    values: dict[str, SSAValue] = field(default_factory=dict)
    emit: Emitter = field(init=False)

    def module(self) -> ModuleOp:
        self.ctas = self.program.ctas()
        self.each = any(r.cta == EACH for r in self.program.roles)
        stores = [op.site for _, op in self.program.ops() if op.name == "store"]
        symbols = self.program.symbols()
        in_global = [b.name for b in self.program.buffers.values() if b.home == "global"]
        tensors: list[Attribute] = [TensorType.of("bf16", ("M", "N"))] * (
            1 + len(stores) + len(in_global)
        )
        if symbols:
            tensors.append(TensorType.of("bf16", symbols))
        body = Block(arg_types=tensors)
        self.emit, self.body_of_kernel = Emitter(body), body
        self.loaded = body.args[0]
        self.stored = dict(zip(stores, body.args[1:], strict=False))
        self.values.update(zip(in_global, body.args[1 + len(stores) :], strict=False))
        for name in self.program.symbols():
            self.values[name] = self.value(s.SizeOp, (), i32, symbol=StringAttr(name))
        for b in self.program.buffers.values():
            if b.home == "global":
                continue
            self.values[b.name] = self.value(
                s.BufferOp, (), self.buffer_type(b.name), sym_name=StringAttr(b.name)
            )
        for m in self.program.barriers.values():
            self.values[m.name] = self.value(
                s.BarriersOp, (), BarriersType(), sym_name=StringAttr(m.name), depth=number(m.depth),
                count=number(m.count),
            )  # fmt: skip
        first = 0
        places: dict[str, int] = {}
        for role in sorted(
            self.program.roles, key=lambda r: -r.warps
        ):  # warpgroups begin at multiples of 4
            places[role.name] = first
            first += role.warps
        for role in self.program.roles:
            self.role(role, places[role.name])
        kernel = construct(
            s.KernelOp,
            properties={
                **({"cluster": number(self.ctas)} if self.ctas > 1 else {}),
                **({"pair": UnitAttr()} if self.ctas > 1 and not self.each else {}),
                "sym_name": StringAttr("program"),
                "arg_names": ArrayAttr([StringAttr(f"X{n}") for n in range(len(body.args))]),
                "contract": contract(self.program, len(body.args), self.ctas),
            },
            regions=[Region(body)],
        )
        return ModuleOp([kernel], {"tkc.target": StringAttr(self.target)})

    def buffer_type(self, name: str) -> BufferType:
        b = self.program.buffers[name]
        if b.home == "shared":
            return BufferType.of("bf16", (ROWS, COLUMNS), b.depth, Home.SHARED, "128B")
        if b.home == "tensor":
            home = Home.REGISTER if self.target == "sm_90a" else Home.TENSOR
            return BufferType.of("f32", (ROWS, ROWS), b.depth, home)
        raise NotInStage(f"a buffer in {b.home} memory")

    def value(
        self,
        kind: type[Operation],
        operands: tuple[SSAValue, ...],
        result: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        made = self.emit.add(construct(kind, operands, (result,), dict(properties)))  # type: ignore[type-var]
        return made.results[0]

    def act(
        self, op: Op, kind: type[Operation], operands: tuple[SSAValue, ...] = (), results: tuple[Attribute, ...] = (),
        segments: tuple[int, ...] = (), **properties: Attribute,
    ) -> None:  # fmt: skip
        """Appends the operation of a site; `segments`: how many operands each of its groups has."""
        if segments:
            properties[SEGMENTS] = DenseArrayBase.from_list(i32, list(segments))
        made = self.emit.add(construct(kind, operands, results, dict(properties)))  # type: ignore[type-var]
        self.sites[made] = op.site

    # Roles, loops, conditions: `state` is what a role carries, by name -----------------------------------------------

    def role(self, role: Role, first: int) -> None:
        body = Block()
        with self.emit.inside(body), self.in_cta(role.cta):
            zero = self.emit.const(0)
            state: State = dict.fromkeys(carried(self.program, role), zero)
            if "rank.count" in state:
                state["rank.count"] = self.rank()
            self.body(role, role.body, state)
        self.emit.add(
            construct(
                s.RoleOp,
                properties={
                    "sym_name": StringAttr(role.name), "warps": number(role.warps), "first_warp": number(first),
                    "groups": ONE,
                },
                regions=[Region(body)],
            )
        )  # fmt: skip

    @contextmanager
    def in_cta(self, rank: int) -> Generator[None]:
        """In a cluster every CTA runs every role; what follows is for one of them."""
        if self.ctas == 1 or rank == EACH:
            yield
            return
        here = self.emit.arith("eq", self.rank(), self.emit.const(rank))
        body = Block()
        with self.emit.inside(body):
            yield
            self.emit.add(construct(s.YieldOp))
        self.emit.add(construct(s.IfOp, (here,), regions=[Region(body)]))

    def rank(self) -> SSAValue:
        return self.value(s.UnitOp, (), i32, which=StringAttr("rank"))

    def body(self, role: Role, body: list[Statement], state: State) -> None:
        for n, one in enumerate(body):
            match one:
                case For():
                    self.loop(role, one, state)
                case If():
                    self.condition(role, one, state)
                case Op(name="step"):
                    self.step(one.counter, state)
                case Op(name="reset"):
                    zero = self.emit.const(0)
                    state.update({k: zero for k in state if k.split(".")[0] == one.counter})
                case _:
                    self.op(role, one, state, body[n + 1] if n + 1 < len(body) else None)

    def loop(self, role: Role, loop: For, state: State) -> None:
        if loop.by_counter:
            counter, modulus, more = loop.by_counter
            rest = self.emit.arith("mod", state[f"{counter}.count"], self.emit.const(modulus))
            trips = self.emit.arith("add", rest, self.emit.const(more))
        else:
            trips = self.values.get(loop.trips) or self.emit.const(int(loop.trips))
        bounds = (self.emit.const(0), trips, self.emit.const(1))
        names = changing(loop.body, state)
        inner = Block(arg_types=[i32] * (1 + len(names)))
        with self.emit.inside(inner):
            inside = {**state, **dict(zip(names, inner.args[1:], strict=True))}
            self.body(role, loop.body, inside)
            self.emit.add(construct(s.YieldOp, tuple(inside[n] for n in names)))
        carried = tuple(state[n] for n in names)
        made = construct(s.ForOp, (*bounds, *carried), [i32] * len(names), regions=[Region(inner)])
        state.update(zip(names, self.emit.add(made).results, strict=True))

    def condition(self, role: Role, test: If, state: State) -> None:
        rest = self.emit.arith("mod", state[f"{test.counter}.count"], self.emit.const(test.modulus))
        yes = self.emit.arith("eq", rest, self.emit.const(test.remainder))
        names = changing([*test.then, *test.otherwise], state)
        regions: list[Region] = []
        for body in (test.then, test.otherwise):
            block, here = Block(), dict(state)
            with self.emit.inside(block):
                self.body(role, body, here)
                self.emit.add(construct(s.YieldOp, tuple(here[n] for n in names)))
            regions.append(Region(block))
        made = self.emit.add(construct(s.IfOp, (yes,), [i32] * len(names), regions=regions))
        state.update(zip(names, made.results, strict=True))

    def step(self, counter: str, state: State) -> None:
        emit = self.emit
        zero, one = emit.const(0), emit.const(1)
        for key in state:
            owner, what, *depth = key.split(".")
            if owner != counter:
                continue
            if what == "count":
                state[key] = emit.arith("add", state[key], one)
            elif what == "slot":
                more = emit.arith("add", state[key], one)
                wraps = emit.arith("eq", more, emit.const(int(depth[0])))
                state[key] = emit.arith("select", wraps, zero, more)
                turned = emit.arith("select", wraps, one, zero)
                phase = f"{owner}.phase.{depth[0]}"
                state[phase] = emit.arith("xor", state[phase], turned)

    def slot(self, e: Entry, state: State) -> SSAValue:
        if e.index.isdigit():
            return self.emit.const(int(e.index))
        return state[f"{e.index}.slot.{depth_of(self.program, e)}"]

    def parity(self, e: Entry, state: State, lag: bool) -> SSAValue:
        if e.index.isdigit():
            return self.emit.const(int(lag))
        phase = state[f"{e.index}.phase.{depth_of(self.program, e)}"]
        return self.emit.arith("xor", phase, self.emit.const(1)) if lag else phase

    # Operations ------------------------------------------------------------------------------------------------------

    def op(self, role: Role, op: Op, state: State, following: Statement | None) -> None:
        self.here = role.cta
        for e in op.entries:
            declared = self.program.buffers.get(e.name) or self.program.barriers[e.name]
            away = declared.cta != role.cta and getattr(declared, "home", "") != "global"
            if away and op.name not in ("mma", "arrive", "expect", "commit", "tma"):
                raise NotInStage(f"{op.name} in another CTA")
        if op.name in ("tld", "sync", "warp_sync", "wgmma", "wgmma_wait") and op.by != "all":
            raise NotInStage(f"{op.name} by {op.by}")
        say: Callable[..., None] | None = getattr(self, f"say_{op.name}", None)
        if say is None:
            raise NotInStage(op.name)
        self.following = following.name if isinstance(following, Op) else ""
        self.state = state
        entries = [(self.values[e.name], self.slot(e, state)) for e in op.entries]
        self.parity_of = lambda: self.parity(op.entries[0], state, "lag" in op.words)
        self.id = StringAttr(f"{role.name}.user.{op.site}")
        say(op, *entries)

    def synchronises(self, op: Op) -> Mapping[str, Attribute]:
        sem = {"sem": StringAttr("relaxed")} if "relaxed" in op.words else {}
        scope = {"scope": StringAttr(op.scope)} if op.scope != "cta" else {}
        return {"by": StringAttr(op.by), "id": self.id, **sem, **scope}

    def elsewhere(self, op: Op, e: Entry) -> tuple[SSAValue, ...]:
        """The rank of a barrier's CTA where it is not the role's own."""
        if "both" in op.words:
            raise NotInStage(f"{op.name} in both CTAs")
        if "peer" in op.words:
            return (self.emit.arith("xor", self.rank(), self.emit.const(1)),)
        owner = self.program.barriers[e.name].cta
        if owner == EACH:
            (owner,) = op.targets(EACH)
        return () if owner == self.here else (self.emit.const(owner),)

    @contextmanager
    def elected(self, op: Op) -> Generator[None]:
        """What follows is done by those threads alone that the operation says."""
        if op.by == "all":
            yield
            return
        chosen = self.value(s.ElectedOp, (), i1, scope=StringAttr(op.by))
        body = Block()
        with self.emit.inside(body):
            yield
            self.emit.add(construct(s.YieldOp))
        self.emit.add(construct(s.IfOp, (chosen,), regions=[Region(body)]))

    def element(self, a: tuple[SSAValue, SSAValue]) -> tuple[SSAValue, ...]:
        """The first element of an entry, or of a tensor."""
        zero = self.emit.const(0)
        return (a[0], zero, zero) if isinstance(a[0].type, TensorType) else (*a, zero, zero)

    def say_ld(self, op: Op, a: tuple[SSAValue, SSAValue]) -> None:
        if op.by == "all" and isinstance(a[0].type, BufferType):
            self.act(op, s.LoadSharedOp, (*a, self.emit.const(0)), (NARROW,))
            return
        with self.elected(op):
            self.act(op, LoadElementOp, self.element(a), (f32,))

    def say_st(self, op: Op, a: tuple[SSAValue, SSAValue]) -> None:
        one = self.value(s.ConstOp, (), f32, constant=FloatAttr(1.0, f32))
        if op.by != "all" or not isinstance(a[0].type, BufferType):
            with self.elected(op):
                self.act(op, StoreElementOp, (one, *self.element(a)))
            return
        narrow = self.value(s.CastOp, (self.value(FillOp, (one,), WIDE),), NARROW)
        self.act(op, s.StoreSharedOp, (narrow, *a, self.emit.const(0)))

    def say_tma(
        self, op: Op, a: tuple[SSAValue, SSAValue], m: tuple[SSAValue, SSAValue],
        g: tuple[SSAValue, SSAValue] | None = None,
    ) -> None:  # fmt: skip
        zero = self.emit.const(0)
        tensor = g[0] if g else self.loaded
        if "both" in op.words:
            self.to_both(op, a, m, tensor)
            return
        rank = self.elsewhere(op, op.entries[1])
        if self.program.buffers[op.entries[0].name].cta != self.here:
            raise NotInStage("a copy into another CTA")
        if a[1] is m[1] and not rank:
            self.act(op, s.TmaLoadOp, (tensor, *a, zero, zero, m[0]), (), (1, 1, 1, 2, 1), box=BOX)
        else:
            sizes = (1, 1, 1, 1, 1, 2, 0, len(rank))
            self.act(op, x.TmaLoadToOp, (tensor, *a, *m, zero, zero, *rank), (), sizes, box=BOX)

    def to_both(
        self, op: Op, a: tuple[SSAValue, SSAValue], m: tuple[SSAValue, SSAValue], tensor: SSAValue
    ) -> None:
        """A copy to one entry of every CTA, of the whole of it or of this CTA's half."""
        zero = self.emit.const(0)
        if "share" not in op.words:
            sizes, mask = (1, 1, 1, 1, 1, 2, 1, 0), self.emit.const(3)
            self.act(op, x.TmaLoadToOp, (tensor, *a, *m, zero, zero, mask), (), sizes, box=BOX)
            return
        if a[1] is not m[1]:
            raise NotInStage("a half of a copy that signals another entry")
        operands = (tensor, *a, zero, zero, m[0])
        self.act(op, s.TmaLoadOp, operands, (), (1, 1, 1, 2, 1), box=BOX, multicast=ZERO)

    def say_copy(
        self, op: Op, b: tuple[SSAValue, SSAValue], a: tuple[SSAValue, SSAValue],
        m: tuple[SSAValue, SSAValue],
    ) -> None:  # fmt: skip
        rank = self.elsewhere(op, op.entries[2]) or (self.rank(),)
        self.act(op, x.ClusterCopyOp, (*a, *b, *m, *rank))

    def say_store(self, op: Op, *a: tuple[SSAValue, SSAValue]) -> None:
        # Every store goes elsewhere: what the copy engine writes to global memory is not asked about.
        key, column = f"store{op.site}.count", self.emit.const(0)
        if self.here == EACH:
            column = self.emit.arith("mul", self.rank(), self.emit.const(COLUMNS))
        row = self.emit.arith("mul", self.state[key], self.emit.const(ROWS))
        self.act(
            op,
            s.TmaStoreOp,
            (*a[0], a[1][0] if a[1:] else self.stored[op.site], row, column),
            box=BOX,
        )
        self.state[key] = self.emit.arith("add", self.state[key], self.emit.const(1))

    def say_cpasync(self, op: Op, a: tuple[SSAValue, SSAValue]) -> None:
        if op.by == "all":
            raise NotInStage("copies of one element by several threads")
        zero = self.emit.const(0)
        with self.elected(op):
            operands = (self.loaded, zero, zero, *a, zero, zero)
            self.act(op, CopyElementsOp, operands, (), (1, 2, 1, 3), bytes=number(16))

    def say_cpasync_wait(self, op: Op) -> None:
        with self.elected(op):
            self.act(op, CopiesCommitOp, id=StringAttr(f"{self.id.data}.commit"))
            self.act(op, CopiesWaitOp, pending=number(0), id=self.id)

    def say_bulk_commit(self, op: Op) -> None:
        self.act(op, s.BulkCommitOp, id=self.id)

    def say_bulk_wait(self, op: Op) -> None:
        read = {"read": UnitAttr()} if "read" in op.words else {}
        self.act(op, s.BulkWaitOp, pending=number(op.number), id=self.id, **read)

    def accumulator(self, d: tuple[SSAValue, SSAValue]) -> SSAValue:
        return self.value(s.OpenOp, d, ACCUMULATOR)

    def any_accumulator(self) -> SSAValue:
        name = next((b.name for b in self.program.buffers.values() if b.home == "tensor"), None)
        if name is None:
            kind = BufferType.of("f32", (ROWS, ROWS), 1, Home.REGISTER)
            made = self.value(s.BufferOp, (), kind, sym_name=StringAttr("products"))
            return self.accumulator((made, self.emit.const(0)))
        return self.accumulator((self.values[name], self.emit.const(0)))

    def product(
        self, op: Op, d: SSAValue, *operands: tuple[SSAValue, SSAValue], **more: Attribute
    ) -> None:
        shared = [o for o in operands if self.in_shared(o)]
        scales = [o for o in operands if not self.in_shared(o)]
        a, b = (shared[0], shared[-1]) if shared else (self.unused(), self.unused())
        if scales:
            self.act(op, ScaledMmaOp, (d, *a, *b, *scales[0], *scales[-1]), (ACCUMULATOR,), **more)
            return
        self.act(op, s.MmaOp, (d, *a, *b), (ACCUMULATOR,), trans_a=ZERO, trans_b=ONE, **more)

    def check_scales(self, op: Op) -> None:
        """Operands in tensor memory are said as scales, which no product writes."""
        written = {o.entries[0].name for _, o in self.program.ops() if o.name == "mma"}
        if any(e.name in written for e in op.entries[1:]):
            raise NotInStage("an operand in tensor memory that a product writes")

    def say_mma(
        self, op: Op, d: tuple[SSAValue, SSAValue], *operands: tuple[SSAValue, SSAValue]
    ) -> None:
        self.check_scales(op)
        away = any(self.program.buffers[e.name].cta != self.here for e in op.entries)
        self.product(op, self.accumulator(d), *operands, **({"pair": UnitAttr()} if away else {}))

    @staticmethod
    def in_shared(operand: tuple[SSAValue, SSAValue]) -> bool:
        kind = operand[0].type
        return isinstance(kind, BufferType) and kind.home.data == Home.SHARED

    def unused(self) -> tuple[SSAValue, SSAValue]:
        """An operand in shared memory that nobody else touches."""
        kind = BufferType.of("bf16", (ROWS, COLUMNS), 1, Home.SHARED, "128B")
        if self.spare is None:
            self.spare = construct(s.BufferOp, (), (kind,), {"sym_name": StringAttr("unused")})
            self.body_of_kernel.insert_op_before(self.spare, self.body_of_kernel.first_op)
        return self.spare.results[0], self.emit.const(0)

    spare: s.BufferOp | None = None

    def say_cp(
        self, op: Op, scales: tuple[SSAValue, SSAValue], a: tuple[SSAValue, SSAValue]
    ) -> None:
        self.act(op, CopyScalesOp, (*a, *scales))

    def say_commit(self, op: Op, m: tuple[SSAValue, SSAValue]) -> None:
        both = "both" in op.words
        rank = self.program.barriers[op.entries[0].name].cta
        told = op.targets(self.here if rank == EACH else rank)
        if "peer" in op.words:
            raise NotInStage("a commit to the other CTA")
        mask = () if told == (self.here,) else (self.emit.const(3 if both else 1 << told[0]),)
        self.act(op, s.Tcgen05CommitOp, (*m, *mask), id=self.id)

    def say_wgmma(self, op: Op, *operands: tuple[SSAValue, SSAValue]) -> None:
        alone = {} if self.following == "wgmma_commit" else {"alone": UnitAttr()}
        self.implied = not alone
        self.product(op, self.any_accumulator(), *operands, by=StringAttr("all"), **alone)

    implied = False
    """Whether the last operation says the next one, too."""

    def say_wgmma_commit(self, op: Op) -> None:
        if not self.implied:
            self.act(op, x.MmaCommitOp, id=self.id)
        self.implied = False

    def say_wgmma_wait(self, op: Op) -> None:
        self.act(
            op,
            s.MmaWaitOp,
            (self.any_accumulator(),),
            (ACCUMULATOR,),
            pending=number(op.number),
            id=self.id,
        )

    def say_tld(self, op: Op, d: tuple[SSAValue, SSAValue]) -> None:
        if self.following != "wait_ld":
            raise NotInStage("tld apart from its wait_ld")
        self.implied = True
        self.act(
            op,
            s.ReadAccumulatorOp,
            (self.accumulator(d), self.emit.const(0)),
            (WIDE,),
            row_block=ZERO,
        )

    def say_wait_ld(self, op: Op) -> None:
        if not self.implied:
            raise NotInStage("wait_ld apart from its tld")
        self.implied = False

    def say_before(self, op: Op) -> None:
        side = StringAttr(f"{op.name}_thread_sync")
        self.act(op, s.Tcgen05FenceOp, side=side, id=self.id, by=StringAttr(op.by))

    say_after = say_before

    def say_wait(self, op: Op, m: tuple[SSAValue, SSAValue]) -> None:
        self.act(op, s.MbarrierWaitOp, (*m, self.parity_of()), **self.synchronises(op))

    def say_arrive(self, op: Op, m: tuple[SSAValue, SSAValue]) -> None:
        if op.scope == "cta" and {"relaxed"} < op.words & {"relaxed", "at0", "at1", "peer"}:
            raise NotInStage("a relaxed arrival of CTA scope in another CTA")
        self.act(
            op,
            s.MbarrierArriveOp,
            (*m, *self.elsewhere(op, op.entries[0])),
            **self.synchronises(op),
        )

    def say_expect(self, op: Op, m: tuple[SSAValue, SSAValue]) -> None:
        said = self.synchronises(op)
        if "scope" in said:
            raise NotInStage("expect of cluster scope")
        at = (*m, *self.elsewhere(op, op.entries[0]))
        self.act(op, s.MbarrierExpectOp, at, bytes=number(op.number * BYTES), **said)

    def say_fence(self, op: Op) -> None:
        self._proxy_fence(op, {"any": ""}.get(op.space, op.space))

    def say_fence_release(self, op: Op) -> None:
        self._proxy_fence(op, "release::read" if "read" in op.words else "release")

    def say_fence_acquire(self, op: Op) -> None:
        self._proxy_fence(op, "acquire")

    def _proxy_fence(self, op: Op, space: str) -> None:
        self.act(
            op,
            s.ProxyFenceOp,
            space=StringAttr(space),
            guards=ArrayAttr([]),
            id=self.id,
            by=StringAttr(op.by),
        )

    def say_thread_fence(self, op: Op) -> None:
        with self.elected(op):
            self.act(
                op, x.FenceOp, sem=StringAttr("acq_rel"), scope=StringAttr(op.scope), id=self.id
            )

    def say_sync(self, op: Op) -> None:
        if not op.number:
            self.act(op, s.RoleBarrierOp, id=self.id)
            return
        meets = [r for r, o in self.program.ops() if o.name == "sync" and o.number == op.number]
        threads = sum(32 * r.warps for r in {r.name: r for r in meets}.values())
        self.act(
            op, x.NamedBarrierOp, number=number(op.number), threads=number(threads), id=self.id
        )

    def say_warp_sync(self, op: Op) -> None:
        self.act(op, s.WarpSyncOp, id=self.id)

    def say_cluster_sync(self, op: Op) -> None:
        does = StringAttr(op.name.removeprefix("cluster_"))
        sem = {"sem": StringAttr("relaxed")} if "relaxed" in op.words else {}
        self.act(op, x.ClusterBarrierOp, does=does, id=self.id, **sem)

    say_cluster_arrive = say_cluster_wait = say_cluster_sync


def number(n: int) -> IntegerAttr:
    return IntegerAttr(n, i32)
