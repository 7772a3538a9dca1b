"""Targets: what an instruction needs, at its place, each complaint once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tkc.diagnostics import Bug, Location, TargetError, TkcError
from tkc.ir.isa.targets import TARGETS
from tkc.ir.locations import file_location
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.target import TARGET
from tkc.passes.check_target import CheckTargetPass


def check(target: str, fill: Callable[[Emit], object]) -> ModuleOp:
    op, emit = kernel("k", reqntid=32)
    emit.location = file_location("k.tk", 3, 5)
    fill(emit)
    module = ModuleOp([op], {TARGET: StringAttr(target)})
    before = str(module)
    CheckTargetPass().apply(Context(), module)
    assert str(module) == before
    return module


def test_a_feature_that_the_target_lacks() -> None:
    with pytest.raises(TargetError) as caught:
        check("sm_90a", lambda e: e("tcgen05.relinquish_alloc_permit", ".cta_group::1"))
    (found,) = caught.value.diagnostics
    assert found.code == "TK202"
    assert found.location == Location("k.tk", 3, 5)
    assert found.message == (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned needs tcgen05 and tensor memory, "
        "which sm_90a has not"
    )
    assert found.notes[0].message == (
        "targets that have it: sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a"
    )


def test_a_modifier_that_the_target_lacks() -> None:
    def fill(emit: Emit) -> None:
        emit("ld.vec", ".global.v8.b32", emit.undef("b64"))

    check("sm_100a", fill)
    with pytest.raises(TargetError, match="256-bit global loads"):
        check("sm_90a", fill)
    check("sm_90a", lambda e: e("ld.vec", ".global.v4.b32", e.undef("b64")))


@pytest.mark.parametrize("target", TARGETS)
def test_exactly_the_targets_with_the_feature(target: str) -> None:
    def fill(emit: Emit) -> None:
        emit("wgmma.fence")

    if target == "sm_90a":
        check(target, fill)
    else:
        with pytest.raises(TargetError):
            check(target, fill)


def test_all_complaints_in_one_run_and_none_twice() -> None:
    def fill(emit: Emit) -> None:
        emit("wgmma.fence")
        emit("wgmma.fence")
        emit("wgmma.commit_group")
        emit.location = file_location("k.tk", 4, 1)
        emit.if_(emit.undef("pred"), lambda: emit("wgmma.fence"))

    with pytest.raises(TargetError) as caught:
        check("sm_100a", fill)
    found = [(d.message.split()[0], d.location) for d in caught.value.diagnostics]
    assert found == [
        ("wgmma.fence.sync.aligned", Location("k.tk", 3, 5)),
        ("wgmma.commit_group.sync.aligned", Location("k.tk", 3, 5)),
        ("wgmma.fence.sync.aligned", Location("k.tk", 4, 1)),
    ]


def test_what_nobody_has_says_so() -> None:
    from dataclasses import replace

    from tkc.passes.check_target import rejection

    op, emit = kernel("k", reqntid=32)
    emit("wgmma.fence")
    inner = op.body.block.first_op
    needs = frozenset().union(*(t.features for t in TARGETS.values()))
    found = rejection(inner, replace(inner.spelling, needs=needs), TARGETS["sm_90a"])  # pyright: ignore
    assert found is not None
    assert found.notes[0].message == "targets that have it: none"


def test_an_illegal_spelling_is_a_bug() -> None:
    def fill(emit: Emit) -> None:
        emit.add(".u32", 1, 2)
        last = emit.block.last_op
        assert last is not None
        last.properties["type"] = StringAttr(".q")

    with pytest.raises(Bug, match=r"ptx\.add: add has no type \.q"):
        check("sm_90a", fill)


def test_a_module_without_a_target_is_refused() -> None:
    with pytest.raises(TkcError, match="set-target"):
        CheckTargetPass().apply(Context(), ModuleOp([]))
