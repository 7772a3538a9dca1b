"""Reads the tables of this folder: chains of two accesses, and programs with their findings."""

from __future__ import annotations

from collections.abc import Iterator
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
