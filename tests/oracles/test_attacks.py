"""Attempts to make `eliminate-fences` take a needed fence, in the text form of role programs, with what becomes of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from oracles.async_model import judge
from oracles.generate import trips
from oracles.roles import OPERATIONS, Program, parse
from oracles.test_eliminate import eliminate

from tkc.ir.isa.fences import ONE_WAY

FATES = ("gone", "kept", "careful", "moved", "halved", "narrowed")


class Attack(NamedTuple):
    """`fates`: what becomes of each fence, and of the waits that the text speaks of, by its site; `options`: those of
    the pass."""

    model: str
    target: str
    options: dict[str, bool]
    program: Program
    fates: dict[int, str]


def attacks() -> dict[str, Attack]:
    found: dict[str, Attack] = {}
    text = (Path(__file__).parent / "attacks.txt").read_text()
    for piece in text.split("\n== ")[1:]:
        name, header, *lines = piece.strip().splitlines()
        model, target, *options = header.split()
        program = parse("\n".join(line.split(" #")[0] for line in lines))
        said = [line for line in lines if line.split()[0] in OPERATIONS]
        fates = {
            op.site: line.rpartition("# ")[2]
            for line, (_, op) in zip(said, program.ops(), strict=True)
            if " # " in line
        }
        assert set(fates.values()) <= set(FATES), name
        assert name not in found, name
        found[name] = Attack(model, target, dict.fromkeys(options, True), program, fates)
    return found


ATTACKS = attacks()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_needed_stays(name: str) -> None:
    model, target, options, program, fates = ATTACKS[name]
    counts = trips(program)
    assert not judge(program, model, counts)
    done = eliminate(program, target, model, **options)
    assert done.failed == []
    became = {
        "gone": done.gone,
        "moved": done.moved,
        "narrowed": set(done.orders),
        "halved": {n for n, space in done.changed.items() if space in ONE_WAY},
    }
    for word, sites in became.items():
        assert sites == {n for n, fate in fates.items() if fate == word}, word
    assert done.fences <= set(fates)
    assert not judge(done.after(program), model, counts)
    needed = {n for n, fate in fates.items() if fate in ("kept", "moved", "halved")}
    for n in needed:
        assert judge(done.after(program, n), model, counts), n
