"""A stand-in for the rooms below the driver: a front end, passes and a printer that only mark a module.

With it the driver's own behaviour (order, blame, reproducers, dumps) is tested apart from what the compiler makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.passes import ModulePass

from tkc.diagnostics import Diagnostic, Location, Severity, TkcError, report
from tkc.ir.locations import file_location


@dataclass(frozen=True)
class Mark(ModulePass):
    """Appends a module of its own name, at the place of the outer one."""

    name = "mark"
    times: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _ in range(self.times):
            inner = ModuleOp([], sym_name=StringAttr(f"mark{len(op.ops)}"))
            inner.location = op.location
            op.body.block.add_op(inner)


@dataclass(frozen=True)
class Nothing(ModulePass):
    """Changes nothing."""

    name = "nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class Refuse(ModulePass):
    """Finds the user's program wrong."""

    name = "refuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise TkcError.at("TK204", "tiles need 300 bytes, a CTA has 200", Location("k.tk", 2, 5))


@dataclass(frozen=True)
class Warn(ModulePass):
    """Has something to say and goes on."""

    name = "warn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report(Diagnostic("TK211", "something is odd", Location("k.tk", 1, 1), Severity.WARNING))


@dataclass(frozen=True)
class Break(ModulePass):
    """Makes half a change, then fails as no pass should."""

    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["half"] = StringAttr("done")
        raise KeyError("no such thing")


@dataclass(frozen=True)
class Spoil(ModulePass):
    """Leaves a module that does not verify."""

    name = "spoil"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.properties["nonsense"] = IntegerAttr(1, i32)


PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    p.name: (lambda p=p: p) for p in (Mark, Nothing, Refuse, Warn, Break, Spoil)
}

CONTRACT = {"kernels": [{"entry": "k", "target": "sm_100a"}]}


def front_end(
    text: str,
    file: str,
    *,
    params: dict[str, int] | None,
    kernel: str | None,
    search: tuple[str, ...] = (),
    target: str | None = None,
) -> ModuleOp:
    if "crash" in text:
        raise RuntimeError("front end is broken")
    if "wrong" in text:
        raise TkcError.at("TK102", "unknown name wrong", Location(file, 1, 1, 6))
    module = ModuleOp(
        [],
        {"text": StringAttr(text), **{k: IntegerAttr(v, i32) for k, v in (params or {}).items()}},
    )
    module.location = file_location(file, 1, 1)
    return module


def print_ptx(module: ModuleOp) -> str:
    if "unprintable" in module.attributes["text"].data:
        raise AssertionError("no name for %r1")
    return f"// {len(list(module.walk()))} modules from {module.location}\n"


def install(monkeypatch: pytest.MonkeyPatch, pipeline: str = "mark,nothing,mark{times=2}") -> None:
    """Puts the stand-ins where the driver looks for the rooms."""

    def contract_of(module: ModuleOp, ptx: str, **versions: Any) -> dict[str, Any]:
        return CONTRACT

    monkeypatch.setattr("tkc.frontend.compile_source", front_end, raising=False)
    monkeypatch.setattr("tkc.passes.PASSES", PASSES)
    monkeypatch.setattr("tkc.passes.pipeline", lambda target, *how: pipeline)
    monkeypatch.setattr("tkc.backend.ptx_text.print_ptx", print_ptx)
    monkeypatch.setattr("tkc.backend.package.contract_of", contract_of)
    monkeypatch.setattr("tkc.backend.package.check_kernel", lambda kernel, path="": None)
