"""`tkc-opt`: what it reads, prints, and says is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import stand_in

from tkc import opt

GOOD = "builtin.module {\n}\n"


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in.install(monkeypatch)
    monkeypatch.setattr("tkc.opt.PASSES", stand_in.PASSES)
    monkeypatch.chdir(tmp_path)


def run(text: str, *words: str) -> int:
    Path("a.mlir").write_text(text)
    return opt.main([*words, "a.mlir"])


def test_text_is_printed_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(GOOD) == 0
    assert capsys.readouterr().out.strip() == GOOD.strip()


def test_operations_know_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("builtin.module {\n  builtin.module {\n  }\n}\n", "--print-debuginfo") == 0
    assert 'loc("a.mlir":2:3)' in capsys.readouterr().out


def test_a_location_in_the_text_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert run('builtin.module {\n} loc("k.tk":7:3)\n', "--print-debuginfo") == 0
    assert 'loc("k.tk":7:3)' in capsys.readouterr().out


def test_passes_run_and_the_file_is_written_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(GOOD, "-p", "mark{times=2}", "-o", "out.mlir") == 0
    assert "mark1" in (tmp_path / "out.mlir").read_text()
    (tmp_path / "out.mlir").write_text("earlier")
    assert run(GOOD, "-p", "refuse", "-o", "out.mlir") == 1
    assert (tmp_path / "out.mlir").read_text() == "earlier"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("-p", "mork"), 2, "did you mean mark"),
        (("-t", "elf"), 2, "no target elf; there are mlir, ptx"),
        (("--nothing",), 2, "unrecognized arguments"),
        (("-p", "refuse"), 1, "k.tk:2:5: error: tiles need 300 bytes"),
        (("-p", "break"), 3, "internal error in break: KeyError"),
        (("-p", "mark,spoil"), 3, "left so by spoil"),
    ],
)
def test_an_error_is_one_message(
    words: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(GOOD, *words) == code
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""
    assert "Traceback" not in err


def test_a_syntax_error_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("builtin.module {\n  %0 = = 3\n}\n") == 1
    assert capsys.readouterr().err.startswith("a.mlir:2:8: error: ")


def test_input_that_does_not_verify_names_the_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            'builtin.module {\n  "builtin.module"() <{nonsense = 1 : i32}> ({\n  }) : () -> ()\n}\n'
        )
        == 1
    )
    err = capsys.readouterr().err
    assert err.startswith("a.mlir:2:3: error: builtin.module: ")
    assert "left so by" not in err


def test_missing_and_foreign_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opt.main(["none.mlir"]) == 1
    assert "cannot be read: no such file" in capsys.readouterr().err
    (tmp_path / "k.tk").write_text("kernel")
    assert opt.main(["k.tk"]) == 1
    assert "expected the suffix .mlir, found .tk" in capsys.readouterr().err
    (tmp_path / "b.mlir").write_bytes(b"\xff")
    assert opt.main(["b.mlir"]) == 1
    assert "is not UTF-8" in capsys.readouterr().err


def test_verbose_adds_the_notes(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = 'builtin.module {\n  "builtin.module"() <{nonsense = 1 : i32}> ({\n  }) : () -> ()\n}\n'
    assert run(wrong) == 1
    short = capsys.readouterr().err
    assert run(wrong, "-v") == 1
    assert len(capsys.readouterr().err) > len(short)


# diagnostics as tests


def test_diagnostics_can_be_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("%0 = = 3", "--parsing-diagnostics") == 0
    assert "a.mlir:1" in capsys.readouterr().out


def test_pieces_are_taken_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            f"{GOOD}// -----\n%0 = = 3\n// -----\n{GOOD}",
            "--split-input-file",
            "--parsing-diagnostics",
        )
        == 0
    )
    out = capsys.readouterr().out
    assert out.count("builtin.module") == 2
    assert out.count("// -----") == 2


WRONG = (
    '  "builtin.module"() <{{nonsense = 1 : i32}}> ({{ // error: {}\n  ^bb0:\n  }}) : () -> ()\n'
)


def expect(text: str, *words: str) -> int:
    return run(f"builtin.module {{\n{text}}}\n", "--verify-diagnostics", *words)


def test_expected_errors_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert expect(WRONG.format("nonsense") + WRONG.format("nonsense")) == 0
    assert capsys.readouterr().out == ""


def test_an_expected_error_with_another_text_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert expect(WRONG.format("something else")) == 1
    err = capsys.readouterr().err
    assert "a.mlir:2: expected an error with 'something else'" in err
    assert "a.mlir:2: unexpected error" in err


def test_an_expected_error_on_another_line_fails() -> None:
    assert expect("// error: nonsense\n" + WRONG.format("nonsense")) == 1


def test_an_error_that_nobody_expected_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert expect(WRONG.format("nonsense").replace("// error", "//")) == 1
    assert "a.mlir:2: unexpected error" in capsys.readouterr().err


def test_expected_parse_errors_and_pieces_keep_their_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = f"{GOOD}// -----\n%0 = = 3 // error: \n// -----\n%0 = = 3\n"
    assert run(text, "--verify-diagnostics", "--split-input-file") == 1
    err = capsys.readouterr().err
    assert "a.mlir:6: unexpected error" in err
    assert "a.mlir:4" not in err


def test_the_form_of_mlir_opt_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The stand-in's pass says it of `k.tk:2:5`."""
    text = "builtin.module {\n}\n// expected-error @-1 {{tiles need 300 bytes}}\n"
    assert run(text, "-p", "refuse", "--verify-diagnostics") == 0
    assert run(text.replace("300", "400"), "-p", "refuse", "--verify-diagnostics") == 1
    err = capsys.readouterr().err
    assert "a.mlir:3: expected an error with 'tiles need 400 bytes' on line 2" in err
    assert "a.mlir:2: unexpected error: " in err
    assert run(text, "-p", "refuse", "--expect-errors") == 0


def test_an_output_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(GOOD, "-o", "x.mlir", "-o", "y.mlir") == 2
    assert "-o is given twice, as x.mlir and as y.mlir" in capsys.readouterr().err


def test_expected_errors_of_a_pass_are_matched_by_line() -> None:
    text = "builtin.module { // error: never\n}\n"
    assert run(text, "--verify-diagnostics", "-p", "mark") == 1
