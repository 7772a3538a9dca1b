"""Asks oracle A about a straight-line role program: the same text, as a litmus test in which versions are values.

Two operations of the program touch one buffer of interest. A write stores 1 if it is the earlier one and 2 if it is the
later; the question is whether the later one always has its way. As in oracle B a warp is two threads; where both of
them write, each writes its own half, as the lanes of a warp write their own rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from oracles.litmus import Test, read_test
from oracles.roles import Op, Program, Role, walk

ACCESSES = {
    "ld": ("ld.weak", False), "st": ("st.weak", True), "tma": ("tma.st", True), "store": ("bulk.ld", False),
    "mma": ("mma.ld", False), "cp": ("mma.ld", False), "wgmma": ("wgmma.ld", False),
}  # fmt: skip


HALVES = ("x", "y")


class NotInA(Exception):
    """The program says something that oracle A does not model."""


def as_litmus(name: str, program: Program) -> Test:
    return _Asked(name, program).test()


@dataclass
class _Asked:
    name: str
    program: Program
    buffer: str = ""
    reads: dict[int, list[str]] = field(default_factory=dict)
    """Site of a read -> its registers."""

    def test(self) -> Test:
        p = self.program
        touched = [(e.name, op) for _, op in p.ops() if op.name in ACCESSES for e in op.entries]
        shared = Counter(n for n, _ in touched if n in p.buffers and p.buffers[n].home == "shared")
        self.buffer = next((n for n, times in shared.items() if times == 2), "")
        if not self.buffer:
            raise NotInA("no shared buffer with two accesses")
        self.sites = [op.site for n, op in touched if n == self.buffer]
        home = p.buffers[self.buffer].cta
        memory = [f"{half}=0@{home}" for half in HALVES]
        memory += [f"{b.name}=0@{b.cta}!" for b in p.barriers.values()]
        threads: list[str] = []
        for role in p.roles:
            for lane in range(1 + any(op.by == "all" for op in walk(role.body))):
                lines = [
                    x for op in walk(role.body) for x in self.say(role, op, len(threads), lane)
                ]
                threads.append(f"0.{role.cta}: " + "; ".join(lines))
        return read_test(
            self.name, " ".join(memory), "|".join(threads), "always " + self.question()
        )

    def question(self) -> str:
        first, second = self.sites
        if first in self.reads and second in self.reads:
            raise NotInA("two reads")
        if second in self.reads:
            return " and ".join(f"{r} == 1" for r in self.reads[second])
        if first in self.reads:
            return " and ".join(f"{r} == 0" for r in self.reads[first])
        return " and ".join(f"{half} == 2" for half in HALVES)

    def say(self, role: Role, op: Op, thread: int, lane: int) -> list[str]:
        if lane and op.by != "all":
            return []
        barrier = next((e.name for e in op.entries if e.name in self.program.barriers), "")
        if op.name in ACCESSES:
            return self.access(op, thread, lane, barrier)
        match op.name:
            case "arrive":
                sem = "relaxed" if "relaxed" in op.words else "release"
                return [f"atom.add.{sem}.{op.scope} _ {barrier} {31 if lane else 1}"]
            case "wait":
                sem = "relaxed" if "relaxed" in op.words else "acquire"
                count = self.program.barriers[barrier].count
                return [f"ld.{sem}.{op.scope} w {barrier}", f"need w == {count}"]
            case "commit":
                return [f"commit {barrier}"]
            case "bulk_wait" | "wgmma_wait" if not op.number and self.committed(role, op):
                family = op.name.split("_")[0]
                return [f"{family}.wait.read" if "read" in op.words else f"{family}.wait"]
            case "fence" if op.space.startswith("shared"):
                return ["fence.proxy.async"]
            case "thread_fence":
                return [f"fence.acq_rel.{op.scope}"]
            case "sync":
                return [f"bar.sync {op.number}"]
            case "warp_sync":
                return [f"bar.sync 99:{self.program.roles.index(role)}"]
            case "expect" | "bulk_commit" | "wgmma_commit":
                return []
            case _:
                raise NotInA(op.name)

    def committed(self, role: Role, wait: Op) -> bool:
        names = [o.name for o in walk(role.body) if o.site < wait.site]
        accesses = [i for i, n in enumerate(names) if n in ("store", "wgmma")]
        commits = [i for i, n in enumerate(names) if n.endswith("_commit")]
        return not accesses or (bool(commits) and commits[-1] > accesses[-1])

    def access(self, op: Op, thread: int, lane: int, barrier: str) -> list[str]:
        if all(e.name != self.buffer for e in op.entries):
            return []
        word, write = ACCESSES[op.name]
        if write:
            value = 1 + self.sites.index(op.site)
            if op.name == "tma":
                return [f"tma.st {','.join(HALVES)} {value} {barrier}"]
            mine = HALVES if op.by != "all" else HALVES[lane : lane + 1]
            return [f"{word} {half} {value}" for half in mine]
        if op.name == "wgmma" and lane:  # a warp's
            return []
        self.reads.setdefault(op.site, []).extend(f"{thread}:r{half}" for half in HALVES)
        return [f"{word} r{half} {half}" for half in HALVES]
