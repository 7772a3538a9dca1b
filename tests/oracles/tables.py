"""Reads the tables of this folder: chains of two accesses, and programs with their findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oracles.roles import Program, parse

HERE = Path(__file__).parent
PROFILE_ORDER = ("strict", "home", "implicit", "practice")
DECLARATIONS = {
    "a": "buffer a shared 1", "r": "buffer r shared 1 @1", "d": "buffer d tensor 1", "s": "buffer s tensor 1",
    "g": "buffer g global 1", "m": "barrier m 1 1", "n": "barrier n 1 1 @1", "w": "barrier w 1 32",
    "v": "barrier v 1 1",
}  # fmt: skip


def chain(left: str, right: str) -> Program:
    """The program of one row: a role for each side."""
    used = {word[0] for word in (left + " " + right).split() if word[1:2] == "["}
    lines = [DECLARATIONS[name] for name in sorted(used)]
    for name, side in (("first", left), ("then", right)):
        if side:
            at, _, code = side.partition(" ") if side.startswith("@") else ("", "", side)
            lines.append(f"role {name} 1 {at}".rstrip())
            for op in code.split(";"):
                words = op.split()
                lines += [f"  expect {words[2]} 1"] if words[0] == "tma" else []
                lines.append(f"  {op.strip()}")
    return parse("\n".join(lines))


def chains() -> Iterator[tuple[str, Program, dict[str, bool]]]:
    """Name, program, and whether its accesses are ordered, by profile."""
    for line in (HERE / "chains.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, left, right, verdicts = line.split("\t")
            ordered = {p: v == "o" for p, v in zip(PROFILE_ORDER, verdicts, strict=True)}
            yield name, chain(left, right), ordered


@dataclass(frozen=True)
class Row:
    """A program of `programs.txt`: its trip counts, and what each profile finds in it, as (kind, where)."""

    name: str
    program: Program
    trips: tuple[dict[str, int], ...]
    findings: dict[str, frozenset[tuple[str, str]]]


def programs(file: str = "programs.txt") -> Iterator[Row]:
    text = (HERE / file).read_text(encoding="utf-8")
    for block in text.split("\n== ")[1:]:
        name, *lines = block.splitlines()
        trips: list[dict[str, int]] = [{}]
        findings: dict[str, frozenset[tuple[str, str]]] = {}
        code: list[str] = []
        for line in lines:
            head, *words = line.split() or [""]
            if head == "trips":
                trips = [dict(pairs(word)) for word in words]
            elif head in PROFILE_ORDER:
                kinds = (word.partition(":") for word in words if word != "-")
                findings[head] = frozenset((kind, where) for kind, _, where in kinds)
            else:
                code.append(line)
        yield Row(name, parse("\n".join(code)), tuple(trips), findings)


def pairs(word: str) -> Iterator[tuple[str, int]]:
    for one in word.split(","):
        symbol, _, count = one.partition("=")
        yield symbol, int(count)
