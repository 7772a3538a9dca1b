"""The one style: what it looks like, that it is stable, and that it changes neither meaning nor comments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mangle import SOURCES, mangle

from tkc.diagnostics import TkcError
from tkc.frontend.format import bare, comments, format_source
from tkc.frontend.parse import parse
from tkc.frontend.source import Source

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*(ROOT / "examples").glob("*.tk"), *(ROOT / "lit_tests" / "run").glob("*.tk")])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_our_programs_are_in_the_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert format_source(text, path.name) == text, f"tkc fmt {path.relative_to(ROOT)}"


def untidy(rng: random.Random, text: str) -> str:
    """The same program, written carelessly: other blanks, indentations, blank lines, comments and line ends."""
    width = rng.choice((1, 2, 3, 8))
    out: list[str] = []
    for line in text.split("\n"):
        code = line.lstrip(" ")
        depth = (len(line) - len(code)) // 4
        parts = code.split(" ") if "#" not in code else [code]
        indent = "\t" * depth if width == 8 else " " * width * depth
        if "    " in line and "(" in text[: text.find(line)].rpartition("\n")[2]:
            indent = " " * rng.randrange(20)
        joined = "".join(
            p + " " * rng.choice((1, 1, 1, 2, 5)) if i < len(parts) - 1 else p
            for i, p in enumerate(parts)
        )
        if rng.random() < 0.1:
            joined += " " * rng.randrange(3) + "# said " + str(rng.randrange(100))
        out.append(indent + joined + " " * rng.choice((0, 0, 3)))
        if rng.random() < 0.1:
            out += [" " * rng.randrange(5)] * rng.randrange(3)
        if rng.random() < 0.05:
            out.append(" " * rng.randrange(20) + "#another")
    return rng.choice(("\n", "\n", "\r\n")).join(out)


def check(text: str) -> bool:
    """Whether the text parses; then it is formatted once and for all, with its meaning and comments."""
    source = Source(text, "k.tk")
    tree = parse(source)
    if tree is None:
        with pytest.raises(TkcError):
            format_source(text, "k.tk")
        return False
    made = format_source(text, "k.tk")
    assert format_source(made, "k.tk") == made
    assert bare(parse(Source(made, "k.tk"))) == bare(tree)
    assert comments(made) == comments(source.text)
    assert not any(line != line.rstrip() for line in made.split("\n"))
    assert "\n\n\n" not in made
    return True


@given(st.sampled_from(sorted(SOURCES)), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_however_it_is_written_it_looks_the_same(name: str, rng: random.Random) -> None:
    assert check(untidy(rng, SOURCES[name]))


@given(st.sampled_from(sorted(SOURCES)), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_mangled_programs(name: str, rng: random.Random) -> None:
    check(mangle(rng, SOURCES[name]))


BEFORE = """\


#first
def f( x ):
  return - x+1  if x>-1 else( x )
kernel k(A:global[bf16,M,K],
  # the other
     B :const global[bf16,N,K] , scale:f32):
  param BM=128 ,BN = BM//2   # sizes


  launch persistent
  shared  a,b : tile[bf16,BM,BN]*2 # ring
  accum c:tile[
     f32,
  BM,BN
  ]
  pipe p(a) :l->m
  pipe inputs(a, b): load->math#ends
  role r , warps(BM//32),registers 232 :
    for m,n in work :
      get p :x=read(a)[-1] ;y  = not x and - 2.5
        # about what follows
      if x==1 :
          z = x
          # the end of the arm
      # the end of the loop
  # of the kernel
"""
AFTER = """\
#first
def f(x):
    return -x + 1 if x > -1 else (x)

kernel k(A: global[bf16, M, K],
         # the other
         B: const global[bf16, N, K], scale: f32):
    param BM = 128, BN = BM // 2  # sizes

    launch persistent
    shared a, b: tile[bf16, BM, BN] * 2  # ring
    accum  c: tile[
        f32,
        BM, BN
    ]
    pipe p(a):         l -> m
    pipe inputs(a, b): load -> math  #ends
    role r, warps (BM // 32), registers 232:
        for m, n in work:
            get p: x = read(a)[-1]; y = not x and -2.5
            # about what follows
            if x == 1:
                z = x
                # the end of the arm
            # the end of the loop
    # of the kernel
"""


def test_the_style() -> None:
    assert format_source(BEFORE, "k.tk") == AFTER
