"""Makes a program that shows something smaller, as long as it still shows it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from oracles.roles import For, If, Op, Program, Statement, blocks, parse


def reduce(program: Program, shows: Callable[[Program], bool]) -> Program:
    """The smallest program found by leaving things out, one after the other, until nothing more can go."""
    smaller = True
    while smaller:
        smaller, n = False, 0
        while (candidate := next(islice(smaller_programs(program), n, None), None)) is not None:
            if shows(candidate):
                program, smaller = candidate, True
            else:
                n += 1
    return program


def smaller_programs(program: Program) -> Iterator[Program]:
    """The program without one role, declaration or statement, or with a loop's or condition's body in its place."""
    for n in range(len(program.roles)):
        other = copy.deepcopy(program)
        other.roles.pop(n)
        yield tidy(other)
    for name in (*program.buffers, *program.barriers):
        other = copy.deepcopy(program)
        for body, _ in positions(other):
            body[:] = [
                s for s in body if not isinstance(s, Op) or all(e.name != name for e in s.entries)
            ]
        yield tidy(other)
    for n in range(sum(1 for _ in positions(program))):
        for change in (leave_out, unwrap):
            other = copy.deepcopy(program)
            body, k = list(positions(other))[n]
            if change(body, k):
                yield tidy(other)
    for declared in ("barriers", "buffers"):
        for name, one in getattr(program, declared).items():
            if one.depth > 1:
                other = copy.deepcopy(program)
                getattr(other, declared)[name] = replace(one, depth=one.depth - 1)
                yield tidy(other)


def tidy(program: Program) -> Program:
    """Without declarations that nobody uses and loops with nothing in them, numbered anew."""
    used = {e.name for _, op in program.ops() for e in op.entries}
    homes = {b.home for b in program.buffers.values()}
    program.buffers = {
        n: b for n, b in program.buffers.items() if n in used or (b.home == "tensor" and homes == {"tensor"})
        or (b.home == "tensor" and any(op.name.startswith("wgmma") for _, op in program.ops()))
    }  # fmt: skip
    program.barriers = {n: b for n, b in program.barriers.items() if n in used}
    for role in program.roles:
        prune(role.body)
    program.roles = [r for r in program.roles if r.body]
    return parse(str(program))


def prune(body: list[Statement]) -> None:
    for s in list(body):
        for inner in blocks(s):
            prune(inner)
        if isinstance(s, For | If) and not any(blocks(s)):
            body.remove(s)


def positions(program: Program) -> Iterator[tuple[list[Statement], int]]:
    def go(body: list[Statement]) -> Iterator[tuple[list[Statement], int]]:
        for n, s in enumerate(body):
            yield body, n
            for inner in blocks(s):
                yield from go(inner)

    for role in program.roles:
        yield from go(role.body)


def leave_out(body: list[Statement], n: int) -> bool:
    del body[n]
    return True


def unwrap(body: list[Statement], n: int) -> bool:
    s = body[n]
    if isinstance(s, For | If):
        body[n : n + 1] = blocks(s)[0]
        return True
    return False
