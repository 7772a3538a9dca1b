"""`on(sm_90)`: values of params and roles for families of chips, which target takes which, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from programs import EXAMPLES, GEMM, changed, compiled, mistakes, only

import tkc
from tkc.cached_run import run_cached
from tkc.frontend.format import format_source
from tkc.frontend.parse import parse
from tkc.frontend.source import Source
from tkc.frontend.syntax import Param, Role
from tkc.ir.isa.targets import FAMILIES, TARGETS
from tkc.ir.tile import ops as t
from tkc.job import Job

PER_CHIP = Path(__file__).parents[2] / "lit_tests" / "run" / "per-chip.tk"
PARAMS = "param BM = 128, BN = 256, BK = 64, STAGES = 4"
ROLE = "role store:"


def params(text: str, target: str | None, **given: int) -> dict[str, int]:
    kernel = next(
        o for o in compiled(text, target=target, params=given).walk() if isinstance(o, t.KernelOp)
    )
    return {name: value.value.data for name, value in kernel.params.data.items()}  # type: ignore[union-attr]


def role(text: str, target: str | None, name: str = "store") -> tuple[int | None, int | None]:
    """warps and registers."""
    found = next(
        o
        for o in compiled(text, target=target).walk()
        if isinstance(o, t.RoleOp) and o.sym_name.data == name
    )
    warps, registers = (None if x is None else x.value.data for x in (found.warps, found.registers))
    return warps, registers


def test_it_reads_as_written() -> None:
    text = changed(
        GEMM,
        (PARAMS, "param BM = 128, BN = 256, on(sm_90, sm_120) 128, on(sm_107) BM, BK = 64, STAGES = 4"),
        (ROLE, "role store, warps 4, on(sm_90) warps 8, registers 232, on(sm_100, sm_103) warps 4:"),
    )  # fmt: skip
    tree = parse(Source(text, "k.tk"))
    assert tree is not None
    (said,) = [s for s in tree.kernels[0].body if isinstance(s, Param)]
    assert [
        (b.name.text, [[w.text for w in x.families] for x in b.instead]) for b in said.bindings
    ] == [("BM", []), ("BN", [["sm_90", "sm_120"], ["sm_107"]]), ("BK", []), ("STAGES", [])]
    store = [s for s in tree.kernels[0].body if isinstance(s, Role)][-1]
    assert [(x.name.text, [w.text for w in x.families]) for x in store.settings] == [
        ("warps", []),
        ("warps", ["sm_90"]),
        ("registers", ["sm_90"]),
        ("warps", ["sm_100", "sm_103"]),
    ]


@pytest.mark.parametrize(
    ("clauses", "values"),
    [
        ("", {}),
        ("on(sm_90) 1", {"sm_90": 1, "sm_90a": 1}),
        ("on(sm_100) 1", dict.fromkeys([x for x in TARGETS if x.startswith("sm_10")], 1)),
        ("on(sm_103) 1", dict.fromkeys(["sm_103a", "sm_103f", "sm_107a", "sm_107f"], 1)),
        ("on(sm_107) 1, on(sm_100) 2",
         {"sm_107a": 1, "sm_107f": 1, "sm_103a": 2, "sm_103f": 2, "sm_100": 2, "sm_100a": 2, "sm_100f": 2}),
        ("on(sm_100, sm_90) 1, on(sm_103) 2",
         {"sm_90": 1, "sm_90a": 1, "sm_100": 1, "sm_100a": 1, "sm_100f": 1, "sm_103a": 2, "sm_103f": 2,
          "sm_107a": 2, "sm_107f": 2}),
        ("on(sm_120) 1", {"sm_120a": 1}),
    ],
)  # fmt: skip
def test_the_nearest_family_counts(clauses: str, values: dict[str, int]) -> None:
    """For params and for settings alike; what no clause serves has the value in front."""
    behind = f", {clauses}" if clauses else ""
    settings = "".join(f", {x}" for x in clauses.replace(") ", ") warps ").split(", on") if x)
    settings = settings.replace(", (", ", on(")
    text = changed(
        GEMM,
        (PARAMS, f"param BM = 128, BN = 256, BK = 64, STAGES = 4{behind}"),
        (ROLE, f"role store, warps 4{settings}:"),
    )
    for target in (None, *TARGETS):
        assert params(text, target)["STAGES"] == values.get(target or "", 4), target
    for target in ("sm_90a", "sm_100a", "sm_103a", "sm_107a"):
        assert role(text, target)[0] == values.get(target, 4), target


def test_a_later_param_is_made_of_the_value_taken() -> None:
    text = changed(
        GEMM, (PARAMS, "param BM = 128, BN = 256, on(sm_90) BM, BK = 64, STAGES = 1024 // BN")
    )
    assert params(text, "sm_90a") == {"BM": 128, "BN": 128, "BK": 64, "STAGES": 8}
    assert params(text, "sm_100a") == {"BM": 128, "BN": 256, "BK": 64, "STAGES": 4}


def test_what_the_caller_gives_wins() -> None:
    text = changed(
        GEMM, (PARAMS, "param BM = 128, BN = 256, on(sm_90) 128, BK = 64, STAGES = 1024 // BN")
    )
    for target in ("sm_90a", "sm_100a"):
        assert params(text, target, BN=64) == {"BM": 128, "BN": 64, "BK": 64, "STAGES": 16}
    made = tkc.compile(PER_CHIP, target="sm_90a", params={"BN": 16, "STAGES": 3})
    assert dict(made.params) == {"BM": 256, "BN": 16, "STAGES": 3}


def test_settings_of_one_family_are_not_of_others() -> None:
    text = changed(
        GEMM, (ROLE, "role store, warps 4, on(sm_90) warps 8, registers 232, on(sm_107) warps 2:")
    )
    assert {x: role(text, x) for x in ("sm_90a", "sm_100a", "sm_107a")} == {
        "sm_90a": (8, 232),
        "sm_100a": (4, None),
        "sm_107a": (2, None),
    }


def test_roles_of_one_name_have_them_by_number() -> None:
    text = """\
kernel k(X: global[f32, M, N]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared x[2]: tile[f32, 128, 32]
    pipe p[i](x[i]): load -> use[i]
    role load:
        for m in work:
            put p[0]: x[0] <- X[m, blocks(N, 32)[0]]
            put p[1]: x[1] <- X[m, blocks(N, 32)[1]]
    role use[i in 0, 1], registers 64 + 8 * i, on(sm_90) registers 128 + 8 * i:
        for m in work:
            get p[i]: y = read(x[i])
"""
    for target, first in (("sm_90a", 128), ("sm_100a", 64)):
        assert [role(text, target, f"use[{i}]")[1] for i in (0, 1)] == [first, first + 8]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("change", "code", "message", "text"),
    [
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90a) 128, BK = 64, STAGES = 4"), "TK102", "its family is `sm_90`", "sm_90a"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm90) 128, BK = 64, STAGES = 4"), "TK102", "did you mean `sm_90`", "sm90"),
        ((PARAMS, "param BM = 128, BN = 256, on(hopper) 128, BK = 64, STAGES = 4"), "TK102",
         f"there are {', '.join(FAMILIES)}", "hopper"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) 128, on(sm_100, sm_90) 64, BK = 64, STAGES = 4"), "TK103",
         "`BN` is set twice on sm_90", "sm_90"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) M, BK = 64, STAGES = 4"), "TK111", "only the launch knows `M`", "M"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) BQ, BK = 64, STAGES = 4"), "TK102", "unknown name `BQ`", "BQ"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) BK, BK = 64, STAGES = 4"), "TK102", "before it is defined", "BK"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) 0, BK = 64, STAGES = 4"), "TK111", "is 0, expected 1", "0"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) 0.5, BK = 64, STAGES = 4"), "TK106", "is an integer", "0.5"),
        ((PARAMS, "param BM = 128, BN = 0, on(sm_90) 1, BK = 64, STAGES = 4"), "TK111", "is 0, expected 1", "0"),
        ((PARAMS, "param BM = 128, BN = 256, on(sm_90) BN = 128, BK = 64, STAGES = 4"), "TK101", "`param BN = 256, on(sm_90) 128`", "="),
        ((PARAMS, "param BM = 128, on(sm_90) BN = 128, BN = 256, BK = 64, STAGES = 4"), "TK101", "`param BN = 256, on(sm_90) 128`", "="),
        ((PARAMS, "param on(sm_90) BM = 128, BN = 256, BK = 64, STAGES = 4"), "TK101", "stands behind its value", "on"),
        ((PARAMS, "param on = 128, BN = 256, BK = 64, STAGES = 4"), "TK101", "", "on"),
        (("* STAGES\n", "* STAGES, on(sm_90) 3\n"), "TK101", "are a param", ","),
        (("launch persistent", "launch persistent, on(sm_100) clc"), "TK101", "behind values of params", "on"),
        ((ROLE, "role store, warps 4, on(sm_90) wraps 8:"), "TK102", "did you mean `warps`", "wraps"),
        ((ROLE, "role store, warps 4, on(sm_91) warps 8:"), "TK102", "did you mean `sm_90`", "sm_91"),
        ((ROLE, "role store, warps 4, on(sm_90) warps 8, on(sm_90) warps 2:"), "TK103", "`warps` of role store is set twice on sm_90", "sm_90"),
        ((ROLE, "role store, warps 4, warps 8, on(sm_90) warps 2:"), "TK103", "set twice", "warps"),
        ((ROLE, "role store, warps 4, on(sm_90) warps M:"), "TK117", "fixed at compile time", "M"),
        ((ROLE, "role store, warps 4, on(sm_90) warps 0:"), "TK117", "expected at least 1", "0"),
        ((ROLE, "role store, warps 4, on(sm_90):"), "TK101", "stand behind `on`: `role math", ":"),
        ((ROLE, "role store, warps 4, on(sm_90) 8:"), "TK101", "stand behind `on`: `role math", "8"),
        ((ROLE, "role store, on sm_90 warps 8:"), "TK101", "stand behind `on`: `role math", "sm_90"),
    ],
)  # fmt: skip
def test_mistakes_are_told_whatever_the_target(
    change: tuple[str, str], code: str, message: str, text: str, target: str
) -> None:
    said = only(mistakes(changed(GEMM, change), target=target))
    assert (said.code, said.text) == (code, text)
    assert message in said.message


def test_a_value_that_is_not_taken_may_not_fit_the_others() -> None:
    """`256 // BK` is 0 on Hopper, which takes 2."""
    text = changed(
        GEMM,
        (PARAMS, "param BM = 128, BN = 256, BK = 64, on(sm_90) 512, STAGES = 256 // BK, on(sm_90) 2"),
    )  # fmt: skip
    assert params(text, "sm_90a")["STAGES"] == 2
    assert params(text, "sm_100a")["STAGES"] == 4


def test_the_style() -> None:
    said = """\
kernel k(X: global[f32, N]):
  param A=1,on(sm_90,sm_100)(2+3)*2 , on (sm_107)-1+ 9 ,B=2
  role load , warps(4), on( sm_90 )warps( 1+1 ),registers 8 , on(sm_103) warps 2:
      for n in blocks(N, 4): x = 1
"""
    made = """\
kernel k(X: global[f32, N]):
    param A = 1, on(sm_90, sm_100) (2 + 3) * 2, on(sm_107) -1 + 9, B = 2
    role load, warps (4), on(sm_90) warps (1 + 1), registers 8, on(sm_103) warps 2:
        for n in blocks(N, 4): x = 1
"""
    assert format_source(said, "k.tk") == made
    assert format_source(made, "k.tk") == made


def test_the_cache_tells_targets_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TKC_CACHE", "on")
    monkeypatch.setenv("TKC_CACHE_DIR", str(tmp_path))
    text = PER_CHIP.read_text(encoding="utf-8")
    jobs = [Job(text, "k.tk", x) for x in ("sm_90a", "sm_100a", "sm_103a") * 2]
    rows = [run_cached(job).contract["kernels"][0]["params"] for job in jobs]
    assert [(x["BM"], x["STAGES"]) for x in rows] == [(256, 2), (128, 4), (128, 6)] * 2
    assert any(tmp_path.rglob("*"))


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_numbers_are_right_on_both(target: str) -> None:
    rng = np.random.default_rng(90)
    x = rng.uniform(-2, 2, (136, 40)).astype(np.float32)
    y, s = np.full_like(x, np.nan), np.full(136, np.nan, np.float32)
    tkc.compile(PER_CHIP, target=target).emulate(x, y, s)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(y, exact, rtol=2**-20)
    np.testing.assert_allclose(s, exact.sum(axis=1), rtol=2**-20)


def test_the_example_fits_each_chip() -> None:
    """256 columns of two sums are too many registers for Hopper, which is why it takes 128."""
    text = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
    assert [params(text, x)["BN"] for x in ("sm_90a", "sm_100a", "sm_107a")] == [128, 256, 256]
    with pytest.raises(tkc.TkcError, match="256 registers of accumulators"):
        tkc.compile(text, target="sm_90a", params={"BN": 256})
