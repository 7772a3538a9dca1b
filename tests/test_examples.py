"""The examples, all the way: exact PTX, dumps that replay to it, the same text in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

import tkc
from tkc import opt
from tkc.backend.sass import serial_loops
from tkc.backend.tools import find
from tkc.driver import run
from tkc.dump import Dump
from tkc.job import Job, Step

pytestmark = pytest.mark.early

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.tk"))
NUMBERS = {p.stem: number for number, p in enumerate(EXAMPLES)}
TARGETS = ("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_107a")
DUMPED = ("sm_90a", "sm_100a")
"""Targets for which every example is compiled with each step verified."""
BOTH = pytest.mark.parametrize("target", DUMPED)
EXACT = (
    "gemm_2cta", "gemm_bf16", "gemm_bf16_level2", "gemm_bf16_level2_sm90", "gemm_cluster", "gemm_nvfp4",
    "gemm_nvfp4_2cta", "gemm_nvfp4_clc", "silu_mul",
    "tma_copy",
)  # fmt: skip
"""Examples whose whole text is kept: every change of it is looked at."""
ONLY = {"gemm_int8": ("sm_90a", "sm_100a")}
"""Examples that not every target has the means for."""
NEEDS = {
    "gemm_2cta_level2": ("sm_90a", False),
    "gemm_bf16_level2": ("sm_90a", False),
    "gemm_bf16_level2_sm90": ("sm_90a", True),
    "gemm_cluster_level2_sm90": ("sm_90a", True),
    **{f"gemm_{n}_clc": ("sm_90a", False) for n in ("bf16", "e4m3", "mxfp4", "mxfp8", "nvfp4")},
    "gemm_e4m3_early": ("sm_90a", False),
    "gemm_mxfp4": ("sm_90a", False),
    "gemm_mxfp8": ("sm_90a", False),
    "gemm_nvfp4": ("sm_90a", False),
    "gemm_nvfp4_2cta": ("sm_90a", False),
    "gemm_nvfp4_grouped": ("sm_90a", False),
    "gemm_nvfp4_level2": ("sm_90a", False),
    "gemm_nvfp4_level2_slow": ("sm_90a", False),
    "gemm_nvfp4_slow": ("sm_90a", False),
}
"""Examples that spell out what one kind of matrix unit takes: a target, and whether it is theirs or not."""


def claims(name: str, target: str) -> bool:
    """Whether an example is for a target."""
    only, meant = NEEDS.get(name, (target, True))
    return (target == only) == meant


LIKE = (
    "gemm_e4m3_clc",
    "gemm_e4m3_early",
    "gemm_mxfp4_clc",
    "gemm_mxfp8_clc",
    "gemm_nvfp4_grouped",
)
"""Examples that are others with operands of another type: most of what is looked at below, of them in long runs only."""


IN_TURN = ("sm_100f", "sm_103a")
"""Targets with the instructions of sm_100a: of two examples one is made for the one, one for the other."""


def not_its_turn(name: str, in_turn: tuple[str, ...] = IN_TURN) -> list[str]:
    """Of these targets, those that an example is looked at for in long runs only: all but one."""
    mine = [t for t in in_turn if claims(name, t)]
    number = NUMBERS[name]
    return [t for i, t in enumerate(mine) if i != number % len(mine)]


def each(
    targets: tuple[str, ...],
    always: tuple[str, ...] = (),
    rare: tuple[str, ...] = (),
    in_turn: tuple[str, ...] = IN_TURN,
) -> pytest.MarkDecorator:
    """Every example on every target that it is for; those of `rare`, and most of `LIKE`, in long runs only, and of
    those of `in_turn` one, another from example to example."""
    cases: list[Any] = []
    for name in [p.stem for p in EXAMPLES]:
        others = not_its_turn(name, in_turn)
        for target in [t for t in targets if claims(name, t)]:
            long = target not in always if name in LIKE else target in (*rare, *others)
            cases.append(pytest.param(name, target, marks=[pytest.mark.soak] if long else []))
    return pytest.mark.parametrize(("name", "target"), cases)


def source(name: str) -> Path:
    """Relative to the project, as a user names it: the name stands in the PTX."""
    return Path("examples") / f"{name}.tk"


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


class FirstDump(Dump):
    """Without those of the passes: to print them all takes twice as long as to make them."""

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None: ...


@cache
def watched(name: str, target: str) -> tuple[tkc.Kernel, str]:
    """An example compiled with each step verified, and its first dump; once for all tests."""
    job = Job(source(name).read_text(), str(source(name)), target, verify_each=True)
    with TemporaryDirectory() as folder:
        compiled = run(job, [FirstDump(Path(folder), job)])
        assert (Path(folder) / "99.ptx").read_text() == compiled.ptx
        first = (Path(folder) / "00-frontend.mlir").read_text()
    (contract,) = compiled.contract["kernels"]
    return tkc.Kernel(contract, compiled.ptx), first


@cache
def made(name: str, target: str) -> tkc.Kernel:
    """An example compiled for a target, once for all tests."""
    if target in DUMPED:
        return watched(name, target)[0]
    kernel = tkc.compile(source(name), target=target)
    return tkc.Kernel(kernel.contract, kernel.ptx)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(n, t, marks=[pytest.mark.soak] if t in not_its_turn(n) else [])
        for n in EXACT
        for t in TARGETS
        if claims(n, t)
    ],
)
def test_the_text_is_exact(name: str, target: str, golden: Callable[[str, str], None]) -> None:
    golden(made(name, target).ptx, f"{name}-{target}.ptx")


def passes(dump: Path) -> str:
    """Those of the command in a dump's first line."""
    first = dump.read_text().splitlines()[0]
    match = re.fullmatch(r"// tkc-opt (?:-p '(.*)' )?-t ptx (\S+)", first)
    assert match is not None, first
    assert match[2] == dump.name
    return match[1] or ""


def replay(dump: Path, out: Path) -> str:
    """The PTX that the command in a dump's first line makes."""
    assert opt.main(["-p", passes(dump), "-t", "ptx", "-o", str(out), str(dump)]) == 0
    return out.read_text()


def step(dump: Path, after: Path, out: Path) -> str:
    """The IR that a dump's command makes on its way to what a later dump's begins with."""
    whole, rest = passes(dump), passes(after)
    assert whole.endswith(rest)
    first = whole.removesuffix(rest).rstrip(",")
    assert opt.main(["-p", first, "--print-debuginfo", "-o", str(out), str(dump)]) == 0
    return out.read_text()


@each(DUMPED)
def test_every_pass_leaves_a_module_that_verifies(name: str, target: str) -> None:
    assert watched(name, target)[0].target == target


@each(DUMPED, in_turn=DUMPED)
def test_the_first_dump_replays_to_the_same_text(name: str, target: str, tmp_path: Path) -> None:
    kernel, first = watched(name, target)
    dump = tmp_path / "00-frontend.mlir"
    dump.write_text(first)
    assert replay(dump, tmp_path / "out") == kernel.ptx


FOLLOWED = ({"gemm_bf16"}, {"gemm_nvfp4"})
"""Examples all of whose dumps are looked at, for each target; of the others in long runs."""


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(p.stem, t, marks=[] if p.stem in some else [pytest.mark.soak])
        for p in EXAMPLES
        for t, some in zip(DUMPED, FOLLOWED, strict=True)
        if claims(p.stem, t) and t in ONLY.get(p.stem, DUMPED)
    ],
)
def test_every_dump_replays_to_the_same_text(name: str, target: str, tmp_path: Path) -> None:
    """Each makes the next, and the last one the PTX: so all of them do."""
    kernel = tkc.compile(source(name), target=target, dump=tmp_path / "dump")
    dumps = sorted((tmp_path / "dump").glob("*.mlir"))
    assert len(dumps) > 8
    for dump, after in pairwise(dumps):
        made = step(dump, after, tmp_path / "out")
        assert made.rstrip("\n") == after.read_text().split("\n", 1)[1].rstrip("\n"), dump.name
    assert replay(dumps[-1], tmp_path / "out") == kernel.ptx


@pytest.mark.soak
@BOTH
def test_every_dump_replays_by_itself(target: str, tmp_path: Path) -> None:
    kernel = tkc.compile(source("gemm_bf16"), target=target, dump=tmp_path / "dump")
    for dump in sorted((tmp_path / "dump").glob("*.mlir")):
        assert replay(dump, tmp_path / "out") == kernel.ptx, dump.name


def test_check_tells_what_a_kernel_uses(capsys: pytest.CaptureFixture[str]) -> None:
    from tkc.__main__ import guarded, main

    assert guarded(main, ("check", str(source("gemm_bf16")))) == 0
    out, err = capsys.readouterr()
    assert out.startswith("gemm for sm_100a, PTX 8.6\n  params          BM = 128, BN = 256")
    assert "tensor memory   512 of 512 columns" in out
    assert err == ""
    assert (
        guarded(main, ("check", str(source("gemm_bf16")), "--target", "sm_90a", "-D", "STAGES=9"))
        == 1
    )
    out, err = capsys.readouterr()
    assert "examples/gemm_bf16.tk:10:12: error: kernel gemm needs " in out
    assert out.splitlines()[2].strip() == "^"
    assert err == ""


def test_the_text_is_the_same_in_every_process() -> None:
    words = [sys.executable, "-m", "tkc", "compile", str(source("gemm_bf16")), "-o", "-"]
    texts = {
        subprocess.run(
            words, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert texts == {made("gemm_bf16", "sm_100a").ptx.encode()}


def test_a_run_leaves_no_trace_in_the_next() -> None:
    first = tkc.compile(source("gemm_bf16"), target="sm_90a").ptx
    tkc.compile(source("silu_mul"), target="sm_100a")
    assert tkc.compile(source("gemm_bf16"), target="sm_90a").ptx == first


@pytest.mark.skipif(find("ptxas") is None, reason="no ptxas")
@each(TARGETS, always=("sm_100a",))
def test_it_assembles_without_a_notice_or_a_spill(name: str, target: str) -> None:
    if target not in ONLY.get(name, TARGETS):
        with pytest.raises(tkc.TkcError, match=r"which needs tcgen05\.mma on 8-bit integers"):
            tkc.compile(source(name), target=target)
        return
    kernel = made(name, target)
    assembly = kernel.assembly()
    assert not assembly.notices
    assert not assembly.spills
    assert assembly.registers[kernel.name] > 0


@pytest.mark.skipif(
    find("ptxas") is None or find("nvdisasm") is None, reason="no ptxas or nvdisasm"
)
@each(TARGETS, always=("sm_100a",), rare=("sm_100f", "sm_103a", "sm_107a"), in_turn=DUMPED)
def test_no_loop_over_lanes_is_made_of_it(name: str, target: str) -> None:
    if target in ONLY.get(name, TARGETS):
        assert serial_loops(made(name, target).sass()) == []


@pytest.mark.parametrize(
    ("name", "target", "line", "told"),
    [
        ("gemm_bf16_level2", "sm_90a", "accum  d:", "has one slot, not 2 [TK203]"),
        ("gemm_bf16_level2_sm90", "sm_100a", "wait products", "complete on a barrier on sm_100a"),
    ],
)
def test_what_a_target_does_otherwise_is_said_at_its_place(
    name: str, target: str, line: str, told: str
) -> None:
    with pytest.raises(tkc.TkcError) as found:
        tkc.compile(source(name), target=target)
    said = str(found.value)
    assert told in said
    assert said.splitlines()[1].strip().startswith(line)
