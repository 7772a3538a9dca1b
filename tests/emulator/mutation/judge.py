"""What the emulator says of mutants, against what the memory model says of them.

`python tests/emulator/mutation/judge.py --state FILE` judges the whole corpus and goes on where it was stopped;
`--minutes`, `--seed`, `--seeds`, `--only` bound and choose. A mutant is caught where a run under `lazy`, or under
another schedule with one of the seeds, has an error; it is redundant where `redundant.py` says so. A silent one that
nobody calls redundant is missed where a result was wrong, and in our own and the reference kernels, which have been
gone through; in the kernels of other compilers it is unjudged. Only statements that the unchanged kernel executes count.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

from emulator.mutation.corpus import Kernel, corpus
from emulator.mutation.mutants import Mutant, mutants
from emulator.mutation.redundant import reason

from tkc import TkcError
from tkc.emulator import Report, machine
from tkc.emulator.program import Segment

SCHEDULES = ("eager", "random", "pct")


@dataclass
class Verdict:
    """`caught` is "" or the schedule and seed at which the first error was found; `right` whether all results were."""

    kernel: str
    mutant: str
    what: str
    caught: str
    codes: list[str]
    right: bool
    redundant: str = ""

    foreign: bool = False

    @property
    def unjudged(self) -> bool:
        return not self.caught and not self.redundant and self.right and self.foreign

    @property
    def missed(self) -> bool:
        return not self.caught and not self.redundant and not self.unjudged

    @property
    def false_alarm(self) -> bool:
        return bool(self.caught and self.redundant)


def judge(kernel: Kernel, mutant: Mutant, seeds: int, seed: int = 0) -> Verdict:
    """Runs a mutant until it is caught: lazily, then under the other schedules with some seeds."""
    tries = [("lazy", seed)]
    tries += [(SCHEDULES[n % len(SCHEDULES)], seed + n) for n in range(seeds)]
    why = reason(kernel.name, mutant)
    right = True
    for schedule, number in tries:
        try:
            report, same = kernel.run(mutant.text, schedule, number)
        except TkcError as error:
            # Refused before it runs: the change has no meaning.
            codes = [str(error)[:80]]
            return _verdict(kernel, mutant, "refused", codes, True, why)
        right = right and same
        if not report.clean:
            codes = sorted({f.code for f in report.findings})
            return _verdict(kernel, mutant, f"{schedule} {number}", codes, right, why)
    return _verdict(kernel, mutant, "", [], right, why)


def _verdict(
    kernel: Kernel, mutant: Mutant, caught: str, codes: list[str], right: bool, why: str
) -> Verdict:
    about = (kernel.name, mutant.name, mutant.what)
    return Verdict(*about, caught, codes, right, why, foreign=kernel.foreign)


def executed(kernel: Kernel) -> set[int]:
    """The lines of the text that the unchanged kernel executes."""
    lines: set[int] = set()
    counts = machine.count_instructions

    def look(report: Report, segments: Sequence[Segment], hits: Sequence[int]) -> None:
        for segment, times in zip(segments, hits, strict=True):
            if times:
                lines.update(ins.line for ins in segment.instructions)
                lines.update({segment.last.line} if segment.last is not None else ())
        counts(report, segments, hits)

    with mock.patch.object(machine, "count_instructions", look):
        kernel.run(kernel.text(), "eager", 0)
    return lines


def sites(kernel: Kernel) -> Iterator[Mutant]:
    """The mutants of the statements that a kernel executes."""
    lines = executed(kernel)
    yield from (m for m in _mutants(kernel) if m.line in lines)


def _mutants(kernel: Kernel) -> Iterator[Mutant]:
    """The mutants of a kernel; of a text with several kernels, only those of its own."""
    text = kernel.text()
    entries = [m.start() for m in re.finditer(r"\.entry\s", text)]
    if len(entries) == 1:
        yield from mutants(text)
        return
    name = kernel.name.rpartition("-")[0]
    start = re.search(rf"\.entry\s+{name}\b", text)
    assert start is not None, name
    first = text.count("\n", 0, start.start()) + 1
    after = [e for e in entries if e > start.start()]
    last = text.count("\n", 0, after[0]) + 1 if after else text.count("\n") + 1
    yield from (m for m in mutants(text) if first <= m.line < last)


def rates(verdicts: list[Verdict]) -> str:
    verdicts = [v for v in verdicts if v.caught != "refused"]
    wrong = [v for v in verdicts if not v.redundant and not v.unjudged]
    spare = [v for v in verdicts if v.redundant]
    caught = sum(bool(v.caught) for v in wrong)
    silent = sum(not v.caught for v in spare)
    return (
        f"{caught} of {len(wrong)} wrong mutants caught ({100 * caught / max(len(wrong), 1):.1f} %), "
        f"{silent} of {len(spare)} redundant ones silent ({100 * silent / max(len(spare), 1):.1f} %), "
        f"{sum(v.unjudged for v in verdicts)} silent and right, and unjudged"
    )


def run(
    kernels: list[Kernel],
    state: Path | None,
    seconds: float,
    seed: int,
    seeds: int,
    most: int = 1_000_000,
    say: Callable[[str], None] = print,
) -> list[Verdict]:
    """Judges up to `most` mutants in an order that the seed chooses, those in the state file not again."""
    done: list[Verdict] = []
    if state is not None and state.exists():
        done = [Verdict(**json.loads(line)) for line in state.read_text().splitlines()]
    known = {(v.kernel, v.mutant): v for v in done}
    work: list[tuple[Kernel, Mutant]] = []
    for kernel in kernels:
        for mutant in sites(kernel):
            verdict = known.get((kernel.name, mutant.name))
            if verdict is None:
                work.append((kernel, mutant))
            else:
                # The reasons may have been written since.
                verdict.redundant = reason(kernel.name, mutant)
                verdict.foreign = kernel.foreign
    random.Random(seed).shuffle(work)
    until = time.monotonic() + seconds
    for kernel, mutant in work[:most]:
        if time.monotonic() > until:
            break
        verdict = judge(kernel, mutant, seeds, seed)
        done.append(verdict)
        if verdict.missed or verdict.false_alarm:
            word = "missed" if verdict.missed else "false alarm"
            say(
                f"{word}: {verdict.kernel} {verdict.mutant} {verdict.what} {verdict.codes} right {verdict.right}"
            )
        if state is not None:
            with state.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
    say(rates(done))
    return done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=50, help="runs of a mutant after the lazy one")
    parser.add_argument("--only", default="", help="kernels whose names match")
    options = parser.parse_args()
    kernels = [k for k in corpus() if re.search(options.only, k.name)]
    run(kernels, options.state, 60 * options.minutes, options.seed, options.seeds)


if __name__ == "__main__":
    main()
