"""A kernel decoded once: slots of the register file, segments of straight-line steps, and their control-flow graph.

A segment is a list of steps that cannot wait or jump, and an ending that can. Every instruction is bound to slots here,
so that running it is one call; what is not covered is refused here, before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.diagnostics import Diagnostic, Location, TkcError
from tkc.emulator import flow, follow, functions
from tkc.emulator.follow import Follow
from tkc.emulator.functions import Code
from tkc.emulator.instruction import (
    Blocking,
    Branch,
    Call,
    Collective,
    Ending,
    Instruction,
    Leave,
    Semantic,
    Step,
)
from tkc.emulator.lanes import FULL, LANES, U32, U64, UNSIGNED, constant
from tkc.emulator.reader import find_register
from tkc.emulator.semantics import semantic
from tkc.emulator.special import SPECIAL_BITS
from tkc.emulator.spelling import spell
from tkc.emulator.statistics import counter_of, counting
from tkc.emulator.syntax import Function, Module, Name, Register, Scope, Statement, Variable

if TYPE_CHECKING:
    from tkc.emulator.machine import Path, Warp


@dataclass(slots=True)
class Segment:
    """`body` pairs each step with what follows uninitialised values through it; `ending` is called after them.

    One that only `guards` the next sends lanes where the guard of that segment's last instruction is false round it.
    """

    body: list[tuple[Step, Follow]] = field(default_factory=list)
    ending: Ending | None = None
    instructions: list[Instruction] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    last: Instruction | None = None
    guards: bool = False

    @property
    def count(self) -> int:
        return len(self.body) + 1


class Program:
    """An entry of a module, ready to run. `template` is the register file with constants filled in.

    `specials` are (slot, name, dtype) and `symbols` (slot, variable, offset, dtype): values that the machine fills in
    for each warp.
    """

    def __init__(self, module: Module, function: Function, file: str) -> None:
        self.module = module
        self.function = function
        self.file = file
        self.template: list[Any] = []
        self.specials: list[tuple[int, str, np.dtype[Any]]] = []
        self.symbols: list[tuple[int, Variable, int, np.dtype[Any]]] = []
        self.segments: list[Segment] = []
        self.reconverge: list[int] = []
        self.uninitialised: list[int] = []
        self._slots: dict[int, int] = {}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._named: dict[tuple[Any, ...], int] = {}
        self._predicates: set[int] = set()
        self.touches: Any = None
        """What `registers.py` has found, once it was asked."""
        self.codes: dict[str, Code] = {}
        self.decoding = function
        _Decoder(self).decode()
        self.local_offsets, self.local_size = functions.lay_out(self.codes)

    @property
    def variables(self) -> list[Variable]:
        """The variables of the module, and of the functions that are decoded."""
        inner = (v for code in self.codes.values() for v in code.function.variables)
        return [*self.module.variables, *inner]

    # Slots

    def _new(self, value: Any = None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def register(self, scope: Scope, name: str) -> Register | None:
        return find_register(self.decoding, scope, name)

    def slot(self, register: Register) -> int:
        found = self._slots.get(id(register))
        if found is None:
            found = self._slots[id(register)] = self._new()
            self.codes[self.decoding.name].slots.append(found)
            if register.bits == 1:
                self._predicates.add(found)
        return found

    def constant(self, value: int | float, dtype: np.dtype[Any]) -> int:
        key = (repr(value), dtype.str)
        if key not in self._constants:
            self._constants[key] = self._new(constant(value, dtype))
        return self._constants[key]

    def constant_mask(self, value: bool) -> int:
        key = ("mask", value)
        if key not in self._constants:
            self._constants[key] = self._new(FULL if value else 0)
        return self._constants[key]

    def predicate(self, instruction: Instruction, name: str) -> int:
        register = self.register(instruction.statement.scope, name)
        if register is None and SPECIAL_BITS.get(name) == 1:
            return self.named(instruction.statement.scope, Name(name), U32)
        if register is None or register.bits != 1:
            raise ValueError(f"{name} is no predicate")
        slot = self.slot(register)
        instruction.sources.append(slot)
        return slot

    def is_predicate(self, scope: Scope, name: str) -> bool | None:
        """Whether a name is a predicate register; None where it is no register."""
        register = self.register(scope, name)
        if register is not None:
            return register.bits == 1
        return SPECIAL_BITS[name] == 1 if name in SPECIAL_BITS else None

    def variable(self, scope: Scope, name: str) -> Variable | None:
        return scope.variable(name)

    def named(self, scope: Scope, name: Name, dtype: np.dtype[Any]) -> int:
        """The slot of a special register or of a variable's address."""
        key: tuple[Any, ...]
        if name.text.startswith("%"):
            if name.text not in SPECIAL_BITS:
                raise ValueError(f"no register {name.text}")
            key = (name.text, dtype.str)
            if key not in self._named:
                self._named[key] = self._new()
                self.specials.append((self._named[key], name.text, dtype))
            return self._named[key]
        if name.text == "WARP_SZ":
            return self.constant(32, dtype)
        variable = scope.variable(name.text)
        if variable is None:
            address = functions.address_of(self.module, name.text)
            if address is None:
                raise ValueError(f"no register, variable or function {name.text}")
            return self.constant(address, dtype)
        key = (id(variable), name.offset, dtype.str)
        if key not in self._named:
            self._named[key] = self._new()
            self.symbols.append((self._named[key], variable, name.offset, dtype))
            if variable.space == "local":
                code = self.codes[self.decoding.name]
                code.symbols.append((self._named[key], variable, name.offset, dtype))
        return self._named[key]

    def location(self, statement: Statement) -> Location | None:
        """The source place of a statement, from `.loc`."""
        if statement.place is None:
            return None
        file, line, column = statement.place
        return Location(self.module.files.get(file, f"file {file}"), line, column)


def _followed(instruction: Instruction) -> Follow:
    """What carries uninitialised values through an instruction."""
    if instruction.follows:
        return follow.nothing
    return instruction.follow or follow.whole(instruction.sources, instruction.dests)


def _guarded(step: Step, slot: int, negated: bool) -> Step:
    def run(warp: Warp) -> None:
        mask = warp.mask
        p = warp.R[slot]
        active = mask & ~p if negated else mask & p
        if active == mask:
            step(warp)
        elif active:
            full = warp.full
            warp.mask = active
            warp.full = False
            step(warp)
            warp.mask = mask
            warp.full = full

    return run


def _collective(
    step: Step, carry: Follow, mask_slot: int | None, here: int, following: int
) -> Ending:
    def run(warp: Warp, path: Path) -> int:
        mask = warp.mask
        wanted = warp.alive if mask_slot is None else warp.member_mask(mask_slot) & warp.alive
        if wanted & ~mask:
            return warp.gather(path, here, wanted, step, carry, following)
        if warp.taint:
            carry(warp)
        step(warp)
        return following

    return run


class _Decoder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.function = program.function
        self.errors: list[Diagnostic] = []
        self.starts: dict[int, int] = {}
        self.branches: list[tuple[int, Instruction, Branch, tuple[int, bool] | None]] = []

    def refuse(self, statement: Statement, code: str, message: str) -> None:
        self.errors.append(Diagnostic(code, message, Location(self.program.file, statement.line)))

    @property
    def here(self) -> int:
        return len(self.program.segments) - 1

    def close(self, ending: Ending | None, targets: list[int], last: Instruction | None) -> None:
        """Ends the segment at hand and opens the next."""
        segment = self.program.segments[-1]
        segment.ending, segment.targets, segment.last = ending, targets, last
        self.program.segments.append(Segment())

    def decode(self) -> None:
        """The kernel, and every function that it may come to call."""
        program = self.program
        self._function(program.function)
        done = 0
        while done < len(program.codes):
            code = list(program.codes.values())[done]
            done += 1
            for name in code.calls:
                if name not in program.codes:
                    self._function(program.module.functions[name])
        if self.errors:
            raise TkcError(tuple(self.errors[:20]))
        program.reconverge = flow.reconvergence([s.targets for s in program.segments])
        self._initialise()

    def _function(self, function: Function) -> None:
        program = self.program
        self.function = program.decoding = function
        self.starts, self.branches = {}, []
        program.segments.append(Segment())
        program.codes[function.name] = Code(function, self.here)
        targets = self._label_targets()
        for number, statement in enumerate(function.statements):
            if number in targets:
                if program.segments[-1].body:
                    self.close(_go(self.here + 1), [self.here + 1], None)
                self.starts[number] = self.here
            made = self._semantic(statement, number)
            if made is not None:
                self._place(*made)
        self.starts.setdefault(len(function.statements), self.here)
        program.segments[-1].ending = flow.leave if function.entry else functions.leave
        self._connect()

    def _label_targets(self) -> set[int]:
        seen: set[int] = set()
        found: set[int] = set()
        for statement in self.function.statements:
            for scope in statement.scope.outwards():
                if id(scope) in seen:
                    break
                seen.add(id(scope))
                found.update(scope.labels.values())
        return found

    def _semantic(self, statement: Statement, number: int) -> tuple[Instruction, Semantic] | None:
        try:
            scope = statement.scope
            spelled = spell(
                statement.mnemonic,
                statement.operands,
                lambda name: self.program.is_predicate(scope, name),
            )
        except ValueError as error:
            self.refuse(statement, "TK416", str(error))
            return None
        instruction = Instruction(
            self.program, spelled.row, spelled.modifiers, spelled.operands, statement, number
        )
        try:
            builder, instruction.family = semantic(spelled.row.name)
            what = builder(instruction)
            counter = counter_of(spelled.row)
            if counter:
                what = counting(what, counter)
            return instruction, what
        except (ValueError, KeyError) as error:
            text = error.args[0] if error.args else str(error)
            self.refuse(statement, "TK416", f"{statement.mnemonic}: {text}")
            return None

    def _place(self, instruction: Instruction, what: Semantic) -> None:
        statement, program = instruction.statement, self.program
        guard: tuple[int, bool] | None = None
        if statement.guard is not None:
            try:
                guard = (program.predicate(instruction, statement.guard[0]), statement.guard[1])
            except ValueError as error:
                self.refuse(statement, "TK417", str(error))
                return
        if isinstance(what, Branch):
            self.branches.append((self.here, instruction, what, guard))
            self.close(None, [], instruction)
            return
        if isinstance(what, Blocking | Collective | Leave | Call):
            if guard is not None:
                # A guarded step that may wait or leave: lanes where the guard is false jump over it.
                here = self.here
                beyond = here + 1 + self._segments_of(what)
                ending = flow.branch(guard[0], guard[1], here + 1, beyond, here, instruction)
                self.close(ending, [here + 1, beyond], instruction)
                program.segments[here].guards = True
            if isinstance(what, Call):
                self._call(instruction, what)
            else:
                self._put(instruction, what)
            return
        carry = _followed(instruction)
        if guard is not None:
            what, carry = _guarded(what, *guard), _guarded(carry, *guard)
        segment = program.segments[-1]
        segment.body.append((what, carry))
        segment.instructions.append(instruction)

    def _put(self, instruction: Instruction, what: Blocking | Collective | Leave) -> None:
        if isinstance(what, Blocking) and self.program.segments[-1].body:
            # A step that waits may be tried again, and what stands before it must not be done again.
            self.close(_go(self.here + 1), [self.here + 1], None)
        following = self.here + 1
        if isinstance(what, Leave):
            leave = flow.leave
            if what.trap:
                leave = flow.trap(instruction)
            elif what.returns and not self.function.entry:
                leave = functions.leave
            self.close(leave, [], instruction)
            return
        if isinstance(what, Blocking):
            self.close(what.make(following), [following], instruction)
            return
        carry = _followed(instruction)
        ending = _collective(what.step, carry, what.mask_slot, self.here, following)
        self.close(ending, [following], instruction)

    def _segments_of(self, what: Semantic) -> int:
        """How many segments a step takes that ends its own."""
        if not isinstance(what, Call):
            return 1
        return 2 if what.target else 1 + 2 * len(functions.candidates(self.program.module, what))

    def _call(self, instruction: Instruction, what: Call) -> None:
        """Segments that enter the function and come back: two for each function that an address may mean."""
        program = self.program
        names = [what.target] if what.target else functions.candidates(program.module, what)
        program.codes[self.function.name].calls += names
        beyond = self.here + self._segments_of(what)
        if not what.target:
            if not names:
                self.refuse(instruction.statement, "TK417", "no function fits this call")
                return
            first = self.here + 1
            entries = [first + 2 * k for k in range(len(names))]
            places = {
                functions.address_of(program.module, n): e
                for n, e in zip(names, entries, strict=True)
            }
            self.close(
                flow.dispatch(what.slot, places, self.here, instruction), entries, instruction
            )
        for name in names:
            here = self.here
            entering = functions.call(program.codes, name, what, here + 1, instruction)
            self.close(entering, [here + 1], instruction)
            self.close(functions.land(program.codes, name, what, beyond), [beyond], None)

    def _connect(self) -> None:
        """Gives every branch its ending, now that the labels have segments."""
        for here, instruction, branch, guard in self.branches:
            statement, segment = instruction.statement, self.program.segments[here]
            found: list[int] = []
            for label in branch.labels or (branch.label,):
                number = statement.scope.label(label)
                if number is None:
                    self.refuse(statement, "TK417", f"no label {label}")
                    continue
                found.append(self.starts[number])
            if not found:
                continue
            if branch.labels:
                segment.ending = flow.switch(branch.index_slot, found, here, instruction)
                segment.targets = list(dict.fromkeys(found))
            elif guard is None:
                segment.ending, segment.targets = _go(found[0]), found
            else:
                segment.ending = flow.branch(
                    guard[0], guard[1], found[0], here + 1, here, instruction
                )
                segment.targets = list(dict.fromkeys((found[0], here + 1)))

    def _initialise(self) -> None:
        """Registers that some path reads before it writes them start as zeros that are marked uninitialised."""
        program = self.program
        registers = {
            slot: bits for code in program.codes.values() for slot, bits in self._widths(code)
        }
        entries = [code.start for code in program.codes.values()]
        program.uninitialised = flow.maybe_uninitialised(program.segments, registers, entries)
        for slot in program.uninitialised:
            bits = registers[slot]
            if bits == 1:
                program.template[slot] = 0
            elif bits == 128:
                program.template[slot] = np.zeros((LANES, 2), U64)
            else:
                program.template[slot] = constant(0, UNSIGNED[bits])

    def _widths(self, code: Code) -> list[tuple[int, int]]:
        seen: set[int] = set()
        found: list[tuple[int, int]] = []
        for statement in code.function.statements:
            for scope in statement.scope.outwards():
                if id(scope) in seen:
                    continue
                seen.add(id(scope))
                for register in scope.registers.values():
                    if id(register) in self.program._slots:
                        found.append((self.program._slots[id(register)], register.bits))
        return found


def _go(target: int) -> Ending:
    def run(warp: Warp, path: Path) -> int:
        return target

    return run
