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
            fix="begin the pipeline with set-target{arch=NAME}",
        )
    return TARGETS[name.data]
