"""Calls of a module's own functions: each becomes a copy of the function's body, before the kernel is decoded.

A copy has registers and labels of its own; its parameters are the caller's variables that stand in the call. A return
becomes a jump behind the copy. Recursion has no end here and is refused.
"""

from __future__ import annotations

from dataclasses import replace

from tkc.diagnostics import Location, TkcError
from tkc.emulator.syntax import (
    Function,
    Group,
    Module,
    Name,
    Operand,
    Register,
    Scope,
    Statement,
)

_END = "%end of call"
"""The label behind a copy; no text can spell it."""

DEPTH_LIMIT = 24


def called(statement: Statement) -> str:
    """The name of the function that a statement calls; empty for other instructions."""
    if statement.mnemonic.partition(".")[0] != "call":
        return ""
    for operand in statement.operands:
        if isinstance(operand, Name):
            return operand.text
    return ""


class _Copier:
    def __init__(self, module: Module, entry: Function, file: str) -> None:
        self.module = module
        self.file = file
        self.made = Function(
            entry.name,
            entry.entry,
            entry.line,
            entry.params,
            entry.results,
            entry.directives,
            defined=True,
        )
        self.made.variables = list(entry.variables)

    def refuse(self, statement: Statement, message: str) -> TkcError:
        return TkcError.at("TK417", message, Location(self.file, statement.line))

    def own(self, statement: Statement) -> Function | None:
        """The function with a body that a statement calls."""
        name = called(statement)
        found = self.module.functions.get(name) if name else None
        return found if found is not None and found.defined else None

    def copy(self, function: Function, scope: Scope, depth: int) -> None:
        """Appends the statements of a function; `scope` is the copy of its outermost scope."""
        out = self.made.statements
        scopes = {id(function.scope): scope}
        originals = [function.scope]
        places: list[int] = []

        def twin(original: Scope) -> Scope:
            found = scopes.get(id(original))
            if found is None:
                assert original.parent is not None
                found = scopes[id(original)] = self.scope(original, twin(original.parent))
                originals.append(original)
            return found

        for statement in function.statements:
            places.append(len(out))
            inside = twin(statement.scope)
            target = self.own(statement)
            if target is not None:
                self.call(statement, target, inside, depth)
            elif depth and statement.mnemonic.partition(".")[0] == "ret":
                out.append(replace(statement, mnemonic="bra", operands=(Name(_END),), scope=inside))
            else:
                out.append(replace(statement, scope=inside))
        places.append(len(out))
        for original in originals:
            copied = scopes[id(original)]
            copied.labels = {name: places[at] for name, at in original.labels.items()}
        scope.labels[_END] = places[-1]

    def scope(self, original: Scope, parent: Scope | None) -> Scope:
        """An empty copy of a scope: the same declarations, with registers of its own."""
        copied = Scope(parent, {}, dict(original.ranges), dict(original.variables))
        copied.tables = dict(original.tables)
        for name, register in original.registers.items():
            # Those of a range are made when they are met.
            if not any(
                name.startswith(prefix) and name[len(prefix) :].isdigit()
                for prefix in original.ranges
            ):
                copied.registers[name] = self.register(register)
        return copied

    def register(self, like: Register) -> Register:
        made = Register(like.name, like.type, like.bits, self.made.registers)
        self.made.registers += 1
        return made

    def call(self, statement: Statement, target: Function, caller: Scope, depth: int) -> None:
        """The body of the called function, in place of the call."""
        if depth >= DEPTH_LIMIT:
            raise self.refuse(
                statement, f"calls are nested deeper than {DEPTH_LIMIT}: recursion is not covered"
            )
        results, arguments = _lists(statement)
        if len(results) != len(target.results) or len(arguments) != len(target.params):
            raise self.refuse(
                statement,
                f"{target.name} takes {len(target.params)} arguments and gives {len(target.results)} results",
            )
        scope = self.scope(target.scope, self.module.scope)
        declared = (*target.results, *target.params)
        for variable, operand in zip(declared, (*results, *arguments), strict=True):
            found = caller.variable(operand.text) if isinstance(operand, Name) else None
            if found is None:
                raise self.refuse(statement, "only variables of .param space may stand in a call")
            scope.variables[variable.name] = found
        self.made.variables += [v for v in target.variables if v not in self.made.variables]
        if statement.guard is not None:
            # Where the guard is false, lanes jump over the copy.
            name, negated = statement.guard
            around = Scope(caller)
            skip = Statement(
                statement.line, "bra", (Name(_END),), (name, not negated), around, statement.place
            )
            self.made.statements.append(skip)
            self.copy(target, scope, depth + 1)
            around.labels[_END] = len(self.made.statements)
            return
        self.copy(target, scope, depth + 1)


def _lists(statement: Statement) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """(results, arguments) of a call."""
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    seen = False
    for operand in statement.operands:
        if isinstance(operand, Group):
            if seen:
                arguments = operand.items
            else:
                results = operand.items
        elif isinstance(operand, Name):
            seen = True
    return results, arguments


def inlined(module: Module, entry: Function, file: str) -> Function:
    """The kernel with its calls of the module's own functions replaced by their bodies."""
    copier = _Copier(module, entry, file)
    if not any(copier.own(s) for s in entry.statements):
        return entry
    scope = copier.scope(entry.scope, module.scope)
    copier.copy(entry, scope, 0)
    copier.made.scope = scope
    return copier.made
