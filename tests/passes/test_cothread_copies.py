"""Copies of scales join the products where that can be proved; each reason against it is told and changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulator.test_block_scaled import BF16, RNG, operand
from passes.programs import operations, parse, run
from passes.scaled_programs import COLUMNS, COPY, MATH, MOVE, PRODUCT, program
from programs import changed
from xdsl.dialects.builtin import ModuleOp

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import listening
from tkc.ir.stage import ops as s
from tkc.passes import pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
WAIT, TAKE, _, GIVE, RELEASE = MOVE


def moved(text: str) -> tuple[ModuleOp, str]:
    """The module after the pass, and its remark."""
    module = parse(text)
    with listening() as heard:
        run(module, "cothread-copies")
    (told,) = [d.message for d in heard if d.code == "TK222"]
    return module, told


def names(module: ModuleOp) -> list[str]:
    return [r.sym_name.data for r in operations(module, s.RoleOp)]


def bodies(module: ModuleOp, role: str) -> list[str]:
    """The operations in a role, in order."""
    (found,) = [r for r in operations(module, s.RoleOp) if r.sym_name.data == role]
    return [op.name.removeprefix("stage.") for op in found.walk() if op is not found]


def test_copies_stand_before_the_products_and_what_was_between_is_gone() -> None:
    module, told = moved(program())
    assert names(module) == ["math"]
    assert bodies(module, "math") == [
        "open",
        "for",
        "wait",
        "copy_scales",
        "scaled_mma",
        "release",
        "yield",
    ]
    (pipe,) = operations(module, s.PipeOp)
    assert (pipe.sym_name.data, [c.data for c in pipe.consumers]) == ("inputs", ["math"])
    (copy,), (product,) = operations(module, s.CopyScalesOp), operations(module, s.ScaledMmaOp)
    (wait,) = operations(module, s.WaitOp)
    assert {
        copy.source_slot,
        copy.destination_slot,
        product.scale_a_slot,
        product.scale_b_slot,
    } == {wait.slot}
    (role,) = operations(module, s.RoleOp)
    assert role.first_warp.value.data == 0
    assert told == (
        "copies into the scale columns of pipe factors move from role move to the products of role math: pipe factors "
        "is gone with its 4 barriers, and so is role move"
    )


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_columns_go_round_with_the_slots_that_they_are_copied_from(columns: int) -> None:
    module, _ = moved(program(depth=4, columns=columns))
    (buffer,) = [b for b in operations(module, s.BufferOp) if b.sym_name.data == "sa"]
    assert buffer.buffer.type.depth.data == 4
    module.verify()


def test_a_role_that_does_more_keeps_that() -> None:
    """It still reads the slot by itself, so that it stays an end of the pipe, and arrives for what is left."""
    load = '%r = stage.load_shared %a, %s, %zero : (!stage.buffer<e2m1, [128, 64], 2, shared, "32B">, i32, i32) -> (!stage.fragment<e2m1, [128, 16], rows>)'
    release = RELEASE.replace('["tcgen05"]', '["tcgen05", "generic"]')
    module, told = moved(program(move=[WAIT, load, TAKE, COPY, GIVE, release]))
    assert names(module) == ["move", "math"]
    assert bodies(module, "move") == ["for", "wait", "load_shared", "release", "yield"]
    (left,) = [o for o in operations(module, s.ReleaseOp) if [h.data for h in o.how] == ["generic"]]
    assert left.parent_op() is not None
    assert "role move" not in told.partition("products of role math")[2]


def test_a_ring_that_was_the_copying_role_s_alone_follows_the_copies() -> None:
    math = [MATH[1], PRODUCT.replace("%a, %s", "%a, %zero"), MATH[4]]
    module, _ = moved(program(consumers='"move"', math=math))
    assert names(module) == ["math"]
    assert bodies(module, "math") == [
        "open",
        "for",
        "wait",
        "copy_scales",
        "scaled_mma",
        "release",
        "yield",
    ]
    (pipe,) = operations(module, s.PipeOp)
    assert [c.data for c in pipe.consumers] == ["math"]


OTHER = """\
    stage.role {sym_name = "other", warps = 1 : i32, first_warp = 2 : i32, groups = 1 : i32} do {
      stage.for %zero, %K, %one : (i32, i32, i32) do {
      ^bb2(%q: i32):
        %w = stage.wait %factors : (!stage.ring) -> (i32)
        stage.release %factors, %w {how = []} : (!stage.ring, i32)
        stage.yield ()
      }
    }
"""
READ = f"""\
      %p = stage.open %v, %zero : ({COLUMNS}, i32) -> (!stage.accumulator<ue4m3, [128, 4]>)
"""
BARRIER = (
    '    %bar = stage.barriers {sym_name = "b", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)\n',
    '      stage.mbarrier_wait %bar, %zero, %zero {by = "one", id = "w"} : (!stage.mbarriers, i32, i32)\n',
)
NESTED = [
    WAIT, TAKE, "stage.for %zero, %one, %one : (i32, i32, i32) do {", "^bb3(%i: i32):", COPY, "stage.yield ()", "}",
    GIVE, RELEASE,
]  # fmt: skip
AGAIN = [*MATH[:2], PRODUCT.replace("%v, %t, %v, %t", "%v, %zero, %v, %t"), *MATH[3:]]

REFUSALS = {
    "another consumer": (program(takers='"math", "other"', after=OTHER), "roles math and other read them"),
    "generic reads": (program(below=READ), "stage.open touches them too"),
    "another CTA group": (
        program(math=[*MATH[:2], PRODUCT.replace(" : (", " {pair} : (", 1), *MATH[3:]]),
        "different CTA groups, one of a CTA and one of a pair",
    ),
    "columns still read": (
        program(math=[MATH[0], MATH[1], MATH[3], PRODUCT, MATH[4]]),
        "given back before a product; a copy would overwrite columns that an earlier product may still read",
    ),
    "columns given back": (
        program(math=[MATH[0], MATH[1], MATH[4], PRODUCT, MATH[3]]),
        "a product comes after the columns are given back",
    ),
    "no room for a ring": (
        program(depth=8, columns=1, sums=3, before="    %e = stage.alloc {sym_name = \"e\"} : () -> "
                "(!stage.buffer<f32, [128, 112], 1, tensor, \"none\">)\n"),
        "a ring of 8 slots, as many as they are copied from, would take 528 columns of 512 with the accumulators; with 1 "
        "a copy would overwrite scale columns that an earlier product may still read",
    ),
    "other loops": (program(bound="%one"), "the loops or conditions round the items of role move and those of role math differ"),
    "a loop of its own": (program(move=NESTED), "a copy stands in a loop or under a condition of its own"),
    "a barrier of its own": (
        program(before=BARRIER[0], above=BARRIER[1]),
        "role move also waits for a barrier of its own (stage.mbarrier_wait)",
    ),
    "a product before its tile": (
        program(math=[MATH[1], PRODUCT.replace("%a, %s", "%a, %zero"), MATH[0], *MATH[3:]]),
        "a product comes before its role has the item of pipe inputs",
    ),
    "another slot": (program(math=AGAIN), "stage.scaled_mma touches them too"),
    "several items": (
        program(move=[*MOVE, *(line.replace("%s", "%s2").replace("%t", "%t2") for line in MOVE)]),
        "role move has items of it in several places",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_may_not_move_stays_with_the_reason(name: str) -> None:
    text, reason = REFUSALS[name]
    before = str(parse(text))
    module, told = moved(text)
    assert str(module) == before
    assert reason in told
    assert told.startswith(
        "copies into the scale columns of pipe factors are not moved to the products: "
    )


def ptx(name: str | Path, without: bool = False, **params: int) -> str:
    """The text but for its places, of an example or a source."""
    passes = pipeline("sm_100a")
    if without:
        passes = passes.replace("cothread-copies,", "")
    source = EXAMPLES / f"{name}.tk" if str(name).isidentifier() else name
    text = tkc.compile(source, target="sm_100a", params=params or None, passes=passes).ptx
    text = text.replace("gemm_nvfp4_slow", "gemm_nvfp4")
    return "\n".join(
        line for line in text.splitlines() if ".loc" not in line and ".file" not in line
    )


@pytest.mark.parametrize(
    "params", [{}, {"STAGES": 1}, {"STAGES": 3, "BN": 256}, {"BM": 256, "STAGES": 2}]
)
def test_the_slow_form_becomes_the_fast_one_instruction_for_instruction(
    params: dict[str, int],
) -> None:
    assert ptx("gemm_nvfp4_slow", **params) == ptx("gemm_nvfp4", **params)


SLOW = (EXAMPLES / "gemm_nvfp4_slow.tk").read_text(encoding="utf-8")
MOVES = SLOW[SLOW.index("    role move:") : SLOW.index("    role math:")]
BOTH = "                    sa <- a.scales\n                    sb <- b.scales\n"
LOADED = "                    a <- A[m, k]\n                    b <- B[n, k]\n"
TAKES = "                get inputs, put factors:\n" + BOTH
STORE = "    role store:\n        for m, n in work:\n"
INSIDE = """\
                    get inputs:
                        put factors:
                            sa <- a.scales
                            sb <- b.scales
                        get factors:
                            d += a.scaled(sa) @ b.scaled(sb).T
"""


def ends(role: str) -> list[tuple[str, str]]:
    """The changes that leave the copies to another role."""
    inputs = "load -> math" if role == "math" else f"load -> {role}, math"
    return [(MOVES, ""), ("load -> move, math", inputs), ("move -> math", f"{role} -> math")]


ELSEWHERE: dict[str, list[tuple[str, str]]] = {
    "a role of four warps": [("role move:", "role move, warps 4:")],
    "a role for each": [
        (MOVES, MOVES.replace("role move", "role one").replace("put factors", "put of_a").replace(BOTH[35:], "")
                + MOVES.replace("role move", "role two").replace("put factors", "put of_b").replace(BOTH[:35], "")),
        ("load -> move, math", "load -> one, two, math"),
        ("pipe factors(sa, sb): move -> math", "pipe of_a(sa): one -> math\n    pipe of_b(sb): two -> math"),
        ("get inputs, factors:", "get inputs, of_a, of_b:"),
    ],
    "the loader": [*ends("load"), (LOADED, LOADED + TAKES)],
    "the role that stores": [
        *ends("store"), (STORE, STORE + "            for k in blocks(K, BK):\n" + TAKES)
    ],
    "the role that multiplies": [
        *ends("math"), (SLOW[SLOW.index("                    get inputs, factors:") : SLOW.index(STORE) - 1], INSIDE)
    ],
}  # fmt: skip
"""Where the copies may stand besides a role of their own of one warp."""


PAIR = [("launch persistent", "launch persistent, pair"), ("BM = 128", "BM = 256")]
FAST = (EXAMPLES / "gemm_nvfp4.tk").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("where", "pair"),
    [
        *((where, []) for where in ELSEWHERE),
        *((where, PAIR) for where in ("the loader", "the role that stores")),
    ],
)
def test_wherever_the_copies_stand_the_main_loop_is_the_same(
    where: str, pair: list[tuple[str, str]]
) -> None:
    """In a pair, where one CTA copies for both and each loads and stores for itself, too."""
    text = changed(changed(SLOW, *ELSEWHERE[where]), *pair)
    found, wanted = ptx(text, STAGES=3), ptx(changed(FAST, *pair), STAGES=3)
    if where == "the role that stores":  # its registers are other ones
        found, wanted = (
            re.findall(r"(?:tcgen05|mbarrier|cp\.async|fence)\.[\w.:]+", t) for t in (found, wanted)
        )
    assert found == wanted
    apart = tkc.compile(text, passes=pipeline("sm_100a").replace("cothread-copies,", ""))
    assert [f.message for f in check(apart.module(after="insert-fences"))] == []
    rows = 520 if pair else 200
    a, b = (operand(n, 1056, "e2m1", "ue4m3", 16) for n in (rows, 136))
    c = np.full((rows, 136), np.nan, BF16)
    report = apart.emulate(
        a.pair, b.pair, c, 1.0, sm_count=2, schedule="random", seed=int(RNG.integers(99))
    )
    assert not report.findings, report.findings[0]
    exact = a.real @ b.real.T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


GETS = "                get inputs, put factors:\n"
PARTED: dict[str, tuple[str, str, str]] = {
    "in the same put": (
        TAKES,
        TAKES.replace("put factors", "put factors, more") + "                    e <- C[m, n]\n",
        "fills tiles in the same put",
    ),
    "a wait of its own": (
        TAKES,
        "                wait seen, 0\n" + TAKES,
        "waits for more than items of pipes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "why"), PARTED.values(), ids=PARTED)
def test_copies_that_are_not_parted_from_a_pairs_loader(old: str, new: str, why: str) -> None:
    text = changed(SLOW, *ELSEWHERE["the loader"])
    more = "    shared e: tile[bf16, BM, BN]\n    pipe more(e): load -> math\n"
    if "more" in new:
        text = changed(
            text,
            ("    pipe inputs", more + "    pipe inputs"),
            ("get inputs, factors", "get inputs, factors, more"),
        )
    text = changed(
        text, *PAIR, (old, new), ("    pipe inputs", "    barrier seen, count = 1\n    pipe inputs")
    )
    with pytest.raises(tkc.TkcError, match=f"{why}, so that the copies are not parted") as raised:
        tkc.compile(text)
    assert "sa <- " in str(raised.value)


def test_what_the_pass_takes_away() -> None:
    """Per block of K one wait, one commit and one arrival's barrier less; a warp and 2 barriers a slot less in all."""

    def count(text: str) -> dict[str, int]:
        words = (
            "mbarrier.init",
            "mbarrier.try_wait",
            "tcgen05.commit",
            "tcgen05.fence",
            "tcgen05.cp",
            "tcgen05.mma",
        )
        return {word: len(re.findall(re.escape(word), text)) for word in words}

    slow, fast = count(ptx("gemm_nvfp4_slow", without=True)), count(ptx("gemm_nvfp4_slow"))
    gone = {word: slow[word] - fast[word] for word in slow}
    assert gone == {
        "mbarrier.init": 4,
        "mbarrier.try_wait": 3,
        "tcgen05.commit": 3,
        "tcgen05.fence": gone["tcgen05.fence"],
        "tcgen05.cp": 0,
        "tcgen05.mma": 0,
    }
    assert gone["tcgen05.fence"] >= 0


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(("clause", "rows"), [("persistent", 128), ("persistent, pair", 256)])
def test_every_access_is_in_order_before_and_after(apart: bool, clause: str, rows: int) -> None:
    """What the analysis of happens-before proves of the barriers between, and then of cp and mma in one thread."""
    passes = pipeline("sm_100a")
    if apart:
        passes = passes.replace("cothread-copies,", "")
    text = (EXAMPLES / "gemm_nvfp4_slow.tk").read_text(encoding="utf-8")
    text = text.replace("launch persistent", f"launch {clause}")
    kernel = tkc.compile(text, passes=passes, params={"STAGES": 3, "BM": rows})
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []
