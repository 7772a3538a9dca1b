"""`tkc emulate`: what it runs, what it reports, how, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from small_ptx import HANG, LOOP, SCALE, SCALE_STRUCT, TILE, TILE_BY_POINTER, TWO

import tkc
import tkc.emulator
from tkc import arguments
from tkc.__main__ import guarded, main
from tkc.diagnostics import Severity
from tkc.emulator import Finding
from tkc.emulator.machine import MODELS, SCHEDULES, Machine

EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = str(EXAMPLES / "gemm_bf16.tk")
COPY = str(EXAMPLES / "tma_copy.tk")
WORDS = ("A=random(72,40,seed=1)", "B=random(80,40,seed=2)", "C=empty(72,80)")
LAUNCH = ("--grid", "2")
SCALE_WORDS = ("x=f32:random(100,seed=1)", "y=f32:empty(100)", "factor=2.0", "n=100")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "scale": SCALE,
        "scale_struct": SCALE_STRUCT,
        "two": TWO,
        "tile": TILE,
        "tile_by_pointer": TILE_BY_POINTER,
        "hang": HANG,
        "loop": LOOP,
    }.items():
        Path(f"{name}.ptx").write_text(text)
    Path("scale.tk").write_text("# not read as a program\n    y <- x * factor\n")


def emulate(*words: str) -> int:
    return guarded(main, ("emulate", *words))


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


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


# Anybody's PTX


def test_a_text_is_launched_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("ref.npy", 2 * arguments.random((100,), "f32", 1))
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    assert emulate("scale.ptx", *LAUNCH, *SCALE_WORDS, *more) == 0
    assert capsys.readouterr().out.endswith("scale: 2 CTAs, 65 steps, nothing found\n")


def test_a_text_is_launched_by_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.arange(100, dtype=np.float32))
    np.save("ref.npy", 3 * np.arange(100, dtype=np.float32))
    launch = {
        "schema": "tkc-plain-launch/1",
        "ptx": "scale.ptx",
        "grid": [2],
        "args": {"x": "x.npy", "y": "f32:empty(100)", "factor": "f32:3", "n": 100},
    }
    Path("launch.json").write_text(json.dumps(launch))
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    assert emulate("launch.json", *more) == 0
    assert emulate("scale.ptx", "--launch", "launch.json", *more) == 0
    # A word gives a new value, in the dtype of the file; an option a new number.
    assert emulate("launch.json", "y=zeros(100)", "n=64", *more) == 1
    assert emulate("launch.json", "--grid", "1", *more) == 1
    capsys.readouterr()
    assert emulate("launch.json", "facto=1") == 1
    one_error(capsys.readouterr().err, "the launch has no argument facto; did you mean factor?")


@pytest.mark.parametrize("name", ["tile", "tile_by_pointer"])
@pytest.mark.parametrize(
    "map_word",
    [
        "map=map(f16:random(20,24,seed=1), box=8x8)",
        "map=map(f16:random(20,24,seed=1), sizes=24x20, strides=48, box=8x8, element_strides=1x1,"
        " interleave=none, swizzle=none, l2_promotion=128B, fill=zero, offset=0, dtype=bf16)",
    ],
)
def test_tensor_maps_are_given_by_their_fields(name: str, map_word: str) -> None:
    x = arguments.random((20, 24), "f16", 1)
    np.save("ref.npy", x[:8, :8].reshape(64))
    words = (map_word, "out=f16:empty(64)", "--expect", "out=ref.npy", "--rtol", "0")
    assert emulate(f"{name}.ptx", "--grid", "1", *words) == 0


def test_an_array_may_stand_twice_and_a_pointer_be_null(tmp_path: Path) -> None:
    np.save("ref.npy", 2 * arguments.random((64,), "f32", 1))
    words = ("x=f32:random(64,seed=1)", "y=@x", "factor=f32:2", "n=i32:64", "--expect", "x=ref.npy")
    assert emulate("scale.ptx", "--grid", "1", *words) == 0
    assert emulate("scale.ptx", "--grid", "1", "x=null", "y=null", "factor=f32:2", "n=i32:0") == 0


ARRAYS = ("--array", "x=f32:random(100,seed=1)", "--array", "y=f32:empty(100)")


def test_a_parameter_may_be_a_structure() -> None:
    np.save("ref.npy", 2 * arguments.random((100,), "f32", 1))
    Path("image.bin").write_bytes(bytes(16) + np.float32(2).tobytes() + np.int32(100).tobytes())
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    for word in (
        "p=struct(0=@x, 8=@y, 16=f32:2, 20=i32:100)",
        "p=struct(image.bin, 0=@x, 8=@y)",
        "p=struct(image.bin, 8=@y, 0=f32:random(100,seed=1))",
    ):
        assert emulate("scale_struct.ptx", *LAUNCH, *ARRAYS, word, *more) == 0
    launch = {
        "schema": "tkc-plain-launch/1",
        "grid": 2,
        "arrays": {"x": "f32:random(100,seed=1)", "y": "f32:empty(100)"},
        "args": {"p": {"struct": {"0": "@x", "8": "@y", "16": "f32:3"}, "image": "../image.bin"}},
    }
    Path("folder").mkdir()
    Path("folder/launch.json").write_text(json.dumps(launch))
    words = ("scale_struct.ptx", "--launch", "folder/launch.json", *more)
    assert emulate(*words) == 1
    assert emulate(*words, "p=struct(image.bin, 0=@x, 8=@y)") == 0
    assert emulate(*words, "p=struct(image.bin, 0=@x, 8=@y)", "x=random(100,seed=2)") == 1


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("p=struct(0=@x, 8=@y, 16=f32:2, 20=100)", "the number at 20 has no width"),
        (
            "p=struct(0=@x, 8=@y, 16=f32:2, 24=i32:100)",
            "(p) at 24 has 4 bytes, and the parameter has 24",
        ),
        ("p=struct(0=@x, 8=@y, 16=f32:2, 16=f32:2)", "offset 16 is given twice"),
        ("p=struct(0=@x, y=@y)", "y is no offset"),
        ("p=struct(0=@x, @y)", "@y in a structure, expected OFFSET=VALUE"),
        ("p=struct(0=@z)", "no array z stands before it"),
        ("p=struct(0=struct(0=@x))", "a structure in a structure"),
        ("p=struct(none.bin, 0=@x)", "none.bin cannot be read: No such file"),
        ("p=struct(scale.ptx, 0=@x)", "bytes, and the parameter has 24"),
        ("p=struct(0=@x", "the parenthesis is not closed"),
        ("p=@x", "(p) is a pointer, and the parameter has 24 bytes"),
    ],
)
def test_structures_that_do_not_fit(
    word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("scale_struct.ptx", *LAUNCH, *ARRAYS, word) == 1
    one_error(capsys.readouterr().err, says)


def test_arrays_beside_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        (("--array", "x=i32:7"), "x cannot be made: expected an array"),
        (("--array", "x=null"), "x cannot be made: expected an array"),
        ((*ARRAYS[:2], *ARRAYS[:2]), "x is given twice"),
        ((*ARRAYS[:2], "x=f32:zeros(3)"), "x is given twice"),
    ):
        assert emulate("scale_struct.ptx", *LAUNCH, *words) == 1
        one_error(capsys.readouterr().err, says)
    assert emulate(GEMM, *ARRAYS, *WORDS) == 2
    assert "--array is for a PTX text alone" in capsys.readouterr().err


def test_one_entry_of_several_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("two.ptx", "--grid", "1", "--block", "32")
    assert emulate(*words, "--entry", "second") == 0
    assert capsys.readouterr().out.startswith("second: 1 CTA, ")
    assert emulate(*words) == 1
    assert "the PTX has 2 entries (first, second)" in capsys.readouterr().err
    assert emulate(*words, "--entry", "secund") == 1
    assert "nearest is second" in capsys.readouterr().err
    assert emulate(*words, "--entry", "first", "--kernel", "second") == 2


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


def test_a_trace_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("X=random(40,24)", "Y=empty(40,24)", "--trace", "out/t.json")
    assert emulate(COPY, "--target", "sm_90a", *words) == 0
    assert capsys.readouterr().out.endswith("nothing found; out/t.json shows it\n")
    events = json.loads(Path("out/t.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"warp 0 (load)", "warp 1 (store)", "copy engine"} <= names
    assert any(e["name"] == "19: Y[m, n] <- t" for e in events)


# What cannot be run: one clear error each


def bad_text(old: str, new: str) -> str:
    assert old in SCALE
    return SCALE.replace(old, new)


BAD_TEXTS = {
    "a line that is no PTX": (
        bad_text("ld.global.f32 %f2, [%rd1];", "ld.global.f32 %f2 [%rd1];"),
        "TK417",
    ),
    "no directive": ("kernel k():\n", "TK417"),
    "no target": (bad_text(".target sm_90a\n", ""), "TK417"),
    "another target": (bad_text("sm_90a", "sm_75"), "TK201"),
    "an unknown instruction": (bad_text("mul.f32 %f3", "mull.f32 %f3"), "TK416"),
    "an unknown register": (bad_text("%f3, %f2, %f1", "%f3, %f9, %f1"), "TK416"),
    "an unknown label": (bad_text("@%p1 ret;", "@%p1 bra NOWHERE;"), "TK417"),
    "an end that is missing": (SCALE[: SCALE.rindex("}")], "TK417"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_that_cannot_be_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, code = BAD_TEXTS[name]
    Path("bad.ptx").write_text(text)
    assert emulate("bad.ptx", *LAUNCH, *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, "bad.ptx", code)


def one_error(err: str, *says: str) -> None:
    assert err.count("error: ") == 1, err
    for text in says:
        assert text in err
    assert "Traceback" not in err


X, Y, FACTOR, N = SCALE_WORDS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((X, Y, FACTOR), "scale takes 4 arguments (x, y, factor, n), 3 are given [TK401]"),
        ((X, Y, FACTOR, N, "q=1"), "5 are given [TK401]"),
        ((X, Y, FACTOR, "n=i64:100"), "(n) has 8 bytes, and the parameter has 4 bytes [TK403]"),
        ((X, Y, "factor=f64:2", N), "(factor) has 8 bytes, and the parameter has 4 bytes [TK403]"),
        ((X, Y, FACTOR, "n=5000000000"), "does not fit 4 bytes [TK501]"),
        ((X, Y, FACTOR, "n=u8:300"), "300 does not fit u8"),
        ((X, Y, FACTOR, "n=null"), "(n) is a pointer, and the parameter has 4 bytes [TK403]"),
        (("x=map(f32:zeros(8,8), box=8x8)", Y, FACTOR, "n=f32:zeros(4)"), "(n) is a pointer"),
        (("x=random(100)", Y, FACTOR, N), "x cannot be made: it has no dtype"),
        (("x=f99:random(100)", Y, FACTOR, N), "no dtype f99"),
        (("x=f32:randm(100)", Y, FACTOR, N), "did you mean random"),
        (("x=f32:random(100", Y, FACTOR, N), "the parenthesis is not closed"),
        (("x=map(f32:random(100), box=8", Y, FACTOR, N), "the parenthesis is not closed"),
        (("x=map(f32:random(8,8))", Y, FACTOR, N), "a tensor map needs a box"),
        (("x=map(f32:random(8,8), box=8xa)", Y, FACTOR, N), "box is 8xa, expected numbers"),
        (("x=map(f32:random(8,8), bocks=8)", Y, FACTOR, N), "did you mean box?"),
        (("x=map(f32:random(8,8), box=8x8, box=8x8)", Y, FACTOR, N), "box is given twice"),
        (("x=map(f32:7, box=8x8)", Y, FACTOR, N), "a tensor map needs an array"),
        (("x=map(f32:random(8,8), box=8x8x8)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,3), box=3x8)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,8), box=8x8, swizzle=7B)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,8), box=8x8, sizes=8)", Y, FACTOR, N), "need strides"),
        (("x=@y", Y, FACTOR, N), "no array y stands before it"),
        ((X, X, FACTOR, N), "x is given twice"),
        (("x", Y, FACTOR, N), "'x' is no argument"),
        (("x=missing.npy", Y, FACTOR, N), "missing.npy cannot be read: no such file or directory"),
        (("x=scale.ptx", Y, FACTOR, N), "scale.ptx is no array saved by NumPy"),
        (("x=bits.npy", Y, FACTOR, N), "bits.npy holds bits without a dtype"),
        (("x=texts.npy", Y, FACTOR, N), "no dtype str96"),
        ((X, Y, FACTOR, N, "--out", "z=z.npy"), "the kernel has no array z; there are x, y"),
        ((X, Y, FACTOR, N, "--expect", "n=n.npy"), "the kernel has no array n"),
        ((X, Y, FACTOR, N, "--expect", "y=none.npy"), "none.npy cannot be read"),
        ((X, Y, FACTOR, N, "--out", "y=scale.ptx/y.npy"), "cannot be written"),
        ((X, Y, FACTOR, N, "--trace", "scale.ptx/t.json"), "cannot be written"),
    ],
)
def test_arguments_that_do_not_fit(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("bits.npy", np.zeros(3, "V2"))
    np.save("texts.npy", np.array(["abc"]))
    assert emulate("scale.ptx", *LAUNCH, *words) == 1
    one_error(capsys.readouterr().err, says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--grid", "1", "--block", "32"),
            "block (32, 1, 1), and the kernel says .reqntid 64 [TK418]",
        ),
        (("--grid", "1", "--block", "2048"), "2048 threads in a CTA, at most 1024 [TK208]"),
        (("--grid", "1", "--block", "1,1,65"), "at most 64 along z [TK418]"),
        (("--grid", "1,70000"), "at most 65535 along y [TK418]"),
        (("--grid", "3", "--cluster", "2"), "grid (3, 1, 1) is no multiple of cluster (2, 1, 1)"),
        (("--grid", "32", "--cluster", "32"), "32 CTAs in a cluster, at most 16 [TK418]"),
        (("--grid", "1", "--shared-bytes", "300000"), "sm_90a has 232448 [TK204]"),
    ],
)
def test_impossible_launches(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("scale.ptx", *words, *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, says)


def test_a_cluster_that_the_kernel_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").write_text(bad_text(".reqntid 64", ".reqntid 64\n.reqnctapercluster 2"))
    assert emulate("k.ptx", "--grid", "4", *SCALE_WORDS) == 0
    capsys.readouterr()
    assert emulate("k.ptx", "--grid", "4", "--cluster", "4", *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, "the kernel says .reqnctapercluster 2 [TK418]")


def test_a_kernel_without_a_size_needs_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("two.ptx", "--entry", "first", "--grid", "1") == 2
    assert "or --block and the arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "does not exist"),
        (b"", "the file is empty"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_texts_that_cannot_be_read(
    data: bytes | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is not None:
        Path("k.ptx").write_bytes(data)
    assert emulate("k.ptx", "--grid", "1") == 1
    one_error(capsys.readouterr().err, says)


def test_a_folder_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").mkdir()
    assert emulate("k.ptx", "--grid", "1") == 1
    one_error(capsys.readouterr().err, "is a folder")


ARGS = '"args": {"x": "f32:random(100)", "y": "f32:empty(100)", "factor": 2.0, "n": 100}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "launch.json cannot be read: no such file or directory [TK411]"),
        ("{", "launch.json is no JSON"),
        ("[" * 100000, "launch.json is no JSON"),
        ("[]", "schema: expected tkc-launch/1"),
        ('{"schema": "tkc-launch/2"}', "schema: expected tkc-launch/1"),
        ('{"schema": "tkc-plain-launch/1"}', "launch.json: args missing"),
        ('{"schema": "tkc-plain-launch/1", "args": []}', "an object of arguments in order"),
        ('{"schema": "tkc-plain-launch/1", "gird": 1, "args": {}}', "unknown key gird"),
        ('{"schema": "tkc-plain-launch/1", "grid": 0, "args": {}}', "a positive number"),
        ('{"schema": "tkc-plain-launch/1", "grid": [1, 1, 1, 1], "args": {}}', "a list of 1..3"),
        ('{"schema": "tkc-plain-launch/1", "shared_bytes": -1, "args": {}}', "an integer >= 0"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": 1, "a": 2}}', "a stands twice"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a b": 1}}', "names of letters"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": true}}', 'or {"struct": …}'),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": "f32:rand(3)"}}', "args.a: no maker rand"),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)"}}}',
            "needs a box",
        ),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)", "box": "8"}}}',
            "args.a.box: expected a list",
        ),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)", "bix": [8]}}}',
            "did you mean box?",
        ),
    ],
)
def test_launches_that_cannot_be_read(
    text: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("launch.json").write_text(text)
    assert emulate("scale.ptx", "--launch", "launch.json") == 1
    one_error(capsys.readouterr().err, says)


def test_a_plain_launch_alone_names_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("launch.json").write_text(f'{{"schema": "tkc-plain-launch/1", "grid": 2, {ARGS}}}')
    assert emulate("launch.json") == 1
    one_error(capsys.readouterr().err, 'launch.json: names no PTX text; expected "ptx": "FILE.ptx"')
    assert emulate("scale.ptx", "--launch", "launch.json") == 0


def test_arguments_of_our_own_kernels_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("f64.npy", np.zeros((72, 40)))
    for words, says in (
        ((*WORDS[:2],), "gemm needs C"),
        ((*WORDS, "D=random(3)"), "gemm has no argument D"),
        (("A=random(72)", *WORDS[1:]), "[TK402]"),
        (("A=f64.npy", *WORDS[1:]), "[TK403]"),
        (("A=random(72,48)", *WORDS[1:]), "[TK407]"),
        ((*WORDS[:2], "C=empty(71,80)"), "[TK407]"),
        (("A=7", *WORDS[1:]), "it is an array of bf16, found the number 7"),
    ):
        assert emulate(GEMM, *words) == 1
        one_error(capsys.readouterr().err, says)
