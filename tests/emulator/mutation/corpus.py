"""Correct kernels to make mutants of: ours on shapes that go round every ring, reference GEMMs, other compilers'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from emulator.foreign.cuda_cases import CUDA
from emulator.foreign.problem import FOLDER, launches
from emulator.foreign.problem import run as run_foreign
from emulator.foreign.triton_cases import CASES

import tkc
from tkc.emulator import Report, TensorMap, emulate

ROOT = Path(__file__).parents[3]
BF16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
STEPS = 400_000
"""A mutant that turns for ever is stopped."""


@dataclass(frozen=True)
class Kernel:
    """`run(text, schedule, seed)` launches a text like this one and says whether its results were right."""

    name: str
    text: Callable[[], str]
    run: Callable[..., tuple[Report, bool]]
    foreign: bool = False


def near(found: Array, wanted: Array, bound: float = 2.0**-7) -> bool:
    if np.isnan(found.astype(np.float64)).any():
        return False
    error = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    return bool(error <= bound * max(np.abs(wanted).max(initial=0), 1e-30))


def uniform(rng: np.random.Generator, *shape: int, dtype: Any = BF16) -> Array:
    return rng.uniform(-1, 1, shape).astype(dtype)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64).T


def _gemm(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    a, b = uniform(rng, 130, 264), uniform(rng, 200, 264)
    c = np.full((130, 200), np.nan, BF16)
    return [a, b, c], c, product(a, b)


def _bias_act(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    (a, b, c), _, exact = _gemm(rng)
    bias, r = uniform(rng, 200, dtype=np.float32), uniform(rng, 130, 200)
    x = 0.5 * exact + bias
    gelu = x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return [a, b, bias, r, c, 0.5], c, gelu + r.astype(np.float64)


def _softmax(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    x, y = uniform(rng, 200, 264), np.full((200, 264), np.nan, BF16)
    wide = np.exp(x.astype(np.float64))
    return [x, y, np.zeros(200, np.float32)], y, wide / wide.sum(axis=1, keepdims=True)


def _split(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    a, b, c = uniform(rng, 130, 328), uniform(rng, 136, 328), np.ones((130, 136), np.float32)
    return [a, b, c], c, product(a, b) + 1


def _silu(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    x, y, z = uniform(rng, 200, 264), uniform(rng, 200, 264), np.full((200, 264), np.nan, BF16)
    gate = x.astype(np.float64)
    return [x, y, z], z, gate / (1 + np.exp(-gate)) * y.astype(np.float64)


def _transpose(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    x, y = uniform(rng, 200, 264), np.full((264, 200), np.nan, BF16)
    return [x, y], y, x.T.astype(np.float64)


def _copy(rng: np.random.Generator) -> tuple[list[Any], Array, Array]:
    x, y = uniform(rng, 200, 264), np.full((200, 264), np.nan, BF16)
    return [x, y], y, x.astype(np.float64)


SMALL = {"BM": 64, "BN": 64, "BK": 64, "STAGES": 2}
OURS: dict[str, tuple[Callable[[np.random.Generator], Any], dict[str, int]]] = {
    "gemm_bf16": (_gemm, SMALL),
    "gemm_bias_act": (_bias_act, SMALL),
    "row_softmax": (_softmax, {}),
    "gemm_splitk": (_split, {"CHUNK": 128}),
    "silu_mul": (_silu, {}),
    "transpose": (_transpose, {}),
    "tma_copy": (_copy, {}),
}


@cache
def _compiled(name: str, target: str) -> tkc.Kernel:
    kernel = tkc.compile(
        ROOT / "examples" / f"{name}.tk", target=target, params=OURS[name][1] or None
    )
    return kernel


def _ours(name: str, target: str) -> Kernel:
    def run(text: str, schedule: str, seed: int) -> tuple[Report, bool]:
        arguments, found, exact = OURS[name][0](np.random.default_rng(seed))
        launch = _compiled(name, target).emulation(*arguments, sm_count=1)
        report = emulate(text, **launch, schedule=schedule, seed=seed, max_steps=STEPS)
        return report, near(found, exact)

    return Kernel(f"{name}-{target}", lambda: _compiled(name, target).ptx, run)


def _reference(
    name: str, tile: tuple[int, int], boxes: Any, block: int, cluster: int, shared: int
) -> Kernel:
    """The bf16 GEMMs of tests/emulator/ptx, with a K that goes round their rings."""
    path = ROOT / "tests" / "emulator" / "ptx" / f"{name}.ptx"

    def run(text: str, schedule: str, seed: int) -> tuple[Report, bool]:
        rng = np.random.default_rng(seed)
        m, n, k = tile[0], tile[1], 640
        a, b = uniform(rng, m, k), uniform(rng, n, k)
        c = np.full((m, n), np.nan, np.float32)
        maps = [
            TensorMap(
                x,
                dtype="bf16",
                sizes=x.shape[::-1],
                strides=[x.strides[0]],
                box=box,
                swizzle="128B",
            )
            for x, box in zip((a, b), boxes, strict=True)
        ]
        report = emulate(
            text,
            grid=(cluster, 1),
            block=block,
            cluster=(cluster, 1, 1),
            shared_bytes=shared,
            args=[*maps, c, np.uint32(n), np.uint32(k // 64)],
            schedule=schedule,
            seed=seed,
            max_steps=STEPS,
        )
        return report, near(c, product(a, b), 1e-5)

    return Kernel(name, path.read_text, run)


def _foreign(name: str, path: str, facts: Any, make: Any) -> Kernel:
    dependent = facts["entry"] == "dependent"

    def run(text: str, schedule: str, seed: int) -> tuple[Report, bool]:
        problem = make(np.random.default_rng(seed))
        how = {"schedule": schedule, "seed": seed, "max_steps": STEPS, "dependent": dependent}
        report = run_foreign(text, facts, problem, **how)
        try:
            for key, expected in problem.expected.items():
                expected.check(key, problem.outputs.get(key, problem.args[key]))
        except AssertionError:
            return report, False
        return report, True

    return Kernel(name, (FOLDER / "ptx" / f"{path}.ptx").read_text, run, foreign=True)


def ours() -> Iterator[Kernel]:
    for name in OURS:
        for target in ("sm_90a", "sm_100a"):
            yield _ours(name, target)


def reference() -> Iterator[Kernel]:
    yield _reference("gemm_bf16_sm90", (64, 128), ([64, 64], [64, 128]), 160, 1, 98304)
    yield _reference("gemm_bf16_sm100", (128, 256), ([64, 128], [64, 256]), 192, 1, 196608)
    yield _reference("gemm_bf16_pair_sm100", (256, 256), ([64, 128], [64, 128]), 192, 2, 131072)


def foreign() -> Iterator[Kernel]:
    by_name = {case.name: case for case in CASES}
    for name, facts in launches().items():
        case = by_name[facts["case"]]
        yield _foreign(name, name, facts, lambda rng, c=case: c.make(rng, c.constants))
    for case in CUDA:
        for target in case.targets:
            # One text holds many kernels: only statements of this one are changed.
            yield _foreign(
                f"{case.kernel}-{target}", f"{case.file}_sm{target}", case.facts(), case.make
            )


def corpus() -> list[Kernel]:
    return [*ours(), *reference(), *foreign()]
