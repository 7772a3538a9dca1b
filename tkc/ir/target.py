"""The target that a module carries."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import TARGETS, Target

TARGET = "tkc.target"


def target_of(module: ModuleOp) -> Target:
    """The row of the module's target; a pass that needs one runs after `set-target`."""
    name = module.attributes.get(TARGET)
    if not isinstance(name, StringAttr) or name.data not in TARGETS:
        raise TkcError.at(
            "TK119",
            f"the module has no {TARGET}",
            help="begin the pipeline with set-target{arch=NAME}",
        )
    return TARGETS[name.data]


def mix(a: str, b: str) -> bool:
    """Whether some target multiplies elements of dtypes `a` and `b`, neither with scales of its own."""
    if a == b:
        return True
    from tkc.ir.isa.mma import MMAS  # few programs mix dtypes

    return any(row.takes(a, b, d) for row in MMAS if not row.block for d in row.d)
