"""Values in words, for messages."""

from __future__ import annotations

from typing import Any

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.conditions import Condition
from tkc.frontend.program import Constant, Product, Slice, Tensor, Tile, Transposed
from tkc.frontend.scope import Block, Index, Int
from tkc.frontend.sizes import show


def dims(tensor: Tensor) -> str:
    each = f"[{', '.join(map(show, tensor.dims[tensor.listed :]))}]"
    return f"{each} in each of {show(tensor.dims[0])}" if tensor.listed else each


def listed_values(values: tuple[Any, ...]) -> str:
    return " and ".join(describe(x) for x in values)


def describe(x: Any) -> str:
    """A value in words, for messages."""
    match x:
        case Condition():
            return "a condition"
        case Int():
            return f"the integer {show(x.size)}"
        case Constant():
            return f"the number {x.value:g}"
        case X.Spot():
            return f"an element of {x.place.tile.name}"
        case Slice() if not x.shape:
            return f"an element of {x.tensor}, {x.dtype}"
        case Slice():
            return f"a slice of {x.tensor}, {x.dtype} {list(x.shape)}"
        case Tile() if x.accumulator and x.scale is not None:
            return f"the scales {x.name}"
        case Tile() if x.operand:
            return f"the operand {x.name} in tensor memory"
        case P.Scales():
            return f"the scales of {describe(x.tile)}"
        case P.Scaled():
            return f"{describe(x.tile)} with its scales"
        case Tile():
            return f"the {'accumulator' if x.accumulator else 'shared tile'} {x.name}"
        case X.Place():
            return f"a slot of {x.tile.name}"
        case X.Barrier():
            return f"the barrier {x.name}"
        case X.Entry():
            return f"the barrier {x.barrier.name}"
        case X.Part():
            return f"a part of the block {x.block}" if x.block else f"a block of {show(x.extent)}"
        case P.Positions() | P.Beside():
            return "positions as numbers"
        case X.Identity():
            if x.which in ("unit", "units"):
                return f"the {'number' if x.which == 'unit' else 'count'} of work units"
            return f"the {x.which}'s number"
        case (
            P.Variable()
            | P.Apply()
            | X.Number()
            | X.BlockNumber()
            | X.Element()
            | X.Atomic()
            | X.Choose()
        ) if x.type == X.I32:
            return "an integer of the kernel"
        case (
            P.Variable() | P.Apply() | P.Given() | P.Held() | X.Element() | X.Atomic() | X.Choose()
        ) if x.type in X.WIDE:
            return f"a number of {x.type.dtype}"
        case P.Variable() | P.Apply() | X.Attempt() | X.Choose() if x.type == X.I1:
            return "a condition"
        case Transposed():
            return f"the transpose of {x.tile.name}"
        case Product():
            return f"a matrix product, f32 {list(x.shape)}"
        case Block():
            return f"the block {x.name}"
        case Index():
            return f"the loop's integer {x.name}"
        case Tensor() | P.Schedule() | P.Pipe():
            return f"the {type(x).__name__.lower()} {x.name}"
        case S.Role():
            return f"the role {x.name.text}"
        case _ if hasattr(x, "told"):
            return x.told
        case _:
            return f"a register value, {x.type}"
