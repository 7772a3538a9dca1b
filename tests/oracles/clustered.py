"""Random role programs of clusters of two CTAs: copies for both, slots that are filled and given back across CTAs,
cluster barriers, whole and in halves, among rings.

Every role runs in both CTAs, and has buffers and barriers in each; what one CTA does alone stands under `if rank`. As
in `wild`, a program need not be in order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from oracles.generate import CONSUMERS, FAULTS, Text
from oracles.roles import EACH, For, Op, Program, Statement, parse, walk
from oracles.wild import crowded_lines

WIDE = ("", " cluster", " cluster", " cluster")
BOTH = " @*"


def clustered(seed: int) -> tuple[Program, str]:
    rng = random.Random(seed)
    target = rng.choice(["sm_100a", "sm_90a"])
    t = _Cluster(rng, target)
    rng.choice([_shared_ring, _shared_ring, _met, _met, _passed_on, _global])(t)
    program = parse(t.whole())
    if rng.random() < 0.4:
        program = _with_barriers(rng, program)
    for _ in range(rng.choice([0, 0, 0, 1])):
        rng.choice(FAULTS)(rng, program)
    return parse("\n".join(crowded_lines(rng, program, target))), target


@dataclass
class _Cluster(Text):
    """A program in the making, whose roles, buffers and barriers are in each CTA."""

    wide: str = field(init=False)
    """What most arrivals and waits across CTAs say of their scope."""

    def __post_init__(self) -> None:
        self.wide = self.rng.choice(WIDE)

    def buffer(self, name: str, home: str, depth: int) -> None:
        self.declared.append(f"buffer {name} {home} {depth}{BOTH}")

    def barrier(self, name: str, depth: int, count: int) -> None:
        self.declared.append(f"barrier {name} {depth} {count}{BOTH}")

    def role(self, name: str, warps: int) -> None:
        super().role(name, warps)
        self.ctas[name] = BOTH.strip()

    def scope(self) -> str:
        return self.wide if self.rng.random() < 0.85 else self.rng.choice(WIDE)

    def reading(self, kind: str, ring: str) -> list[str]:
        """Lines that read an item that copies have filled, up to where nothing of it is under way but products."""
        match kind:
            case "mma":
                return [f"mma d[0] {ring}[i]"]
            case "store":
                return [f"store {ring}[i]", "bulk_commit", "bulk_wait 0 read"]
            case "wgmma":
                return [f"wgmma {ring}[i]", "wgmma_commit", "wgmma_wait 0"]
            case _:
                return [f"ld {ring}[i]", *["fence"] * (self.rng.random() < 0.9)]

    def given_back(
        self, kind: str, barrier: str, role: str, ways: list[str]
    ) -> tuple[list[str], int]:
        """Lines that give an item back to the CTAs that `ways` says, and how many arrivals of one CTA each gets."""
        if kind == "mma":
            return [f"commit {barrier}[i] {way}" for way in ways], 1
        if kind == "store":
            return [f"arrive {barrier}[i] one {way}{self.scope()}" for way in ways], 1
        [*before, arrive], count = self.arrival(role)
        line = arrive % (barrier, "i")
        return [*before, *(f"{line} {way}{self.scope()}" for way in ways)], int(count)

    def nest(self) -> list[str]:
        return self.rng.choice([["for K"], ["for K"], ["for 3"], ["for T", "for K"]])


def _by(kind: str) -> str:
    return "one" if kind in ("mma", "store") else "all"


def _shared_ring(t: _Cluster) -> None:
    """A ring that copies for both CTAs fill: one CTA's copies, or each CTA's of its half."""
    rng, depth = t.rng, t.rng.choice([1, 2, 2, 3])
    drained = rng.choice(CONSUMERS[t.target])
    halves = rng.random() < 0.4
    t.buffer("d", "tensor", 1)
    t.role("load", 1)
    t.role("use", t.warps_of(drained))
    own = rng.random() < 0.5  # a ring of each CTA's own beside
    wait = "wait f[i] " + _by(drained)
    reads = t.reading(drained, "b")
    if own:
        t.buffer("a", "shared", depth)
        reads = t.reading(drained, "a") + reads if drained != "mma" else ["mma d[0] a[i] b[i]"]
    copies = f"expect f[i] {1 + own}", *["tma a[i] f[i]"] * own
    if halves or rng.random() < 0.5:  # each CTA's barrier counts the readers of both
        ways = ["both"] if drained == "mma" else rng.sample(["at0", "at1"], 2)
        back, count = t.given_back(drained, "e", "use", ways)
        fill = [f"wait e[i] lag one{t.scope()}", *copies]
        alone = ["tma b[i] f[i] both"]
        if halves:
            fill, alone = [*fill, "tma b[i] f[i] both share"], []
        t.barrier("e", depth, 2 * count)
    else:  # the first CTA's counts the readers of both, each CTA's its own
        back, count = t.given_back(drained, "e", "use", [""])
        more, _ = t.given_back(drained, "g", "use", ["at0"])
        back += more
        fill = ["wait e[i] lag one", *copies]
        alone = [f"wait g[i] lag one{t.scope()}", "tma b[i] f[i] both"]
        t.barrier("e", depth, count)
        t.barrier("g", depth, 2 * count)
    t.buffer("b", "shared", depth)
    t.barrier("f", depth, 1)
    nest = t.nest()
    for name, body, under in (("load", fill, alone), ("use", [wait, *reads, *back], [])):
        for n, head in enumerate(nest):
            t.add(name, n, head)
        t.add(name, len(nest), *body)
        if under:
            t.add(name, len(nest), "if rank 2 0")
            t.add(name, len(nest) + 1, *under)
        t.add(name, len(nest), "step i")


def _met(t: _Cluster) -> None:
    """Slots that copies for both CTAs fill, given back by a cluster barrier, at once or an item later."""
    rng, depth = t.rng, t.rng.choice([1, 1, 2])
    drained = rng.choice(CONSUMERS[t.target])
    t.buffer("d", "tensor", 1)
    t.buffer("b", "shared", depth)
    t.barrier("f", depth, 1)
    t.role("load", 1)
    t.role("use", t.warps_of(drained))
    reads = [f"wait f[i] {_by(drained)}", *t.reading(drained, "b")]
    if drained == "mma":
        t.barrier("c", 1, 1)
        reads += ["commit c[j]", f"wait c[j] {rng.choice(['one', 'all'])}", "step j"]
    meeting = rng.choice(
        [["cluster_sync"], ["cluster_sync"], ["cluster_arrive", "cluster_wait"],
         ["cluster_arrive relaxed", "cluster_wait"], ["thread_fence cluster", "cluster_arrive relaxed", "cluster_wait"]]
    )  # fmt: skip
    split = len(meeting) == 2 and rng.random() < 0.5
    t.add("load", 0, "for K")
    t.add("load", 1, "expect f[i] 1")
    if rng.random() < 0.3:
        t.add("load", 1, "tma b[i] f[i] both share")
    else:
        t.add("load", 1, f"if rank 2 {rng.choice([0, 1])}")
        t.add("load", 2, "tma b[i] f[i] both")
    t.add("load", 1, *meeting, "step i")
    t.add("use", 0, "for K")
    t.add("use", 1, *reads)
    if split:  # something stands between the halves
        t.buffer("x", "shared", 1)
        t.add("use", 1, meeting[0], rng.choice(["ld x[0]", "st x[0]", "warp_sync"]), meeting[1])
    else:
        t.add("use", 1, *meeting)
    t.add("use", 1, "step i")


def _passed_on(t: _Cluster) -> None:
    """One CTA sends items to the other, whose threads give them back."""
    rng, depth = t.rng, t.rng.choice([1, 2, 2])
    filled, drained = rng.choice(["st", "tma"]), rng.choice(CONSUMERS[t.target])
    t.buffer("d", "tensor", 1)
    for name in ("a", "b"):
        t.buffer(name, "shared", depth)
    t.barrier("f", depth, 1)
    t.role("send", 1)
    t.role("use", t.warps_of(drained))
    sender = rng.choice([0, 1])
    back, count = t.given_back(drained, "e", "use", [f"at{sender}"])
    t.barrier("e", depth, count)
    by = "all" if filled == "st" else "one"
    fill = [f"wait e[i] lag {by}{t.scope()}", "st a[i]", "fence", "warp_sync"]
    if filled == "tma":
        t.barrier("h", depth, 1)
        fill = [fill[0], "expect h[i] 1", "tma a[i] h[i]", "wait h[i] one"]
    fill.append(f"copy b[i] a[i] f[i] {rng.choice(['peer', f'at{1 - sender}'])}")
    take = [
        "expect f[i] 1",
        f"wait f[i] {_by(drained)}{t.scope()}",
        *t.reading(drained, "b"),
        *back,
    ]
    for name, rank, body in (("send", sender, fill), ("use", 1 - sender, take)):
        t.add(name, 0, "for K")
        t.add(name, 1, f"if rank 2 {rank}")
        t.add(name, 2, *body)
        t.add(name, 1, "step i")


def _global(t: _Cluster) -> None:
    """What one CTA leaves in global memory the other reads behind a cluster barrier, or behind an arrival there."""
    rng = t.rng
    t.declared.append("buffer g global 1")
    t.role("one", rng.choice([1, 2]))
    t.role("two", 1)
    writer = rng.choice([0, 1])
    barrier = rng.random() < 0.5
    if not barrier:
        t.barrier("f", 1, 32 * t.warps["one"])
        t.barrier("e", 1, 32)
    told = f"arrive f[i] all at{1 - writer}{t.scope()}"
    taken = f"arrive e[i] all at{writer}{t.scope()}"
    sides = (
        ("one", writer, "e[i] lag", "st g[0]", told),
        ("two", 1 - writer, "f[i]", "ld g[0]", taken),
    )
    for name, rank, item, access, tell in sides:
        t.add(name, 0, "for K")
        t.add(name, 1, *["cluster_sync"] * (barrier and name == "two"), f"if rank 2 {rank}")
        if barrier:
            t.add(name, 2, access)
            t.add(name, 1, *["cluster_sync"] * (2 if name == "one" else 1))
        else:
            t.add(name, 2, f"wait {item} all{t.scope()}", access, tell)
        t.add(name, 1, "step i")


def _with_barriers(rng: random.Random, program: Program) -> Program:
    """One more cluster barrier of all roles, anywhere that is not under a condition, in a loop of each or before all."""
    deep = rng.random() < 0.6
    halves = rng.random() < 0.4
    for role in program.roles:
        assert role.cta == EACH
        body: list[Statement] = role.body
        while deep and (inner := next((s for s in body if isinstance(s, For)), None)) is not None:
            body = inner.body
        places = [n for n in range(len(body) + 1) if not _splits(body, n)]
        if not halves:
            body.insert(rng.choice(places), Op("cluster_sync"))
            continue
        first, second = sorted((rng.choice(places), rng.choice(places)))
        if any(op.name.startswith("cluster") for op in walk(body[first:second])):
            second = first
        words = frozenset({"relaxed"} if rng.random() < 0.3 else ())
        body.insert(second, Op("cluster_wait"))
        body.insert(first, Op("cluster_arrive", words=words))
    return parse(str(program))


def _splits(body: list[Statement], n: int) -> bool:
    """Whether something put there would come between two that belong together."""
    names = [s.name if isinstance(s, Op) else "" for s in body]
    halves = [name for name in names[:n] if name in ("cluster_arrive", "cluster_wait")]
    after = names[n] if n < len(names) else ""
    return halves[-1:] == ["cluster_arrive"] or after in ("wgmma_commit", "wait_ld")
