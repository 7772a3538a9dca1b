"""Control: the rows of `tkc.ir.isa.instructions.control`, and loops and branches that stay structured until the text.

Every loop carries values as SSA block arguments; `name-registers` makes them registers that are written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir import Operation as IrOperation
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.ptx.families import LengthRule
from tkc.ir.ptx.registers import RegisterType, type_of
from tkc.ir.syntax import Operation

LENGTHS: Mapping[str, LengthRule] = {}

WIDER: frozenset[str] = frozenset()

COUNTERS = {".s32": "b32", ".u32": "b32", ".s64": "b64", ".u64": "b64"}
"""Types of a loop counter and the class of its register."""


@irdl_op_definition
class YieldOp(Operation):
    """Ends a region: the values of the next turn of a loop, or the results of a branch."""

    name = "ptx.yield"
    values = var_operand_def(RegisterType)
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class UntilOp(Operation):
    """Ends the body of `ptx.repeat`: leaves the loop where the condition holds; the values are the next turn's."""

    name = "ptx.until"
    condition = operand_def(RegisterType)
    values = var_operand_def(RegisterType)
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ProceedOp(Operation):
    """Ends the first region of `ptx.while`: goes on to the body where the condition holds."""

    name = "ptx.proceed"
    condition = operand_def(RegisterType)
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ForOp(Operation):
    """`%r = ptx.for %lo, %hi, %step, %init {type = ".s32"} do {^bb0(%i, %carried): … ptx.yield %next}`.

    The counter runs from `lo` up to but not `hi`; `nonempty` promises at least one turn, so that no test comes first.
    """

    name = "ptx.for"
    lower = operand_def(RegisterType)
    upper = operand_def(RegisterType)
    step = operand_def(RegisterType)
    inits = var_operand_def(RegisterType)
    type = prop_def(StringAttr)
    nonempty = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    carried = var_result_def(RegisterType)
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def verify_(self) -> None:
        counter = COUNTERS.get(self.type.data)
        if counter is None:
            raise VerifyException(f"no counter type {self.type.data}: one of {', '.join(COUNTERS)}")
        arguments = self.body.block.args
        if not arguments or type_of(arguments[0]).kind != counter or type_of(arguments[0]).count:
            raise VerifyException(f"the first block argument is the counter, in {counter}")
        _verify_carried(self, self.inits, arguments[1:], yielded(self.body, YieldOp), self.carried)


@irdl_op_definition
class IfOp(Operation):
    """`%r = ptx.if %p do {… ptx.yield %a}, {… ptx.yield %b}`; `negated` takes the first region where %p is false.

    A region that yields nothing needs no terminator. Without results and without a second region, a single plain
    instruction is predicated instead of branched round.
    """

    name = "ptx.if"
    condition = operand_def(RegisterType)
    negated = opt_prop_def(UnitAttr)
    then = region_def("single_block")
    otherwise = opt_region_def("single_block")
    out = var_result_def(RegisterType)
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def verify_(self) -> None:
        if type_of(self.condition).kind != "pred":
            raise VerifyException("the condition is a predicate")
        if self.out and self.otherwise is None:
            raise VerifyException("results need both regions")
        for region in self.regions:
            values = yielded(region, YieldOp)
            if region.block.args:
                raise VerifyException("the regions of ptx.if take no arguments")
            _same_types("yields", values, self.out)


@irdl_op_definition
class RepeatOp(Operation):
    """`%r = ptx.repeat %init do {^bb0(%carried): … ptx.until %p, %next}`: the body runs until %p holds at its end."""

    name = "ptx.repeat"
    inits = var_operand_def(RegisterType)
    body = region_def("single_block")
    carried = var_result_def(RegisterType)
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, UntilOp):
            raise VerifyException("the body ends in ptx.until")
        if type_of(last.condition).kind != "pred":
            raise VerifyException("the condition is a predicate")
        _verify_carried(self, self.inits, self.body.block.args, last.values, self.carried)


@irdl_op_definition
class WhileOp(Operation):
    """`%r = ptx.while %init do {^bb0(%c): … ptx.proceed %p}, {^bb0(%c): … ptx.yield %next}`.

    The first region decides, the second is the body; both see the carried values. The results are what they were when
    the first region said no.
    """

    name = "ptx.while"
    inits = var_operand_def(RegisterType)
    test = region_def("single_block")
    body = region_def("single_block")
    carried = var_result_def(RegisterType)
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def verify_(self) -> None:
        last = self.test.block.last_op
        if not isinstance(last, ProceedOp):
            raise VerifyException("the first region ends in ptx.proceed")
        if type_of(last.condition).kind != "pred":
            raise VerifyException("the condition is a predicate")
        _same_types("the first region takes", self.test.block.args, self.inits)
        _verify_carried(
            self, self.inits, self.body.block.args, yielded(self.body, YieldOp), self.carried
        )


def yielded(region: Region, terminator: type[YieldOp] = YieldOp) -> Sequence[SSAValue]:
    """What a region yields: nothing, where it has no terminator."""
    last = region.block.last_op
    return last.values if isinstance(last, terminator) else ()


def _same_types(what: str, given: Sequence[SSAValue], wanted: Sequence[SSAValue]) -> None:
    left, right = _types(given), _types(wanted)
    if left != right:
        raise VerifyException(f"{what} ({_list(left)}) instead of ({_list(right)})")


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    """Types without names, which differ between one carried value and the next until `name-registers`."""
    types = [v.type for v in values]
    return [t.unnamed() if isinstance(t, RegisterType) else t for t in types]


def _list(types: Sequence[Attribute]) -> str:
    return ", ".join(str(t) for t in types)


def _verify_carried(
    op: IrOperation,
    inits: Sequence[SSAValue],
    arguments: Sequence[SSAValue],
    nexts: Sequence[SSAValue],
    results: Sequence[SSAValue],
) -> None:
    _same_types("the body takes", arguments, inits)
    _same_types("the body yields", nexts, inits)
    _same_types(f"{op.name} results in", results, inits)
