"""Items that one branch or another awaits, in different forms: a branch knows in later turns what both come to know."""

from __future__ import annotations

import pytest
from oracles.as_stage import as_stage
from oracles.async_model import judge
from oracles.differential import compare
from oracles.generate import trips
from oracles.roles import parse

from tkc.analysis.happens_before import check

TURNS = """\
buffer d tensor 1
buffer a shared 1
buffer b shared 1
barrier f 2 1
barrier e 1 1
role load 1
  for K
    if c 1 0
      wait e[i] lag one
      expect f[i] 1 relaxed
      tma a[i] f[i]
      wait f[i] one
      step i
    if c 1 0
      wait e[i] lag one
      expect f[i] 1 relaxed
      tma b[i] f[i]
      wait f[i] one
      step i
    step c
role use 4
  for K
    if c 1 0
      {awaits}
      sync 0
      arrive e[i] one
      step i
    if c 1 0
      wait f[i] all
      wgmma a[i]
      wgmma b[i]
      wgmma_commit
      wgmma_wait 0
      sync 0
      arrive e[i] one
      step i
    step c
"""
"""Items of `a` are awaited in the first branch, and read in the second an item later."""


@pytest.mark.parametrize(
    ("awaits", "ordered"),
    [
        ("wait f[i] all", True),
        ("wait f[i] all relaxed\n      thread_fence", True),
        ("wait f[i] all relaxed", False),
    ],
)
def test_what_another_branch_awaits(awaits: str, ordered: bool) -> None:
    program = parse(TURNS.format(awaits=awaits))
    assert bool(judge(program, "strict", trips(program))) is not ordered
    difference = compare(program, "sm_90a", "strict")
    assert difference is None, difference
    module, _ = as_stage(program, "sm_90a")
    found = [f.code for f in check(module, "strict")]
    assert ("TK301" in found) is not ordered, found
