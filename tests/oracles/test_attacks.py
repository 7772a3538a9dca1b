"""Attempts to make `eliminate-fences` take a needed fence, in the text form of role programs, with what becomes of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from oracles.as_stage import as_stage
from oracles.async_model import judge
from oracles.generate import trips
from oracles.roles import Program, parse
from oracles.test_eliminate import eliminated, without

from tkc.passes.fencing.sites import fences_of

FATES = ("gone", "kept", "careful")


class Attack(NamedTuple):
    """`fates`: what becomes of each fence, by its site."""

    model: str
    target: str
    program: Program
    fates: dict[int, str]


def attacks() -> dict[str, Attack]:
    found: dict[str, Attack] = {}
    text = (Path(__file__).parent / "attacks.txt").read_text()
    for piece in text.split("\n== ")[1:]:
        name, header, *lines = piece.strip().splitlines()
        model, target = header.split()
        program = parse("\n".join(line.split(" #")[0] for line in lines))
        told = [line.rpartition("# ")[2] for line in lines if " # " in line]
        sites = [op.site for _, op in program.ops() if op.name in FENCES]
        found[name] = Attack(model, target, program, dict(zip(sites, told, strict=True)))
    return found


FENCES = ("fence", "fence_release", "fence_acquire", "thread_fence", "before", "after")
ATTACKS = attacks()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_needed_stays(name: str) -> None:
    model, target, program, fates = ATTACKS[name]
    counts = trips(program)
    assert not judge(program, model, counts)
    module, sites = as_stage(program, target)
    [kernel] = module.body.block.ops
    fences = {op: sites[op] for op in fences_of(kernel)}  # pyright: ignore
    assert set(fences.values()) == set(fates)
    assert eliminated(module, model) == []
    left = set(module.walk())
    gone = {n for op, n in fences.items() if op not in left}
    assert gone == {n for n, fate in fates.items() if fate == "gone"}
    assert not judge(without(program, gone, {}), model, counts)
    needed = {n for n, fate in fates.items() if fate == "kept"}
    assert all(judge(without(program, gone | {n}, {}), model, counts) for n in needed)
