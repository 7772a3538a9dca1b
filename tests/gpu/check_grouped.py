"""Grouped GEMMs of lists of arrays on a GPU: each group, to the row, against float64, and against PyTorch's time.

    tkc compile examples/gemm_grouped_list.tk --target sm_90a -o FOLDER/gemm_grouped_list.ptx
    python3 tests/gpu/check_grouped.py FOLDER

FOLDER: every *.json is a form of the example (another tile, `edited * 1`, all three edited, cluster(2), pair, dependent). Needs torch,
no xdsl, no lark. Prints a line for each check and exits with 1 if one failed.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
for name in ("xdsl", "lark"):
    sys.modules[name] = None  # pyright: ignore[reportArgumentType]

import torch  # noqa: E402

import tkc  # noqa: E402

BOUND = 4e-3
Tensor = torch.Tensor


@dataclass
class Problem:
    """The arrays of a launch. Groups have `room` rows; a launch uses the first of them."""

    a: list[Tensor]
    b: list[Tensor]
    c: list[Tensor]
    rows: Tensor

    def launch(self, kernel: tkc.Kernel, counts: list[int]) -> None:
        """Counts reach the device by a copy in stream order; the host waits for nothing."""
        for x, whole, count in zip(self.c, self.a, counts, strict=True):
            x.fill_(float("nan"))
            assert count <= whole.shape[0]
        self.rows.copy_(torch.tensor(counts, dtype=torch.int32).pin_memory(), non_blocking=True)
        kernel.launch(self.rows, self.a, self.b, self.c)

    def verify(self, counts: list[int], what: str) -> float:
        torch.cuda.synchronize()
        worst = 0.0
        for g, count in enumerate(counts):
            found = self.c[g][:count].double()
            exact = self.a[g][:count].double() @ self.b[g].double().T
            assert self.c[g][count:].isnan().all(), f"{what}: group {g} wrote beyond row {count}"
            norm = torch.linalg.norm(exact)
            error = torch.linalg.norm(found - exact)
            rounding = torch.linalg.norm(exact.bfloat16().double() - exact)
            assert error <= torch.maximum(BOUND * norm, 1.01 * rounding), (what, g, count, error)
            worst = max(worst, (error / norm).item() if norm else 0.0)
        return worst


def tensor(rows: int, columns: int, pitches: bool) -> Tensor:
    """An array of its own allocation; with `pitches`, its rows lie some elements apart, with NaN between."""
    pitch = -(-max(columns, 1) // 8) * 8 + (8 * random.randrange(4) if pitches else 0)
    whole = torch.full((rows, pitch), float("nan"), dtype=torch.bfloat16, device="cuda")
    whole[:, :columns] = (torch.rand(rows, columns, device="cuda") * 2 - 1).bfloat16()
    return whole[:, :columns]


def problem(room: list[int], n: int, k: int, *, pitches: bool = True, one: bool = False) -> Problem:
    """`one`: the groups' rows are slices of one allocation, one after another."""
    if one:
        a, c = tensor(sum(room), k, pitches), tensor(sum(room), n, pitches)
        parts = [list(x.split(room)) for x in (a, c)]
    else:
        parts = [[tensor(r, x, pitches) for r in room] for x in (k, n)]
    rows = torch.zeros(len(room), dtype=torch.int32, device="cuda")
    return Problem(parts[0], [tensor(n, k, pitches) for _ in room], parts[1], rows)


def uneven(groups: int, room: int) -> list[int]:
    """Counts as a router's: none, few, many; multiples of nothing."""
    kinds: list[Callable[[], int]] = [
        lambda: 0,
        lambda: random.randint(1, 9),
        lambda: random.randint(1, room),
        lambda: room - room % 128,
    ]
    return [min(room, random.choice(kinds)()) for _ in range(groups)]


SETS: dict[str, tuple[list[int], int, int]] = {
    "one group": ([300], 264, 200),
    "one row": ([1], 8, 8),
    "one group of none": ([0], 264, 200),
    "none at all": ([0] * 9, 264, 200),
    "none first, last and between": ([0, 0, 130, 0, 0, 0, 7, 1, 0], 520, 1032),
    "rows round the block": ([127, 128, 129, 255, 256, 257, 1], 256, 512),
    "rows round eight": ([7, 8, 9, 15, 16, 17, 63, 64, 65], 264, 72),
    "K = 0": ([5, 0, 300, 128], 264, 0),
    "K below a block": ([5, 0, 300, 128], 72, 24),
    "narrow": ([500, 3, 0, 129], 8, 4104),
    "very unequal": ([1, 6000, 2, 0, 31, 1], 1024, 1024),
    "128 groups": ([(37 * g * g) % 401 for g in range(128)], 264, 136),
    "1000 small groups": ([g % 5 for g in range(1000)], 72, 72),
}


def sets(kernel: tkc.Kernel) -> str:
    """Arrays with as many rows as the device counts, and with more, which are NaN and stay so."""
    worst = 0.0
    for what, (counts, n, k) in SETS.items():
        for beyond in (0, 5, 200):
            given = problem([c + beyond for c in counts], n, k)
            for x, count in zip(given.a, counts, strict=True):
                x[count:] = float("nan")
            given.launch(kernel, counts)
            worst = max(worst, given.verify(counts, f"{what}, {beyond} rows beyond"))
    return f"{len(SETS)} sets of groups, 3 sizes of arrays each: relative error at most {worst:.1e}"


def slices(kernel: tkc.Kernel) -> str:
    """Slices of one allocation: what a group writes past its rows would be its neighbour's."""
    for _ in range(10):
        counts = uneven(16, 300)
        given = problem(counts, 264, 264, one=True)
        given.launch(kernel, counts)
        given.verify(counts, "slices of one array")
    return "10 launches on slices of one array"


def counted(kernel: tkc.Kernel) -> str:
    """One plan, other counts each time, launched without a wait between them; then each alone."""
    given = problem([700] * 16, 520, 1032)
    for _ in range(40):
        counts = uneven(16, 700)
        for _ in range(4):
            given.launch(kernel, uneven(16, 700))
        given.launch(kernel, counts)
        given.verify(counts, "counts that change")
    return "200 launches with other counts in the same place"


def chained(kernel: tkc.Kernel) -> str:
    """Kernel behind kernel with nothing between, by turns two problems: what `launch dependent` lets overlap."""
    counts = [[700, 0, 3, 129, 511], [5, 900, 0, 64, 1, 256]]
    given = [problem(its, 520, 1032) for its in counts]
    for run in range(20):
        for x, its in zip(given, counts, strict=True):
            x.launch(kernel, its)
        torch.cuda.synchronize()
        for c in (c for x in given for c in x.c):
            c.fill_(float("nan"))
        torch.cuda.synchronize()
        for _ in range(5):
            for x in given:
                kernel.launch(x.rows, x.a, x.b, x.c)
        for x, its in zip(given, counts, strict=True):
            x.verify(its, f"chained, run {run}")
    return "20 chains of 10 launches with nothing between"


def same(kernel: tkc.Kernel) -> str:
    counts = [129, 0, 1000, 3, 64, 0, 511, 257]
    given, first = problem(counts, 1032, 2056), None
    for run in range(200):
        given.launch(kernel, counts)
        bits = torch.cat([x.reshape(-1) for x in given.c]).view(torch.int16)
        first = bits if first is None else first
        assert torch.equal(first, bits), f"run {run} differs"
    given.verify(counts, "bit-identical runs")
    return "200 runs bit-identical"


def plans(kernel: tkc.Kernel) -> str:
    """More problems than a launcher keeps plans of, in turn, each with arrays and maps of its own."""
    rooms = [[random.randint(1, 200) for _ in range(random.randint(1, 12))] for _ in range(80)]
    before = torch.cuda.mem_get_info()[0]
    for room in rooms * 2:
        given = problem(room, 72, 136)
        counts = [random.randint(0, r) for r in room]
        given.launch(kernel, counts)
        given.verify(counts, "plans in turn")
    after = torch.cuda.mem_get_info()[0]
    return f"{2 * len(rooms)} launches of {len(rooms)} problems; free memory fell by {(before - after) >> 20} MiB"


def streams(kernel: tkc.Kernel) -> str:
    """Two streams at once: launches must not share the maps that they edit."""
    given = [problem([900] * 8, 1032, 1032) for _ in range(2)]
    queues = [torch.cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    for _ in range(30):
        counts = [uneven(8, 900) for _ in given]
        for x, queue, its in zip(given, queues, counts, strict=True):
            with torch.cuda.stream(queue):
                x.launch(kernel, its)
        for x, its in zip(given, counts, strict=True):
            x.verify(its, "two streams")
    return "30 times on two streams at once"


def milliseconds(call: Callable[[], object]) -> float:
    """The median of 20 after 3; L2 is not emptied between."""
    spans: list[float] = []
    for turn in range(23):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if turn >= 3:
            spans.append(start.elapsed_time(end))
    return sorted(spans)[len(spans) // 2]


def speed(kernel: tkc.Kernel) -> str:
    """TFLOP/s, and those of a torch.mm for each group, which has to know the counts."""
    lines: list[str] = []
    for what, counts in (
        ("8 of 4096", [4096] * 8),
        ("64 of 512", [512] * 64),
        ("64 uneven", [(977 * g * g) % 1021 for g in range(64)]),
        ("256 of 0 to 99", [(37 * g) % 100 for g in range(256)]),
    ):
        n = k = 4096 if len(counts) == 8 else 2048
        given = problem(counts, n, k, pitches=False)
        given.launch(kernel, counts)
        given.verify(counts, what)
        work = 2e-9 * sum(counts) * n * k

        def each(given: Problem = given) -> None:
            for a, b, c in zip(given.a, given.b, given.c, strict=True):
                if a.shape[0]:
                    torch.mm(a, b.T, out=c)

        def ours(given: Problem = given) -> None:
            kernel.launch(given.rows, given.a, given.b, given.c)

        own, theirs = work / milliseconds(ours), work / milliseconds(each)
        lines.append(f"  {what:16} {own:7.1f} TFLOP/s, torch.mm each {theirs:7.1f}")
        del given
    return "speed\n" + "\n".join(lines)


CHECKS = (sets, slices, counted, chained, same, plans, streams, speed)


def main(folder: str) -> int:
    seed = int(time.time())
    random.seed(seed)
    torch.manual_seed(seed)
    print(f"{torch.cuda.get_device_name()}, seed {seed}")
    failed, packages = 0, sorted(Path(folder).glob("*.json"))
    for path in packages:
        kernel = tkc.load(path)
        for check in CHECKS:
            try:
                print(f"{path.stem}: {check(kernel)}", flush=True)
            except Exception:  # every check gets its turn
                failed += 1
                print(f"{path.stem}: {check.__name__} FAILED\n{traceback.format_exc()}", flush=True)
    print("all right" if packages and not failed else f"{failed} failed, {len(packages)} packages")
    return int(not packages or failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
