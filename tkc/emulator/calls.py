"""Calls: of the module's own functions, and of those that the system provides, as for assertions and printing."""

from __future__ import annotations

from typing import Any

from tkc.emulator import printing
from tkc.emulator.instruction import Builder, Call, Instruction, Semantic
from tkc.emulator.lanes import U32, U64
from tkc.emulator.report import Stop
from tkc.emulator.syntax import Name, Variable
from tkc.ir.isa.system import VPRINTF


def _assertion(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        raise Stop("TK410", "an assertion of the kernel failed", ins=i, warp=w)

    return run


_SYSTEM = {
    "__assertfail": _assertion,
    "__assert_fail": _assertion,
    VPRINTF.name: printing.vprintf,
}
"""By name; a module declares those that it calls without a body."""


def _places(i: Instruction, name: str) -> tuple[Variable | tuple[int, int], ...]:
    """The parameters in local memory, or the registers, that stand in the parentheses of a call."""
    if not i.given(name):
        return ()
    found: list[Variable | tuple[int, int]] = []
    for operand in i.many(name):
        variable = (
            i.program.variable(i.statement.scope, operand.text)
            if isinstance(operand, Name)
            else None
        )
        if variable is not None and variable.space == "param":
            found.append(variable)
        elif name == "values":
            found.append(i.dst_of(operand, name))
        else:
            found.append(i.src_of(operand, U32, name))
    return tuple(found)


def _call(i: Instruction) -> Semantic:
    target = i.one("target")
    if not isinstance(target, Name):
        raise ValueError("the target must be a function or a register")
    arguments, values = _places(i, "arguments"), _places(i, "values")
    if i.program.register(i.statement.scope, target.text) is not None:
        return Call("", i.src("target", U64), arguments, values)
    function = i.program.module.functions.get(target.text)
    if function is not None and function.defined:
        if (len(arguments), len(values)) != (len(function.params), len(function.results)):
            raise ValueError(
                f"{len(arguments)} arguments and {len(values)} results, {target.text} has"
                f" {len(function.params)} and {len(function.results)}"
            )
        return Call(target.text, -1, arguments, values)
    if target.text not in _SYSTEM:
        raise ValueError(f"a call of {target.text}, which has no body here, is not covered")
    return _SYSTEM[target.text](i)


SEMANTICS: dict[str, Builder] = {"call": _call}
