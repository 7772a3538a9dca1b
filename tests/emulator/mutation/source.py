"""Mutants of kernels whose synchronisation is spelled out, judged twice: by `tkc check` and in the emulator.

One statement at a time is taken away, moved or changed in the source. What `check` accepts must be silent under every
schedule; of what it rejects, the emulator shows the fault, but for what only another launch would show.
`python tests/emulator/mutation/source.py --seeds 20` judges all and prints where the two differ.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

import numpy as np

import tkc
from tests.analysis.twins import KERNELS, source
from tkc.analysis.order import diagnose
from tkc.arguments import random
from tkc.diagnostics import TkcError
from tkc.driver import to_module
from tkc.emulator import Report
from tkc.job import Job
from tkc.kernel import Kernel

EXAMPLES = Path(__file__).parents[3] / "examples"
STEPS = 300_000
SYNC = r"(wait|fence|commit|arrive|expect|sync)\b"


@dataclass(frozen=True)
class Explicit:
    """A correct source, its target, small parameters and sizes that go round its rings."""

    name: str
    text: str
    target: str
    params: dict[str, int] = field(default_factory=dict[str, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    sm_count: int = 1


@dataclass(frozen=True)
class Changed:
    """A source with one change: `what` stood in `line` (from 1)."""

    kind: str
    line: int
    what: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.kind}@{self.line}"


def _example(
    name: str, target: str, params: dict[str, int], sizes: dict[str, int], sm_count: int = 1
) -> Explicit:
    text = (EXAMPLES / f"{name}.tk").read_text(encoding="utf-8")
    return Explicit(name, text, target, params, sizes, sm_count)


GEMM = {"M": 392, "N": 264, "K": 328}


def sources() -> list[Explicit]:
    """The examples at level 2, and the small kernels of `tests/analysis/twins.py`."""
    found = [
        _example("gemm_bf16_level2", "sm_100a", {"BN": 128, "STAGES": 2}, GEMM),
        _example("gemm_bf16_level2_sm90", "sm_90a", {"BN": 128, "STAGES": 2}, GEMM),
        _example("gemm_2cta_level2", "sm_100a", {}, {"M": 264, "N": 264, "K": 328}, 2),
        _example("gemm_cluster_level2_sm90", "sm_90a", {}, {"M": 264, "N": 264, "K": 328}, 2),
        _example("gemm_nvfp4_level2", "sm_100a", {}, {"M": 392, "N": 264, "K": 1088}),
    ]
    for name in KERNELS:
        for target in ("sm_90a", "sm_100a"):
            found.append(Explicit(f"{name}-{target}", source(name), target, {}, {}))
    return found


def changes(text: str) -> Iterator[Changed]:
    """Every change of one statement, in the order of the lines."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        code = line.split("#")[0].rstrip()
        if re.match(rf"\s+(elect: )?{SYNC}", code):
            without = _without(lines, at)
            if without is not None:
                yield Changed("delete", at + 1, code.strip(), without)
            if at and _same_block(lines[at - 1], line):
                swapped = [*lines[: at - 1], line, lines[at - 1], *lines[at + 1 :]]
                yield Changed("move", at + 1, code.strip(), "\n".join(swapped))
        for kind, pattern, new in SMALL:
            found = re.sub(pattern, new, code, count=1)
            if found != code:
                changed = "\n".join([*lines[:at], found, *lines[at + 1 :]])
                yield Changed(kind, at + 1, code.strip(), changed)


SMALL = (
    ("phase", r"(wait \w+\[\w+\], \w+) \^ 1$", r"\1"),
    ("phase", r"(wait \w+\[\w+\], \w+)$", r"\1 ^ 1"),
    ("count", r"(barrier .*count = )1$", r"\g<1>2"),
    ("count", r"(barrier .*count = )4$", r"\g<1>3"),
    ("count", r"(wait stores) <= 1", r"\1 <= 2"),
    ("count", r"(wait stores|wait products)$", r"\1 <= 1"),
    ("count", r"(wait stores), read$", r"\1 <= 1, read"),
    ("bytes", r"bytes\((\w+), [^)]*\)", r"bytes(\1)"),
    ("slot", r"(wait|arrive|commit) (\w+)\[(slot|i)\]", r"\1 \2[0]"),
    ("each", r", each = warp$", ""),
)
"""Changes within a line: (kind, pattern, what stands there instead)."""


def _same_block(first: str, second: str) -> bool:
    def indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    plain = not first.rstrip().endswith(":") and not second.rstrip().endswith(":")
    return plain and bool(first.strip()) and indent(first) == indent(second)


def _without(lines: list[str], at: int) -> str | None:
    """The text without a line, and without the `elect:` that then holds nothing."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    if lines[at].rstrip().endswith(":"):
        return None
    above, below = lines[at - 1], lines[at + 1] if at + 1 < len(lines) else ""
    first = above.rstrip().endswith(":") and len(above) - len(above.lstrip()) < indent
    alone = first and len(below) - len(below.lstrip()) < indent
    if alone and not above.strip().startswith("elect"):
        return None
    kept = lines[: at - 1] if alone else lines[:at]
    return "\n".join([*kept, *lines[at + 1 :]])


def rejected(text: str, program: Explicit) -> set[str]:
    """The codes that `tkc check` gives; raises TkcError where the text is no program."""
    job = Job(text, f"{program.name}.tk", program.target, params=program.params)
    return {d.code for d, _ in diagnose(to_module(job, after="insert-fences"))}


def compiled(text: str, program: Explicit) -> Kernel:
    return tkc.compile(text, target=program.target, params=program.params or None)


def launched(kernel: Kernel, program: Explicit, schedule: str, seed: int) -> Report | None:
    """One launch on fresh data, with sizes that go round every ring."""
    rng = np.random.default_rng(seed)
    sizes = {**{s: DEFAULT.get(s, 136) for s in kernel.contract["symbols"]}, **program.sizes}
    arguments: list[Any] = []
    for argument in kernel.contract["arguments"]:
        arguments.append(_made(argument, sizes, rng))
    how = kernel.emulation(*arguments, sm_count=program.sm_count)
    if how is None:
        return None
    return tkc.emulate(kernel.ptx, **how, schedule=schedule, seed=seed, max_steps=STEPS)


DEFAULT = {"M": 392, "N": 136, "K": 328}


def _size(dim: Any, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return sizes[dim]
    if "sym" in dim:
        return sizes[dim["sym"]]
    parts = [_size(part, sizes) for part in dim["of"]]
    if dim["op"] == "ceildiv":
        return -(-parts[0] // parts[1])
    assert dim["op"] == "mul", dim
    return int(np.prod(parts))


def _made(argument: dict[str, Any], sizes: dict[str, int], rng: np.random.Generator) -> Any:
    if argument.get("scalar"):
        return 1
    shape = tuple(_size(d, sizes) for d in argument["dims"])
    return random(shape, argument["dtype"], int(rng.integers(1 << 30)))


EXPLAINED = {
    "false delete fence products": "`check` does not follow registers (TK319 is the emulator's and the assembler's)",
}
"""Where the two differ, and why."""


@dataclass
class Verdicts:
    """`check` is the codes of `tkc check`, `emulator` those of its findings, `refused` why the text is no program."""

    program: str
    change: Changed
    check: list[str]
    emulator: list[str]
    refused: str = ""

    @property
    def kind(self) -> str:
        if self.refused:
            return "refused"
        if not self.check:
            return "silent" if not self.emulator else "false"
        return "shown" if self.emulator else "hidden"

    @property
    def explained(self) -> str:
        return f"{self.kind} {self.change.kind} {self.change.what}"

    def __str__(self) -> str:
        c = self.change
        return f"{self.program} {c.name} {c.what!r}: check {self.check}, emulator {self.emulator} {self.refused}"


def judge(program: Explicit, change: Changed, seeds: int, seed: int = 0) -> Verdicts:
    """Both verdicts on one mutant; the emulator is asked under `lazy` first, then with seeds until it finds something."""
    try:
        codes = rejected(change.text, program)
        kernel = compiled(change.text, program)
    except TkcError as error:
        return Verdicts(program.name, change, [], [], str(error).split("\n")[0][:100])
    tries = [("lazy", seed), *((("random", "pct")[n % 2], seed + n) for n in range(seeds))]
    found: set[str] = set()
    for schedule, number in tries:
        report = launched(kernel, program, schedule, number)
        found = {f.code for f in report.findings} if report is not None else set()
        if found:
            break
    return Verdicts(program.name, change, sorted(codes), sorted(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="runs of a mutant after the lazy one")
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--kind", default="", help="changes whose names match")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for program in sources():
        if not re.search(options.only, program.name):
            continue
        for change in changes(program.text):
            if not re.search(options.kind, change.name):
                continue
            verdicts = judge(program, change, options.seeds)
            counts[verdicts.kind] += 1
            if verdicts.kind not in ("shown", "silent"):
                print(f"{verdicts.kind}: {verdicts}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
