"""`tkc check` on programs whose comments say what is wrong with them, and passes left out of real pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.__main__ import guarded, main
from tkc.diagnostics import TkcError
from tkc.driver import passes_of, run
from tkc.job import Job
from tkc.passes import OPTIONAL

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tk"))
RIGHT = """\
kernel k(A: global[f32, N]):
    # expected-error @+1 {{expected an expression}}
    x = *
# -----
# expected-error @+1 {{no role}}
kernel k(A: global[f32, N]):
    launch persistant # expected-error {{did you mean `persistent`}}
"""
WRONG = """\
# -----
kernel k(A: global[f32, N]):
    x = * # expected-warning {{expression}}
"""


def test_expected_diagnostics_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.tk"
    words = ("check", str(path), "--verify-diagnostics", "--split-input-file")
    path.write_text(RIGHT)
    assert guarded(main, words) == 0
    assert capsys.readouterr().out == ""
    path.write_text(RIGHT + WRONG)
    assert guarded(main, words) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:10: expected a warning with 'expression' on this line",
        f"{path}:10: unexpected error: unexpected `*`, expected an expression [TK101]",
    ]


def test_each_piece_of_a_file_is_checked_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.tk"
    copy = (EXAMPLES[0].parent / "tma_copy.tk").read_text(encoding="utf-8")
    path.write_text(f"{copy}# -----\n{copy}")
    assert guarded(main, ("check", str(path), "--split-input-file")) == 0
    assert capsys.readouterr().out.count("shared memory") == 2
    wrong = copy.replace("X[m, n]", "X[q, n]")
    path.write_text(f"{copy}{WRONG}# -----\n{wrong}")
    assert guarded(main, ("check", str(path), "--split-input-file")) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if "error:" in line]
    assert [line.split(" error: ")[1] for line in said[:2]] == [
        "unexpected `*`, expected an expression [TK101]",
        "unknown name `q` [TK102]",
    ]
    last = copy.count("\n") + WRONG.count("\n") + 1
    assert int(said[1].split(":")[1]) > last
    assert guarded(main, ("check", str(path), "--split-input-file", "--fix")) == 2


def test_what_follows_the_last_line_between_pieces_may_be_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = (EXAMPLES[0].parent / "tma_copy.tk").read_text(encoding="utf-8")
    path = tmp_path / "k.tk"
    for end in ("\n", "\r\n"):
        path.write_bytes(f"{copy}# -----\n{copy}# -----".replace("\n", end).encode())
        assert guarded(main, ("check", str(path), "--split-input-file")) == 0
        assert capsys.readouterr().out.count("shared memory") == 2
        path.write_bytes(f"{copy}# -----\n\n".replace("\n", end).encode())
        words = ("check", str(path), "--split-input-file", "--verify-diagnostics")
        assert guarded(main, words) == 0


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        ("set-target{arch=sm_90a}", "PTX needs what split-over-cluster and"),
        ("set-target{arch=sm_90a},place-tiles", "place-tiles needs what split-over-cluster,"),
        ("set-target{arch=sm_90a},select-swizzle,lower-pipes,place-tiles", "needs what"),
    ],
)
def test_a_given_pipeline_without_what_its_passes_need_is_no_bug_of_ours(
    passes: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    axpy = (EXAMPLES[0].parent / "axpy.tk").read_text(encoding="utf-8")
    (tmp_path / "k.tk").write_text(axpy, encoding="utf-8")
    assert guarded(main, ("compile", "k.tk", "-p", passes)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "[TK119]\nhelp: `tkc compile --print-pipeline`" in err
    assert [p.name for p in tmp_path.iterdir()] == ["k.tk"]


TARGETS = ("sm_90a", "sm_100a")
THIRDS = [
    pytest.param(
        name,
        target,
        EXAMPLES[part::3],
        marks=[] if (target, part) == (TARGETS[turn % 2], turn % 3) else [pytest.mark.soak],
    )
    for turn, name in enumerate(OPTIONAL)
    for target in TARGETS
    for part in range(3)
]
"""Each of these passes, on one target with a third of the examples; in long runs on both with all."""


@pytest.mark.parametrize(("name", "target", "examples"), THIRDS)
def test_a_pass_that_may_be_left_out_breaks_nothing(
    name: str, target: str, examples: list[Path]
) -> None:
    """Without it a program compiles, or is refused at its place. Of three examples one is asked in the suite."""
    for path in examples:
        job = Job(path.read_text(encoding="utf-8"), path.name, target, without=(name,))
        assert name not in [p.name for p in passes_of(job)]
        found: TkcError | None = None
        try:
            run(job)
        except TkcError as error:
            found = error
        assert found is None or all(d.location for d in found.diagnostics), found
