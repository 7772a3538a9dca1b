"""The emulator as the adversary of `tkc check`: what that accepts is run under many schedules and has to stay silent;
of what it rejects for one fault, how much the emulator shows.

`python tests/emulator/mutation/adversary.py --slice 3/16 --out out/adversary-3.jsonl` judges a sixteenth of all items;
`--table out/adversary-*.jsonl` prints what the slices found. Items are correct sources, their mutants, twins of known
failures, and random role programs with no fault or one. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

from emulator.mutation.source import Explicit, changes, compiled, launched, sources
from oracles.as_kernel import as_kernel, emulate
from oracles.as_stage import NotInStage, as_stage
from oracles.generate import generate, trips

from tests.analysis.bug_cases import CASES
from tests.analysis.family_cases import FAMILIES
from tests.analysis.more_cases import MORE
from tests.analysis.twins import SLIPS
from tkc.analysis.happens_before import check
from tkc.analysis.order import diagnose
from tkc.diagnostics import Severity, TkcError
from tkc.driver import to_module
from tkc.emulator import Report
from tkc.emulator.machine import SCHEDULES
from tkc.job import Job

ENDS = {"TK310", "TK311", "TK313", "TK320", "TK324"}
"""How a kernel may end, and initialised data: random role programs neither drain at their end nor fill whole tiles."""


@dataclass(frozen=True)
class Verdict:
    """What both say of one item. `kind`: whether it is `right` as written, `faulty` by one change, or `random`."""

    item: str
    kind: str
    check: list[str]
    emulator: list[str]
    schedules: int
    seconds: float
    refused: str = ""
    warned: bool = False

    @property
    def outcome(self) -> str:
        if self.refused:
            return "refused"
        if self.warned and not self.check:
            return "unsettled"
        if self.check:
            return "shown" if self.emulator else "hidden"
        return "silent" if not self.emulator else "MISSED"


@dataclass(frozen=True)
class Item:
    name: str
    kind: str
    judge: Callable[[int, int], Verdict]


def _text(name: str, kind: str, program: Explicit) -> Item:
    return Item(name, kind, lambda schedules, tries: _source(name, kind, program, schedules, tries))


def _source(name: str, kind: str, program: Explicit, schedules: int, tries: int) -> Verdict:
    start = time.monotonic()
    try:
        job = Job(program.text, "program.tk", program.target, params=program.params)
        said = [d for d, _ in diagnose(to_module(job, after="insert-fences"))]
        kernel = compiled(program.text, program)
    except TkcError as error:
        why = str(error).split("\n")[0][:100]
        return Verdict(name, kind, [], [], 0, time.monotonic() - start, why)
    errors = sorted({d.code for d in said if d.severity is Severity.ERROR})
    ran, found = _run(
        lambda how, seed: launched(kernel, program, how, seed),
        tries if errors else schedules,
        set(),
        _seed_of(name),
    )
    warned = len(errors) < len(said)
    return Verdict(name, kind, errors, found, ran, time.monotonic() - start, "", warned)


def _seed_of(name: str) -> int:
    """A number from a name, the same in every process."""
    return random.Random(name).randrange(1 << 20)


def _run(
    launch: Callable[[str, int], Report | None], schedules: int, ignored: set[str], seed: int
) -> tuple[int, list[str]]:
    """How many schedules were run, the lazy one first, and the codes of the first that found anything."""
    order = ("lazy", *(s for s in SCHEDULES if s != "lazy"))
    for n in range(schedules):
        report = launch(order[n % len(order)], seed + n)
        found = {f.code for f in report.findings} - ignored if report is not None else set[str]()
        if found:
            return n + 1, sorted(found)
    return schedules, []


def _random(seed: int) -> Item:
    name = f"random {seed}"
    return Item(
        name, "random", lambda schedules, tries: _role_program(name, seed, schedules, tries)
    )


def _role_program(name: str, seed: int, schedules: int, tries: int) -> Verdict:
    start = time.monotonic()
    program, target = generate(seed, faults=seed % 2)
    try:
        said = [f for f in check(as_stage(program, target)[0], "practice") if f.code not in ENDS]
        kernel = as_kernel(program, target)
    except NotInStage as why:
        return Verdict(name, "random", [], [], 0, time.monotonic() - start, str(why)[:100])
    errors = sorted({f.code for f in said if f.severity is Severity.ERROR})
    counts = max(trips(program, brief=True), key=lambda c: sum(c.values()))

    def launch(how: str, number: int) -> Report:
        return emulate(kernel, program, counts, schedule=how, seed=number, max_steps=200_000)

    ran, found = _run(launch, tries if errors else schedules, ENDS, seed)
    warned = len(errors) < len(said)
    return Verdict(name, "random", errors, found, ran, time.monotonic() - start, "", warned)


def items(programs: int, seed: int) -> list[Item]:
    """All items, mixed, so that each slice has some of every kind."""
    found: list[Item] = []
    for program in sources():
        found.append(_text(program.name, "right", program))
        for change in changes(program.text):
            mutant = Explicit(
                program.name, change.text, program.target, program.params, program.sizes, program.sm_count
            )  # fmt: skip
            found.append(_text(f"{program.name} {change.name}", "faulty", mutant))
    for name, cases in (CASES | FAMILIES | MORE).items():
        for n, case in enumerate(cases):
            found.append(_text(f"{name}.{n}", "right", small(name, case.good, case.target)))
            for m, (text, _, _) in enumerate(case.programs()):
                found.append(_text(f"{name}.{n} bad {m}", "faulty", small(name, text, case.target)))
    for name, slip in SLIPS.items():
        found.append(_text(name, "faulty", small(name, slip.text, slip.target)))
    found += [_random(s) for s in range(seed, seed + programs)]
    random.Random(0).shuffle(found)
    return found


SMALL = {"STAGES = 4": ("STAGES", 2), "BN = 256": ("BN", 128)}
"""What makes the GEMMs small, where they say it."""


def small(name: str, text: str, target: str) -> Explicit:
    """A source with parameters and sizes that are quick to run, on as many multiprocessors as a cluster takes."""
    params = dict(new for said, new in SMALL.items() if said in text)
    clustered = re.search(r"launch .*(pair|cluster)", text)
    if clustered and "pair" in clustered[0]:
        params.pop("BN", None)
    sizes = {"K": 1088} if "e2m1" in text else {"M": 264, "N": 264} if clustered else {}
    if re.search(r"\.index \* \d+ \+ ", text):  # elements without a guard: whole tiles
        sizes |= {"M": 256, "N": 256}
    return Explicit(name, text, target, params, sizes, 2 if clustered else 1)


def judged(work: Iterable[Item], schedules: int, tries: int, until: float) -> Iterator[Verdict]:
    for item in work:
        if time.monotonic() > until:
            return
        yield item.judge(schedules, tries)


def table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """What is said of each kind of items, as rows of Markdown; and what differs, in full."""
    counts: dict[str, Counter[str]] = {}
    ran: Counter[str] = Counter()
    odd: list[str] = []
    for v in verdicts:
        counts.setdefault(v.kind, Counter())[v.outcome] += 1
        if v.outcome == "silent":
            ran[v.kind] += v.schedules
        if v.outcome in ("hidden", "MISSED", "unsettled") or (v.kind == "right" and v.check):
            odd.append(f"{v.outcome}: {v.item}: check {v.check}, emulator {v.emulator}")
    yield "| items | rejected by `check`: shown | accepted: silent | schedules of these | else |"
    yield "|---|---|---|---|---|"
    for kind, said in counts.items():
        no = said["shown"] + said["hidden"]
        yes = said["silent"] + said["MISSED"]
        rest = f"{said['refused']} are no programs, {said['unsettled']} unsettled"
        yield f"| {kind} | {said['shown']} of {no} | {said['silent']} of {yes} | {ran[kind]:,} | {rest} |"
    yield from ("", *sorted(odd))


def read(files: Iterable[str]) -> Iterator[Verdict]:
    for file in files:
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            yield Verdict(**json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slice", default="1/1", metavar="I/N", help="the I-th of N parts, from 1")
    parser.add_argument("--schedules", type=int, default=200, help="of what `check` accepts")
    parser.add_argument(
        "--tries", type=int, default=40, help="schedules of what it rejects, at most"
    )
    parser.add_argument(
        "--programs",
        type=int,
        default=6000,
        help="random role programs; a quarter of them are kernels",
    )
    parser.add_argument("--seed", type=int, default=5_000_000, help="the first random program")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no item after so long")
    parser.add_argument("--only", default="", help="items whose names hold this")
    parser.add_argument("--out", help="a file of JSON lines, one an item")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print what such files say")
    options = parser.parse_args()
    if options.table:
        print("\n".join(table(read(options.table))))
        return
    part, parts = map(int, options.slice.split("/"))
    work = [
        i
        for i in items(options.programs, options.seed)[part - 1 :: parts]
        if options.only in i.name
    ]
    said: list[Verdict] = []
    out = None
    if options.out:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        out = Path(options.out).open("w", encoding="utf-8")
    until = time.monotonic() + options.seconds
    for verdict in judged(work, options.schedules, options.tries, until):
        said.append(verdict)
        if out is not None:
            print(json.dumps(asdict(verdict)), file=out, flush=True)
        if verdict.outcome in ("MISSED", "hidden"):
            print(
                f"{verdict.outcome}: {verdict.item} {verdict.check} {verdict.emulator}", flush=True
            )
    print(f"{len(said)} of {len(work)} items")
    print("\n".join(table(said)))


if __name__ == "__main__":
    main()
