"""One synchronisation of a PTX text at a time, taken away, weakened, moved or miscounted.

A site is a statement that stands alone on its line. Needs the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class Mutant:
    """A changed text, made when it is asked for: `kind` says how, `line` (from 1) where, `what` is what stood there.

    `before` and `after` are the statements round it that touch memory or synchronise.
    """

    kind: str
    line: int
    what: str
    make: Callable[[], str] = field(repr=False, compare=False)
    before: str = ""
    after: str = ""
    lines: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Those of the text without the change."""

    @property
    def text(self) -> str:
        return self.make()

    @property
    def name(self) -> str:
        return f"{self.kind}@{self.line}"


Change = Callable[[str, str], str | None]
"""From a line and its statement to what stands there instead; None where the change does not apply."""

_SITE = re.compile(r"^(\s*(?:\$?\w+:\s*)?(?:@!?%?\w+\s+)?)([a-z][\w.:]*)\b(.*;)\s*(//.*)?$")

DELETED = re.compile(
    r"(fence\.|membar|tcgen05\.(fence|wait|commit)|wgmma\.(fence|wait_group|commit_group)|bar\.(warp\.)?sync|"
    r"barrier\.cta\.(sync|arrive)|bar\.arrive|cp\.async\.(wait|commit)|cp\.async\.mbarrier|"
    r"cp\.async\.bulk\.(commit_group|wait_group)|mbarrier\.arrive|mbarrier\.init|griddepcontrol\.wait)"
)
COUNTED = re.compile(r"(wgmma\.wait_group|cp\.async\.wait_group|cp\.async\.bulk\.wait_group)")


def _delete(line: str, statement: str) -> str | None:
    if not DELETED.match(statement):
        return None
    label = re.match(r"^\s*\$?\w+:", line)
    return f"{label.group(0) if label else ''} // {statement}"


def _count(line: str, statement: str) -> str | None:
    """A wait for groups leaves one more of them out."""
    if not COUNTED.match(statement):
        return None
    return re.sub(r"(\d+)\s*;", lambda m: f"{int(m.group(1)) + 1};", line)


def _pass(line: str, statement: str) -> str | None:
    """A wait for an mbarrier is over at once."""
    found = re.search(r"mbarrier\.(?:try|test)_wait\S*\s+([%\w]+)\s*,", line)
    if not found:
        return None
    start = line.index("mbarrier.")
    return f"{line[:start]}setp.eq.u32 {found.group(1)}, 0, 0;"


def _phase(line: str, statement: str) -> str | None:
    """A wait for the other phase."""
    found = re.search(
        r"^(.*?)(mbarrier\.(?:try|test)_wait\.parity\S*\s+[%\w]+\s*,\s*\[[^]]*\]\s*,\s*)([%\w]+)(.*)$",
        line,
    )
    if not found:
        return None
    head, start, parity, rest = found.groups()
    label = re.match(r"^\s*\$?\w+:", head)
    if head.strip() and not label:
        return None
    return f"{head}{{ .reg .b32 %other; xor.b32 %other, {parity}, 1; {start}%other{rest} }}"


def _bytes(line: str, statement: str) -> str | None:
    """Sixteen bytes fewer are expected than come."""
    if "expect_tx" not in statement:
        return None
    found = re.search(r"^(.*,\s*)(\d+)(\s*;.*)$", line)
    if found:
        return f"{found.group(1)}{int(found.group(2)) - 16}{found.group(3)}"
    return None


def _more_arrivals(line: str, statement: str) -> str | None:
    found = re.search(r"^(.*mbarrier\.init.*,\s*)(\d+)(\s*;.*)$", line)
    return f"{found.group(1)}{int(found.group(2)) + 1}{found.group(3)}" if found else None


def _relaxed(line: str, statement: str) -> str | None:
    """An arrival that releases nothing."""
    if (
        not re.match(r"mbarrier\.arrive|barrier\.cluster\.arrive", statement)
        or ".release" not in statement
    ):
        return None
    return line.replace(".release", ".relaxed", 1)


def _unacquired(line: str, statement: str) -> str | None:
    """A wait that acquires nothing."""
    if not re.match(r"mbarrier\.(try|test)_wait", statement) or ".acquire" not in statement:
        return None
    return line.replace(".acquire", ".relaxed", 1)


CHANGES: dict[str, Change] = {
    "delete": _delete,
    "pass": _pass,
    "count": _count,
    "phase": _phase,
    "bytes": _bytes,
    "arrivals": _more_arrivals,
    "relaxed": _relaxed,
    "unacquired": _unacquired,
}
EFFECT = re.compile(
    r"(st|ld(?!\.param)|red|atom|cp|mbarrier|bar|barrier|fence|tcgen05|wgmma|stmatrix|ldmatrix|tensormap)[.\b]"
)
"""Statements that a moved one must pass to have moved at all."""


def _clusterless(lines: list[str], at: int) -> list[str] | None:
    """The lines with neither this arrival at the cluster barrier nor the wait that follows it."""
    if "barrier.cluster.arrive" not in lines[at]:
        return None
    for place in range(at + 1, min(at + 40, len(lines))):
        if "barrier.cluster.wait" in lines[place]:
            gone = {n: f"// {lines[n].strip()}" for n in (at, place)}
            return [gone.get(n, line) for n, line in enumerate(lines)]
    return None


def _statement(line: str) -> tuple[str, str] | None:
    found = _SITE.match(line)
    if not found or line.count(";") != 1:
        return None
    return found.group(1), found.group(2) + found.group(3)


WHOLE: dict[str, Callable[[list[str], int, str], list[str] | None]] = {
    "move": lambda lines, at, statement: _moved(lines, at, statement),
    "cluster": lambda lines, at, _: _clusterless(lines, at),
}
"""Changes of more than one line."""


def mutants(text: str, kinds: tuple[str, ...] = (*CHANGES, *WHOLE)) -> Iterator[Mutant]:
    """Every mutant of a text, in the order of its lines."""
    lines = text.split("\n")
    original = tuple(lines)
    for at, line in enumerate(lines):
        found = _statement(line)
        if found is None:
            continue
        statement = found[1]
        for kind in kinds:
            if kind in WHOLE:
                if WHOLE[kind](lines, at, statement) is not None:
                    make = partial(_whole, kind, lines, at, statement)
                    yield Mutant(kind, at + 1, statement, make, *_around(lines, at), original)
                continue
            new = CHANGES[kind](line, statement)
            if new is not None and new != line:
                make = partial(_with, lines, at, new)
                yield Mutant(kind, at + 1, statement, make, *_around(lines, at), original)


def _whole(kind: str, lines: list[str], at: int, statement: str) -> str:
    return "\n".join(WHOLE[kind](lines, at, statement) or lines)


def _with(lines: list[str], at: int, new: str) -> str:
    return "\n".join([*lines[:at], new, *lines[at + 1 :]])


def _around(lines: list[str], at: int, count: int = 10) -> tuple[str, str]:
    """The statements before and after a line that touch memory or synchronise, in the order of the text."""

    def gather(places: Iterable[int]) -> list[str]:
        kept: list[str] = []
        for place in places:
            found = _statement(lines[place])
            if found is not None and EFFECT.match(found[1]):
                kept.append(found[1].split("{")[0].split("[")[0].strip())
                if len(kept) == count:
                    break
        return kept

    earlier = gather(range(at - 1, -1, -1))
    return " | ".join(reversed(earlier)), " | ".join(gather(range(at + 1, len(lines))))


def _moved(lines: list[str], at: int, statement: str) -> list[str] | None:
    """The lines with a statement before the last one that touches memory or synchronises, in its own block."""
    if not DELETED.match(statement) or statement.startswith("mbarrier.init"):
        return None
    needs = set(re.findall(r"%\w+", lines[at]))
    for place in range(at - 1, -1, -1):
        line = lines[place]
        if re.match(r"^\s*(\$?\w+:|[{}])", line) or re.search(r"\b(bra|ret|exit|call)\b", line):
            return None
        found = _statement(line)
        if found is None:
            if line.strip() and not line.strip().startswith((".loc", "//")):
                return None
            continue
        written = set(re.findall(r"%\w+", found[1].split(",")[0]))
        if EFFECT.match(found[1]):
            if needs & written and not found[1].startswith(("st", "mbarrier", "cp")):
                return None
            return [*lines[:place], lines[at], *lines[place:at], *lines[at + 1 :]]
        if needs & written:
            return None
    return None
