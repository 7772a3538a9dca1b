"""Dumps, IR printing and timing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import stand_in

from tkc import driver, opt
from tkc.diagnostics import TkcError
from tkc.dump import Dump, IrPrinter, Timing, fingerprint, ir_text
from tkc.job import Job

JOB = Job("kernel", "k.tk")


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install(monkeypatch)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_dump_has_a_file_for_each_step_that_changed_something(tmp_path: Path) -> None:
    driver.run(JOB, [Dump(tmp_path / "a" / "b", JOB)])
    folder = tmp_path / "a" / "b"
    assert names(folder) == [
        "00-frontend.mlir",
        "01-mark.mlir",
        "03-mark.mlir",
        "99.json",
        "99.ptx",
        "index.txt",
    ]
    index = (folder / "index.txt").read_text()
    assert index.startswith("tkc dump of k.tk for sm_100a\n00  frontend")
    assert "02  nothing                   unchanged" in index


def test_each_dump_replays_to_the_same_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.run(JOB, [Dump(tmp_path, JOB)])
    wanted = (tmp_path / "99.ptx").read_text()
    assert 'from loc("k.tk":1:1)' in wanted.replace("#builtin.", "") or "k.tk" in wanted
    for path in sorted(tmp_path.glob("*.mlir")):
        rest = path.read_text().splitlines()[0].split("'")[1] if "-p" in path.read_text() else ""
        assert opt.main(["-p", rest, "-t", "ptx", str(path)]) == 0
        assert capsys.readouterr().out == wanted


def test_an_earlier_dump_is_removed_and_nothing_else(tmp_path: Path) -> None:
    longer = Job("kernel", "k.tk", passes="mark,mark,mark,mark")
    driver.run(longer, [Dump(tmp_path, longer)])
    (tmp_path / "50-mine.mlir").write_text("mine")
    driver.run(JOB, [Dump(tmp_path, JOB)])
    assert names(tmp_path) == [
        "00-frontend.mlir", "01-mark.mlir", "03-mark.mlir", "50-mine.mlir", "99.json", "99.ptx", "index.txt",
    ]  # fmt: skip


def test_an_index_that_is_not_ours_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "index.txt").write_text("my list\n00-notes.mlir\n")
    (tmp_path / "00-notes.mlir").write_text("mine")
    driver.run(JOB, [Dump(tmp_path, JOB)])
    assert (tmp_path / "00-notes.mlir").read_text() == "mine"


def test_a_dump_shows_how_far_a_failing_run_came(tmp_path: Path) -> None:
    failing = Job("kernel", "k.tk", passes="mark,refuse")
    with pytest.raises(TkcError):
        driver.run(failing, [Dump(tmp_path, failing)])
    assert names(tmp_path) == ["00-frontend.mlir", "01-mark.mlir", "index.txt"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TkcError, match=r"dump folder .* cannot be written"):
        driver.run(JOB, [Dump(tmp_path / "file" / "dump", JOB)])


def test_a_fingerprint_changes_with_the_text_and_only_then() -> None:
    module = driver.to_module(JOB)
    before = fingerprint(module)
    assert fingerprint(module) == before
    module.attributes["more"] = module.attributes["text"]
    after = fingerprint(module)
    assert after != before
    del module.attributes["more"]
    assert fingerprint(module) == before
    first, *_ = module.ops
    first.detach()
    module.body.block.add_op(first)
    assert fingerprint(module) != before, "the order counts"


def test_ir_is_printed_around_the_passes_named() -> None:
    stream = io.StringIO()
    driver.run(JOB, [IrPrinter(stream, ahead_of=("nothing",), behind=("frontend", "mark"))])
    heads = [line for line in stream.getvalue().splitlines() if line.startswith("// -----//")]
    assert heads == [
        "// -----// IR after frontend //----- //",
        "// -----// IR after mark //----- //",
        "// -----// IR before nothing //----- //",
        "// -----// IR after mark //----- //",
    ]
    assert "loc(" not in stream.getvalue()


def test_ir_is_printed_around_every_pass() -> None:
    stream = io.StringIO()
    driver.run(JOB, [IrPrinter(stream, ahead_of_all=True, behind_all=True, locations=True)])
    assert stream.getvalue().count("// -----// IR before") == 3
    assert stream.getvalue().count("// -----// IR after") == 4
    assert "loc(" in stream.getvalue()


def test_text_without_locations_parses_back() -> None:
    module = driver.to_module(JOB)
    assert "loc(" not in ir_text(module, locations=False)
    assert 'loc("k.tk":1:1)' in ir_text(module)


def test_the_time_table_adds_up() -> None:
    timing = Timing(start_up=0.010)
    driver.run(JOB, [timing])
    table = timing.table(total=1.0)
    assert [line.split("  ")[0] for line in table.splitlines()][:3] == [
        "start-up",
        "load passes",
        "frontend",
    ]
    assert table.count("mark") == 2
    total = sum(float(line.split(" ms")[0].split()[-1]) for line in table.splitlines()[:-1])
    assert total == pytest.approx(1000.0, abs=0.2)
    assert table.splitlines()[-1].split() == ["total", "1000.00", "ms", "100.0", "%"]
