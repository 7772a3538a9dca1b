"""Says a role program in the stage dialect, so that the compiler's own analysis can be asked about it.

Every counter becomes what `lower-pipes` makes of it: a slot and a phase for each depth of ring that it runs over, carried
round the loops. Trip counts are sizes of an argument, unknown to the analysis. What the stage level cannot say is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from oracles.roles import Entry, For, If, Op, Program, Role, Statement, nested, walk
from tkc.ir import context

TILE = "128, 64"
BYTES = 128 * 64 * 2
TYPES = {
    "shared": f'!stage.buffer<bf16, [{TILE}], %d, shared, "128B">',
    "tensor": '!stage.buffer<f32, [128, 128], %d, tensor, "none">',
    "register": '!stage.buffer<f32, [128, 128], %d, register, "none">',
}
TENSOR = "!tile.tensor<bf16, [M, N]>"
ACCUMULATOR = "!stage.accumulator<f32, [128, 128]>"
FRAGMENT = f"!stage.fragment<bf16, [{TILE}], rows>"
WIDE = f"!stage.fragment<f32, [{TILE}], rows>"


class NotInStage(Exception):
    """The program says something that the stage level has no operation for."""


def as_stage(program: Program, target: str = "sm_100a") -> tuple[ModuleOp, dict[Operation, int]]:
    """The module, and the site of each of its operations that comes from one."""
    said = _Said(program, target)
    text = said.text()
    module = Parser(_context(), text).parse_module()
    module.verify()
    marked = [op for op in module.walk() if op.name in MARKED]
    if len(marked) != len(said.sites):
        raise AssertionError("a site without its operation")
    return module, dict(zip(marked, said.sites, strict=True))


MARKED = {
    "stage.tma_load", "stage.tma_store", "stage.mma", "stage.mma_wait", "stage.read_accumulator",
    "stage.load_shared", "stage.store_shared", "stage.mbarrier_wait", "stage.mbarrier_expect",
    "stage.mbarrier_arrive", "stage.tcgen05_commit", "stage.proxy_fence", "stage.tcgen05_fence",
    "stage.role_barrier", "stage.warp_sync", "stage.bulk_commit", "stage.bulk_wait",
}  # fmt: skip


@cache
def _context() -> Context:
    return context()


@dataclass
class _Said:
    program: Program
    target: str
    lines: list[str] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))
    indent: str = "    "

    def text(self) -> str:
        p = self.program
        if p.ctas() > 1:
            raise NotInStage("several CTAs")
        self.lines = [f'builtin.module attributes {{tkc.target = "{self.target}"}} {{']
        self.lines.append('  stage.kernel {sym_name = "program", arg_names = ["X", "Y"], contract = {}} do {')
        self.lines.append(f"  ^bb0(%X: {TENSOR}, %Y: {TENSOR}):")
        for name in p.symbols():
            self.say(f'%trips_{name} = stage.size {{symbol = "{name}"}} : () -> (i32)')
        for b in p.buffers.values():
            self.say(f'%{b.name} = stage.alloc {{sym_name = "{b.name}"}} : () -> ({self.type(b.name)})')
        for m in p.barriers.values():
            self.say(
                f'%{m.name} = stage.barriers {{sym_name = "{m.name}", depth = {m.depth} : i32, '
                f"count = {m.count} : i32}} : () -> (!stage.mbarriers)"
            )
        first = 0
        for role in p.roles:
            self.role(role, first)
            first += role.warps
        return "\n".join([*self.lines, "  }", "}", ""])

    def say(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def name(self) -> str:
        return f"%v{next(self.names)}"

    def type(self, buffer: str) -> str:
        b = self.program.buffers[buffer]
        if b.home not in TYPES:
            raise NotInStage(f"a buffer in {b.home} memory")
        home = "register" if b.home == "tensor" and self.target == "sm_90a" else b.home
        return TYPES[home] % b.depth

    def const(self, number: int) -> str:
        name = self.name()
        self.say(f"{name} = stage.const {{constant = {number} : i32}} : () -> (i32)")
        return name

    def arith(self, kind: str, *inputs: str, types: str = "i32, i32", result: str = "i32") -> str:
        name = self.name()
        self.say(f'{name} = stage.arith {", ".join(inputs)} {{kind = "{kind}"}} : ({types}) -> ({result})')
        return name

    # Roles and loops: `state` maps what a role carries to the value's name -------------------------------------------

    def role(self, role: Role, first: int) -> None:
        self.say(
            f'stage.role {{sym_name = "{role.name}", warps = {role.warps} : i32, '
            f"first_warp = {first} : i32, groups = 1 : i32}} do {{"
        )
        self.indent += "  "
        zero = self.const(0)
        state = dict.fromkeys(carried(self.program, role), zero)
        self.body(role, role.body, state)
        self.indent = self.indent[:-2]
        self.say("}")

    def body(self, role: Role, body: list[Statement], state: dict[str, str]) -> None:
        self.check_implied(body)
        for s in body:
            match s:
                case For():
                    self.loop(role, s, state)
                case If():
                    self.condition(role, s, state)
                case Op(name="step"):
                    self.step(s.counter, state)
                case Op(name="reset"):
                    zero = self.const(0)
                    state.update({k: zero for k in state if k.split(".")[0] == s.counter})
                case _:
                    self.op(role, s, state)

    def check_implied(self, body: list[Statement]) -> None:
        """What an operation of the stage level does in one, the program has to say in one."""
        names = [s.name if isinstance(s, Op) else "" for s in body]
        for before, after in (("wgmma", "wgmma_commit"), ("tld", "wait_ld")):
            if [n for n, x in enumerate(names) if x == before] != [n - 1 for n, x in enumerate(names) if x == after]:
                raise NotInStage(f"{before} apart from its {after}")

    def loop(self, role: Role, s: For, state: dict[str, str]) -> None:
        trips = f"%trips_{s.trips}"
        if s.by_counter:
            counter, modulus, more = s.by_counter
            rest = self.arith("mod", state[f"{counter}.count"], self.const(modulus))
            trips = self.arith("add", rest, self.const(more))
        elif s.trips.isdigit():
            trips = self.const(int(s.trips))
        lower, step, names = self.const(0), self.const(1), list(state)
        inside = {k: self.name() for k in names}
        outside = [self.name() for _ in names]
        types = ", ".join(["i32"] * len(names))
        operands = ", ".join([lower, trips, step, *state.values()])
        results = f"{', '.join(outside)} = " if names else ""
        self.say(
            f"{results}stage.for {operands} : ({', '.join(['i32'] * (3 + len(names)))}) -> ({types}) do {{"
        )
        arguments = [f"{self.name()}: i32", *(f"{inside[k]}: i32" for k in names)]
        self.say(f"^bb0({', '.join(arguments)}):")
        self.indent += "  "
        self.body(role, s.body, inside)
        self.give(inside)
        self.indent = self.indent[:-2]
        self.say("}")
        state.update(zip(names, outside, strict=True))

    def give(self, state: dict[str, str]) -> None:
        values = f" {', '.join(state.values())} : ({', '.join(['i32'] * len(state))})" if state else ""
        self.say(f"stage.yield{values}")

    def condition(self, role: Role, s: If, state: dict[str, str]) -> None:
        modulus, remainder = self.const(s.modulus), self.const(s.remainder)
        rest = self.arith("mod", state[f"{s.counter}.count"], modulus)
        yes = self.arith("eq", rest, remainder, result="i1")
        names = list(state)
        outside = [self.name() for _ in names]
        results = f"{', '.join(outside)} = " if names else ""
        self.say(f"{results}stage.if {yes} : (i1) -> ({', '.join(['i32'] * len(names))}) do {{")
        for n, block in enumerate((s.then, s.otherwise)):
            self.indent += "  "
            here = dict(state)
            self.body(role, block, here)
            self.give(here)
            self.indent = self.indent[:-2]
            self.say("}, {" if n == 0 else "}")
        state.update(zip(names, outside, strict=True))

    def step(self, counter: str, state: dict[str, str]) -> None:
        one = self.const(1)
        for key in state:
            owner, what, *depth = key.split(".")
            if owner != counter:
                continue
            if what == "count":
                state[key] = self.arith("add", state[key], one)
            elif what == "slot":
                zero = self.const(0)
                more, end = self.arith("add", state[key], one), self.const(int(depth[0]))
                wraps = self.arith("eq", more, end, result="i1")
                state[key] = self.arith("select", wraps, zero, more, types="i1, i32, i32")
                turned = self.arith("select", wraps, one, zero, types="i1, i32, i32")
                phase = f"{owner}.phase.{depth[0]}"
                state[phase] = self.arith("xor", state[phase], turned)

    def slot(self, e: Entry, state: dict[str, str]) -> str:
        if e.index.isdigit():
            return self.const(int(e.index))
        return state[f"{e.index}.slot.{depth_of(self.program, e)}"]

    def parity(self, e: Entry, state: dict[str, str], lag: bool) -> str:
        if e.index.isdigit():
            return self.const(int(lag))
        phase = state[f"{e.index}.phase.{depth_of(self.program, e)}"]
        return self.arith("xor", phase, self.const(1)) if lag else phase

    # Operations -------------------------------------------------------------------------------------------------------

    def op(self, role: Role, op: Op, state: dict[str, str]) -> None:
        if op.words & {"relaxed", "cluster", "gpu"}:
            raise NotInStage(f"{op.name} with {' '.join(sorted(op.words))}")
        say = getattr(self, f"say_{op.name}", None)
        if say is None:
            raise NotInStage(op.name)
        say(op, state, f'id = "{role.name}.{op.site}"')
        if op.name not in IMPLIED:
            self.sites.append(op.site)

    def only(self, op: Op, *by: str) -> None:
        if op.by not in by:
            raise NotInStage(f"{op.name} by {op.by}")

    def say_ld(self, op: Op, state: dict[str, str], _: str) -> None:
        self.only(op, "all")
        e = op.entries[0]
        self.say(
            f"{self.name()} = stage.load_shared %{e.name}, {self.slot(e, state)}, {self.const(0)} "
            f": ({self.type(e.name)}, i32, i32) -> ({FRAGMENT})"
        )

    def say_st(self, op: Op, state: dict[str, str], _: str) -> None:
        self.only(op, "all")
        e, number, wide, narrow = op.entries[0], self.name(), self.name(), self.name()
        self.say(f"{number} = stage.const {{constant = 1.0 : f32}} : () -> (f32)")
        self.say(f"{wide} = stage.fill {number} : (f32) -> ({WIDE})")
        self.say(f"{narrow} = stage.cast {wide} : ({WIDE}) -> ({FRAGMENT})")
        self.say(
            f"stage.store_shared {narrow}, %{e.name}, {self.slot(e, state)}, {self.const(0)} "
            f": ({FRAGMENT}, {self.type(e.name)}, i32, i32)"
        )

    def say_tma(self, op: Op, state: dict[str, str], _: str) -> None:
        a, m = op.entries
        if a.index != m.index or depth_of(self.program, a) != depth_of(self.program, m):
            raise NotInStage("a copy into one entry that signals another")
        zero = self.const(0)
        self.say(
            f"stage.tma_load %X, %{a.name}, {self.slot(a, state)}, {zero}, {zero}, %{m.name} "
            f"{{box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>}} : "
            f"({TENSOR}, {self.type(a.name)}, i32, i32, i32, !stage.mbarriers)"
        )

    def say_store(self, op: Op, state: dict[str, str], _: str) -> None:
        if len(op.entries) != 1:
            raise NotInStage("a store to a buffer in global memory")
        (a,) = op.entries
        zero = self.const(0)
        self.say(
            f"stage.tma_store %{a.name}, {self.slot(a, state)}, %Y, {zero}, {zero} "
            f"{{box = [128 : i32, 64 : i32]}} : ({self.type(a.name)}, i32, {TENSOR}, i32, i32)"
        )

    def say_bulk_commit(self, op: Op, state: dict[str, str], label: str) -> None:
        self.say(f"stage.bulk_commit {{{label}}}")

    def say_bulk_wait(self, op: Op, state: dict[str, str], label: str) -> None:
        self.only(op, "one")
        read = "read, " if "read" in op.words else ""
        self.say(f"stage.bulk_wait {{pending = {op.number} : i32, {read}{label}}}")

    def accumulator(self, e: Entry, state: dict[str, str]) -> str:
        name = self.name()
        self.say(
            f"{name} = stage.open %{e.name}, {self.slot(e, state)} : ({self.type(e.name)}, i32) -> ({ACCUMULATOR})"
        )
        return name

    def product(self, d: Entry, a: Entry, b: Entry, by: str, state: dict[str, str]) -> None:
        acc = self.accumulator(d, state)
        for e in (a, b):
            if self.program.buffers[e.name].home != "shared":
                raise NotInStage("an operand in tensor memory")
        self.say(
            f"{self.name()} = stage.mma {acc}, %{a.name}, {self.slot(a, state)}, %{b.name}, {self.slot(b, state)} "
            f"{{trans_a = 0 : i32, trans_b = 1 : i32{by}}} : ({ACCUMULATOR}, {self.type(a.name)}, i32, "
            f"{self.type(b.name)}, i32) -> ({ACCUMULATOR})"
        )

    def say_mma(self, op: Op, state: dict[str, str], _: str) -> None:
        d, a, *rest = op.entries
        self.product(d, a, rest[0] if rest else a, "", state)

    def say_commit(self, op: Op, state: dict[str, str], label: str) -> None:
        m = op.entries[0]
        self.say(
            f"stage.tcgen05_commit %{m.name}, {self.slot(m, state)} {{{label}}} : (!stage.mbarriers, i32)"
        )

    def say_wgmma(self, op: Op, state: dict[str, str], _: str) -> None:
        a, *rest = op.entries
        d = next(b.name for b in self.program.buffers.values() if b.home == "tensor")
        self.product(Entry(d, "0"), a, rest[0] if rest else a, ', by = "all"', state)

    def say_wgmma_commit(self, op: Op, state: dict[str, str], _: str) -> None:
        """Every product is a group of its own at the stage level."""

    def say_wgmma_wait(self, op: Op, state: dict[str, str], label: str) -> None:
        d = next(b.name for b in self.program.buffers.values() if b.home == "tensor")
        acc = self.accumulator(Entry(d, "0"), state)
        self.say(
            f"{self.name()} = stage.mma_wait {acc} {{pending = {op.number} : i32, {label}}} : ({ACCUMULATOR}) -> ({ACCUMULATOR})"
        )

    def say_tld(self, op: Op, state: dict[str, str], _: str) -> None:
        self.only(op, "all")
        acc = self.accumulator(op.entries[0], state)
        self.say(
            f"{self.name()} = stage.read_accumulator {acc}, {self.const(0)} {{row_block = 0 : i32}} "
            f": ({ACCUMULATOR}, i32) -> ({WIDE})"
        )

    def say_wait_ld(self, op: Op, state: dict[str, str], _: str) -> None:
        """`stage.read_accumulator` waits for what it read."""

    def say_before(self, op: Op, state: dict[str, str], label: str) -> None:
        self.say(
            f'stage.tcgen05_fence {{side = "{op.name}_thread_sync", {label}, by = "{op.by}"}}'
        )

    say_after = say_before

    def say_wait(self, op: Op, state: dict[str, str], label: str) -> None:
        m = op.entries[0]
        parity = self.parity(m, state, "lag" in op.words)
        self.say(
            f'stage.mbarrier_wait %{m.name}, {self.slot(m, state)}, {parity} {{by = "{op.by}", {label}}} '
            ": (!stage.mbarriers, i32, i32)"
        )

    def say_arrive(self, op: Op, state: dict[str, str], label: str) -> None:
        m = op.entries[0]
        self.say(
            f'stage.mbarrier_arrive %{m.name}, {self.slot(m, state)} {{by = "{op.by}", {label}}} '
            ": (!stage.mbarriers, i32)"
        )

    def say_expect(self, op: Op, state: dict[str, str], label: str) -> None:
        m = op.entries[0]
        self.say(
            f"stage.mbarrier_expect %{m.name}, {self.slot(m, state)} "
            f'{{bytes = {op.number * BYTES} : i32, by = "one", {label}}} : (!stage.mbarriers, i32)'
        )

    def say_fence(self, op: Op, state: dict[str, str], label: str) -> None:
        if op.space != "shared::cta":
            raise NotInStage(f"a fence of {op.space}")
        self.say(
            f'stage.proxy_fence {{space = "shared::cta", guards = [], {label}, by = "{op.by}"}}'
        )

    def say_sync(self, op: Op, state: dict[str, str], label: str) -> None:
        if op.number:
            raise NotInStage("a barrier of several roles")
        self.say(f"stage.role_barrier {{{label}}}")

    def say_warp_sync(self, op: Op, state: dict[str, str], label: str) -> None:
        self.say(f"stage.warp_sync {{{label}}}")


IMPLIED = {"wgmma_commit", "wait_ld"}
"""Operations that are part of the one before them."""


def depth_of(program: Program, e: Entry) -> int:
    return (program.buffers.get(e.name) or program.barriers[e.name]).depth


def carried(program: Program, role: Role) -> list[str]:
    """What a role counts: a slot and a phase for each counter and depth, and a count where a condition or loop asks."""
    keys: dict[str, None] = {}
    for op in walk(role.body):
        for e in op.entries:
            if not e.index.isdigit():
                depth = depth_of(program, e)
                keys[f"{e.index}.slot.{depth}"] = keys[f"{e.index}.phase.{depth}"] = None
    for s in nested(role.body):
        if isinstance(s, If):
            keys[f"{s.counter}.count"] = None
        if isinstance(s, For) and s.by_counter:
            keys[f"{s.by_counter[0]}.count"] = None
    return list(keys)


def without_numbers(text: str) -> str:
    """The text with every value's number gone, to compare shapes of programs."""
    return re.sub(r"%v\d+", "%v", text)
