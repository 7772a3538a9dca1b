"""A kernel as each kind of launch runs it: what a launch decides for good, such as `K > 0`, is no condition then.

Roles that ask the same wait and arrive under it alike, and a loop over blocks of K has a first and a last turn where
there are any. The kinds leave out none, so that what is right in each of them is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.ends_of_loops import at_the_ends, move_out
from tkc.ir.contract import from_attribute
from tkc.ir.effects import effects_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp, arith, const

Formula = tuple[Any, ...]
"""A kind and its parts: what is computed before any role begins."""
Asked = tuple[Formula, bool]
"""What a condition asks, and whether that has to hold."""

MOST = 3
"""Questions that a kernel is taken apart by."""
_TURNED = {"gt": "lt", "ge": "le"}
_CONTRARY = {"le": "lt", "ne": "eq"}


def kinds(kernel: s.KernelOp) -> Iterator[tuple[str, s.KernelOp]]:
    """What is so in a kind of launch, in words, and the kernel as it runs then; none where no launch decides anything.

    What the program asserts of a launch is so in all of them.
    """
    questions = _questions(kernel)
    sure = _asserted(kernel)
    open_ = [q for q in questions if q not in sure]
    if not questions or len(open_) > MOST:
        return
    for answers in product((True, False), repeat=len(open_)):
        of_launch = dict(zip(open_, answers, strict=True))
        so = {**sure, **of_launch}
        if _possible(so):
            yield " and ".join(_words(q, a) for q, a in of_launch.items()), _apart(kernel, so)


def _possible(so: Mapping[Formula, bool]) -> bool:
    """Whether one number is not to be both more than another and less."""
    low, high = dict[Formula, int](), dict[Formula, int]()
    for (kind, *parts), holds in so.items():
        if kind != "lt":
            continue
        a, b = parts
        if a[0] == "const":  # a < b, or b <= a
            side, value, best = (low, a[1] + 1, max) if holds else (high, a[1], min)
            side[b] = best(side.get(b, value), value)
        elif b[0] == "const":
            side, value, best = (high, b[1] - 1, min) if holds else (low, b[1], max)
            side[a] = best(side.get(a, value), value)
    return all(low[x] <= high[x] for x in low.keys() & high.keys())


def _questions(kernel: s.KernelOp) -> list[Formula]:
    found: dict[Formula, None] = {}
    for role in kernel.body.block.ops:
        if not isinstance(role, s.RoleOp):
            continue
        for op in role.walk():
            if isinstance(op, s.IfOp) and _does(op) and (asked := _asked(op.condition)) is not None:
                found[asked[0]] = None
            elif isinstance(op, s.ForOp) and at_the_ends(op):
                turns = _turns(op)
                if turns is not None:
                    found[turns] = None
    return list(found)


def _does(op: s.IfOp) -> bool:
    """Whether something stands under a condition that is more than arithmetic."""
    return any(effects_of(o) for o in op.walk())


def _turns(loop: s.ForOp) -> Formula | None:
    """The question whether a loop turns at all; None where the launch alone does not decide it."""
    if loop.stolen is not None or loop.chained is not None or _number(loop.step) != 1:
        return None
    low, high = _formula(loop.lower), _formula(loop.upper)
    return None if low is None or high is None else _plain("lt", low, high)[0]


def _asserted(kernel: s.KernelOp) -> dict[Formula, bool]:
    """What a launch is refused for if it is not so."""
    found: dict[Formula, bool] = {}
    contract = from_attribute(kernel.contract)
    for rule in contract.get("requires", []):
        test = _of_contract(rule["test"], contract.get("symbols", {}))
        if test[0] in ("lt", "eq"):
            question, holds = _plain(*test)
            found[question] = holds
    return found


def _of_contract(value: Any, symbols: Mapping[str, Any]) -> Formula:
    if isinstance(value, int):
        return "const", value
    if "sym" in value:
        return "size" if value["sym"] in symbols else "argument", value["sym"]
    kind = {"ceildiv": "cdiv", "floordiv": "div"}.get(value.get("op", ""), value.get("op", ""))
    return kind, *(_of_contract(v, symbols) for v in value.get("of", ()))


# Formulas ------------------------------------------------------------------------------------------------------------


def _number(value: SSAValue) -> int | None:
    formula = _formula(value)
    return formula[1] if formula is not None and formula[0] == "const" else None


def _formula(value: SSAValue, deep: int = 12) -> Formula | None:
    """A value that is made of sizes, arguments and constants alone; None for others."""
    op = value.owner
    if isinstance(op, Block):
        kernel = op.parent_op()
        if isinstance(kernel, s.KernelOp):
            return "argument", kernel.arg_names.data[op.args.index(value)].data  # pyright: ignore
        return None
    if isinstance(op, SizeOp):
        return "size", op.symbol.data
    if isinstance(op, ConstOp):
        return "const", op.constant.value.data
    if not isinstance(op, ArithOp) or not deep:
        return None
    parts = [p for v in op.inputs if (p := _formula(v, deep - 1)) is not None]
    if len(parts) < len(op.inputs):
        return None
    if SCALARS[op.kind.data].predicate and all(p[0] == "const" for p in parts):
        return "const", int(SCALARS[op.kind.data].of(*(p[1] for p in parts)))
    if not isinstance(
        op.inputs[0].type, IntegerType
    ):  # neither `a < b` nor `a >= b` holds of a NaN
        return f"float {op.kind.data}", *parts
    return op.kind.data, *parts


def _asked(condition: SSAValue) -> Asked | None:
    formula = _formula(condition)
    if formula is None or formula[0] == "const":
        return None
    return _plain(*formula)


def _plain(kind: Any, *parts: Any) -> Asked:
    """A comparison as `less than`, or `equal`, or the contrary of one: equal for those that ask the same."""
    if kind == "xor" and ("const", 1) in parts:
        other = parts[0] if parts[1] == ("const", 1) else parts[1]
        asked, holds = _plain(*other)
        return asked, not holds
    if kind in _TURNED:
        kind, parts = _TURNED[kind], parts[::-1]
    holds = True
    if kind == "le":
        kind, parts, holds = "lt", parts[::-1], False
    elif kind == "ne":
        kind, holds = "eq", False
    if kind == "lt" and parts[1] == ("const", 1):  # x < 1: not 0 < x
        parts, holds = (("const", 0), parts[0]), not holds
    if kind == "eq" and ("const", 0) in parts and _counts(other := parts[parts[0] == ("const", 0)]):
        kind, parts, holds = "lt", (("const", 0), other), not holds
    if kind == "lt" and parts[0] == ("const", 0):
        parts = parts[0], _divided(parts[1])
    return (kind, *parts), holds


def _counts(formula: Formula) -> bool:
    """Whether something is never below zero: an extent of a tensor, or how many blocks it has; of an argument that is
    not known."""
    return _divided(formula)[0] == "size"


def _divided(formula: Formula) -> Formula:
    """What blocks of an extent are of: there are some where it is more than 0. Of an argument, which may be negative,
    there may be any number."""
    whole = formula
    while whole[0] == "cdiv" and whole[2][0] == "const" and whole[2][1] > 0:
        whole = whole[1]
    return whole if whole[0] == "size" else formula


_SIGNS = {
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "lt": "<",
    "eq": "==",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "//",
    "mod": "%",
}


def _words(question: Formula, holds: bool) -> str:
    kind, *parts = question
    if kind == "lt" and parts[0] == ("const", 0):
        none = "=" if _counts(parts[1]) else "<="
        return f"{_written(parts[1])} {'>' if holds else none} 0"
    sign = {"lt": ("<", ">="), "eq": ("==", "!=")}.get(kind)
    if sign is not None and parts[0][0] == "const":
        sign, parts = {"lt": (">", "<="), "eq": ("==", "!=")}[kind], parts[::-1]
    if sign is not None:
        return f"{_written(parts[0])} {sign[not holds]} {_written(parts[1])}"
    return f"{'' if holds else 'not '}{_written(question)}"


def _written(formula: Formula) -> str:
    kind, *parts = formula
    kind = kind.removeprefix("float ")
    if kind in ("size", "argument", "const"):
        return str(parts[0])
    if kind in _SIGNS and len(parts) == 2:
        return f"({_written(parts[0])} {_SIGNS[kind]} {_written(parts[1])})"
    return f"{kind}({', '.join(_written(p) for p in parts)})"


# Taking apart --------------------------------------------------------------------------------------------------------


def _apart(kernel: s.KernelOp, known: Mapping[Formula, bool]) -> s.KernelOp:
    """A copy of a kernel in which what is known is no question."""
    made = kernel.clone()
    for role in [op for op in made.body.block.ops if isinstance(op, s.RoleOp)]:
        for op in [*role.walk()]:
            if op.parent is None:  # it went with what stood round it
                continue
            if isinstance(op, s.IfOp):
                asked = _asked(op.condition)
                if asked is not None and asked[0] in known:
                    _take(op, known[asked[0]] is asked[1])
            elif isinstance(op, s.ForOp):
                turns = _turns(op)
                if turns is not None and turns in known:
                    _turn(op, known[turns])
        for op in [o for o in role.walk() if isinstance(o, s.ForOp)]:
            turns = _turns_once(op)
            if turns is not None and known.get(turns):
                move_out(op)
    return made


def _turns_once(loop: s.ForOp) -> Formula | None:
    """The question that `_turn` has answered: its bound is at least 1 now."""
    upper = loop.upper.owner
    if isinstance(upper, ArithOp) and upper.kind.data == "max":
        low, high = _formula(loop.lower), _formula(upper.inputs[0])
        if low is not None and high is not None:
            return _plain("lt", low, high)[0]
    return None


def _take(op: s.IfOp, holds: bool) -> None:
    """What a condition leads to, in its place."""
    region = op.then if holds else op.otherwise
    block = op.parent
    assert block is not None
    handed: list[SSAValue] = []
    if region is not None and region.blocks:
        for inner in [*region.block.ops]:
            inner.detach()
            if isinstance(inner, s.YieldOp):
                handed = list(inner.operands)
                inner.erase()
            else:
                block.insert_op_before(inner, op)
    _instead(op, handed)


def _turn(loop: s.ForOp, turns: bool) -> None:
    """A loop that turns at least once, or never."""
    block = loop.parent
    assert block is not None
    if not turns:
        _instead(loop, list(loop.inits))
    elif _number(loop.lower) == 0:
        one = const(1)
        least = arith("max", loop.upper, one.value)
        block.insert_ops_before([one, least], loop)
        loop.operands[1] = least.results[0]


def _instead(op: Operation, values: list[SSAValue]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
