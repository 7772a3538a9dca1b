"""Random role programs: pipelines as people write them, with up to three roles and two rings, and up to two faults
in them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from oracles.roles import For, If, Op, Program, Role, Statement, blocks, nested, parse

PRODUCERS = ("tma", "st")
CONSUMERS = {"sm_100a": ("mma", "ld", "store", "mma"), "sm_90a": ("wgmma", "ld", "store", "wgmma")}


def generate(seed: int, faults: int | None = None) -> tuple[Program, str]:
    """A program and its target, the same for the same seed; with so many faults, or a few at random."""
    rng = random.Random(seed)
    target = rng.choice(["sm_100a", "sm_100a", "sm_90a"])
    shapes = (
        [ring, ring, chain, tiles, tiles, epilogue, pair]
        if target == "sm_100a"
        else [ring, ring, chain, epilogue]
    )
    text = Text(rng, target)
    rng.choice(shapes)(text)
    program = parse(text.whole())
    for _ in range(rng.choice([0, 1, 1, 1, 2]) if faults is None else faults):
        rng.choice(FAULTS)(rng, program)
    return parse(str(program)), target


def trips(program: Program, brief: bool = False) -> list[dict[str, int]]:
    """Trip counts to try: round the depths of the rings, and far enough to come round twice (S1: of nests, depth +
    2 tiles).

    `brief`: only none, one ring's depth, and twice round.
    """
    symbols = program.symbols()
    most = max(b.depth for b in (*program.buffers.values(), *program.barriers.values()))
    if symbols == ["K", "T"]:
        inner = (0, most, most + 1) if brief else range(most + 2)
        return [{"T": t, "K": k} for t in ((most + 2,) if brief else (1, most + 2)) for k in inner]
    counts = (0, 1, most + 1, 2 * most + 2) if brief else (*range(most + 2), 2 * most + 2)
    return [{symbol: n} for symbol in symbols for n in counts] or [{}]


# Correct programs ----------------------------------------------------------------------------------------------------


@dataclass
class Text:
    """A program in the making: declarations, and the lines of each role."""

    rng: random.Random
    target: str
    declared: list[str] = field(default_factory=list)
    roles: dict[str, list[str]] = field(default_factory=dict)
    warps: dict[str, int] = field(default_factory=dict)
    ctas: dict[str, str] = field(default_factory=dict)

    def whole(self) -> str:
        lines = list(self.declared)
        for name, body in self.roles.items():
            lines += [f"role {name} {self.warps[name]} {self.ctas.get(name, '')}", *body]
        return "\n".join(lines)

    def role(self, name: str, warps: int) -> None:
        self.roles[name], self.warps[name] = [], warps

    def add(self, role: str, depth: int, *lines: str) -> None:
        self.roles[role] += ["  " * (depth + 1) + line for line in lines]

    # One item of a ring: what its producer and its consumer say

    def buffer(self, name: str, home: str, depth: int) -> None:
        self.declared.append(f"buffer {name} {home} {depth}")

    def barrier(self, name: str, depth: int, count: int) -> None:
        self.declared.append(f"barrier {name} {depth} {count}")

    def arrival(self, role: str) -> tuple[list[str], str]:
        """Lines in which all threads of a role have arrived, but for the barrier's name, and the count."""
        warps = self.warps[role]
        ways = [([], "all", 32 * warps), (["warp_sync"], "lane", warps)]
        if warps == 1:
            ways.append((["warp_sync"], "one", 1))
        else:
            ways.append((["sync 0"], "one", 1))
        before, by, count = self.rng.choice(ways)
        return [*before, f"arrive %s[%s] {by}"], str(count)

    def fill(self, role: str, kind: str, ring: str, index: str, asks: str) -> tuple[list[str], int]:
        """Lines that fill one item, and how many arrivals it takes. `asks`: the index with which it waits."""
        by = "all" if kind == "st" else "one"
        wait = f"wait {ring}e[{asks}] lag {by}"
        if kind == "tma":
            return [wait, f"expect {ring}f[{index}] 1", f"tma {ring}[{index}] {ring}f[{index}]"], 1
        arrive, count = self.arrival(role)
        lines = [wait, "fence" if self.rng.random() < 0.5 else "", f"st {ring}[{index}]", "fence"]
        lines += [line % (f"{ring}f", index) if "%s" in line else line for line in arrive]
        return [line for line in lines if line], int(count)

    def drain(
        self, role: str, kind: str, ring: str, index: str, filled: str
    ) -> tuple[list[str], int]:
        by = "one" if kind in ("mma", "store") else "all"
        wait = f"wait {ring}f[{index}] {by}"
        late = filled == "st" and kind != "ld" and self.rng.random() < 0.4
        lines = [wait, f"fence {by}" if late else ""]
        match kind:
            case "mma":
                lines += [f"mma d[0] {ring}[{index}]", f"commit {ring}e[{index}]"]
                return [line for line in lines if line], 1
            case "store":
                lines += [
                    f"store {ring}[{index}]",
                    "bulk_commit",
                    "bulk_wait 0 read",
                    f"arrive {ring}e[{index}] one",
                ]
                return [line for line in lines if line], 1
            case "wgmma":
                lines += [f"wgmma {ring}[{index}]", "wgmma_commit", "wgmma_wait 0"]
            case _:
                lines += [f"ld {ring}[{index}]"]
                if filled == "tma" or self.rng.random() < 0.5:
                    lines.append("fence")
        arrive, count = self.arrival(role)
        lines += [line % (f"{ring}e", index) if "%s" in line else line for line in arrive]
        return [line for line in lines if line], int(count)

    def warps_of(self, kind: str) -> int:
        return 4 if kind == "wgmma" else self.rng.choice([1, 1, 2])

    def pipe(
        self, ring: str, producer: str, consumer: str, filled: str, drained: str, counter: str
    ) -> tuple[list[str], list[str]]:
        depth = self.rng.choice([1, 2, 2, 2, 3])
        fill, full = self.fill(producer, filled, ring, counter, counter)
        drain, empty = self.drain(consumer, drained, ring, counter, filled)
        self.buffer(ring, "shared", depth)
        self.barrier(f"{ring}f", depth, full)
        self.barrier(f"{ring}e", depth, empty)
        return fill, drain


def ring(t: Text) -> None:
    """One ring, one loop."""
    filled, drained = t.rng.choice(PRODUCERS), t.rng.choice(CONSUMERS[t.target])
    t.buffer("d", "tensor", 1)
    t.role("load", t.warps_of(filled))
    t.role("use", t.warps_of(drained))
    fill, drain = t.pipe("a", "load", "use", filled, drained, "i")
    nest = t.rng.choice(
        [["for K"], ["for K"], ["for T", "for K"], ["for T", "for t%3+0"], ["for 3"]]
    )
    for role, lines in (("load", fill), ("use", drain)):
        for n, head in enumerate(nest):
            t.add(role, n, head)
        depth = len(nest)
        part = "t%" in nest[-1]
        t.add(role, depth, *lines, "step i")
        if part:
            t.add(role, 1, "step t")
    if t.rng.random() < 0.3 and len(nest) == 2:
        beside(t, filled)


def beside(t: Text, filled: str) -> None:
    """A buffer filled once a tile before the inner loop and read once a tile, guarded by the inner ring alone (S1)."""
    t.buffer("x", "shared", 1)
    t.roles["load"].insert(1, "    st x[0]")
    where = t.rng.choice([1, len(t.roles["use"])])
    t.roles["use"].insert(where, "    ld x[0]")


def chain(t: Text) -> None:
    """Two rings: the middle role takes from one and fills the other."""
    filled = t.rng.choice(PRODUCERS)
    t.buffer("d", "tensor", 1)
    drained = t.rng.choice(CONSUMERS[t.target])
    t.role("load", t.warps_of(filled))
    t.role("change", t.rng.choice([1, 2]))
    t.role("use", t.warps_of(drained))
    fill, take = t.pipe("a", "load", "change", filled, "ld", "i")
    give, drain = t.pipe("b", "change", "use", "st", drained, "j")
    for role in t.roles:
        t.add(role, 0, "for K")
    t.add("load", 1, *fill, "step i")
    t.add("change", 1, *take, "step i", *give, "step j")
    t.add("use", 1, *drain, "step j")


def tiles(t: Text) -> None:
    """Tiles of products: a ring of operands in the inner loop, a ring of accumulators in the outer one."""
    filled = t.rng.choice(PRODUCERS)
    t.role("load", t.warps_of(filled))
    t.role("math", 1)
    t.role("read", t.rng.choice([1, 4]))
    fill, drain = t.pipe("a", "load", "math", filled, "mma", "i")
    depth = t.rng.choice([1, 2])
    arrive, count = t.arrival("read")
    t.buffer("d", "tensor", depth)
    t.barrier("df", depth, 1)
    t.barrier("de", depth, int(count))
    drain = [line.replace("d[0]", "d[t]") for line in drain]
    inner = t.rng.choice(["for K", "for K", "for t%3+1", "for t%3+0"])
    late = t.rng.random() < 0.3
    t.add("load", 0, "for T")
    t.add("load", 1, inner)
    t.add("load", 2, *fill, "step i")
    t.add("load", 1, "step t")
    t.add("math", 0, "for T")
    t.add("math", 1, "wait de[t] lag one", inner)
    t.add("math", 2, *drain, "step i")
    t.add("math", 1, "commit df[t]", "step t")
    t.add("read", 0, "for T")
    fences = t.rng.random() < 0.5
    t.add("read", 1, "wait df[t]", *["after"] * fences, "tld d[t]", "wait_ld", *["before"] * fences)
    t.add("read", 1, *[line % ("de", "t") if "%s" in line else line for line in arrive])
    if late:
        t.buffer("x", "shared", 1)
        t.add("read", 1, *staging(t, "x[0]", 0))
    t.add("read", 1, "step t")


def pair(t: Text) -> None:
    """Two CTAs fill their halves, one multiplies both: by copies, or by stores of the other CTA."""
    depth = t.rng.choice([1, 2, 2])
    filled = t.rng.choice(["tma", "tma", "st"])
    wide = "cluster" if filled == "st" or t.rng.random() < 0.5 else ""
    for name in ("a", "r"):
        t.declared.append(f"buffer {name} shared {depth}{' @1' * (name == 'r')}")
    t.buffer("d", "tensor", 1)
    t.barrier("f", depth, 2)
    t.barrier("e", depth, 1)
    t.declared.append(f"barrier n {depth} 1 @1")
    for name in ("load", "peer", "math"):
        t.role(name, 1)
        t.add(name, 0, "for K")
    t.ctas["peer"] = "@1"
    t.add("load", 1, "wait e[i] lag one", "expect f[i] 1", "tma a[i] f[i]", "step i")
    if filled == "tma":
        t.add("peer", 1, f"wait n[i] lag one {wide}", "expect f[i] 1", "tma r[i] f[i]", "step i")
    else:
        t.add("peer", 1, f"wait n[i] lag all {wide}", "st r[i]", "fence", "warp_sync")
        t.add("peer", 1, f"arrive f[i] one {wide}", "step i")
    t.add(
        "math",
        1,
        f"wait f[i] one {wide}",
        "mma d[0] a[i] r[i]",
        "commit e[i]",
        "commit n[i]",
        "step i",
    )


def conditional(seed: int) -> tuple[Program, str]:
    """A ring whose items come in some turns, in one branch or in both, in one statement or in two after another; mostly
    with a fault, or with roles that do not say the same."""
    rng = random.Random(seed)
    target = rng.choice(["sm_100a", "sm_90a"])
    t = Text(rng, target)
    filled, drained = rng.choice(PRODUCERS), rng.choice(CONSUMERS[target])
    t.buffer("d", "tensor", 1)
    t.role("load", t.warps_of(filled))
    t.role("use", t.warps_of(drained))
    fill, drain = t.pipe("a", "load", "use", filled, drained, "i")
    tests = [(rng.choice([1, 2, 2, 3, 9, 11]), rng.randrange(3)) for _ in range(2)]
    form = rng.choice(["one", "both", "two", "nested", "beside"])
    for role, lines in (("load", fill), ("use", drain)):
        t.add(role, 0, "for K")
        if rng.random() < 0.1:
            tests[0] = (tests[0][0], tests[0][1] + 1)
        first, second = (f"if c {m} {min(r, m - 1)}" for m, r in tests)
        more = [*lines, "step i"]
        t.add(role, 1, first)
        t.add(role, 2, *(more if form != "nested" else [second]))
        if form == "nested":
            t.add(role, 3, *more)
        if form == "both":
            t.add(role, 1, "else")
            t.add(role, 2, *more)
        if form == "two":
            t.add(role, 1, second)
            t.add(role, 2, *more)
        if form == "beside":
            t.add(role, 1, *more)
        t.add(role, 1, "step c")
    program = parse(t.whole())
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        rng.choice(FAULTS)(rng, program)
    return parse(str(program)), target


def staging(t: Text, entry: str, pending: int) -> list[str]:
    """A buffer that the role fills and the copy engine drains."""
    return [
        f"bulk_wait {pending} read", "sync 0", f"st {entry}", "fence", "sync 0", f"store {entry}", "bulk_commit",
    ]  # fmt: skip


def epilogue(t: Text) -> None:
    """One ring whose consumer stages what it read for a store."""
    filled = t.rng.choice(PRODUCERS)
    drained = "ld" if t.target == "sm_100a" else t.rng.choice(["ld", "wgmma"])
    t.buffer("d", "tensor", 1)
    t.role("load", t.warps_of(filled))
    t.role("use", t.warps_of(drained))
    fill, drain = t.pipe("a", "load", "use", filled, drained, "i")
    depth = t.rng.choice([1, 2])
    t.buffer("x", "shared", depth)
    entry = "x[s]" if depth == 2 else "x[0]"
    t.add("load", 0, "for K")
    t.add("load", 1, *fill, "step i")
    t.add("use", 0, "for K")
    t.add("use", 1, *drain, "step i", *staging(t, entry, depth - 1), *["step s"] * (depth == 2))
    t.add("use", 0, "bulk_wait 0")


# Faults --------------------------------------------------------------------------------------------------------------


def lists(program: Program) -> list[tuple[Role, list[Statement]]]:
    found: list[tuple[Role, list[Statement]]] = []

    def go(role: Role, body: list[Statement]) -> None:
        found.append((role, body))
        for s in body:
            for inner in blocks(s):
                go(role, inner)

    for role in program.roles:
        go(role, role.body)
    return [(r, b) for r, b in found if b]


def pick(
    rng: random.Random, program: Program, wanted: Callable[[Op], bool]
) -> tuple[list[Statement], int] | None:
    places = [
        (body, n) for _, body in lists(program) for n, s in enumerate(body) if isinstance(s, Op) and wanted(s)
    ]  # fmt: skip
    return rng.choice(places) if places else None


def drop(rng: random.Random, program: Program) -> None:
    """Leaves out an operation."""
    if place := pick(rng, program, lambda op: True):
        del place[0][place[1]]


def drop_fence(rng: random.Random, program: Program) -> None:
    if place := pick(rng, program, lambda op: op.name in ("fence", "warp_sync", "sync")):
        del place[0][place[1]]


def swap(rng: random.Random, program: Program) -> None:
    """Two neighbours change places."""
    bodies = [b for _, b in lists(program) if len(b) > 1]
    if bodies:
        body = rng.choice(bodies)
        n = rng.randrange(len(body) - 1)
        body[n], body[n + 1] = body[n + 1], body[n]


def repeat(rng: random.Random, program: Program) -> None:
    """An access or fence stands twice."""
    if place := pick(
        rng, program, lambda op: op.name in ("ld", "st", "fence", "store", "mma", "wgmma", "sync")
    ):
        place[0].insert(rng.randrange(len(place[0]) + 1), copy.deepcopy(place[0][place[1]]))


def change_by(rng: random.Random, program: Program) -> None:
    """A fence, wait or arrival by other threads."""
    if place := pick(rng, program, lambda op: op.name in ("fence", "wait", "arrive")):
        op = place[0][place[1]]
        assert isinstance(op, Op)
        ways = ("one", "lane", "all") if op.name == "arrive" else ("one", "all")
        op.words = op.words - {"one", "lane", "all"} | {rng.choice(ways)}


def change_scope(rng: random.Random, program: Program) -> None:
    if program.ctas() > 1 and (
        place := pick(rng, program, lambda op: op.name in ("wait", "arrive"))
    ):
        op = place[0][place[1]]
        assert isinstance(op, Op)
        op.words = op.words ^ {"cluster"}


def change_lag(rng: random.Random, program: Program) -> None:
    if place := pick(rng, program, lambda op: op.name == "wait"):
        op = place[0][place[1]]
        assert isinstance(op, Op)
        op.words = op.words ^ {"lag"}


def change_group(rng: random.Random, program: Program) -> None:
    if place := pick(rng, program, lambda op: op.name in ("bulk_wait", "wgmma_wait")):
        op = place[0][place[1]]
        assert isinstance(op, Op)
        op.number = rng.choice([0, 1, 2])
        if op.name == "bulk_wait" and rng.random() < 0.3:
            op.words = op.words ^ {"read"}


def change_count(rng: random.Random, program: Program) -> None:
    if not program.barriers:
        return
    name = rng.choice(list(program.barriers))
    b = program.barriers[name]
    program.barriers[name] = type(b)(b.name, b.depth, max(1, b.count + rng.choice([-1, 1])), b.cta)


def change_depth(rng: random.Random, program: Program) -> None:
    """A buffer with fewer or more entries than its barriers."""
    name = rng.choice(list(program.buffers))
    b = program.buffers[name]
    program.buffers[name] = type(b)(b.name, b.home, max(1, b.depth + rng.choice([-1, 1])), b.cta)


def make_conditional(rng: random.Random, program: Program) -> None:
    """The same condition round the inner body of every role."""
    counters = {
        s.counter for r in program.roles for s in nested(r.body) if isinstance(s, Op) and s.counter
    }
    if not counters:
        return
    chosen = rng.choice(sorted(counters))
    every = rng.random() < 0.7
    for role in program.roles:
        for s in list(nested(role.body)):
            if isinstance(s, For) and any(
                isinstance(o, Op) and o.counter == chosen for o in s.body
            ):
                body = [o for o in s.body if isinstance(o, Op) and not o.counter]
                rest = [o for o in s.body if o not in body]
                if (
                    body
                    and len(body) + len(rest) == len(s.body)
                    and all(isinstance(o, Op) for o in rest)
                ):
                    s.body[:] = [If("n", 2, 0, [*s.body]), Op("step", counter="n")]
        if not every:
            return


FAULTS: tuple[Callable[[random.Random, Program], None], ...] = (
    drop, drop, drop, drop_fence, drop_fence, swap, swap, repeat, change_by, change_by, change_scope, change_lag,
    change_group, change_count, change_depth, make_conditional,
)  # fmt: skip
