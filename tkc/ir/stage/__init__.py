"""The stage dialect's front door; `scalar` alone is lighter, for those that need only scalars."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkc.ir.stage.ops import STAGE

__all__ = ["STAGE"]


def __getattr__(name: str) -> object:
    if name == "STAGE":
        from tkc.ir.stage.ops import STAGE

        return STAGE
    raise AttributeError(name)
