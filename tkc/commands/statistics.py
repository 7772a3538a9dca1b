"""What an emulated launch did, as tables and as JSON: instructions, bytes, waits, fences, products, roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tkc.commands.tables import print_table

if TYPE_CHECKING:
    from tkc.emulator.watch import WarpCounts

SHARE_OF_A_ROLE = 0.1
"""A warp has a role if this part of what it ran in roles stands there."""

_ROLE = re.compile(r"( *)role +(\w+)")


@dataclass(frozen=True, slots=True)
class Row:
    """What the warps of one role did, or one warp where no source tells a role."""

    role: str
    warps: tuple[int, ...]
    instructions: int
    waits: int
    blocked: int
    steps: int

    def to_json(self) -> dict[str, Any]:
        return {
            "role": self.role or None,
            "warps": list(self.warps),
            "instructions": self.instructions,
            "waits": self.waits,
            "waits_blocked": self.blocked,
            "wait_steps": self.steps,
        }


def roles_of_lines(text: str) -> dict[int, str]:
    """The role in which each line of a tile program stands; lines outside of roles are left out."""
    found: dict[int, str] = {}
    role, depth = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.split("#")[0].rstrip()
        indent = len(bare) - len(bare.lstrip())
        if bare and indent <= depth:
            role = ""
        header = _ROLE.match(bare)
        if header is not None:
            role, depth = header[2], indent
        if role:
            found[number] = role
    return found


def roles_of_warps(warps: Sequence[WarpCounts], sources: Mapping[str, str]) -> dict[int, str]:
    """The role of each warp, or its roles where it runs several (`math + store`), as far as tile programs tell them."""
    lines = {f: roles_of_lines(text) for f, text in sources.items() if f.endswith(".tk")}
    order = list(dict.fromkeys(role for known in lines.values() for role in known.values()))
    ran = [_ran(warp, lines) for warp in warps]
    # What every warp runs alike, such as a size that is read for all, says nothing of its role.
    alike = {
        place: least
        for place in (ran[0] if ran else ())
        if (least := min(places.get(place, 0) for places in ran))
    }
    own = [{p: n - alike.get(p, 0) for p, n in places.items()} for places in ran]
    if not any(n for places in own for n in places.values()):
        own = ran
    found: dict[int, str] = {}
    for warp, places in zip(warps, own, strict=True):
        counts: dict[str, int] = {}
        for (role, _), count in places.items():
            counts[role] = counts.get(role, 0) + count
        least = SHARE_OF_A_ROLE * sum(counts.values())
        chosen = [role for role, count in counts.items() if count and count >= least]
        if chosen:
            found[warp.index] = " + ".join(sorted(chosen, key=order.index))
    return found


def _ran(warp: WarpCounts, lines: Mapping[str, Mapping[int, str]]) -> dict[tuple[str, int], int]:
    """The instructions that a warp ran in roles, by role and line."""
    found: dict[tuple[str, int], int] = {}
    for place, count in warp.places.items():
        role = lines.get(place.file, {}).get(place.line) if place is not None else None
        if place is not None and role is not None:
            found[role, place.line] = found.get((role, place.line), 0) + count
    return found


def rows(warps: Sequence[WarpCounts], roles: Mapping[int, str]) -> list[Row]:
    """A row for each role in the order of its first warp, and one for all others; one for each warp without roles."""
    groups: dict[str | int, list[WarpCounts]] = {}
    for warp in warps:
        groups.setdefault(roles.get(warp.index, "" if roles else warp.index), []).append(warp)
    return [
        Row(
            key if isinstance(key, str) else "",
            tuple(w.index for w in members),
            sum(w.instructions for w in members),
            sum(w.waits.times for w in members),
            sum(w.waits.blocked for w in members),
            sum(w.waits.steps for w in members),
        )
        for key, members in groups.items()
    ]


def print_statistics(stats: Mapping[str, int], by_role: Sequence[Row]) -> None:
    """The tables of a launch; one without rows is left out."""
    total = max(1, sum(count for _, count in _under(stats, "instructions")))
    _print(
        "instructions of warps",
        ("class", "executed", "share"),
        [(n, f"{c:,}", f"{c / total:.1%}") for n, c in _by_count(stats, "instructions")],
    )
    _print("bytes", ("by, where, how", "bytes"), [(n, f"{c:,}") for n, c in _under(stats, "bytes")])
    turns, conflicts = (
        dict(_under(stats, "shared_wavefronts")),
        dict(_under(stats, "shared_conflicts")),
    )
    _print(
        "shared memory",
        ("instruction", "executed", "wavefronts", "bank conflicts"),
        [
            (n, f"{c:,}", f"{turns[n]:,}", f"{conflicts.get(n, 0):,}")
            for n, c in _by_count(stats, "shared_requests")
        ],
    )
    blocked, steps = dict(_under(stats, "waits_blocked")), dict(_under(stats, "wait_steps"))
    _print(
        "waits",
        ("instruction", "executed", "had to wait", "steps of others"),
        [
            (n, f"{c:,}", f"{blocked.get(n, 0):,}", f"{steps.get(n, 0):,}")
            for n, c in _by_count(stats, "waits")
        ],
    )
    _print("fences", ("fence", "executed"), [(n, f"{c:,}") for n, c in _by_count(stats, "fences")])
    _print(
        "tensor cores", ("products", "executed"), [(n, f"{c:,}") for n, c in _under(stats, "mma")]
    )
    named = any(row.role for row in by_role)
    words = ("role", "warps") if named else ("warp",)
    _print(
        "roles" if named else "warps",
        (*words, "instructions", "waits", "had to wait", "steps of others"),
        [
            (
                *((row.role or "-", _ranges(row.warps))[-len(words) :]),
                *(f"{c:,}" for c in (row.instructions, row.waits, row.blocked, row.steps)),
            )
            for row in by_role
        ],
        words=len(words),
    )


def _print(
    title: str, columns: Sequence[str], lines: Sequence[Sequence[str]], words: int = 1
) -> None:
    if lines:
        print_table(title, columns, lines, numbers=len(columns) - words)


def _under(stats: Mapping[str, int], word: str) -> Iterator[tuple[str, int]]:
    """What stands under `word.` in the order of names."""
    for name in sorted(stats):
        if name.startswith(f"{word}."):
            yield name[len(word) + 1 :], stats[name]


def _by_count(stats: Mapping[str, int], word: str) -> list[tuple[str, int]]:
    return sorted(_under(stats, word), key=lambda found: -found[1])


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3, 8` for 0, 1, 2, 3, 8."""
    found: list[str] = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        found.append(str(members[0]) + (f"-{members[-1]}" if len(members) > 1 else ""))
    return ", ".join(found)
