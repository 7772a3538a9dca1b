"""`tkc emulate`: what it runs, what it reports, how, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulate_command import (
    COPY,
    GEMM,
    GROUPED,
    LAUNCH,
    SCALE_WORDS,
    WORDS,
    document,
    emulate,
    one_error,
    write_texts,
)
from small_ptx import HANG, SCALE, TWO

import tkc
import tkc.emulator
from tkc import arguments
from tkc.diagnostics import Severity
from tkc.emulator import Finding
from tkc.emulator.machine import SCHEDULES, Machine
from tkc.ir.isa.assumptions import MODELS


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path)


def save_product(path: str) -> None:
    a, b = arguments.random((72, 40), "bf16", 1), arguments.random((80, 40), "bf16", 2)
    np.save(path, a.astype(np.float64) @ b.astype(np.float64).T)


# Our own kernels


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_source_is_compiled_run_and_compared(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_product("ref.npy")
    more = ("--expect", "C=ref.npy", "--out", "C=c.npy")
    assert emulate(GEMM, "-D", "BN=64", "--target", target, *WORDS, *more) == 0
    out, err = capsys.readouterr()
    assert out.startswith("C: relative error 0.00")
    assert out.splitlines()[1].startswith("gemm: 2 CTAs, ")
    assert out.endswith(", nothing found\n")
    assert err == ""
    assert arguments.load("c.npy", "bf16").dtype == ml_dtypes.bfloat16
    assert emulate(GEMM, "-D", "BN=64", "A=random(72,40,seed=9)", *WORDS[1:], *more) == 1
    out, err = capsys.readouterr()
    assert "[TK413]" in err
    assert out.endswith(", 1 error\n")


def test_lists_of_arrays_are_run_saved_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        GROUPED,
        "-D",
        "BN=64",
        "--sm-count",
        "2",
        "B=random(2,72,40)",
        "C=[empty(3,72),empty(0,72)]",
    )
    unequal = ("rows=[3,0]", "A=[random(3,40,seed=1),random(0,40)]")
    assert (
        emulate(*words, *unequal, "--out", "C=c.npz", "--out", "A=a.npz", "--out", "B=b.npz") == 0
    )
    a, b, c = (arguments.load_list(f"{name}.npz", "bf16") for name in "abc")
    assert [x.shape for x in c] == [(3, 72), (0, 72)]
    wanted = a[0].astype(np.float64) @ b[0].astype(np.float64).T
    assert np.linalg.norm(c[0].astype(np.float64) - wanted) <= 4e-3 * np.linalg.norm(wanted)
    files = ("rows=[3,0]", "A=a.npz", "--expect", "C=c.npz", "--rtol", "0")
    capsys.readouterr()
    assert emulate(*words, *files) == 0
    assert "C: relative error at most 0 (<= 0) in 2 arrays\n" in capsys.readouterr().out
    assert (
        emulate(*words, "rows=[2,0]", "A=a.npz", "--out", "C=c.npz") == 0
    )  # the last row is not written
    assert np.isnan(arguments.load_list("c.npz", "bf16")[0].astype(np.float64)[2:]).all()
    assert emulate(*words, *files) == 1
    one_error(capsys.readouterr().err, "C[0]: ", "1 of 2 arrays differ [TK413]")


def test_a_list_of_the_wrong_rank_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    words = (GROUPED, "-D", "BN=64", "rows=[3,3]", "B=random(2,72,40)", "C=empty(2,3,72)")
    assert emulate(*words, "A=random(6,40)") == 1
    one_error(capsys.readouterr().err, "found one array of shape (6, 40), expected one of rank 3")
    assert emulate(*words, "A=[random(3,40),random(40),random(1,1,1)]") == 1
    one_error(capsys.readouterr().err, "A[1] has rank 1", "1 more of its arrays")
    assert emulate(*words, "A=random(2,3,40)", "--out", "C=c.npy") == 1
    one_error(capsys.readouterr().err, "C is a list of arrays", "help: --out C=c.npz")


def test_a_package_and_an_edited_text_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    tkc.compile(Path(COPY)).save(".")
    words = ("X=random(40,24,seed=1)", "Y=empty(40,24)", "--out", "X=x.npy")
    assert emulate("tma_copy.json", *words) == 0
    compare = (*words, "--expect", "Y=x.npy", "--rtol", "0")
    assert emulate("tma_copy.ptx", "--launch", "tma_copy.json", *compare) == 0
    text = Path("tma_copy.ptx").read_text()
    Path("edited.ptx").write_text(text.replace("cp.async.bulk.tensor.2d.global", "// "))
    capsys.readouterr()
    assert emulate("edited.ptx", "--launch", "tma_copy.json", *compare) == 1
    assert "[TK413]" in capsys.readouterr().err


def test_the_size_of_the_gpu_makes_the_grid(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("X=random(300,24)", "Y=empty(300,24)", "--format", "json")
    for count in (1, 2):
        assert emulate(COPY, "--sm-count", str(count), *words) == 0
        assert document(capsys)["emulation"]["grid"] == [count, 1, 1]


def test_an_empty_launch_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(COPY, "X=random(0,24)", "Y=empty(0,24)") == 0
    assert capsys.readouterr().out == "tma_copy: a size is 0, nothing to launch\n"


def test_what_was_never_written_is_found_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(COPY, "X=empty(40,24)", "Y=empty(40,24)") == 1
    err = capsys.readouterr().err
    assert f"{COPY}:19:17: error: uninitialised shared memory is stored" in err
    assert "                Y[m, n] <- t\n" in err
    assert "<ptx>:" in err
    assert ": note: the PTX instruction\n        cp.async.bulk.tensor" in err
    assert "[TK320]" in err


# How it runs


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_can_be_asked_for(schedule: str) -> None:
    words = ("X=random(40,24,seed=1)", "Y=empty(40,24)", "--schedule", schedule, "--seed", "7")
    assert emulate(COPY, *words, "--out", "X=x.npy", "--out", f"Y={schedule}.npy") == 0
    assert (arguments.load("x.npy", "u16") == arguments.load(f"{schedule}.npy", "u16")).all()


def test_the_help_names_every_schedule_and_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    for word in (*SCHEDULES, *MODELS):
        assert word in said


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--schedule", "egaer"), "no schedule is called egaer; did you mean eager?"),
        (("--model", "strikt"), "did you mean strict?"),
        (("--grid", "0"), "expected one to three positive numbers"),
        (("--grid", "1,2,3,4"), "expected one to three positive numbers"),
        (("--block", "a"), "expected one to three positive numbers"),
        (("--max-steps", "0"), "--max-steps"),
        (("--sm-count", "0"), "--sm-count"),
        (("--shared-bytes", "-1"), "--shared-bytes"),
        (("--target", "sm_90a"), "--target is for a .tk source; scale.ptx is compiled already"),
        (("-D", "BM=1"), "-D is for a .tk source"),
        (("--dump", "d"), "--dump is for a .tk source"),
        ((), "scale.ptx does not say how it is launched; give --launch FILE.json, or --grid"),
    ],
)
def test_wrong_usage(
    option: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("scale.ptx", *option) == 2
    assert says in capsys.readouterr().err


def test_a_contract_says_the_launch_itself(capsys: pytest.CaptureFixture[str]) -> None:
    tkc.compile(Path(COPY)).save(".")
    for words in ((COPY,), ("tma_copy.json",), ("tma_copy.ptx", "--launch", "tma_copy.json")):
        assert emulate(*words, "--grid", "1") == 2
        assert "--grid is for a PTX text alone" in capsys.readouterr().err
    assert emulate("tma_copy.ptx", "--block", "64") == 2
    assert "tma_copy.json lies beside it" in capsys.readouterr().err


def test_a_launch_that_takes_too_long_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("loop.ptx", "--grid", "1", "o=i32:zeros(1)", "--max-steps", "100") == 1
    out, err = capsys.readouterr()
    assert "error: the launch has not ended after 100 steps [TK415]" in err
    assert " steps before it was stopped, 1 error\n" in out


def test_results_are_not_compared_before_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("ref.npy", np.full(1, -1))
    words = ("o=i32:zeros(1)", "--max-steps", "100", "--expect", "o=ref.npy", "--out", "o=o.npy")
    assert emulate("loop.ptx", "--grid", "1", *words) == 1
    assert "[TK413]" not in capsys.readouterr().err
    assert np.load("o.npy")[0] > 0


def test_ctrl_c_reports_what_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admit, admitted = Machine._admit, []

    def interrupted(machine: Machine) -> bool:
        admitted.append(machine)
        if len(admitted) == 3:
            raise KeyboardInterrupt
        return admit(machine)

    monkeypatch.setattr(Machine, "_admit", interrupted)
    words = ("--grid", "4", *SCALE_WORDS, "--stats", "--trace", "t.json", "--format", "json")
    assert emulate("scale.ptx", *words) == 1
    found = document(capsys)
    (diagnostic,) = found["diagnostics"]
    assert diagnostic["code"] == "TK419"
    assert "with 2 of 4 CTAs done" in diagnostic["message"]
    assert not found["emulation"]["ended"]
    assert found["emulation"]["stats"]["bytes.threads.global.read"] == 400
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_ctrl_c_without_a_watch_is_python_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(machine: Machine) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "_admit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tkc.emulate(TWO, entry="first", grid=1, block=32, args=[])


# What it says


def test_a_hang_is_found_where_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("hang.ptx", "--grid", "1") == 1
    out, err = capsys.readouterr()
    line = HANG.splitlines().index(next(t for t in HANG.splitlines() if "try_wait" in t)) + 1
    assert err.startswith(f"hang.ptx:{line}: error: ")
    assert "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;" in err
    assert "[TK314]" in err
    assert "before it was stopped, 1 error" in out


def test_a_finding_stands_at_the_source_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("x=f32:random(32)", *SCALE_WORDS[1:])
    assert emulate("scale.ptx", *LAUNCH, *words) == 1
    err = capsys.readouterr().err
    line = SCALE.splitlines().index("    ld.global.f32 %f2, [%rd1];") + 1
    assert err.startswith("scale.tk:2:5: error: ld.global.f32 of 4 bytes at global address")
    assert "\n        y <- x * factor\n        ^\n" in err
    assert f"scale.ptx:{line}: note: the PTX instruction\n        ld.global.f32 %f2, [%rd1];" in err
    assert "[TK321]" in err


def test_findings_as_json_and_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("scale.ptx", *LAUNCH, "x=f32:random(32)", *SCALE_WORDS[1:])
    assert emulate(*words, "--format", "json") == 1
    found = document(capsys)
    assert found["schema"] == "tkc-diagnostics/1"
    (diagnostic,) = found["diagnostics"]
    assert diagnostic["location"] == {"file": "scale.tk", "line": 2, "column": 5}
    assert diagnostic["notes"][0]["location"]["file"] == "scale.ptx"
    emulation = found["emulation"]
    assert (emulation["entry"], emulation["grid"], emulation["block"]) == ("scale", [2], [64])
    assert emulate(*words, "--format", "sarif") == 1
    (run,) = document(capsys)["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "TK321"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_warnings_are_errors_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tkc.emulator.emulate

    def warn(*words: Any, **more: Any) -> Any:
        report = run(*words, **more)
        report.warnings.append(Finding("TK324", "work is in flight", 9, severity=Severity.WARNING))
        return report

    monkeypatch.setattr("tkc.emulator.emulate", warn)
    words = ("scale.ptx", *LAUNCH, *SCALE_WORDS)
    assert emulate(*words) == 0
    out, err = capsys.readouterr()
    assert "scale.ptx:9: warning: work is in flight [TK324]" in err
    assert out.endswith(", 1 warning\n")
    assert emulate(*words, "-Werror") == 1
    assert "scale.ptx:9: error: work is in flight [TK324]" in capsys.readouterr().err


def test_statistics_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("X=random(40,24)", "Y=empty(40,24)", "--stats")
    assert emulate(COPY, "--target", "sm_90a", *words) == 0
    out = capsys.readouterr().out
    for title in ("instructions of warps", "bytes", "waits", "fences", "roles"):
        assert f"\n{title} " in f"\n{out}"
    rows = {cells[1]: cells[2:-1] for line in out.splitlines() if len(cells := cells_of(line)) > 2}
    assert rows["tma.load"] == ["16,384"]
    assert rows["tma.store"] == ["16,384"]
    assert {"load", "store"} <= set(rows)
    assert int(rows["mbarrier.try_wait.parity"][0]) >= 1


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("│")]


def test_statistics_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("scale.ptx", *LAUNCH, *SCALE_WORDS, "--stats", "--format", "json")
    assert emulate(*words) == 0
    emulation = document(capsys)["emulation"]
    assert emulation["stats"]["bytes.threads.global.read"] == 400
    assert emulation["stats"]["bytes.threads.global.write"] == 400
    assert [row["warps"] for row in emulation["warps"]] == [[0], [1]]
    # 8 instructions before the guarded ret, 7 after it, in 4 warps; a part of the last warp takes the ret.
    assert sum(row["instructions"] for row in emulation["warps"]) == 4 * (8 + 7) + 1
    assert sum(v for k, v in emulation["stats"].items() if k.startswith("instructions.")) == 61
    assert emulation["ended"]


def test_a_file_that_cannot_be_written_loses_no_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = ("--trace", "hang.ptx/t.json")
    assert emulate("hang.ptx", "--grid", "1", *files) == 1
    out, err = capsys.readouterr()
    assert "[TK314]" in err
    assert "hang.ptx/t.json cannot be written" in err
    assert out.endswith("2 errors\n")


def test_a_trace_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("X=random(40,24)", "Y=empty(40,24)", "--trace", "out/t.json")
    assert emulate(COPY, "--target", "sm_90a", *words) == 0
    assert capsys.readouterr().out.endswith("nothing found; out/t.json shows it\n")
    events = json.loads(Path("out/t.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"warp 0 (load)", "warp 1 (store)", "copy engine"} <= names
    assert any(e["name"] == "19: Y[m, n] <- t" for e in events)


def test_what_nobody_has_written_of_an_output_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("half.tk").write_text(
        "kernel half(X: global[f32, N], Y: global[f32, N]):\n    launch persistent\n"
        "    schedule work: n in tiles(blocks(N, 32))\n    role all, warps 1:\n        for n in work:\n"
        "            i = n.index * 32 + lane\n            if i < N and lane < 8: Y[i] <- read(X[i])\n"
    )
    words = ("half.tk", "X=random(70)", "--sm-count", "2")
    assert emulate(*words, "Y=empty(70)") == 0
    out = capsys.readouterr().out
    assert out.startswith("Y: 48 of 70 elements were never written\nhalf: 2 CTAs")
    assert emulate(*words, "Y=zeros(70)") == 0
    assert "never written" not in capsys.readouterr().out
    assert emulate(*words, "Y=empty(70)", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["emulation"]["unwritten"] == {"Y": 48}


def test_arguments_of_our_own_kernels_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("f64.npy", np.zeros((72, 40)))
    for words, says in (
        ((*WORDS[:2],), "gemm needs C"),
        ((*WORDS, "D=random(3)"), "gemm has no argument D; there are A, B, C"),
        (("A=random(72)", *WORDS[1:]), "[TK402]"),
        (("A=f64.npy", *WORDS[1:]), "[TK403]"),
        (("A=random(72,48)", *WORDS[1:]), "[TK407]"),
        ((*WORDS[:2], "C=empty(71,80)"), "[TK407]"),
        (("A=7", *WORDS[1:]), "it is an array of bf16, found the number 7"),
        ((*WORDS, "--expect", "C=none.npy"), "none.npy cannot be read: no such file"),
        ((*WORDS, "--expect", "C=."), ". cannot be read: is a directory"),
    ):
        assert emulate(GEMM, *words) == 1
        one_error(capsys.readouterr().err, says)
