"""Every pass by name, and the pipelines as lines of names; a pass is loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


def _loader(name: str) -> Callable[[], type[ModulePass]]:
    """`lower-pipes` is `LowerPipesPass` in `lower_pipes.py`."""

    def load() -> type[ModulePass]:
        module = import_module(f"tkc.passes.{name.replace('-', '_')}")
        return getattr(module, "".join(part.capitalize() for part in name.split("-")) + "Pass")

    return load


_ORDER = (
    "split-over-cluster",
    "order-stores",
    "select-swizzle",
    "place-tiles",
    "fuse-roles",
    "cothread-copies",
    "lower-schedules",
    "edit-maps",
    "order-grids",
    "lower-pipes",
    "assign-shared",
    "insert-fences",
    "refuse-hangs",
    "prove-ownership",
    "eliminate-fences",
    "elect-single-thread",
    "assign-tensor-memory",
    "assign-registers",
    "lower-stage-to-ptx",
    "name-registers",
    "check-target",
)
"""The order; each pass's own first lines say why it stands where it stands."""

PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    name: _loader(name) for name in ("set-target", *_ORDER)
}


REQUIRED = frozenset(
    {
        "set-target", "split-over-cluster", "order-stores", "select-swizzle", "place-tiles", "lower-schedules",
        "edit-maps", "order-grids",
        "lower-pipes", "prove-ownership",
        "elect-single-thread", "assign-shared", "assign-tensor-memory", "assign-registers", "lower-stage-to-ptx",
        "name-registers",
    }
)  # fmt: skip
"""Passes whose work the ones after them need, or without which every thread would do what one must."""

OPTIONAL = tuple(name for name in _ORDER if name not in REQUIRED)
"""Passes that `--no-PASS` leaves out."""


ELIMINATE, LOWER = "eliminate-fences", "lower-stage-to-ptx"


def pipeline(
    target: str,
    fences: str = "minimal",
    model: str = "practice",
    trap_hangs: int | None = None,
) -> str:
    """The whole way from the tile level to named PTX, in xDSL's pipeline syntax.

    `fences`: `conservative` leaves all fences in place, `as-written` a program's own; `model`: what proofs may rest on;
    `trap_hangs`: after how many ns waits for mbarriers give up.
    """
    options = [o for o in (f"fences={fences}", f"model={model}") if o not in _USUAL]
    eliminate = ELIMINATE + (f"{{{' '.join(options)}}}" if options else "")
    order = [
        eliminate if p == ELIMINATE else p
        for p in _ORDER
        if p != ELIMINATE or fences != "conservative"
    ]
    if trap_hangs is not None:
        order = [f"{LOWER}{{trap-hangs={trap_hangs}}}" if p == LOWER else p for p in order]
    return ",".join((f"set-target{{arch={target}}}", *order))


_USUAL = ("fences=minimal", "model=practice")
