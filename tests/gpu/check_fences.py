"""What fences cost on a GPU: kernels with all of them, with a program's own, and with those that are needed, side by
side.

`python tests/gpu/check_fences.py make DIR [TARGET]` compiles the packages (needs the compiler), then, where a GPU and
PyTorch
are, `python3 tests/gpu/check_fences.py run DIR [RUNS]`: results against float64 once, bit by bit over RUNS (1,000)
launches of every package and equal between packages, then times in turns, three rounds, the median of each.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

import tkc  # noqa: E402

FENCES = ("conservative", "as-written", "minimal", "moved")
"""`moved`: the minimal ones, with one thread that fences for its role."""

GEMM_SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 512),
    (8192, 8192, 128),
    (4096, 4096, 64),
    (2048, 2048, 2048),
    (1024, 1024, 256),
)
"""M, N, K: few products to a tile where the end of a tile is to show."""
FLAT_SHAPES = ((16384, 8192), (8192, 8192), (4096, 4096), (2048, 1024), (16384, 256))

KERNELS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "gemm": ("gemm_bf16", GEMM_SHAPES),
    "gemm_level2": ("gemm_bf16_level2_sm90", GEMM_SHAPES),
    "gemm_bias_act": ("gemm_bias_act", GEMM_SHAPES),
    "silu_mul": ("silu_mul", FLAT_SHAPES),
    "row_softmax": ("row_softmax", FLAT_SHAPES),
}
"""Name → its example, and the shapes."""
BLACKWELL = {"gemm_level2": "gemm_bf16_level2"}
BOUND = 4e-3
"""Relative Frobenius error against float64."""


def make(folder: Path, target: str) -> None:
    from tkc.passes import pipeline

    for name, (example, _) in KERNELS.items():
        if target != "sm_90a":
            example = BLACKWELL.get(name, example)
        for fences in FENCES:
            moved = pipeline(target).replace("eliminate-fences", "eliminate-fences{move=true}")
            chosen = {"passes": moved} if fences == "moved" else {"fences": fences}
            kernel = tkc.compile(ROOT / "examples" / f"{example}.tk", target=target, **chosen)
            place = folder / f"{name}-{fences}"
            kernel.save(place)
            print(
                f"{name:14} {fences:13} {kernel.ptx.count('fence.proxy.async')} proxy fences in the text"
            )
            for made in place.glob("*.json"):
                made.rename(place / "kernel.json")


def arguments(name: str, shape: tuple[int, ...]) -> tuple[list[Any], Any]:
    """A kernel's arguments, inputs uniform in [-1, 1), and the one that it writes, poisoned."""
    import torch

    def given(*sizes: int, dtype: Any = torch.bfloat16) -> Any:
        return (torch.rand(*sizes, device="cuda") * 2 - 1).to(dtype)

    def poisoned(*sizes: int, dtype: Any = torch.bfloat16) -> Any:
        return torch.full(sizes, float("nan"), dtype=dtype, device="cuda")

    if name == "silu_mul":
        out = poisoned(*shape)
        return [given(*shape), given(*shape), out], out
    if name == "row_softmax":
        out = poisoned(*shape)
        return [given(*shape), out, poisoned(shape[0], dtype=torch.float32)], out
    m, n, k = shape
    out = poisoned(m, n)
    if name == "gemm_bias_act":
        return [given(m, k), given(n, k), given(n, dtype=torch.float32), given(m, n), out, 0.5], out
    return [given(m, k), given(n, k), out], out


def reference(name: str, given: list[Any]) -> Any:
    """In float64."""
    import torch

    if name == "silu_mul":
        x, y = given[0].double(), given[1].double()
        return x * torch.sigmoid(x) * y
    if name == "row_softmax":
        return torch.softmax(given[0].double(), 1)
    product = given[0].double() @ given[1].double().T
    if name == "gemm_bias_act":
        shifted = 0.5 * product + given[2].double()
        return torch.nn.functional.gelu(shifted, approximate="tanh") + given[3].double()
    return product


def right(name: str, kernels: dict[str, tkc.Kernel], shape: tuple[int, ...], runs: int) -> None:
    """Every package against float64, against one another, and against itself again and again."""
    import torch

    given, out = arguments(name, shape)
    exact = reference(name, given)
    wanted = None
    for fences, kernel in kernels.items():
        for run in range(runs):
            out.fill_(float("nan"))
            kernel.launch(*given)
            if wanted is None:
                wanted = out.clone()
                found = (
                    torch.linalg.norm(wanted.double() - exact) / torch.linalg.norm(exact)
                ).item()
                assert found < BOUND, f"{name} {fences} {shape}: relative error {found}"
            same = torch.equal(out.view(torch.int16), wanted.view(torch.int16))
            assert same, f"{name} {fences} {shape}: run {run} differs from the first"
    torch.cuda.synchronize()


def seconds(launch: Callable[[], None], warm: int, runs: int) -> float:
    import torch

    for _ in range(warm):
        launch()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(runs):
        launch()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / runs


def captured(kernel: tkc.Kernel, sets: list[list[Any]]) -> Callable[[], None]:
    """One launch on each set of inputs as a graph, so that the host's part does not count."""
    import torch

    kernel.launch(*sets[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        for given in sets:
            kernel.launch(*given, stream=stream)
    return graph.replay


def timed(name: str, kernels: dict[str, tkc.Kernel], shape: tuple[int, ...]) -> dict[str, float]:
    """Microseconds of a launch of each package: inputs rotated over 3 × L2, three rounds in turn, the median."""
    import torch

    given, _ = arguments(name, shape)
    size = sum(t.numel() * t.element_size() for t in given if isinstance(t, torch.Tensor))
    count = min(int(3 * torch.cuda.get_device_properties(0).L2_cache_size / size) + 1, 24)
    sets = [given, *(arguments(name, shape)[0] for _ in range(count - 1))]
    graphs = {fences: captured(kernel, sets) for fences, kernel in kernels.items()}
    found: dict[str, list[float]] = {fences: [] for fences in kernels}
    for turn in range(3):
        order = list(itertools.islice(itertools.cycle(graphs), turn, turn + len(graphs)))
        for fences in order:
            once = seconds(graphs[fences], 3, 3) / count
            runs = max(3, min(100, int(0.05 / (once * count))))
            found[fences].append(seconds(graphs[fences], runs, runs) / count * 1e6)
            time.sleep(0.05)
    return {fences: statistics.median(times) for fences, times in found.items()}


def run(folder: Path, runs: int) -> None:
    import torch

    torch.manual_seed(int(time.time()))
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name, (_, shapes) in KERNELS.items():
        kernels = {
            fences: tkc.load(folder / f"{name}-{fences}" / "kernel.json") for fences in FENCES
        }
        for shape in shapes:
            right(name, kernels, shape, runs)
            times = timed(name, kernels, shape)
            said = "  ".join(f"{fences} {times[fences]:8.2f} us" for fences in FENCES)
            ratio = times["conservative"] / times["minimal"]
            print(
                f"{name:14} {' x '.join(map(str, shape)):20} {said}  ratio {ratio:.4f}  bits equal x {runs}",
                flush=True,
            )
    print("all right")


def main(mode: str, folder: str, *rest: str) -> None:
    if mode == "make":
        make(Path(folder), *(rest or ("sm_90a",)))
    else:
        run(Path(folder), int(rest[0]) if rest else 1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
