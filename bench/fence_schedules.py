"""Every example with all of its fences, and with those that `eliminate-fences` leaves, under many schedules.

`python bench/fence_schedules.py I/N [SCHEDULES] [EXAMPLE …]` asks every N-th question from the I-th (1 to N) on, and
needs no GPU; on 16 cores all of it is `seq 16 | xargs -P 16 -I{} python bench/fence_schedules.py {}/16`. SCHEDULES: 200
of each program. The record of happens-before finds nothing and the results are those of the first schedule with all
fences, bit for bit (sums that the copy engine makes of several parts: to rounding). Exit code 1 where not.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

import tkc  # noqa: E402
from tkc import argument_words, arguments  # noqa: E402
from tkc.diagnostics import TkcError  # noqa: E402

TARGETS = ("sm_90a", "sm_100a")
FENCES = ("conservative", "minimal")
SCHEDULES = ("random", "pct", "lazy", "eager")
SIZES = {"G": 2, "L": 2, "M": 296, "N": 264, "K": 320}
"""Several tiles and a rest, in each direction."""
FEW = {"axpy": {"N": 5000}, "gemm_splitk": {"K": 1320}, "histogram": {"N": 100}}
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
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in argument["dims"])
        made = {"read": argument_words.Random, "write": argument_words.Empty}.get(
            argument["access"], argument_words.Zeros
        )
        specs[name] = made(shape)
    values, _ = arguments.make(specs, contract)
    for i, argument in enumerate(contract["arguments"]):
        if argument["name"] == COUNTS:
            values[i] = np.array([sizes["M"] - 7, 1], np.int32)[: sizes["G"]]
    return values


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
    return left, "; ".join(map(str, report.findings))


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


def questions(schedules: int, only: list[str]) -> list[Question]:
    examples = only or sorted(path.stem for path in (ROOT / "examples").glob("*.tk"))
    return [
        Question(example, target, fences, seed)
        for example in examples
        for target in TARGETS
        for fences in FENCES
        for seed in range(schedules)
    ]


def main(slice_of: str, schedules: str = "200", *only: str) -> int:
    first, _, every = slice_of.partition("/")
    asked: Counter[str] = Counter()
    bad, begun = 0, time.monotonic()
    for question in questions(int(schedules), list(only))[int(first) - 1 :: int(every or 1)]:
        if compiled(*question[:3]) is None:
            continue
        asked[f"{question.example} {question.target} {question.fences}"] += 1
        if said := wrong(question):
            bad += 1
            print(f"{question}: {said}", flush=True)
    for name, count in asked.items():
        print(f"{name}: {count}")
    seconds = time.monotonic() - begun
    print(f"slice {slice_of}: {sum(asked.values())} runs, {bad} wrong, {seconds:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
