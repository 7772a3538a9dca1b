"""Every pass alone, on the IR of every stage: it does what it can, or says which pass comes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.diagnostics import TkcError
from tkc.driver import context, parse_pipeline, passes_of, to_module
from tkc.job import Job
from tkc.opt import main
from tkc.passes import PASSES
from tkc.passes.preconditions import ROWS, check

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """\
kernel copy(A: global[bf16, M, N], C: global[bf16, M, N]):
    launch persistent, cluster(2)
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared a: tile[bf16, 64, 64] * 2
    pipe p(a): load -> store
    role load:
        for m, n in work:
            put p: a <- A[m, n]
    role store:
        for m, n in work:
            get p: C[m, n] <- a
"""


def ask_all(text: str, target: str) -> int:
    """Runs each pass on a copy of the IR of each stage; how many were refused."""
    job = Job(text, "<source>", target)
    order = passes_of(job)
    module = to_module(job, after="frontend")
    codes: list[str] = []
    for stage in range(len(order) + 1):
        if stage:
            check(order[stage - 1].name, module)  # nothing is refused in order
            order[stage - 1].apply(context(), module)
        for name in PASSES:
            one = f"set-target{{arch={target}}}" if name == "set-target" else name
            (alone,) = parse_pipeline(one)
            try:
                check(name, module)
                copy = module.clone()
                alone.apply(context(), copy)
                copy.verify()
            except TkcError as error:
                codes += [d.code for d in error.diagnostics]
    assert "TK901" not in codes
    return codes.count("TK119")


def test_passes_alone_on_every_stage() -> None:
    assert ask_all(SMALL, "sm_90a") > 100


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm_bf16", "sm_90a"), ("gemm_2cta", "sm_100a"), ("gemm_cluster", "sm_90a"), ("gemm_nvfp4_clc", "sm_100a"),
        ("gemm_2cta_level2", "sm_100a"), ("gemm_grouped_list", "sm_90a"), ("row_softmax", "sm_100a"),
    ],
)  # fmt: skip
def test_passes_of_examples_alone_on_every_stage(name: str, target: str) -> None:
    assert ask_all((EXAMPLES / f"{name}.tk").read_text(), target) > 100


def test_what_must_run_before_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tkc.dump import ir_text

    early = tmp_path / "early.mlir"
    early.write_text(ir_text(to_module(Job(SMALL, "<source>", "sm_90a"), after="set-target")))
    assert main([str(early), "-p", "place-tiles"]) == 1
    said = capsys.readouterr().err
    assert "place-tiles comes behind split-over-cluster" in said
    assert "-p 'split-over-cluster,select-swizzle,place-tiles'" in said
    assert main([str(early), "-p", "split-over-cluster,split-over-cluster"]) == 1
    assert "has been done already" in capsys.readouterr().err
    assert main([str(early), "-p", "split-over-cluster,select-swizzle,place-tiles"]) == 0


def test_rows_name_passes_in_their_order() -> None:
    order = list(PASSES)
    for row in ROWS:
        assert all(order.index(row.by) < order.index(name) for name in row.needed_by), row.by
