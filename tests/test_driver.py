"""The driver: sources, pipelines, verification, blame, reproducers."""

from __future__ import annotations

import gc
import shlex
from pathlib import Path

import pytest
import stand_in

import tkc
from tkc import driver, opt
from tkc.diagnostics import Bug, TkcError
from tkc.job import Job


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in.install(monkeypatch)
    monkeypatch.chdir(tmp_path)


def code_of(error: pytest.ExceptionInfo[TkcError]) -> str:
    return error.value.diagnostics[0].code


def job(text: str = "kernel", **options: object) -> Job:
    return Job(text, "k.tk", **options)  # type: ignore[arg-type]


def test_passes_run_in_order_and_the_printer_last() -> None:
    compiled = driver.run(job())
    assert compiled.ptx.startswith("// 4 modules from")
    assert compiled.contract == stand_in.CONTRACT


def test_garbage_collection_is_as_it_was_before() -> None:
    assert gc.isenabled()
    driver.run(job())
    assert gc.isenabled()
    with pytest.raises(TkcError):
        driver.run(job(passes="refuse"))
    assert gc.isenabled()
    gc.disable()
    try:
        driver.run(job())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_module_can_be_had_after_any_pass() -> None:
    assert len(driver.to_module(job(), after="frontend").ops) == 0
    assert len(driver.to_module(job(), after="mark").ops) == 1
    assert len(driver.to_module(job(), after="nothing").ops) == 1
    assert len(driver.to_module(job()).ops) == 3
    with pytest.raises(TkcError, match="did you mean nothing"):
        driver.to_module(job(), after="nothin")


# sources


def test_a_source_is_read_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "k.tk"
    path.write_bytes(b"\xef\xbb\xbfkernel")
    assert driver.read_source(path) == "kernel"


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", "TK113", "empty"),
        (b" \n\n", "TK113", "empty"),
        (b"a\nbc\xff", "TK112", r"k\.tk:2:3: .*0xff is not UTF-8"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path: Path, data: bytes, code: str, says: str) -> None:
    path = tmp_path / "k.tk"
    path.write_bytes(data)
    with pytest.raises(TkcError, match=says) as caught:
        driver.read_source(path)
    assert code_of(caught) == code


def test_a_missing_source_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gemm.tk").write_text("kernel")
    with pytest.raises(TkcError, match=r"does not exist.*\n.*did you mean .*gemm\.tk"):
        driver.read_source(tmp_path / "gem.tk")
    with pytest.raises(TkcError, match="is a folder"):
        driver.read_source(tmp_path)
    with pytest.raises(TkcError, match="cannot be read"):
        driver.read_source(tmp_path / "a\0b")
    with pytest.raises(TkcError, match="cannot be read: not a directory"):
        driver.read_source(tmp_path / "gemm.tk" / "x.tk")


# targets, options, pipelines


def test_unknown_words_are_answered_with_the_nearest() -> None:
    with pytest.raises(TkcError, match=r"did you mean sm_100a"):
        job(target="sm100a")
    with pytest.raises(TkcError, match=r"did you mean minimal"):
        job(fences="minimum")
    with pytest.raises(TkcError, match=r"did you mean strict"):
        job(model="strickt")


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        ("mork", "did you mean mark"),
        ("mark{", "cannot be read"),
        ("mark{times=many}", "pass mark: incompatible types"),
        ("mark{count=2}", r"pass mark: provided arguments .*count"),
        (",mark", "cannot be read"),
    ],
)
def test_a_wrong_pipeline_is_one_message(pipeline: str, says: str) -> None:
    with pytest.raises(TkcError, match=says) as caught:
        driver.parse_pipeline(pipeline)
    assert code_of(caught) == "TK119"
    assert "\n" not in caught.value.diagnostics[0].message


def test_a_pipeline_prints_as_it_parses() -> None:
    text = "mark,nothing,mark{times=2}"
    assert driver.pipeline_text(driver.parse_pipeline(text)) == text
    assert driver.pipeline_text(driver.parse_pipeline("")) == ""


# the user's errors


def test_a_user_error_comes_with_its_source_line() -> None:
    with pytest.raises(TkcError) as caught:
        driver.run(job("wrong here"))
    assert (
        str(caught.value)
        == "k.tk:1:1: error: unknown name wrong [TK102]\n    wrong here\n    ^^^^^"
    )
    with pytest.raises(TkcError) as caught:
        driver.run(job("kernel\nab  tile", passes="mark,refuse"))
    assert str(caught.value).splitlines()[1:] == ["    ab  tile", "        ^"]


def test_warnings_come_with_the_result() -> None:
    compiled = driver.run(job(passes="warn"))
    assert [d.message for d in compiled.diagnostics] == ["something is odd"]
    assert driver.run(job()).diagnostics == ()


# our own


def replay(path: str) -> tuple[int, list[str]]:
    """Runs the first line of a reproducer; the exit code, and the words of the command."""
    first = Path(path).read_text().splitlines()[0]
    words = shlex.split(first.split("RUN: ", 1)[1])
    if words[0] == "tkc-opt":
        return opt.main(words[1:]), words
    from tkc.__main__ import guarded, main

    return guarded(main, words[1:]), words


def test_a_pass_that_fails_leaves_a_reproducer_that_replays(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Bug, match="internal error in break: KeyError: 'no such thing'") as caught:
        driver.run(job(passes="mark,break,mark"))
    path = caught.value.reproducer
    assert path is not None
    assert path.startswith("tkc-repro-")
    code, words = replay(path)
    assert (code, words[:3]) == (3, ["tkc-opt", "-p", "break,mark"])
    assert "internal error in break: KeyError" in capfd.readouterr().err
    text = Path(path).read_text()
    assert "mark0" in text
    assert "half" not in text, "the IR is that before the pass"
    assert 'loc("k.tk":1:1)' in text


def test_the_pass_that_spoils_a_module_is_named_and_replayed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(
        Bug, match=r"internal error in spoil: .*builtin\.module: .*nonsense"
    ) as caught:
        driver.run(job(passes="mark,spoil,mark"))
    assert caught.value.reproducer is not None
    code, words = replay(caught.value.reproducer)
    assert (code, words[2]) == (3, "spoil,mark")
    assert "left so by spoil" in capfd.readouterr().err
    with pytest.raises(Bug, match="internal error in spoil"):
        driver.run(job(passes="mark,spoil,mark", verify_each=True))


def test_a_printer_that_fails_leaves_the_final_module(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        Bug, match="internal error in the PTX printer: AssertionError: no name"
    ) as caught:
        driver.run(job("unprintable"))
    assert caught.value.reproducer is not None
    code, words = replay(caught.value.reproducer)
    assert (code, words[:3]) == (3, ["tkc-opt", "-t", "ptx"])


def test_a_front_end_that_fails_leaves_the_source(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        Bug, match="internal error in frontend: RuntimeError: front end is broken"
    ) as caught:
        driver.run(job("crash\n", target="sm_90a", params={"BM": 64}))
    path = caught.value.reproducer
    assert path is not None
    assert path.endswith(".tk")
    code, words = replay(path)
    assert (code, words[:6]) == (3, ["tkc", "compile", "--target", "sm_90a", "-D", "BM=64"])
    assert "front end is broken" in capfd.readouterr().err


def test_one_bug_makes_one_file(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Bug):
            driver.run(job(passes="break"))
    with pytest.raises(Bug):
        driver.run(job("another", passes="break"))
    assert len(list(tmp_path.glob("tkc-repro-*.mlir"))) == 2


def test_a_folder_that_cannot_be_written_is_no_second_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    monkeypatch.setattr(Path, "write_text", _refuse_here(Path.write_text))
    with pytest.raises(Bug) as caught:
        driver.run(job(passes="break"))
    assert caught.value.reproducer is not None
    assert Path(caught.value.reproducer).parent == elsewhere


def _refuse_here(write: object) -> object:
    def guarded(self: Path, *args: object, **options: object) -> object:
        if self.parent == Path():
            raise PermissionError(13, "Permission denied")
        return write(self, *args, **options)  # type: ignore[operator]

    return guarded


# the API


def test_compile_takes_a_path_or_a_text(tmp_path: Path) -> None:
    path = tmp_path / "k.tk"
    path.write_text("kernel")
    kernel = tkc.compile(path, params={"BM": 64}, dump=tmp_path / "dump")
    assert kernel.ptx.startswith("// 4 modules")
    assert "BM = 64" in (tmp_path / "dump" / "00-frontend.mlir").read_text()
    with pytest.raises(TkcError, match="<source>:1:1: error"):
        tkc.compile("wrong")
