"""Which rows and columns a product takes on the tensor core."""

from __future__ import annotations

from itertools import pairwise

from tkc.analysis.roles import slot_owner
from tkc.analysis.tensor_memory import LANES
from tkc.diagnostics import Location, TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.mma import Mma, select
from tkc.ir.isa.targets import Target
from tkc.ir.locations import location_of
from tkc.ir.tile import ops as t
from tkc.ir.tile.scales import ScaledMmaOp
from tkc.ir.tile.types import AccumType, ScaleAttr, SharedType


def check_shapes(kernel: t.KernelOp, target: Target) -> None:
    """TK203 where a product has columns that none of its kind takes, before anything is said of memory for them."""
    for op in kernel.walk():
        if not isinstance(op, t.MmaOp | ScaledMmaOp):
            continue
        a, b, d = op.a.type, op.b.type, slot_owner(op.d).type
        assert isinstance(a, SharedType)
        assert isinstance(b, SharedType)
        assert isinstance(d, AccumType)
        group = 1 if op.pair is None else 2
        scaled = isinstance(a.scale, ScaleAttr)
        rows = select(
            target.features, a.dtype.data, b.dtype.data, DTYPES[d.dtype.data].ptx, group,
            block=a.scale.block.data if scaled else 0, scale=a.scale.dtype.data if scaled else "",
        )  # fmt: skip
        m = min(d.shape[0], LANES) * group
        rows = tuple(row for row in rows if m in row.m)
        if rows and not any(row.fits(m, d.shape[1]) for row in rows):
            raise no_columns(rows[0], m, d.shape[1], a.dtype.data, target, location_of(op))


def no_columns(
    row: Mma, m: int, n: int, dtype: str, target: Target, place: Location | None
) -> TkcError:
    """What a product of `m` rows takes instead of `n` columns."""
    fitting = [x for x in row.n if row.fits(m, x)]
    near = ", ".join(str(x) for x in sorted(fitting, key=lambda x: abs(x - n))[:3])
    steps = {y - x for x, y in pairwise(fitting)}
    even = f" in steps of {steps.pop()}" if len(steps) == 1 else ""
    return TkcError.at(
        "TK203",
        f"{target.name} has no {dtype} product of {m} rows and {n} columns; it takes {fitting[0]} to {fitting[-1]} "
        f"columns{even} (nearest: {near})",
        place,
    )
