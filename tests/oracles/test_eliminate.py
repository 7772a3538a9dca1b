"""Fences that the compiler takes out of random role programs, which oracle B then judges again without them."""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import pytest
from oracles.as_stage import NotInStage, as_stage
from oracles.async_model import Finding, judge
from oracles.clustered import clustered
from oracles.generate import generate, trips
from oracles.roles import For, If, Op, Program, Statement, parse
from oracles.wild import wild
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tkc.analysis.certificates import wrong
from tkc.diagnostics import Diagnostic, listening
from tkc.ir import context
from tkc.ir.certificates import label, read
from tkc.passes.eliminate_fences import TELLING, EliminateFencesPass
from tkc.passes.fencing.sites import fences_of
from tkc.passes.fencing.waits import waits_of

PROGRESS = Path(__file__).parents[2] / "out" / "eliminate-soak.json"
"""How far earlier soaks came: the next one goes on from there."""
FENCES = {
    "sm_100a": (
        *("fence", "fence", "fence", "fence one", "before", "after", "before one", "after one"),
        *("fence_release", "fence_release read", "fence_acquire", "thread_fence"),
    ),
    "sm_90a": (
        *("fence", "fence", "fence", "fence one", "fence_release", "fence_acquire", "thread_fence"),
    ),
}
TIED = ("wait_ld", "wgmma_commit", "else")
"""What nothing may come before."""


def crowded(seed: int) -> tuple[Program, str]:
    """A random program with fences and waits where they are needed, where they are not, and some of it not in order."""
    rng = random.Random(seed)
    program, target = generate(seed, faults=rng.choice([0, 0, 0, 1]))
    lines: list[str] = []
    roles = False
    for line in str(program).splitlines():
        word = line.split()[0]
        roles |= word == "role"
        if roles and word != "role" and word not in TIED and rng.random() < 0.4:
            lines.append(indent_of(line) + rng.choice(FENCES[target]))
        relaxed = roles and word in ("wait", "arrive") and rng.random() < 0.08
        if relaxed and word == "arrive":
            lines += [indent_of(line) + fence for fence in around(rng, target, "before")]
        lines.append(line + " relaxed" * relaxed)
        if relaxed and word == "wait":
            lines += [indent_of(line) + fence for fence in around(rng, target, "after")]
        if word in ("wait", "bulk_wait") and rng.random() < 0.15:
            lines.append(line)  # once more, for nothing
    return parse("\n".join(lines)), target


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def around(rng: random.Random, target: str, side: str) -> list[str]:
    """Fences that may make up for what an arrival or a wait does not order."""
    found = ["thread_fence", rng.choice(["thread_fence cluster", "thread_fence"])]
    found += [side] if target == "sm_100a" else []
    return [f for f in found if rng.random() < 0.6]


ORDERS = frozenset({"relaxed", "cluster", "read"})
"""What says how far an arrival or a wait reaches."""
HALF = 1000
"""The site of an acquire half that stands before a site, less that one."""


def without(
    program: Program,
    gone: set[int],
    spaces: dict[int, str],
    moved: Set[int] = frozenset(),
    acquires: Set[int] = frozenset(),
    orders: Mapping[int, Set[str]] | None = None,
) -> Program:
    """A program less some sites, the others with their numbers; fences in the space that they now have, those that
    moved behind the role's next barrier, where one thread executes them, acquire halves before some sites, and the
    words of order and scope (`orders`) that arrivals and waits now have."""

    def kept(body: list[Statement]) -> list[Statement]:
        found: list[Statement] = []
        later: list[Statement] = []
        for s in body:
            if isinstance(s, Op) and s.site in gone:
                continue
            if isinstance(s, Op) and s.site in moved:
                later.insert(0, replace(s, words=s.words | {"one"}))
                continue
            if isinstance(s, Op) and s.site in acquires:
                words = s.words & {"one", "lane", "all"}
                found.append(Op("fence_acquire", words=words, site=HALF + s.site))
            if isinstance(s, Op) and spaces.get(s.site) == "release::read":
                words = s.words - {"any", "shared::cluster", "shared::cta"} | {"read"}
                s = replace(s, name="fence_release", words=words)
            elif isinstance(s, Op) and s.site in spaces:
                s = replace(s, words=s.words - {"any", "shared::cluster"} | {spaces[s.site]})
            if isinstance(s, Op) and orders is not None and s.site in orders:
                s = replace(s, words=(s.words - ORDERS) | orders[s.site])
            if isinstance(s, For):
                s.body = kept(s.body)
            if isinstance(s, If):
                s.then, s.otherwise = kept(s.then), kept(s.otherwise)
            found.append(s)
            if isinstance(s, Op) and s.name == "sync" and not s.number:
                found += later
                later = []
        assert not later
        return found

    made = copy.deepcopy(program)
    for role in made.roles:
        role.body = kept(role.body)
    return made


def eliminated(module: ModuleOp, model: str, **options: bool) -> list[Diagnostic]:
    """Runs the pass; gives the certificates that did not hold, and what was not examined."""
    with listening() as heard:
        EliminateFencesPass(model=model, **options).apply(context(), module)
    return [d for d in heard if d.code in ("TK902", "TK223")]


class Done(NamedTuple):
    """What the pass has done to a program, by sites: what is gone, what changed into which form, what moved, what an
    acquire half stands before, how arrivals and waits now order; `fences`: those that there were; `failed`: what it said of certificates."""

    fences: set[int]
    gone: set[int]
    changed: dict[int, str]
    moved: set[int]
    acquires: set[int]
    orders: dict[int, set[str]]
    failed: list[Diagnostic]

    def after(self, program: Program, *more: int) -> Program:
        """The program as it then is, less some more sites."""
        left = without(program, self.gone, self.changed, self.moved, self.acquires, self.orders)
        return without(left, set(more), {}) if more else left


def order_of(op: Operation) -> set[str]:
    """The words of order and scope of an arrival or a wait."""
    words = {p.data for name in ("sem", "scope") if (p := op.properties.get(name)) is not None}  # pyright: ignore
    return (words | ({"read"} & set(op.properties))) & ORDERS


def eliminate(program: Program, target: str, model: str, **options: bool) -> Done:
    module, sites = as_stage(program, target)
    [kernel] = module.body.block.ops
    fences = {op: sites[op] for op in fences_of(kernel) if op in sites}  # pyright: ignore
    waits = {op: sites[op] for op in waits_of(kernel) if op in sites}  # pyright: ignore
    spaces = {op: op.properties["space"] for op in fences if "space" in op.properties}
    told = {op: order_of(op) for op in sites if isinstance(op, TELLING)}
    failed = eliminated(module, model, **options)
    left = set(module.walk())
    changed = {
        fences[op]: op.properties["space"].data  # pyright: ignore
        for op, space in spaces.items()
        if op in left and op.properties["space"] != space
    }
    names = {label(op): n for op, n in fences.items()}
    said = [x for certificate in read(module) for x in certificate.sites]
    added = {x.id for x in said if x.verdict == "inserted"}
    return Done(
        set(fences.values()),
        {n for op, n in (fences | waits).items() if op not in left},
        changed,
        {names[x.id] for x in said if x.verdict == "moved"},
        {sites[op.next_op] for op in left if label(op) in added},  # pyright: ignore
        {sites[op]: order_of(op) for op, was in told.items() if order_of(op) != was},
        failed,
    )


def wrongly(
    program: Program, target: str, model: str, brief: bool, **options: bool
) -> tuple[int, set[Finding], list[str]]:
    """How much went, what oracle B finds only without it, and which certificates did not hold, or could not be checked
    though the oracle finds nothing."""
    done = eliminate(program, target, model, **options)
    said, counts = done.failed, trips(program, brief)
    if any(d.code == "TK223" for d in said) and judge(program, model, counts):
        said = [d for d in said if d.code != "TK223"]
    failed = [f"{d.code} {d.message}" for d in said]
    if not (done.gone or done.changed or done.moved or done.orders):
        return 0, set(), failed
    after = done.after(program)
    found = judge(after, model, counts)
    if found:  # else nothing was wrong before either
        before = judge(program, model, counts)
        found -= before
        if model == "strict" and before:  # what no fence puts in order strictly goes by practice
            found = judge(after, "practice", counts) - judge(program, "practice", counts)
    return len(done.gone), found, failed


def ask(
    seeds: Iterable[int],
    brief: bool,
    until: float = float("inf"),
    make: Callable[[int], tuple[Program, str]] = crowded,
) -> tuple[Counter[str], list[str], int]:
    """Asks about each program; what is wrong in words, and the last seed."""
    said: Counter[str] = Counter()
    problems: list[str] = []
    seed = 0
    for seed in seeds:
        program, target = make(seed)
        model = ("practice", "practice", "strict")[seed % 3]
        try:
            gone, found, failed = wrongly(
                program, target, model, brief, move=seed % 4 == 1, newest=seed % 4 == 2
            )
        except NotInStage:
            continue
        refused = sum(x.startswith("TK902") for x in failed)
        said.update(programs=1, fences=gone, failed=refused, bounded=len(failed) - refused)
        if found:
            problems.append(f"seed {seed}, {target}, {model}: {sorted(found)}\n{program}")
        if time.monotonic() > until or len(problems) > 10:
            break
    return said, problems, seed


PARTS = 10
SHORT = 30
"""Lines of a program whose fences are soon judged: most of those in the suite; soaks ask of every length."""


def short(part: int) -> Iterator[int]:
    """Seeds of short programs."""
    return (s for s in count(2000 + part, PARTS) if str(crowded(s)[0]).count("\n") < SHORT)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_fence_goes_that_is_needed(part: int) -> None:
    """In all 2,000 programs and some: 400 as they come, of which one cannot be said in stage, and 1,610 short ones."""
    said, problems, _ = ask([*range(part, 400, PARTS), *islice(short(part), 161)], brief=True)
    assert not problems, problems[0]
    assert said["programs"] >= 200, said
    assert said["fences"] > 900, said
    assert not said["failed"] + said["bounded"], said


ONCE_WRONG = (
    *(4025408, 4061120, 4020381, 4065197, 4062110, 4044689, 4058546),
    *(4061074, 4011380, 4017524, 4005878, 4028951, 4056569),
)
"""A relaxed wait taken for knowledge of a copy, fences of CTA scope for other CTAs, waits and scopes that strict rules
need: where what is needed once went."""


def test_what_once_went_wrongly_stays() -> None:
    said, problems, _ = ask(ONCE_WRONG, brief=False)
    assert not problems, problems[0]
    assert said["programs"] == len(ONCE_WRONG), said


def test_no_fence_goes_that_is_needed_in_wild_programs() -> None:
    said, problems, _ = ask(range(60), brief=True, make=wild)
    assert not problems, problems[0]
    assert said["fences"] > 150, said
    assert not said["failed"], said


REFUSED_ONCE = {
    wild: (
        *(75, 254, 375, 400, 7003406, 7009454, 7015908, 7000381, 7014162, 11002859),
        *(23006079, 23007160),
    ),
    crowded: (4047947, 23000198),
}
"""Certificates that did not hold: what arrivals in branches tell was mixed up, or the wrong way to one was taken; a
copy's read was released by a one-way fence; of a choice whose branches wait in several forms, one branch was told, also
to an access in one of them; a loop that turns at least once by its bounds was taken for one that may not."""


@pytest.mark.parametrize("make", REFUSED_ONCE)
def test_what_had_no_certificate_once_has_one(
    make: Callable[[int], tuple[Program, str]],
) -> None:
    said, problems, _ = ask(REFUSED_ONCE[make], brief=make is wild, make=make)
    assert not problems, problems[0]
    assert said["programs"] == len(REFUSED_ONCE[make])
    assert not said["failed"], said


def test_chains_that_arrivals_of_another_cta_may_hide_are_refused_without_a15() -> None:
    module, _ = as_stage(*clustered(31000291))
    assert not eliminated(module, "practice")
    [kernel] = module.body.block.ops
    [certificate] = [x for x in read(module) if x.orders]
    for model, told in (("practice", False), ("across", True)):
        orders = tuple(o._replace(model=model) for o in certificate.orders)
        found = wrong(certificate._replace(orders=orders), kernel)  # pyright: ignore
        assert any("(A15)" in why for why in found.values()) is told
        assert bool(found) is told


ALTERNATING = """
buffer d tensor 1
buffer a shared 2
barrier af 2 1
barrier ae 2 1
role load 1
  for K
    wait ae[i] lag one
    fence one
    expect af[i] 1
    tma a[i] af[i]
    step i
role use 1
  for K
    if c 2 1
      wait af[i] one
      mma d[0] a[i]
      commit ae[i]
      step i
    else
      wait af[i] one
      fence one
      mma d[0] a[i]
      commit ae[i]
      step i
    step c
"""


def test_turns_that_never_meet_and_others_that_another_model_orders_have_one_certificate() -> None:
    """The copy of a turn and that of the next one are in other slots; strictly, nothing orders that of the turn after."""
    program = parse(ALTERNATING)
    done = eliminate(program, "sm_100a", "strict")
    assert not done.failed
    assert done.gone == done.fences
    assert not judge(done.after(program), "strict", trips(program, False))


@pytest.mark.soak
@pytest.mark.parametrize("make", [crowded, wild, clustered])
def test_no_fence_goes_that_is_needed_in_many_programs(
    make: Callable[[int], tuple[Program, str]],
) -> None:
    """100,000, or as many as TKC_SOAK_MINUTES permit; goes on where the last run stopped, or begins at TKC_SEED."""
    until = time.monotonic() + 30 * float(os.environ.get("TKC_SOAK_MINUTES", "60"))
    asked_for = int(os.environ.get("TKC_SEED") or 0)
    kind = "" if make is crowded else f"-{make.__name__}"
    progress = PROGRESS.with_stem(PROGRESS.stem + kind)
    done = json.loads(progress.read_text()) if progress.exists() and not asked_for else {}
    first = done.get("next", asked_for or 2000)
    said, problems, last = ask(range(first, first + 100_000), False, until, make)
    progress.parent.mkdir(exist_ok=True)
    progress.write_text(
        json.dumps({"next": last + 1, "said": Counter(done.get("said", {})) + said})
    )
    assert not problems, "\n".join(problems)
    assert not said["failed"], said
