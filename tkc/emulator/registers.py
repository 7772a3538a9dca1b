"""Registers that asynchronous instructions still own: used before the wait that gives them back, or without a fence.

What tcgen05.ld loads is there after tcgen05.wait::ld; what wgmma multiplies and adds up belongs to it from wgmma.fence
to the wgmma.wait_group of its group (PTX 9.7.17.7.1, 9.7.18.6.2.1). This is a matter of the text: every way through the
control flow counts, if both instructions have run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.program import Program

GROUPS = 8
"""Groups that are told apart: wait_group counts in practice stay far below."""


class Touch(NamedTuple):
    """`user` touches registers that `owner` still owns, `why` in a sentence."""

    code: str
    owner: Instruction
    user: Instruction
    why: str
    mend: str
    awaited: bool = False
    """Whether the wait comes on every way, only too late."""


Back = tuple["Instruction | None", bool]


class Flow:
    """The instructions of each segment, and which segments follow and come before it."""

    def __init__(self, program: Program) -> None:
        self.rows: list[list[Instruction]] = []
        for segment in program.segments:
            row = list(segment.instructions)
            if segment.last is not None and not segment.guards:
                row.append(segment.last)
            self.rows.append(row)
        self.following = [segment.targets for segment in program.segments]
        self.before: list[list[int]] = [[] for _ in self.rows]
        for here, targets in enumerate(self.following):
            for target in targets:
                self.before[target].append(here)

    def walk(
        self, start: tuple[int, int], state: int, step: Callable[[Instruction, int], int]
    ) -> bool:
        """Goes forward from behind an instruction; `step` gives the state after each one, or -1 to go no further.

        Whether one of the ways has come to the end of the thread.
        """
        ended = False
        todo = [(*start, state)]
        seen: set[tuple[int, int]] = set()
        while todo:
            here, at, state = todo.pop()
            for ins in self.rows[here][at:]:
                state = step(ins, state)
                if state < 0:
                    break
            else:
                ended |= not self.following[here]
                for target in self.following[here]:
                    if (target, state) not in seen:
                        seen.add((target, state))
                        todo.append((target, 0, state))
        return ended

    def walk_back(
        self, start: tuple[int, int], step: Callable[[Instruction, Instruction | None], Back]
    ) -> list[Instruction]:
        """Goes backward from an instruction; `step` gives what to remember from each one on, and whether to go on.

        What was remembered on the ways that have ended; of those that come to the entry the instruction itself, where
        nothing was.
        """
        first = self.rows[start[0]][start[1]]
        todo: list[tuple[int, int, Instruction | None]] = [(*start, None)]
        seen: set[tuple[int, bool]] = set()
        ended: list[Instruction] = []
        while todo:
            here, at, kept = todo.pop()
            on = True
            for ins in reversed(self.rows[here][:at]):
                kept, on = step(ins, kept)
                if not on:
                    break
            if on and not self.before[here]:
                ended.append(kept or first)
            elif kept is not None and not on:
                ended.append(kept)
            for target in self.before[here] if on else ():
                if (target, kept is not None) not in seen:
                    seen.add((target, kept is not None))
                    todo.append((target, len(self.rows[target]), kept))
        return ended


def touches(program: Program) -> list[Touch]:
    """Every such use in a program."""
    if program.touches is None:
        names = {ins.row.name.partition(".")[0] for s in program.segments for ins in s.instructions}
        names |= {s.last.row.name.partition(".")[0] for s in program.segments if s.last is not None}
        found = program.touches = []
        if names & {"wgmma", "tcgen05"}:
            flow = Flow(program)
            for here, row in enumerate(flow.rows):
                for at, ins in enumerate(row):
                    if ins.row.name.startswith("tcgen05.ld"):
                        found += _loaded(flow, (here, at), ins)
                    elif ins.row.name.startswith("wgmma.mma_async"):
                        found += _multiplied(flow, (here, at), ins)
                        found += _unfenced(flow, (here, at), ins)
    return program.touches


def _loaded(flow: Flow, place: tuple[int, int], load: Instruction) -> Iterator[Touch]:
    users: dict[int, Instruction] = {}
    dests = set(load.dests)
    again = False

    def step(ins: Instruction, state: int) -> int:
        if ins.row.name == "tcgen05.wait::ld":
            return -1
        if ins is load:
            nonlocal again
            again = True
            return -1
        if dests & set(ins.sources):
            users.setdefault(ins.number, ins)
        return state

    never = flow.walk((place[0], place[1] + 1), 0, step) or again
    for user in list(users.values())[:1]:
        yield Touch(
            "TK312",
            load,
            user,
            "reads registers that tcgen05.ld may not have filled yet",
            "tcgen05.wait::ld between the load and the first use",
            not never,
        )


def _multiplied(flow: Flow, place: tuple[int, int], product: Instruction) -> Iterator[Touch]:
    users: dict[int, Instruction] = {}
    owned = set(product.dests)
    read = set(product.sources) - owned

    def step(ins: Instruction, commits: int) -> int:
        name = ins.row.name
        if name == "wgmma.commit_group":
            return min(commits + 1, GROUPS)
        if name == "wgmma.wait_group":
            return -1 if commits > ins.immediate("count") else commits
        if name.startswith("wgmma"):
            return -1 if ins is product else commits
        if owned & {*ins.sources, *ins.dests} or read & set(ins.dests) & _a_registers(product):
            users.setdefault(ins.number, ins)
            return -1
        return commits

    flow.walk((place[0], place[1] + 1), 0, step)
    for user in users.values():
        yield Touch(
            "TK319",
            product,
            user,
            "touches registers of a wgmma that may still be under way",
            "wgmma.commit_group and wgmma.wait_group for its group before the use",
        )


def _a_registers(product: Instruction) -> set[int]:
    """The registers that hold A, which must keep their values until the product is done."""
    if not product.given("a"):
        return set()
    names = [o for o in product.many("a")]
    found: set[int] = set()
    for operand in names:
        register = product.program.register(product.statement.scope, getattr(operand, "text", ""))
        if register is not None:
            found.add(product.program.slot(register))
    return found


def _unfenced(flow: Flow, place: tuple[int, int], product: Instruction) -> Iterator[Touch]:
    """One is needed before the first wgmma, and where registers were touched since the last.

    A wait for groups orders no registers. Compilers put moves behind the fence, which the assembler puts right.
    """
    mine = set(product.dests) | _a_registers(product)

    def step(ins: Instruction, kept: Instruction | None) -> Back:
        name = ins.row.name
        if name == "wgmma.fence":
            return None, False
        if name.startswith("wgmma.mma_async"):
            return kept, False
        return kept or (ins if mine & {*ins.sources, *ins.dests} else None), True

    for user in flow.walk_back(place, step)[:1]:
        yield Touch(
            "TK319",
            user,
            product,
            "is the first wgmma on a way that has no wgmma.fence"
            if user is product
            else "takes registers that another instruction has touched since the last wgmma.fence",
            "wgmma.fence before the first wgmma that uses them",
        )


def report(machine: Machine, strict: bool) -> None:
    """Findings for what has run; a load used before its wait is an error under the strict profile alone."""
    for touch in touches(machine.program):
        if touch.awaited and not strict:
            # Compilers convert early; the assembler tracks the registers.
            continue
        if machine.ran(touch.owner) and machine.ran(touch.user):
            machine.found(
                touch.code,
                f"{touch.user.statement.mnemonic} {touch.why}",
                touch.user,
                warning=touch.code == "TK312" and not strict,
                accesses=(f"{touch.owner.statement.mnemonic} at line {touch.owner.line}",),
                notes=(f"cheapest order: {touch.mend}",),
            )
