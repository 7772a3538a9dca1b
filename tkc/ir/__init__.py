"""What programs are: every dialect by name, loaded when it is first met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Dialect


def _builtin() -> Dialect:
    from xdsl.dialects.builtin import Builtin

    return Builtin


def _tile() -> Dialect:
    from tkc.ir.tile import TILE

    return TILE


def _stage() -> Dialect:
    from tkc.ir.stage import STAGE

    return STAGE


def _ptx() -> Dialect:
    from tkc.ir.ptx.dialect import PTX

    return PTX


DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "builtin": _builtin,
    "tile": _tile,
    "stage": _stage,
    "ptx": _ptx,
}


def context() -> Context:
    """A context that knows every dialect and has loaded none but `builtin`."""
    from xdsl.context import Context

    made = Context()
    for name, load in DIALECTS.items():
        made.register_dialect(name, load)
    made.load_registered_dialect("builtin")
    return made
