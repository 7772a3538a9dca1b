"""Programs through every pass and on the emulator: right, and nothing to report, on each kind of target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc

SOURCE = (Path(__file__).parents[2] / "examples" / "gemm_bf16.tk").read_text(encoding="utf-8")
DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
}
BOUND = 5e-3
"""Relative Frobenius error against float64: one rounding to bf16 or tf32."""


def array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(DTYPES[dtype])


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.full(shape, np.nan, DTYPES[dtype])


def run(text: str, target: str, params: dict[str, int], *arrays: Any) -> None:
    kernel = tkc.compile(text, target=target, params=params)
    report = kernel.emulate(*arrays, schedule="random", seed=len(kernel.ptx))
    found = [
        *report.races,
        *report.faults,
        *report.warnings,
        *([report.hang] if report.hang else []),
    ]
    assert not found, "\n".join(f"{f.code} {f.message}" for f in found)


def close(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    found, norm = found.astype(np.float64), np.linalg.norm(wanted)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found - wanted) <= BOUND * norm


VARIANTS = [
    # M, N, K, then BM, BN, BK, STAGES: ragged edges everywhere
    ((65, 40, 40), (64, 32, 16, 1)),
    ((200, 72, 136), (128, 32, 64, 3)),
    ((130, 56, 96), (128, 48, 32, 2)),
    ((300, 72, 40), (256, 64, 32, 2)),
    ((64, 24, 200), (64, 24, 64, 4)),
    ((129, 264, 72), (128, 256, 64, 4)),
    ((70, 72, 0), (64, 64, 128, 2)),  # no products at all: zeros
]


@pytest.mark.share(2)
@pytest.mark.parametrize(("sizes", "params"), VARIANTS, ids=str)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_gemm_at_ragged_sizes(
    target: str, sizes: tuple[int, int, int], params: tuple[int, int, int, int]
) -> None:
    m, n, k = sizes
    a, b, c = array((m, k), "bf16", 1), array((n, k), "bf16", 2), poisoned((m, n), "bf16")
    run(SOURCE, target, dict(zip(("BM", "BN", "BK", "STAGES"), params, strict=True)), a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.share(2)
@pytest.mark.parametrize(("bm", "bn"), [(192, 40), (128, 200), (128, 8), (64, 136)])
def test_shapes_that_only_wgmma_has(bm: int, bn: int) -> None:
    a, b, c = array((200, 72), "bf16", 1), array((208, 72), "bf16", 2), poisoned((200, 208), "bf16")
    run(SOURCE, "sm_90a", {"BM": bm, "BN": bn, "BK": 32, "STAGES": 2}, a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("dtype", "out", "bk"),
    [
        ("f16", "f16", 64),
        ("bf16", "f32", 64),
        ("tf32", "f32", 32),
        ("e4m3", "f32", 64),
        ("e4m3", "bf16", 128),
    ],
)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_gemm_of_other_dtypes(target: str, dtype: str, out: str, bk: int) -> None:
    text = SOURCE.replace("A: global[bf16", f"A: global[{dtype}").replace(
        "B: global[bf16", f"B: global[{dtype}"
    )
    text = text.replace("tile[bf16", f"tile[{dtype}").replace("C: global[bf16", f"C: global[{out}")
    text = text.replace("bf16(read(d))", "read(d)" if out == "f32" else f"{out}(read(d))")
    a, b, c = array((130, 208), dtype, 1), array((72, 208), dtype, 2), poisoned((130, 72), out)
    run(text, target, {"BM": 128, "BN": 64, "BK": bk, "STAGES": 2}, a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.share(2)
@pytest.mark.parametrize("a_across", [False, True], ids=["A[M,K]", "A[K,M]"])
@pytest.mark.parametrize("b_across", [False, True], ids=["B[N,K]", "B[K,N]"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_gemm_of_every_operand_layout(target: str, a_across: bool, b_across: bool) -> None:
    """Several spans of the contiguous axis, and several K steps."""
    text = SOURCE
    if a_across:
        text = text.replace("A: global[bf16, M, K]", "A: global[bf16, K, M]").replace(
            "A[m, k]", "A[k, m]"
        )
        text = text.replace("a: tile[bf16, BM, BK]", "a: tile[bf16, BK, BM]").replace(
            "d += a @", "d += a.T @"
        )
    if b_across:
        text = text.replace("B: global[bf16, N, K]", "B: global[bf16, K, N]").replace(
            "B[n, k]", "B[k, n]"
        )
        text = text.replace("b: tile[bf16, BN, BK]", "b: tile[bf16, BK, BN]").replace(
            "@ b.T", "@ b"
        )
    a, b = array((136, 80), "bf16", 1), array((136, 80), "bf16", 2)
    c = poisoned((136, 136), "bf16")
    run(
        text, target, {"BM": 128, "BN": 128, "BK": 48, "STAGES": 2},
        np.ascontiguousarray(a.T) if a_across else a, np.ascontiguousarray(b.T) if b_across else b, c,
    )  # fmt: skip
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_two_accumulators_that_share_their_operands(target: str) -> None:
    """One commit for both (R13), one release of each input slot."""
    text = SOURCE.replace("accum  d: tile[f32, BM, BN] * 2", "accum  d, e: tile[f32, BM, BN]")
    text = text.replace("result(d)", "result(d, e)").replace(
        "d = 0", "d = 0\n                e = 0"
    )
    more = "d += a @ b.T\n                        e += a @ b.T"
    text = text.replace("d += a @ b.T", more).replace("read(d)", "read(d) + 2 * read(e)")
    a, b, c = array((130, 72), "bf16", 1), array((40, 72), "bf16", 2), poisoned((130, 40), "bf16")
    run(text, target, {"BM": 128, "BN": 32, "BK": 32, "STAGES": 2}, a, b, c)
    close(c, 3 * (a.astype(np.float64) @ b.astype(np.float64).T))


def test_two_readers_of_an_accumulator() -> None:
    """Every consumer gets every item (R5): both must have released a slot before it is filled again."""
    store = SOURCE[SOURCE.index("    role store:") :]
    text = SOURCE.replace("math -> store", "math -> store, twice")
    text = text.replace("C: global[bf16, M, N]", "C: global[bf16, M, N], D: global[bf16, M, N]")
    text += (
        store.replace("role store", "role twice")
        .replace("C[m, n]", "D[m, n]")
        .replace("read(d)", "2 * read(d)")
    )
    a, b = array((300, 72), "bf16", 1), array((72, 72), "bf16", 2)
    c, d = poisoned((300, 72), "bf16"), poisoned((300, 72), "bf16")
    run(text, "sm_100a", {"BM": 128, "BN": 32, "BK": 32, "STAGES": 2}, a, b, c, d)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    close(c, wanted)
    close(d, 2 * wanted)


def test_two_items_of_a_pipe_in_one_turn_of_a_loop() -> None:
    """Counters go on over both blocks (R1)."""
    load = SOURCE[
        SOURCE.index("            for k in blocks") : SOURCE.index("    role math:")
    ].rstrip()
    math = SOURCE[
        SOURCE.index("            put result:") : SOURCE.index("    role store:")
    ].rstrip()
    store = SOURCE[SOURCE.index("            get result:") :].rstrip()
    text = SOURCE.rstrip()
    for part in (load, math):
        text = text.replace(part, f"{part}\n{part}")
    text = text.replace(store, f"{store}\n{store.replace('C[m, n]', 'D[m, n]')}")
    text = text.replace("C: global[bf16, M, N]", "C: global[bf16, M, N], D: global[bf16, M, N]")
    a, b = array((300, 72), "bf16", 1), array((72, 72), "bf16", 2)
    c, d = poisoned((300, 72), "bf16"), poisoned((300, 72), "bf16")
    run(text, "sm_100a", {"BM": 128, "BN": 32, "BK": 32, "STAGES": 3}, a, b, c, d)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    close(c, wanted)
    close(d, wanted)


CHAIN = """kernel chain(X: global[{dtype}, M, N], Y: global[{dtype}, M, N]):
    param BM = 128, BN = 64, STAGES = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x, y: tile[{dtype}, BM, BN] * STAGES
    pipe inputs(x): load -> twice
    pipe outputs(y): twice -> store
    role load:
        for m, n in work:
            put inputs:
                x <- X[m, n]
    role twice, warps 4:
        for m, n in work:
            get inputs:
                put outputs:
                    y <- {back}
    role store:
        for m, n in work:
            get outputs:
                Y[m, n] <- y
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("dtype", "bn", "stages"), [("bf16", 64, 2), ("bf16", 16, 1), ("f32", 32, 3), ("f16", 128, 1)]
)
def test_threads_write_what_the_copy_engine_stores(
    target: str, dtype: str, bn: int, stages: int
) -> None:
    """Both crossings: the copy engine's writes read by threads, and threads' writes read by the copy engine."""
    back = "2 * read(x)" if dtype == "f32" else f"{dtype}(2 * f32(read(x)))"
    x, y = array((200, 136), dtype, 1), poisoned((200, 136), dtype)
    run(CHAIN.format(dtype=dtype, back=back), target, {"BN": bn, "STAGES": stages}, x, y)
    assert (y.astype(np.float64) == 2 * x.astype(np.float64)).all()


@pytest.mark.parametrize(("bm", "bn"), [(128, 128), (128, 96), (256, 64)])
def test_a_residual_beside_an_accumulator_in_tensor_memory(bm: int, bn: int) -> None:
    """Slices of a shared tile and of an accumulator, at columns found at run time."""
    text = SOURCE.replace("C: global[bf16, M, N])", "C: global[bf16, M, N], D: global[bf16, M, N])")
    text = text.replace(
        "    pipe inputs",
        "    shared c: tile[bf16, BM, BN]\n    pipe more(c): load -> store\n    pipe inputs",
    )
    load = "        for m, n in work:\n            for k in"
    text = text.replace(
        load,
        "        for m, n in work:\n            put more:\n                c <- D[m, n]\n            for k in",
        1,
    )
    text = text.replace("get result:", "get result, more:").replace(
        "read(d)", "read(d) + f32(read(c))"
    )
    a, b = array((130, 72), "bf16", 1), array((136, 72), "bf16", 2)
    c, d = poisoned((130, 136), "bf16"), array((130, 136), "bf16", 3)
    params = {"BM": bm, "BN": bn, "BK": 32, "STAGES": 2}
    run(text, "sm_100a", params, a, b, c, d)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T + d.astype(np.float64))


@pytest.mark.parametrize(("target", "bm"), [("sm_90a", 64), ("sm_100a", 64), ("sm_100a", 128)])
def test_an_accumulator_goes_through_a_shared_tile_to_another_role(target: str, bm: int) -> None:
    text = SOURCE.replace(
        "    pipe inputs",
        "    shared c: tile[bf16, BM, BN] * 2\n    pipe more(c): store -> out\n    pipe inputs",
    )
    put = "put more:\n                    c <- bf16(read(d))"
    text = text.replace("C[m, n] <- bf16(read(d))", put)
    text += "\n    role out:\n        for m, n in work:\n            get more:\n                C[m, n] <- c\n"
    a, b, c = array((200, 72), "bf16", 1), array((136, 72), "bf16", 2), poisoned((200, 136), "bf16")
    run(text, target, {"BM": bm, "BN": 96, "BK": 32, "STAGES": 2}, a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


SUM = """kernel sum(X: global[{x}, M, N], Y: global[{y}, M, N], Z: global[{z}, M, N]):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[{x}, BM, BN]
    shared b: tile[{y}, BM, BN]
    pipe inputs(a, b): load -> math
    role load:
        for m, n in work:
            put inputs:
                a <- X[m, n]
                b <- Y[m, n]
    role math:
        for m, n in work:
            get inputs:
                Z[m, n] <- {sum}
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("bn", [8, 64])
@pytest.mark.parametrize(
    ("x", "y", "z"),
    [
        ("f32", "f32", "bf16"),
        ("f32", "f32", "f16"),
        ("bf16", "f32", "f32"),
        ("f32", "f16", "bf16"),
        ("bf16", "f16", "f32"),
    ],
)
def test_tiles_of_several_dtypes_in_one_sum(x: str, y: str, z: str, bn: int) -> None:
    """Threads read 16 bytes at a time, which are four or eight elements."""
    total = "f32(read(a)) + f32(read(b))"
    text = SUM.format(x=x, y=y, z=z, sum=total if z == "f32" else f"{z}({total})")
    a, b, c = array((130, 72), x, 1), array((130, 72), y, 2), poisoned((130, 72), z)
    run(text, "sm_90a", {"BN": bn}, a, b, c)
    close(c, a.astype(np.float64) + b.astype(np.float64))
