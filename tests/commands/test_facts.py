"""`tkc facts`: rows of targets and instructions."""

from __future__ import annotations

import pytest

from tkc.__main__ import guarded, main
from tkc.commands.facts import _sizes, find
from tkc.ir.isa.instructions import all_rows


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert guarded(main, ("facts", *words)) == 0
    return capsys.readouterr().out


def test_without_a_subject_there_is_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    out = facts(capsys)
    assert "sm_107a" in out
    assert "tcgen05" in out


def test_a_target_is_told_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    out = facts(capsys, "sm_90a")
    assert "232,448 bytes" in out
    assert "wgmma" in out
    assert "tcgen05.f16" not in out
    assert "on(sm_90)" in out
    assert "on(sm_107), on(sm_103), on(sm_100)" in facts(capsys, "sm_107a")


def test_an_instruction_is_told_with_its_modifiers(capsys: pytest.CaptureFixture[str]) -> None:
    out = facts(capsys, "wgmma.commit_group")
    assert "sm_90a" in out
    assert "sm_100a" not in out


def test_a_family_is_told_as_a_list() -> None:
    rows = all_rows()
    assert {r.name for r in find("mbarrier.arrive", rows)} > {
        "mbarrier.arrive",
        "mbarrier.arrive.expect_tx",
    }
    assert [r.name for r in find("setmaxnreg", rows)] == ["setmaxnreg"]
    assert any(r.name.startswith("cp.async.bulk") for r in find("bulk.tensor", rows))


def test_a_wrong_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(main, ("facts", "sm_90b")) == 2
    assert "did you mean sm_90" in capsys.readouterr().err
    assert guarded(main, ("facts", "e4m3")) == 2
    err = capsys.readouterr().err
    assert "e4m3 is a dtype" in err
    assert "did you mean" not in err


def test_every_row_can_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("tcgen05.fence::before_thread_sync", "ld", "cvt", *list(all_rows())[::40]):
        assert name.split(".")[0] in facts(capsys, name)


def test_sizes_in_steps_are_short() -> None:
    assert _sizes((8, 16, 24, 32)) == "8 … 32 by 8"
    assert _sizes((64, 128)) == "64 128"
    assert _sizes((8, 16, 24, 48)) == "8 16 24 48"
