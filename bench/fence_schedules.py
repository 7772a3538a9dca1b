"""Every example with all of its fences, and with those that `eliminate-fences` leaves, under many schedules.

    python bench/fence_schedules.py --jobs 16 --minutes 6                # all of it; needs no GPU
    python bench/fence_schedules.py --schedules 8 gemm_bf16 row_softmax  # some examples, some schedules

The record of happens-before finds nothing, and the results are those of the first schedule with all fences, bit for bit
(sums that the copy engine makes of several parts: to rounding). Exit code 1 where not. All programs get as many
schedules, 50 at a time; what has been asked is written to `out/fence-schedules-*.jsonl`, whose name tells the tree,
and is not asked again: where the time was not enough, the same command goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes are many enough

import numpy as np  # noqa: E402

import tkc  # noqa: E402
from tkc import argument_words, arguments  # noqa: E402
from tkc.diagnostics import TkcError  # noqa: E402

TARGETS = ("sm_90a", "sm_100a")
FENCES = ("conservative", "minimal")
SCHEDULES = ("random", "pct", "lazy", "eager")
SIZES = {"G": 2, "L": 2, "M": 264, "N": 136, "K": 224}
"""Several tiles and a rest, in most directions; two CTAs come to more blocks than a ring has slots."""
FEW = {"axpy": {"N": 5000}, "gemm_splitk": {"K": 520}, "histogram": {"N": 50}}
COUNTS = "rows"
"""A const tensor that is read as counts of rows."""
ADDS = frozenset({"gemm_splitk"})
"""Examples whose result several parts are added to, in the order in which they come."""


class Question(NamedTuple):
    example: str
    target: str
    fences: str
    seed: int


@cache
def compiled(example: str, target: str, fences: str) -> tkc.Kernel | None:
    """The kernel; None where the example is not for the target."""
    path = ROOT / "examples" / f"{example}.tk"
    try:
        return tkc.compile(path, target=target, fences=fences)
    except TkcError:
        return None


def given(example: str, contract: dict[str, Any]) -> list[Any]:
    """Random inputs, the same each time, outputs that are no numbers; what is added to begins at zero."""
    sizes = SIZES | FEW.get(example, {})
    specs: dict[str, argument_words.Spec] = {}
    for argument in contract["arguments"]:
        name = argument["name"]
        if "scales" in argument:
            continue
        if argument.get("scalar") or not argument["dims"]:
            specs[name] = argument_words.Number(0.5)
            continue
        made = {"read": argument_words.Random, "write": argument_words.Empty}.get(
            argument["access"], argument_words.Zeros
        )
        dims = [sizes[d] if isinstance(d, str) else d for d in argument["dims"]]
        if argument.get("list"):  # an array for each group, of as many rows as are counted
            each = [[n if d is None else d for d in dims[1:]] for n in rows(sizes)]
            specs[name] = argument_words.Several(tuple(made(tuple(shape)) for shape in each))
        else:
            specs[name] = made(tuple(dims))
    values, _ = arguments.make(specs, contract)
    for i, argument in enumerate(contract["arguments"]):
        if argument["name"] == COUNTS:
            values[i] = np.array(rows(sizes), np.int32)
    return values


def rows(sizes: dict[str, int]) -> list[int]:
    """How many rows each group has."""
    return [sizes["M"] - 7, 1][: sizes["G"]]


def flat(values: list[Any]) -> list[Any]:
    """Arrays, those of lists one by one."""
    return [a for v in values for a in (v if isinstance(v, list | tuple) else [v])]


def results(question: Question) -> tuple[list[Any], str]:
    """What a launch leaves in its outputs, and what was found, in words."""
    kernel = compiled(*question[:3])
    assert kernel is not None
    values = given(question.example, kernel.contract)
    report = kernel.emulate(
        *values, sm_count=2, schedule=SCHEDULES[question.seed % 4], seed=question.seed
    )
    names = [a["name"] for a in kernel.contract["arguments"]]
    left = [values[names.index(name)] for name in kernel.contract["outputs"]]
    return flat(left), "; ".join(map(str, report.findings))


@cache
def wanted(example: str, target: str) -> list[Any]:
    return results(Question(example, target, "conservative", 3))[0]


def wrong(question: Question) -> str:
    """What is wrong with one run, in words; "" where nothing is."""
    left, found = results(question)
    if found:
        return found
    for one, other in zip(left, wanted(question.example, question.target), strict=True):
        if question.example in ADDS:
            same = np.allclose(one, other, rtol=1e-5, atol=1e-5)
        else:
            same = one.tobytes() == other.tobytes()
        if not same:
            return "other results than with all fences"
    return ""


AT_ONCE = 50
"""Schedules of one program that one process asks about."""


class Task(NamedTuple):
    """Some schedules of one program."""

    example: str
    target: str
    fences: str
    first: int
    last: int


def tasks(schedules: int, only: list[str]) -> Iterator[Task]:
    """The first schedules of every program, then the next."""
    examples = only or sorted(path.stem for path in (ROOT / "examples").glob("*.tk"))
    for first in range(0, schedules, AT_ONCE):
        for example in examples:
            for target in TARGETS:
                for fences in FENCES:
                    yield Task(example, target, fences, first, min(first + AT_ONCE, schedules))


def ask(until: float, task: Task) -> tuple[Task, int, list[str]] | None:
    """How many runs there were, and what is wrong; None where no time is left."""
    if time.time() > until:
        return None
    if compiled(*task[:3]) is None:
        return task, 0, []
    found = [(n, wrong(Question(*task[:3], n))) for n in range(task.first, task.last)]
    return task, len(found), [f"schedule {n}: {said}" for n, said in found if said]


def record() -> Path:
    """Where what has been asked of this tree is written."""
    tree = hashlib.sha256()
    for path in sorted([*ROOT.glob("tkc/**/*.py"), *ROOT.glob("examples/*.tk"), Path(__file__)]):
        tree.update(path.read_bytes())
    return ROOT / "out" / f"fence-schedules-{tree.hexdigest()[:12]}.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("examples", nargs="*", help="names of examples; all where none is given")
    parser.add_argument("--schedules", type=int, default=200, help="of each program [200]")
    parser.add_argument("--jobs", type=int, default=1, help="processes [1]")
    parser.add_argument("--minutes", type=float, default=600, help="after which nothing is begun")
    said = parser.parse_args()
    done, path = {}, record()
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        done = {Task(*task): (runs, bad) for task, runs, bad in lines}
    todo = [t for t in tasks(said.schedules, said.examples) if t not in done]
    until, left = time.time() + 60 * said.minutes, 0
    with path.open("a") as log, get_context("spawn").Pool(said.jobs) as pool:
        for answer in pool.imap_unordered(partial(ask, until), todo):
            if answer is None:
                left += 1
                continue
            task, runs, bad = answer
            done[task] = runs, bad
            log.write(json.dumps(answer) + "\n")
            log.flush()
            for line in bad:
                print(*task[:3], line, flush=True)
    counts: Counter[str] = Counter()
    for task, (runs, _) in done.items():
        counts[" ".join(task[:3])] += runs
    counts = +counts
    for name, runs in sorted(counts.items()):
        print(f"{name}: {runs} schedules")
    bad = sum(len(b) for _, b in done.values())
    print(
        f"{len(counts)} programs, {sum(counts.values())} runs, {bad} wrong; {left} of {len(todo)} tasks left"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
