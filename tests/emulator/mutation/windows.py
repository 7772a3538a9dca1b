"""Whether a barrier of a CTA orders anything that the barriers round it do not: from the text alone.

The window of a barrier is what stands on some way between it and the next barrier like it, before and after. Where no
statement of the one window can conflict with one of the other, the barrier is redundant. This is careful: places are
not compared, and fences, waits and arrivals count as accesses of everything. Needs the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from emulator.mutation.mutants import EFFECT

ALL = frozenset({"shared", "global", "tensor", "object"})
Access = tuple[frozenset[str], frozenset[str]]
"""The spaces that a statement reads, and those that it writes. An mbarrier is an `object`, written where it is made, and
has phases: a wait reads `phase`, an arrival of the next one, which may not come before that, writes it."""
NOTHING: Access = (frozenset(), frozenset())
WILD: Access = (ALL | {"phase"}, ALL | {"phase"})

_SHARED, _GLOBAL = frozenset({"shared"}), frozenset({"global"})
_TENSOR, _OBJECT, _PHASE = frozenset({"tensor"}), frozenset({"object"}), frozenset({"phase"})
_NONE: frozenset[str] = frozenset()
WAIT: Access = (_OBJECT | _PHASE, _NONE)
"""A wait for an mbarrier by every thread that comes to the barrier: each knows by itself what it was told."""

ACCESSES: tuple[tuple[str, Access], ...] = (
    (r"ld\.param|st\.param|bar\.|barrier\.cta|elect|setmaxnreg|prefetch|griddepcontrol\.launch", NOTHING),
    (r"cp\.async\.(bulk\.)?(commit_group|prefetch)|tcgen05\.relinquish|wgmma\.(fence|commit)", NOTHING),
    (r"ld\.shared|ldmatrix|wmma\.load\S*shared|wgmma\.mma_async", (_SHARED, _NONE)),
    (r"st\.shared|stmatrix|wmma\.store\S*shared", (_NONE, _SHARED)),
    (r"(atom|red)\S*\.shared", (_SHARED, _SHARED)),
    (r"ld\.(volatile\.|relaxed\.\w+\.)?global|ldu|ld\.const", (_GLOBAL, _NONE)),
    (r"st\.global", (_NONE, _GLOBAL)),
    (r"(atom|red)\S*\.global", WILD),
    (r"cp\.async\.bulk\S*\.global\.shared::cta|cp\.reduce", (_SHARED, _GLOBAL)),
    (r"cp\.async\.bulk\S*shared::\w+\.global", (_GLOBAL | _OBJECT, _SHARED | _PHASE)),
    (r"cp\.async\.c[ag]", (_GLOBAL, _SHARED)),
    (r"mbarrier\.(init|inval)", (_NONE, _OBJECT)),
    (r"mbarrier\.arrive\.expect_tx", (_OBJECT, _PHASE)),
    (r"tcgen05\.ld", (_TENSOR, _NONE)),
    (r"tcgen05\.st", (_NONE, _TENSOR)),
    (r"tcgen05\.mma", (_TENSOR | _SHARED, _TENSOR)),
    (r"tcgen05\.cp", (_SHARED, _TENSOR)),
    (r"tcgen05\.alloc", (_NONE, _TENSOR | _SHARED)),
    (r"tcgen05\.(dealloc|shift)", (_NONE, _TENSOR)),
    # A wait for groups of the thread stands for the accesses that it completes: an arrival after it hands them on.
    (r"tcgen05\.wait::ld", (_TENSOR, _NONE)),
    (r"tcgen05\.wait::st", (_NONE, _TENSOR)),
    (r"wgmma\.wait_group", (_SHARED, _NONE)),
    (r"cp\.async\.bulk\.wait_group", (_SHARED, _GLOBAL)),
    (r"cp\.async\.wait", (_GLOBAL, _SHARED)),
    (r"(ld|st|atom|red|cp|mbarrier|barrier|fence|membar|tcgen05|wgmma|wmma|tensormap|call|griddepcontrol|"
     r"clusterlaunchcontrol|multimem|discard|trap)\b", WILD),
)  # fmt: skip
"""What a statement whose beginning matches touches: the first row that fits counts; others touch registers alone."""

_STATEMENT = re.compile(r"^\s*(?:\{\s*)?(?:(\$?\w+):\s*)?(@!?%?\w+\s+)?([a-z][\w.:]*)\s*(.*)$")


class Statement:
    """A line: its label, guard, mnemonic and operands, and what it touches."""

    __slots__ = ("access", "guard", "label", "mnemonic", "operands")

    def __init__(self, line: str) -> None:
        found = _STATEMENT.match(line.split("//")[0])
        label = re.match(r"^\s*(\$?\w+):", line)
        self.label = label.group(1) if label else ""
        self.guard = (found.group(2) or "").strip() if found else ""
        self.mnemonic = found.group(3) if found else ""
        self.operands = re.sub(r"\s+", " ", found.group(4)).rstrip("; }") if found else ""
        self.access = _access(self.mnemonic)

    @property
    def barrier(self) -> str:
        """What a barrier of a CTA that all come to is called; empty for other statements."""
        if self.guard or not re.match(r"(bar|barrier(\.cta)?)\.sync\b", self.mnemonic):
            return ""
        return "" if "%" in self.operands else self.operands


@lru_cache(maxsize=4096)
def _access(mnemonic: str) -> Access:
    for pattern, access in ACCESSES:
        if re.match(pattern, mnemonic):
            return access
    return NOTHING


class Text:
    """The statements of a text, and which lines may follow and come before each."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.statements = [Statement(line) for line in lines]
        places: dict[str, list[int]] = {}
        for at, statement in enumerate(self.statements):
            if statement.label:
                places.setdefault(statement.label, []).append(at)
        self.after: list[list[int]] = []
        self.before: list[list[int]] = [[] for _ in lines]
        for at, statement in enumerate(self.statements):
            self.after.append(list(self._following(at, statement, places)))
        for at, following in enumerate(self.after):
            for place in following:
                self.before[place].append(at)

    def _following(
        self, at: int, statement: Statement, places: dict[str, list[int]]
    ) -> Iterator[int]:
        name = statement.mnemonic
        ends = name in ("ret", "exit", "trap") and not statement.guard
        jumps = name.startswith("bra") and not statement.guard
        if not (ends or jumps) and at + 1 < len(self.statements):
            yield at + 1
        if name.startswith("bra"):
            label = statement.operands.split(",")[0].strip()
            # Of labels of one name in several scopes, the nearest.
            yield from sorted(places.get(label, []), key=lambda place: abs(place - at))[:1]
        elif name.startswith("brx"):
            yield from (place for found in places.values() for place in found)

    def window(self, at: int, forward: bool) -> list[int]:
        """The lines that touch something between line `at` and the next barrier like it, on any way."""
        return [n for n in self._reach(at, forward) if self.statements[n].access != NOTHING]

    def _reach(self, at: int, forward: bool, without: int = -1) -> set[int]:
        name = self.statements[at].barrier
        edges = self.after if forward else self.before
        todo, seen = list(edges[at]), {without}
        while todo:
            here = todo.pop()
            if here in seen:
                continue
            seen.add(here)
            if here != at and self.statements[here].barrier != name:
                todo += edges[here]
        return seen - {without, at}

    def until(self, at: int, forward: bool, last: Callable[[Statement], bool]) -> set[int]:
        """The lines on every way from line `at` up to the first statements that are the `last` of theirs."""
        edges = self.after if forward else self.before
        todo, seen = list(edges[at]), {at}
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += [] if last(self.statements[here]) else edges[here]
        return seen - {at}

    def by_all(self, at: int, wait: int) -> bool:
        """Whether every thread that comes to barrier `at` has gone through a wait since the barrier before."""
        if self.statements[wait].guard:
            return False
        name = self.statements[at].barrier
        return not any(
            self.statements[n].barrier == name or not self.before[n]
            for n in (*self._reach(at, False, wait), *([at] if at in self.before[at] else []))
        )

    def access(self, line: int, at: int) -> Access:
        """What a statement in the window before barrier `at` touches."""
        statement = self.statements[line]
        if re.match(r"mbarrier\.(try|test)_wait", statement.mnemonic) and self.by_all(at, line):
            return WAIT
        return statement.access

    def same_thread(self, first: int, second: int) -> bool:
        """Whether both are done by one thread, the same: that a predicate names which is set once."""
        guard = self.statements[first].guard
        return (
            bool(guard) and guard == self.statements[second].guard and self._elected(guard[1:], 3)
        )

    def _elected(self, predicate: str, depth: int) -> bool:
        written = [
            s
            for s in self.statements
            if re.match(rf"([%\w]+\|)?{re.escape(predicate)}\b", s.operands)
        ]
        written = [s for s in written if not s.mnemonic.startswith(("bra", "st", "ld", "selp"))]
        if len(written) != 1 or not depth:
            return False
        statement = written[0]
        if statement.mnemonic.startswith("elect"):
            return True
        if statement.mnemonic.startswith("and.pred"):
            return any(
                self._elected(p.strip(), depth - 1) for p in statement.operands.split(",")[1:]
            )
        return False


def conflict(first: Access, second: Access) -> bool:
    """Whether a statement and a later one may touch the same with a write; two that only synchronise do not."""
    if first == WILD and second == WILD:
        return False
    told = (first[1] - _PHASE) & (second[0] | second[1])
    return bool(told or first[0] & second[1])


@lru_cache(maxsize=8)
def _text(lines: tuple[str, ...]) -> Text:
    return Text(lines)


def redundant(lines: tuple[str, ...], line: int, over: str = "") -> bool:
    """Whether the barrier of a line (from 1) orders nothing that its neighbours do not; or nothing more than it still
    does before the statement `over`, which it is moved over."""
    text = _text(lines)
    at = line - 1
    if not text.statements[at].barrier:
        return False
    after = text.window(at, True)
    before = text.window(at, False)
    if over:
        before = [
            n for n in before if text.statements[n].mnemonic == over.split(" ")[0].rstrip(";")
        ]
        before = sorted(before, key=lambda n: (n > at, at - n))[:1]
        if not before:
            return False
    return not any(
        conflict(text.access(x, at), text.statements[y].access)
        for x in before
        for y in after
        if not text.same_thread(x, y)
    )


def same_products(lines: tuple[str, ...], line: int, moved: bool) -> bool:
    """Whether the wgmma.fence of a line orders no registers (PTX 9.7.17.7.1).

    It is needed before the first wgmma.mma_async, and where registers of one were touched by anything else; not between
    products whose accumulators have the same shape. So every way back from it must come to such a product, or to another
    wgmma.fence, before anything that names a register of the products up to the next fence. A fence that is moved still
    stands before those products, unless it is moved over one.
    """
    text = _text(lines)
    at = line - 1
    if moved:
        return not _product(text.statements[_effect_before(text, at)])
    ahead = text.until(at, True, lambda s: s.mnemonic.startswith("wgmma.fence"))
    products = [text.statements[n] for n in ahead if _product(text.statements[n])]
    names = {r for s in products for r in _registers(s)}
    shapes = {_shape(s) for s in products}
    behind = text.until(at, False, lambda s: _product(s) or s.mnemonic.startswith("wgmma.fence"))
    for n in behind:
        statement = text.statements[n]
        if _product(statement):
            shapes.add(_shape(statement))
        elif not statement.mnemonic.startswith("wgmma") and (
            names & set(re.findall(r"[%\w]+", statement.operands)) or not text.before[n]
        ):
            return False
    return len(shapes) == 1


def _effect_before(text: Text, at: int) -> int:
    """The statement that one is moved over: the last before it that touches memory or synchronises."""
    return next((n for n in range(at - 1, 0, -1) if EFFECT.match(text.statements[n].mnemonic)), at)


def _product(statement: Statement) -> bool:
    return statement.mnemonic.startswith("wgmma.mma_async")


def _registers(product: Statement) -> set[str]:
    """The accumulators, and the registers that hold A."""
    return {
        r
        for part in re.findall(r"\{([^}]*)\}", product.operands)
        for r in re.findall(r"[%\w]+", part)
    }


def _shape(statement: Statement) -> str:
    found = re.search(r"m\d+n\d+k\d+", statement.mnemonic)
    return found.group() if found else ""
