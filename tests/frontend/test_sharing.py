"""R2: tiles in several pipes and in each other's place; what is refused, and where the proof that is left says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import GEMM, changed, compiled, mistakes, only

import tkc
from tkc.diagnostics import TkcError
from tkc.ir.tile import ops as t

IN_PLACE = """
kernel k(A: global[f32, M, N], C: global[f32, M, N]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared x: tile[f32, 128, 32] * 2
    pipe loaded(x): load -> scale
    pipe done(x): scale -> store
    role load:
        for m in work:
            for k in blocks(N, 32):
                put loaded: x <- A[m, k]
    role scale, warps 4:
        for m in work:
            for k in blocks(N, 32):
                get loaded, put done: x <- read(x) * 2
    role store:
        for m in work:
            for k in blocks(N, 32):
                get done: C[m, k] <- x
"""
IN_TURN = "get loaded: v = read(x)\n                put done: x <- v * 2"
BLOCK = "get loaded, put done: x <- read(x) * 2"


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    "block",
    [
        BLOCK,
        IN_TURN,
        "get loaded:\n                    put done: x <- read(x) * 2",
        "get loaded: x <- read(x) * 2\n                put done: keep x",
        "get loaded, put done: keep x",
        "get loaded as y, put done as z: z <- read(y) * 2",
    ],
)
def test_a_slot_goes_from_role_to_role(block: str, target: str) -> None:
    text = changed(IN_PLACE, (BLOCK, block))
    loaded, done = compiled(text).walk(), None
    pipes = {op.sym_name.data: op for op in loaded if isinstance(op, t.PipeOp)}
    loaded, done = pipes["loaded"], pipes["done"]
    assert [n.data for n in loaded.after or ()] == ["done"]
    assert done.after is None
    tkc.compile(text, target=target)


def test_who_does_not_come_last_is_not_waited_for() -> None:
    """The loader stores itself: what it waits for in its own order needs no other wait."""
    own = changed(
        IN_PLACE,
        ("scale -> store", "scale -> load"),
        ("put loaded: x <- A[m, k]", "put loaded: x <- A[m, k]\n                get done: C[m, k] <- x"),
        ("    role store:\n        for m in work:\n            for k in blocks(N, 32):\n                get done: C[m, k] <- x\n", ""),
    )  # fmt: skip
    pipes = [op for op in compiled(own).walk() if isinstance(op, t.PipeOp)]
    assert not any(op.after for op in pipes)
    tkc.compile(own, target="sm_90a")


def to_and_fro() -> str:
    """The program whose accumulator goes to and fro between two roles, once for each block of K."""
    return (Path(__file__).parents[2] / "lit_tests/run/accumulator-to-and-fro.tk").read_text()


IN_THE_GET = "get scaled, inputs: d += a @ b.T\n                put added: keep d"


@pytest.mark.parametrize(
    "blocks",
    [
        IN_THE_GET,
        "get inputs, scaled: d += a @ b.T\n                put added: keep d",
        "get scaled:\n                    get inputs: d += a @ b.T\n                put added: keep d",
    ],
)
def test_a_slot_that_goes_to_and_fro_is_not_awaited_twice(blocks: str) -> None:
    """Each role has had the other's item, and may have released it: the release before may be two phases back."""
    text = changed(to_and_fro(), (IN_THE_GET, blocks))
    assert not any(op.after for op in compiled(text).walk() if isinstance(op, t.PipeOp))
    tkc.compile(text, target="sm_100a")  # the proof is in it


def test_to_set_what_another_role_has_left_is_no_fix() -> None:
    """`d = 0` would lose the sum, which a get goes on with."""
    text = changed(to_and_fro(), (IN_THE_GET, "get scaled, put added:\n                    get inputs: d += a @ b.T"))  # fmt: skip
    said = only(mistakes(text))
    assert (said.code, said.text) == ("TK114", "d += a @ b.T")
    assert "a get adds to what is there, and `keep d` in a put hands it on" in said.message
    assert said.diagnostic.help is None
    first = only(mistakes(changed(GEMM, ("d = 0\n", "\n"))))
    assert first.diagnostic.help == "begin the put with `d = 0`"


@pytest.mark.parametrize(
    ("changes", "code", "told", "text"),
    [
        ([(BLOCK, "get loaded, put done: v = 1")], "TK114", "or `keep x`, which leaves it as it is, in the put", "done"),
        ([(BLOCK, "get loaded: keep x\n                put done: keep x")], "TK107", "what a get leaves alone stays as it is", "keep x"),
        ([(BLOCK, "get loaded, put done: keep x; x <- read(x)")], "TK110", "a second copy into `x` in one put", "x <- read(x)"),
        ([(BLOCK, "get loaded, put done: x <- read(x); keep x")], "TK103", "this put writes `x` and keeps it", "keep x"),
        ([(BLOCK, "get loaded, put done: keep A")], "TK106", "`keep` is of a tile, not of the tensor A", "A"),
        ([(BLOCK, "get loaded, put done: keep x where 1 < 2")], "TK101", "a tile is kept as it is", "keep x where 1 < 2"),
        ([(BLOCK, "get loaded, put done: keep y")], "TK102", "no shared tile or accumulator `y`", "y"),
        ([("put loaded: x <- A[m, k]", "put loaded: keep x; x <- A[m, k]")], "TK110", "a second copy into `x`", "x <- A[m, k]"),
        ([(BLOCK, "get loaded: x <- A[m, k]\n                put done: keep x")], "TK110", "a copy from a tensor into `x` inside a get", "x <- A[m, k]"),
        ([(BLOCK, "get loaded:\n                    if k.index == 0: put done: keep x")], "TK103", "another name tells the items apart", "put done"),
        ([("scale -> store", "scale, load -> store")], "TK110", "`x` in two pipes, of which one has several producers", "x"),
        ([("pipe done(x)", "pipe done(x, x)")], "TK103", "pipe done carries `x` twice", "x"),
    ],
)  # fmt: skip
def test_what_a_shared_tile_is_refused(
    changes: list[tuple[str, str]], code: str, told: str, text: str
) -> None:
    said = mistakes(changed(IN_PLACE, *changes))
    assert (code, text) in [(s.code, s.text) for s in said if told in s.message], [
        f"{s.code} {s.text}: {s.message}" for s in said
    ]


def test_keep_is_for_a_tile_of_several_pipes() -> None:
    said = only(mistakes(changed(GEMM, ("a <- A[m, k]", "keep a"))))
    assert (said.code, said.text) == ("TK106", "keep a")


def test_a_put_that_hands_on_a_slot_has_one_item_for_each() -> None:
    """Two gets for each put: their slots are not the same."""
    text = changed(
        IN_PLACE,
        ("put loaded: x <- A[m, k]", "put loaded: x <- A[m, k]\n                put loaded: x <- A[m, k]"),
        (BLOCK, f"{BLOCK}\n                get loaded: v = read(x)"),
    )  # fmt: skip
    said = only(mistakes(text))
    assert (said.code, said.text) == ("TK109", "get loaded, put done")
    assert "each of role scale's gets of loaded holds one put of done" in said.message


@pytest.mark.parametrize(
    ("tile", "code", "told"),
    [
        ("tile[f32, 128, 128] * 2 in x", "TK104", "a slot of y takes 65536 bytes, and a slot of x, in whose place it would lie, has 16384"),
        ("tile[f32, 128, 128] in x", "TK104", "y takes 65536 bytes, and x, in whose place it would lie, has 32768"),
        ("tile[bf16, 128, 32] * 2 in z", "TK102", "no shared tile or accumulator `z`"),
        ("tile[bf16, 128, 32] * 2 in A", "TK106", "a shared tile lies in the place of another, not of the tensor A"),
    ],
)  # fmt: skip
def test_where_a_tile_may_lie(tile: str, code: str, told: str) -> None:
    said = mistakes(
        changed(IN_PLACE, ("    pipe loaded", f"    shared y: {tile}\n    pipe loaded"))
    )
    assert [s.code for s in said if told in s.message] == [code], [s.message for s in said]


def test_where_an_accumulator_may_lie() -> None:
    wrong = changed(
        GEMM, ("    pipe inputs", "    accum e: tile[bf16, BM, BN] in d\n    pipe inputs")
    )
    assert only(mistakes(wrong)).message.startswith(
        "not supported yet: a tile of bf16 in the place of an accumulator"
    )
    wide = changed(
        GEMM, ("    pipe inputs", "    accum e: tile[f32, BM, 2 * BN] * 2 in d\n    pipe inputs")
    )
    assert "takes 512 columns, and a slot of d" in only(mistakes(wide)).message


TWICE = [
    # (changes, the two blocks): another reader of what is changed in place
    ([("load -> scale", "load -> scale, look"), ("    role store", "    role look, warps 4:\n        for m in work:\n            for k in blocks(N, 32):\n                get loaded: v = row_sum(read(x))\n    role store")],
     ("`put done` of role scale", "`get loaded` of role look")),
    # two loaders of one tile, each for itself
    ([("    role load", "    pipe more(x): second -> store\n    role second:\n        for m in work:\n            for k in blocks(N, 32):\n                put more: x <- A[m, k]\n    role load"),
      ("get done: C[m, k] <- x", "get done: C[m, k] <- x\n                get more: C[m, k] <- x")],
     ("`put more` of role second", "`put loaded` of role load")),
    # a tile in the place of one that is loaded meanwhile
    ([("    pipe loaded", "    shared y: tile[f32, 128, 32] in x\n    pipe loaded"), ("pipe done(x)", "pipe done(y)"),
      (BLOCK, "get loaded: v = read(x)\n                put done: y <- v * 2"), ("C[m, k] <- x", "C[m, k] <- y")],
     ("`put loaded` of role load", "`put done` of role scale")),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "blocks"), TWICE)
def test_two_blocks_that_own_a_slot_at_once_are_named(
    changes: list[tuple[str, str]], blocks: tuple[str, str]
) -> None:
    with pytest.raises(TkcError) as raised:
        tkc.compile(changed(IN_PLACE, *changes), target="sm_90a")
    found = [d for d in raised.value.diagnostics if all(b in d.message for b in blocks)]
    assert found
    assert {d.code for d in raised.value.diagnostics} == {"TK326"}
    assert found[0].location is not None
    assert found[0].notes[0].location is not None
