"""Kernels that may start before the grid ahead has ended: where they wait for it, and let the next one start."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from passes.programs import run
from programs import EXAMPLES, GEMM, changed
from xdsl.dialects.builtin import ModuleOp

import tkc
from tkc.__main__ import guarded, main
from tkc.frontend import compile_source
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import GridLaunchOp, GridWaitOp
from tkc.passes import pipeline

DEPENDENT = changed(GEMM, ("launch persistent", "launch persistent, dependent"))
ALPHA = changed(
    DEPENDENT,
    ("C: global[bf16, M, N])", "C: global[bf16, M, N], alpha: global[f32])"),
    ("bf16(read(d))", "bf16(read(d) * alpha)"),
)


def ordered(text: str, target: str) -> ModuleOp:
    names = pipeline(target).split(",")
    return run(compile_source(text, "k.tk"), *names[: names.index("order-grids") + 1])


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_each_role_waits_before_it_touches_global_memory(target: str) -> None:
    """The one that copies in, before its loop; the one that copies out; none that does neither."""
    roles = [o for o in ordered(DEPENDENT, target).walk() if isinstance(o, s.RoleOp)]
    waits = {r.sym_name.data: [type(o) for o in r.body.block.ops] for r in roles}
    assert waits["load"].index(GridWaitOp) + 1 == waits["load"].index(s.ForOp)
    assert waits["load"][-1] is GridLaunchOp
    for name, ops in waits.items():
        copies_out = name in ("store", "math") and target == "sm_90a"
        assert (GridWaitOp in ops) is (name in ("load", "store") or copies_out)
        assert (GridLaunchOp in ops) is (name == "load")


def test_a_number_in_memory_is_read_behind_the_wait() -> None:
    text = tkc.compile(ALPHA, target="sm_100a").ptx
    wait = text.index("griddepcontrol.wait", text.index("griddepcontrol.wait") + 1)
    assert wait < text.index("ld.global.f32") < text.index("tcgen05.ld")
    assert text.count("ld.global.f32") == 1


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_nothing_is_found_and_without_the_waits_it_is(target: str, tmp_path: Path) -> None:
    file = tmp_path / "k.tk"
    file.write_text(ALPHA)
    told = io.StringIO()
    with redirect_stdout(told):
        assert guarded(main, ("check", str(file), "--target", target)) == 0
    file.write_text(changed(ALPHA, ("role load:\n", "role load:\n        arrive pdl\n")))
    with redirect_stdout(told):  # who says when the next grid starts says when it waits
        assert guarded(main, ("check", str(file), "--target", target)) == 1
    assert "TK318" in told.getvalue()


def test_maps_are_asked_for_before_the_wait() -> None:
    text = tkc.compile(EXAMPLES / "gemm_bf16_clc.tk").ptx
    assert text.count("prefetch.tensormap") == 3
    assert text.rindex("prefetch.tensormap") < text.index("mbarrier.init")
    assert "prefetch.tensormap" not in tkc.compile(GEMM, target="sm_100a").ptx


def test_what_the_program_says_stays() -> None:
    text = changed(DEPENDENT, ("role load:\n", "role load:\n        wait pdl\n"))
    waits = [o for o in ordered(text, "sm_100a").walk() if isinstance(o, GridWaitOp | GridLaunchOp)]
    assert [w.id.data for w in waits] == ["load.user.pdl.wait"]
