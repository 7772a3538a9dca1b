"""The language's rules, R1 to R24 and what always holds: of each a program that keeps it, and what breaking it is told.

R25, block scales, has files of its own. What numbers come out is for `lit_tests/run` and the emulator's tests.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from programs import EXAMPLES, GEMM, SUMS, Said, changed, compiled, elementwise, mistakes
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import tkc
from tkc.diagnostics import TkcError
from tkc.ir.stage import ops as s
from tkc.ir.tile import ops as t

RULES = [*(f"R{n}" for n in range(1, 25)), "always"]

LOADS = "            for j in blocks(N, 32):\n                put p: x <- X[m, j]\n"
GETS = (
    "            for j in blocks(N, 32):\n                get p: total = total + row_sum(read(x))\n"
)


def operations(module: ModuleOp, kind: type[Any], role: str = "") -> list[Any]:
    """All operations of a class, or those of one role."""
    roles = [
        o for o in module.walk() if isinstance(o, t.RoleOp | s.RoleOp) and o.sym_name.data == role
    ]
    return [o for top in (roles or [module]) for o in top.walk() if isinstance(o, kind)]


@cache
def after(name: str, target: str, text: str = GEMM, **params: int) -> ModuleOp:
    return tkc.compile(text, target=target, params=params).module(name)


def told(text: str, code: str, *words: str) -> Said:
    """The finding of a code that has the words in it."""
    said = mistakes(text)
    found = [x for x in said if x.code == code and all(w in x.message for w in words)]
    assert found, [f"{x.code} {x.message}" for x in said]
    return found[0]


def refused(text: str, code: str, *words: str, target: str = "sm_90a", **params: int) -> None:
    """A pass refuses the program, at its place."""
    compiled(text, params=params)
    with pytest.raises(TkcError) as caught:
        tkc.compile(text, target=target, params=params)
    found = [d for d in caught.value.diagnostics if d.code == code and d.location is not None]
    assert any(all(w in d.message for w in words) for d in found), caught.value


def test_every_rule_is_kept_and_broken() -> None:
    here = Path(__file__)
    files = [here, here.with_name("test_masks.py"), here.with_name("test_spans.py")]
    texts = "".join(f.read_text(encoding="utf-8") for f in files)
    named = re.findall(r"^def test_(R\d+|always)_(\w+?)_", texts, re.MULTILINE)
    assert {rule for rule, does in named if does == "allows"} == set(RULES)
    assert {rule for rule, does in named if does == "refuses"} == set(RULES)


# Pipes ---------------------------------------------------------------------------------------------------------------


def test_R1_allows_several_puts_that_count_on() -> None:
    """Two puts of one item each: the ring has one slot and one phase through the whole loop, never set back."""
    twice = changed(SUMS, (LOADS, LOADS + LOADS), (GETS, GETS + GETS))
    (work, *inner) = operations(after("lower-pipes", "sm_90a", twice), s.ForOp, "load")
    assert len(work.inits) == 2
    assert [len(loop.inits) for loop in inner] == [2, 2]
    assert inner[1].inits[0].owner is inner[0]


def test_R1_refuses_tiles_of_different_depth() -> None:
    text = changed(
        GEMM, ("shared b: tile[bf16, BN, BK] * STAGES", "shared b: tile[bf16, BN, BK] * 2")
    )
    told(text, "TK104", "differ in slots: a * 4, b * 2")


def test_R2_allows_reading_what_is_owned() -> None:
    text = changed(GEMM, ("bf16(read(d))", "bf16(read(d) + 2 * read(d))"))
    assert len(operations(compiled(text), t.ReadOp)) == 2


def test_R2_refuses_a_tile_outside_its_blocks() -> None:
    text = changed(SUMS, (GETS, f"{GETS}            z = read(x)\n"))
    said = told(text, "TK108", "`x` is used outside its put or get")
    assert said.text == "x"
    alias = "    shared y: tile[f32, 128, 64] * 2 in x\n    pipe p"
    told(changed(SUMS, ("    pipe p", alias)), "TK104", "in whose place it would lie")


def test_R3_allows_a_ring_of_one() -> None:
    """The products of a get are waited for before its only slot is given back."""
    module = after("lower-pipes", "sm_90a", GEMM, STAGES=1)
    loop = operations(module, s.MmaOp)[0].parent_op()
    kinds = [
        type(o) for o in loop.walk() if isinstance(o, s.MmaOp | s.MmaWaitOp | s.MbarrierArriveOp)
    ]
    assert kinds == [s.MmaOp, s.MmaWaitOp, s.MbarrierArriveOp]
    (wait,) = (o for o in loop.walk() if isinstance(o, s.MmaWaitOp))
    assert wait.pending.value.data == 0


def test_R3_refuses_to_read_behind_the_release() -> None:
    text = changed(SUMS, ("            for j in blocks(N, 32):\n                get p: total = total + row_sum(read(x))",
                          "            for j in blocks(N, 32):\n                get p: last = j.index\n                total = total + row_sum(read(x))"))  # fmt: skip
    told(text, "TK108", "`x` is used outside its put or get")


def test_R4_allows_as_many_arrivals_as_there_are_warps() -> None:
    """Of the warps that read, each; of the copy engine's thread, one, which announces the bytes."""
    barriers = operations(after("lower-pipes", "sm_90a", SUMS), s.BarriersOp)
    counts = {b.sym_name.data: b.count.value.data for b in barriers}
    assert counts == {"p.full": 1, "p.empty": 4}


def test_R4_counts_gets_that_arrive_differently() -> None:
    """Read by threads in one get, stored by the copy engine in the other: each arrives in both ways."""
    both = changed(
        elementwise("Z[m, n] <- read(y) + f32(read(x))"),
        ("                y <- Y[m, n]\n", "                y <- Y[m, n]\n            put p:\n                x <- X[m, n]\n                y <- Y[m, n]\n"),
    )  # fmt: skip
    module = after(
        "lower-pipes", "sm_90a", both + "            get p:\n                W[m, n] <- x\n"
    )
    counts = {b.sym_name.data: b.count.value.data for b in operations(module, s.BarriersOp)}
    assert counts == {"p.full": 1, "p.empty": 4 + 1}


def test_R4_refuses_roles_by_turns_that_arrive_differently() -> None:
    """A slot is for one of them at a time, and its phase counts as many arrivals each time."""
    by_turns = changed(
        SUMS,
        ("load -> math", "load -> math, other by turns"),
        ("    role math", "    role other, warps 8:\n        for m in work:\n            for j in blocks(N, 32):\n                get p: z = 1\n    role math"),
    )  # fmt: skip
    refused(by_turns, "TK110", "by different numbers of arrivals")


def test_R5_allows_several_consumers() -> None:
    text = changed(
        SUMS,
        ("load -> math", "load -> math, other"),
        ("    role math", "    role other:\n        for m in work:\n            for j in blocks(N, 32):\n                get p: z = 1\n    role math"),
    )  # fmt: skip
    (pipe,) = operations(compiled(text), t.PipeOp)
    assert [c.data for c in pipe.consumers] == ["math", "other"]


def test_R5_refuses_a_consumer_that_does_not_get() -> None:
    text = changed(
        SUMS,
        ("load -> math", "load -> math, other"),
        ("    role math", "    role other: z = 1\n    role math"),
    )
    told(text, "TK109", "role other never gets pipe p")


WHILES = changed(
    SUMS,
    (LOADS, "            for j in blocks(N, 32):\n                i = 0\n                while i < n:\n"
            "                    put p: x <- X[m, j]\n                    i = i + 2\n"),
    (GETS, "            for j in blocks(N, 32):\n                at = 0\n                while at < n:\n"
           "                    at = at + 2\n                    get p: total = total + row_sum(read(x))\n"),
)  # fmt: skip
"""As many items for each block as a variable takes steps to an argument."""


def test_R6_allows_conditions_that_all_roles_evaluate() -> None:
    compiled(WHILES)
    text = changed(
        SUMS,
        ("                put p", "                if j.index < n: put p"),
        ("                get p", "                if j.index < n: get p"),
    )
    assert len(operations(compiled(text), s.IfOp)) == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at = at + 2", "at = at + 1", "roles load and math disagree"),
        ("while at < n", "while at <= n", "roles load and math disagree"),
        ("at = 0", "at = 1", "roles load and math disagree"),
        (
            "at = at + 2",
            "at = at + lane",
            "in a loop whose turns depend on `at`, which the other roles cannot know",
        ),
        ("at = 0", "at = lane", "in a loop whose condition the other roles cannot know"),
    ],
)
def test_R6_refuses_what_the_other_role_cannot_evaluate(old: str, new: str, words: str) -> None:
    told(changed(WHILES, (old, new)), "TK109", words)


def test_R7_allows_an_item_without_products() -> None:
    """Whoever reads the sum evaluates whether there was a product."""
    reads = operations(after("place-tiles", "sm_100a"), s.ReadAccumulatorOp)
    assert reads
    assert all(r.nonzero is not None for r in reads)


def test_R7_refuses_an_item_that_nobody_may_write() -> None:
    told(changed(SUMS, ("put p: x <- X[m, j]", "put p: z = 1")), "TK114", "never writes `x`")
    told(
        changed(GEMM, ("                d = 0\n                for k", "                for k")),
        "TK114",
        "`d = 0`",
    )


EXITS = changed(
    SUMS,
    (LOADS, f"            if m.index == 2: continue\n            if m.index > n: break\n{LOADS}"),
    (
        "            total",
        "            if m.index == 2: continue\n            if m.index > n: break\n            total",
    ),
)


def test_R8_allows_break_and_continue_on_agreed_conditions() -> None:
    module = compiled(EXITS)
    assert len(operations(module, s.IfOp, "load")) == len(operations(module, s.IfOp, "math")) == 4


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("m.index > n: break\n            total", "m.index >= n: break\n            total", "TK109", "load puts them by `m.index > n`"),
        ("m.index > n: break\n            total", "lane > n: break\n            total", "TK109", "that the other roles cannot know"),
        ("            if m.index == 2: continue\n            if m.index > n: break\n            total", "            total", "TK109", "disagree"),
        ("            Y[m] <- total\n", "            Y[m] <- total\n            return m\n", "TK101", "a role runs to its end"),
        ("get p: total = total + row_sum(read(x))", "elect: break", "TK110", "`break` inside an election"),
        ("total = total + row_sum(read(x))", "break", "TK109", "disagree"),
        ("            Y[m] <- total\n", "            Y[m] <- total\n        break\n", "TK101", "`break` stands in a loop"),
        ("if m.index == 2: continue", "continue", "TK101", "nothing behind `continue` runs"),
    ],
)  # fmt: skip
def test_R8_refuses_other_ways_out(old: str, new: str, code: str, words: str) -> None:
    told(changed(EXITS, (old, new)), code, words)


@pytest.mark.parametrize("word", ["break", "continue"])
def test_R8_allows_leaving_from_inside_a_block(word: str) -> None:
    """The block ends, and gives its slot back, before the loop or its turn is left."""
    text = changed(
        SUMS,
        ("put p: x <- X[m, j]", f"put p:\n                    x <- X[m, j]\n                    if j.index > n: {word}\n                put p: x <- X[m, j]"),
        ("get p: total = total + row_sum(read(x))", f"get p:\n                    total = total + row_sum(read(x))\n                    if j.index > n: {word}\n                get p: z = 1"),
    )  # fmt: skip
    assert len(operations(compiled(text), t.PutOp)) == len(operations(compiled(text), t.GetOp)) == 2
    other = changed(
        text,
        (f"j.index > n: {word}\n                get", f"j.index >= n: {word}\n                get"),
    )
    told(other, "TK109", "j.index > n")


def test_R8_refuses_leaving_from_inside_a_turn() -> None:
    text = changed(
        SUMS,
        ("load -> math", "load -> math, other by turns"),
        ("    role math", "    role other, warps 4:\n        for m in work:\n            for j in blocks(N, 32):\n                get p: z = 1\n    role math"),
        ("total = total + row_sum(read(x))", "break"),
    )  # fmt: skip
    told(text, "TK110", "`break` inside a get of pipe p, which goes by turns")


def test_R9_allows_two_items_of_one_pipe() -> None:
    two = changed(SUMS, ("put p: x <- X[m, j]", "put p: x <- X[m, j]\n                put p: x <- X[m, j]"),
                  ("get p: total = total + row_sum(read(x))", "get p as a, p as b: total = total + row_sum(read(a) * read(b))"))  # fmt: skip
    waits = operations(after("place-tiles", "sm_90a", two), s.WaitOp)
    assert len(waits) == 2


def test_R9_refuses_more_items_than_slots() -> None:
    text = changed(SUMS, ("put p: x <- X[m, j]", "put p: x <- X[m, j]\n                put p: x <- X[m, j]"),
                   ("get p: total = total + row_sum(read(x))", "get p as a, p as b: total = total + row_sum(read(a) * read(b))"),
                   ("* 2\n", "* 1\n"))  # fmt: skip
    told(text, "TK314")
    told(changed(GEMM, ("blocks(K, BK):\n                    get", "blocks(K, BK), ahead = inputs:\n                    get")),
         "TK102", "puts no item of pipe inputs")  # fmt: skip


def test_R10_allows_register_values_to_outlive_a_block() -> None:
    text = changed(
        GEMM,
        (
            "                C[m, n] <- bf16(read(d))",
            "                x = read(d)\n            C[m, n] <- bf16(x)",
        ),
    )
    (get,) = (o for o in operations(compiled(text), t.GetOp) if o.values)
    assert len(get.values) == 1


def test_R10_refuses_an_accumulator_that_does() -> None:
    text = changed(
        GEMM,
        (
            "                C[m, n] <- bf16(read(d))",
            "                x = 1\n            C[m, n] <- bf16(read(d))",
        ),
    )
    told(text, "TK108", "`d` is used outside its put or get")


# Accumulators and targets --------------------------------------------------------------------------------------------


def test_R11_allows_a_sum_that_begins_at_0() -> None:
    assert len(operations(compiled(GEMM), t.ZeroOp)) == 1


def test_R11_refuses_a_sum_that_goes_on_from_another_item() -> None:
    told(
        changed(GEMM, ("                d = 0\n", "")),
        "TK114",
        "the slot holds an earlier item's sum",
    )


def test_R11_allows_registers_to_be_written_to_an_accumulator() -> None:
    """`tests/emulator/test_written_accumulators.py` has what comes of it."""
    assert not operations(compiled(changed(GEMM, ("d = 0", "d = 1"))), t.ZeroOp)


def test_R12_allows_a_target_to_use_less_depth() -> None:
    """Two slots of tensor memory; one in registers."""
    depths = {
        target: next(
            o.buffer.type.depth.data
            for o in operations(after("place-tiles", target), s.BufferOp)
            if o.sym_name.data == "d"
        )
        for target in ("sm_90a", "sm_100a")
    }
    assert depths == {"sm_90a": 1, "sm_100a": 2}


def test_R12_refuses_accumulators_that_do_not_fit_once() -> None:
    text = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
    refused(text, "TK205", "1024 columns", target="sm_100a", BM=256, BN=256, STAGES=1)


def test_R13_allows_two_accumulators_of_one_get() -> None:
    """One commit gives the shared slot back, after both products."""
    text = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
    module = after("lower-pipes", "sm_100a", text)
    loop: Operation = operations(module, s.MmaOp)[0].parent_op()
    kinds = [type(o) for o in loop.walk() if isinstance(o, s.MmaOp | s.Tcgen05CommitOp)]
    assert kinds == [s.MmaOp, s.MmaOp, s.Tcgen05CommitOp]


def test_R13_refuses_a_product_that_does_not_fit_one_of_them() -> None:
    text = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
    told(changed(text, ("d1 += a1 @ b.T", "d1 += a1.T @ a0")), "TK104", "accumulator d1 is")


def test_R14_allows_roles_of_one_schedule_to_become_one() -> None:
    roles = {
        x: [r.sym_name.data for r in operations(after("fuse-roles", x), s.RoleOp)]
        for x in ("sm_90a", "sm_100a")
    }
    assert sorted(roles["sm_90a"]) == ["load", "math"]
    assert sorted(roles["sm_100a"]) == ["load", "math", "store"]


def test_R14_refuses_loops_that_cannot_be_one() -> None:
    twice = changed(
        GEMM,
        ("            put result:\n                d = 0\n                for k in blocks(K, BK):\n                    get inputs:\n                        d += a @ b.T",
         "            for i in range(2):\n                put result:\n                    d = 0\n                    for k in blocks(K, BK):\n                        get inputs:\n                            d += a @ b.T"),
        ("            for k in blocks(K, BK):\n                put inputs:\n                    a <- A[m, k]\n                    b <- B[n, k]",
         "            for i in range(2):\n                for k in blocks(K, BK):\n                    put inputs:\n                        a <- A[m, k]\n                        b <- B[n, k]"),
        ("            get result:\n                C", "            for i in range(1):\n             get result:\n                C"),
    )  # fmt: skip
    told(twice, "TK109", "disagree about the items of pipe result", "range(1)")


CLUSTER = changed(
    GEMM,
    ("launch persistent", "launch persistent, cluster(2)"),
    ("b <- B[n, k]", "b <- B[n, k], multicast"),
)


def test_R15_allows_multicast_of_what_is_the_same_in_all() -> None:
    """Each CTA loads its half of B for both, and waits until both have read the slot."""
    module = after("lower-pipes", "sm_90a", CLUSTER, BN=128)
    loads = operations(module, s.TmaLoadOp)
    assert [x.multicast is not None for x in loads] == [False, True]
    counts = {b.sym_name.data: b.count.value.data for b in operations(module, s.BarriersOp)}
    alone = operations(after("lower-pipes", "sm_90a", GEMM, BN=128), s.BarriersOp)
    assert counts["inputs.empty"] == 2 * next(
        b.count.value.data for b in alone if b.sym_name.data == "inputs.empty"
    )


def test_R15_refuses_multicast_of_what_differs() -> None:
    text = changed(CLUSTER, ("a <- A[m, k]", "a <- A[m, k], multicast"))
    refused(text, "TK109", "block m differs between the CTAs of the cluster", BN=128)


def test_R16_allows_warps_that_fit_what_a_role_does() -> None:
    warps = {
        r.sym_name.data: r.warps.value.data
        for r in operations(after("place-tiles", "sm_100a"), s.RoleOp)
    }
    assert warps == {"load": 1, "math": 1, "store": 4}


def test_R16_refuses_other_warps_and_registers() -> None:
    refused(
        changed(GEMM, ("role store:", "role store, warps 3:")),
        "TK208",
        "asks for 3 warps",
        target="sm_100a",
    )
    refused(
        changed(GEMM, ("role store:", "role store, registers 260:")),
        "TK206",
        "260",
        target="sm_100a",
    )


# Coordinates, schedules, shapes --------------------------------------------------------------------------------------


def test_R17_allows_blocks_and_parts_of_them() -> None:
    text = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
    shapes = {str(o.slice.type) for o in operations(compiled(text), t.SliceOp, "load")}
    assert shapes == {"!tile.slice<bf16, [128, 64]>"}


def test_R17_refuses_a_block_on_another_axis() -> None:
    told(
        changed(GEMM, ("A[m, k]", "A[k, m]")),
        "TK104",
        "block k runs over K, and axis 0 of A has the extent M",
    )
    told(
        changed(GEMM, ("A[m, k]", "A[m.part(0, 2), k]")),
        "TK104",
        "`A[m.part(0, 2), k]` is [64, 64]",
    )


def test_R18_allows_floor_and_ceiling() -> None:
    text = changed(SUMS, ("    launch", "    assert cdiv(N, 2) + N // 2 == N\n    launch"))
    (kernel,) = operations(compiled(text), t.KernelOp)
    assert kernel.requires is not None


def test_R18_refuses_a_quotient_of_sizes() -> None:
    told(
        changed(GEMM, ("blocks(K, BK)", "blocks(K / 2, BK)")),
        "TK106",
        "`//` floors and `cdiv(K, 2)` rounds up",
    )


def test_R19_allows_one_sequence_for_all_roles() -> None:
    loops = operations(compiled(GEMM), t.ForTilesOp)
    assert len({loop.work for loop in loops}) == 1
    assert len(loops) == 3


def test_R20_allows_operands_of_either_majorness() -> None:
    text = changed(GEMM, ("B: global[bf16, N, K]", "B: global[bf16, K, N]"),
                   ("tile[bf16, BN, BK]", "tile[bf16, BK, BN]"), ("B[n, k]", "B[k, n]"), ("b.T", "b"))  # fmt: skip
    (product,) = operations(compiled(text), t.MmaOp)
    assert product.trans_b.value.data == 0


def test_R20_refuses_axes_that_do_not_contract() -> None:
    told(
        changed(GEMM, ("a @ b.T", "a @ b")),
        "TK104",
        "`@` contracts the last axis of [128, 64] with the first of [256, 64]",
    )


def test_R20_refuses_what_the_hardware_has_no_form_for() -> None:
    """wgmma transposes 16-bit types only."""
    text = changed(GEMM, ("A: global[bf16, M, K], B: global[bf16, N, K]", "A: global[e4m3, M, K], B: global[e4m3, K, N]"),
                   ("tile[bf16, BM, BK]", "tile[e4m3, BM, BK]"), ("tile[bf16, BN, BK]", "tile[e4m3, BK, BN]"),
                   ("B[n, k]", "B[k, n]"), ("b.T", "b"))  # fmt: skip
    refused(text, "TK115", "not contiguous along the contracted axis")


def test_R21_allows_an_integer_to_drop_an_axis() -> None:
    text = changed(
        SUMS, ("X: global[f32, M, N]", "X: global[f32, 3, M, N]"), ("X[m, j]", "X[2, m, j]")
    )
    (slice,) = operations(compiled(text), t.SliceOp, "load")
    assert str(slice.slice.type) == "!tile.slice<f32, [128, 32]>"


def test_R21_refuses_more_axes_than_tma_has() -> None:
    told(changed(GEMM, ("A[m, k]", "A[0, m, k]")), "TK116", "A has 2 axes and is given 3 indices")
    told(
        changed(
            SUMS,
            ("X: global[f32, M, N]", "X: global[f32, 2, 2, 2, 2, M, N]"),
            ("X[m, j]", "X[0, 0, 0, 0, m, j]"),
        ),
        "TK110",
        "a tensor of 6 axes",
    )


def test_R22_allows_a_store_in_slices() -> None:
    """Drained, free, filled, fenced, filled by all, sent by one, closed: in this order for each slice."""
    kinds = (s.BulkWaitOp, s.RoleBarrierOp, s.StoreSharedOp, s.TmaStoreOp, s.BulkCommitOp)
    module = after("lower-pipes", "sm_100a")
    found = [
        type(o).__name__
        for o in operations(module, s.RoleOp, "store")[0].walk()
        if isinstance(o, kinds)
    ]
    one = [
        "BulkWaitOp",
        "RoleBarrierOp",
        "StoreSharedOp",
        "RoleBarrierOp",
        "TmaStoreOp",
        "BulkCommitOp",
    ]
    assert found[: len(one)] == one
    assert found[-1] == "BulkWaitOp"


@pytest.mark.parametrize(("written", "meant"), [("f64", "f32"), ("double", "f32"), ("u64", "i64")])
def test_a_dtype_that_there_is_not_names_the_widest_of_its_kind(written: str, meant: str) -> None:
    told(
        changed(GEMM, ("C: global[bf16", f"C: global[{written}")),
        "TK105",
        f"did you mean `{meant}`",
    )


def test_R22_refuses_a_store_of_another_dtype() -> None:
    said = told(changed(GEMM, ("bf16(read(d))", "read(d)")), "TK105", "a copy keeps the dtype")
    assert str(said.diagnostic.fix) == "bf16(read(d))"


def test_R23_allows_a_variable_to_go_round() -> None:
    loops = operations(compiled(SUMS), t.ForBlocksOp, "math")
    assert [len(loop.carried) for loop in loops] == [1]


def test_R23_refuses_a_variable_that_changes_its_type() -> None:
    text = changed(
        SUMS,
        ("total = total + row_sum(read(x))", "total = read(x)"),
        ("full(0)", "full(0) + column(read(Y[m]))"),
    )
    told(text, "TK104", "a value that a loop carries keeps its type")
    told(changed(SUMS, ("            total = full(0)\n", "")), "TK102", "total")


# Always --------------------------------------------------------------------------------------------------------------


def test_always_allows_what_fits() -> None:
    kernel = tkc.compile(GEMM, target="sm_90a")
    assert kernel.contract["shared_bytes"] <= 232448


def test_always_refuses_what_does_not_with_what_would() -> None:
    refused(
        GEMM,
        "TK204",
        "475288 bytes",
        "232448",
        "4 slots of a and b instead of 9 would fit",
        STAGES=9,
    )


def test_always_refuses_each_mistake_once() -> None:
    """Three mistakes in three statements, and no consequence of any of them."""
    text = changed(
        GEMM, ("a <- A[m, k]", "a <- A[k, m]"), ("b.T", "b"), ("bf16(read(d))", "read(e)")
    )
    assert [x.code for x in mistakes(text)] == ["TK104", "TK104", "TK102"]
