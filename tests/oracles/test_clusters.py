"""Clusters of two CTAs: the analysis, `eliminate-fences` and the emulator against oracle B, on random programs and by
name."""

from __future__ import annotations

from collections import Counter
from itertools import count

from oracles.as_stage import NotInStage
from oracles.async_model import judge
from oracles.clustered import clustered
from oracles.differential import compare
from oracles.generate import trips
from oracles.roles import Program, parse
from oracles.test_eliminate import ask, eliminate
from oracles.test_emulator import chosen_trips, runs

from tkc.diagnostics import TkcError


def test_the_analysis_misses_nothing() -> None:
    """But for what waits for ever after a loop with more turns than its ring has slots: that is not looked for."""
    said: Counter[str] = Counter()
    for seed in range(50):
        program, target = clustered(seed)
        try:
            difference = compare(program, target, ("practice", "strict")[seed % 2], brief=True)
        except NotInStage:
            continue
        kind = difference.kind if difference else "agree"
        if difference and kind == "unsound" and {f.kind for f in difference.oracle} == {"deadlock"}:
            kind = "deadlock"
        said[kind] += 1
        assert kind != "unsound", f"seed {seed}\n{program}\n{difference}"
    assert said["agree"] > 40, said


def test_no_fence_goes_that_is_needed() -> None:
    said, problems, _ = ask(range(50), brief=True, make=clustered)
    assert not problems, problems[0]
    assert said["fences"] > 100, said
    assert not said["failed"] + said["bounded"], said


def test_the_emulator_agrees(seed: int) -> None:
    """It shows little of barriers whose phases mix."""
    said: Counter[tuple[bool, bool]] = Counter()
    for number in count(seed):
        program, target = clustered(number)
        if str(program).count("\n") > 25:
            continue
        wrong = judge(program, "practice", [chosen_trips(program)])
        try:
            codes = runs(program, target, iter(range(2)), 2)
        except (NotInStage, TkcError):
            continue  # more rows than the role's threads hold at a time, a scope that PTX has not
        assert wrong or not codes, f"seed {number}: the emulator finds {codes}\n{program}"
        said[bool(wrong), bool(codes)] += 1
        if said.total() == 10:
            break
    assert said[False, False] > 1, said


STRICTLY_WRONG_ONCE = (11029109, 11001410, 11007608, 11000144, 11000816, 11003369)
"""What threads touch of another CTA's copies, of which a fence of that CTA was taken for all that is needed."""


def test_what_once_went_wrongly_stays() -> None:
    said, problems, _ = ask(STRICTLY_WRONG_ONCE, brief=True, make=clustered)
    assert not problems, problems[0]
    assert said["programs"] == len(STRICTLY_WRONG_ONCE)


def test_nothing_goes_where_turns_arrive_twice_without_a_wait() -> None:
    said, problems, _ = ask([25014339], brief=True, make=clustered)
    assert not problems
    assert (said["programs"], said["fences"]) == (1, 0)


SENT = """\
buffer a shared 2 @*
buffer b shared 2 @*
barrier f 2 1 @*
barrier e 2 32 @*
role send 1 @*
  for K
    if rank 2 1
      wait e[i] all cluster lag
      st a[i]
      fence
      warp_sync
      copy b[i] a[i] f[i] peer
    step i
role use 1 @*
  for K
    if rank 2 0
      expect f[i] 1
      wait f[i] all cluster
      ld b[i]
      fence
      arrive e[i] all at1 cluster
    step i
"""
"""One CTA sends, the other reads and fences before it gives a slot back: the sender's own fence is of its own CTA's
memory, also by rules that count the copy as the sender's."""


def test_a_fence_of_another_cta_s_memory_is_none_of_this_one_s() -> None:
    program = parse(SENT)
    for model in ("practice", "strict"):
        done = eliminate(program, "sm_90a", model)
        assert done.gone == set()
        assert not judge(done.after(program), "practice", trips(program))
    wide = without_line(SENT, "      fence\n      warp_sync", "      fence any\n      warp_sync")
    for program in (
        wide,
        parse(str(wide).replace(" at1", " peer")),
    ):  # nor is one of both, strictly
        done = eliminate(program, "sm_90a", "strict")
        assert not judge(done.after(program), "practice", trips(program))
    without = without_line(SENT, "      ld b[i]\n      fence\n", "      ld b[i]\n")
    assert {f.kind for f in judge(without, "practice", trips(program))} == {"proxy"}


def without_line(text: str, old: str, new: str) -> Program:
    assert text.count(old) == 1
    return parse(text.replace(old, new))
