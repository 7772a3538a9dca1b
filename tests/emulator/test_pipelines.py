"""Whole pipelines of PTX, run and compared with NumPy: the reference GEMMs and our own compiler's kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.emulator import Report, TensorMap, emulate
from tkc.emulator.formats import FORMATS
from tkc.ir.isa.layouts import scale_offset

PTX = Path(__file__).parent / "ptx"
EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16
SCHEDULES = ("eager", "lazy", "random")


def two_dimensional(array: np.ndarray[Any, Any], box: list[int]) -> TensorMap:
    """A bf16 map of rows of 128 bytes, swizzled."""
    return TensorMap(
        array,
        dtype="bf16",
        sizes=array.shape[::-1],
        strides=[array.strides[0]],
        box=box,
        swizzle="128B",
    )


def close(result: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], unit: float) -> None:
    """Every element within a few units in the last place of the largest sum of magnitudes."""
    assert not np.isnan(result.astype(np.float64)).any()
    error = np.abs(result.astype(np.float64) - wanted)
    assert error.max() <= unit * np.abs(wanted).max()


def silent(report: Report) -> None:
    assert not report.findings, "\n".join(map(str, report.findings))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("name", "tile", "boxes", "block", "cluster", "shared"),
    [
        ("gemm_bf16_sm100", (128, 256), ([64, 128], [64, 256]), 192, 1, 196608),
        ("gemm_bf16_pair_sm100", (256, 256), ([64, 128], [64, 128]), 192, 2, 131072),
        ("gemm_bf16_sm90", (64, 128), ([64, 64], [64, 128]), 160, 1, 98304),
    ],
)
def test_bf16_gemm(
    name: str,
    tile: tuple[int, int],
    boxes: tuple[list[int], list[int]],
    block: int,
    cluster: int,
    shared: int,
    schedule: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = 2 * tile[0], tile[1], 192
    a = rng.uniform(-1, 1, (m, k)).astype(BF16)
    b = rng.uniform(-1, 1, (n, k)).astype(BF16)
    c = np.full((m, n), np.nan, np.float32)
    report = emulate(
        (PTX / f"{name}.ptx").read_text(),
        grid=(cluster * n // tile[1], m // tile[0]),
        block=block,
        cluster=(cluster, 1, 1),
        shared_bytes=shared,
        args=[
            two_dimensional(a, boxes[0]),
            two_dimensional(b, boxes[1]),
            c,
            np.uint32(n),
            np.uint32(k // 64),
        ],
        schedule=schedule,
        seed=seed,
    )
    silent(report)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T, 1e-6)


def scale_atoms(scales: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scales (rows, K / 16) in the order of the cuBLAS layout."""
    groups = scales.shape[1] // 4
    out = np.zeros(-(-scales.shape[0] // 128) * groups * 512, np.uint8)
    rows, columns = np.indices(scales.shape)
    out[scale_offset(rows, columns, groups)] = scales
    return out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nvfp4_gemm(schedule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = 128, 256, 512
    a, b = (rng.integers(0, 16, (rows, k), dtype=np.uint8) for rows in (m, n))
    scale_a, scale_b = (
        rng.integers(0x20, 0x50, (rows, k // 16), dtype=np.uint8) for rows in (m, n)
    )
    c = np.full((m, n), np.nan, np.float32)

    def packed(codes: np.ndarray[Any, Any]) -> TensorMap:
        two = codes[:, 0::2] | codes[:, 1::2] << 4
        return TensorMap(
            np.ascontiguousarray(two),
            dtype="16U4_ALIGN8B",
            sizes=[k, len(codes)],
            strides=[k // 2],
            box=[256, min(len(codes), 256)],
            swizzle="128B",
        )

    report = emulate(
        (PTX / "gemm_nvfp4_sm100.ptx").read_text(),
        grid=(1, 1),
        block=192,
        shared_bytes=165888,
        args=[
            packed(a),
            packed(b),
            scale_atoms(scale_a),
            scale_atoms(scale_b),
            c,
            np.uint32(n),
            np.uint32(k // 256),
        ],
        schedule=schedule,
        seed=seed,
    )
    silent(report)

    def values(codes: np.ndarray[Any, Any], scales: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        factors = FORMATS["ue4m3"].decode(scales).astype(np.float64)
        return FORMATS["e2m1"].decode(codes).astype(np.float64) * np.repeat(factors, 16, axis=1)

    close(c, values(a, scale_a) @ values(b, scale_b).T, 1e-6)


OURS = ("sm_90a", "sm_100a")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("target", OURS)
def test_our_gemm_with_edges(target: str, schedule: str, seed: int) -> None:
    kernel = tkc.compile(EXAMPLES / "gemm_bf16.tk", target=target)
    rng = np.random.default_rng(seed)
    m, n, k = 200, 264, 136
    a = rng.uniform(-1, 1, (m, k)).astype(BF16)
    b = rng.uniform(-1, 1, (n, k)).astype(BF16)
    c = np.full((m, n), np.nan, BF16)
    silent(kernel.emulate(a, b, c, schedule=schedule, seed=seed))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c.astype(np.float64) - exact).max() <= 2.0**-8 * np.abs(exact).max()


@pytest.mark.parametrize("target", OURS)
def test_our_elementwise_and_copy(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.uniform(-4, 4, (200, 136)).astype(BF16) for _ in range(2))
    z = np.full_like(x, np.nan)
    silent(tkc.compile(EXAMPLES / "tma_copy.tk", target=target).emulate(x, z))
    assert (x.view(np.uint16) == z.view(np.uint16)).all()
    silent(
        tkc.compile(EXAMPLES / "silu_mul.tk", target=target).emulate(
            x, y, z, schedule="random", seed=seed
        )
    )
    gate = x.astype(np.float64)
    wanted = gate / (1 + np.exp(-gate)) * y.astype(np.float64)
    assert np.abs(z.astype(np.float64) - wanted).max() <= 2.0**-8 * np.abs(wanted).max()
