"""Tensor maps in global memory: those of a list's arrays, which the launch makes, and those that a kernel edits.

A kernel's own map is what an `edit` has left in a slot of `maps`; a release publishes it, an acquire by the thread that
copies makes its copies see it (PTX 9.7.9.28, 9.7.15.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Order, Proxy, Scope, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import MapsType
from tkc.ir.tile.types import TensorType


@irdl_op_definition
class MapsOp(StageOp):
    """A CTA's own tensor maps, in global memory, for arrays of the list `tensor`."""

    name = "stage.maps"
    tensor = operand_def(TensorType)
    sym_name = prop_def(StringAttr)
    maps = result_def(MapsType)
    traits = traits_def(Effects(Touch(Kind.WRITE, "maps", Space.MAP)))


@irdl_op_definition
class EditMapOp(StageOp):
    """Slot `slot` becomes the map of array `index` of the list, with `extents` on `axes` of the array, outermost 0."""

    name = "stage.edit_map"
    BY: ClassVar[By | None] = By.ONE
    maps = operand_def(MapsType)
    slot = operand_def(i32)
    index = operand_def(i32)
    extents = var_operand_def(i32)
    axes = prop_def(ArrayAttr[IntegerAttr])
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Touch(Kind.WRITE, "maps", Space.MAP)))

    def verify_(self) -> None:
        if len(self.axes) != len(self.extents):
            raise VerifyException(f"{len(self.extents)} extents for {len(self.axes)} axes")


@irdl_op_definition
class EditedOp(StageOp):
    """Array `index` of a list, whose map is in a slot."""

    name = "stage.edited"
    maps = operand_def(MapsType)
    slot = operand_def(i32)
    index = operand_def(i32)
    array = result_def(TensorType)
    traits = traits_def(Pure())


@irdl_op_definition
class ArrayOp(StageOp):
    """Array `index` of a list, whose map the launch has made."""

    name = "stage.array"
    tensor = operand_def(TensorType)
    index = operand_def(i32)
    array = result_def(TensorType)
    traits = traits_def(Pure())


@irdl_op_definition
class MapReleaseOp(StageOp):
    """Publishes this thread's edits of tensor maps (fence.proxy.tensormap::generic.release)."""

    name = "stage.map_release"
    BY: ClassVar[By | None] = By.ONE
    scope = prop_def(StringAttr)
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.TENSORMAP, Space.MAP, Scope.GPU)))


@irdl_op_definition
class MapAcquireOp(StageOp):
    """Makes copies of this CTA see the map of an array as it was published (fence.proxy.tensormap::generic.acquire)."""

    name = "stage.map_acquire"
    BY: ClassVar[By | None] = By.ONE
    array = operand_def(TensorType)
    scope = prop_def(StringAttr)
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.TENSORMAP, Space.MAP, Scope.GPU)))


def argument_of(tensor: SSAValue) -> SSAValue:
    """The kernel's argument that a tensor is, or is an array of."""
    op = tensor.owner
    if isinstance(op, ArrayOp):
        return op.tensor
    if isinstance(op, EditedOp) and isinstance(op.maps.owner, MapsOp):
        return op.maps.owner.tensor
    return tensor


def arrays_of(tensor: SSAValue) -> Iterator[SSAValue]:
    """An argument of the kernel, and the arrays that are taken of it."""
    yield tensor
    for use in tensor.uses:
        if isinstance(use.operation, ArrayOp):
            yield use.operation.array
        elif isinstance(use.operation, MapsOp):
            places = [u.operation for u in use.operation.maps.uses]
            yield from (o.array for o in places if isinstance(o, EditedOp))


MAPS = (MapsOp, EditMapOp, EditedOp, ArrayOp, MapReleaseOp, MapAcquireOp)
