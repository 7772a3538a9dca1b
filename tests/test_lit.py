"""Every file under lit_tests/, in process; `lit lit_tests` runs the same files by real lit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import has_gpu
from lit_kernels import kernel_lines, one_of_each_target
from lit_runner import LitError, requirements, run_lines, run_test

ROOT = Path(__file__).parent.parent
LIT = ROOT / "lit_tests"
FILES = sorted(p for s in ("*.mlir", "*.tk") for p in LIT.rglob(s) if "Inputs" not in p.parts)


def features() -> set[str]:
    from tkc.backend.tools import find

    return {
        name for name, there in (("gpu", has_gpu()), ("ptxas", find("ptxas") is not None)) if there
    }


def name_of(path: Path) -> str:
    return path.relative_to(LIT).as_posix()


def passes(path: Path, scratch: Path, seed: str | None = None) -> None:
    needs = requirements(path)
    if needs and (missing := needs - features()):
        pytest.skip(f"needs {', '.join(sorted(missing))}")
    failure = run_test(path, scratch, ("emulate", "gpu") if has_gpu() else ("emulate",), seed)
    if failure is not None:
        pytest.fail(failure, pytrace=False)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_lit(path: Path, tmp_path: Path) -> None:
    """Of a kernel's runs one for each target, which TKC_SEED chooses."""
    passes(path, tmp_path, os.environ.get("TKC_SEED") or "0")


SEVERAL = [p for p in FILES if one_of_each_target(kernel_lines(p), "0") != kernel_lines(p)]


@pytest.mark.soak
@pytest.mark.parametrize("path", SEVERAL, ids=name_of)
def test_every_run_of_a_kernel(path: Path, tmp_path: Path) -> None:
    passes(path, tmp_path)


def test_each_target_runs_one_of_its_lines() -> None:
    for path in FILES:
        lines = [line for line in kernel_lines(path) if "emulate" in line.machines]
        some = one_of_each_target(lines, "0")
        assert sorted(line.target for line in some) == sorted({line.target for line in lines})


def write(folder: Path, *lines: str) -> Path:
    path = folder / "test.mlir"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_runner_sees_a_failing_check(tmp_path: Path) -> None:
    path = write(
        tmp_path, "// RUN: cat %s | filecheck %s", "// CHECK: some{{thing}} else", "something"
    )
    assert "something" in (run_test(path, tmp_path) or "")


def test_the_runner_passes_a_matching_check(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "// RUN: cat %s | \\",
        "// RUN:   filecheck %s",
        "// CHECK: some{{thing$}}",
        "something",
    )
    assert run_test(path, tmp_path) is None


def test_the_runner_stops_at_the_first_failing_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "// RUN: diff %s %s",
        "// RUN: cat %s > %t && not diff %t %t",
        "// RUN: cat nothing",
    )
    assert "not diff" in (run_test(path, tmp_path) or "")


def test_not_turns_a_failure_round(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other\n")
    path = write(tmp_path, "// RUN: not diff %s %T/other 2>&1 | filecheck %s", "// CHECK: +other")
    assert run_test(path, tmp_path) is None


@pytest.mark.parametrize("line", ["unknown-tool %s", "cat %s || cat %s", "cat %s ; cat %s"])
def test_a_line_that_cannot_be_run_never_passes(tmp_path: Path, line: str) -> None:
    with pytest.raises(LitError):
        run_test(write(tmp_path, f"// RUN: {line}"), tmp_path)


def test_a_file_without_a_run_line_never_passes(tmp_path: Path) -> None:
    for line in ("nothing", "// gpu: 'A=random(3)'"):
        with pytest.raises(LitError, match="no RUN line and no line to emulate"):
            run_test(write(tmp_path, line), tmp_path)


def test_a_dangling_backslash_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LitError, match="backslash"):
        run_lines(write(tmp_path, "// RUN: cat \\"))


def kernel_test(folder: Path, *lines: str) -> Path:
    path = folder / "copy.tk"
    kernel = (LIT / "run" / "copy.tk").read_text(encoding="utf-8")
    path.write_text("\n".join([*lines, kernel[kernel.index("kernel") :]]), encoding="utf-8")
    return path


ARGUMENTS = "'X=random(40,24,seed=1)' 'Y=empty(40,24)'"


def test_a_kernel_is_run_and_compared(tmp_path: Path) -> None:
    right = kernel_test(
        tmp_path,
        f"# emulate: {ARGUMENTS} \\",
        "#   --expect 'Y = np.maximum(X, -2)' --rtol 0",
        f"# gpu: {ARGUMENTS} --expect 'Y = X + 1'",
    )
    assert run_test(right, tmp_path) is None


def test_a_kernel_with_another_result_fails(tmp_path: Path) -> None:
    wrong = kernel_test(tmp_path, f"# emulate, gpu: {ARGUMENTS} --expect 'Y = X + 1'")
    failure = run_test(wrong, tmp_path) or ""
    assert failure.startswith("exit 1 from: tkc emulate")
    assert "[TK413]" in failure


@pytest.mark.skipif(
    shutil.which("lit") is None and not (Path(sys.executable).parent / "lit").exists(),
    reason="no lit",
)
def test_real_lit_runs_the_same_files() -> None:
    smallest = min(FILES, key=lambda p: p.stat().st_size)
    lit = Path(sys.executable).parent / "lit"
    done = subprocess.run(
        [lit, "-q", smallest, LIT / "run" / "copy.tk"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
