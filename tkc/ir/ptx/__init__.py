"""The PTX dialect's front door; what is behind it is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "registers": ("RegisterType", "reg", "retype", "type_of"),
    "instruction": ("Instruction", "instruction"),
    "values": ("ImmOp", "SliceOp", "UndefOp", "root"),
    "control": ("ForOp", "IfOp", "ProceedOp", "RepeatOp", "UntilOp", "WhileOp", "YieldOp"),
    "kernel": ("KernelOp", "ParamAddressOp", "ParamOp", "SharedBaseOp", "SpecialOp"),
    "emit": ("At", "Emit", "kernel"),
    "dialect": ("PTX",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"tkc.ir.ptx has no {name}")
    return getattr(import_module(f"tkc.ir.ptx.{_HOME[name]}"), name)
