"""A compiler from a tile language to PTX: this module is the public API, loaded on first use.

`compile(source, …) -> Kernel`, `load(path) -> Kernel`, `emulate(ptx, …) -> Report`, `Kernel`, `TensorMap`, `TARGETS`,
`TkcError`, and the module `scales`. Loading and launching a packaged kernel imports neither xdsl nor lark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tkc.version import __version__ as __version__

if TYPE_CHECKING:
    from tkc import scales as scales
    from tkc.diagnostics import TkcError as TkcError
    from tkc.driver import compile as compile
    from tkc.emulator import TensorMap as TensorMap
    from tkc.emulator import emulate as emulate
    from tkc.ir.isa.targets import TARGETS as TARGETS
    from tkc.kernel import Kernel as Kernel
    from tkc.kernel import load as load

_HOME = {
    "TARGETS": "tkc.ir.isa.targets",
    "Kernel": "tkc.kernel",
    "TensorMap": "tkc.emulator",
    "TkcError": "tkc.diagnostics",
    "compile": "tkc.driver",
    "emulate": "tkc.emulator",
    "load": "tkc.kernel",
}
"""Where each public name lives."""

_MODULES = ("scales",)
"""Public modules, which `import tkc` alone is to be enough for."""

__all__ = [
    "TARGETS",
    "Kernel",
    "TensorMap",
    "TkcError",
    "compile",
    "emulate",
    "load",
    "scales",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"tkc.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tkc' has no attribute {name!r}")
    module = import_module(home)
    value = getattr(module, name, None)
    if value is None:
        from tkc.diagnostics import TkcError

        raise TkcError.at("TK110", f"this version of tkc has no {name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
