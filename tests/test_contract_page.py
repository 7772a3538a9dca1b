"""What others build on: signatures, files, schemas and exit codes, to the letter of their agreement."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tkc
from tkc.__main__ import guarded, main
from tkc.emulator.report import Finding, Report

EXAMPLES = Path(__file__).parents[1] / "examples"
TWO = """\
kernel first(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in blocks(N, 128)
    role all:
        for n in work:
            Y[n] <- read(X[n])

kernel second(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in blocks(N, 128)
    role all:
        for n in work:
            Y[n] <- read(X[n]) * 2
"""


def defaults(function: Any) -> dict[str, Any]:
    return {
        n: p.default if p.default is not p.empty else ...
        for n, p in inspect.signature(function).parameters.items()
    }


SIGNATURES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (
        tkc.compile,
        dict(source=..., target="sm_100a", kernel=None, params=None, fences="minimal")
        | dict(model="practice", passes=None, dump=None),
    ),
    (
        tkc.emulate,
        dict(ptx=..., entry=None, grid=..., block=..., cluster=(1, 1, 1), shared_bytes=0, args=...)
        | dict(schedule="eager", seed=0, model="practice", max_steps=None),
    ),
    (
        tkc.TensorMap,
        dict(base=..., dtype=..., sizes=..., strides=..., box=..., element_strides=None)
        | dict(interleave="none", swizzle="none", l2_promotion="none", fill="zero", offset=0),
    ),
    (tkc.load, dict(path=...)),
    (tkc.Kernel.module, dict(after=None)),
    (tkc.Kernel.save, dict(folder=...)),
    (tkc.Kernel.launch, dict(stream=None)),
    (tkc.Kernel.emulate, dict(schedule="eager", seed=0, model="practice")),
)


@pytest.mark.parametrize(("function", "expected"), SIGNATURES)
def test_signatures(function: Any, expected: dict[str, Any]) -> None:
    found = defaults(function)
    assert {n: found.get(n, "missing") for n in expected} == expected
    extra = {n for n, d in found.items() if d is ... and n not in expected}
    assert extra <= {"self", "arrays", "symbols"}, "a new parameter has a default"


def test_reports_and_findings_have_their_fields() -> None:
    report = {"races", "faults", "warnings", "hang", "steps", "stats"}
    assert report <= {*Report.__dataclass_fields__, *dir(Report)}
    finding = {"code", "message", "ptx_line", "location", "agents", "accesses"}
    assert finding <= {*Finding.__dataclass_fields__, *dir(Finding)}


def contract(tmp_path: Path, *words: str) -> dict[str, Any]:
    assert guarded(main, ("compile", *words, "-o", str(tmp_path / "out" / "k.ptx"))) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["k.json", "k.ptx"]
    return json.loads((tmp_path / "out" / "k.json").read_text())


def test_every_field_of_a_tensor_map_is_said(tmp_path: Path) -> None:
    made = contract(tmp_path, str(EXAMPLES / "gemm_bf16.tk"), "--target", "sm_90a")
    assert made["schema"] == "tkc-launch/1"
    [kernel] = made["kernels"]
    maps = [a for a in kernel["args"] if a["kind"] == "tensormap"]
    assert len(maps) == 3
    fields = {"argument", "dtype", "sizes", "strides", "box", "element_strides", "interleave"}
    fields |= {"swizzle", "l2_promotion", "fill"}
    assert all(fields <= set(m) for m in maps)
    assert {(*m["element_strides"], m["interleave"], m["fill"]) for m in maps} == {
        (1, 1, "none", "zero")
    }


def test_pointers_say_rank_and_contiguity(tmp_path: Path) -> None:
    (tmp_path / "two.tk").write_text(TWO)
    made = contract(tmp_path, str(tmp_path / "two.tk"))
    assert [k["entry"] for k in made["kernels"]] == ["first", "second"]
    for kernel in made["kernels"]:
        pointers = [a for a in kernel["args"] if a["kind"] == "pointer"]
        said = {(p["argument"], p["dtype"], p["rank"], p["contiguity"]) for p in pointers}
        assert said == {("X", "f32", 1, "all"), ("Y", "f32", 1, "all")}
    second = contract(tmp_path, str(tmp_path / "two.tk"), "--kernel", "second")
    assert [k["entry"] for k in second["kernels"]] == ["second"]
    x, y = np.arange(130, dtype=np.float32), np.full(130, np.nan, np.float32)
    report = tkc.load(tmp_path / "out" / "k.json").emulate(x, y)
    assert not report.races
    assert not report.faults
    assert report.hang is None
    assert np.array_equal(y, 2 * x)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, wrong = tmp_path / "good.tk", tmp_path / "wrong.tk"
    good.write_text(TWO)
    wrong.write_text(TWO.replace("X[n]", "Z[n]"))
    run = ("emulate", str(good), "--kernel", "first", "X=random(130)", "Y=empty(130)")
    for code, words in (
        (0, ("check", str(good))),
        (1, ("check", str(wrong))),
        (1, ("check", str(tmp_path / "absent.tk"))),
        (0, (*run, "--out", f"Y={tmp_path / 'y.npy'}")),
        (0, (*run, "--expect", f"Y={tmp_path / 'y.npy'}")),
        (1, (*run[:-2], "X=random(130,seed=9)", run[-1], "--expect", f"Y={tmp_path / 'y.npy'}")),
        (2, ("check", str(good), "--no-such-option")),
        (2, ("compile", str(good), "--target", "sm_1")),
        (2, ()),
    ):
        assert guarded(main, words) == code, words
    capsys.readouterr()


def test_diagnostics_as_json_have_the_agreed_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "w.tk").write_text(TWO.replace("X[n]", "Z[n]"))
    assert guarded(main, ("check", str(tmp_path / "w.tk"), "--format", "json")) == 1
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == "tkc-diagnostics/1"
    keys = {"code", "severity", "message", "location", "notes", "fix"}
    assert made["diagnostics"]
    assert all(set(d) == keys for d in made["diagnostics"])


def test_sarif_names_files_as_uris(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a b#.tk").write_text(TWO.replace("X[n]", "Z[n]"))
    assert guarded(main, ("check", str(tmp_path / "a b#.tk"), "--format", "sarif")) == 1
    [log] = json.loads(capsys.readouterr().out)["runs"]
    assert log["columnKind"] == "unicodeCodePoints"
    for result in log["results"]:
        assert result["message"]["text"]
        assert result["ruleId"].startswith("TK")
        assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        [place] = result["locations"]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == (tmp_path / "a b#.tk").as_uri()
        assert place["physicalLocation"]["region"]["startLine"] in (6, 13)
