"""Role programs: what oracle B and the analysis are both asked about, as text and as a tree.

    buffer a shared 2            name, home (shared, tensor, global), depth; @1: that CTA's
    barrier full 2 1             name, depth, arrivals of a phase; @1 as above
    role load 1                  name, warps; @1: of CTA 1; @*: of both CTAs of a cluster, as are such buffers and barriers
      for K                      a name is a trip count that every role shares, a number itself; `t%3+1`: by counter t
        wait empty[i] lag        the phase before the i-th: free at first
        expect full[i] 1         one arrival, and so many copies to come
        tma a[i] full[i]
        step i                   the role's counter i goes on by one; entry = i mod depth, phase = i div depth
      if i 2 0                   where i mod 2 is 0; `else` may follow

`[i]` is a counter, `[0]` an entry (phase 0). OPERATIONS says which operations exist and who does them: every thread of
the role (`all`), lane 0 of each warp (`lane`) or thread 0 (`one`); a word at the end says otherwise. Arrivals are
counted as in PTX, so `arrive` by all of a warp is 32. `sync 0` is of the role, other numbers are of every role that has
them. `if rank 2 0` is of CTA 0. Of what both CTAs have, `at0`, `at1` and `peer` say whose barrier an operation signals (and
into whose memory `copy` goes); `both`: that of each, and a `tma` goes to the same entry of each, with `share` a half of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

OPERATIONS: dict[str, tuple[str, str]] = {
    # name: operands (B buffer entry, M barrier entry, N number), who does it unless the text says
    "ld": ("B", "all"),
    "st": ("B", "all"),
    "tma": ("BMB", "one"),
    "copy": ("BBM", "one"),
    "store": ("B", "one"),
    "bulk_commit": ("", "one"),
    "bulk_wait": ("N", "one"),
    "mma": ("BBB", "one"),
    "cp": ("BB", "one"),
    "commit": ("M", "one"),
    "wgmma": ("BB", "all"),
    "wgmma_commit": ("", "all"),
    "wgmma_wait": ("N", "all"),
    "tld": ("B", "all"),
    "tst": ("B", "all"),
    "wait_ld": ("", "all"),
    "wait_st": ("", "all"),
    "before": ("", "all"),
    "after": ("", "all"),
    "wait": ("M", "all"),
    "arrive": ("M", "all"),
    "expect": ("MN", "one"),
    "fence": ("", "all"),
    "fence_release": ("", "all"),
    "fence_acquire": ("", "one"),
    "thread_fence": ("", "all"),
    "sync": ("N", "all"),
    "warp_sync": ("", "all"),
    "cluster_arrive": ("", "all"),
    "cluster_wait": ("", "all"),
    "cluster_sync": ("", "all"),
    "cpasync": ("B", "all"),
    "cpasync_wait": ("", "all"),
    "cpasync_arrive": ("M", "all"),
    "step": ("C", "all"),
    "reset": ("C", "all"),
}
WORDS = {
    "one",
    "lane",
    "all",
    "lag",
    "relaxed",
    "cta",
    "cluster",
    "gpu",
    "read",
    "shared::cta",
    "shared::cluster",
    "global",
    "any",
    "at0",
    "at1",
    "peer",
    "both",
    "share",
}
EACH = -1
"""The CTA of what each CTA of a cluster of two has."""


@dataclass(frozen=True)
class Buffer:
    name: str
    home: str
    depth: int
    cta: int = 0


@dataclass(frozen=True)
class Barrier:
    name: str
    depth: int
    count: int
    cta: int = 0


@dataclass(frozen=True)
class Entry:
    """`name[index]`: a counter's name, or a number."""

    name: str
    index: str

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


@dataclass
class Op:
    """One operation; `site` numbers it within its program, in the order of the text."""

    name: str
    entries: tuple[Entry, ...] = ()
    number: int = 0
    counter: str = ""
    words: frozenset[str] = frozenset()
    site: int = -1

    @property
    def by(self) -> str:
        for word in ("one", "lane", "all"):
            if word in self.words:
                return word
        return OPERATIONS[self.name][1]

    @property
    def scope(self) -> str:
        return next((w for w in ("cluster", "gpu") if w in self.words), "cta")

    def targets(self, cta: int) -> tuple[int, ...]:
        """The CTAs whose barriers it signals, executed by a thread of one; the own one first."""
        if "both" in self.words:
            return cta, 1 - cta
        if "peer" in self.words:
            return (1 - cta,)
        return next(((n,) for n in (0, 1) if f"at{n}" in self.words), (cta,))

    @property
    def space(self) -> str:
        return next(
            (w for w in ("shared::cluster", "global", "any") if w in self.words), "shared::cta"
        )

    def __str__(self) -> str:
        kinds = OPERATIONS[self.name][0]
        parts = [self.name, *map(str, self.entries)]
        if "N" in kinds:
            parts.append(str(self.number))
        if kinds == "C":
            parts.append(self.counter)
        return " ".join([*parts, *sorted(self.words)])


@dataclass
class For:
    trips: str
    body: list[Statement]

    @property
    def by_counter(self) -> tuple[str, int, int] | None:
        """Counter, modulus and what is added, where the trips come from a counter."""
        m = re.fullmatch(r"(\w+)%(\d+)\+(\d+)", self.trips)
        return (m[1], int(m[2]), int(m[3])) if m else None


@dataclass
class If:
    counter: str
    modulus: int
    remainder: int
    then: list[Statement]
    otherwise: list[Statement] = field(default_factory=list)


Statement = Op | For | If


@dataclass
class Role:
    name: str
    warps: int
    cta: int
    body: list[Statement]


@dataclass
class Program:
    buffers: dict[str, Buffer]
    barriers: dict[str, Barrier]
    roles: list[Role]

    def ops(self) -> Iterator[tuple[Role, Op]]:
        for role in self.roles:
            for op in walk(role.body):
                yield role, op

    def number(self) -> Program:
        """Gives each operation its site."""
        for site, (_, op) in enumerate(self.ops()):
            op.site = site
        return self

    def symbols(self) -> list[str]:
        names = (s.trips for r in self.roles for s in nested(r.body) if isinstance(s, For))
        return sorted({n for n in names if n.isidentifier()})

    def ctas(self) -> int:
        return 1 + max(1 if r.cta == EACH else r.cta for r in self.roles)

    def __str__(self) -> str:
        def at(cta: int) -> str:
            return " @*" if cta == EACH else f" @{cta}" if cta else ""

        lines = [f"buffer {b.name} {b.home} {b.depth}{at(b.cta)}" for b in self.buffers.values()]
        lines += [
            f"barrier {b.name} {b.depth} {b.count}{at(b.cta)}" for b in self.barriers.values()
        ]
        for r in self.roles:
            lines.append(f"role {r.name} {r.warps}{at(r.cta)}")
            lines += printed(r.body, "  ")
        return "\n".join(lines) + "\n"


def nested(body: list[Statement]) -> Iterator[Statement]:
    for s in body:
        yield s
        for inner in blocks(s):
            yield from nested(inner)


def blocks(s: Statement) -> list[list[Statement]]:
    return [s.body] if isinstance(s, For) else [s.then, s.otherwise] if isinstance(s, If) else []


def walk(body: list[Statement]) -> Iterator[Op]:
    return (s for s in nested(body) if isinstance(s, Op))


def printed(body: list[Statement], indent: str) -> list[str]:
    lines: list[str] = []
    for s in body:
        match s:
            case Op():
                lines.append(f"{indent}{s}")
            case For():
                lines += [f"{indent}for {s.trips}", *printed(s.body, indent + "  ")]
            case If():
                lines.append(f"{indent}if {s.counter} {s.modulus} {s.remainder}")
                lines += printed(s.then, indent + "  ")
                if s.otherwise:
                    lines += [f"{indent}else", *printed(s.otherwise, indent + "  ")]
    return lines


# Reading -------------------------------------------------------------------------------------------------------------


def parse(text: str) -> Program:
    program = Program({}, {}, [])
    stack: list[tuple[int, list[Statement]]] = []
    for raw in text.splitlines():
        line = raw.split("#")[0].rstrip()
        if not line:
            continue
        depth = len(line) - len(line.lstrip())
        head, *words = line.split()
        at = words.pop()[1:] if words and words[-1].startswith("@") else "0"
        cta = EACH if at == "*" else int(at)
        if head == "buffer":
            program.buffers[words[0]] = Buffer(words[0], words[1], int(words[2]), cta)
        elif head == "barrier":
            program.barriers[words[0]] = Barrier(words[0], int(words[1]), int(words[2]), cta)
        elif head == "role":
            role = Role(words[0], int(words[1]), cta, [])
            program.roles.append(role)
            stack = [(depth, role.body)]
        else:
            while stack[-1][0] >= depth:
                stack.pop()
            body = stack[-1][1]
            match head:
                case "for":
                    loop = For(words[0], [])
                    body.append(loop)
                    stack.append((depth, loop.body))
                case "if":
                    test = If(words[0], int(words[1]), int(words[2]), [])
                    body.append(test)
                    stack.append((depth, test.then))
                case "else":
                    last = body[-1]
                    assert isinstance(last, If)
                    stack.append((depth, last.otherwise))
                case _:
                    body.append(parse_op(program, head, words))
    return program.number()


def parse_op(program: Program, head: str, words: list[str]) -> Op:
    kinds = OPERATIONS[head][0]
    op = Op(head)
    entries: list[Entry] = []
    for word in words:
        if m := re.fullmatch(r"(\w+)\[(\w+)\]", word):
            entries.append(Entry(m[1], m[2]))
        elif "N" in kinds and word.isdigit():
            op.number = int(word)
        elif kinds == "C" and not op.counter:
            op.counter = word
        else:
            assert word in WORDS, f"{head}: no word {word!r}"
            op.words |= {word}
    op.entries = tuple(entries)
    for kind, e in zip(kinds, entries, strict=False):
        assert e.name in (program.buffers if kind == "B" else program.barriers), f"{head} {e}"
    return op
