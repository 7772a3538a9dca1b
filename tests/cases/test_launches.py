"""LCH: grids follow from the device and the cluster, and dependent launch is never claimed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases.products import EXAMPLES, GEMM, check_product, poison, uniform
from programs import changed

import tkc
from tkc.backend.expressions import Scope, evaluate

CLUSTER = (EXAMPLES / "gemm_cluster.tk").read_text(encoding="utf-8")


@cache
def clustered() -> tkc.Kernel:
    return tkc.compile(CLUSTER, target="sm_90a")


def asks(source: Path) -> bool:
    return ", dependent" in source.read_text(encoding="utf-8")


def overlaps_if_it_asks(source: Path, target: str) -> None:
    try:
        kernel = tkc.compile(source, target=target)
    except tkc.TkcError:
        return  # an example for the other target
    assert kernel.contract["attributes"] == ({"dependent": True} if asks(source) else {})
    assert ("griddepcontrol" in kernel.ptx) is asks(source)


def test_LCH_1_no_kernel_asks_for_a_dependent_launch_by_itself() -> None:
    """One that does not say so does not wait for the grid before, so it may not overlap it."""
    texts = sorted((EXAMPLES.parent / "tests" / "golden" / "test_examples").glob("*-sm_*.ptx"))
    assert len(texts) > 10
    for path in texts:
        source = EXAMPLES / f"{path.name.rpartition('-')[0]}.tk"
        text = path.read_text(encoding="utf-8")
        assert ("griddepcontrol" in text) is asks(source), path.name
    for name in ("tma_copy", "silu_mul"):
        overlaps_if_it_asks(EXAMPLES / f"{name}.tk", "sm_100a")


@pytest.mark.soak
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("source", sorted(EXAMPLES.glob("*.tk")), ids=lambda path: path.stem)
def test_LCH_1_no_example_asks_for_a_dependent_launch(source: Path, target: str) -> None:
    overlaps_if_it_asks(source, target)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_LCH_1_a_dependent_launch_takes_a_wait_before_the_first_load(target: str) -> None:
    asked = changed(GEMM, ("launch persistent", "launch persistent, dependent"))
    """Where the program does not say where, the compiler puts one there."""
    for text in (asked, changed(asked, ("role load:\n", "role load:\n        wait pdl\n"))):
        kernel = tkc.compile(text, target=target)
        assert kernel.contract["attributes"] == {"dependent": True}
        loads = kernel.ptx.index("cp.async.bulk.tensor.2d.shared::cluster.global")
        assert "griddepcontrol.wait" in kernel.ptx[:loads]


def test_LCH_1_each_role_that_reads_waits() -> None:
    """One `wait pdl` says nothing for a role that reads ahead of anything that it waits for."""
    text = changed(
        GEMM,
        ("launch persistent", "launch persistent, dependent"),
        ("C: global[bf16, M, N]", "C: global[bf16, M, N], R: global[f32, M]"),
        ("role load:\n", "role load:\n        wait pdl\n"),
        ("bf16(read(d))", "bf16(read(d) + column(read(R[m])))"),
    )
    tkc.compile(text)  # the rows are read behind a get
    early = changed(
        text,
        ("            get result:", "            r = column(read(R[m]))\n            get result:"),
        ("column(read(R[m])))", "r)"),
    )
    with pytest.raises(tkc.TkcError, match=r"role store reads `R`.*: expected `wait pdl`"):
        tkc.compile(early)
    tkc.compile(changed(early, ("role store:\n", "role store:\n        wait pdl\n")))


@pytest.mark.parametrize("device", [(132, 66), (132, 60), (114, 57), (7, 3), (1, 1)])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (256, 256), (257, 300), (5000, 5000)])
def test_LCH_3_LCH_5_a_grid_is_whole_clusters_and_no_more_than_fit(
    m: int, n: int, device: tuple[int, int]
) -> None:
    """`max_clusters` is what the occupancy API says, which may be less than the multiprocessors over the cluster."""
    kernel = clustered()
    size = kernel.contract["cluster"]["size"]
    facts = {"M": m, "N": n, "K": 64, "sm_count": device[0], "max_clusters": device[1]}
    grid = [evaluate(x, Scope(facts)) for x in kernel.contract["grid"]]
    assert grid[0] % size[0] == grid[1] % size[1] == grid[2] % size[2] == 0
    assert size[0] <= grid[0] <= size[0] * device[1]


def test_LCH_5_work_that_the_cluster_does_not_divide_is_done_whole() -> None:
    """One block of rows and three of columns for clusters of two CTAs."""
    kernel = clustered()
    a, b, c = uniform(100, 72), uniform(600, 72), poison(100, 600)
    assert not kernel.emulate(a, b, c, sm_count=4).findings
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("sm_count", [1, 2, 114, 132, 148])
def test_LCH_7_any_number_of_multiprocessors(sm_count: int) -> None:
    kernel = tkc.compile(GEMM, target="sm_90a", params={"BM": 64, "BN": 32})
    a, b, c = uniform(300, 64), uniform(200, 64), poison(300, 200)
    assert not kernel.emulate(a, b, c, sm_count=sm_count).findings
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


def test_LCH_7_no_text_knows_a_number_of_multiprocessors() -> None:
    kernel, _ = check_product(GEMM, "sm_90a", 72, 72, 72)
    assert not {"114", "132", "148"} & set(kernel.ptx.replace(",", " ").replace(";", " ").split())


def test_LCH_3_no_cluster_fits_is_said_with_its_size() -> None:
    kernel = tkc.compile(EXAMPLES / "gemm_cluster.tk", target="sm_90a")
    a, b, c = uniform(128, 64), uniform(256, 64), poison(128, 256)
    with pytest.raises(
        tkc.TkcError, match=r"a cluster of 2 CTAs of this kernel does not fit the device.*TK414"
    ):
        kernel.emulate(a, b, c, sm_count=1)


@pytest.mark.parametrize("count", [-2, 0, 5])
def test_LCH_5_work_is_counted_by_a_number_that_the_launch_gives(count: int) -> None:
    """Of none, and of fewer, nothing is launched."""
    kernel = tkc.compile(
        "kernel k(Y: global[f32, R], L: i32):\n"
        "    launch persistent\n"
        "    schedule work: m in tiles(blocks(L, 2))\n"
        "    role all:\n"
        "        for m in work:\n"
        "            elect: Y[m.index] <- 3.0\n",
        target="sm_90a",
    )
    got = np.zeros(8, np.float32)
    assert not kernel.emulate(got, count, sm_count=2).findings
    assert (got == [3.0 if i < -(-max(count, 0) // 2) else 0.0 for i in range(8)]).all()
