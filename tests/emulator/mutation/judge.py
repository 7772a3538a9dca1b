"""What the emulator says of mutants, against what the memory model says of them.

`python tests/emulator/mutation/judge.py --state FILE` judges the whole corpus and goes on where it was stopped;
`--jobs 16` uses as many cores; `--minutes`, `--seed`, `--seeds`, `--only` bound and choose; `--slice 3/16` takes one part of
sixteen, which many machines do side by side, each with a file of its own; `--report FILE…` says what all of them found. A mutant is caught where a run under `lazy`, or under
another schedule with one of the seeds, has an error. Two judges that know nothing of the record say whether it is wrong:
the rules of `redundant.py`, each a section of the manual about the text alone, and a witness of its run (`witness.py`), which is asked of every
silent mutant and of every one that is caught by a race alone. A silent mutant is missed where a result was wrong or the
witness finds a pair that nothing orders; a caught one is a false alarm where a rule or the witness has nothing to say
against it. Only statements that the unchanged kernel executes count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

from emulator.mutation.corpus import Kernel, corpus
from emulator.mutation.mutants import Mutant, mutants
from emulator.mutation.redundant import reason
from emulator.mutation.witness import Masks, opinion

from tkc import TkcError
from tkc.emulator import Report, machine
from tkc.emulator.program import Segment

SCHEDULES = ("eager", "random", "pct")
SPARE = 6
"""Runs after the lazy one of a mutant that a judge calls redundant."""
RACES = frozenset(f"TK{n}" for n in (301, 302, 303, 306, 307, 308, 309, 310, 312, 313, 317, 318))
"""What is found in which accesses happen, and not in what they do."""

BLIND = re.compile(r"wgmma\.fence")
"""Statements about registers, which the witness does not follow: for the rules of the text alone."""


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
    """The rule that calls it so."""
    foreign: bool = False
    second: str = ""
    """What the witness says of its run: "ordered", "unordered", or nothing where it was not asked or had no end."""

    @property
    def spare(self) -> bool:
        """Whether a rule or the witness calls it redundant."""
        return bool(self.redundant) or self.second == "ordered"

    @property
    def unjudged(self) -> bool:
        return not self.caught and not self.spare and not self.missed

    @property
    def missed(self) -> bool:
        return not self.caught and (not self.right or self.second == "unordered")

    @property
    def false_alarm(self) -> bool:
        return bool(self.caught) and self.caught != "refused" and self.spare


def judge(kernel: Kernel, mutant: Mutant, seeds: int, seed: int = 0) -> Verdict:
    """Runs a mutant until it is caught: lazily, then under the other schedules with some seeds.

    The first run has all accesses, so that the witness is asked of that; what a judge calls redundant is run with few
    seeds more, what nobody does with all of them.
    """
    why = reason(mutant)
    right, second = True, ""
    for number in range(-1, seeds):
        schedule = "lazy" if number < 0 else SCHEDULES[number % len(SCHEDULES)]
        at = seed + max(number, 0)
        try:
            report, same = kernel.run(mutant.text, schedule, at)
        except TkcError as error:
            # Refused before it runs: the change has no meaning.
            codes = [str(error)[:80]]
            return _verdict(kernel, mutant, "refused", codes, True, why)
        right = right and same
        if not report.clean:
            codes = sorted({f.code for f in report.findings})
            raced = report.ended and RACES.issuperset(codes)
            second = _second(kernel, mutant, schedule, at) if raced else ""
            return _verdict(kernel, mutant, f"{schedule} {at}", codes, right, why, second)
        if number < 0:
            second = _second(kernel, mutant, schedule, at)
        if (why or second == "ordered") and number + 1 >= SPARE:
            break
    return _verdict(kernel, mutant, "", [], right, why, second)


_MASKS: dict[str, Masks] = {}
"""By kernel, which lanes act together."""


def _second(kernel: Kernel, mutant: Mutant, schedule: str, seed: int) -> str:
    """What the witness says of a run, where it can see what the mutant lacks."""
    if BLIND.match(mutant.what):
        return ""
    masks = _MASKS.setdefault(kernel.name, {})
    witness = opinion(lambda: kernel.run(mutant.text, schedule, seed), masks)
    if witness.wrong:
        return "unordered"
    return "ordered" if witness.report.ended else ""


def _verdict(
    kernel: Kernel,
    mutant: Mutant,
    caught: str,
    codes: list[str],
    right: bool,
    why: str,
    second: str = "",
) -> Verdict:
    about = (kernel.name, mutant.name, mutant.what)
    return Verdict(*about, caught, codes, right, why, kernel.foreign, second)


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


def _in_part(kernel: Kernel, mutant: Mutant, part: tuple[int, int]) -> bool:
    return zlib.crc32(f"{kernel.name} {mutant.name}".encode()) % part[1] == part[0] - 1


def stored(states: Sequence[Path]) -> list[Verdict]:
    """The verdicts of state files, each mutant once; a last line that was cut off is left out."""
    found: dict[tuple[str, str], Verdict] = {}
    for state in states:
        for line in state.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                verdict = Verdict(**json.loads(line))
                found[verdict.kernel, verdict.mutant] = verdict
    return list(found.values())


def with_reasons(verdicts: Sequence[Verdict], kernels: Sequence[Kernel]) -> None:
    """Says anew which are redundant: the reasons may have been written since."""
    by_kernel: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_kernel.setdefault(verdict.kernel, {})[verdict.mutant] = verdict
    for kernel in kernels:
        mine = by_kernel.get(kernel.name)
        for mutant in _mutants(kernel) if mine else ():
            if mine and mutant.name in mine:
                mine[mutant.name].redundant = reason(mutant)
                mine[mutant.name].foreign = kernel.foreign


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
    judged = [v for v in verdicts if v.caught != "refused" and not v.unjudged]
    wrong = [v for v in judged if not v.spare or v.missed]
    spare = [v for v in judged if v.spare and not v.missed]
    caught = sum(bool(v.caught) for v in wrong)
    silent = sum(not v.caught for v in spare)
    asked = [v for v in judged if v.second]
    same = sum((v.second == "unordered") == bool(v.caught) for v in asked)
    return (
        f"{caught} of {len(wrong)} wrong mutants caught ({100 * caught / max(len(wrong), 1):.1f} %), "
        f"{silent} of {len(spare)} redundant ones silent ({100 * silent / max(len(spare), 1):.1f} %); "
        f"the witness agrees on {same} of {len(asked)}; {sum(v.unjudged for v in verdicts)} unjudged"
    )


def run(
    kernels: list[Kernel],
    state: Path | None,
    seconds: float,
    seed: int,
    seeds: int,
    most: int = 1_000_000,
    say: Callable[[str], None] = print,
    part: tuple[int, int] = (1, 1),
    jobs: int = 1,
) -> list[Verdict]:
    """Judges up to `most` mutants in an order that the seed chooses, those in the state file not again.

    Of `part` = (i, n) only the i-th of n parts, which depend on names alone.
    """
    if state is not None:
        state.parent.mkdir(parents=True, exist_ok=True)
    done = stored([state] if state is not None and state.exists() else [])
    known = {(v.kernel, v.mutant) for v in done}
    with_reasons(done, kernels)
    work = [
        (kernel, mutant)
        for kernel in kernels
        for mutant in _mutants(kernel)
        if _in_part(kernel, mutant, part) and (kernel.name, mutant.name) not in known
    ]
    random.Random(seed).shuffle(work)
    until = time.monotonic() + seconds
    before, failed = len(done), 0
    for verdict in _verdicts(work, seeds, seed, jobs):
        if isinstance(verdict, str):
            failed += 1
            say(f"failed: {verdict}")
        elif verdict is not None:
            done.append(verdict)
            for word in ("missed", "false_alarm", "unjudged"):
                if getattr(verdict, word):
                    say(word.replace("_", " ") + about(verdict))
            if state is not None:
                with state.open("a") as file:
                    file.write(json.dumps(asdict(verdict)) + "\n")
        if time.monotonic() > until or len(done) - before >= most:
            break
    say(rates(done) + (f"; {failed} FAILED" if failed else ""))
    return done


Task = tuple[Kernel, Mutant]


def _verdicts(work: list[Task], seeds: int, seed: int, jobs: int) -> Iterator[Verdict | str | None]:
    """The verdict of each, None where the statement is not executed, or how this tool failed; in any order.

    Kernels are closures, which processes inherit: only numbers are sent to them.
    """
    if jobs == 1:
        lines: dict[str, set[int]] = {}
        for kernel, mutant in work:
            if kernel.name not in lines:
                lines[kernel.name] = executed(kernel)
            yield _try(kernel, mutant, seeds, seed) if mutant.line in lines[kernel.name] else None
        return
    kernels = {k.name: k for k, _ in work}
    with multiprocessing.get_context("fork").Pool(
        jobs, _inherit, (list(kernels.values()), work, seeds, seed)
    ) as pool:
        found = pool.map(_executed, range(len(kernels)), chunksize=1)
        lines = dict(zip(kernels, found, strict=True))
        numbers = [n for n, (k, m) in enumerate(work) if m.line in lines[k.name]]
        yield from pool.imap_unordered(_nth, numbers)


def _try(kernel: Kernel, mutant: Mutant, seeds: int, seed: int) -> Verdict | str:
    try:
        return judge(kernel, mutant, seeds, seed)
    except Exception as error:
        return f"{kernel.name} {mutant.name} {mutant.what}: {error!r}"


_inherited: tuple[list[Kernel], list[Task], int, int]


def _inherit(*what: Any) -> None:
    global _inherited
    _inherited = what  # type: ignore[assignment]


def _executed(number: int) -> set[int]:
    return executed(_inherited[0][number])


def _nth(number: int) -> Verdict | str:
    _, work, seeds, seed = _inherited
    return _try(*work[number], seeds, seed)


def about(v: Verdict) -> str:
    """A verdict in a line."""
    return f": {v.kernel} {v.mutant} {v.what} {v.codes} right {v.right} {v.second} {v.redundant}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seeds",
        type=int,
        default=50,
        help="runs after the lazy one, of what no judge calls redundant",
    )
    parser.add_argument("--only", default="", help="kernels whose names match")
    parser.add_argument("--slice", type=parts, default=(1, 1), help="I/N: the I-th of N parts")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--report", type=Path, nargs="+", help="say what these states hold, and run nothing"
    )
    options = parser.parse_args()
    kernels = [k for k in corpus() if re.search(options.only, k.name)]
    if options.report:
        print(report(stored(options.report), kernels))
        return
    run(
        kernels,
        options.state,
        60 * options.minutes,
        options.seed,
        options.seeds,
        part=options.slice,
        jobs=options.jobs,
    )


def parts(word: str) -> tuple[int, int]:
    """`3/16` as (3, 16)."""
    found = re.fullmatch(r"(\d+)/(\d+)", word)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{word!r} is not I/N with I from 1 to N")
    return int(found[1]), int(found[2])


def report(verdicts: list[Verdict], kernels: Sequence[Kernel]) -> str:
    """The rates of our own and of other compilers' kernels, and every verdict that a person must look at."""
    with_reasons(verdicts, kernels)
    lines: list[str] = []
    for name, foreign in (("ours", False), ("other compilers", True)):
        mine = [v for v in verdicts if v.foreign is foreign]
        lines.append(f"{name}: {len(mine)} mutants: {rates(mine)}")
    for word in ("missed", "false_alarm", "unjudged"):
        lines += [word.replace("_", " ") + about(v) for v in verdicts if getattr(v, word)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
