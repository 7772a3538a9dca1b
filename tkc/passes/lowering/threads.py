"""Which rows and columns of a fragment a thread holds, in each layout."""

from __future__ import annotations

from typing import Any

from tkc.diagnostics import Bug, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import FragmentLayout, FragmentType
from tkc.passes.lowering.state import Kernel

WARP_ROWS = {
    FragmentLayout.ROWS: 32, FragmentLayout.HALF_ROWS: 16, FragmentLayout.WGMMA: 16, FragmentLayout.TURNED: 32,
}  # fmt: skip
"""Rows of a fragment that one warp holds in each layout."""


def check_rows(role: s.RoleOp) -> None:
    """TK110 where the role's threads, or each warpgroup's of several, hold other rows at a time than a fragment has."""
    warps = role.warps.value.data // role.groups.value.data
    for op in role.walk():
        for value in op.results:
            type = value.type
            if not isinstance(type, FragmentType) or type.a_column:
                continue
            held = warps * WARP_ROWS[FragmentLayout(type.layout.data)]
            if type.shape[0] != held:
                raise TkcError.at(
                    "TK110",
                    f"a fragment of {type.shape[0]} rows ({type.layout.data}) in role {role.sym_name.data}, whose "
                    f"{32 * warps} threads hold {held} at a time, is not supported yet; pieces of {held} rows fit",
                    location_of(op),
                )


def thread_of_role(k: Kernel) -> Any:
    """The thread's number in its role."""
    first = 32 * k.current_role().first_warp.value.data
    return k.emit("sub", ".u32", k.thread, first) if first else k.thread


def thread_of_rows(k: Kernel) -> Any:
    """The thread's number in its role, or in its warpgroup where several split the rows."""
    groups = k.current_role().groups.value.data
    thread = thread_of_role(k)
    return thread if groups == 1 else k.bit_and(thread, k.current_role().threads // groups - 1)


def lane_row(k: Kernel) -> Any:
    """The first of the two rows of a lane in the wgmma layout; the other is 8 further."""
    return matrix_row(k, k.shift_right(k.lane, 2))


def lane_column(k: Kernel) -> Any:
    """The first of the two columns of a lane in each eight, in the wgmma layout."""
    return k.mul(k.bit_and(k.lane, 3), 2)


def rows_of_thread(k: Kernel, type: FragmentType) -> list[Any]:
    """The rows of which a thread holds a part, counted from the fragment's first."""
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            return [thread_of_rows(k)]
        case FragmentLayout.HALF_ROWS:
            return [half_row(k)]
        case FragmentLayout.WGMMA:
            row = lane_row(k)
            return [row, k.add(row, 8)]
        case FragmentLayout.TURNED:
            raise Bug("lower-stage-to-ptx", "a thread has no rows of a tile that is turned")


def half_row(k: Kernel) -> Any:
    """The row of a lane where the upper lanes hold nothing: they repeat the lower ones."""
    return matrix_row(k, k.bit_and(k.lane, 15))


def matrix_row(k: Kernel, lane_rows: Any) -> Any:
    """Rows of a warp start at 16 times its number in the warpgroup (D fragment of wgmma)."""
    return k.add(k.mul(k.bit_and(k.warp, 3), 16), lane_rows)
