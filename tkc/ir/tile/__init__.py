"""The tile dialect's front door."""

from tkc.ir.tile.ops import TILE

__all__ = ["TILE"]
