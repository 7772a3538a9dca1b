"""`tkc compile`: outputs, options, errors and exit codes; the rooms below the driver are stand-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import stand_in

from tkc.__main__ import guarded, main


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.tk").write_text("kernel\n")


def tkc(*words: str) -> int:
    return guarded(main, words)


PTX = '// 4 modules from loc("k.tk":1:1)\n'


def test_the_output_is_named_after_the_source(tmp_path: Path) -> None:
    assert tkc("compile", "k.tk") == 0
    assert (tmp_path / "k.ptx").read_text().startswith("// 4 modules")
    contract = json.loads((tmp_path / "k.json").read_text())
    assert (contract["schema"], contract["ptx"]) == ("tkc-launch/1", "k.ptx")


def test_ptx_goes_to_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    assert tkc("compile", "k.tk", "-o", "-", "--contract", "c.json") == 0
    out, err = capfdbinary.readouterr()
    assert (out.startswith(b"// 4 modules"), err) == (True, b"")
    assert json.loads((tmp_path / "c.json").read_text())["kernels"] == stand_in.CONTRACT["kernels"]
    assert not (tmp_path / "k.ptx").exists()


def test_the_suffix_or_emit_says_what_is_written(tmp_path: Path) -> None:
    assert tkc("compile", "k.tk", "-o", "a.mlir") == 0
    assert 'loc("k.tk":1:1)' in (tmp_path / "a.mlir").read_text()
    assert tkc("compile", "k.tk", "--emit", "mlir", "-o", "a.txt", "-p", "") == 0
    assert "mark" not in (tmp_path / "a.txt").read_text()
    assert tkc("compile", "k.tk", "-o", "b.json") == 0
    assert json.loads((tmp_path / "b.json").read_text())["schema"] == "tkc-launch/1"
    assert tkc("compile", "k.tk", "--emit", "ptx", "-o", "b.s", "--contract", "sub/c.json") == 0
    assert json.loads((tmp_path / "sub" / "c.json").read_text())["ptx"] == "../b.s"


def test_a_device_is_written_to(tmp_path: Path) -> None:
    assert tkc("compile", "k.tk", "-o", os.devnull) == 0
    assert not Path(os.devnull).is_file()


def test_params_reach_the_front_end(tmp_path: Path) -> None:
    words = ("-D", "BM=64", "-DBN=0x10", "-D", "NEG=-1_000", "-D", "BM=64")
    assert tkc("compile", "k.tk", *words, "-o", "a.mlir") == 0
    text = (tmp_path / "a.mlir").read_text()
    assert "BM = 64" in text
    assert "BN = 16" in text
    assert "NEG = -1000" in text


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("BM", "expected NAME=INT"),
        ("BM=", "expected NAME=INT"),
        ("=3", "expected NAME=INT"),
        ("BM=big", "expected NAME=INT"),
        ("BM=1.5", "expected NAME=INT"),
        ("BM=99999999999999999999", "does not fit 64 bits"),
        ("BM=" + "9" * 5000, "is no integer"),
        ("B M=1", "expected NAME=INT"),
    ],
)
def test_a_wrong_param_is_wrong_usage(
    word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tkc("compile", "k.tk", "-D", word) == 2
    assert says in capsys.readouterr().err


def test_a_param_given_twice_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("compile", "k.tk", "-DBM=1", "-DBM=2") == 2
    assert "given twice, as 1 and as 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("compile",), 2, "Missing argument"),
        (("compile", "k.tk", "--tagret", "sm_90a"), 2, "--target"),
        (("compile", "k.tk", "--target", "sm_99"), 2, "did you mean sm_90"),
        (
            ("compile", "k.tk", "-o", "k.bin"),
            2,
            "has the suffix .bin; expected .ptx, .cubin, .mlir or .json",
        ),
        (("compile", "k.tk", "-o", "k"), 2, "has no suffix"),
        (("compile", "k.tk", "--emit", "cubin", "-o", "y.ptx"), 2, "--emit says cubin"),
        (("compile", "k.tk", "--emit", "ptx", "-o", "y.json"), 2, "has the suffix .json, and"),
        (("compile", "k.tk", "-p", "mork"), 2, "did you mean mark"),
        (("compile", "k.tk", "--print-ir-after", "mork"), 2, "did you mean mark"),
        (("compile", "k.tk", "--format", "xml"), 2, "xml"),
        (("compile", "k.tk", "-o", "a.ptx", "-o", "b.ptx"), 2, "-o is given twice, as a.ptx and"),
        (("compile", "k.tk", "--target", "sm_90a", "--target", "sm_100a"), 2, "is given twice"),
        (("compile", "k.tk", "--remarks=swizle"), 2, "did you mean swizzle"),
        (("compile", "k.tk", "--no-nothing"), 2, "No such option"),
        (("compile", "j.tk"), 1, "did you mean k.tk"),
        (("compile", "."), 1, "is a folder"),
        (("compile", "k.tk", "-o", "k.tk/x.ptx"), 1, "cannot be written"),
        (("compile", "k.tk", "--emit", "ptx", "-o", "."), 1, "cannot be written"),
        (("compile", "k.tk", "--dump", "k.tk"), 1, "cannot be written"),
        (("compil", "k.tk"), 2, "did you mean compile"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(
    words: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert tkc(*words) == code
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["k.tk"], "no partial file"


def test_a_failed_compilation_leaves_an_earlier_output(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("earlier")
    assert tkc("compile", "k.tk", "-p", "refuse") == 1
    assert (tmp_path / "k.ptx").read_text() == "earlier"


def test_errors_in_the_program_are_shown_with_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "w.tk").write_text("wrong name\n")
    assert tkc("compile", "w.tk") == 1
    assert (
        capsys.readouterr().err
        == "w.tk:1:1: error: unknown name wrong [TK102]\n    wrong name\n    ^^^^^\n"
    )


def test_errors_as_json_and_sarif(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "w.tk").write_text("wrong name\n")
    assert tkc("compile", "w.tk", "--format", "json") == 1
    found = json.loads(capsys.readouterr().err)
    assert found["schema"] == "tkc-diagnostics/1"
    assert found["diagnostics"][0]["location"] == {"file": "w.tk", "line": 1, "column": 1}
    assert tkc("compile", "w.tk", "--format", "sarif") == 1
    run = json.loads(capsys.readouterr().err)["runs"][0]
    assert run["tool"]["driver"]["rules"][0]["id"] == "TK102"
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 1, "startColumn": 1, "endColumn": 6}
    assert tkc("compile", "missing.tk", "--format", "json") == 1
    assert json.loads(capsys.readouterr().err)["diagnostics"][0]["code"] == "TK112"


def test_warnings_are_shown_and_werror_makes_them_fatal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert tkc("compile", "k.tk", "-p", "warn") == 0
    assert "k.tk:1:1: warning: something is odd" in capsys.readouterr().err
    (tmp_path / "k.ptx").unlink()
    assert tkc("compile", "k.tk", "-p", "warn", "-Werror") == 1
    assert "k.tk:1:1: error: something is odd" in capsys.readouterr().err
    assert not (tmp_path / "k.ptx").exists()


def test_our_own_bug_is_exit_3_with_a_reproducer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert tkc("compile", "k.tk", "-p", "break") == 3
    err = capsys.readouterr().err
    assert err.startswith(
        "internal error in break: KeyError: 'no such thing' [TK901]\nreproducer: tkc-repro-"
    )
    assert tkc("compile", "k.tk", "-p", "break", "--format", "json") == 3
    assert json.loads(capsys.readouterr().err)["diagnostics"][0]["code"] == "TK901"


def test_an_exception_in_the_command_itself_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tkc.commands.compile.session", fail)
    assert tkc("compile", "k.tk") == 3
    err = capsys.readouterr().err
    assert "internal error in the command line: ZeroDivisionError: oh [TK901]" in err
    assert "Traceback" not in err


def test_an_interrupt_is_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tkc.commands.compile.session", interrupt)
    assert tkc("compile", "k.tk") == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_the_pipeline_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("compile", "k.tk", "--print-pipeline") == 0
    assert capsys.readouterr().out == "mark,nothing,mark{times=2}\n"


def test_ir_and_times_are_printed_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--print-ir-before=nothing", "--print-ir-after-all", "--timing", "--verify-each")
    assert tkc("compile", "k.tk", "-o", "-", *words) == 0
    err = capsys.readouterr().err
    assert err.count("// -----// IR") == 5
    assert "print PTX" in err
    assert err.splitlines()[-1].startswith("total")


def test_a_dump_is_written(tmp_path: Path) -> None:
    assert tkc("compile", "k.tk", "--dump", "d") == 0
    assert (tmp_path / "d" / "99.ptx").read_text() == (tmp_path / "k.ptx").read_text()


def test_check_reports_on_standard_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "w.tk").write_text("wrong name\n")
    assert tkc("check", "w.tk") == 1
    assert "unknown name wrong [TK102]" in capsys.readouterr().out
    assert tkc("check", "k.tk", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "tkc-diagnostics/1", "diagnostics": []}
    assert tkc("check", "k.tk", "--format", "sarif") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


def test_a_file_name_that_is_no_text_is_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"\xffk.tk")
    Path(name).write_text("wrong\n")
    assert tkc("compile", name) == 1
    assert "\\xffk.tk:1:1: error" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "k.ptx", "--contract", "k.ptx"), "name one file"),
        (("-o", "k.ptx", "--contract", "../{here}/k.ptx"), "name one file"),
        (("-o", "k.mlir", "--contract", "c.json"), "IR has no launch contract"),
        (("-o", "k.json", "--contract", "c.json"), "k.json is the contract"),
        (("--target=",), "--target is given without a value"),
        (("-o", ""), "-o is given without a value"),
        (("--dump=",), "--dump is given without a value"),
    ],
)
def test_what_would_be_lost_or_says_nothing_is_wrong_usage(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tkc("compile", "k.tk", *(w.format(here=tmp_path.name) for w in words)) == 2
    assert said in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["k.tk"]


def test_a_pass_that_others_need_cannot_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("compile", "k.tk", "--no-place-tiles") == 2
    said = capsys.readouterr().err
    assert "place-tiles cannot be left out: the passes after it need its work" in said
    assert "insert-fences" in said


def test_a_pass_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """The stand-in's pipeline has no such pass, and keeps its own; a whole one loses it."""
    assert tkc("compile", "k.tk", "--no-insert-fences", "--print-pipeline") == 0
    assert capsys.readouterr().out == "mark,nothing,mark{times=2}\n"
