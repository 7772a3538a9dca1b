"""Explicit synchronisation: what is refused and how, what is emitted, and which variables flow where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import EXAMPLES, GEMM, changed, compiled, elementwise, mistakes, only
from xdsl.dialects.builtin import ModuleOp

import tkc
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import FenceOp, NamedBarrierOp, RegistersOp, TryWaitOp, WhileOp
from tkc.ir.tile.explicit import PartAtOp, ReadColumnsOp, RestartOp, SlotOp, TmaLoadOp
from tkc.ir.tile.ops import ForTilesOp

LEVEL2 = (EXAMPLES / "gemm_bf16_level2.tk").read_text(encoding="utf-8")

COPY = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], e: global[tf32, M, N], n: i32,
       u: global[u32, M], l: global[i64, M]):
    param BM = 64, BN = 64
    launch persistent
    schedule work: m, n0 in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[bf16, BM, BN] * 2
    shared v: vector[f32, 8]
    shared w: vector[i32, 8]
    barrier full * 2, count = 1
    barrier one, count = 1
    role all:
        i = 0
        for m, n0 in work:
            elect:
                expect full[i], bytes(x)
                load x[i] <- X[m, n0], full[i]
            wait full[i], 0
            LINE
            i = i ^ 1
"""


def with_line(*lines: str) -> str:
    return changed(COPY, ("            LINE\n", "".join(f"            {x}\n" for x in lines)))


def operations(module: ModuleOp, kind: type) -> list:  # type: ignore[type-arg]
    return [op for op in module.walk() if isinstance(op, kind)]


CASES = [
    # places
    ("load x[2] <- X[m, n0], full[i]", "TK104", "2", "slot 2 lies outside the shared tile x"),
    ("load x <- X[m, n0], full[i]", "TK116", "x", "`x[slot]` is one"),
    ("load x[i] <- X[m, n0], full", "TK116", "full", "are 2 barriers"),
    ("load x[i] <- X[m, n0], x[i]", "TK106", "x[i]", "expected a barrier such as `full[slot]`"),
    ("load x[i] <- X[m, n0]", "TK101", "load x[i] <- X[m, n0]", "with the barrier"),
    ("load x[i] <- x[0], full[i]", "TK106", "x[0]", "`load` copies a slice of a tensor"),
    ("load x[m] <- X[m, n0], full[i]", "TK106", "m", "a slot's number, not the block m"),
    ("load x[i] <- X[m, n0.part(0, 2)], one", "TK104", "x[i] <- X[m, n0.part(0, 2)]", "the shape"),
    ("load x[i] <- X[m, n0.part(0, 3)], one", "TK117", "n0.part(0, 3)", "no 3 equal parts"),
    ("load x[i] <- X[m, n0.part(2, 2)], one", "TK117", "n0.part(2, 2)", "no part 2 of 2"),
    ("x[i] <- X[m, n0]", "TK106", "x[i] <- X[m, n0]", "`load x[i] <- X[m, n0], full[slot]`"),
    ("Y[m, n0] <- x[i]", "TK106", "Y[m, n0] <- x[i]", "`store Y[m, n0] <- x[i]`"),
    ("store x[i] <- Y[m, n0]", "TK106", "x[i]", "`store` copies to a slice"),
    ("store Y[m, n0] <- x[i], full[i]", "TK102", "full[i]", "no such option"),
    ("load x[i] <- X[m, n0], one, evict", "TK102", "evict", "options are `evict_first`"),
    ("store Y[m, n0] -= x[i]", "TK101", "store Y[m, n0] -= x[i]", "or `+=`"),
    # commands
    ("wait full[i]", "TK101", "wait full[i]", "`wait full[slot], phase`"),
    ("wait full[i], 0, relaxd", "TK102", "relaxd", "options are `relaxed` and `cluster`"),
    ("wait stores < 1", "TK101", "wait stores < 1", "`wait stores <= 1`"),
    ("wait products <= 1, read", "TK102", "read", "no options"),
    (
        "load x[i][0, 0] <- X[0, 0], 2",
        "TK117",
        "2",
        "copies `4`, `8` and `16` bytes at once, not 2",
    ),
    (
        "load x[i][0, 0] <- X[m, 0], 16",
        "TK106",
        "x[i][0, 0] <- X[m, 0]",
        "an element of a shared tile, one of a tensor",
    ),
    (
        "load x[i][0, 0] <- X[0, 0], full[i]",
        "TK106",
        "full[i]",
        "the bytes that a thread copies is an integer",
    ),
    ("load v[0][0] <- X[0, 0], 4", "TK105", "v[0][0] <- X[0, 0]", "an element of X, bf16"),
    (
        "arrive full[i], copies, each = warp",
        "TK102",
        "each",
        "options are `copies` and `uncounted`",
    ),
    ("p = try_wait(full[i])", "TK116", "try_wait(full[i])", "`try_wait(full[slot], phase)`"),
    ("p = try_wait(full, 0)", "TK116", "full", "full are 2 barriers"),
    ("p = try_wait(x[i], 0)", "TK106", "x[i]", "expected a barrier"),
    ("p = try_wait(one, 0, cta)", "TK102", "cta", "takes `relaxed` and `cluster`"),
    ("p = try_wait(one, 1.5)", "TK106", "1.5", "expected a phase"),
    ("wait fll[i], 0", "TK102", "fll", "did you mean the barrier `full`"),
    ("arrive full[i], each = lane", "TK101", "arrive full[i], each = lane", "each = warp"),
    ("expect full[i]", "TK101", "expect full[i]", "`expect full[slot], bytes(a, b)`"),
    ("expect full[i], 1 << 20", "TK209", "1 << 20", "not 1048576"),
    ("expect full[i], 2_000_000", "TK209", "2_000_000", "up to 1048575 bytes"),
    ("expect full[i], bytes(X)", "TK106", "X", "`bytes` is of shared tiles"),
    ("commit stors", "TK102", "stors", "unknown name"),
    ("commit full[i], read", "TK102", "read", "options are `reads` and `multicast = ...`"),
    ("fence proxy regs", "TK102", "fence proxy regs", "`fence proxy` takes"),
    ("fence tcgen05", "TK102", "fence tcgen05", "fences are"),
    ("sync 16, 128", "TK209", "16", "named barriers are 1 to 15"),
    ("sync 3, 100", "TK117", "100", "a multiple of 32"),
    ("sync grid", "TK101", "sync grid", "is written"),
    ("registers inc 100", "TK206", "inc 100", "a multiple of 8 from 24 to 256"),
    ("registers up 104", "TK101", "registers up 104", "`registers inc 232`"),
    ("mma x[i] += x[i] @ x[i].T", "TK106", "x[i]", "adds to an accumulator"),
    ("wate full[i], 0", "TK101", "wate", "did you mean `wait`"),
    # clusters, grids, options
    (
        "arrive full[i], at = 1",
        "TK106",
        "1",
        "`at` is of the CTAs of a cluster: `launch cluster(n)`",
    ),
    ("load x[i] <- X[m, n0], one, multicast = 3", "TK106", "3", "`multicast` is of the CTAs"),
    ("sync cluster", "TK106", "sync cluster", "`sync cluster` is of the CTAs"),
    ("arrive cluster, relaxed", "TK106", "arrive cluster, relaxed", "`arrive cluster` is of"),
    ("arrive full[i], cta", "TK102", "cta", "options are `relaxed`, `cluster`, `each = ...` and"),
    ("wait pdl, read", "TK102", "read", "no options"),
    ("arrive 3", "TK101", "arrive 3", "a barrier, and the threads"),
    ("arrive 3, 100", "TK117", "100", "a multiple of 32"),
    ("elect: sync cluster", "TK121", "sync cluster", "the other threads never reach it"),
    ("prefetch x[i]", "TK106", "x[i]", "of a slice of a tensor, not of a slot of x"),
    ("prefetch X[m, n0], bulk", "TK102", "bulk", "options are `evict_first`"),
    (
        "load x[i] <- X[m, n0], one, bulk",
        "TK106",
        "load x[i] <- X[m, n0], one, bulk",
        "of a vector",
    ),
    ("store Y[m, n0] <- x[i], min, max", "TK116", "store Y[m, n0] <- x[i], min, max", "in one way"),
    ("store Y[m, n0] += x[i], min", "TK116", "store Y[m, n0] += x[i], min", "in one way"),
    ("copy x[i] <- x[0], one, at = 1", "TK106", "1", "`at` is of the CTAs of a cluster"),
    ("mma x[i] += x[i] @ x[i].T, i == 0, pare", "TK106", "x[i]", "adds to an accumulator"),
    # single elements
    ("j = read(x[i][0])", "TK116", "x[i][0]", "has 2 axes, and its element as many indices, not 1"),
    ("j = read(x[i][0, 64])", "TK104", "64", "element 64 lies outside axis 1 of x, which has 64"),
    ("j = read(e[0, 0])", "TK110", "e[0, 0]", "an element of tf32 as a number"),
    (
        "q = atomic_add(x[i][0, 0], 1.0)",
        "TK105",
        "x[i][0, 0]",
        "is of `f32`, `i32`, `u32` and `i64`, not of bf16",
    ),
    ("j = read(X[read(l[0]), 0])", "TK106", "read(l[0])", "`i32(...)` makes it one"),
    (
        "j = read(u[0]) + read(l[0])",
        "TK105",
        "read(l[0])",
        "expected u32, not a number of i64: `u32(...)`",
    ),
    ("j = read(u[0]) + lane", "TK105", "lane", "expected u32, not the lane's number: `u32(...)`"),
    ("j = -read(u[0])", "TK105", "-read(u[0])", "u32 has no negative numbers"),
    ("j = read(u[0]) - (0 - 1)", "TK117", "(0 - 1)", "-1 is no u32"),
    ("j = read(u[0]) / 2", "TK106", "read(u[0]) / 2", "an operator of integers, not `/`"),
    ("j = read(l[0]) % 0", "TK117", "0", "divided by 0"),
    ("j = read(u[0]) << read(l[0])", "TK106", "read(l[0])", "`i32(...)` makes it one"),
    ("u[0] <- 1.5", "TK106", "1.5", "expected an integer of u32, not"),
    ("l[0] <- read(u[0])", "TK105", "read(u[0])", "expected i64, not a number of u32: `i64(...)`"),
    (
        "w[0][0] <- read(u[0])",
        "TK106",
        "read(u[0])",
        "not a number of u32: `i32(...)` makes it one",
    ),
    ("while read(l[0]): i = 0", "TK106", "read(l[0])", "expected a condition"),
    (
        "j = bf16(read(v[0][0]))",
        "TK110",
        "bf16(read(v[0][0]))",
        "what stores it as an element of bf16",
    ),
    ("v[0][8] <- 1", "TK104", "8", "element 8 lies outside v, which has 8"),
    (
        "v[0][0, 1] <- 1",
        "TK116",
        "v[0][0, 1]",
        "has 1 axis, and its element as many indices, not 2",
    ),
    ("v[0][m] <- 1", "TK106", "m", "an index, not the block m"),
    ("v[0][0] <- 1, acquire", "TK102", "acquire", "of `relaxed`, `release` and `volatile`"),
    ("v[0][0] <- 1, gpu", "TK116", "gpu", "a scope goes with an order"),
    ("f = read(v[0][0], relaxed, relaxed)", "TK102", "relaxed", "one order"),
    ("w[0][0] <- 0.5", "TK106", "0.5", "expected an integer, not the number 0.5"),
    (
        "atomic_min(v[0][0], 1)",
        "TK105",
        "v[0][0]",
        "`atomic_min` is of `i32`, `u32` and `i64`, not of f32",
    ),
    ("atomic_add(v[0], 1)", "TK106", "v[0]", "not of a slot of v: `v[slot][i]` is one"),
    ("atomic_cas(w[0][0], 1)", "TK116", "atomic_cas(w[0][0], 1)", "an element and 2 values"),
    ("atomic_add(w[0][0], 1, sc)", "TK102", "sc", "one order"),
    ("read(w[0][0])", "TK106", "read(w[0][0])", "is used for nothing"),
    # elections and conditions
    ("elect: sync warp", "TK121", "sync warp", "the other threads never reach it"),
    ("elect: registers dec 40", "TK121", "registers dec 40", "the other threads never reach it"),
    ("elect lanes: wait stores", "TK102", "elect lanes", "`elect warp:`"),
    ("elect: i = 1", "TK106", "i", "the other threads would keep its old value"),
    ("if i: wait stores", "TK106", "i", "expected a condition"),
    ("while i: wait stores", "TK106", "i", "expected a condition"),
    ("if i < m: wait stores", "TK106", "i < m", "a block's number is `.index`"),
    ("for j in range(4, 0, 0): wait stores", "TK117", "0", "a step is at least 1"),
    ("for j in unroll(100): wait stores", "TK117", "for j in unroll(100)", "at most 64"),
    (
        "for j in unroll(2000000000): wait stores",
        "TK117",
        "for j in unroll(2000000000)",
        "not 2000000000",
    ),
    ("for j, l in range(4): wait stores", "TK116", "j", "one variable"),
    # numbers of barriers, and of registers
    ("sync 3 + 13, 128", "TK209", "3 + 13", "named barriers are 1 to 15 (0 is `sync cta`), not 16"),
    ("arrive 2 * BM, 128", "TK209", "2 * BM", "named barriers are 1 to 15"),
    ("sync i, 128", "TK106", "i", "is an integer known at compile time, not an integer of the"),
    ("sync 1 + i, 128", "TK106", "1 + i", "is an integer known at compile time"),
    ("sync rol", "TK101", "sync rol", "`sync role`"),
    ("registers inc i", "TK106", "i", "is an integer known at compile time"),
    ("registers inc BM + 1", "TK101", "+", "unexpected `+`"),
    # slots and elements
    (
        "v[thread] <- 0.0",
        "TK106",
        "v[thread]",
        "each thread's own element of one is `v[0][thread]`",
    ),
    ("w[lane + 1] <- 0", "TK106", "w[lane + 1]", "`w[0][lane + 1]`"),
    (
        "load x[i] <- X[m, 0], one",
        "TK104",
        "x[i] <- X[m, 0]",
        "an integer as an index drops its axis",
    ),
    ("load x[i] <- X[0, 0], one", "TK104", "x[i] <- X[0, 0]", "the slice of X is one element"),
    # blocks by their numbers
    (
        "load x[i] <- X[blocks(N, BM)[i], n0], one",
        "TK104",
        "blocks(N, BM)[i]",
        "by its number runs over N",
    ),
    (
        "load x[i] <- X[blocks(M, 32)[i], n0], one",
        "TK104",
        "x[i] <- X[blocks(M, 32)[i], n0]",
        "[32, 64]",
    ),
    (
        "load x[i] <- X[blocks(M)[i], n0], one",
        "TK116",
        "blocks(M)[i]",
        "`blocks(extent, size)[number]`",
    ),
    (
        "load x[i] <- X[blocks(M, BM)[m], n0], one",
        "TK106",
        "m",
        "a block's number, not the block m",
    ),
    ("load x[i] <- X[blocks(M, i)[i], n0], one", "TK106", "i", "known at compile time"),
    ("j = blocks(M, BM)[i]", "TK106", "blocks(M, BM)[i]", "a block of M is no register value"),
    # what it is called elsewhere
    (
        "load x[i] <- X[m, n0], one, evict_frist",
        "TK102",
        "evict_frist",
        "did you mean `evict_first`",
    ),
    ("wait full[i] 0", "TK101", "0", "missing `,` before `0`"),
    (
        "wait(full[i], 0)",
        "TK101",
        "wait(full[i], 0)",
        "it is written `wait full[slot], phase`, without",
    ),
    ("mma d = x[0] @ x[0].T", "TK101", "=", "`mma d += a[slot] @ b[slot].T, keep`"),
    ("int j = 1", "TK101", "=", "a register value is set by `j = ...`"),
    ('print "x"', "TK101", '"x"', 'printed by `print("k is", k.index, x)`'),
    ("if elect: wait stores", "TK101", "elect", "an election is `elect:`"),
    ("__syncthreads()", "TK101", "__syncthreads", "`sync cta` is of all threads of the CTA"),
    ("bar.sync 1, 128", "TK101", "bar", "`sync 1, 128` is barrier 1"),
    ("fence.proxy.async", "TK101", "fence.proxy.async", "`fence proxy shared`"),
    ("fence.proxy.async.shared", "TK101", "fence", "`fence proxy shared`"),
    ("mbarrier.arrive(full[0])", "TK101", "mbarrier.arrive(full[0])", "`arrive full[slot]`"),
    ("wgmma.wait_group(1)", "TK101", "wgmma.wait_group(1)", "`wait products <= 1`"),
    # numbers
    ("tile = i // 2; j = tile", "TK103", "tile", "give the value another name"),
    ("j = cdiv(i, 2.0)", "TK106", "cdiv(i, 2.0)", "`cdiv` takes integers"),
]


@pytest.mark.parametrize(("line", "code", "text", "told"), CASES, ids=[c[0] for c in CASES])
def test_a_mistake_is_explained_at_its_place(line: str, code: str, text: str, told: str) -> None:
    said = only(mistakes(with_line(line)))
    assert (said.code, said.text) == (code, text), said.message
    assert told in said.message


@pytest.mark.parametrize(
    ("line", "text", "told"),
    [
        ("arrive full[i], at = 2", "2", "a CTA's rank is 0 to 1 in a cluster of 2, not 2"),
        ("expect full[i], 8, at = 0 - 1", "0 - 1", "0 to 1"),
        ("load x[i] <- X[m, n0], one, multicast = 4", "4", "a mask of CTAs is 0 to 3"),
        ("commit full[i], multicast = 7", "7", "a mask of CTAs is 0 to 3"),
        ("copy x[i] <- x[0], one, at = 2", "2", "a CTA's rank is 0 to 1"),
        ("copy x[i] <- v, one, at = 1", "x[i] <- v", "and v is [8]: a copy keeps the shape"),
    ],
)
def test_ranks_and_masks_lie_in_the_cluster(line: str, text: str, told: str) -> None:
    cluster = ("launch persistent", "launch persistent, cluster(2)")
    said = only(mistakes(changed(with_line(line), cluster)))
    assert (said.code, said.text) == ("TK104", text)
    assert told in said.message


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("copy x[i] <- x[0]", "TK101", "at = rank`, with the barrier there that it signals"),
        ("copy x[i] <- x[0], one", "TK101", "at = rank`, with the CTA that it goes to"),
        ("copy x[i] <- X[m, n0], one, at = 1", "TK106", "expected a slot such as `a[slot]`"),
        ("copy w <- v, one, at = 1", "TK105", "w is i32 and v is f32: a copy keeps the dtype"),
    ],
)
def test_a_copy_between_ctas_names_a_slot_a_barrier_and_a_cta(
    line: str, code: str, told: str
) -> None:
    cluster = ("launch persistent", "launch persistent, cluster(2)")
    said = only(mistakes(changed(with_line(line), cluster)))
    assert said.code == code
    assert told in said.message


def test_a_pair_is_a_cluster_of_two_with_halves_of_b() -> None:
    pair = (", not k.first", ", not k.first, pair")
    assert "`launch cluster(2)`" in only(mistakes(changed(LEVEL2, pair))).message
    cluster = ("launch persistent", "launch persistent, cluster(2)")
    said = only(mistakes(changed(LEVEL2, pair, cluster)))
    assert (said.code, "makes [128, 512]" in said.message) == ("TK104", True)
    said = only(mistakes(changed(LEVEL2, (", not k.first", ", not k.first, pear"))))
    assert (said.code, said.text) == ("TK102", "pear")


def test_a_dependent_kernel_may_wait_where_it_says() -> None:
    dependent = ("launch persistent", "launch persistent, dependent")
    compiled(changed(with_line("wait pdl", "elect: arrive pdl"), dependent))


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("barrier one, count = 1", "barrier one", "TK116", "how many arrivals"),
        ("barrier one, count = 1", "barrier one, arrivals = 1", "TK116", "one option"),
        ("barrier one, count = 1", "barrier x, count = 1", "TK103", "defined twice"),
        ("barrier one, count = 1", "barrier one, count = 1 << 20", "TK209", "at most 1048575"),
        ("barrier one, count = 1", "barrier one, count = n & 3", "TK106", "is an integer"),
        ("barrier one, count = 1", "barrier one * 0, count = 1", "TK117", "at least 1"),
        ("barrier one, count = 1", "barrier one, count = 2_000_000", "TK209", "at most 1048575"),
    ],
)
def test_a_declaration_is_checked(old: str, new: str, code: str, told: str) -> None:
    said = only(
        mistakes(changed(with_line("wait one, 0"), (old, new), ("wait one, 0", "sync warp")))
    )
    assert said.code == code
    assert told in said.message


def test_a_product_is_checked() -> None:
    for old, new, code, told in (
        ("b[slot].T", "b[slot]", "TK104", "64 is not 256"),
        ("b[slot].T", "a[slot].T", "TK104", "makes [128, 128]"),
        ("mma d[i]", "mma d", "TK116", "d has 2 slots"),
        (", not k.first", ", k.index", "TK106", "expected a condition"),
        ("a[slot] @", "d[i] @", "TK106", "not a slot of d"),
        ("read(d[i], j * WIDTH, WIDTH)", "read(d[i], 224, WIDTH)", "TK104", "columns 224 to 288"),
        ("read(d[i], j * WIDTH, WIDTH)", "read(d[i], j * WIDTH, 32)", "TK104", "[128, 64]"),
    ):
        said = only(mistakes(changed(LEVEL2, (old, new))))
        assert said.code == code, said.message
        assert told in said.message


def test_a_tile_of_a_pipe_has_no_slots_by_number() -> None:
    line = "d += a @ b.T; wait stores; mma d[0] += a[0] @ b[0]"
    said = only(mistakes(changed(GEMM, ("d += a @ b.T", line))))
    assert (said.code, said.text) == ("TK108", "d[0]")
    assert "rides in pipe result" in said.message
    assert "takes tiles of no pipe" in said.message  # it is open here


def test_a_tile_that_no_pipe_carries_is_used_by_slots() -> None:
    said = only(mistakes(with_line("x <- read(x[0])")))
    assert (said.code, said.text) == ("TK108", "x")
    assert "`x[0]`" in said.message


def test_every_command_becomes_its_operation() -> None:
    module = compiled(
        with_line(
            "arrive full[i], 2, each = thread",
            "arrive full[i], each = warp",
            "wait full[i], i, relaxed, cluster",
            "fence acq_rel gpu; fence sc sys; fence proxy all; fence tcgen05 before; fence products",
            "sync role; sync warp; sync cta; sync 5, 128",
            "registers dec 40",
            "elect warp: commit full[i]; arrive one",
            "elect: store Y[m, n0] <- x[i]; commit stores; wait stores <= 3, read",
            "commit products; wait products <= 2",
            "for j in range(1, n, 2): wait full[j % 2], 1",
            "while i < n: i = i + 1",
            "p = try_wait(one, 0) or not try_wait(full[i], i, relaxed, cluster)",
        )
    )
    arrivals = operations(module, s.MbarrierArriveOp)
    assert [(a.by.data, a.count.value.data if a.count else 1) for a in arrivals] == [
        ("all", 2), ("lane", 1), ("one", 1),
    ]  # fmt: skip
    relaxed = operations(module, s.MbarrierWaitOp)[1]
    assert (relaxed.sem.data, relaxed.scope.data) == ("relaxed", "cluster")
    first, second = operations(module, TryWaitOp)
    assert (first.sem, second.sem.data, second.scope.data) == (None, "relaxed", "cluster")
    assert [(f.sem.data, f.scope.data) for f in operations(module, FenceOp)] == [
        ("acq_rel", "gpu"), ("sc", "sys"),
    ]  # fmt: skip
    named = operations(module, NamedBarrierOp)
    assert [(b.number.value.data, b.threads.value.data if b.threads else 0) for b in named] == [
        (0, 0), (5, 128),
    ]  # fmt: skip
    assert [(r.action.data, r.count.value.data) for r in operations(module, RegistersOp)] == [
        ("dec", 40)
    ]
    assert [e.scope.data for e in operations(module, s.ElectedOp)] == ["one", "lane", "one"]
    (expect,) = operations(module, s.MbarrierExpectOp)
    assert expect.bytes.value.data == 64 * 64 * 2
    assert len(operations(module, TmaLoadOp)) == len(operations(module, WhileOp)) == 1
    ids = [op.id.data for op in module.walk() if isinstance(getattr(op, "id", None), s.StringAttr)]
    assert len(set(ids)) == len(ids)
    assert all(".user." in i for i in ids)


def test_what_changes_in_a_loop_is_carried_and_what_does_not_is_not() -> None:
    module = compiled(with_line("j = 3", "if i == 1:", "    i = 0", "wait full[j % 2], 0"))
    (loop,) = operations(module, ForTilesOp)
    assert [r.name_hint for r in loop.results] == ["i"]
    (branch,) = [b for b in operations(module, s.IfOp) if b.results]
    assert [r.name_hint for r in branch.results] == ["i"]
    assert len(branch.regions) == 2


def test_a_name_set_under_a_condition_alone_is_unset_behind_it() -> None:
    said = only(mistakes(with_line("if i == 1:", "    j = 0", "wait full[j], 0")))
    assert (said.code, said.text) == ("TK102", "j")


def test_a_loop_over_listed_values_is_written_out() -> None:
    module = compiled(with_line("for j in 1, 0: arrive full[j]", "for j in unroll(3): arrive one"))
    assert len(operations(module, s.MbarrierArriveOp)) == 5


def test_slots_parts_columns_and_predicates() -> None:
    module = compiled(LEVEL2)
    assert len(operations(module, SlotOp)) == 8
    (part,) = operations(module, PartAtOp)
    assert part.part.type.size.data == 64
    (read,) = operations(module, ReadColumnsOp)
    assert len(read.nonzero) == 1
    assert len(operations(module, RestartOp)) == 1


def test_a_pipe_and_barriers_stand_in_one_kernel() -> None:
    text = changed(
        GEMM,
        ("    role load:", "    barrier extra, count = 1\n    role load:"),
        ("            put result:", "            arrive extra\n            put result:"),
    )
    assert len(operations(compiled(text), s.MbarrierArriveOp)) == 1


def test_bits_of_known_numbers_are_numbers() -> None:
    """`* (1 << 1)` is a depth; beside a variable of the kernel they stay the kernel's."""
    usual = with_line("sync warp")
    text = changed(
        usual, ("[bf16, BM, BN] * 2", "[bf16, BM, BN] * (1 << (3 & 5))"), ("* 2", "* (6 >> 3 ^ 2)")
    )
    assert str(compiled(text)) == str(compiled(usual))


def test_full_is_a_barrier_and_a_function() -> None:
    """What is called is a function: `full[i]` is the barrier beside it."""
    text = changed(elementwise("Z[m, n] <- read(y) + t", before="t = full(0)"),
                   ("    pipe p", "    barrier full * 2, count = 1\n    pipe p"))  # fmt: skip
    assert not mistakes(text)


def test_a_barrier_and_registers_may_be_reckoned() -> None:
    """`1 + BM // BN` is a barrier's number as `2` is, and a param a count of registers."""
    text = with_line("sync BM // BN + 1, 32", "arrive 2 * 3 - STEP, 64", "registers dec MORE")
    text = changed(text, ("BN = 64\n", "BN = 64, MORE = 40, STEP = 1\n"))
    plain = changed(text, ("BM // BN + 1", "2"), ("2 * 3 - STEP", "5"), ("dec MORE", "dec 40"))
    assert str(compiled(text)) == str(compiled(plain))
    numbers = [op.number.value.data for op in operations(compiled(text), NamedBarrierOp)]
    assert numbers == [2, 5]


@pytest.mark.parametrize("of", ["M", "cdiv(N, 2)", "2 * N"])
def test_a_param_is_made_of_no_extent(of: str) -> None:
    said = only(mistakes(changed(with_line("sync warp"), ("BM = 64", f"BM = {of}"))))
    assert (said.code, said.text) == ("TK111", "N" if "N" in of else "M")
    assert "only the launch knows" in said.message


def test_numbers_that_the_kernel_knows_are_divided_upwards() -> None:
    text = """\
kernel k(X: global[i32, N], Y: global[i32, N]):
    launch persistent
    schedule work: n in tiles(blocks(N, 32))
    role all, warps 1:
        for n in work:
            i = n.index * 32 + lane
            if i < N: Y[i] <- cdiv(read(X[i]), lane + 1) + cdiv(i, 7)
"""
    x: Any = np.random.default_rng(3).integers(0, 10**9, 50).astype(np.int32)
    y = np.zeros_like(x)
    assert not tkc.compile(text).emulate(x, y, sm_count=1).findings
    i = np.arange(50)
    assert (y == -(-x.astype(np.int64) // (i % 32 + 1)) - (-i // 7)).all()


@pytest.mark.parametrize(
    ("line", "number", "threads"),
    [
        ("sync 1 + 2 * 3, 32", 7, 32),
        ("sync BM // 16 - 1, BM - 32", 3, 32),
        ("arrive 9 - 3 - 2, 64", 4, 64),
        ("for j in unroll(1): sync j + 2, 32", 2, 32),
        ("sync BM % 7, 32", 1, 32),
    ],
)
def test_the_number_of_a_barrier_may_be_computed(line: str, number: int, threads: int) -> None:
    module = compiled(with_line(line))
    [found] = [op for op in module.walk() if isinstance(op, NamedBarrierOp)]
    assert (found.number.value.data, found.threads.value.data) == (number, threads)
